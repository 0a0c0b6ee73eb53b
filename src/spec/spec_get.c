/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading the items of a node document into structs. Never: changes the document, or copies a text. */
#include <inttypes.h>

#include "spec/spec.h"

static enum facet_status no_item(const char *what, uint32_t index, size_t count, struct facet_error *error)
{
    return facet_error_argument(error, FACET_NOT_FOUND, "index", "%s %" PRIu32 ": expected less than %zu", what, index,
                                count);
}

static enum facet_status no_struct(const char *name, struct facet_error *error)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s: expected a struct with its size", name);
}

static enum facet_status find_item(const json_t *array, const char *what, uint32_t index, json_t **ret_item,
                                   struct facet_error *error)
{
    json_t *item = json_array_get(array, index);

    if (!item)
        return no_item(what, index, json_array_size(array), error);
    *ret_item = item;
    return FACET_OK;
}

static uint32_t count_of(const json_t *array)
{
    return (uint32_t)json_array_size(array);
}

uint32_t facet_spec_slot_count(const struct facet_spec *spec)
{
    return count_of(facet_spec_items(spec, "resource_specs"));
}

enum facet_status facet_spec_get_slot(const struct facet_spec *spec, uint32_t index, struct facet_spec_slot *ret_slot,
                                      struct facet_error *error)
{
    struct facet_spec_slot slot = {0};
    json_t *item = NULL;
    enum facet_status status = find_item(facet_spec_items(spec, "resource_specs"), "slot", index, &item, error);

    if (status != FACET_OK)
        return status;
    facet_fields_get(&facet_slot_fields, item, &slot);
    slot.share_count = count_of(json_object_get(item, "shares"));
    slot.exclusive_count = count_of(json_object_get(item, "exclusive_with"));
    return facet_struct_give(ret_slot, &slot, sizeof slot) ? FACET_OK : no_struct("ret_slot", error);
}

uint32_t facet_spec_device_count(const struct facet_spec *spec)
{
    return count_of(facet_spec_items(spec, "devices"));
}

enum facet_status facet_spec_get_device(const struct facet_spec *spec, uint32_t index,
                                        struct facet_spec_device *ret_device, struct facet_error *error)
{
    struct facet_spec_device device = {0};
    json_t *item = NULL;
    enum facet_status status = find_item(facet_spec_items(spec, "devices"), "device", index, &item, error);

    if (status != FACET_OK)
        return status;
    facet_fields_get(&facet_device_fields, item, &device);
    device.unit_count = count_of(json_object_get(item, "compute_units"));
    device.precision_count = count_of(json_object_get(item, "precision_support"));
    device.partitioning_count = count_of(json_object_get(item, "partitioning_support"));
    return facet_struct_give(ret_device, &device, sizeof device) ? FACET_OK : no_struct("ret_device", error);
}

uint32_t facet_spec_component_count(const struct facet_spec *spec)
{
    return count_of(facet_spec_components(spec));
}

enum facet_status facet_spec_get_component(const struct facet_spec *spec, uint32_t index,
                                           struct facet_spec_component *ret_component, struct facet_error *error)
{
    struct facet_spec_component component = {0};
    json_t *item = NULL;
    enum facet_status status = find_item(facet_spec_components(spec), "component", index, &item, error);

    if (status != FACET_OK)
        return status;
    facet_fields_get(&facet_component_fields, item, &component);
    component.extra_count = (uint32_t)json_object_size(json_object_get(item, "extra"));
    component.metadata_count = (uint32_t)json_object_size(json_object_get(json_object_get(item, "health"), "metadata"));
    return facet_struct_give(ret_component, &component, sizeof component) ? FACET_OK
                                                                          : no_struct("ret_component", error);
}

/* --- items of items --------------------------------------------------------------------------------------------- */

struct inner {
    const char *items, *list, *what;
    const struct facet_fields *fields;
};

/* Fills a struct that does not begin with its size. */
static enum facet_status get_inner(const struct facet_spec *spec, const struct inner *inner, uint32_t outer,
                                   uint32_t index, void *ret_struct, struct facet_error *error)
{
    json_t *item = NULL;
    enum facet_status status = find_item(facet_spec_items(spec, inner->items), inner->items, outer, &item, error);

    if (status == FACET_OK && !ret_struct)
        return no_struct(inner->what, error);
    if (status == FACET_OK)
        status = find_item(json_object_get(item, inner->list), inner->what, index, &item, error);
    if (status == FACET_OK)
        facet_fields_get(inner->fields, item, ret_struct);
    return status;
}

enum facet_status facet_spec_get_share(const struct facet_spec *spec, uint32_t slot, uint32_t index,
                                       struct facet_spec_share *ret_share, struct facet_error *error)
{
    static const struct inner inner = {"resource_specs", "shares", "share", &facet_share_fields};
    struct facet_spec_share share = {0};
    enum facet_status status = get_inner(spec, &inner, slot, index, ret_share ? &share : NULL, error);

    if (status == FACET_OK)
        *ret_share = share;
    return status;
}

enum facet_status facet_spec_get_exclusive(const struct facet_spec *spec, uint32_t slot, uint32_t index,
                                           const char **ret_pattern, struct facet_error *error)
{
    json_t *item = NULL;
    enum facet_status status = find_item(facet_spec_items(spec, "resource_specs"), "slot", slot, &item, error);

    if (status == FACET_OK && !ret_pattern)
        return no_struct("ret_pattern", error);
    if (status == FACET_OK)
        status = find_item(json_object_get(item, "exclusive_with"), "pattern", index, &item, error);
    if (status == FACET_OK)
        *ret_pattern = json_string_value(item);
    return status;
}

enum facet_status facet_spec_get_unit(const struct facet_spec *spec, uint32_t device, uint32_t index,
                                      struct facet_spec_unit *ret_unit, struct facet_error *error)
{
    static const struct inner inner = {"devices", "compute_units", "unit", &facet_unit_fields};
    struct facet_spec_unit unit = {0};
    enum facet_status status = get_inner(spec, &inner, device, index, ret_unit ? &unit : NULL, error);

    if (status == FACET_OK)
        *ret_unit = unit;
    return status;
}

enum facet_status facet_spec_get_precision(const struct facet_spec *spec, uint32_t device, uint32_t index,
                                           struct facet_spec_precision *ret_precision, struct facet_error *error)
{
    static const struct inner inner = {"devices", "precision_support", "precision", &facet_precision_fields};
    struct facet_spec_precision precision = {0};
    enum facet_status status = get_inner(spec, &inner, device, index, ret_precision ? &precision : NULL, error);

    if (status == FACET_OK)
        *ret_precision = precision;
    return status;
}

enum facet_status facet_spec_get_partitioning(const struct facet_spec *spec, uint32_t device, uint32_t index,
                                              struct facet_spec_partitioning *ret_partitioning,
                                              struct facet_error *error)
{
    static const struct inner inner = {"devices", "partitioning_support", "partitioning", &facet_partitioning_fields};
    struct facet_spec_partitioning partitioning = {0};
    enum facet_status status = get_inner(spec, &inner, device, index, ret_partitioning ? &partitioning : NULL, error);

    if (status == FACET_OK)
        *ret_partitioning = partitioning;
    return status;
}

/* The member of an object at `index`, in the order of the document. */
static enum facet_status get_pair(json_t *object, uint32_t index, struct facet_spec_pair *ret_pair,
                                  struct facet_error *error)
{
    void *at = json_object_iter(object);

    if (!ret_pair)
        return no_struct("ret_pair", error);
    for (uint32_t i = 0; at && i < index; i++)
        at = json_object_iter_next(object, at);
    if (!at)
        return no_item("pair", index, json_object_size(object), error);
    *ret_pair = (struct facet_spec_pair){json_object_iter_key(at), json_string_value(json_object_iter_value(at))};
    return FACET_OK;
}

enum facet_status facet_spec_get_extra(const struct facet_spec *spec, uint32_t component, uint32_t index,
                                       struct facet_spec_pair *ret_pair, struct facet_error *error)
{
    json_t *item = NULL;
    enum facet_status status = find_item(facet_spec_components(spec), "component", component, &item, error);

    return status == FACET_OK ? get_pair(json_object_get(item, "extra"), index, ret_pair, error) : status;
}

enum facet_status facet_spec_get_metadata(const struct facet_spec *spec, uint32_t component, uint32_t index,
                                          struct facet_spec_pair *ret_pair, struct facet_error *error)
{
    json_t *item = NULL;
    enum facet_status status = find_item(facet_spec_components(spec), "component", component, &item, error);

    return status == FACET_OK
               ? get_pair(json_object_get(json_object_get(item, "health"), "metadata"), index, ret_pair, error)
               : status;
}

uint32_t facet_spec_health(const struct facet_spec *spec)
{
    const json_t *lists[] = {facet_spec_components(spec), facet_spec_items(spec, "devices")};
    struct facet_spec_component component;
    uint32_t worst = FACET_SPEC_HEALTH_UNKNOWN;
    size_t index;
    json_t *item;

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        json_array_foreach ((json_t *)(uintptr_t)lists[i], index, item) {
            component = (struct facet_spec_component){0};
            facet_fields_get(&facet_component_fields, item, &component);
            worst = component.health > worst ? component.health : worst;
        }
    }
    return worst;
}
