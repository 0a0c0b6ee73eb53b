/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the document's slots, devices and components. Never: keeps a provider open after the call. */
#include "device/node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <facet/session.h>

#include "base/cleanup.h"
#include "device/describe.h"

enum { SLOT_SIZE = 129 };

/* A slot under construction: shares are added device by device. */
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
    const struct facet_node_config *config;
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

/* Adds a share of one whole device or partition, `id`, to the slot `name`. */
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

/* The text behind the colon of a partition's slot: the template's name, made valid for a slot's name. */
static void minor_name_of(const char *template, const char *technology, char *buffer, size_t size)
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
    const char *part; /* a part of the vendor's or the device's name; "" in the last entry, which every name contains */
    const char *unit, *technology;
};

/* The vendors' names for parts of a device. */
static const struct vendor *vendor_of(const struct facet_device_info *info)
{
    static const struct vendor vendors[] = {
        {"NVIDIA", "SM", "MIG"},       {"AMD", "CU", "partition"},    {"Advanced Micro", "CU", "partition"},
        {"Huawei", "AI Core", "vNPU"}, {"Ascend", "AI Core", "vNPU"}, {"", "compute unit", "partition"},
    };
    const struct vendor *vendor = vendors;

    /* A simulated device names the vendor in its own name. */
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

const char *facet_node_device_id(const struct facet_device_table *devices, const struct facet_device_record *device)
{
    const struct facet_device_record *other = NULL;

    for (uint32_t i = 0; device->info.uuid[0] && i < facet_device_table_count(devices); i++) {
        other = facet_device_table_at(devices, i);
        if (other == device)
            return device->info.uuid;
        if (other->provider == device->provider && strcmp(other->info.uuid, device->info.uuid) == 0)
            break;
    }
    return device->id;
}

static uint32_t valid_of(const struct facet_device_info *info)
{
    uint32_t valid = FACET_SPEC_DEVICE_HAS_SIMULATED;

    valid |= info->valid & FACET_DEVICE_HAS_MEMORY ? FACET_SPEC_DEVICE_HAS_MEMORY : 0;
    valid |= info->valid & FACET_DEVICE_HAS_MEMORY_BANDWIDTH ? FACET_SPEC_DEVICE_HAS_BANDWIDTH : 0;
    valid |= info->valid & FACET_DEVICE_HAS_NUMA && info->numa_node >= 0 ? FACET_SPEC_DEVICE_HAS_NUMA : 0;
    return valid;
}

/* Why it is unknown whether a device has partitions; NULL: it is known, or the device cannot have any. */
static const char *why_partitions_unread(const json_t *full)
{
    const char *trouble = json_string_value(json_object_get(full, "trouble"));

    if (!full || json_object_get(full, "partitions"))
        return NULL;
    return trouble ? trouble : "its partitions cannot be listed";
}

static enum facet_status put_device(struct building *building, const struct facet_device_record *device,
                                    const struct facet_node_look *look, const char *id)
{
    const struct facet_device_info *info = &device->info;
    const struct vendor *vendor = vendor_of(info);
    const struct facet_spec_unit unit = {info->kind == FACET_DEVICE_CPU ? "core" : vendor->unit, info->compute_units};
    const struct facet_spec_partitioning partitioning = {
        .technology = vendor->technology,
        .valid =
            (info->valid & FACET_DEVICE_HAS_MAX_PARTITIONS && info->max_partitions ? FACET_SPEC_PARTITIONING_HAS_MAX
                                                                                   : 0) |
            (json_object_get(look->full, "partitions") ? FACET_SPEC_PARTITIONING_HAS_ACTIVE : 0),
        .active = json_array_size(json_object_get(look->full, "partitions")) > 0,
        .max_partitions = info->max_partitions};
    bool has_units = info->valid & FACET_DEVICE_HAS_COMPUTE_UNITS;
    const char *reason = text_or_null(look->reason), *unread = why_partitions_unread(look->full);
    uint32_t health = health_of(look->health);

    if (unread && health <= FACET_SPEC_HEALTHY)
        health = FACET_SPEC_DEGRADED;

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
            .health = health,
            .status_info = health ? (reason ? reason : unread) : NULL,
            .total_memory = info->memory_bytes,
            .bandwidth_bytes_per_second = info->memory_bandwidth_mbps * UINT64_C(1000000),
            .units = has_units ? &unit : NULL,
            .unit_count = has_units ? 1 : 0,
            .partitionings = info->capabilities & FACET_CAN_PARTITION ? &partitioning : NULL,
            .partitioning_count = 1,
        },
        building->error);
}

static bool document_has_device(const struct facet_spec *spec, const char *name, const char *id)
{
    struct facet_spec_device other = {.size = sizeof other};

    for (uint32_t i = 0; facet_spec_get_device(spec, i, &other, NULL) == FACET_OK; i++)
        if (strcmp(other.device_name, name) == 0 && strcmp(other.device_id, id) == 0)
            return true;
    return false;
}

static bool is_amount(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* A partition without a uuid cannot be offered: nothing would distinguish it from another. */
static enum facet_status put_partition(struct building *building, const struct facet_device_record *device,
                                       uint32_t health, const char *parent, const json_t *partition)
{
    const struct vendor *vendor = vendor_of(&device->info);
    const char *uuid = json_string_value(json_object_get(partition, "uuid"));
    const char *template = json_string_value(json_object_get(partition, "template"));
    const json_t *memory = json_object_get(partition, "memory_bytes"),
                 *units = json_object_get(partition, "compute_units");
    const struct facet_spec_unit unit = {vendor->unit, (uint64_t)json_integer_value(units)};
    char model[180], minor[48], slot[SLOT_SIZE];

    if (!uuid || !*uuid || !template || !*template || document_has_device(building->spec, device->provider->name, uuid))
        return FACET_OK;
    snprintf(model, sizeof model, "%.128s %s", device->info.name, template);
    enum facet_status status = facet_spec_put_device(
        building->spec,
        &(struct facet_spec_device){
            .size = sizeof(struct facet_spec_device),
            .valid = FACET_SPEC_DEVICE_HAS_SIMULATED | (is_amount(memory) ? FACET_SPEC_DEVICE_HAS_MEMORY : 0) |
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
            .health = health_of(health),
            .total_memory = (uint64_t)json_integer_value(memory),
            .units = is_amount(units) ? &unit : NULL,
            .unit_count = 1,
        },
        building->error);
    minor_name_of(template, vendor->technology, minor, sizeof minor);
    snprintf(slot, sizeof slot, "%s.device:%s", device->provider->name, minor);
    return status == FACET_OK ? add_share(building, slot, template, uuid) : status;
}

/*
 * Whether the device can be offered as a whole: not when it has partitions, nor when its partitions are unknown. A
 * failed device is not offered at all.
 */
static bool can_offer_whole(const struct facet_node_look *look)
{
    const json_t *partitions = json_object_get(look->full, "partitions");

    return look->health != FACET_HEALTH_FAILED && !why_partitions_unread(look->full) &&
           json_array_size(partitions) == 0;
}

static enum facet_status add_device(struct building *building, const struct facet_device_record *device,
                                    const struct facet_node_look *look)
{
    const json_t *partitions = json_object_get(look->full, "partitions");
    const char *id = facet_node_device_id(building->config->devices, device);
    enum facet_status status = put_device(building, device, look, id);
    char slot[SLOT_SIZE];

    for (size_t i = 0; status == FACET_OK && i < json_array_size(partitions); i++)
        status = put_partition(building, device, look->health, id, json_array_get(partitions, i));
    snprintf(slot, sizeof slot, "%s.device", device->provider->name);
    if (status == FACET_OK && can_offer_whole(look))
        status = add_share(building, slot, "", id);
    return status;
}

/* --- reading devices ---------------------------------------------------------------------------------------------- */

/* The session of the provider that was asked last. */
struct visitor {
    struct facet_session *session;
    const struct facet_provider_record *provider;
    bool reopened; /* the provider was opened a second time; there is no third time, as it may crash at each device */
};

/*
 * Opens the device's provider unless it is open. A provider that died while it answered about an earlier device is
 * opened once more.
 */
static enum facet_status reach_device(struct visitor *visitor, const struct facet_device_record *device)
{
    bool same = visitor->provider == device->provider;

    if (same && (visitor->reopened || facet_session_alive(visitor->session, NULL)))
        return FACET_OK;
    facet_session_close(visitor->session);
    *visitor = (struct visitor){.reopened = same};
    enum facet_status status = facet_session_open(device->provider->path, NULL, &visitor->session, NULL);
    if (status == FACET_OK)
        visitor->provider = device->provider;
    return status;
}

static enum facet_status visit_device(void *context, const struct facet_device_record *device,
                                      struct facet_node_look *look, struct facet_error *error)
{
    struct visitor *visitor = context;

    if (!(device->info.capabilities & FACET_CAN_PARTITION))
        return FACET_OK;
    if (reach_device(visitor, device) != FACET_OK)
        look->full = json_pack("{s:s}", "trouble", "its provider cannot be opened again");
    else
        look->full = facet_device_describe(device, facet_session_provider(visitor->session),
                                           facet_session_instance(visitor->session), device->info.index);
    const char *reason = json_string_value(json_object_get(look->full, "health_reason"));
    snprintf(look->reason, sizeof look->reason, "%s", reason ? reason : "");
    return look->full ? FACET_OK : facet_error_set(error, FACET_NO_MEMORY, "no memory for the devices");
}

static enum facet_status read_device(struct building *building, const struct facet_device_record *device)
{
    const struct facet_node_config *config = building->config;
    struct facet_node_look look = {.health = device->health};
    enum facet_status status = config->look(config->context, device, &look, building->error);

    if (status == FACET_OK)
        status = add_device(building, device, &look);
    json_decref(look.full);
    return status;
}

/* --- the node --------------------------------------------------------------------------------------------------- */

static bool document_has_component(const struct facet_spec *spec, const char *name)
{
    struct facet_spec_component other = {.size = sizeof other};

    for (uint32_t i = 0; facet_spec_get_component(spec, i, &other, NULL) == FACET_OK; i++)
        if (strcmp(other.name, name) == 0)
            return true;
    return false;
}

/* "sim", or "sim#2" when "sim" is taken: the second file of a name is refused, and listed next to the first. */
static void name_component(const struct building *building, const char *name, char *buffer, size_t size)
{
    snprintf(buffer, size, "%s", name);
    for (unsigned number = 2; document_has_component(building->spec, buffer); number++)
        snprintf(buffer, size, "%.200s#%u", name, number);
}

static enum facet_status add_provider(struct building *building, const struct facet_provider_record *provider)
{
    bool loaded = provider->state == FACET_PROVIDER_LOADED;
    char abi[16], name[256];

    snprintf(abi, sizeof abi, "%u.%u", provider->abi_major, provider->abi_minor);
    name_component(building, provider->name, name, sizeof name);
    const struct facet_spec_pair extra[] = {{"description", provider->description}, {"abi", abi}};
    const struct facet_spec_component component = {
        .size = sizeof component,
        .health = loaded ? FACET_SPEC_HEALTHY : FACET_SPEC_UNAVAILABLE,
        .name = name,
        .version = text_or_null(provider->version),
        .status_info = loaded ? NULL : provider->reason.message,
        .extra = extra,
        .extra_count = loaded ? 2 : 0,
    };
    return facet_spec_put_component(building->spec, &component, building->error);
}

static enum facet_status build_document(struct building *building)
{
    const struct facet_spec_component self = {.size = sizeof self, .name = "facet", .version = FACET_VERSION};
    const struct facet_node_config *config = building->config;
    const struct facet_device_table *devices = config->devices;
    uint32_t all = config->count ? config->count : facet_device_table_count(devices);
    enum facet_status status = facet_spec_put_component(building->spec, &self, building->error);

    for (uint32_t i = 0; status == FACET_OK && i < facet_provider_count(devices); i++)
        status = add_provider(building, facet_provider_at(devices, i));
    for (uint32_t i = 0; status == FACET_OK && i < all; i++)
        status = read_device(building, facet_device_table_at(devices, config->count ? config->chosen[i] : i));
    for (uint32_t i = 0; status == FACET_OK && i < building->slot_count; i++)
        status = put_slot(building, &building->slots[i]);
    return status;
}

static enum facet_status describe_node(const struct facet_node_config *config, struct facet_spec **ret_spec,
                                       struct facet_error *error)
{
    struct building building = {.config = config, .error = error};
    enum facet_status status = facet_spec_create(&building.spec, error);

    if (status == FACET_OK)
        status = build_document(&building);
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

enum facet_status facet_node_describe(const struct facet_node_config *config, struct facet_spec **ret_spec,
                                      struct facet_error *error)
{
    struct facet_node_config visited_config = *config;
    struct visitor visitor = {0};

    if (config->look)
        return describe_node(config, ret_spec, error);
    visited_config.look = visit_device;
    visited_config.context = &visitor;
    enum facet_status status = describe_node(&visited_config, ret_spec, error);
    facet_session_close(visitor.session);
    return status;
}
