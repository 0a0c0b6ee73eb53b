/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the arithmetic of scaling. Never: reads a clock; see scale.h for the model. */
#include "compute/scale.h"

#define MS UINT64_C(1000000)

const struct facet_scale_config facet_scale_defaults = {
    .step_milli = 100,
    .headroom_milli = 20,
    .calm_windows = 3,
    .press_ns = MS,
    .relax_ns = MS / 5,
};

static uint32_t min_u32(uint64_t left, uint64_t right)
{
    return (uint32_t)(left < right ? left : right);
}

static uint32_t max_u32(uint32_t left, uint32_t right)
{
    return left > right ? left : right;
}

/* ---- demand ---- */

static void note_pressure(const struct facet_scale_config *config, struct facet_scale_member *member)
{
    uint64_t delay_max_ns = member->pressed ? config->relax_ns : config->press_ns;

    member->pressed = member->queued > 0 || member->delay_ns > delay_max_ns;
    if (member->pressed)
        member->calm_streak = 0;
    else if (member->calm_streak < config->calm_windows)
        member->calm_streak++;
}

/*
 * The next value from `present` towards `needed`: up at once, down one step when the member has been calm for long
 * enough.
 */
static uint32_t approach_needed(const struct facet_scale_config *config, const struct facet_scale_member *member,
                                uint32_t present, uint32_t needed, uint32_t step)
{
    if (needed >= present)
        return needed;
    if (member->calm_streak < config->calm_windows)
        return present;
    return present - needed > step ? present - step : needed;
}

static uint32_t wanted_milli(const struct facet_scale_config *config, const struct facet_scale_member *member)
{
    uint32_t limit = min_u32(member->limit_milli, FACET_MILLI_WHOLE);

    if (member->pressed)
        return min_u32(
            max_u32(member->request_milli, min_u32((uint64_t)member->share_milli + config->step_milli, limit)), limit);
    uint32_t needed =
        member->busy_milli > 0 ? min_u32((uint64_t)member->busy_milli + config->headroom_milli, limit) : 0;

    return approach_needed(config, member, min_u32(member->share_milli, limit), needed, config->step_milli);
}

/* The units that amount to `milli` of the device. */
static uint32_t units_for(const struct facet_scale_config *config, uint32_t milli)
{
    return (uint32_t)(((uint64_t)milli * config->device_units + FACET_MILLI_WHOLE - 1) / FACET_MILLI_WHOLE);
}

/*
 * A pressed member wants the units that its share can keep busy, and at least one more each window; a calm member wants
 * the units that it kept busy.
 */
static uint32_t wanted_units(const struct facet_scale_config *config, const struct facet_scale_member *member)
{
    uint32_t present = max_u32(member->units, member->units_least);
    uint32_t busy = config->device_units > 0 ? units_for(config, member->busy_milli)
                    : member->busy_milli > 0 ? present
                                             : 0;

    if (member->pressed)
        return min_u32(max_u32(present + 1, units_for(config, member->share_milli)), member->units_most);
    return max_u32(min_u32(approach_needed(config, member, present, min_u32(busy, present), 1), member->units_most),
                   member->units_least);
}

/* ---- dealing out ---- */

/* A resource that is divided among the members: functions for a member's floor, its want, and the field of the result.
 */
struct deal {
    struct facet_scale_member *members;
    uint32_t count;
    uint64_t total;
    uint32_t (*floor_of)(const struct facet_scale_member *member);
    uint32_t (*want_of)(const struct facet_scale_member *member);
    uint32_t *(*given_of)(struct facet_scale_member *member);
};

static uint64_t weight_of(const struct facet_scale_member *member)
{
    return member->request_milli > 0 ? member->request_milli : FACET_SCALE_BEST_EFFORT_MILLI;
}

/* Gives each member its floor, or the same part of each floor if their sum is above the total. Returns what is left. */
static uint64_t give_floors(const struct deal *deal)
{
    uint64_t sum = 0, left = deal->total;

    for (uint32_t i = 0; i < deal->count; i++)
        sum += deal->floor_of(&deal->members[i]);
    for (uint32_t i = 0; i < deal->count; i++) {
        uint64_t floor = deal->floor_of(&deal->members[i]);
        uint32_t given = (uint32_t)(sum > deal->total ? floor * deal->total / sum : floor);

        *deal->given_of(&deal->members[i]) = given;
        left -= given;
    }
    return sum < deal->total ? left : 0;
}

static uint64_t unsatisfied_weight(const struct deal *deal)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < deal->count; i++)
        if (*deal->given_of(&deal->members[i]) < deal->want_of(&deal->members[i]))
            sum += weight_of(&deal->members[i]);
    return sum;
}

/* Divides `left` once by weight and returns what remains; a member that needs less than its part leaves the surplus to
 * the others. */
static uint64_t deal_round(const struct deal *deal, uint64_t left, uint64_t weights)
{
    uint64_t rest = left;

    for (uint32_t i = 0; i < deal->count; i++) {
        struct facet_scale_member *member = &deal->members[i];
        uint32_t *given = deal->given_of(member), want = deal->want_of(member);

        if (*given >= want)
            continue;
        uint32_t part = min_u32(left * weight_of(member) / weights, want - *given);

        *given += part;
        rest -= part;
    }
    return rest;
}

/* A remainder too small to be divided is given one by one, lowest index first. */
static void deal_remainder(const struct deal *deal, uint64_t left)
{
    for (uint32_t i = 0; i < deal->count && left > 0; i++) {
        struct facet_scale_member *member = &deal->members[i];
        uint32_t part = min_u32(deal->want_of(member) - min_u32(deal->want_of(member), *deal->given_of(member)), 1);

        *deal->given_of(member) += part;
        left -= part;
    }
}

static void deal_out(const struct deal *deal)
{
    uint64_t left = give_floors(deal), weights;

    while (left > 0 && (weights = unsatisfied_weight(deal)) > 0) {
        uint64_t rest = deal_round(deal, left, weights);

        if (rest == left)
            break;
        left = rest;
    }
    deal_remainder(deal, left);
}

static uint32_t floor_milli(const struct facet_scale_member *member)
{
    return min_u32(member->wanted_milli, member->request_milli);
}

static uint32_t want_milli(const struct facet_scale_member *member)
{
    return member->wanted_milli;
}

static uint32_t *given_milli(struct facet_scale_member *member)
{
    return &member->share_milli;
}

static uint32_t floor_units(const struct facet_scale_member *member)
{
    return member->units_least;
}

static uint32_t want_units(const struct facet_scale_member *member)
{
    return member->wanted_units;
}

static uint32_t *given_units(struct facet_scale_member *member)
{
    return &member->units;
}

/* units_least is always given: if their sum is above the device's units, the members share the units in time. */
static void deal_units(const struct facet_scale_config *config, struct facet_scale_member *members, uint32_t count)
{
    uint64_t min = 0;

    for (uint32_t i = 0; i < count; i++)
        min += members[i].units_least;
    uint64_t total = config->device_units == 0 ? UINT32_MAX : config->device_units;

    deal_out(&(struct deal){members, count, total > min ? total : min, floor_units, want_units, given_units});
}

void facet_scale_step(const struct facet_scale_config *config, struct facet_scale_member *members, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        note_pressure(config, &members[i]);
        members[i].wanted_milli = wanted_milli(config, &members[i]);
    }
    deal_out(&(struct deal){members, count, FACET_MILLI_WHOLE, floor_milli, want_milli, given_milli});
    for (uint32_t i = 0; i < count; i++)
        members[i].wanted_units = wanted_units(config, &members[i]);
    deal_units(config, members, count);
}
