/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks of nodes and links. Never: assumes a vendor's fabric. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "conformance/check.h"

static enum facet_status call_nodes(struct facet_check *check, const void *subject, void *items, uint32_t item_size,
                                    uint32_t capacity, uint32_t *ret_count)
{
    return check->device_ops.nodes(check->instance, items, item_size, capacity, ret_count, &check->error);
}

static enum facet_status call_links(struct facet_check *check, const void *subject, void *items, uint32_t item_size,
                                    uint32_t capacity, uint32_t *ret_count)
{
    return check->device_ops.links(check->instance, items, item_size, capacity, ret_count, &check->error);
}

static const struct facet_check_list nodes_list = {"device.nodes", sizeof(struct facet_topology_node), false,
                                                   call_nodes, NULL};
static const struct facet_check_list links_list = {"device.links", sizeof(struct facet_topology_link), false,
                                                   call_links, NULL};

static bool is_device_node(const struct facet_topology_node *node)
{
    return node->kind == FACET_NODE_DEVICE;
}

static const char *fault_of_node(const struct facet_check *check, const struct facet_topology_node *node,
                                 uint32_t index)
{
    if (node->index != index)
        return "its index is not its position in the list";
    if (node->kind < FACET_NODE_DEVICE || node->kind > FACET_NODE_SOCKET)
        return "its kind is unknown";
    if (!facet_check_is_text(node->uuid, sizeof node->uuid) || !facet_check_is_text(node->name, sizeof node->name) ||
        !facet_check_is_text(node->pci_address, sizeof node->pci_address))
        return "a text is not printable";
    if (!(node->valid & FACET_NODE_HAS_NUMA) && node->numa_node != 0)
        return "it has a NUMA node though its bit is clear";
    if (!is_device_node(node))
        return (node->valid & FACET_NODE_HAS_DEVICE) || node->device ? "it names a device and is no device" : NULL;
    if (!(node->valid & FACET_NODE_HAS_DEVICE) || node->device >= check->device_count)
        return "it is a device, and names no device of the list";
    if (strncmp(node->uuid, check->devices[node->device].uuid, sizeof node->uuid) != 0)
        return "its uuid is not its device's";
    return NULL;
}

static uint32_t nodes_of_device(const struct facet_topology_node *nodes, uint32_t count, uint32_t device)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++)
        found += is_device_node(&nodes[i]) && nodes[i].device == device;
    return found;
}

static void check_nodes(struct facet_check *check, const struct facet_topology_node *nodes, uint32_t count)
{
    struct facet_check_tally tallies[] = {{.text = "device.nodes: each node is well-formed"},
                                          {.text = "device.nodes: each device has one node"}};

    for (uint32_t i = 0; i < count; i++) {
        const char *fault = fault_of_node(check, &nodes[i], i);

        if (fault)
            facet_check_tally_miss(&tallies[0], "expected: a well-formed node %" PRIu32 "\ngot: %s", i, fault);
    }
    for (uint32_t i = 0; i < check->device_count; i++)
        if ((check->devices[i].capabilities & FACET_CAN_TOPOLOGY) && nodes_of_device(nodes, count, i) != 1)
            facet_check_tally_miss(&tallies[1], "expected: one node of device %" PRIu32 "\ngot: %" PRIu32, i,
                                   nodes_of_device(nodes, count, i));
    facet_check_report_tallies(check, tallies, 2);
}

static const char *fault_of_link(const struct facet_topology_link *link, uint32_t node_count)
{
    if (link->a >= link->b)
        return "a is not below b";
    if (link->b >= node_count)
        return "an end is no node of the list";
    if (link->type > FACET_LINK_VENDOR || link->level > FACET_LEVEL_SYSTEM)
        return "its type or level is unknown";
    if (link->lanes == 0)
        return "it has no lane";
    if (!(link->valid & FACET_LINK_HAS_BANDWIDTH) != !link->bandwidth_mbps)
        return "its bandwidth and the bit for it disagree";
    if (!(link->valid & FACET_LINK_HAS_LATENCY) && link->latency_ns)
        return "it has a latency though its bit is clear";
    if (link->up > 1 || (!(link->valid & FACET_LINK_HAS_STATE) && link->up))
        return "its state and the bit for it disagree";
    return NULL;
}

static bool is_repeated(const struct facet_topology_link *links, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (links[i].a == links[index].a && links[i].b == links[index].b)
            return true;
    return false;
}

static void check_links(struct facet_check *check, const struct facet_topology_link *links, uint32_t count,
                        uint32_t node_count)
{
    struct facet_check_tally tallies[] = {{.text = "device.links: each link is well-formed, a below b"},
                                          {.text = "device.links: each pair has one link"}};

    for (uint32_t i = 0; i < count; i++) {
        const char *fault = fault_of_link(&links[i], node_count);

        if (fault)
            facet_check_tally_miss(&tallies[0], "expected: a well-formed link %" PRIu32 "\ngot: %s", i, fault);
        if (is_repeated(links, i))
            facet_check_tally_miss(&tallies[1],
                                   "expected: one link of a pair of nodes\ngot: a second link of nodes %" PRIu32
                                   " and %" PRIu32,
                                   links[i].a, links[i].b);
    }
    facet_check_report_tallies(check, tallies, 2);
}

static void check_topology(struct facet_check *check)
{
    uint32_t node_count = 0, link_count = 0;

    if (!facet_check_any_claims(check, FACET_CAN_TOPOLOGY)) {
        facet_check_skip(check, "topology: nodes and links",
                         check->device_count ? "no device claims FACET_CAN_TOPOLOGY" : "there is no device");
        return;
    }
    FACET_CLEANUP_FREE struct facet_topology_node *nodes = facet_check_fetch(check, &nodes_list, &node_count);
    FACET_CLEANUP_FREE struct facet_topology_link *links = facet_check_fetch(check, &links_list, &link_count);
    if (!nodes || !links)
        return;
    check_nodes(check, nodes, node_count);
    check_links(check, links, link_count, node_count);
    facet_check_list_rules(check, &nodes_list);
    facet_check_list_rules(check, &links_list);
}

static const struct facet_check_case cases[] = {{check_topology, 0}, {NULL, 0}};

const struct facet_check_group facet_check_topology = {
    .name = "topology", .about = "nodes and the links between them", .cases = cases};
