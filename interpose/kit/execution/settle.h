/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one look at a lane finds: what is complete, and how much device time it took.
 *
 * Owns: the arithmetic between events, counts and estimates; reporting to the limiter.
 * Never: sleeps. All of it is called by who has the turn to look (track.h).
 */
#ifndef FACET_FLIGHT_SETTLE_H
#define FACET_FLIGHT_SETTLE_H

#include "lane.h"

struct facet_flight_look {
    bool reported;    /* something was complete */
    uint64_t next_ns; /* when something else is expected to be; UINT64_MAX: nothing is in flight */
    /* Of each vGPU: since when device time is not reported; 0: nothing of it is in flight. */
    uint64_t since_ns[FACET_FLIGHT_DEVICES];
};

void facet_flight_settle(struct facet_flight_lane *lane, uint64_t now_ns, struct facet_flight_look *look);

/* The same of what the program waited for, and of nothing else: only streams are asked for of which that is in doubt.
 * In any thread. */
void facet_flight_settle_waited(struct facet_flight_lane *lane, uint64_t now_ns, struct facet_flight_look *look);

/* Whether all of the lane is reported. Under the track lock. */
bool facet_flight_settled(const struct facet_flight_lane *lane);

#endif
