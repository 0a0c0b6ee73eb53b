/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading members of a request for a reservation. Never: guesses the meaning of a wrong type. */
#include "request_reservation.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <facet/allocation.h>
#include <facet/spec.h>

const char *affinity_name(uint32_t affinity)
{
    static const char *const names[] = {"none", "interleaved", "prefer-single-node"};

    return affinity < sizeof names / sizeof names[0] ? names[affinity] : NULL;
}

static enum facet_status refuse_member(const char *member, const char *expected, struct facet_error *error)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, member, "%s: expected %s", member, expected);
}

/* Reads a decimal as text, or a whole number. Refuses a JSON number with a fraction, which may have lost digits. */
static enum facet_status read_amount(const char *slot, const json_t *value, int64_t *ret_amount,
                                     struct facet_error *error)
{
    char number[32];
    struct facet_error reason;

    if (!json_is_string(value) && !json_is_integer(value))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "slots",
                                    "slot '%.60s': expected a decimal as text (\"0.5\") or a whole number", slot);
    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    enum facet_status status =
        facet_amount_parse(json_is_string(value) ? json_string_value(value) : number, "amount", ret_amount, &reason);
    if (status != FACET_OK)
        return facet_error_argument(error, status, "slots", "slot '%.60s': %s", slot, reason.message);
    if (*ret_amount == 0)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "slots", "slot '%.60s': 0, expected more", slot);
    return FACET_OK;
}

static enum facet_status read_slots(const json_t *value, struct reservation *wanted, struct facet_error *error)
{
    const char *slot;
    json_t *amount_json;
    enum facet_status status = FACET_OK;

    if (!json_is_object(value) || json_object_size(value) == 0 || json_object_size(value) > RESERVATION_ITEMS_MOST)
        return refuse_member("slots", "an object of 1 to 64 slots and their amounts", error);
    json_object_foreach ((json_t *)(uintptr_t)value, slot, amount_json) {
        struct facet_spec_slot_name parts;
        struct facet_error reason;
        int64_t amount = 0;

        if (facet_spec_parse_slot_name(slot, &parts, &reason) != FACET_OK)
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, "slots", "%s", reason.message);
        status = read_amount(slot, amount_json, &amount, error);
        if (status == FACET_OK)
            status = reservation_add_item(wanted, slot, amount, error);
        if (status != FACET_OK)
            return status;
    }
    return FACET_OK;
}

static enum facet_status read_name(const json_t *value, struct reservation *wanted, struct facet_error *error)
{
    const char *name = json_string_value(value);
    enum facet_status status = name ? facet_check_name(name, "name", error) : refuse_member("name", "a string", error);

    if (status == FACET_OK)
        snprintf(wanted->name, sizeof wanted->name, "%s", name);
    return status;
}

static enum facet_status read_choice(const char *member, const json_t *value, const char *(*name_of)(uint32_t),
                                     uint32_t *ret_choice, struct facet_error *error)
{
    const char *text = json_string_value(value);
    char names[80] = "";

    for (uint32_t i = 0; name_of(i); i++) {
        size_t used = strlen(names);
        if (text && strcmp(name_of(i), text) == 0) {
            *ret_choice = i;
            return FACET_OK;
        }
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", name_of(i));
    }
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, member, "%s '%.40s': expected one of %s", member,
                                text ? text : "(no text)", names);
}

static enum facet_status read_member(const char *member, const json_t *value, struct reservation *wanted,
                                     bool *ret_dry_run, struct facet_error *error)
{
    if (strcmp(member, "slots") == 0)
        return read_slots(value, wanted, error);
    if (strcmp(member, "name") == 0)
        return read_name(value, wanted, error);
    if (strcmp(member, "strategy") == 0)
        return read_choice(member, value, facet_map_strategy_name, &wanted->strategy, error);
    if (strcmp(member, "affinity") == 0)
        return read_choice(member, value, affinity_name, &wanted->affinity, error);
    if (strcmp(member, "dry_run") == 0) {
        *ret_dry_run = json_is_true(value);
        return json_is_boolean(value) ? FACET_OK : refuse_member(member, "true or false", error);
    }
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, member[0] ? member : "body",
                                "unknown member '%.64s': expected slots, name, strategy, affinity, dry_run", member);
}

static enum facet_status read_object(const json_t *object, struct reservation *wanted, bool *ret_dry_run,
                                     struct facet_error *error)
{
    const char *member;
    json_t *value;
    enum facet_status status = FACET_OK;

    if (!json_is_object(object))
        return refuse_member("body", "a JSON object", error);
    json_object_foreach ((json_t *)(uintptr_t)object, member, value) {
        if (status == FACET_OK)
            status = read_member(member, value, wanted, ret_dry_run, error);
    }
    if (status == FACET_OK && wanted->item_count == 0)
        return refuse_member("slots", "an object of 1 to 64 slots and their amounts; 'GET /v1/node' lists them", error);
    return status;
}

enum facet_status request_parse_reservation(const char *body, size_t size, struct reservation *ret_wanted,
                                            bool *ret_dry_run, struct facet_error *error)
{
    CLEANUP_RESERVATION struct reservation wanted = {0};
    bool dry_run = false;
    json_error_t reason;
    json_t *object = json_loadb(body, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &reason);

    if (!object)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "body", "not JSON: %s (line %d, column %d)",
                                    reason.text, reason.line, reason.column);
    enum facet_status status = read_object(object, &wanted, &dry_run, error);
    json_decref(object);
    if (status != FACET_OK)
        return status;
    *ret_wanted = wanted;
    *ret_dry_run = dry_run;
    wanted = (struct reservation){0};
    return FACET_OK;
}
