/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load balancing: chooses a member for new work, and corrects the distribution when some members wait longer than
 * others.
 *
 * Owns: the strategies, the measure of imbalance, and the choice of actions that lower it.
 * Never: reads a clock, allocates, moves or stops anything: the caller carries the actions out. State and time in,
 * decisions out; integers only.
 *
 * A member is a target for work: a vGPU, or a device. The caller describes its load in struct facet_balance_member and
 * keeps the description up to date; members are named by their index in the caller's array.
 *
 * The one measure of load is the expected wait: the device time of all queued work, divided by the member's capacity.
 *
 *     wait = queued_ns / (units x share)         share: 1000 milli are the whole device
 *
 * Strategies, for facet_balance_choose():
 *     least_loaded  the least expected wait; among equals the fewest active kernels, then the least memory in use
 *     round_robin   the next member in index order
 *     weighted      in proportion to the weights, over any window: while the same members compete with the same
 *                   weights, each is less than one piece of work ahead of or behind its proportion
 *     locality      the least sum of the wait and of the time to copy those of the work's argument bytes that lie
 *                   elsewhere. Among equals the member that holds most of the bytes
 * No strategy sends work to a member that is paused, lost, without units, or whose queue is full. Among equals the
 * lowest index decides.
 *
 * facet_balance_rebalance() is called every interval. Imbalance is how far the longest expected wait is above the mean,
 * in milli of the mean, over the members that have units and are neither paused nor lost. Above `threshold_milli` it is
 * brought below `settle_milli`, if that can be done by actions that each gain more than they cost: MIGRATE       a
 * queued piece of work goes to another member ADJUST_SHARE  a member's share changes: the part that idle members of the
 * same device do not use is lent SCALE_UNITS   a member works with more units, or, when it is idle, with its
 * units_least PREEMPT       a running piece of work makes room for a waiting one of higher priority (off by default)
 * Three cases need no imbalance: works of a lost member migrate, lent guarantees go back at once when their owner has
 * work, and work that waits behind work of lower priority is let in.
 *
 * Rebalancing does not oscillate. An action's gain is how much it lowers the longest wait among the members that it
 * concerns, so that each action makes the sorted list of waits smaller. Balancing begins above one level and ends below
 * another. A work moves at most `moves_max` times and never back to its previous member; these bounds do not hold for
 * works of a lost member.
 *
 * All times are nanoseconds of one monotonic clock. Not thread-safe: callers hold one lock, or
 * work on copies.
 */
#ifndef FACET_COMPUTE_BALANCE_H
#define FACET_COMPUTE_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/limits.h>

#define FACET_BALANCE_NONE  (-1)
#define FACET_BALANCE_NEVER UINT64_MAX

enum facet_balance_strategy {
    FACET_BALANCE_LEAST_LOADED = 0,
    FACET_BALANCE_ROUND_ROBIN = 1,
    FACET_BALANCE_WEIGHTED = 2,
    FACET_BALANCE_LOCALITY = 3,
};

struct facet_balance_config {
    enum facet_balance_strategy strategy;
    uint32_t threshold_milli; /* balancing begins above this imbalance */
    uint32_t settle_milli;    /* balancing ends at or below this imbalance */
    uint32_t moves_max;       /* how often a work may be moved, or preempted */
    bool preemption;          /* PREEMPT may be asked for */
    uint64_t interval_ns;     /* between two rounds of rebalancing */
    uint64_t idle_ns;         /* a member that is idle for this time lends its share, and falls to its least units */
    uint64_t move_ns;         /* cost of moving or preempting a work, in addition to copying its bytes */
    uint64_t adjust_ns;       /* cost of changing a share or a number of units */

    /* Measured copy rates. 0: unknown, and the copy is taken to last forever, so work stays with its bytes. */
    uint64_t bytes_per_s;             /* between any two members */
    const uint64_t *pair_bytes_per_s; /* [from * members + to]; bytes_per_s counts for an entry of 0, or if NULL */
};

/* least_loaded; from above 200 milli down to 100; every 100 ms. */
extern const struct facet_balance_config facet_balance_defaults;

struct facet_balance_member {
    uint32_t device; /* index of the member's device; members of one device share it */
    bool paused;     /* gets no new work, keeps what it has */
    bool lost;       /* gets no new work, and its queued work goes elsewhere */

    uint64_t queued_ns; /* device time, on one unit, of the queued work and of the rest of the running work */
    uint64_t idle_ns;   /* for how long nothing has been queued or running; 0: something is */
    uint32_t queue_length;
    uint32_t queue_max;      /* a queue of this length accepts no more work; 0: no bound */
    uint32_t active_kernels; /* running */
    uint32_t utilization_milli, memory_milli;
    uint32_t weight; /* of `weighted`; 0: `weighted` never chooses the member */

    uint32_t units, units_least, units_most;          /* how many units work for the member at a time */
    uint32_t share_milli, request_milli, limit_milli; /* its present part of the device; guarantee; cap */

    int64_t credit; /* of `weighted`, kept here by facet_balance_choose(); 0 at first */
};

struct facet_balance_work {
    uint64_t id;              /* the caller's */
    uint64_t expected_ns;     /* device time on one unit; of a running work, the part that remains */
    const uint64_t *bytes_on; /* for each member, how many bytes of the work's arguments lie there; NULL: none */

    /* For facet_balance_rebalance() only. */
    uint32_t priority;   /* enum facet_priority */
    uint32_t moves;      /* how often it was moved or preempted */
    int member;          /* the member that it is queued at */
    int previous_member; /* the member that it was moved from last; FACET_BALANCE_NONE at first */
    bool running;        /* a running work can be preempted, not moved */
};

enum facet_balance_kind {
    FACET_BALANCE_MIGRATE = 0,
    FACET_BALANCE_ADJUST_SHARE = 1,
    FACET_BALANCE_SCALE_UNITS = 2,
    FACET_BALANCE_PREEMPT = 3,
};

struct facet_balance_action {
    enum facet_balance_kind kind;
    int member;           /* the member concerned; of MIGRATE: the source */
    int to;               /* MIGRATE: the target */
    uint64_t work;        /* MIGRATE, PREEMPT: its id */
    uint64_t waiting;     /* PREEMPT: id of the work that should run instead */
    uint32_t share_milli; /* ADJUST_SHARE: the new share */
    uint32_t units;       /* SCALE_UNITS: the new number */
    uint64_t gain_ns;     /* by how much the action lowers the longest wait among the members concerned; moves that only
                             help together have one gain, and each states it. FACET_BALANCE_NEVER: it must be done */
    uint64_t cost_ns;     /* moves that only help together state their common cost */
};

struct facet_balance {
    struct facet_balance_config config;
    uint32_t turn;    /* of round_robin: index after the last choice */
    bool balancing;   /* imbalance passed `threshold_milli` and is not down to `settle_milli` yet */
    uint64_t next_ns; /* when rebalancing is due */
};

const char *facet_balance_strategy_name(enum facet_balance_strategy strategy); /* "least_loaded"; NULL when unknown */
bool facet_balance_strategy_find(const char *name, enum facet_balance_strategy *ret_strategy);
const char *facet_balance_kind_name(enum facet_balance_kind kind); /* "migrate"; NULL when unknown */

void facet_balance_init(struct facet_balance *balance, const struct facet_balance_config *config);

/*
 * Time until a new piece of work could begin. For a member that lent all of its share the guarantee counts, because the
 * member gets it back on demand.
 */
uint64_t facet_balance_wait_ns(const struct facet_balance_member *member);

/*
 * How long it takes to copy to member `to` the argument bytes of the work that lie elsewhere; FACET_BALANCE_NEVER when
 * unknown.
 */
uint64_t facet_balance_transfer_ns(const struct facet_balance *balance, const struct facet_balance_work *work,
                                   uint32_t count, int to);

/*
 * Chooses one of `count` members for a new piece of work; FACET_BALANCE_NONE when none accepts it. The balancer's own
 * state (turn, credit) counts the choice as done; the caller adds the work to the member's load.
 */
int facet_balance_choose(struct facet_balance *balance, struct facet_balance_member *members, uint32_t count,
                         const struct facet_balance_work *work);

/* How far the longest wait is above the mean, in milli of the mean; 0 when no member has work queued. */
uint64_t facet_balance_imbalance_milli(const struct facet_balance_member *members, uint32_t count);

/*
 * Plans the actions that are due now: up to `max`, in the order in which they are to be done, each the most valuable
 * action after the earlier ones. Returns how many; 0 before balance->next_ns. A call at or after that time advances it
 * by an interval.
 *
 * `works` are the works that may be moved or preempted; any other work stays in its place. The function writes to
 * members and works: afterwards they describe the expected state when all actions are done (queues, shares, units; of
 * works member, previous_member, moves, running). A caller that leaves an action out describes the members anew.
 *
 * With at most eight members and ten movable works, the function searches all distributions for the best. Otherwise it
 * makes single moves and swaps as long as one has a gain. Each action costs time in proportion to members + works.
 */
uint32_t facet_balance_rebalance(struct facet_balance *balance, uint64_t now_ns, struct facet_balance_member *members,
                                 uint32_t count, struct facet_balance_work *works, uint32_t work_count,
                                 struct facet_balance_action *ret_actions, uint32_t max);

#endif
