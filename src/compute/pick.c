/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the policies' arithmetic. Never: reads a clock; see pick.h for the model. */
#include "compute/pick.h"

#include <stddef.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

const struct facet_pick_config facet_pick_defaults = {
    .policy = FACET_PICK_FAIR,
    .parallel = 1,
    .bonus_ns = 10 * MS,
    .comeback_ns = 1 * MS,
    .burst_ns = 2 * MS,
    .reopen_ns = MS / 2,
};

/* A best-effort entity's weight when guarantees leave nothing. */
#define SCRAPS_MILLI 20u

/* A bucket is never filled for more than this at once, so that no product overflows. */
#define FILL_MOST_NS (1000 * S)

static const char *const names[] = {
    [FACET_PICK_FAIR] = "fair",
    [FACET_PICK_ROUND_ROBIN] = "round_robin",
    [FACET_PICK_PRIORITY] = "priority",
    [FACET_PICK_FIFO] = "fifo",
};
#define POLICIES (sizeof names / sizeof names[0])

const char *facet_pick_policy_name(enum facet_pick_policy policy)
{
    return (size_t)policy < POLICIES ? names[policy] : NULL;
}

bool facet_pick_policy_find(const char *name, enum facet_pick_policy *ret_policy)
{
    for (size_t i = 0; i < POLICIES; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *ret_policy = (enum facet_pick_policy)i;
        return true;
    }
    return false;
}

#define EACH_ENTITY(pick, entity)                                                                                      \
    for (struct facet_pick_entity *entity = (pick)->entities; entity < (pick)->entities + (pick)->top; entity++)       \
        if (entity->used)

/* ---- shares ---- */

/* A guarantee is a weight; best effort shares what guarantees leave. */
static void set_weights(struct facet_pick *pick)
{
    uint32_t guaranteed = 0, best_effort = 0, part = 0;

    EACH_ENTITY(pick, entity)
    {
        guaranteed += entity->share.request_milli;
        best_effort += entity->share.request_milli == 0;
    }
    if (best_effort > 0 && guaranteed < FACET_MILLI_WHOLE)
        part = (FACET_MILLI_WHOLE - guaranteed) / best_effort;
    EACH_ENTITY(pick, entity)
    entity->weight_milli = entity->share.request_milli ? entity->share.request_milli
                           : part > SCRAPS_MILLI       ? part
                                                       : SCRAPS_MILLI;
}

void facet_pick_init(struct facet_pick *pick, const struct facet_pick_config *config)
{
    *pick = (struct facet_pick){.config = *config};
}

static bool capped(const struct facet_pick_entity *entity)
{
    return entity->share.limit_milli < FACET_MILLI_WHOLE;
}

/* Device time that a cap gains in `elapsed_ns`. */
static int64_t gain(const struct facet_pick *pick, const struct facet_pick_entity *entity, uint64_t elapsed_ns)
{
    return (int64_t)(elapsed_ns * entity->share.limit_milli * pick->config.parallel / FACET_MILLI_WHOLE);
}

int facet_pick_add(struct facet_pick *pick, const struct facet_pick_share *share, uint64_t now_ns)
{
    for (uint32_t i = 0; i < FACET_PICK_ENTITIES; i++) {
        struct facet_pick_entity *entity = &pick->entities[i];

        if (entity->used)
            continue;
        *entity =
            (struct facet_pick_entity){.used = true, .share = *share, .vtime = pick->floor, .credited_ns = now_ns};
        entity->credit_ns = gain(pick, entity, pick->config.burst_ns);
        if (i >= pick->top)
            pick->top = i + 1;
        set_weights(pick);
        return (int)i;
    }
    return FACET_PICK_NOBODY;
}

void facet_pick_remove(struct facet_pick *pick, int entity)
{
    facet_pick_set_want(pick, entity, FACET_PICK_IDLE);
    pick->entities[entity].used = false;
    while (pick->top > 0 && !pick->entities[pick->top - 1].used)
        pick->top--;
    set_weights(pick);
}

/* Time spent not wanting the device, or held back by a cap, is not saved up. */
static void come_back(const struct facet_pick *pick, struct facet_pick_entity *entity)
{
    if (pick->floor > pick->config.comeback_ns && entity->vtime < pick->floor - pick->config.comeback_ns)
        entity->vtime = pick->floor - pick->config.comeback_ns;
}

static void reopen(const struct facet_pick *pick, struct facet_pick_entity *entity)
{
    entity->dry = false;
    come_back(pick, entity);
}

/* ---- caps ---- */

/* Counts only the time whose gain was whole nanoseconds: the rest is for the next time. */
static void fill(const struct facet_pick *pick, struct facet_pick_entity *entity, uint64_t now_ns)
{
    uint64_t elapsed = now_ns > entity->credited_ns ? now_ns - entity->credited_ns : 0;
    int64_t most = gain(pick, entity, pick->config.burst_ns);
    uint64_t rate = (uint64_t)entity->share.limit_milli * pick->config.parallel;

    if (elapsed > FILL_MOST_NS) {
        entity->credited_ns = now_ns - FILL_MOST_NS;
        elapsed = FILL_MOST_NS;
    }
    int64_t gained = gain(pick, entity, elapsed);

    entity->credit_ns += gained;
    entity->credited_ns += (uint64_t)gained * FACET_MILLI_WHOLE / rate;
    if (entity->credit_ns > most)
        entity->credit_ns = most;
    if (entity->dry && entity->credit_ns >= gain(pick, entity, pick->config.reopen_ns))
        reopen(pick, entity);
}

static bool is_open(const struct facet_pick *pick, struct facet_pick_entity *entity, uint64_t now_ns)
{
    if (!capped(entity))
        return true;
    fill(pick, entity, now_ns);
    return !entity->dry;
}

bool facet_pick_open(struct facet_pick *pick, int entity, uint64_t now_ns)
{
    return is_open(pick, &pick->entities[entity], now_ns);
}

static uint64_t reopens_ns(const struct facet_pick *pick, const struct facet_pick_entity *entity)
{
    uint64_t rate = (uint64_t)entity->share.limit_milli * pick->config.parallel;
    int64_t missing = gain(pick, entity, pick->config.reopen_ns) - entity->credit_ns;

    return entity->credited_ns + (missing > 0 ? (uint64_t)missing * FACET_MILLI_WHOLE / rate : 0) + 1;
}

uint64_t facet_pick_opens_ns(struct facet_pick *pick, int number, uint64_t now_ns)
{
    const struct facet_pick_entity *entity = &pick->entities[number];

    return facet_pick_open(pick, number, now_ns) ? now_ns : reopens_ns(pick, entity);
}

uint64_t facet_pick_budget_ns(struct facet_pick *pick, int number, uint64_t now_ns)
{
    struct facet_pick_entity *entity = &pick->entities[number];

    if (!capped(entity))
        return FACET_PICK_NEVER;
    fill(pick, entity, now_ns);
    return entity->credit_ns > 0 && !entity->dry ? (uint64_t)entity->credit_ns : 0;
}

/* What was saved up or owed under the old cap stays, as far as the new bucket holds it. */
void facet_pick_set_share(struct facet_pick *pick, int number, const struct facet_pick_share *share, uint64_t now_ns)
{
    struct facet_pick_entity *entity = &pick->entities[number];
    bool was_capped = capped(entity);

    fill(pick, entity, now_ns);
    entity->share = *share;
    entity->credited_ns = now_ns;
    if (!was_capped)
        entity->credit_ns = gain(pick, entity, pick->config.burst_ns);
    if (!capped(entity) && entity->dry)
        reopen(pick, entity);
    set_weights(pick);
}

/* ---- order ---- */

/* The device's virtual time follows the least of those who want it, and never goes back. */
static void raise_floor(struct facet_pick *pick)
{
    uint64_t least = UINT64_MAX;

    EACH_ENTITY(pick, entity)
    if (entity->want != FACET_PICK_IDLE && !entity->dry && entity->vtime < least)
        least = entity->vtime;
    if (least != UINT64_MAX && least > pick->floor)
        pick->floor = least;
}

void facet_pick_set_want(struct facet_pick *pick, int number, enum facet_pick_want want)
{
    struct facet_pick_entity *entity = &pick->entities[number];

    if (entity->want == want)
        return;
    if (entity->want == FACET_PICK_IDLE) {
        raise_floor(pick);
        come_back(pick, entity);
        entity->since = ++pick->moment;
    }
    pick->ready += want == FACET_PICK_READY;
    pick->ready -= entity->want == FACET_PICK_READY;
    entity->want = want;
}

/* Virtual time as it counts in a comparison: a priority level is a bounded head start. */
static int64_t rank(const struct facet_pick *pick, const struct facet_pick_entity *entity)
{
    int64_t level = (int64_t)entity->share.priority - FACET_PRIORITY_NORMAL;

    return (int64_t)(entity->vtime - pick->floor) - level * (int64_t)pick->config.bonus_ns;
}

static bool goes_before(const struct facet_pick *pick, const struct facet_pick_entity *left,
                        const struct facet_pick_entity *right)
{
    switch (pick->config.policy) {
    case FACET_PICK_ROUND_ROBIN:
        return left->turn < right->turn;
    case FACET_PICK_FIFO:
        return left->since < right->since;
    case FACET_PICK_PRIORITY:
        if (left->share.priority != right->share.priority)
            return left->share.priority > right->share.priority;
        return (int64_t)(left->vtime - right->vtime) < 0;
    case FACET_PICK_FAIR:
        break;
    }
    return rank(pick, left) < rank(pick, right);
}

bool facet_pick_goes_before(const struct facet_pick *pick, int left, int right)
{
    return goes_before(pick, &pick->entities[left], &pick->entities[right]);
}

int facet_pick_next(struct facet_pick *pick, uint64_t now_ns, uint64_t *ret_again_ns)
{
    struct facet_pick_entity *best = NULL;
    uint64_t again = FACET_PICK_NEVER;

    EACH_ENTITY(pick, entity)
    {
        if (entity->want != FACET_PICK_READY)
            continue;
        if (!is_open(pick, entity, now_ns)) {
            uint64_t reopens = reopens_ns(pick, entity);

            again = reopens < again ? reopens : again;
        } else if (!best || goes_before(pick, entity, best)) {
            best = entity;
        }
    }
    *ret_again_ns = again;
    if (!best)
        return FACET_PICK_NOBODY;
    best->turn = ++pick->moment;
    return (int)(best - pick->entities);
}

bool facet_pick_waits(struct facet_pick *pick, uint64_t now_ns)
{
    if (pick->ready > 0) {
        EACH_ENTITY(pick, entity)
        if (entity->want == FACET_PICK_READY && is_open(pick, entity, now_ns))
            return true;
    }
    return false;
}

void facet_pick_charge(struct facet_pick *pick, int number, uint64_t device_ns, uint64_t now_ns)
{
    struct facet_pick_entity *entity = &pick->entities[number];

    entity->had_ns += device_ns;
    entity->vtime += device_ns * FACET_MILLI_WHOLE / entity->weight_milli;
    if (capped(entity)) {
        fill(pick, entity, now_ns);
        entity->credit_ns -= (int64_t)device_ns;
        entity->dry = entity->dry || entity->credit_ns <= 0;
    }
    raise_floor(pick);
}
