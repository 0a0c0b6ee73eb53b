/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is published of one device's time: the time that vGPUs measured, settled against the time that has passed.
 *
 * Owns: how much of its measured time each vGPU is said to have had.
 * Never: decides whose turn it is, reads a clock or a segment. State and time in, numbers out.
 *
 * Each vGPU measures its own launches from their start to their end. Where two of them overlap, which they do at each
 * hand-over, the same moment is measured twice. The policy (fair.h) charges a moment once: this room publishes no more
 * than that. So two rules hold, whatever is measured:
 *  - Settled: of what a vGPU measured, as much as it was charged while the work was in flight. Of vGPUs that the policy
 *    does not know (they take no turns) each has a part of the time that passed, in proportion to what they measured.
 *    Whoever has a part of the device for itself measures that part's time, which counts as that part of the device's.
 *  - Published: what is settled, but over any window at most the window, over all vGPUs of the device. A launch of five
 *    seconds is measured when it ends; it is published over the five seconds that follow.
 *
 * Not thread-safe: one scheduler calls it.
 */
#ifndef FACET_COMPUTE_SETTLE_H
#define FACET_COMPUTE_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

#define FACET_SETTLE_CLIENTS 128u

/* What lives longer than a scheduler, and what it goes on from. All 0 for a new vGPU. */
struct facet_settled {
    uint64_t at_ns;        /* when it was last settled; 0: never */
    uint64_t measured_ns;  /* cumulative, up to which it was */
    uint64_t settled_ns;   /* cumulative device time */
    uint64_t published_ns; /* the same, as far as it is published; never more than settled_ns */
};

/* What is read of a vGPU just before a step; what is in flight before what was measured. */
struct facet_settle_demand {
    uint64_t measured_ns; /* cumulative */
    uint64_t begun_ns;    /* since when something has been in flight; 0: nothing is */
    uint64_t charged_ns;  /* cumulative, by the policy: facet_fair_client.timeline_ns */
};

struct facet_settle_client {
    bool used;
    bool timed;          /* the policy charges it */
    bool older;          /* what is reported next may have been in flight while there was no scheduler */
    uint32_t part_milli; /* of the device, that it has to itself; FACET_MILLI_WHOLE: it shares all */
    struct facet_settle_demand demand;

    struct facet_settled total;
    uint64_t seen_charged_ns; /* charged_ns up to which it was given out */
    uint64_t credit_ns;       /* given to it, for work of which nothing is measured yet */
    uint64_t wanted_ns;       /* within a step */
};

struct facet_settle {
    struct facet_settle_client clients[FACET_SETTLE_CLIENTS];
    uint32_t top;             /* one past the highest client ever used */
    uint64_t last_ns;         /* of the last step */
    uint64_t published_at_ns; /* up to when time was given out for publishing */
    uint64_t missed_ns;       /* time in which there was no scheduler, not given out yet */
    uint64_t unpublished_ns;  /* of the same time, for publishing */
    bool missed;              /* that was found out */
};

void facet_settle_init(struct facet_settle *settle, uint64_t now_ns);

/*
 * Adds a client at a place of the caller's choice, with what an earlier scheduler left. What it measured while there
 * was none is settled and published now, and what was in flight then is settled when it is reported, as far as that
 * time goes for all clients. So all that come from there are to be added before anybody reads what is published.
 */
void facet_settle_add(struct facet_settle *settle, uint32_t place, bool timed, uint32_t part_milli,
                      const struct facet_settled *before, const struct facet_settle_demand *demand, uint64_t now_ns);
void facet_settle_remove(struct facet_settle *settle, uint32_t place);

/* Settles what was measured since the last step, from clients[i].demand, and publishes. */
void facet_settle_step(struct facet_settle *settle, uint64_t now_ns);

/* Only publishes, of what is settled: for who reads between two steps. */
void facet_settle_publish(struct facet_settle *settle, uint64_t now_ns);

#endif
