/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `fair` policy: virtual-time fair queueing over leases on one device.
 *
 * Owns: virtual times, leases, caps and priorities of the clients of one device.
 * Never: reads a clock, touches a segment, sleeps or allocates. State and time in, decisions out.
 *
 * A client (a vGPU) that wants the device gets a lease: the exclusive right to launch for one turn. Turns are short
 * enough that every client that wants the device has one in each round. A client's part of the round is its part of the
 * weights. A turn is counted in work: while other clients wait, the gate closes when the work in flight reaches the end
 * of the turn, or when the next launch would exceed that end. The work in flight then drains, and the client with the
 * least device time per weight goes next. It goes a moment before the drain is expected to end, because a hand-over
 * passes through four threads and the device would idle meanwhile.
 *
 * A lease costs the time in which it kept others off the device. While several clients are on the device at once (an
 * overrun, or leases allowed in parallel), each is charged its part of that time. A client without a cap that is alone
 * on the device is not scheduled: its gate is open.
 *
 * All times are nanoseconds of one monotonic clock; shares are milli of the device. Not thread-safe: one scheduler
 * calls it.
 */
#ifndef FACET_COMPUTE_FAIR_H
#define FACET_COMPUTE_FAIR_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/limits.h>

#define FACET_FAIR_CLIENTS 128u
#define FACET_FAIR_NEVER   UINT64_MAX

struct facet_fair_config {
    bool by_work;           /* turns are counted in work; else in time, plus the work in flight at a turn's end */
    uint64_t slice_ns;      /* the longest turn while others wait; with leases in parallel, each turn */
    uint64_t round_ns;      /* the time in which every client that wants the device is to have a turn */
    uint64_t least_turn_ns; /* the shortest turn, however many clients take part in the round */
    uint64_t grace_ns;      /* how long a leased client may have nothing in flight before it loses the lease */
    uint64_t overrun_ns;    /* a drain this long after the turn's end no longer holds up the next client */
    uint64_t alone_ns;      /* after this time without another client: open the gate */
    uint64_t burst_ns;      /* device time a capped client may use at once */
    uint64_t handover_ns;   /* how long before the expected end of the work in flight the next client is let in */
    uint64_t bonus_ns;      /* head start of a priority level, in virtual time of a whole device */
    uint32_t parallel;      /* leases at a time; 1 = exclusive */
};

/*
 * facet_fair_defaults were measured in bench/share. facet_fair_queue is for a device that runs the launches of all
 * vGPUs in order, as a GPU's queue does (docs/adr/0003). On such a device the work of a client that is let in early
 * waits for the other's work. On other devices both run at once for that moment, and short turns would gain more from
 * that than long turns. So there turns are counted in time, and are equal.
 */
extern const struct facet_fair_config facet_fair_defaults, facet_fair_queue;

/* A client's demand, read from its segment just before a step. */
struct facet_fair_demand {
    uint32_t waiting;       /* threads waiting to launch */
    uint32_t inflight;      /* launches on the device */
    uint64_t busy_ns;       /* device time it has measured, cumulative; charged to its cap */
    uint64_t idle_since_ns; /* when its last work ended; low bit set: an upper bound. With nothing in flight: since when
                               it is idle */
    uint64_t inflight_ns;   /* expected length of the work in flight; 0 = unknown */
    uint32_t lost_launches; /* launches of stopped processes, whose ends are not followed */
};

/* One process of a client, as its segment describes it. */
struct facet_fair_process {
    uint32_t waiting, inflight;
    uint64_t inflight_ns, idle_since_ns;
    uint64_t alive_ns; /* when it last showed that it lives; 0 = it never does */
};

enum facet_fair_gate {
    FACET_FAIR_CLOSED = 0,
    FACET_FAIR_LEASED = 1,
    FACET_FAIR_OPEN = 2,
};

struct facet_fair_client {
    bool used, frozen;
    uint32_t request_milli, limit_milli, priority;
    struct facet_fair_demand demand;

    enum facet_fair_gate gate; /* the decision */
    uint64_t depth_ns;         /* the decision: how much expected work may be in flight */
    uint64_t vtime;            /* device time had, divided by weight, in ns of a whole device */
    uint64_t weight_milli;
    uint64_t launch_ns; /* expected length of one launch, from the last launches in flight; 0: unknown */
    uint64_t lease_start_ns, lease_end_ns; /* its turn; the start is when its first launch is expected to begin */
    uint64_t last_wanted_ns;               /* when it last had work waiting or in flight */
    bool active;                           /* wanted or had the device at the last step */
    bool draining;                         /* gate closed, work still in flight */
    bool overrun;                          /* draining for too long: no longer holds others up */
    uint64_t charged_ns;                   /* device time charged in all */
    uint64_t timeline_ns; /* of charged_ns, by the device's timeline: all clients together never more than has passed */

    uint32_t lost_launches;       /* as of the last step */
    bool lost_returned;           /* some of the lost launches are followed again, and not reported yet */
    uint64_t reported_charged_ns; /* charged_ns as of the last report, or while nothing was in flight */

    int64_t cap_credit_ns; /* of a capped client */
    uint64_t cap_busy_ns;  /* busy_ns up to which the cap was charged */
};

struct facet_fair {
    struct facet_fair_config config;
    struct facet_fair_client clients[FACET_FAIR_CLIENTS];
    uint32_t clients_end; /* one past the highest client ever used: no loop goes further */
    uint64_t last_ns;
    uint64_t handed_over_ns; /* when a drain last ended (low bit set: an upper bound); work submitted before may begin
                                only then */
    uint64_t free_ns;        /* when the work on the device is expected to end */
    uint64_t round_milli;    /* the weights of all clients that want the device */
    uint64_t vtime_floor;    /* virtual time of the device: no client that comes back starts before it */
};

void facet_fair_init(struct facet_fair *fair, const struct facet_fair_config *config, uint64_t now_ns);

/* Adds a client; returns its index, or -1 when all FACET_FAIR_CLIENTS are used. Its gate starts closed. */
int facet_fair_add(struct facet_fair *fair, const struct facet_limits *limits);
void facet_fair_remove(struct facet_fair *fair, int client);
void facet_fair_set_limits(struct facet_fair *fair, int client, const struct facet_limits *limits);
void facet_fair_set_frozen(struct facet_fair *fair, int client, bool frozen);

/*
 * Adds a process to its client's demand. Its state counts for as long as it shows signs of life: after a tenth of a
 * second without one it no longer counts as waiting, and its launches are lost after a second and several times their
 * expected length. When it shows a sign of life again, it counts as a client that was idle until now.
 */
void facet_fair_demand_add(struct facet_fair_demand *demand, const struct facet_fair_process *process, uint64_t now_ns);

/*
 * One step: charges the time since the last step, then decides every client's gate from clients[i].demand. Returns the
 * latest time (absolute ns) at which it must be called again; FACET_FAIR_NEVER when only a new demand can change
 * anything.
 */
uint64_t facet_fair_step(struct facet_fair *fair, uint64_t now_ns);

/*
 * When other clients' last work on an in-order device ended: launches of this client's turn did not begin before that.
 * Low bit set: an upper bound. 1: other clients still have work on the device. 0: unknown.
 */
uint64_t facet_fair_others_ended_ns(struct facet_fair *fair, int client);

/*
 * The share that a client keeps to while no scheduler lives: its guarantee; for best effort, an equal part of what the
 * guarantees leave free.
 */
uint32_t facet_fair_fallback_milli(const struct facet_fair *fair, int client);

#endif
