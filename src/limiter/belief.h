/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of a vGPU's totals can be believed.
 *
 * Owns: bounds on what a segment's sums can be, from one look to the next. Never: repairs anything, or reads a clock.
 *
 * The page is the tenants' to write, and a program that goes wild writes anywhere. Counters only grow, and no faster
 * than there is time; memory is never more than the largest quota that the vGPU had. A counter that broke the rule once
 * is not believed again: nobody knows what it was. Small damage looks like work, and is not found.
 *
 * What remains believable, because it can be true: memory up to the largest quota; device time of one slot, at once, as
 * long as the vGPU is old (a process that was stopped reports everything when it goes on), four times, and an hour more
 * (belief.c says why); time that threads waited, for very many threads; a launch and a refusal for each nanosecond.
 */
#ifndef FACET_LIMITER_BELIEF_H
#define FACET_LIMITER_BELIEF_H

#include "limiter/segment.h"

#define FACET_BELIEVED_MEMORY    (UINT32_C(1) << 0)
#define FACET_BELIEVED_PEAK      (UINT32_C(1) << 1)
#define FACET_BELIEVED_BUSY      (UINT32_C(1) << 2)
#define FACET_BELIEVED_LAUNCHES  (UINT32_C(1) << 3)
#define FACET_BELIEVED_THROTTLED (UINT32_C(1) << 4)
#define FACET_BELIEVED_DENIED    (UINT32_C(1) << 5)
#define FACET_BELIEVED_ALL       ((UINT32_C(1) << 6) - 1)

/* One per segment that is looked at; all 0 before the first look. With `begun` and `at_ns` 0 it begins anew with what
 * there is, and keeps its doubts. An owner keeps it in a file (owner_belief.c). */
struct facet_belief {
    uint32_t begun;
    uint32_t doubted;     /* of the counters: for good */
    uint64_t memory_most; /* that the vGPU's processes can ever have held; for who keeps it here */
    uint64_t since_ns;    /* CLOCK_MONOTONIC of when nobody had been in it yet; 0: before the first look */
    uint64_t first_ns;    /* the most device time of one slot at that look */
    uint64_t at_ns;       /* of the last look, and what it found */
    uint64_t busy_ns, launches, throttled_ns, denied;
};

/* Which of `totals` can be believed (FACET_BELIEVED_*), as nobody can hold more than `memory_most` bytes. */
uint32_t facet_belief_look(struct facet_belief *belief, const struct facet_usage_totals *totals, uint64_t memory_most,
                           uint64_t now_ns);

#endif
