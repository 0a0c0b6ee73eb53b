/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: carrying a vector's step out on the maps. Never: checks its outcome. */
#include <stdlib.h>
#include <string.h>

#include "placement/maps/replay_inside.h"

void replay_read_taken(struct replay_run *run, int64_t *amounts)
{
    for (uint32_t i = 0; i < run->places; i++) {
        struct facet_maps_place place = {.size = sizeof place};

        if (facet_maps_get_place(run->maps, i, &place, NULL) == FACET_OK)
            amounts[i] = place.granted + place.reserved;
    }
}

static void refuse_outcome(struct replay_outcome *outcome, uint32_t reason)
{
    outcome->refused = true;
    outcome->reason = reason;
}

/* --- allocating --- */

/* False: an amount cannot be represented, so that the step is refused. */
static bool read_request(struct replay_run *run, const struct replay_value *at, struct replay_outcome *outcome)
{
    const char *slot;
    json_t *value;

    run->item_count = 0;
    run->impossible_amount = false;
    if (!replay_expect_object(at) || json_object_size(at->value) > REPLAY_ITEMS_MAX) {
        replay_refuse(at, "an object of at most 1024 slots");
        return true;
    }
    json_object_foreach (at->value, slot, value) {
        struct replay_value member = replay_member(at, slot);
        struct facet_maps_item *item = &run->items[run->item_count++];

        item->slot = slot;
        if (!replay_amount(&member, &item->amount, &outcome->error)) {
            refuse_outcome(outcome, FACET_REFUSED_AMOUNT);
            run->impossible_amount = true;
        }
        run->impossible_amount = run->impossible_amount || item->amount < 0;
    }
    return !outcome->refused;
}

static void keep_grant(struct replay_run *run, struct replay_effect *effect, struct replay_outcome *outcome)
{
    effect->parts = calloc(run->places + 1, sizeof *effect->parts);
    if (!effect->parts || facet_maps_get_grant(run->maps, effect->grant, effect->parts, run->places, &effect->count,
                                               &outcome->error) != FACET_OK)
        replay_append(&run->fault, "no memory");
    outcome->granted = effect;
}

static bool read_flag(const struct replay_value *at, bool fallback)
{
    if (!replay_present(at))
        return fallback;
    if (!json_is_boolean(at->value))
        replay_refuse(at, "true or false");
    return json_is_true(at->value);
}

static void do_allocate(struct replay_run *run, const struct replay_value *step, const char *member,
                        struct replay_effect *effect, struct replay_outcome *outcome)
{
    struct replay_value asked = replay_member(step, member), min = replay_member(step, "min_memory");
    struct replay_value split = replay_member(step, "allow_fragmentation"), reuse = replay_member(step, "reuse_hint");
    struct facet_maps_refusal refusal = {.size = sizeof refusal};
    struct facet_maps_request request = {
        .size = sizeof request,
        .items = run->items,
        .rules = run->is_strict ? FACET_MAPS_ROUND_DOWN : FACET_MAPS_EXACT,
        .affinity = run->affinity,
        .guard = !read_flag(&split, true),
        .near = run->hint,
        .near_count = read_flag(&reuse, false) ? run->hint_count : 0,
    };

    if (replay_present(&min) && (!replay_amount(&min, &request.least, NULL) || request.least < 0))
        replay_refuse(&min, "an amount of 0 or more, of at most 6 decimals");
    if (!read_request(run, &asked, outcome) || run->fault.length)
        return;
    request.count = run->item_count;
    if (facet_maps_allocate(run->maps, &request, &effect->grant, &refusal, &outcome->error) != FACET_OK) {
        refuse_outcome(outcome, refusal.reason);
        return;
    }
    keep_grant(run, effect, outcome);
    run->hint_count = 0;
    for (uint32_t i = 0; i < effect->count; i++)
        run->hint[run->hint_count++] = effect->parts[i].place;
}

/* --- amounts without a handle --- */

static void read_parts(struct replay_run *run, const struct replay_value *step, struct replay_effect *effect,
                       struct replay_outcome *outcome)
{
    struct replay_value at = replay_member(step, "allocation");

    if (!replay_allocation(run, &at, run->result)) {
        refuse_outcome(outcome, FACET_REFUSED_SLOT);
        return;
    }
    if (!(effect->parts = calloc(run->places + 1, sizeof *effect->parts))) {
        replay_append(&run->fault, "no memory");
        return;
    }
    for (uint32_t i = 0; i < run->places; i++)
        if (run->result[i] != 0)
            effect->parts[effect->count++] = (struct facet_maps_part){.place = i, .amount = run->result[i]};
}

static void do_apply(struct replay_run *run, const struct replay_value *step, struct replay_effect *effect,
                     struct replay_outcome *outcome)
{
    read_parts(run, step, effect, outcome);
    if (outcome->refused || run->fault.length)
        return;
    if (facet_maps_commit(run->maps, effect->parts, effect->count, &effect->grant, &outcome->error) != FACET_OK)
        refuse_outcome(outcome, FACET_REFUSED_NOT);
}

/* Turns all grants into reserved amounts, which need no handle. */
static void reserve_grants(struct replay_run *run)
{
    replay_read_taken(run, run->after);
    for (uint32_t i = 0; i < run->steps; i++) {
        struct replay_effect *effect = &run->effects[i];

        if (!effect->grant || effect->released || effect->handle_lost)
            continue;
        effect->handle_lost = true;
        facet_maps_release(run->maps, effect->grant, NULL);
    }
    for (uint32_t i = 0; i < run->places; i++)
        facet_maps_reserve(run->maps, i, run->after[i], NULL);
}

/* Subtracts the parts from the reserved amounts: all or nothing. */
static void subtract_amounts(struct replay_run *run, const struct replay_effect *effect, struct replay_outcome *outcome)
{
    reserve_grants(run);
    for (uint32_t i = 0; i < effect->count; i++)
        if (effect->parts[i].amount > run->after[effect->parts[i].place] || effect->parts[i].amount < 0) {
            refuse_outcome(outcome, FACET_REFUSED_NOT);
            facet_error_set(&outcome->error, FACET_BAD_STATE, "expected to free at most what was taken");
            return;
        }
    for (uint32_t i = 0; i < effect->count; i++) {
        uint32_t place = effect->parts[i].place;

        facet_maps_reserve(run->maps, place, run->after[place] - effect->parts[i].amount, NULL);
    }
}

static bool has_same_parts(const struct replay_effect *left, const struct replay_effect *right)
{
    if (left->count != right->count)
        return false;
    for (uint32_t i = 0; i < left->count; i++) {
        uint32_t k = 0;

        while (k < right->count && right->parts[k].place != left->parts[i].place)
            k++;
        if (k == right->count || right->parts[k].amount != left->parts[i].amount)
            return false;
    }
    return true;
}

/* Releases the grant with exactly these amounts; if there is none, subtracts them from what is held. */
static void free_amounts(struct replay_run *run, const struct replay_effect *amounts, struct replay_outcome *outcome)
{
    for (uint32_t i = 0; i < run->steps; i++) {
        struct replay_effect *effect = &run->effects[i];

        if (effect->grant && !effect->released && !effect->handle_lost && has_same_parts(effect, amounts)) {
            effect->released = true;
            facet_maps_release(run->maps, effect->grant, NULL);
            return;
        }
    }
    subtract_amounts(run, amounts, outcome);
}

static void free_result(struct replay_run *run, const struct replay_value *at, struct replay_outcome *outcome)
{
    uint64_t step = replay_whole(at);
    struct replay_effect *effect = step < run->steps ? &run->effects[step] : NULL;

    if (run->fault.length)
        return;
    if (!effect || !effect->grant) {
        if (!run->record_broken)
            replay_refuse(at, "the number of a step that was granted something");
        else
            refuse_outcome(outcome, FACET_REFUSED_NOT); /* the step was recorded as granted, but refused here */
        return;
    }
    if (effect->handle_lost && !effect->released)
        subtract_amounts(run, effect, outcome);
    else if (facet_maps_release(run->maps, effect->grant, &outcome->error) != FACET_OK)
        refuse_outcome(outcome, FACET_REFUSED_NOT);
    effect->released = true;
}

static void do_free(struct replay_run *run, const struct replay_value *step, struct replay_effect *effect,
                    struct replay_outcome *outcome)
{
    struct replay_value of = replay_member(step, "result_of");

    if (replay_present(&of)) {
        free_result(run, &of, outcome);
        return;
    }
    read_parts(run, step, effect, outcome);
    if (!outcome->refused && !run->fault.length)
        free_amounts(run, effect, outcome);
}

/* --- steps outside transactions --- */

static void do_set(struct replay_run *run, const struct replay_value *step, struct replay_effect *effect,
                   struct replay_outcome *outcome)
{
    read_parts(run, step, effect, outcome);
    if (outcome->refused || run->fault.length)
        return;
    reserve_grants(run);
    for (uint32_t i = 0; i < effect->count && !outcome->refused; i++)
        if (facet_maps_reserve(run->maps, effect->parts[i].place, effect->parts[i].amount, &outcome->error) != FACET_OK)
            refuse_outcome(outcome, FACET_REFUSED_NOT);
    for (uint32_t i = 0; i < run->places && outcome->refused; i++)
        facet_maps_reserve(run->maps, i, run->before[i], NULL);
}

static void do_seed_hint(struct replay_run *run, const struct replay_value *step)
{
    struct replay_value devices = replay_member(step, "devices");
    size_t count = replay_count(&devices, run->places);

    run->hint_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct replay_value item = replay_item(&devices, i);
        const char *id = replay_string(&item);
        struct facet_maps_place place = {.size = sizeof place};
        uint32_t found = 0;

        while (found < run->places &&
               (facet_maps_get_place(run->maps, found, &place, NULL) != FACET_OK || strcmp(place.id, id) != 0))
            found++;
        if (found == run->places)
            replay_refuse(&item, "the id of a device");
        else
            run->hint[run->hint_count++] = found;
    }
}

static void do_set_strategy(struct replay_run *run, const struct replay_value *step)
{
    static const char *const names[] = {"evenly", "fill", NULL};
    struct replay_value strategy = replay_member(step, "strategy");
    uint32_t map = 0;

    if (!replay_present(&strategy))
        replay_refuse(&strategy, "evenly or fill");
    do /* sets the strategy of each map */
        if (facet_maps_set_strategy(run->maps, map, replay_choice(&strategy, names, 0), NULL) != FACET_OK)
            break;
    while (++map < FACET_MAPS_MOST);
}

static void do_step(struct replay_run *run, const struct replay_value *step, struct replay_effect *effect,
                    struct replay_outcome *outcome)
{
    static const char *const names[] = {"allocate", "allocate_kernel", "free",         "apply",
                                        "set",      "seed_hint",       "set_strategy", NULL};
    struct replay_value op = replay_member(step, "op");

    if (!replay_present(&op))
        replay_refuse(&op, "an operation");
    switch (replay_choice(&op, names, UINT32_MAX)) {
    case 0:
        do_allocate(run, step, "request", effect, outcome);
        break;
    case 1:
        do_allocate(run, step, "slots", effect, outcome);
        break;
    case 2:
        do_free(run, step, effect, outcome);
        break;
    case 3:
        do_apply(run, step, effect, outcome);
        break;
    case 4:
        do_set(run, step, effect, outcome);
        break;
    case 5:
        do_seed_hint(run, step);
        break;
    case 6:
        do_set_strategy(run, step);
        break;
    default:
        break;
    }
}

void replay_step(struct replay_run *run, const struct replay_value *vector, uint32_t index)
{
    struct replay_value steps = replay_member(vector, "steps"), step = replay_item(&steps, index);
    struct replay_outcome outcome = {0};

    run->item_count = 0;
    run->impossible_amount = false;
    replay_read_taken(run, run->before);
    if (replay_expect_object(&step))
        do_step(run, &step, &run->effects[index], &outcome);
    replay_read_taken(run, run->after);
    if (!run->fault.length)
        replay_judge(run, &step, index, &outcome);
}
