/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading nodes and links of a profile.
 * Never: invents a link: a pair of nodes that no entry names has none.
 *
 * An entry of "links" joins every node in "from" with every other node in "to", except pairs that an earlier entry has
 * joined. So entries for special pairs come before the general ones.
 */
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "provider_kit.h"

#define NODES_MAX 192 /* the most nodes that "nodes" may have, besides the devices, or an array of "links" may name */
#define ENTRY_MAX 256 /* entries of "links" */

static const char *const node_members[] = {"kind", "name", "numa_node", "pci_address", NULL};
static const char *const link_members[] = {"from",           "to",         "type", "level", "lanes",
                                           "bandwidth_mbps", "latency_ns", NULL};

static const struct sim_choice node_kinds[] = {
    {"nic", FACET_NODE_NIC}, {"switch", FACET_NODE_SWITCH}, {"socket", FACET_NODE_SOCKET}, {NULL, 0}};

static const struct sim_choice link_types[] = {{"internal", FACET_LINK_INTERNAL},
                                               {"pcie", FACET_LINK_PCIE},
                                               {"nvlink", FACET_LINK_NVLINK},
                                               {"xgmi", FACET_LINK_XGMI},
                                               {"hccs", FACET_LINK_HCCS},
                                               {"socket", FACET_LINK_SOCKET},
                                               {"infiniband", FACET_LINK_INFINIBAND},
                                               {"ethernet", FACET_LINK_ETHERNET},
                                               {"vendor", FACET_LINK_VENDOR},
                                               {NULL, 0}};

static const struct sim_choice link_levels[] = {{"internal", FACET_LEVEL_INTERNAL},
                                                {"single_switch", FACET_LEVEL_SINGLE_SWITCH},
                                                {"multi_switch", FACET_LEVEL_MULTI_SWITCH},
                                                {"host_bridge", FACET_LEVEL_HOST_BRIDGE},
                                                {"numa_node", FACET_LEVEL_NUMA_NODE},
                                                {"system", FACET_LEVEL_SYSTEM},
                                                {NULL, 0}};

bool sim_link_touches(const struct facet_topology_link *link, uint32_t node)
{
    return link->a == node || link->b == node;
}

static void device_node(const struct sim_device *device, struct facet_topology_node *node)
{
    node->kind = FACET_NODE_DEVICE;
    node->valid = FACET_NODE_HAS_DEVICE;
    node->device = device->info.index;
    if (device->info.valid & FACET_DEVICE_HAS_NUMA)
        node->valid |= FACET_NODE_HAS_NUMA;
    node->numa_node = device->info.numa_node;
    memcpy(node->uuid, device->info.uuid, sizeof node->uuid);
    memcpy(node->pci_address, device->info.pci_address, sizeof node->pci_address);
    snprintf(node->name, sizeof node->name, "device%" PRIu32, device->info.index);
}

static void read_node(const struct sim_json *at, struct facet_topology_node *node)
{
    sim_json_only(at, node_members);
    struct sim_json kind = sim_json_member(at, "kind"), name = sim_json_member(at, "name");
    node->kind = sim_json_choice(&kind, node_kinds);
    FACET_KIT_TEXT(node->name, sim_json_text(&name, sizeof node->name));
    if (sim_json_has(at, "numa_node")) {
        struct sim_json numa = sim_json_member(at, "numa_node");

        node->valid |= FACET_NODE_HAS_NUMA;
        node->numa_node = (int32_t)sim_json_integer(&numa, 0, 1023);
    }
    if (sim_json_has(at, "pci_address")) {
        struct sim_json pci = sim_json_member(at, "pci_address");

        FACET_KIT_TEXT(node->pci_address, sim_json_match(&pci, SIM_PCI_PATTERN));
    }
}

static const struct facet_topology_node *node_named(const struct sim_machine *machine, const char *name)
{
    for (uint32_t i = 0; i < machine->node_count; i++)
        if (strcmp(machine->nodes[i].name, name) == 0)
            return &machine->nodes[i];
    return NULL;
}

static void read_nodes(const struct sim_json *at, struct sim_machine *machine)
{
    uint32_t count = (uint32_t)sim_json_count(at, 0, NODES_MAX);

    machine->nodes = calloc(machine->device_count + count + 1, sizeof *machine->nodes);
    if (!machine->nodes) {
        sim_json_refuse(at, "memory for its nodes");
        return;
    }
    for (uint32_t i = 0; i < machine->device_count + count; i++) {
        struct facet_topology_node *node = &machine->nodes[i];

        node->size = sizeof *node;
        node->index = i;
        if (i < machine->device_count) {
            device_node(&machine->devices[i], node);
        } else {
            struct sim_json item = sim_json_item(at, i - machine->device_count);

            read_node(&item, node);
            if (node_named(machine, node->name))
                sim_json_refuse(&item, "a name that no other node has");
        }
        machine->node_count = i + 1;
    }
}

/* The topology that is being read. */
struct topology {
    struct sim_machine *machine;
    bool *joined; /* whether a link joins nodes a and b, at index a * node_count + b */
};

/* False: no memory. */
static bool add_link(struct topology *topology, const struct facet_topology_link *pattern, uint32_t from, uint32_t to)
{
    struct sim_machine *machine = topology->machine;
    uint32_t a = from < to ? from : to, b = from < to ? to : from;
    bool *joined = &topology->joined[a * machine->node_count + b];
    struct facet_topology_link *links;

    if (a == b || *joined)
        return true;
    links = realloc(machine->links, (machine->link_count + 1) * sizeof *links);
    if (!links)
        return false;
    machine->links = links;
    links[machine->link_count] = *pattern;
    links[machine->link_count].a = a;
    links[machine->link_count++].b = b;
    *joined = true;
    return true;
}

/* Reads the nodes that an array names. */
static size_t read_ends(const struct sim_json *at, const struct sim_machine *machine, uint32_t nodes[NODES_MAX])
{
    size_t count = sim_json_count(at, 1, NODES_MAX);

    for (size_t i = 0; i < count; i++) {
        struct sim_json item = sim_json_item(at, i);
        const struct facet_topology_node *node = node_named(machine, sim_json_text(&item, 64));

        if (!node)
            sim_json_refuse(&item, "the name of a node (\"device0\", or one of \"nodes\")");
        nodes[i] = node ? node->index : 0;
    }
    return count;
}

static void add_links(const struct sim_json *at, const struct facet_topology_link *pattern, struct topology *topology)
{
    struct sim_json from = sim_json_member(at, "from"), to = sim_json_member(at, "to");
    uint32_t from_nodes[NODES_MAX], to_nodes[NODES_MAX];
    size_t from_count = read_ends(&from, topology->machine, from_nodes);
    size_t to_count = read_ends(&to, topology->machine, to_nodes);
    uint32_t before = topology->machine->link_count;

    for (size_t i = 0; i < from_count && at->document->status == FACET_OK; i++)
        for (size_t j = 0; j < to_count; j++)
            if (!add_link(topology, pattern, from_nodes[i], to_nodes[j]))
                sim_json_refuse(at, "memory for its links");
    if (topology->machine->link_count == before)
        sim_json_refuse(at, "a pair of nodes that no earlier entry has joined");
}

static void read_link(const struct sim_json *at, struct topology *topology)
{
    struct facet_topology_link link = {.size = sizeof link, .valid = FACET_LINK_HAS_STATE, .lanes = 1, .up = 1};

    sim_json_only(at, link_members);
    struct sim_json type = sim_json_member(at, "type"), level = sim_json_member(at, "level");
    link.type = sim_json_choice(&type, link_types);
    link.level = sim_json_choice(&level, link_levels);
    if (sim_json_has(at, "lanes")) {
        struct sim_json lanes = sim_json_member(at, "lanes");

        link.lanes = (uint32_t)sim_json_integer(&lanes, 1, 256);
    }
    if (sim_json_has(at, "bandwidth_mbps")) {
        struct sim_json bandwidth = sim_json_member(at, "bandwidth_mbps");

        link.valid |= FACET_LINK_HAS_BANDWIDTH;
        link.bandwidth_mbps = (uint64_t)sim_json_integer(&bandwidth, 1, INT64_C(1000000000));
    }
    if (sim_json_has(at, "latency_ns")) {
        struct sim_json latency = sim_json_member(at, "latency_ns");

        link.valid |= FACET_LINK_HAS_LATENCY;
        link.latency_ns = (uint64_t)sim_json_integer(&latency, 1, INT64_C(1000000000));
    }
    add_links(at, &link, topology);
}

void sim_topology_read(const struct sim_json *root, struct sim_machine *machine)
{
    struct sim_json nodes = sim_json_member(root, "nodes"), links = sim_json_member(root, "links");
    size_t count = sim_json_count(&links, 0, ENTRY_MAX);
    struct topology topology = {.machine = machine};

    read_nodes(&nodes, machine);
    topology.joined = calloc((size_t)machine->node_count * machine->node_count + 1, sizeof *topology.joined);
    if (!topology.joined)
        sim_json_refuse(&nodes, "memory for its links");
    for (size_t i = 0; i < count && root->document->status == FACET_OK; i++) {
        struct sim_json item = sim_json_item(&links, i);

        read_link(&item, &topology);
    }
    free(topology.joined);
}
