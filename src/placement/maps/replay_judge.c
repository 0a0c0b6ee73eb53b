/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of one step.
 *
 * Owns: the comparison with the record, and the rules by which a recorded outcome is a defect (docs/allocation.md lists
 * them under the same names). Only a vector of origin `executed_probe` can record a defect.
 * Never: calls a difference that breaks no rule a defect.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "placement/maps/replay_inside.h"

/* The record of a step. */
struct record {
    const char *refusal; /* the name of the recorded exception; NULL: the step was not refused */
    bool has_result, has_state;
    bool known; /* all slots and devices that the record names exist */
};

/* --- names --- */

static const char *name_of_refusal(const struct replay_run *run, const struct replay_outcome *outcome)
{
    switch (outcome->reason) {
    case FACET_REFUSED_SLOT:
        return run->affinity == FACET_AFFINITY_NONE ? "InsufficientResource" : "ConfigurationError";
    case FACET_REFUSED_AMOUNT:
        return "InvalidResourceArgument";
    case FACET_REFUSED_QUANTUM:
        return "NotMultipleOfQuantum";
    case FACET_REFUSED_EXCLUSIVE:
        return "InvalidResourceCombination";
    case FACET_REFUSED_SHORT:
        return "InsufficientResource";
    case FACET_REFUSED_FRAGMENTED:
        return "FractionalResourceFragmented";
    default:
        return "ResourceError";
    }
}

/* Whether the recorded refusal `name` is the name of our refusal, or may stand for it. */
static bool accepts_name(const struct replay_run *run, const struct replay_outcome *outcome, const char *name)
{
    if (outcome->reason == FACET_REFUSED_NOT || strcmp(name, name_of_refusal(run, outcome)) == 0)
        return true;
    if (outcome->reason == FACET_REFUSED_QUANTUM && strcmp(name, "InvalidResourceArgument") == 0)
        return true;
    return strcmp(name, "ResourceError") == 0 ||
           (outcome->reason == FACET_REFUSED_SLOT && strcmp(name, "UnsupportedResource") == 0);
}

/* Whether `name` is an exception that Backend.AI raises on purpose. */
static bool is_deliberate(const char *name)
{
    static const char *const names[] = {
        "InsufficientResource",       "InvalidResourceCombination",   "InvalidResourceArgument", "NotMultipleOfQuantum",
        "UnsupportedResource",        "FractionalResourceFragmented", "ResourceError",           "ConfigurationError",
        "ResourceOverAllocatedError", "ResourceAllocationError"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* --- reading the record --- */

static struct record read_record(struct replay_run *run, const struct replay_value *step)
{
    struct replay_value expect = replay_member(step, "expect"), refusal = replay_member(&expect, "error");
    struct replay_value result = replay_member(&expect, "result"), state = replay_member(&expect, "state_after");
    struct record record = {.known = true};

    if (!replay_expect_object(&expect))
        return record;
    if (replay_present(&refusal))
        record.refusal = replay_string(&refusal);
    memset(run->result, 0, run->places * sizeof *run->result);
    memcpy(run->recorded_after, run->recorded, run->places * sizeof *run->recorded);
    if ((record.has_result = replay_present(&result)))
        record.known = replay_allocation(run, &result, run->result);
    if ((record.has_state = replay_present(&state)))
        record.known = replay_allocation(run, &state, run->recorded_after) && record.known;
    return record;
}

/* --- comparing --- */

static void append_differences(struct replay_run *run, struct replay_text *text, const char *what, const int64_t *ours,
                               const int64_t *recorded)
{
    for (uint32_t i = 0; i < run->places; i++) {
        struct facet_maps_place place = {.size = sizeof place};
        char got[FACET_AMOUNT_SIZE], expected[FACET_AMOUNT_SIZE];

        if (ours[i] == recorded[i] || facet_maps_get_place(run->maps, i, &place, NULL) != FACET_OK)
            continue;
        replay_append(text, "  %s: slot '%.60s' of '%.60s': got %s, recorded %s", what, place.slot, place.id,
                      facet_amount_format(ours[i], got, sizeof got),
                      facet_amount_format(recorded[i], expected, sizeof expected));
    }
}

/* Writes our result to `amounts`, by place. */
static void spread_result(const struct replay_run *run, const struct replay_outcome *outcome, int64_t *amounts)
{
    memset(amounts, 0, run->places * sizeof *amounts);
    for (uint32_t i = 0; outcome->granted && i < outcome->granted->count; i++)
        amounts[outcome->granted->parts[i].place] = outcome->granted->parts[i].amount;
}

/* `ours` is our result by place. */
static bool agrees_with_record(const struct replay_run *run, const struct record *record,
                               const struct replay_outcome *outcome, const int64_t *ours)
{
    size_t bytes = run->places * sizeof *ours;

    if (!record->known || (record->refusal != NULL) != outcome->refused)
        return false;
    if (record->refusal && !accepts_name(run, outcome, record->refusal))
        return false;
    if (record->has_result && (!outcome->granted || memcmp(run->result, ours, bytes) != 0))
        return false;
    return !record->has_state || memcmp(run->recorded_after, run->after, bytes) == 0;
}

static void explain_step(struct replay_run *run, struct replay_text *text, uint32_t index, const struct record *record,
                         const struct replay_outcome *outcome, const int64_t *ours)
{
    if (outcome->refused)
        replay_append(text, "step %" PRIu32 ": refused as %s: %s", index, name_of_refusal(run, outcome),
                      outcome->error.message);
    else
        replay_append(text, "step %" PRIu32 ": done", index);
    replay_append(text, "  recorded: %s%s", record->refusal ? "refused as " : "done",
                  record->refusal ? record->refusal : "");
    if (!record->known)
        replay_append(text, "  recorded: names an unknown slot or device");
    if (record->has_result)
        append_differences(run, text, "result", ours, run->result);
    if (record->has_state)
        append_differences(run, text, "state", run->after, run->recorded_after);
}

/* --- rules --- */

/* Sums the recorded grant of the item's slot. *ret_whole: false when a discrete map gave a fraction. */
static int64_t sum_recorded_grant(struct replay_run *run, const struct facet_maps_item *item, uint32_t *ret_type,
                                  bool *ret_whole)
{
    int64_t sum = 0;

    *ret_whole = true;
    for (uint32_t i = 0; i < run->places; i++) {
        struct facet_maps_place place = {.size = sizeof place};

        if (facet_maps_get_place(run->maps, i, &place, NULL) != FACET_OK || strcmp(place.slot, item->slot) != 0)
            continue;
        sum += run->result[i];
        *ret_type = place.type;
        *ret_whole = *ret_whole && (!run->discrete[place.map] || run->result[i] % FACET_AMOUNT_ONE == 0);
    }
    return sum;
}

/* The rule that the recorded grant breaks; NULL: it matches its request. */
static const char *rule_broken_by_grant(struct replay_run *run)
{
    for (uint32_t i = 0; i < run->item_count; i++) {
        const struct facet_maps_item *item = &run->items[i];
        uint32_t type = FACET_SLOT_COUNT;
        bool whole;

        if (sum_recorded_grant(run, item, &type, &whole) != item->amount)
            return "exact: a grant is what was asked for";
        if (type == FACET_SLOT_UNIQUE && item->amount && item->amount != FACET_AMOUNT_ONE)
            return "unique: of a unique slot exactly 1 is granted";
        if (!whole)
            return "whole: a discrete map grants whole units";
    }
    return NULL;
}

static bool has_unequal_devices(struct replay_run *run)
{
    struct facet_maps_place first = {.size = sizeof first}, place = {.size = sizeof place};

    for (uint32_t i = 0; i < run->places; i++) {
        if (facet_maps_get_place(run->maps, i, &place, NULL) != FACET_OK)
            continue;
        if (i == 0)
            first = place;
        if (place.capacity != first.capacity)
            return true;
    }
    return false;
}

/* The rule that the recorded state breaks; NULL: it is within the bounds, and differs by the step's effect only. */
static const char *rule_broken_by_state(struct replay_run *run, const struct record *record)
{
    for (uint32_t i = 0; record->has_state && i < run->places; i++) {
        struct facet_maps_place place = {.size = sizeof place};

        if (facet_maps_get_place(run->maps, i, &place, NULL) != FACET_OK)
            continue;
        if (run->recorded_after[i] < 0 || run->recorded_after[i] > place.capacity)
            return "bounds: what is taken of a place is 0 to its capacity";
        if (record->refusal && run->recorded_after[i] != run->recorded[i])
            return "atomic: what is refused changes nothing";
        if (record->has_result && run->recorded_after[i] != run->recorded[i] + run->result[i])
            return "account: what is taken is the sum of what was granted";
    }
    return NULL;
}

/* The rule that the recorded outcome breaks; NULL: none. */
static const char *rule_broken_by_record(struct replay_run *run, const struct record *record,
                                         const struct replay_outcome *outcome)
{
    const char *rule = NULL;

    if (record->refusal && !is_deliberate(record->refusal))
        return "refusal: what cannot be granted is refused, not a crash";
    if (!record->refusal && run->impossible_amount)
        return "amount: what is negative or finer than a micro-unit is refused";
    if (record->refusal && strcmp(record->refusal, "FractionalResourceFragmented") == 0 && !outcome->refused &&
        has_unequal_devices(run))
        return "guard: devices of different sizes are not taken for equal ones";
    if (!record->refusal && record->has_result)
        rule = rule_broken_by_grant(run);
    return rule ? rule : rule_broken_by_state(run, record);
}

/* The rule that our own outcome breaks, whatever was recorded; NULL: none. */
static const char *rule_broken_by_outcome(struct replay_run *run, const struct replay_outcome *outcome,
                                          const int64_t *ours)
{
    for (uint32_t i = 0; i < run->places; i++) {
        struct facet_maps_place place = {.size = sizeof place};

        if (facet_maps_get_place(run->maps, i, &place, NULL) != FACET_OK)
            continue;
        if (run->after[i] < 0 || run->after[i] > place.capacity)
            return "bounds";
        if (outcome->refused && run->after[i] != run->before[i])
            return "atomic";
        if (outcome->granted && run->after[i] != run->before[i] + ours[i])
            return "account";
    }
    return NULL;
}

static void judge_difference(struct replay_run *run, uint32_t index, const struct record *record,
                             const struct replay_outcome *outcome, const int64_t *ours)
{
    const char *rule = run->outcome_recorded ? rule_broken_by_record(run, record, outcome) : NULL;

    if (rule) {
        replay_append(&run->notes, "defect of what was recorded, rule '%s'", rule);
        explain_step(run, &run->notes, index, record, outcome, ours);
        run->record_broken = true;
    } else if (run->record_broken) {
        explain_step(run, &run->notes, index, record, outcome, ours);
    } else {
        explain_step(run, &run->fault, index, record, outcome, ours);
    }
}

void replay_judge(struct replay_run *run, const struct replay_value *step, uint32_t index,
                  const struct replay_outcome *outcome)
{
    struct record record = read_record(run, step);
    const char *own_rule;

    if (run->fault.length)
        return;
    spread_result(run, outcome, run->own_result);
    own_rule = rule_broken_by_outcome(run, outcome, run->own_result);
    run->own_broken = run->own_broken || own_rule;
    if (own_rule)
        replay_append(&run->fault, "step %" PRIu32 ": our own outcome breaks the rule '%s'", index, own_rule);
    if (!agrees_with_record(run, &record, outcome, run->own_result))
        judge_difference(run, index, &record, outcome, run->own_result);
    memcpy(run->recorded, record.has_state ? run->recorded_after : run->after, run->places * sizeof *run->recorded);
}
