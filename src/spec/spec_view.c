/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the older view of devices, and the list of devices that a workload sees. Never: makes up an amount. */
#include <inttypes.h>

#include "spec/document.h"
#include "spec/spec.h"

static const json_t *amount_or(const json_t *device, const char *old, const json_t *full)
{
    const json_t *value = json_object_get(device, old);

    return value ? value : full;
}

static const json_t *memory_of(const json_t *device)
{
    return amount_or(device, "memory_size", json_object_get(json_object_get(device, "memory_spec"), "total_memory"));
}

static const json_t *units_of(const json_t *device)
{
    return amount_or(device, "processing_units",
                     json_object_get(json_array_get(json_object_get(device, "compute_units"), 0), "count"));
}

static json_t *share_value(const json_t *value)
{
    return value ? json_incref((json_t *)(uintptr_t)value) : NULL;
}

static enum facet_status add_legacy(json_t *list, const json_t *device, struct facet_error *error)
{
    json_t *memory = share_value(memory_of(device)), *units = share_value(units_of(device));
    const json_t *node = json_object_get(device, "numa_node"), *place = json_object_get(device, "hw_location");

    if (!memory || !units) {
        const char *what = memory ? "processing_units" : "memory_size";
        json_decref(memory);
        json_decref(units);
        return facet_error_argument(error, FACET_UNSUPPORTED, what,
                                    "device '%.80s' has no %s, which the older view needs",
                                    facet_json_text(device, "device_id"), what);
    }
    json_t *item = json_pack("{s:O, s:O, s:o, s:o, s:o, s:o}", "device_id", json_object_get(device, "device_id"),
                             "device_name", json_object_get(device, "device_name"), "hw_location",
                             place ? share_value(place) : json_string(""), "memory_size", memory, "processing_units",
                             units, "numa_node", node ? share_value(node) : json_null());
    return json_array_append_new(list, item) == 0 ? FACET_OK : facet_json_no_memory(error);
}

enum facet_status facet_spec_legacy_devices(const struct facet_spec *spec, char **ret_text, struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *list = json_array();
    enum facet_status status = FACET_OK;
    size_t index;
    json_t *device;

    if (!spec || !ret_text)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "spec", "spec: expected a document and a result");
    if (!list)
        return facet_json_no_memory(error);
    json_array_foreach (facet_spec_items(spec, "devices"), index, device)
        if (status == FACET_OK)
            status = add_legacy(list, device, error);
    return status == FACET_OK ? facet_json_write(list, ret_text, error) : status;
}

/* --- a workload's view ------------------------------------------------------------------------------------------- */

static bool device_is_in_slot(const json_t *device, const char *slot)
{
    const char *name = facet_json_text(device, "device_name");
    size_t length = slot ? strcspn(slot, ".") : 0;

    return name && length && strncmp(name, slot, length) == 0 && name[length] == '\0';
}

static enum facet_status add_amount(json_t *slots, const struct facet_spec_grant *grant, struct facet_error *error)
{
    const char *before = facet_json_text(slots, grant->slot_name);
    char text[FACET_AMOUNT_SIZE];
    int64_t sum = 0;

    if (before)
        facet_amount_parse(before, "amount", &sum, NULL);
    if (grant->amount_micro < 0 || __builtin_add_overflow(sum, grant->amount_micro, &sum))
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "grants", "slot '%.80s': its amount on device '%.80s'",
                                    grant->slot_name, grant->device_id);
    facet_amount_format(sum, text, FACET_AMOUNT_SIZE);
    return json_object_set_new(slots, grant->slot_name, json_string(text)) == 0 ? FACET_OK
                                                                                : facet_json_no_memory(error);
}

/* Whether a slot of that name exists. *ret_unified: it is attached to every workload. */
static bool find_slot(const struct facet_spec *spec, const char *name, bool *ret_unified)
{
    const json_t *slots = facet_spec_items(spec, "resource_specs");
    const json_t *slot = json_array_get(slots, facet_json_find(slots, "slot_name", name));
    const char *type = facet_json_text(slot, "type");

    *ret_unified = type && strcmp(type, "unified") == 0;
    return slot != NULL;
}

static enum facet_status check_grant(const struct facet_spec *spec, const struct facet_spec_grant *grant,
                                     struct facet_error *error)
{
    size_t index;
    json_t *device;
    bool unified;

    if (!grant->slot_name || !grant->device_id)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "grants", "grants: expected names, not NULL");
    if (!find_slot(spec, grant->slot_name, &unified))
        return facet_error_argument(error, FACET_NOT_FOUND, "slot_name", "slot '%.130s' is not in the document",
                                    grant->slot_name);
    json_array_foreach (facet_spec_items(spec, "devices"), index, device) {
        const char *id = facet_json_text(device, "device_id");
        if (id && strcmp(id, grant->device_id) == 0 && device_is_in_slot(device, grant->slot_name))
            return FACET_OK;
    }
    return facet_error_argument(error, FACET_NOT_FOUND, "device_id",
                                "device '%.80s' of slot '%.130s' is not in the document", grant->device_id,
                                grant->slot_name);
}

/* Whether a slot that is attached to every workload includes this device. A slot without shares includes all devices of
 * its name. */
static bool is_unified(const struct facet_spec *spec, const json_t *device)
{
    size_t index;
    json_t *slot;

    json_array_foreach (facet_spec_items(spec, "resource_specs"), index, slot) {
        const char *type = facet_json_text(slot, "type"), *name = facet_json_text(slot, "slot_name");
        const json_t *shares = json_object_get(slot, "shares");
        size_t count = json_array_size(shares);
        if (type && strcmp(type, "unified") == 0 && device_is_in_slot(device, name) &&
            (count == 0 || facet_json_find(shares, "device_id", facet_json_text(device, "device_id")) < count))
            return true;
    }
    return false;
}

static enum facet_status slots_of(const json_t *device, const struct facet_spec_grant *grants, uint32_t count,
                                  json_t *slots, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; status == FACET_OK && i < count; i++)
        if (device_is_in_slot(device, grants[i].slot_name) &&
            strcmp(facet_json_text(device, "device_id"), grants[i].device_id) == 0)
            status = add_amount(slots, &grants[i], error);
    return status;
}

static enum facet_status add_seen(json_t *list, const json_t *device, json_t *slots, struct facet_error *error)
{
    const json_t *model = json_object_get(device, "model_name");
    FACET_CLEANUP_JSON json_t *item =
        json_pack("{s:O, s:o*, s:{s:o*, s:o*}, s:O}", "device_id", json_object_get(device, "device_id"), "model_name",
                  share_value(model), "data", "mem", share_value(memory_of(device)), "proc",
                  share_value(units_of(device)), "slots", slots);

    return json_array_append(list, item) == 0 ? FACET_OK : facet_json_no_memory(error);
}

enum facet_status facet_spec_device_list(const struct facet_spec *spec, const struct facet_spec_grant *grants,
                                         uint32_t count, char **ret_text, struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *list = json_array();
    enum facet_status status = FACET_OK;
    size_t index;
    json_t *device;

    if (!spec || !ret_text || (count && !grants))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "spec", "spec: expected a document and a result");
    for (uint32_t i = 0; status == FACET_OK && i < count; i++)
        status = check_grant(spec, &grants[i], error);
    json_array_foreach (facet_spec_items(spec, "devices"), index, device) {
        FACET_CLEANUP_JSON json_t *slots = json_object();
        if (status == FACET_OK)
            status = slots ? slots_of(device, grants, count, slots, error) : facet_json_no_memory(error);
        if (status == FACET_OK && (json_object_size(slots) || is_unified(spec, device)))
            status = add_seen(list, device, slots, error);
    }
    if (status != FACET_OK)
        return status;
    return list ? facet_json_write(list, ret_text, error) : facet_json_no_memory(error);
}
