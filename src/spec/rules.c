/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: rules between the members of a node document. Never: repeats its schema. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "spec/document.h"

/* Joins two texts, such as "cuda" and "0", to one identity. The line feed between them is in no device_name. */
static char *join_identity(const char *first, size_t length, const char *second)
{
    size_t size = length + strlen(second) + 2;
    char *text = malloc(size);

    if (text)
        snprintf(text, size, "%.*s\n%s", (int)length, first, second);
    return text;
}

/* The identity of an item; NULL when it has none, or when memory ran out, which is noted in `violations`. */
static char *identity_of(const json_t *item, const char *key, const char *second, struct facet_violations *violations)
{
    const char *first = facet_json_text(item, key), *other = second ? facet_json_text(item, second) : "";

    if (!first || !other)
        return NULL;
    char *text = join_identity(other, strlen(other), first);
    if (!text)
        facet_violations_break(violations);
    return text;
}

void facet_rules_once(const json_t *array, const struct facet_step *parent, const char *key, const char *second,
                      struct facet_violations *violations)
{
    FACET_CLEANUP_JSON json_t *seen = json_object();
    size_t index;
    json_t *item;

    json_array_foreach ((json_t *)(uintptr_t)array, index, item) {
        const struct facet_step at = {.parent = parent, .index = index};
        const struct facet_step step = {.parent = &at, .key = key};
        FACET_CLEANUP_FREE char *name = identity_of(item, key, second, violations);

        if (!name)
            continue;
        if (json_object_get(seen, name))
            facet_violations_add(violations, &step, "expected each once, got '%.80s' again",
                                 facet_json_text(item, key));
        else if (json_object_set_new(seen, name, json_true()) < 0)
            facet_violations_break(violations);
    }
}

/* --- slots ------------------------------------------------------------------------------------------------------ */

struct slot {
    const json_t *json;
    const struct facet_step *step;
    const json_t *devices; /* by identity */
    struct facet_violations *violations;
    const char *name;
    size_t device; /* length of the device's name, with which `name` begins */
    bool whole;    /* amounts have no fraction */
};

/* Whether a text has the schema's form of an amount: digits, and at most six more behind a point. */
static bool has_form(const char *text)
{
    size_t whole = strspn(text, "0123456789"), part = text[whole] == '.' ? strspn(text + whole + 1, "0123456789") : 0;

    return whole > 0 && part <= 6 && (text[whole] == '\0' || (part > 0 && text[whole + 1 + part] == '\0'));
}

/* False: this is not an amount. An amount that is too large is reported here: the schema checks its digits only. */
static bool amount_of(const struct slot *slot, const json_t *object, const struct facet_step *step, int64_t *ret_micro)
{
    const char *text = facet_json_text(object, "amount");
    const struct facet_step at = {.parent = step, .key = "amount"};

    if (!text || !has_form(text))
        return false;
    enum facet_status status = facet_amount_parse(text, "amount", ret_micro, NULL);
    if (status == FACET_OUT_OF_RANGE)
        facet_violations_add(slot->violations, &at, "expected at most 9223372036854.775807, got %.40s", text);
    if (status == FACET_OK && slot->whole && *ret_micro % FACET_AMOUNT_ONE != 0)
        facet_violations_add(slot->violations, &at, "expected a whole number for this type of slot, got %.40s", text);
    return status == FACET_OK;
}

static void check_share(const struct slot *slot, const json_t *share, const struct facet_step *step)
{
    const char *id = facet_json_text(share, "device_id");
    const struct facet_step at = {.parent = step, .key = "device_id"};

    if (!id || !slot->name)
        return;
    FACET_CLEANUP_FREE char *name = join_identity(slot->name, slot->device, id);
    if (!name)
        facet_violations_break(slot->violations);
    else if (!json_object_get(slot->devices, name))
        facet_violations_add(slot->violations, &at, "expected a device of the document, with device_name '%.*s'",
                             (int)slot->device, slot->name);
}

/* The sum of the shares; false when it is unknown. */
static bool check_shares(const struct slot *slot, int64_t *ret_sum)
{
    const json_t *shares = json_object_get(slot->json, "shares");
    const struct facet_step list = {.parent = slot->step, .key = "shares"};
    int64_t micro, sum = 0;
    bool known = shares != NULL;
    size_t index;
    json_t *share;

    json_array_foreach ((json_t *)(uintptr_t)shares, index, share) {
        const struct facet_step at = {.parent = &list, .index = index};
        check_share(slot, share, &at);
        known = known && amount_of(slot, share, &at, &micro) && !__builtin_add_overflow(sum, micro, &sum);
    }
    facet_rules_once(shares, &list, "device_id", NULL, slot->violations);
    *ret_sum = sum;
    return known;
}

static void check_slot(struct slot *slot)
{
    const char *type = facet_json_text(slot->json, "type");
    const struct facet_step at = {.parent = slot->step, .key = "amount"};
    char text[FACET_AMOUNT_SIZE];
    int64_t sum, amount;

    slot->name = facet_json_text(slot->json, "slot_name");
    slot->device = slot->name ? strcspn(slot->name, ".") : 0;
    slot->whole = type && (strcmp(type, "bytes") == 0 || strcmp(type, "unique") == 0);
    bool summed = check_shares(slot, &sum);
    if (amount_of(slot, slot->json, slot->step, &amount) && summed && sum != amount)
        facet_violations_add(slot->violations, &at, "expected %s, the sum of the shares",
                             facet_amount_format(sum, text, FACET_AMOUNT_SIZE));
}

/* --- devices ---------------------------------------------------------------------------------------------------- */

static void check_legacy(const json_t *device, const struct facet_step *step, const char *key, const json_t *full,
                         struct facet_violations *violations)
{
    const json_t *old = json_object_get(device, key);
    const struct facet_step at = {.parent = step, .key = key};

    if (json_is_integer(old) && json_is_integer(full) && !json_equal(old, full))
        facet_violations_add(violations, &at, "expected %" JSON_INTEGER_FORMAT ", the value of the detailed member",
                             json_integer_value(full));
}

static void check_device(const json_t *device, const struct facet_step *step, const json_t *devices,
                         struct facet_violations *violations)
{
    const char *name = facet_json_text(device, "device_name"), *parent = facet_json_text(device, "parent_id");
    const char *id = facet_json_text(device, "device_id");
    const struct facet_step at = {.parent = step, .key = "parent_id"};
    const struct facet_step units = {.parent = step, .key = "compute_units"};
    const struct facet_step formats = {.parent = step, .key = "precision_support"};
    const struct facet_step technologies = {.parent = step, .key = "partitioning_support"};

    check_legacy(device, step, "memory_size", json_object_get(json_object_get(device, "memory_spec"), "total_memory"),
                 violations);
    check_legacy(device, step, "processing_units",
                 json_object_get(json_array_get(json_object_get(device, "compute_units"), 0), "count"), violations);
    facet_rules_once(json_object_get(device, "compute_units"), &units, "name", NULL, violations);
    facet_rules_once(json_object_get(device, "precision_support"), &formats, "format", NULL, violations);
    facet_rules_once(json_object_get(device, "partitioning_support"), &technologies, "technology", NULL, violations);
    if (!name || !parent)
        return;
    FACET_CLEANUP_FREE char *text = join_identity(name, strlen(name), parent);
    if (!text)
        facet_violations_break(violations);
    else if (!json_object_get(devices, text) || (id && strcmp(id, parent) == 0))
        facet_violations_add(violations, &at, "expected another device of the document with the same device_name");
}

/* Devices by identity; NULL when out of memory. */
static json_t *index_devices(const json_t *devices, struct facet_violations *violations)
{
    json_t *names = json_object();
    size_t index;
    json_t *device;

    json_array_foreach ((json_t *)(uintptr_t)devices, index, device) {
        FACET_CLEANUP_FREE char *name = identity_of(device, "device_id", "device_name", violations);
        if (name && json_object_set(names, name, device) < 0)
            facet_violations_break(violations);
    }
    if (!names)
        facet_violations_break(violations);
    return names;
}

void facet_rules_node(const json_t *node, struct facet_violations *violations)
{
    const json_t *slots = json_object_get(node, "resource_specs"), *devices = json_object_get(node, "devices");
    const struct facet_step root = {0}, slot_list = {.parent = &root, .key = "resource_specs"};
    const struct facet_step device_list = {.parent = &root, .key = "devices"}, info = {.parent = &root, .key = "node"};
    const struct facet_step components = {.parent = &info, .key = "components"};
    FACET_CLEANUP_JSON json_t *names = index_devices(devices, violations);
    size_t index;
    json_t *item;

    json_array_foreach ((json_t *)(uintptr_t)slots, index, item) {
        const struct facet_step at = {.parent = &slot_list, .index = index};
        check_slot(&(struct slot){.json = item, .step = &at, .devices = names, .violations = violations});
    }
    json_array_foreach ((json_t *)(uintptr_t)devices, index, item) {
        const struct facet_step at = {.parent = &device_list, .index = index};
        check_device(item, &at, names, violations);
    }
    facet_rules_once(slots, &slot_list, "slot_name", NULL, violations);
    facet_rules_once(devices, &device_list, "device_id", "device_name", violations);
    facet_rules_once(json_object_get(json_object_get(node, "node"), "components"), &components, "name", NULL,
                     violations);
}
