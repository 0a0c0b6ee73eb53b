/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the members that a device's full description has. Never: writes 0 for an absent measurement. */
#include "device/describe.h"

#include <stdlib.h>
#include <string.h>

#include <facet/limits.h>

#include "base/cleanup.h"
#include "base/integer.h"
#include "device/json.h"
#include "device/listing.h"

/* Longer texts of properties are taken for garbage. */
#define PROPERTIES_MAX 65536u

struct question {
    const struct facet_device_record *device;
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
    uint32_t index;
    struct facet_error *trouble; /* the first failure to read */
};

/* False on failure; the first error is kept in `trouble`. A list that the provider does not have is no error. */
static bool list_items(const struct question *question, enum facet_listing_kind kind, const char *text,
                       void **ret_items, uint32_t *ret_count)
{
    struct facet_error error = {0};
    const struct facet_listing_query query = {.provider = question->provider,
                                              .instance = question->instance,
                                              .kind = kind,
                                              .device = question->index,
                                              .text = text};

    enum facet_status status = facet_listing_read(&query, ret_items, ret_count, &error);
    if (status != FACET_OK && status != FACET_UNSUPPORTED && question->trouble->status == FACET_OK)
        *question->trouble = error;
    return status == FACET_OK;
}

/* A member for which there is no memory is left out. */
static void put_value(json_t *object, const char *member, json_t *value)
{
    json_object_set_new(object, member, value);
}

static void put_integer(json_t *object, const char *member, bool present, uint64_t value)
{
    if (present)
        put_value(object, member, json_integer(facet_integer(value)));
}

static void put_text(json_t *object, const char *member, const char *text)
{
    if (text[0])
        put_value(object, member, json_string(text));
}

/* --- names ------------------------------------------------------------------------------------------------------ */

static json_t *capabilities_json(uint64_t capabilities)
{
    static const char *const names[] = {
        "partition",    "limit_memory", "limit_compute", "snapshot",  "device_metrics", "process_metrics",
        "link_metrics", "topology",     "events",        "container", "memory",         "map_memory",
        "execute",      "remote",       "enqueue",       "share",     "record",         "share_pages",
        "move_pages",   "control",      "schedule",      "math"};
    json_t *array = json_array();

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (capabilities & UINT64_C(1) << i)
            json_array_append_new(array, json_string(names[i]));
    return array;
}

const char *facet_link_type_name(uint32_t type)
{
    static const char *const names[] = {"unknown", "internal", "pcie",       "nvlink",   "xgmi",
                                        "hccs",    "socket",   "infiniband", "ethernet", "vendor"};

    return names[type < sizeof names / sizeof names[0] ? type : FACET_LINK_UNKNOWN];
}

static const char *level_name(uint32_t level)
{
    static const char *const names[] = {"unknown",     "internal",  "single_switch", "multi_switch",
                                        "host_bridge", "numa_node", "system"};

    return names[level < sizeof names / sizeof names[0] ? level : FACET_LEVEL_UNKNOWN];
}

static const char *node_kind_name(uint32_t kind)
{
    static const char *const names[] = {"other", "device", "nic", "switch", "socket"};

    return names[kind < sizeof names / sizeof names[0] ? kind : 0];
}

/* --- parts ------------------------------------------------------------------------------------------------------ */

/* Modes that may be on the device at the same time, as lists. */
static json_t *mode_groups_json(const struct facet_device_record *device)
{
    const struct facet_device_info *info = &device->info;
    json_t *groups = json_object();

    if (!facet_device_takes_programs(device))
        return groups;

    for (uint32_t mode = FACET_MODE_SHARED; mode <= FACET_MODE_PARTITIONED; mode++) {
        json_t *with = json_array();

        for (uint32_t other = FACET_MODE_SHARED; other <= FACET_MODE_PARTITIONED; other++)
            if (other != mode && (info->modes & FACET_DEVICE_MODE(other)) && info->mode_group[mode] &&
                info->mode_group[mode] == info->mode_group[other])
                json_array_append_new(with, json_string(facet_mode_name((enum facet_mode)other)));
        if (info->modes & FACET_DEVICE_MODE(mode))
            put_value(groups, facet_mode_name((enum facet_mode)mode), with);
        else
            json_decref(with);
    }
    return groups;
}

static bool read_properties(const struct question *q, char **ret_text)
{
    uint32_t size = 0;
    enum facet_status status = q->provider->device->properties(q->instance, q->index, NULL, 0, &size, NULL);

    if (status != FACET_TOO_SMALL || size == 0 || size > PROPERTIES_MAX)
        return false;
    FACET_CLEANUP_FREE char *text = calloc(1, size);
    if (!text || q->provider->device->properties(q->instance, q->index, text, size, &size, NULL) != FACET_OK)
        return false;
    *ret_text = FACET_TAKE_PTR(text);
    return true;
}

static json_t *properties_json(const struct question *question)
{
    FACET_CLEANUP_FREE char *text = NULL;
    char *rest;

    if (!read_properties(question, &text))
        return NULL;
    json_t *object = json_object();
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *equals = strchr(line, '=');
        if (!equals)
            continue;
        *equals = '\0';
        put_value(object, line, json_string(equals + 1));
    }
    return object;
}

static json_t *placements_json(const struct question *question, const char *template_id)
{
    FACET_CLEANUP_FREE void *items = NULL;
    uint32_t count = 0;

    if (!list_items(question, FACET_LISTING_PLACEMENTS, template_id, &items, &count))
        return NULL;
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++) {
        const struct facet_partition_placement *place = &((struct facet_partition_placement *)items)[i];
        json_array_append_new(array, json_pack("{s:I, s:I, s:b}", "start", (json_int_t)place->start, "length",
                                               (json_int_t)place->length, "free", (int)(place->free != 0)));
    }
    return array;
}

static json_t *templates_json(const struct question *question)
{
    FACET_CLEANUP_FREE void *items = NULL;
    uint32_t count = 0;

    if (!list_items(question, FACET_LISTING_TEMPLATES, NULL, &items, &count))
        return NULL;
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++) {
        const struct facet_partition_template *template = &((struct facet_partition_template *)items)[i];
        json_t *object = json_object();

        put_text(object, "id", template->id);
        put_integer(object, "memory_bytes", template->valid & FACET_PARTITION_HAS_MEMORY, template->memory_bytes);
        put_integer(object, "overhead_bytes", template->valid & FACET_PARTITION_HAS_OVERHEAD, template->overhead_bytes);
        put_integer(object, "compute_units", true, template->compute_units);
        put_integer(object, "compute_milli", true, template->compute_milli);
        put_integer(object, "length", true, template->length);
        put_integer(object, "max_count", true, template->max_count);
        json_t *placements = placements_json(question, template->id);
        if (placements)
            put_value(object, "placements", placements);
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *partitions_json(const struct question *question)
{
    FACET_CLEANUP_FREE void *items = NULL;
    uint32_t count = 0;

    if (!list_items(question, FACET_LISTING_PARTITIONS, NULL, &items, &count))
        return NULL;
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++) {
        const struct facet_partition_info *info = &((struct facet_partition_info *)items)[i];
        json_t *object = json_object();

        put_text(object, "uuid", info->uuid);
        put_text(object, "template", info->template_id);
        put_integer(object, "start", true, info->start);
        put_integer(object, "length", true, info->length);
        put_integer(object, "memory_bytes", info->valid & FACET_PARTITION_HAS_MEMORY, info->memory_bytes);
        put_integer(object, "compute_units", true, info->compute_units);
        put_integer(object, "compute_milli", true, info->compute_milli);
        if (info->valid & FACET_PARTITION_HAS_USE)
            put_value(object, "in_use", json_boolean(info->in_use));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *workers_json(const struct question *question)
{
    FACET_CLEANUP_FREE void *items = NULL;
    uint32_t count = 0;

    if (!list_items(question, FACET_LISTING_LIMITS, NULL, &items, &count))
        return NULL;
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++) {
        const struct facet_worker_limit *limit = &((struct facet_worker_limit *)items)[i];
        json_t *object = json_object();
        bool compute = limit->valid & FACET_WORKER_HAS_COMPUTE;

        put_text(object, "worker", limit->worker);
        put_integer(object, "memory_bytes", limit->valid & FACET_WORKER_HAS_MEMORY, limit->memory_bytes);
        put_integer(object, "compute_milli", compute, limit->compute_milli);
        put_integer(object, "compute_units", compute, limit->compute_units);
        json_array_append_new(array, object);
    }
    return array;
}

/* --- links ------------------------------------------------------------------------------------------------------ */

static const struct facet_topology_node *find_own_node(const struct question *question,
                                                       const struct facet_topology_node *nodes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if ((nodes[i].valid & FACET_NODE_HAS_DEVICE) && nodes[i].device == question->index)
            return &nodes[i];
    return NULL;
}

static json_t *link_json(const struct facet_topology_link *link, const struct facet_topology_node *other)
{
    json_t *object = json_object();

    put_text(object, "to", other->name[0] ? other->name : other->uuid);
    put_value(object, "kind", json_string(node_kind_name(other->kind)));
    put_integer(object, "device", other->valid & FACET_NODE_HAS_DEVICE, other->device);
    put_value(object, "type", json_string(facet_link_type_name(link->type)));
    put_value(object, "level", json_string(level_name(link->level)));
    put_integer(object, "lanes", true, link->lanes);
    if (link->valid & FACET_LINK_HAS_STATE)
        put_value(object, "up", json_boolean(link->up));
    put_integer(object, "bandwidth_mbps", link->valid & FACET_LINK_HAS_BANDWIDTH, link->bandwidth_mbps);
    put_integer(object, "latency_ns", link->valid & FACET_LINK_HAS_LATENCY, link->latency_ns);
    return object;
}

static json_t *links_json(const struct question *question)
{
    FACET_CLEANUP_FREE void *nodes = NULL, *links = NULL;
    uint32_t node_count = 0, link_count = 0;

    if (!list_items(question, FACET_LISTING_NODES, NULL, &nodes, &node_count) ||
        !list_items(question, FACET_LISTING_LINKS, NULL, &links, &link_count))
        return NULL;
    const struct facet_topology_node *device_node = find_own_node(question, nodes, node_count);
    json_t *array = json_array();
    for (uint32_t i = 0; device_node && i < link_count; i++) {
        const struct facet_topology_link *link = &((struct facet_topology_link *)links)[i];
        uint32_t other = link->a == device_node->index ? link->b : link->a;

        if ((link->a == device_node->index || link->b == device_node->index) && other < node_count)
            json_array_append_new(array, link_json(link, &((struct facet_topology_node *)nodes)[other]));
    }
    return array;
}

json_t *facet_device_describe(const struct facet_device_record *device, const struct facet_provider *provider,
                              struct facet_provider_instance *instance, uint32_t index)
{
    static const struct {
        uint64_t capability; /* read when the device has one of these bits; ~0: always */
        const char *member;
        json_t *(*read)(const struct question *question);
    } parts[] = {
        {~UINT64_C(0), "properties", properties_json},
        {FACET_CAN_PARTITION, "templates", templates_json},
        {FACET_CAN_PARTITION, "partitions", partitions_json},
        {FACET_CAN_LIMIT_MEMORY | FACET_CAN_LIMIT_COMPUTE, "workers", workers_json},
        {FACET_CAN_TOPOLOGY, "links", links_json},
    };
    struct facet_error trouble = {0};
    const struct question question = {device, provider, instance, index, &trouble};
    json_t *object = facet_device_json(device);

    if (!object)
        return NULL;
    put_value(object, "capabilities", capabilities_json(device->info.capabilities));
    put_value(object, "mode_groups", mode_groups_json(device));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        json_t *part = parts[i].capability == ~UINT64_C(0) || (device->info.capabilities & parts[i].capability)
                           ? parts[i].read(&question)
                           : NULL;
        if (part)
            put_value(object, parts[i].member, part);
    }
    if (trouble.status != FACET_OK)
        put_text(object, "trouble", trouble.message);
    return object;
}
