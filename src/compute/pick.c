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
#define BEST_EFFORT_MIN_MILLI 20u

/* A bucket is never filled for more time than this at once, so that no product overflows. */
#define FILL_MAX_NS (1000 * S)

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

/* ---- sets of entities ---- */

#define WORD_BITS 64u

_Static_assert(FACET_PICK_ENTITIES == WORD_BITS * WORD_BITS, "one word says which words of a set are not empty");

static void set_insert(struct facet_pick_set *set, uint32_t number)
{
    set->words_of[number / WORD_BITS] |= UINT64_C(1) << number % WORD_BITS;
    set->words |= UINT64_C(1) << number / WORD_BITS;
}

static void set_remove(struct facet_pick_set *set, uint32_t number)
{
    uint64_t *word = &set->words_of[number / WORD_BITS];

    *word &= ~(UINT64_C(1) << number % WORD_BITS);
    if (*word == 0)
        set->words &= ~(UINT64_C(1) << number / WORD_BITS);
}

/* The numbers of a set that a walk has not visited yet, lowest first. */
struct walk {
    uint64_t words, word;
    uint32_t base;
};

/* The next number; FACET_PICK_NONE at the end. Visits only words that are not empty. */
static int walk_next(const struct facet_pick_set *set, struct walk *walk)
{
    if (walk->word == 0) {
        if (walk->words == 0)
            return FACET_PICK_NONE;
        uint32_t index = (uint32_t)__builtin_ctzll(walk->words);

        walk->words &= walk->words - 1;
        walk->word = set->words_of[index];
        walk->base = index * WORD_BITS;
    }
    uint32_t bit = (uint32_t)__builtin_ctzll(walk->word);

    walk->word &= walk->word - 1;
    return (int)(walk->base + bit);
}

#define EACH_WANTING(pick, walk, number)                                                                               \
    struct walk walk = {.words = (pick)->wanting.words};                                                               \
    for (int number; (number = walk_next(&(pick)->wanting, &walk)) != FACET_PICK_NONE;)

/* ---- shares ---- */

static bool is_best_effort(const struct facet_pick_entity *entity)
{
    return entity->share.request_milli == 0;
}

/*
 * A guarantee is a weight; the best-effort entities that want something share the weight that guarantees leave. An
 * entity charged for its last turn may already be idle, and counts as a sharer.
 */
static uint64_t weight_milli(const struct facet_pick *pick, const struct facet_pick_entity *entity)
{
    if (!is_best_effort(entity))
        return entity->share.request_milli;
    if (pick->guaranteed_milli >= FACET_MILLI_WHOLE)
        return BEST_EFFORT_MIN_MILLI;
    uint32_t sharers = pick->best_effort + (entity->want == FACET_PICK_IDLE);
    uint64_t part = (FACET_MILLI_WHOLE - pick->guaranteed_milli) / sharers;

    return part > BEST_EFFORT_MIN_MILLI ? part : BEST_EFFORT_MIN_MILLI;
}

void facet_pick_init(struct facet_pick *pick, const struct facet_pick_config *config)
{
    memset(pick, 0, sizeof *pick);
    pick->config = *config;
    memset(&pick->unused, 0xff, sizeof pick->unused);
}

static bool is_capped(const struct facet_pick_entity *entity)
{
    return entity->share.limit_milli < FACET_MILLI_WHOLE;
}

/* The device time that a cap's bucket gains in `elapsed_ns`. */
static int64_t credit_gain(const struct facet_pick *pick, const struct facet_pick_entity *entity, uint64_t elapsed_ns)
{
    return (int64_t)(elapsed_ns * entity->share.limit_milli * pick->config.parallel / FACET_MILLI_WHOLE);
}

int facet_pick_add(struct facet_pick *pick, const struct facet_pick_share *share, uint64_t now_ns)
{
    int number = walk_next(&pick->unused, &(struct walk){.words = pick->unused.words});

    if (number == FACET_PICK_NONE)
        return FACET_PICK_NONE;
    struct facet_pick_entity *entity = &pick->entities[number];

    *entity = (struct facet_pick_entity){
        .used = true, .share = *share, .vtime = pick->vtime_floor, .filled_until_ns = now_ns};
    entity->credit_ns = credit_gain(pick, entity, pick->config.burst_ns);
    set_remove(&pick->unused, (uint32_t)number);
    pick->guaranteed_milli += share->request_milli;
    return number;
}

void facet_pick_remove(struct facet_pick *pick, int entity)
{
    facet_pick_set_want(pick, entity, FACET_PICK_IDLE);
    pick->entities[entity].used = false;
    set_insert(&pick->unused, (uint32_t)entity);
    pick->guaranteed_milli -= pick->entities[entity].share.request_milli;
}

/* An entity that had no demand, or that its cap held back, cannot claim the turns of that time: its virtual time is at
 * most comeback_ns behind the device's. */
static void limit_lag(const struct facet_pick *pick, struct facet_pick_entity *entity)
{
    if (pick->vtime_floor > pick->config.comeback_ns && entity->vtime < pick->vtime_floor - pick->config.comeback_ns)
        entity->vtime = pick->vtime_floor - pick->config.comeback_ns;
}

static void reopen_entity(const struct facet_pick *pick, struct facet_pick_entity *entity)
{
    entity->emptied = false;
    limit_lag(pick, entity);
}

/* ---- caps ---- */

/* Advances filled_until_ns only by the time whose gain is whole nanoseconds: the remainder counts at the next call. */
static void fill_credit(const struct facet_pick *pick, struct facet_pick_entity *entity, uint64_t now_ns)
{
    uint64_t elapsed = now_ns > entity->filled_until_ns ? now_ns - entity->filled_until_ns : 0;
    int64_t max = credit_gain(pick, entity, pick->config.burst_ns);
    uint64_t rate = (uint64_t)entity->share.limit_milli * pick->config.parallel;

    if (elapsed > FILL_MAX_NS) {
        entity->filled_until_ns = now_ns - FILL_MAX_NS;
        elapsed = FILL_MAX_NS;
    }
    int64_t gained = credit_gain(pick, entity, elapsed);

    entity->credit_ns += gained;
    entity->filled_until_ns += (uint64_t)gained * FACET_MILLI_WHOLE / rate;
    if (entity->credit_ns > max)
        entity->credit_ns = max;
    if (entity->emptied && entity->credit_ns >= credit_gain(pick, entity, pick->config.reopen_ns))
        reopen_entity(pick, entity);
}

static bool is_open(const struct facet_pick *pick, struct facet_pick_entity *entity, uint64_t now_ns)
{
    if (!is_capped(entity))
        return true;
    fill_credit(pick, entity, now_ns);
    return !entity->emptied;
}

bool facet_pick_is_open(struct facet_pick *pick, int entity, uint64_t now_ns)
{
    return is_open(pick, &pick->entities[entity], now_ns);
}

static uint64_t reopens_ns(const struct facet_pick *pick, const struct facet_pick_entity *entity)
{
    uint64_t rate = (uint64_t)entity->share.limit_milli * pick->config.parallel;
    int64_t missing = credit_gain(pick, entity, pick->config.reopen_ns) - entity->credit_ns;

    return entity->filled_until_ns + (missing > 0 ? (uint64_t)missing * FACET_MILLI_WHOLE / rate : 0) + 1;
}

uint64_t facet_pick_opens_ns(struct facet_pick *pick, int number, uint64_t now_ns)
{
    const struct facet_pick_entity *entity = &pick->entities[number];

    return facet_pick_is_open(pick, number, now_ns) ? now_ns : reopens_ns(pick, entity);
}

uint64_t facet_pick_budget_ns(struct facet_pick *pick, int number, uint64_t now_ns)
{
    struct facet_pick_entity *entity = &pick->entities[number];

    if (!is_capped(entity))
        return FACET_PICK_NEVER;
    fill_credit(pick, entity, now_ns);
    return entity->credit_ns > 0 && !entity->emptied ? (uint64_t)entity->credit_ns : 0;
}

/* Credit or debt from the old cap stays, as far as the new bucket holds it. */
void facet_pick_set_share(struct facet_pick *pick, int number, const struct facet_pick_share *share, uint64_t now_ns)
{
    struct facet_pick_entity *entity = &pick->entities[number];
    bool was_capped = is_capped(entity), wants = entity->want != FACET_PICK_IDLE;

    fill_credit(pick, entity, now_ns);
    pick->guaranteed_milli += share->request_milli;
    pick->guaranteed_milli -= entity->share.request_milli;
    pick->best_effort -= wants && is_best_effort(entity);
    entity->share = *share;
    pick->best_effort += wants && is_best_effort(entity);
    entity->filled_until_ns = now_ns;
    if (!was_capped)
        entity->credit_ns = credit_gain(pick, entity, pick->config.burst_ns);
    if (!is_capped(entity) && entity->emptied)
        reopen_entity(pick, entity);
}

/* ---- order ---- */

/* The device's virtual time follows the lowest virtual time of the entities that want it, and never goes back. */
static void raise_floor(struct facet_pick *pick)
{
    uint64_t min = UINT64_MAX;

    EACH_WANTING (pick, walk, number) {
        const struct facet_pick_entity *entity = &pick->entities[number];

        if (!entity->emptied && entity->vtime < min)
            min = entity->vtime;
    }
    if (min != UINT64_MAX && min > pick->vtime_floor)
        pick->vtime_floor = min;
}

void facet_pick_set_want(struct facet_pick *pick, int number, enum facet_pick_want want)
{
    struct facet_pick_entity *entity = &pick->entities[number];

    if (entity->want == want)
        return;
    if (entity->want == FACET_PICK_IDLE) {
        raise_floor(pick);
        limit_lag(pick, entity);
        entity->wanting_since = ++pick->sequence;
        set_insert(&pick->wanting, (uint32_t)number);
        pick->best_effort += is_best_effort(entity);
    }
    if (want == FACET_PICK_IDLE) {
        set_remove(&pick->wanting, (uint32_t)number);
        pick->best_effort -= is_best_effort(entity);
    }
    pick->ready += want == FACET_PICK_READY;
    pick->ready -= entity->want == FACET_PICK_READY;
    entity->want = want;
}

/* Virtual time as it counts in a comparison: a priority level is a bounded head start. */
static int64_t rank_of_entity(const struct facet_pick *pick, const struct facet_pick_entity *entity)
{
    int64_t level = (int64_t)entity->share.priority - FACET_PRIORITY_NORMAL;

    return (int64_t)(entity->vtime - pick->vtime_floor) - level * (int64_t)pick->config.bonus_ns;
}

static bool is_before(const struct facet_pick *pick, const struct facet_pick_entity *left,
                      const struct facet_pick_entity *right)
{
    switch (pick->config.policy) {
    case FACET_PICK_ROUND_ROBIN:
        return left->last_turn < right->last_turn;
    case FACET_PICK_FIFO:
        return left->wanting_since < right->wanting_since;
    case FACET_PICK_PRIORITY:
        if (left->share.priority != right->share.priority)
            return left->share.priority > right->share.priority;
        return (int64_t)(left->vtime - right->vtime) < 0;
    case FACET_PICK_FAIR:
        break;
    }
    return rank_of_entity(pick, left) < rank_of_entity(pick, right);
}

bool facet_pick_goes_before(const struct facet_pick *pick, int left, int right)
{
    return is_before(pick, &pick->entities[left], &pick->entities[right]);
}

void facet_pick_set_policy(struct facet_pick *pick, enum facet_pick_policy policy)
{
    if (policy == pick->config.policy)
        return;
    pick->config.policy = policy;
    for (uint32_t i = 0; i < FACET_PICK_ENTITIES; i++)
        pick->entities[i].vtime = pick->vtime_floor;
}

int facet_pick_next(struct facet_pick *pick, uint64_t now_ns, uint64_t *ret_again_ns)
{
    struct facet_pick_entity *best = NULL;
    uint64_t again = FACET_PICK_NEVER;

    EACH_WANTING (pick, walk, number) {
        struct facet_pick_entity *entity = &pick->entities[number];

        if (entity->want != FACET_PICK_READY)
            continue;
        if (!is_open(pick, entity, now_ns)) {
            uint64_t reopens = reopens_ns(pick, entity);

            again = reopens < again ? reopens : again;
        } else if (!best || is_before(pick, entity, best)) {
            best = entity;
        }
    }
    *ret_again_ns = again;
    if (!best)
        return FACET_PICK_NONE;
    best->last_turn = ++pick->sequence;
    return (int)(best - pick->entities);
}

bool facet_pick_any_waits(struct facet_pick *pick, uint64_t now_ns)
{
    if (pick->ready == 0)
        return false;
    EACH_WANTING (pick, walk, number) {
        struct facet_pick_entity *entity = &pick->entities[number];

        if (entity->want == FACET_PICK_READY && is_open(pick, entity, now_ns))
            return true;
    }
    return false;
}

void facet_pick_charge(struct facet_pick *pick, int number, uint64_t device_ns, uint64_t now_ns)
{
    struct facet_pick_entity *entity = &pick->entities[number];

    entity->charged_ns += device_ns;
    entity->vtime += device_ns * FACET_MILLI_WHOLE / weight_milli(pick, entity);
    if (is_capped(entity)) {
        fill_credit(pick, entity, now_ns);
        entity->credit_ns -= (int64_t)device_ns;
        entity->emptied = entity->emptied || entity->credit_ns <= 0;
    }
    raise_floor(pick);
}
