/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times when this process did not run: stopped by a signal or a debugger, frozen with its container. A driver inside
 * the process did nothing then, so the durations in its events are too long.
 *
 * Owns: detecting stops from missing ticks, and the newest of them, on this machine's clock.
 * Never: reads a clock, or reports a stop while the process used its processors.
 */
#ifndef FACET_INTERPOSE_STOPS_H
#define FACET_INTERPOSE_STOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "busy.h"

#define FACET_STOPS_MOST 8u

/* The longest time between ticks, and the shortest stop that counts. */
#define FACET_STOPS_TICK_NS  UINT64_C(10000000)
#define FACET_STOPS_LEAST_NS UINT64_C(100000000)

struct facet_stops {
    uint64_t ticked_ns, ticked_cpu_ns; /* 0: no tick is expected */
    uint32_t count;
    struct facet_interval intervals[FACET_STOPS_MOST]; /* ascending */
    /* This machine's clock minus the device's, as far as known. */
    int64_t ahead_ns;
    uint64_t ahead_known_ns; /* when it was learned; 0: never */
};

/* Whether a tick is due, so that reading the clocks is worthwhile. */
bool facet_stops_tick_is_due(const struct facet_stops *stops, uint64_t now_ns);

/* `cpu_ns`: processor time of the process. The next tick must follow within FACET_STOPS_TICK_NS. */
void facet_stops_tick(struct facet_stops *stops, uint64_t now_ns, uint64_t cpu_ns);

/* Says that the next tick may come at any time: a late tick is then no stop. */
void facet_stops_rest(struct facet_stops *stops);

/* Says that the device's clock showed `device_ns` at `now_ns`, or shortly before. */
void facet_stops_learn_clock(struct facet_stops *stops, uint64_t device_ns, uint64_t now_ns);

/*
 * The pieces of `interval` outside of the stops; returns their number. `ahead_ns`: this machine's clock minus the clock
 * of `interval`; 0 if that is this machine's.
 */
uint32_t facet_stops_cut(const struct facet_stops *stops, int64_t ahead_ns, struct facet_interval interval,
                         struct facet_interval ret_pieces[FACET_STOPS_MOST + 1]);

#endif
