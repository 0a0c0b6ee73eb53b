/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When this process did not run: stopped by a signal or a debugger, frozen with its container. A driver that runs
 * inside the process did nothing then, and what its events say to have lasted over it did not last so long.
 *
 * Owns: telling that from ticks that did not come, and the newest of such times, on the clock of this machine.
 * Never: reads a clock, or calls it a stop when the process used its processors meanwhile.
 */
#ifndef FACET_INTERPOSE_STOPS_H
#define FACET_INTERPOSE_STOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "busy.h"

#define FACET_STOPS_MOST 8u

/* Ticks are to come at least so often; a shorter stop than the second is none. */
#define FACET_STOPS_TICK_NS  UINT64_C(10000000)
#define FACET_STOPS_LEAST_NS UINT64_C(100000000)

struct facet_stops {
    uint64_t ticked_ns, ticked_cpu_ns; /* 0: none is expected */
    uint32_t count;
    struct facet_interval intervals[FACET_STOPS_MOST]; /* ascending */
    /* How far this machine's clock is ahead of the device's, as far as is known. */
    int64_t ahead_ns;
    uint64_t ahead_known_ns; /* when it was; 0: never */
};

/* Whether a tick is worth its clocks. */
bool facet_stops_tick_is_due(const struct facet_stops *stops, uint64_t now_ns);

/* `cpu_ns`: what the process has used of its processors. Between this and the next one FACET_STOPS_TICK_NS go by. */
void facet_stops_tick(struct facet_stops *stops, uint64_t now_ns, uint64_t cpu_ns);

/* The next tick comes whenever it comes. */
void facet_stops_rest(struct facet_stops *stops);

/* The device's clock showed `device_ns` at `now_ns`, or a moment before. */
void facet_stops_learn_clock(struct facet_stops *stops, uint64_t device_ns, uint64_t now_ns);

/* What is left of [start, end) without the stops, and in how many pieces. `ahead_ns`: 0 on this machine's clock. */
uint32_t facet_stops_cut(const struct facet_stops *stops, int64_t ahead_ns, struct facet_interval whole,
                         struct facet_interval ret_pieces[FACET_STOPS_MOST + 1]);

#endif
