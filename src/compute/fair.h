/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `fair` policy: whose turn it is on one device. Virtual-time fair queueing over leases.
 *
 * Owns: virtual times, leases, caps and priorities of the clients of one device.
 * Never: reads a clock, touches a segment, sleeps or allocates. State and time in, decisions out.
 *
 * A client (a vGPU) that wants the device gets a lease: the right to launch, exclusively, for a turn. Turns are as long
 * as lets everybody who wants the device have one in each round: a client's part of the round is its part of the
 * weights. A turn is counted in work: when others wait, and what is in flight reaches to its end, or the next launch
 * would reach past it, the gate is closed, what is in flight drains, and the client that has had the least device time
 * per weight goes next: a moment before the drain is expected to end, because a hand-over passes through four threads,
 * and the device would idle meanwhile. A lease costs the time it withheld the device from others: while several clients
 * are on the device at once (an overrun, or leases allowed in parallel), each is charged its part of that time. A
 * client alone on the device and without a cap is left alone: its gate is open.
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
    bool by_work;         /* turns are counted in work; else in time, and what is in flight then comes on top */
    uint64_t slice_ns;    /* the longest turn while others wait; with leases in parallel, each turn */
    uint64_t round_ns;    /* in which everybody who wants the device is to have a turn */
    uint64_t least_ns;    /* the shortest turn, however many take part in the round */
    uint64_t grace_ns;    /* how long a leased client may have nothing in flight before it loses the lease */
    uint64_t overrun_ns;  /* past the slice by this much, the next client goes although work is still in flight */
    uint64_t alone_ns;    /* nobody else wanted the device for so long: open the gate */
    uint64_t burst_ns;    /* device time a capped client may use at once */
    uint64_t handover_ns; /* the next client goes so long before the last one's work is expected to end */
    uint64_t bonus_ns;    /* head start of a priority level, in virtual time of a whole device */
    uint32_t parallel;    /* leases at a time; 1 = exclusive */
};

/*
 * The defaults, measured in bench/share, and those for a device that runs what is launched one after the other, whoever
 * launched it: a GPU's queue (docs/adr/0003). There who is let in early stands behind the other's work. Elsewhere both
 * run at once for that moment, of which short turns would gain more than long ones: so turns are of time, and alike.
 */
extern const struct facet_fair_config facet_fair_defaults, facet_fair_queue;

/* What a client wants, read from its segment just before a step. */
struct facet_fair_demand {
    uint32_t waiting;       /* threads waiting to launch */
    uint32_t inflight;      /* launches on the device */
    uint64_t busy_ns;       /* device time it has measured, cumulative: what a cap is held against */
    uint64_t idle_since_ns; /* when work last ended (odd: or before); with nothing in flight, since when it is idle */
    uint64_t inflight_ns;   /* expected length of what is in flight; 0 = unknown */
    uint32_t lost;          /* launches that nobody follows to their end: their processes are stopped */
};

/* One process of a client, by what it says of itself. */
struct facet_fair_process {
    uint32_t waiting, inflight;
    uint64_t inflight_ns, idle_since_ns;
    uint64_t seen_ns; /* when it last showed that it lives; 0 = it never does */
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
    uint64_t depth_ns;         /* with it: how much expected work may be in flight */
    uint64_t vtime;            /* device time had, divided by weight, in ns of a whole device */
    uint64_t weight_milli;
    uint64_t launch_ns;                    /* what a launch of its takes, as of the last in flight; 0: not known */
    uint64_t lease_start_ns, lease_end_ns; /* its turn; the start is when the device is expected to come to it */
    uint64_t last_wanted_ns;               /* when it last had work waiting or in flight */
    bool active;                           /* wanted or had the device at the last step */
    bool draining;                         /* gate closed, work still in flight */
    bool overrun;                          /* draining for too long: no longer holds others up */
    uint64_t held_ns;                      /* device time charged in all */
    uint64_t timeline_ns; /* of that, what the device's timeline says: over all clients never more than has passed */

    uint32_t lost;             /* as of the last step */
    bool returning;            /* some of those are followed again, and not reported yet */
    uint64_t reported_held_ns; /* held_ns as of the last report, or while nothing was in flight */

    int64_t cap_credit_ns; /* of a capped client */
    uint64_t cap_busy_ns;  /* busy_ns up to which the cap was charged */
};

struct facet_fair {
    struct facet_fair_config config;
    struct facet_fair_client clients[FACET_FAIR_CLIENTS];
    uint32_t top; /* one past the highest client ever used: no loop goes further */
    uint64_t last_ns;
    uint64_t handed_over_ns; /* when a drain last ended (odd: or before): work submitted before may begin only then */
    uint64_t free_ns;        /* when the device is expected to be through with what is on it */
    uint64_t round_milli;    /* the weights of all who want the device */
    uint64_t floor;          /* virtual time of the device: no client that comes back starts before it */
};

void facet_fair_init(struct facet_fair *fair, const struct facet_fair_config *config, uint64_t now_ns);

/* Adds a client; returns its index, or -1 when all FACET_FAIR_CLIENTS are used. Its gate starts closed. */
int facet_fair_add(struct facet_fair *fair, const struct facet_limits *limits);
void facet_fair_remove(struct facet_fair *fair, int client);
void facet_fair_set_limits(struct facet_fair *fair, int client, const struct facet_limits *limits);
void facet_fair_set_frozen(struct facet_fair *fair, int client, bool frozen);

/*
 * Adds a process to its client's demand. What it says counts for as long as it shows itself: one that has not for a
 * tenth of a second waits for nothing, and its launches are lost once it has not for a second, nor for several times
 * as long as they should take. As soon as it shows itself again, it counts as who was idle until now.
 */
void facet_fair_demand_add(struct facet_fair_demand *demand, const struct facet_fair_process *process, uint64_t now_ns);

/*
 * One step: charges the time since the last step, then decides every client's gate from clients[i].demand. Returns when
 * it wants to be called again at the latest (absolute ns), FACET_FAIR_NEVER when only a new demand can change anything.
 */
uint64_t facet_fair_step(struct facet_fair *fair, uint64_t now_ns);

/*
 * Since when nobody else's work is on a device that runs what is launched one after the other: what a client has
 * launched since its turn began did not begin before. Odd: as of when that was seen; it may have been so earlier. 1:
 * some still is. 0: nobody can tell.
 */
uint64_t facet_fair_clear_ns(struct facet_fair *fair, int client);

/* The share a client keeps to while no scheduler lives: its guarantee, or for best effort a part of what guarantees
 * leave. */
uint32_t facet_fair_fallback_milli(const struct facet_fair *fair, int client);

#endif
