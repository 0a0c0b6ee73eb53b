/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Published device time: the time that vGPUs measured, settled against the time that has passed.
 *
 * Owns: the part of its measured time that each vGPU is credited with.
 * Never: schedules, reads a clock or a segment. State and time in, numbers out.
 *
 * Each vGPU measures its own launches from their start to their end. Where two of them overlap, which they do at each
 * hand-over, the same moment is measured twice. The policy (fair.h) charges a moment once, and the published time is
 * never more than that. So three rules hold, whatever is measured:
 *  - Settled: a vGPU's measured time, up to its charge while the work was in flight. vGPUs unknown to the policy (they
 *    take no turns) each get a part of the time that passed, in proportion to their measured time. A vGPU that has a
 *    part of the device to itself measures that part's time, which counts as that part of the device's.
 *  - While nothing settles, readers count for each vGPU what it measures, up to its part of the time (claim_milli). The
 *    next step or scheduler settles at least that, so no reader sees a number fall.
 *  - Published: the settled time, but over any window at most the window, over all vGPUs of the device. A launch of
 *    five seconds is measured when it ends; it is published over the five seconds that follow.
 *
 * Not thread-safe: one scheduler calls it.
 */
#ifndef FACET_COMPUTE_SETTLE_H
#define FACET_COMPUTE_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

#define FACET_SETTLE_CLIENTS 128u

/*
 * The longest time between two steps after which no reader counts the clients' parts: half of the age at which readers
 * stop to believe the published time (FACET_HEARTBEAT_STALE_NS).
 */
#define FACET_SETTLE_STEP_MOST_NS UINT64_C(200000000)

/* The part of a client's state that outlives a scheduler. All 0 for a new vGPU. */
struct facet_settled {
    uint64_t at_ns;        /* when the client was last settled; 0: never */
    uint64_t measured_ns;  /* the measured time that was settled, cumulative */
    uint64_t settled_ns;   /* cumulative device time */
    uint64_t published_ns; /* the published part of settled_ns */
};

/* A vGPU's readings just before a step; the work in flight is read before the measured time. */
struct facet_settle_demand {
    uint64_t measured_ns; /* cumulative */
    uint64_t begun_ns;    /* since when something has been in flight; 0: nothing is */
    uint64_t charged_ns;  /* the policy's charge, cumulative: facet_fair_client.timeline_ns */
    uint32_t claim_milli; /* its part of the time in which nothing settled, which readers count for it meanwhile */
};

struct facet_settle_client {
    bool used;
    bool charged_by_policy;  /* the policy charges it */
    bool covers_missed_time; /* the next report may cover work in flight from a time without a scheduler */
    uint32_t part_milli;     /* the part of the device that it has to itself; FACET_MILLI_WHOLE: it shares the device */
    struct facet_settle_demand demand;

    struct facet_settled total;
    uint64_t credited_charge_ns; /* charged_ns already given out as credit */
    uint64_t credit_ns;          /* credit that it has, for work that is not measured yet */
    uint64_t wanted_ns;          /* its want; only within a step */
};

struct facet_settle {
    struct facet_settle_client clients[FACET_SETTLE_CLIENTS];
    uint32_t clients_end;     /* one past the highest client ever used */
    uint64_t last_step_ns;    /* time of the last step */
    uint64_t published_at_ns; /* up to when time was given out for publishing */
    uint64_t gap_ns;          /* the time in which there was no scheduler */
    uint64_t parts_left_ns;   /* the part of gap_ns for clients that are not added yet */
    uint64_t missed_ns;       /* the part of gap_ns that clients left unused, for work that is reported later */
    uint64_t unpublished_ns;  /* the part of gap_ns that was not published yet */
    bool gap_found;           /* a time without a scheduler was found, so gap_ns is set */
};

void facet_settle_init(struct facet_settle *settle, uint64_t now_ns);

/*
 * Adds a client at index `index`, with its state from an earlier scheduler. Time measured since then is settled and
 * published now: first up to the client's part (claim_milli), then from what is left of others' parts. Work that was in
 * flight then is settled when it is reported, as far as the missed time suffices for all clients. So the caller adds
 * all such clients before it lets the numbers be read.
 */
void facet_settle_add(struct facet_settle *settle, uint32_t index, bool charged_by_policy, uint32_t part_milli,
                      const struct facet_settled *before, const struct facet_settle_demand *demand, uint64_t now_ns);
void facet_settle_remove(struct facet_settle *settle, uint32_t index);

/* Settles the time measured since the last step, from clients[i].demand, and publishes. */
void facet_settle_step(struct facet_settle *settle, uint64_t now_ns);

/* Only publishes settled time: for a reader between two steps. */
void facet_settle_publish(struct facet_settle *settle, uint64_t now_ns);

#endif
