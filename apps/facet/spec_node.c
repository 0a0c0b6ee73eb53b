/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: how a device of the table is named, counted and shown to an orchestrator. Never: says what was not measured. */
#include "spec_node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <facet/session.h>

#include "base/cleanup.h"
#include "device/describe.h"

enum { SLOT_SIZE = 129 };

/* A slot on its way: shares are added device by device. */
struct slot {
    char name[SLOT_SIZE];
    char template[32]; /* of partitions; empty: whole devices */
    struct facet_spec_share *shares;
    uint32_t count;
};

struct building {
    struct facet_spec *spec;
    struct slot *slots;
    uint32_t slot_count;
    char **ids; /* of devices and partitions, for as long as shares point at them */
    uint32_t id_count;
    struct facet_session *session; /* of `provider` */
    const struct facet_provider_record *provider;
    struct facet_error *error;
};

static enum facet_status no_memory(struct building *building)
{
    return facet_error_set(building->error, FACET_NO_MEMORY, "no memory for the devices");
}

/* --- slots ------------------------------------------------------------------------------------------------------ */

static struct slot *find_slot(struct building *building, const char *name, const char *template)
{
    for (uint32_t i = 0; i < building->slot_count; i++)
        if (strcmp(building->slots[i].name, name) == 0)
            return &building->slots[i];
    struct slot *slots = realloc(building->slots, (building->slot_count + 1) * sizeof *slots);
    if (!slots)
        return NULL;
    building->slots = slots;
    struct slot *slot = &slots[building->slot_count++];
    *slot = (struct slot){0};
    snprintf(slot->name, sizeof slot->name, "%s", name);
    snprintf(slot->template, sizeof slot->template, "%s", template);
    return slot;
}

/* One whole `id` to a slot. */
static enum facet_status add_share(struct building *building, const char *name, const char *template, const char *id)
{
    struct slot *slot = find_slot(building, name, template);
    struct facet_spec_share *shares = slot ? realloc(slot->shares, (slot->count + 1) * sizeof *shares) : NULL;
    char **ids = realloc(building->ids, (building->id_count + 1) * sizeof *ids);

    if (ids)
        building->ids = ids;
    if (shares)
        slot->shares = shares;
    char *copy = shares && ids ? strdup(id) : NULL;
    if (!copy)
        return no_memory(building);
    building->ids[building->id_count++] = copy;
    slot->shares[slot->count++] = (struct facet_spec_share){copy, FACET_AMOUNT_ONE};
    return FACET_OK;
}

/* The part of a template's name behind the colon: in the grammar of slots, whatever the vendor writes. */
static void minor_of(const char *template, const char *technology, char *buffer, size_t size)
{
    snprintf(buffer, size, "%s%s", template, strcmp(technology, "MIG") == 0 ? "-mig" : "");
    for (char *c = buffer; *c; c++) {
        bool upper = *c >= 'A' && *c <= 'Z';
        bool fine = (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || (c > buffer && strchr("._+-", *c));
        *c = (char)(upper ? *c | 0x20 : fine ? *c : '0');
    }
}

static enum facet_status put_slot(struct building *building, const struct slot *slot)
{
    char text[96], name[64];
    bool partition = slot->template[0];

    snprintf(text, sizeof text, partition ? "partitions of the kind %s" : "whole devices", slot->template);
    snprintf(name, sizeof name, "%.*s%s%s", (int)strcspn(slot->name, "."), slot->name, partition ? " " : "",
             slot->template);
    const struct facet_spec_slot item = {
        .size = sizeof item,
        .valid = FACET_SPEC_SLOT_HAS_FORMAT,
        .slot_name = slot->name,
        .type = partition ? FACET_SLOT_UNIQUE : FACET_SLOT_COUNT,
        .description = text,
        .human_readable_name = name,
        .display_unit = partition ? "partition" : "device",
        .display_icon = "gpu1",
        .shares = slot->shares,
        .share_count = slot->count,
    };
    return facet_spec_put_slot(building->spec, &item, building->error);
}

/* --- devices ---------------------------------------------------------------------------------------------------- */

struct vendor {
    const char *part; /* of the vendor's name, or the device's; the last is in any */
    const char *unit, *technology;
};

/* What vendors call their parts. */
static const struct vendor *vendor_of(const struct facet_device_info *info)
{
    static const struct vendor vendors[] = {
        {"NVIDIA", "SM", "MIG"},       {"AMD", "CU", "partition"},    {"Advanced Micro", "CU", "partition"},
        {"Huawei", "AI Core", "vNPU"}, {"Ascend", "AI Core", "vNPU"}, {"", "compute unit", "partition"},
    };
    const struct vendor *vendor = vendors;

    /* Whoever simulates another's device says so in its name. */
    while (!strcasestr(info->vendor, vendor->part) && !strcasestr(info->name, vendor->part))
        vendor++;
    return vendor;
}

static uint32_t health_of(uint32_t health)
{
    return health == FACET_HEALTH_OK         ? FACET_SPEC_HEALTHY
           : health == FACET_HEALTH_DEGRADED ? FACET_SPEC_DEGRADED
           : health == FACET_HEALTH_FAILED   ? FACET_SPEC_UNAVAILABLE
                                             : FACET_SPEC_HEALTH_UNKNOWN;
}

static const char *text_or_null(const char *text)
{
    return text && text[0] ? text : NULL;
}

/* A uuid where there is one that no other device of the provider has: it outlives a restart. */
static const char *id_of(const struct building *building, const struct facet_device_record *device)
{
    struct facet_spec_device other = {.size = sizeof other};

    for (uint32_t i = 0; facet_spec_get_device(building->spec, i, &other, NULL) == FACET_OK; i++)
        if (strcmp(other.device_name, device->provider->name) == 0 && strcmp(other.device_id, device->info.uuid) == 0)
            return device->id;
    return device->info.uuid[0] ? device->info.uuid : device->id;
}

static uint32_t valid_of(const struct facet_device_info *info)
{
    uint32_t valid = FACET_SPEC_DEVICE_HAS_SIMULATED;

    valid |= info->valid & FACET_DEVICE_HAS_MEMORY ? FACET_SPEC_DEVICE_HAS_MEMORY : 0;
    valid |= info->valid & FACET_DEVICE_HAS_MEMORY_BANDWIDTH ? FACET_SPEC_DEVICE_HAS_BANDWIDTH : 0;
    valid |= info->valid & FACET_DEVICE_HAS_NUMA && info->numa_node >= 0 ? FACET_SPEC_DEVICE_HAS_NUMA : 0;
    return valid;
}

/* `full` is what its provider says besides; NULL when it was not asked. */
static enum facet_status put_device(struct building *building, const struct facet_device_record *device,
                                    const json_t *full, const char *id)
{
    const struct facet_device_info *info = &device->info;
    const struct vendor *vendor = vendor_of(info);
    const struct facet_spec_unit unit = {info->kind == FACET_DEVICE_CPU ? "core" : vendor->unit, info->compute_units};
    const struct facet_spec_partitioning partitioning = {
        .technology = vendor->technology,
        .valid =
            (info->valid & FACET_DEVICE_HAS_MAX_PARTITIONS && info->max_partitions ? FACET_SPEC_PARTITIONING_HAS_MAX
                                                                                   : 0) |
            (full ? FACET_SPEC_PARTITIONING_HAS_ACTIVE : 0),
        .active = json_array_size(json_object_get(full, "partitions")) > 0,
        .max_partitions = info->max_partitions};
    bool has_units = info->valid & FACET_DEVICE_HAS_COMPUTE_UNITS, has_health = health_of(device->health);
    const char *reason = json_string_value(json_object_get(full, "health_reason"));

    return facet_spec_put_device(
        building->spec,
        &(struct facet_spec_device){
            .size = sizeof(struct facet_spec_device),
            .valid = valid_of(info),
            .device_id = id,
            .device_name = device->provider->name,
            .facet_id = device->id,
            .uuid = text_or_null(info->uuid),
            .model_name = text_or_null(info->name),
            .vendor = text_or_null(info->vendor),
            .driver_version = text_or_null(info->driver_version),
            .provider = device->provider->name,
            .kind = facet_device_kind_name(info->kind),
            .hw_location = info->valid & FACET_DEVICE_HAS_PCI ? text_or_null(info->pci_address) : NULL,
            .numa_node = (uint32_t)info->numa_node,
            .simulated = (device->provider->traits & FACET_PROVIDER_SIMULATED) != 0,
            .health = health_of(device->health),
            .status_info = has_health ? reason : NULL,
            .total_memory = info->memory_bytes,
            .bandwidth_bytes_per_second = info->memory_bandwidth_mbps * UINT64_C(1000000),
            .units = has_units ? &unit : NULL,
            .unit_count = has_units ? 1 : 0,
            .partitionings = info->capabilities & FACET_CAN_PARTITION ? &partitioning : NULL,
            .partitioning_count = 1,
        },
        building->error);
}

static enum facet_status put_partition(struct building *building, const struct facet_device_record *device,
                                       const char *parent, const json_t *partition)
{
    const struct vendor *vendor = vendor_of(&device->info);
    const char *uuid = json_string_value(json_object_get(partition, "uuid"));
    const char *template = json_string_value(json_object_get(partition, "template"));
    const json_t *memory = json_object_get(partition, "memory_bytes"),
                 *units = json_object_get(partition, "compute_units");
    const struct facet_spec_unit unit = {vendor->unit, (uint64_t)json_integer_value(units)};
    char model[180], minor[48], slot[SLOT_SIZE];

    if (!uuid || !template)
        return FACET_OK;
    snprintf(model, sizeof model, "%.128s %s", device->info.name, template);
    enum facet_status status = facet_spec_put_device(
        building->spec,
        &(struct facet_spec_device){
            .size = sizeof(struct facet_spec_device),
            .valid = FACET_SPEC_DEVICE_HAS_SIMULATED | (memory ? FACET_SPEC_DEVICE_HAS_MEMORY : 0) |
                     (valid_of(&device->info) & FACET_SPEC_DEVICE_HAS_NUMA),
            .device_id = uuid,
            .device_name = device->provider->name,
            .parent_id = parent,
            .uuid = uuid,
            .model_name = model,
            .vendor = text_or_null(device->info.vendor),
            .provider = device->provider->name,
            .kind = facet_device_kind_name(device->info.kind),
            .numa_node = (uint32_t)device->info.numa_node,
            .simulated = (device->provider->traits & FACET_PROVIDER_SIMULATED) != 0,
            .health = health_of(device->health),
            .total_memory = (uint64_t)json_integer_value(memory),
            .units = units ? &unit : NULL,
            .unit_count = 1,
        },
        building->error);
    minor_of(template, vendor->technology, minor, sizeof minor);
    snprintf(slot, sizeof slot, "%s.device:%s", device->provider->name, minor);
    return status == FACET_OK ? add_share(building, slot, template, uuid) : status;
}

/* What the open provider says of it; NULL in *ret_full when the device cannot be cut. */
static enum facet_status ask(struct building *building, const struct facet_device_record *device, json_t **ret_full)
{
    if (!(device->info.capabilities & FACET_CAN_PARTITION))
        return FACET_OK;
    if (building->provider != device->provider) {
        facet_session_close(building->session);
        building->session = NULL;
        building->provider = NULL;
        enum facet_status status =
            facet_session_open(device->provider->path, NULL, &building->session, building->error);
        if (status != FACET_OK)
            return status;
        building->provider = device->provider;
    }
    *ret_full = facet_device_describe(device, facet_session_provider(building->session),
                                      facet_session_instance(building->session), device->info.index);
    return *ret_full ? FACET_OK : no_memory(building);
}

/* A device in pieces is not offered as a whole, and a broken one not at all. */
static enum facet_status add_device(struct building *building, const struct facet_device_record *device)
{
    json_t *full = NULL, *partition, *partitions;
    const char *id = id_of(building, device);
    char slot[SLOT_SIZE];
    size_t index;
    enum facet_status status = ask(building, device, &full);

    if (status == FACET_OK)
        status = put_device(building, device, full, id);
    partitions = json_object_get(full, "partitions");
    json_array_foreach(partitions, index, partition) if (status == FACET_OK) status =
        put_partition(building, device, id, partition);
    snprintf(slot, sizeof slot, "%s.device", device->provider->name);
    if (status == FACET_OK && json_array_size(partitions) == 0 && device->health != FACET_HEALTH_FAILED)
        status = add_share(building, slot, "", id);
    json_decref(full);
    return status;
}

/* --- the node --------------------------------------------------------------------------------------------------- */

static enum facet_status add_provider(struct building *building, const struct facet_provider_record *provider)
{
    bool loaded = provider->state == FACET_PROVIDER_LOADED;
    char abi[16];

    snprintf(abi, sizeof abi, "%u.%u", provider->abi_major, provider->abi_minor);
    const struct facet_spec_pair extra[] = {{"description", provider->description}, {"abi", abi}};
    const struct facet_spec_component component = {
        .size = sizeof component,
        .health = loaded ? FACET_SPEC_HEALTHY : FACET_SPEC_UNAVAILABLE,
        .name = provider->name,
        .version = text_or_null(provider->version),
        .status_info = loaded ? NULL : provider->reason.message,
        .extra = extra,
        .extra_count = loaded ? 2 : 0,
    };
    return facet_spec_put_component(building->spec, &component, building->error);
}

static enum facet_status build(struct building *building, const struct facet_device_table *devices,
                               const uint32_t *chosen, uint32_t count)
{
    const struct facet_spec_component self = {.size = sizeof self, .name = "facet", .version = FACET_VERSION};
    uint32_t all = count ? count : facet_device_table_count(devices);
    enum facet_status status = facet_spec_put_component(building->spec, &self, building->error);

    for (uint32_t i = 0; status == FACET_OK && i < facet_provider_count(devices); i++)
        status = add_provider(building, facet_provider_at(devices, i));
    for (uint32_t i = 0; status == FACET_OK && i < all; i++)
        status = add_device(building, facet_device_table_at(devices, count ? chosen[i] : i));
    for (uint32_t i = 0; status == FACET_OK && i < building->slot_count; i++)
        status = put_slot(building, &building->slots[i]);
    return status;
}

enum facet_status spec_node_make(const struct facet_device_table *devices, const uint32_t *chosen, uint32_t count,
                                 struct facet_spec **ret_spec, struct facet_error *error)
{
    struct building building = {.error = error};
    enum facet_status status = facet_spec_create(&building.spec, error);

    if (status == FACET_OK)
        status = build(&building, devices, chosen, count);
    facet_session_close(building.session);
    for (uint32_t i = 0; i < building.slot_count; i++)
        free(building.slots[i].shares);
    for (uint32_t i = 0; i < building.id_count; i++)
        free(building.ids[i]);
    free(building.slots);
    free(building.ids);
    if (status == FACET_OK)
        *ret_spec = FACET_TAKE_PTR(building.spec);
    facet_spec_destroy(building.spec);
    return status;
}
