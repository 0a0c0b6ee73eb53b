/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: putting items into a node document. Never: puts an incomplete item: each is made outside the document first. */
#include <inttypes.h>

#include "base/sized.h"
#include "spec/spec.h"

static enum facet_status no_argument(const char *name, const char *expected, struct facet_error *error)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s: expected %s", name, expected);
}

/* A copy of the present item, so that unknown members stay; an empty object when there is none. */
static json_t *copy_of(const json_t *item)
{
    return item ? facet_json_deep_copy(item) : json_object();
}

/* A list that is put as a whole. Unknown members of an old item stay in the new item with the same `key`. */
struct list {
    const char *member, *key;
    const struct facet_fields *fields;
    const void *items;
    size_t item_size;
    uint32_t count;
};

static enum facet_status make_item(const struct list *list, uint32_t index, const json_t *old, json_t **ret_item,
                                   struct facet_error *error)
{
    const char *from = (const char *)list->items + index * list->item_size;
    const char *name;

    memcpy(&name, from + list->fields->list[0].offset, sizeof name);
    if (!name)
        return no_argument(list->key, "a text, not NULL", error);
    FACET_CLEANUP_JSON json_t *item = copy_of(json_array_get(old, facet_json_find(old, list->key, name)));
    if (!item)
        return facet_json_no_memory(error);
    enum facet_status status = facet_fields_put(list->fields, from, item, error);
    if (status == FACET_OK)
        *ret_item = json_incref(item);
    return status;
}

static enum facet_status put_list(json_t *owner, const struct list *list, struct facet_error *error)
{
    const json_t *old = json_object_get(owner, list->member);
    FACET_CLEANUP_JSON json_t *array = json_array();

    if (!list->items)
        return FACET_OK;
    for (uint32_t i = 0; i < list->count; i++) {
        json_t *item = NULL;
        enum facet_status status = make_item(list, i, old, &item, error);
        if (status != FACET_OK)
            return status;
        if (json_array_append_new(array, item) < 0)
            return facet_json_no_memory(error);
    }
    return json_object_set(owner, list->member, array) == 0 ? FACET_OK : facet_json_no_memory(error);
}

/* Replaces the item at `index`, or appends it. */
static enum facet_status replace_item(json_t *array, size_t index, json_t *item, struct facet_error *error)
{
    int status = index < json_array_size(array) ? json_array_set(array, index, item) : json_array_append(array, item);

    return status == 0 ? FACET_OK : facet_json_no_memory(error);
}

/* --- slots ------------------------------------------------------------------------------------------------------ */

static enum facet_status put_exclusive(json_t *item, const struct facet_spec_slot *slot, struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *array = json_array();

    if (!slot->exclusive_with)
        return FACET_OK;
    for (uint32_t i = 0; i < slot->exclusive_count; i++) {
        if (!facet_json_is_utf8(slot->exclusive_with[i]))
            return no_argument("exclusive_with", "texts in UTF-8, not NULL", error);
        if (json_array_append_new(array, json_string(slot->exclusive_with[i])) < 0)
            return facet_json_no_memory(error);
    }
    return json_object_set(item, "exclusive_with", array) == 0 ? FACET_OK : facet_json_no_memory(error);
}

static enum facet_status sum_shares(struct facet_spec_slot *slot, struct facet_error *error)
{
    int64_t sum = 0;

    for (uint32_t i = 0; slot->shares && i < slot->share_count; i++) {
        if (slot->shares[i].amount_micro < 0)
            return no_argument("amount_micro", "0 or more", error);
        if (__builtin_add_overflow(sum, slot->shares[i].amount_micro, &sum))
            return facet_error_argument(error, FACET_OUT_OF_RANGE, "amount_micro",
                                        "the sum of the shares: expected at most 9223372036854.775807");
    }
    if (!slot->shares || slot->valid & FACET_SPEC_SLOT_HAS_AMOUNT)
        return slot->amount_micro < 0 ? no_argument("amount_micro", "0 or more", error) : FACET_OK;
    slot->amount_micro = sum;
    slot->valid |= FACET_SPEC_SLOT_HAS_AMOUNT;
    return FACET_OK;
}

enum facet_status facet_spec_put_slot(struct facet_spec *spec, const struct facet_spec_slot *slot,
                                      struct facet_error *error)
{
    json_t *slots = facet_spec_items(spec, "resource_specs");
    struct facet_spec_slot ours;
    struct facet_spec_slot_name name;

    if (!slots || !facet_struct_take(&ours, sizeof ours, slot))
        return no_argument(slots ? "slot" : "spec", "a struct with its size", error);
    FACET_NEED_KNOWN("slot", slot, error);
    FACET_NEED_RESERVED("slot", &ours, error);
    if (!facet_slot_type_name(ours.type))
        return no_argument("type", "count, bytes, unique or unified", error);
    enum facet_status status = facet_spec_parse_slot_name(ours.slot_name, &name, error);
    if (status == FACET_OK)
        status = sum_shares(&ours, error);
    if (status != FACET_OK)
        return status;
    size_t index = facet_json_find(slots, "slot_name", ours.slot_name);
    FACET_CLEANUP_JSON json_t *item = copy_of(json_array_get(slots, index));
    if (!item)
        return facet_json_no_memory(error);
    status = facet_fields_put(&facet_slot_fields, &ours, item, error);
    if (status == FACET_OK)
        status = put_exclusive(item, &ours, error);
    if (status == FACET_OK)
        status = put_list(item,
                          &(struct list){"shares", "device_id", &facet_share_fields, ours.shares, sizeof *ours.shares,
                                         ours.share_count},
                          error);
    return status == FACET_OK ? replace_item(slots, index, item, error) : status;
}

/* --- devices ---------------------------------------------------------------------------------------------------- */

static size_t find_device(const json_t *devices, const struct facet_spec_device *device)
{
    size_t index;
    json_t *item;

    json_array_foreach ((json_t *)(uintptr_t)devices, index, item) {
        const char *id = facet_json_text(item, "device_id"), *name = facet_json_text(item, "device_name");
        if (id && name && strcmp(id, device->device_id) == 0 && strcmp(name, device->device_name) == 0)
            return index;
    }
    return json_array_size(devices);
}

static enum facet_status put_lists(json_t *item, const struct facet_spec_device *device, struct facet_error *error)
{
    const struct list lists[] = {
        {"compute_units", "name", &facet_unit_fields, device->units, sizeof *device->units, device->unit_count},
        {"precision_support", "format", &facet_precision_fields, device->precisions, sizeof *device->precisions,
         device->precision_count},
        {"partitioning_support", "technology", &facet_partitioning_fields, device->partitionings,
         sizeof *device->partitionings, device->partitioning_count},
    };
    enum facet_status status = FACET_OK;

    for (size_t i = 0; status == FACET_OK && i < sizeof lists / sizeof lists[0]; i++)
        status = put_list(item, &lists[i], error);
    return status;
}

/* Fills the older members from the detailed ones, unless the caller gives them. */
static enum facet_status derive_device(json_t *item, const struct facet_spec_device *device, struct facet_error *error)
{
    const json_t *memory = json_object_get(json_object_get(item, "memory_spec"), "total_memory");
    const json_t *units = json_object_get(json_array_get(json_object_get(item, "compute_units"), 0), "count");

    if (!(device->valid & FACET_SPEC_DEVICE_HAS_SIZE) && memory &&
        json_object_set_new(item, "memory_size", facet_json_copy(memory)) < 0)
        return facet_json_no_memory(error);
    if (!(device->valid & FACET_SPEC_DEVICE_HAS_PROCESSING) && units &&
        json_object_set_new(item, "processing_units", facet_json_copy(units)) < 0)
        return facet_json_no_memory(error);
    return FACET_OK;
}

enum facet_status facet_spec_put_device(struct facet_spec *spec, const struct facet_spec_device *device,
                                        struct facet_error *error)
{
    json_t *devices = facet_spec_items(spec, "devices");
    struct facet_spec_device ours;

    if (!devices || !facet_struct_take(&ours, sizeof ours, device))
        return no_argument(devices ? "device" : "spec", "a struct with its size", error);
    FACET_NEED_KNOWN("device", device, error);
    if (!ours.device_id || !ours.device_name)
        return no_argument(ours.device_id ? "device_name" : "device_id", "a text, not NULL", error);
    if (ours.status_info && !facet_spec_health_name(ours.health))
        return no_argument("status_info", "a health as well", error);
    size_t index = find_device(devices, &ours);
    FACET_CLEANUP_JSON json_t *item = copy_of(json_array_get(devices, index));
    if (!item)
        return facet_json_no_memory(error);
    enum facet_status status = facet_fields_put(&facet_device_fields, &ours, item, error);
    if (status == FACET_OK)
        status = put_lists(item, &ours, error);
    if (status == FACET_OK)
        status = derive_device(item, &ours, error);
    return status == FACET_OK ? replace_item(devices, index, item, error) : status;
}

/* --- components ------------------------------------------------------------------------------------------------- */

static enum facet_status put_pairs(json_t *owner, const char *member, const struct facet_spec_pair *pairs,
                                   uint32_t count, struct facet_error *error)
{
    if (!pairs || count == 0)
        return FACET_OK;
    if (!json_object_get(owner, member) && json_object_set_new(owner, member, json_object()) < 0)
        return facet_json_no_memory(error);
    for (uint32_t i = 0; i < count; i++) {
        if (!facet_json_is_utf8(pairs[i].key) || !facet_json_is_utf8(pairs[i].value))
            return no_argument(member, "keys and values in UTF-8, not NULL", error);
        if (json_object_set_new(json_object_get(owner, member), pairs[i].key, json_string(pairs[i].value)) < 0)
            return facet_json_no_memory(error);
    }
    return FACET_OK;
}

/* Makes node.components with its first item, and the node as well when it is absent. */
static enum facet_status put_first_component(struct facet_spec *spec, json_t *item, struct facet_error *error)
{
    const json_t *node = facet_spec_items(spec, "node");
    FACET_CLEANUP_JSON json_t *draft = node ? facet_json_copy(node) : json_object();
    FACET_CLEANUP_JSON json_t *components = json_array();

    if (json_array_append(components, item) < 0 || json_object_set(draft, "components", components) < 0 ||
        json_object_set(spec->root, "node", draft) < 0)
        return facet_json_no_memory(error);
    return FACET_OK;
}

enum facet_status facet_spec_put_component(struct facet_spec *spec, const struct facet_spec_component *component,
                                           struct facet_error *error)
{
    struct facet_spec_component ours;

    if (!spec || !facet_struct_take(&ours, sizeof ours, component))
        return no_argument(spec ? "component" : "spec", "a struct with its size", error);
    FACET_NEED_KNOWN("component", component, error);
    if (!ours.name)
        return no_argument("name", "a text, not NULL", error);
    if ((ours.status_info || ours.metadata_count) && !facet_spec_health_name(ours.health))
        return no_argument("status_info", "a health as well", error);
    json_t *components = facet_spec_components(spec);
    size_t index = facet_json_find(components, "name", ours.name);
    FACET_CLEANUP_JSON json_t *item = copy_of(json_array_get(components, index));
    if (!item)
        return facet_json_no_memory(error);
    enum facet_status status = facet_fields_put(&facet_component_fields, &ours, item, error);
    if (status == FACET_OK)
        status = put_pairs(item, "extra", ours.extra, ours.extra_count, error);
    if (status == FACET_OK)
        status = put_pairs(json_object_get(item, "health"), "metadata", ours.metadata, ours.metadata_count, error);
    if (status != FACET_OK)
        return status;
    return components ? replace_item(components, index, item, error) : put_first_component(spec, item, error);
}
