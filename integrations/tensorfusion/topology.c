/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the distances between devices, in the levels of TensorFusion's ABI. Never: guesses: two devices of which
 * neither a link nor both NUMA nodes are known have the level UNKNOWN.
 */
#include <stdlib.h>
#include <string.h>

#include "facade.h"

/* One provider's part of the topology. */
struct part {
    struct facet_topology_node *nodes;
    struct facet_topology_link *links;
    uint32_t node_count, link_count;
};

static TopoLevelType translate_level(uint32_t level)
{
    static const TopoLevelType levels[] = {
        [FACET_LEVEL_UNKNOWN] = TOPO_LEVEL_UNKNOWN,
        [FACET_LEVEL_INTERNAL] = TOPO_LEVEL_INTERNAL,
        [FACET_LEVEL_SINGLE_SWITCH] = TOPO_LEVEL_SINGLE_SWITCH,
        [FACET_LEVEL_MULTI_SWITCH] = TOPO_LEVEL_MULTI_SWITCH,
        [FACET_LEVEL_HOST_BRIDGE] = TOPO_LEVEL_HOST_BRIDGE,
        [FACET_LEVEL_NUMA_NODE] = TOPO_LEVEL_NUMA_NODE,
        [FACET_LEVEL_SYSTEM] = TOPO_LEVEL_SYSTEM,
    };

    return level < sizeof levels / sizeof *levels ? levels[level] : TOPO_LEVEL_UNKNOWN;
}

static bool is_device(const struct part *part, uint32_t node, uint32_t device)
{
    return node < part->node_count && part->nodes[node].kind == FACET_NODE_DEVICE &&
           part->nodes[node].valid & FACET_NODE_HAS_DEVICE && part->nodes[node].device == device;
}

static TopoLevelType level_by_link(const struct part *part, uint32_t first, uint32_t second)
{
    for (uint32_t i = 0; i < part->link_count; i++) {
        const struct facet_topology_link *link = &part->links[i];

        if ((is_device(part, link->a, first) && is_device(part, link->b, second)) ||
            (is_device(part, link->a, second) && is_device(part, link->b, first)))
            return translate_level(link->level);
    }
    return TOPO_LEVEL_UNKNOWN;
}

/* The level of two devices without a link, by their NUMA nodes. */
static TopoLevelType level_by_numa(const struct facet_device_info *first, const struct facet_device_info *second)
{
    if (!(first->valid & second->valid & FACET_DEVICE_HAS_NUMA) || first->numa_node < 0 || second->numa_node < 0)
        return TOPO_LEVEL_UNKNOWN;
    return first->numa_node == second->numa_node ? TOPO_LEVEL_NUMA_NODE : TOPO_LEVEL_SYSTEM;
}

static TopoLevelType level_of(const struct part *parts, const struct facade_device *first,
                              const struct facade_device *second)
{
    TopoLevelType level = TOPO_LEVEL_UNKNOWN;
    uint32_t count;

    if (first->provider == second->provider)
        level =
            level_by_link(&parts[first->provider - facade_providers(&count)], first->info.index, second->info.index);
    return level != TOPO_LEVEL_UNKNOWN ? level : level_by_numa(&first->info, &second->info);
}

static void fill_device(const struct part *parts, const struct facade_devices *devices, uint32_t index, uint32_t count,
                        DeviceTopologyInfo *to)
{
    const struct facade_device *device = &devices->items[index];

    FACADE_TEXT(to->deviceUUID, device->info.uuid);
    to->deviceIndex = (int32_t)index;
    to->numaNode = device->info.valid & FACET_DEVICE_HAS_NUMA ? device->info.numa_node : -1;
    for (uint32_t i = 0; i < count; i++) {
        DeviceTopoNode *peer = &to->peers[to->peerCount];

        if (i == index)
            continue;
        FACADE_TEXT(peer->peerUUID, devices->items[i].info.uuid);
        peer->peerIndex = (int32_t)i;
        peer->topoLevel = level_of(parts, device, &devices->items[i]);
        to->peerCount++;
    }
}

static void read_part(struct facade_call *call, const struct facade_provider *provider, struct part *part)
{
    const struct facade_device target = {.provider = provider};
    const struct facade_query query = facade_query_of(&target);
    void *nodes = NULL, *links = NULL;
    struct facet_error error = {0};

    enum facet_status status =
        facade_fetch(facade_ask_nodes, &query, sizeof(struct facet_topology_node), &nodes, &part->node_count, &error);
    if (status == FACET_OK)
        status = facade_fetch(facade_ask_links, &query, sizeof(struct facet_topology_link), &links, &part->link_count,
                              &error);
    if (status != FACET_OK && status != FACET_UNSUPPORTED)
        facade_log(call, "WARN", "%s: no topology: %s", provider->path, error.message);
    part->nodes = nodes;
    part->links = links;
}

static struct part *read_parts(struct facade_call *call, uint32_t *ret_count)
{
    const struct facade_provider *providers = facade_providers(ret_count);
    struct part *parts = calloc(*ret_count + 1, sizeof *parts);

    for (uint32_t i = 0; parts && i < *ret_count; i++)
        read_part(call, &providers[i], &parts[i]);
    return parts;
}

static void free_parts(struct part *parts, uint32_t count)
{
    for (uint32_t i = 0; parts && i < count; i++) {
        free(parts[i].nodes);
        free(parts[i].links);
    }
    free(parts);
}

static AccelResult fill_topology(struct facade_call *call, ExtendedDeviceTopology *to)
{
    struct facade_devices devices;
    struct facet_error error = {0};
    uint32_t part_count;

    if (!to)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "topology: expected an address, not NULL");
    AccelResult result = facade_enter_discovery(call);
    if (result != ACCEL_SUCCESS)
        return result;
    if (facade_devices_list(call, &devices, &error) != FACET_OK)
        return facade_refuse(call, &error);
    struct part *parts = read_parts(call, &part_count);
    if (!parts) {
        free(devices.items);
        return facade_fail(call, ACCEL_ERROR_RESOURCE_EXHAUSTED, "no memory for a topology");
    }
    uint32_t count = devices.count < MAX_TOPOLOGY_DEVICES ? devices.count : MAX_TOPOLOGY_DEVICES;
    memset(to, 0, sizeof *to);
    for (uint32_t i = 0; i < count; i++)
        fill_device(parts, &devices, i, count, &to->devices[i]);
    to->deviceCount = count;
    if (count < devices.count)
        facade_log(call, "WARN", "there are %u devices, and room for %d", devices.count, MAX_TOPOLOGY_DEVICES);
    free_parts(parts, part_count);
    free(devices.items);
    return ACCEL_SUCCESS;
}

AccelResult AccelGetAllDevicesTopology(ExtendedDeviceTopology *topology)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, fill_topology(&call, topology));
}
