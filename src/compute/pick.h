/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named policies that pick the next entity on a device that can change hands at any moment.
 *
 * Owns: virtual times, turns, caps and priorities of the entities that compete for one device.
 * Never: reads a clock, sleeps or allocates, or depends on the kind of work. State and time in, decisions out.
 *
 * `fair` (compute/fair.h) grants leases to clients whose work it can only follow from outside. These functions instead
 * answer which entity has the next turn, and learn afterwards how much the turn cost. Units of the device (threads of
 * an executor, the one queue of a stream scheduler) ask in turn; several may serve the same entity.
 *
 * Policies:
 *     fair          the least device time per weight. A priority level is a bounded head start, so that guarantees
 *                   hold. An entity that comes back starts level with the others
 *     round_robin   turns go around, whatever they cost
 *     priority      the highest priority always; among equals like `fair`
 *     fifo          the entity that has wanted the device for longest, until it wants nothing more
 * Caps hold with all policies. No policy lets the device idle while an entity is ready and under its cap.
 *
 * A decision's cost grows with the entities that want the device, not with all that exist: idle entities are
 * skipped, sixty-four in a step.
 *
 * All times are nanoseconds of one monotonic clock; shares are milli of the device. Not thread-safe:
 * callers hold one lock.
 */
#ifndef FACET_COMPUTE_PICK_H
#define FACET_COMPUTE_PICK_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/limits.h>

#define FACET_PICK_ENTITIES 4096u
#define FACET_PICK_NEVER    UINT64_MAX
#define FACET_PICK_NONE     (-1)

enum facet_pick_policy {
    FACET_PICK_FAIR = 0,
    FACET_PICK_ROUND_ROBIN = 1,
    FACET_PICK_PRIORITY = 2,
    FACET_PICK_FIFO = 3,
};

struct facet_pick_config {
    enum facet_pick_policy policy;
    uint32_t parallel;    /* units: the turns that can be under way at a time; at least 1 */
    uint64_t bonus_ns;    /* fair: head start of a priority level, in virtual time of a whole device */
    uint64_t comeback_ns; /* how far behind the others an entity that comes back may start: makes up for short gaps */
    uint64_t burst_ns;    /* a cap's bucket holds its gain over this time */
    uint64_t reopen_ns;   /* an emptied bucket opens again once it holds its gain over this time */
};

/* Policy `fair`, with one unit. */
extern const struct facet_pick_config facet_pick_defaults;

struct facet_pick_share {
    uint32_t request_milli; /* weight; 0: best effort, shares the weight that guarantees leave with the other
                               best-effort entities that want something */
    uint32_t limit_milli;   /* cap, 1 to 1000 */
    uint32_t priority;      /* enum facet_priority */
};

enum facet_pick_want {
    FACET_PICK_IDLE = 0,   /* it wants nothing */
    FACET_PICK_SERVED = 1, /* its present turns suffice: it competes, but takes no further turn */
    FACET_PICK_READY = 2,  /* it wants another turn */
};

struct facet_pick_entity {
    bool used, emptied; /* emptied: the cap's bucket was emptied and is not filled enough yet */
    enum facet_pick_want want;
    struct facet_pick_share share;
    uint64_t vtime;         /* device time that it had, divided by weight, in ns of a whole device */
    uint64_t charged_ns;    /* device time charged in all */
    uint64_t last_turn;     /* number of its last turn */
    uint64_t wanting_since; /* number of the arrival since which it has wanted the device */
    int64_t credit_ns;
    uint64_t filled_until_ns; /* until when its bucket was filled */
};

/* Some of the entities, in two levels: bit w of `words` says that words_of[w] is not 0. */
struct facet_pick_set {
    uint64_t words;
    uint64_t words_of[FACET_PICK_ENTITIES / 64];
};

struct facet_pick {
    struct facet_pick_config config;
    struct facet_pick_set unused;  /* entities that facet_pick_add() can give */
    struct facet_pick_set wanting; /* entities that want something: no loop of a decision visits others */
    uint32_t ready;                /* entities that want another turn */
    uint32_t best_effort;          /* entities without a guarantee that want something */
    uint64_t guaranteed_milli;     /* sum of the guarantees, of idle entities too */
    uint64_t vtime_floor;          /* virtual time of the device: no entity that comes back starts before it */
    uint64_t sequence;             /* numbers turns and arrivals */
    struct facet_pick_entity entities[FACET_PICK_ENTITIES];
};

const char *facet_pick_policy_name(enum facet_pick_policy policy); /* "round_robin"; NULL when unknown */
bool facet_pick_policy_find(const char *name, enum facet_pick_policy *ret_policy);

void facet_pick_init(struct facet_pick *pick, const struct facet_pick_config *config);

/*
 * Switches to another policy. Turns under way are charged as before; caps, the order of arrival and the order of turns
 * stay. Virtual times begin anew for all: time that an entity got under the old policy does not count against it. Does
 * nothing if the policy is the present one.
 */
void facet_pick_set_policy(struct facet_pick *pick, enum facet_pick_policy policy);

/* Adds an entity that wants nothing yet; FACET_PICK_NONE when all FACET_PICK_ENTITIES are used. */
int facet_pick_add(struct facet_pick *pick, const struct facet_pick_share *share, uint64_t now_ns);
void facet_pick_remove(struct facet_pick *pick, int entity);
void facet_pick_set_share(struct facet_pick *pick, int entity, const struct facet_pick_share *share, uint64_t now_ns);
void facet_pick_set_want(struct facet_pick *pick, int entity, enum facet_pick_want want);

/*
 * Picks the next entity: ready and under its cap; FACET_PICK_NONE when there is none. In both cases *ret_again_ns is
 * the time at which the first entity that its cap holds back may be picked; FACET_PICK_NEVER when there is none.
 */
int facet_pick_next(struct facet_pick *pick, uint64_t now_ns, uint64_t *ret_again_ns);

/* Whether a turn of `right` should make room for a turn of `left`. Ignores caps. */
bool facet_pick_goes_before(const struct facet_pick *pick, int left, int right);

/* Whether any entity could have a turn now. */
bool facet_pick_any_waits(struct facet_pick *pick, uint64_t now_ns);

/* Whether the cap of the entity lets it have turns now. */
bool facet_pick_is_open(struct facet_pick *pick, int entity, uint64_t now_ns);
/* When the cap of the entity lets it have turns: now, or a later time if nothing more is charged. */
uint64_t facet_pick_opens_ns(struct facet_pick *pick, int entity, uint64_t now_ns);

/* How much device time the cap of the entity still allows; FACET_PICK_NEVER without a cap. */
uint64_t facet_pick_budget_ns(struct facet_pick *pick, int entity, uint64_t now_ns);

/* Charges device time to an entity. May be called several times for one turn. */
void facet_pick_charge(struct facet_pick *pick, int entity, uint64_t device_ns, uint64_t now_ns);

#endif
