/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the measure of load, and the choice of a member for new work; see balance.h. Never: moves work that has a
 * member: rebalance.c plans that.
 */
#include "compute/balance.h"

#include <stddef.h>
#include <string.h>

#include "compute/balance_parts.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

const struct facet_balance_config facet_balance_defaults = {
    .strategy = FACET_BALANCE_LEAST_LOADED,
    .threshold_milli = 200,
    .settle_milli = 100,
    .moves_max = 2,
    .interval_ns = 100 * MS,
    .idle_ns = 100 * MS,
    .move_ns = MS / 10,
    .adjust_ns = MS / 10,
};

static const char *const strategies[] = {
    [FACET_BALANCE_LEAST_LOADED] = "least_loaded",
    [FACET_BALANCE_ROUND_ROBIN] = "round_robin",
    [FACET_BALANCE_WEIGHTED] = "weighted",
    [FACET_BALANCE_LOCALITY] = "locality",
};
#define STRATEGIES (sizeof strategies / sizeof strategies[0])

static const char *const kinds[] = {
    [FACET_BALANCE_MIGRATE] = "migrate",
    [FACET_BALANCE_ADJUST_SHARE] = "adjust_share",
    [FACET_BALANCE_SCALE_UNITS] = "scale_units",
    [FACET_BALANCE_PREEMPT] = "preempt",
};

const char *facet_balance_strategy_name(enum facet_balance_strategy strategy)
{
    return (size_t)strategy < STRATEGIES ? strategies[strategy] : NULL;
}

bool facet_balance_strategy_find(const char *name, enum facet_balance_strategy *ret_strategy)
{
    for (size_t i = 0; i < STRATEGIES; i++) {
        if (strcmp(name, strategies[i]) != 0)
            continue;
        *ret_strategy = (enum facet_balance_strategy)i;
        return true;
    }
    return false;
}

const char *facet_balance_kind_name(enum facet_balance_kind kind)
{
    return (size_t)kind < sizeof kinds / sizeof kinds[0] ? kinds[kind] : NULL;
}

void facet_balance_init(struct facet_balance *balance, const struct facet_balance_config *config)
{
    *balance = (struct facet_balance){.config = *config};
}

/* ---- load ---- */

uint64_t facet_balance_scale(uint64_t value, uint64_t multiplier, uint64_t divisor)
{
    facet_balance_wide scaled = (facet_balance_wide)value * multiplier / divisor;

    return scaled < FACET_BALANCE_NEVER ? (uint64_t)scaled : FACET_BALANCE_NEVER;
}

uint64_t facet_balance_sum(uint64_t left, uint64_t right)
{
    return right < FACET_BALANCE_NEVER - left ? left + right : FACET_BALANCE_NEVER;
}

uint64_t facet_balance_speed(const struct facet_balance_member *member)
{
    uint32_t share = member->share_milli > 0 ? member->share_milli : member->request_milli;

    return (uint64_t)(member->units > 0 ? member->units : 1) * (share > 0 ? share : 1);
}

uint64_t facet_balance_wait_ns(const struct facet_balance_member *member)
{
    return facet_balance_scale(member->queued_ns, FACET_MILLI_WHOLE, facet_balance_speed(member));
}

uint64_t facet_balance_transfer_ns(const struct facet_balance *balance, const struct facet_balance_work *work,
                                   uint32_t count, int to)
{
    uint64_t transfer = 0;

    for (uint32_t i = 0; work->bytes_on && i < count; i++) {
        const uint64_t *pairs = balance->config.pair_bytes_per_s;
        uint64_t rate = pairs ? pairs[(size_t)i * count + (size_t)to] : 0;

        if ((int)i == to || work->bytes_on[i] == 0)
            continue;
        rate = rate > 0 ? rate : balance->config.bytes_per_s;
        if (rate == 0)
            return FACET_BALANCE_NEVER;
        transfer = facet_balance_sum(transfer, facet_balance_scale(work->bytes_on[i], S, rate));
    }
    return transfer;
}

bool facet_balance_takes_part(const struct facet_balance_member *member)
{
    return !member->paused && !member->lost && member->units > 0;
}

bool facet_balance_accepts(const struct facet_balance_member *member)
{
    return facet_balance_takes_part(member) && (member->queue_max == 0 || member->queue_length < member->queue_max);
}

/* ---- strategies ---- */

/* The numbers by which two members are compared: the first number that differs decides, and less is better. */
struct merit {
    uint64_t cost, second, third;
};

static bool is_better_merit(const struct merit *left, const struct merit *right)
{
    if (left->cost != right->cost)
        return left->cost < right->cost;
    if (left->second != right->second)
        return left->second < right->second;
    return left->third < right->third;
}

static struct merit merit_of(const struct facet_balance *balance, const struct facet_balance_member *members,
                             uint32_t count, const struct facet_balance_work *work, uint32_t index)
{
    const struct facet_balance_member *member = &members[index];
    uint64_t wait = facet_balance_wait_ns(member);

    if (balance->config.strategy != FACET_BALANCE_LOCALITY)
        return (struct merit){wait, member->active_kernels, member->memory_milli};
    return (struct merit){
        .cost = facet_balance_sum(wait, facet_balance_transfer_ns(balance, work, count, (int)index)),
        .second = work->bytes_on ? UINT64_MAX - work->bytes_on[index] : 0,
        .third = member->active_kernels,
    };
}

static int choose_by_merit(const struct facet_balance *balance, const struct facet_balance_member *members,
                           uint32_t count, const struct facet_balance_work *work)
{
    int best = FACET_BALANCE_NONE;
    struct merit best_merit = {0};

    for (uint32_t i = 0; i < count; i++) {
        if (!facet_balance_accepts(&members[i]))
            continue;
        struct merit merit = merit_of(balance, members, count, work, i);

        if (best != FACET_BALANCE_NONE && !is_better_merit(&merit, &best_merit))
            continue;
        best = (int)i;
        best_merit = merit;
    }
    return best;
}

static int choose_in_turn(struct facet_balance *balance, const struct facet_balance_member *members, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = (uint32_t)(((uint64_t)balance->turn + i) % count);

        if (!facet_balance_accepts(&members[index]))
            continue;
        balance->turn = (index + 1) % count;
        return (int)index;
    }
    return FACET_BALANCE_NONE;
}

static bool member_competes(const struct facet_balance_member *member)
{
    return member->weight > 0 && facet_balance_accepts(member);
}

/* A member's credit and deadline under the weighted strategy. */
struct claim {
    bool entitled;
    int64_t slack;
};

static bool is_stronger_claim(const struct claim *left, const struct claim *right)
{
    return left->entitled != right->entitled ? left->entitled : left->slack < right->slack;
}

/* Bounds the credit, so that credit from before a change of weights or members is soon used up. */
static struct claim claim_of(struct facet_balance_member *member, int64_t weights)
{
    int64_t credit = member->credit < -weights ? -weights : member->credit > weights ? weights : member->credit;

    member->credit = credit + member->weight;
    return (struct claim){
        .entitled = member->credit > 0,
        .slack = (weights - member->credit + member->weight - 1) / member->weight,
    };
}

/*
 * Each piece of work adds to every competing member its weight in credit; the chosen member pays the sum of all
 * weights. Only a member with positive credit may be chosen, and among these members the earliest deadline wins. So the
 * k-th work of a member falls between k-1 and k times sum / weight (Baruah et al., "Proportionate progress", 1996). A
 * member that does not compete gains nothing and keeps its credit. If no member is left with positive credit, the
 * earliest deadline alone decides.
 */
static int choose_by_weight(struct facet_balance_member *members, uint32_t count)
{
    int64_t weights = 0;
    int best = FACET_BALANCE_NONE;
    struct claim best_claim = {0};

    for (uint32_t i = 0; i < count; i++)
        weights += member_competes(&members[i]) ? members[i].weight : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!member_competes(&members[i]))
            continue;
        struct claim claim = claim_of(&members[i], weights);

        if (best != FACET_BALANCE_NONE && !is_stronger_claim(&claim, &best_claim))
            continue;
        best = (int)i;
        best_claim = claim;
    }
    if (best != FACET_BALANCE_NONE)
        members[best].credit -= weights;
    return best;
}

int facet_balance_choose(struct facet_balance *balance, struct facet_balance_member *members, uint32_t count,
                         const struct facet_balance_work *work)
{
    switch (balance->config.strategy) {
    case FACET_BALANCE_ROUND_ROBIN:
        return choose_in_turn(balance, members, count);
    case FACET_BALANCE_WEIGHTED:
        return choose_by_weight(members, count);
    case FACET_BALANCE_LEAST_LOADED:
    case FACET_BALANCE_LOCALITY:
        break;
    }
    return choose_by_merit(balance, members, count, work);
}

/* ---- imbalance ---- */

uint64_t facet_balance_imbalance_of(const struct facet_balance_waits *waits)
{
    return waits->mean_ns ? facet_balance_scale(waits->longest_ns - waits->mean_ns, 1000, waits->mean_ns) : 0;
}

uint64_t facet_balance_others_ns(const struct facet_balance_waits *waits)
{
    facet_balance_wide sum = (facet_balance_wide)waits->mean_ns * waits->members;

    if (waits->members < 2 || sum <= waits->longest_ns)
        return 1;
    uint64_t others = (uint64_t)((sum - waits->longest_ns) / (waits->members - 1));

    return others > 0 ? others : 1;
}

uint64_t facet_balance_imbalance_milli(const struct facet_balance_member *members, uint32_t count)
{
    struct facet_balance_waits waits = facet_balance_waits(members, count);

    return facet_balance_imbalance_of(&waits);
}

struct facet_balance_waits facet_balance_waits(const struct facet_balance_member *members, uint32_t count)
{
    struct facet_balance_waits waits = {.longest_waiting = FACET_BALANCE_NONE};
    facet_balance_wide sum = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (!facet_balance_takes_part(&members[i]))
            continue;
        uint64_t wait = facet_balance_wait_ns(&members[i]);

        sum += wait;
        waits.members++;
        if (waits.longest_waiting != FACET_BALANCE_NONE && wait <= waits.longest_ns)
            continue;
        waits.longest_waiting = (int)i;
        waits.longest_ns = wait;
    }
    waits.mean_ns = waits.members ? (uint64_t)(sum / waits.members) : 0;
    return waits;
}
