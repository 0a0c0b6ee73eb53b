/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one look at a lane finds: what is complete, and how much device time it took.
 *
 * Owns: the arithmetic between events, counts and estimates; reporting to the limiter.
 * Never: sleeps. All of it is called by the helper's thread.
 */
#ifndef FACET_CUDA_SETTLE_H
#define FACET_CUDA_SETTLE_H

#include "lane.h"

struct facet_cuda_look {
    bool reported;    /* something was complete */
    uint64_t next_ns; /* when something else is expected to be; UINT64_MAX: nothing is in flight */
};

void facet_cuda_settle(struct facet_cuda_lane *lane, uint64_t now_ns, struct facet_cuda_look *look);

/* Whether all of the lane is reported. Under the track lock. */
bool facet_cuda_settled(const struct facet_cuda_lane *lane);

/* The helper's right to ask the driver for something of the program's (track.c): false while somebody holds it off. */
bool facet_cuda_track_ask(void);
void facet_cuda_track_asked(void);

#endif
