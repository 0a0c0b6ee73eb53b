/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: documents as a whole, the names of enumerations, and the table of members. Never: checks a document itself. */
#include "spec/spec.h"

#include <stdlib.h>

#include "spec/document.h"

static const char *name_of(const char *const *names, size_t count, uint32_t value)
{
    return value < count ? names[value] : NULL;
}

const char *facet_spec_health_name(uint32_t health)
{
    static const char *const names[] = {NULL, "healthy", "degraded", "offline", "unavailable"};

    return name_of(names, sizeof names / sizeof names[0], health);
}

const char *facet_spec_support_name(uint32_t support)
{
    static const char *const names[] = {"none", "emulated", "native"};

    return name_of(names, sizeof names / sizeof names[0], support);
}

/* --- the table of members --------------------------------------------------------------------------------------- */

#define TEXT(type, member)                                                                                             \
    {                                                                                                                  \
#member, NULL, offsetof(struct type, member), 0, FACET_FIELD_TEXT, NULL, false                                 \
    }
#define TEXT_IN(type, group, key, member)                                                                              \
    {                                                                                                                  \
        key, group, offsetof(struct type, member), 0, FACET_FIELD_TEXT, NULL, false                                    \
    }
#define U64_IN(type, group, member, bit)                                                                               \
    {                                                                                                                  \
#member, group, offsetof(struct type, member), bit, FACET_FIELD_U64, NULL, false                               \
    }
#define FIELDS(list, valid)                                                                                            \
    {                                                                                                                  \
        list, sizeof(list) / sizeof((list)[0]), valid                                                                  \
    }

static const struct facet_field slot_list[] = {
    TEXT(facet_spec_slot, slot_name),
    {"type", NULL, offsetof(struct facet_spec_slot, type), 0, FACET_FIELD_NAME, facet_slot_type_name, false},
    TEXT(facet_spec_slot, description),
    TEXT(facet_spec_slot, human_readable_name),
    TEXT(facet_spec_slot, display_unit),
    TEXT(facet_spec_slot, display_icon),
    {"binary", "number_format", offsetof(struct facet_spec_slot, binary), FACET_SPEC_SLOT_HAS_FORMAT, FACET_FIELD_BOOL,
     NULL, true},
    {"round_length", "number_format", offsetof(struct facet_spec_slot, round_length), FACET_SPEC_SLOT_HAS_FORMAT,
     FACET_FIELD_U32, NULL, false},
    {"amount", NULL, offsetof(struct facet_spec_slot, amount_micro), FACET_SPEC_SLOT_HAS_AMOUNT, FACET_FIELD_AMOUNT,
     NULL, false},
};

static const struct facet_field share_list[] = {
    TEXT(facet_spec_share, device_id),
    {"amount", NULL, offsetof(struct facet_spec_share, amount_micro), 0, FACET_FIELD_AMOUNT, NULL, false},
};

static const struct facet_field device_list[] = {
    TEXT(facet_spec_device, device_id),
    TEXT(facet_spec_device, device_name),
    TEXT(facet_spec_device, parent_id),
    TEXT(facet_spec_device, facet_id),
    TEXT(facet_spec_device, uuid),
    TEXT(facet_spec_device, serial),
    TEXT(facet_spec_device, model_name),
    TEXT(facet_spec_device, vendor),
    TEXT(facet_spec_device, driver_version),
    TEXT(facet_spec_device, provider),
    TEXT(facet_spec_device, kind),
    {"simulated", NULL, offsetof(struct facet_spec_device, simulated), FACET_SPEC_DEVICE_HAS_SIMULATED,
     FACET_FIELD_BOOL, NULL, false},
    TEXT(facet_spec_device, hw_location),
    {"numa_node", NULL, offsetof(struct facet_spec_device, numa_node), FACET_SPEC_DEVICE_HAS_NUMA, FACET_FIELD_U32,
     NULL, false},
    U64_IN(facet_spec_device, NULL, memory_size, FACET_SPEC_DEVICE_HAS_SIZE),
    U64_IN(facet_spec_device, NULL, processing_units, FACET_SPEC_DEVICE_HAS_PROCESSING),
    U64_IN(facet_spec_device, "memory_spec", total_memory, FACET_SPEC_DEVICE_HAS_MEMORY),
    TEXT_IN(facet_spec_device, "memory_spec", "memory_type", memory_type),
    U64_IN(facet_spec_device, "memory_spec", bandwidth_bytes_per_second, FACET_SPEC_DEVICE_HAS_BANDWIDTH),
    U64_IN(facet_spec_device, "memory_spec", l1_cache_per_core, FACET_SPEC_DEVICE_HAS_L1),
    U64_IN(facet_spec_device, "memory_spec", l2_cache, FACET_SPEC_DEVICE_HAS_L2),
    U64_IN(facet_spec_device, "memory_spec", shared_mem_per_core, FACET_SPEC_DEVICE_HAS_SHARED),
    U64_IN(facet_spec_device, "memory_spec", memory_channels, FACET_SPEC_DEVICE_HAS_CHANNELS),
    {"status", "health", offsetof(struct facet_spec_device, health), 0, FACET_FIELD_NAME, facet_spec_health_name, true},
    TEXT_IN(facet_spec_device, "health", "status_info", status_info),
};

static const struct facet_field unit_list[] = {
    TEXT(facet_spec_unit, name),
    U64_IN(facet_spec_unit, NULL, count, 0),
};

static const struct facet_field precision_list[] = {
    TEXT(facet_spec_precision, format),
    {"support", NULL, offsetof(struct facet_spec_precision, support), 0, FACET_FIELD_NAME, facet_spec_support_name,
     false},
};

static const struct facet_field partitioning_list[] = {
    TEXT(facet_spec_partitioning, technology),
    U64_IN(facet_spec_partitioning, NULL, max_partitions, FACET_SPEC_PARTITIONING_HAS_MAX),
    {"active", NULL, offsetof(struct facet_spec_partitioning, active), FACET_SPEC_PARTITIONING_HAS_ACTIVE,
     FACET_FIELD_BOOL, NULL, false},
};

static const struct facet_field component_list[] = {
    TEXT(facet_spec_component, name),
    TEXT(facet_spec_component, version),
    {"status", "health", offsetof(struct facet_spec_component, health), 0, FACET_FIELD_NAME, facet_spec_health_name,
     true},
    TEXT_IN(facet_spec_component, "health", "status_info", status_info),
};

const struct facet_fields facet_slot_fields = FIELDS(slot_list, offsetof(struct facet_spec_slot, valid));
const struct facet_fields facet_share_fields = FIELDS(share_list, SIZE_MAX);
const struct facet_fields facet_device_fields = FIELDS(device_list, offsetof(struct facet_spec_device, valid));
const struct facet_fields facet_unit_fields = FIELDS(unit_list, SIZE_MAX);
const struct facet_fields facet_precision_fields = FIELDS(precision_list, SIZE_MAX);
const struct facet_fields facet_partitioning_fields =
    FIELDS(partitioning_list, offsetof(struct facet_spec_partitioning, valid));
const struct facet_fields facet_component_fields = FIELDS(component_list, SIZE_MAX);

/* --- documents -------------------------------------------------------------------------------------------------- */

/* Takes ownership of the root, also when it fails. */
static enum facet_status wrap_document(json_t *root, struct facet_spec **ret_spec, struct facet_error *error)
{
    struct facet_spec *spec = root ? malloc(sizeof *spec) : NULL;

    if (!spec) {
        json_decref(root);
        return facet_json_no_memory(error);
    }
    spec->root = root;
    *ret_spec = spec;
    return FACET_OK;
}

static enum facet_status no_output(const char *name, struct facet_error *error)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s: expected a value, not NULL", name);
}

enum facet_status facet_spec_create(struct facet_spec **ret_spec, struct facet_error *error)
{
    if (!ret_spec)
        return no_output("ret_spec", error);
    return wrap_document(json_pack("{s:s, s:s, s:[], s:[]}", "format", "facet-accelerator-node", "version", "1.0",
                                   "resource_specs", "devices"),
                         ret_spec, error);
}

enum facet_status facet_spec_read(const char *text, size_t bytes, struct facet_spec **ret_spec,
                                  struct facet_error *error)
{
    json_t *root = NULL;

    if (!ret_spec)
        return no_output("ret_spec", error);
    enum facet_status status = facet_document_read(FACET_DOCUMENT_NODE, text, bytes, &root, error);
    return status == FACET_OK ? wrap_document(root, ret_spec, error) : status;
}

enum facet_status facet_spec_write(const struct facet_spec *spec, char **ret_text, struct facet_error *error)
{
    if (!spec || !ret_text)
        return no_output(spec ? "ret_text" : "spec", error);
    enum facet_status status = facet_document_demand(FACET_DOCUMENT_NODE, spec->root, error);
    return status == FACET_OK ? facet_json_write(spec->root, ret_text, error) : status;
}

void facet_spec_destroy(struct facet_spec *spec)
{
    if (!spec)
        return;
    json_decref(spec->root);
    free(spec);
}
