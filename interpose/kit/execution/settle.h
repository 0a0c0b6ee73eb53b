/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reading of a counter: which launches are complete, and how much device time they took.
 *
 * Owns: the arithmetic between events, counts and estimates; reporting to the limiter.
 * Never: sleeps. Only the thread that holds the look lock (track.h) calls these functions.
 */
#ifndef FACET_FLIGHT_SETTLE_H
#define FACET_FLIGHT_SETTLE_H

#include "counter.h"

struct facet_flight_look {
    bool reported;        /* some launch was complete */
    uint64_t next_end_ns; /* when the next launch is expected to be complete; UINT64_MAX: nothing is in flight */
    /* For each vGPU the time since which device time is unreported; 0: none of its work is in flight. */
    uint64_t unreported_since_ns[FACET_FLIGHT_DEVICES];
};

void facet_flight_settle(struct facet_flight_counter *counter, uint64_t now_ns, struct facet_flight_look *look);

/*
 * Settles only launches that the program has waited for. Queries only the streams of which it is uncertain whether the
 * program has waited for them. Called by any thread that holds the look lock.
 */
void facet_flight_settle_waited(struct facet_flight_counter *counter, uint64_t now_ns, struct facet_flight_look *look);

/* Whether everything in the counter is reported. Called with the track lock. */
bool facet_flight_settled(const struct facet_flight_counter *counter);

#endif
