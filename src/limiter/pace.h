/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A budget of device time in one shared word: it fills at a share of real time, holds at most a burst, and may go into
 * debt.
 *
 * Owns: the arithmetic on the word. Never: waits, or reads a clock.
 *
 * The word is the moment up to which device time has been paid for: behind now there is credit, ahead of now there is
 * debt. Each use moves it on by the real time that the use is worth at the share. So one compare-and-swap both fills
 * and takes, any number of processes share a budget, and nothing is lost when one of them is killed.
 *
 * For uses of known cost (facet_pace_take), device time taken never exceeds share x elapsed + burst + the largest cost.
 */
#ifndef FACET_LIMITER_PACE_H
#define FACET_LIMITER_PACE_H

#include <stdatomic.h>
#include <stdint.h>

/* The most device time that may be saved up and then used at once. */
#define FACET_PACE_BURST_NS UINT64_C(10000000)

/*
 * Takes `busy_ns` and returns 0, or takes nothing and returns how long until it could. A use of more than a burst is
 * taken when the budget is full.
 */
uint64_t facet_pace_take(_Atomic uint64_t *word, uint32_t milli, uint64_t busy_ns, uint64_t now_ns);

/*
 * For work whose cost is known only afterwards: how long until the debt is paid, and the charge when the work has run.
 */
uint64_t facet_pace_owed_ns(const _Atomic uint64_t *word, uint64_t now_ns);
void facet_pace_charge(_Atomic uint64_t *word, uint32_t milli, uint64_t busy_ns, uint64_t now_ns);

/* The device time that can be taken now. */
uint64_t facet_pace_left_ns(const _Atomic uint64_t *word, uint32_t milli, uint64_t now_ns);

/* Converts the word when the share changes: credit and debt stay the same device time. */
void facet_pace_rescale(_Atomic uint64_t *word, uint32_t old_milli, uint32_t new_milli, uint64_t now_ns);

#endif
