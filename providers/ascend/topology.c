/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the chips as nodes, and the links between them by DCMI.
 * Never: reports a link's speed: DCMI has none.
 */
#include <stdlib.h>

#include "ascend.h"

enum facet_status ascend_device_nodes(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                      uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    struct facet_topology_node nodes[DCMI_MAX_CARDS * DCMI_MAX_CHIPS];
    enum facet_status status = ascend_devices_check(instance, FACET_CAN_TOPOLOGY, error);

    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < instance->count; i++)
        nodes[i] = facet_kit_device_node(&instance->infos[i]);
    return facet_kit_list_items(nodes, sizeof *nodes, instance->count, items, item_size, capacity, ret_count, error);
}

/* Translates an enum dcmi_connection. False: the connection is unknown. */
static bool translate_link(int connection, bool same_card, uint32_t *ret_type, uint32_t *ret_level)
{
    static const struct {
        int connection;
        uint32_t type, level;
    } connections[] = {
        {DCMI_CONNECTION_SYSTEM, FACET_LINK_SOCKET, FACET_LEVEL_SYSTEM},
        {DCMI_CONNECTION_HOST_BRIDGE, FACET_LINK_PCIE, FACET_LEVEL_HOST_BRIDGE},
        {DCMI_CONNECTION_HCCS, FACET_LINK_HCCS, FACET_LEVEL_SINGLE_SWITCH},
        {DCMI_CONNECTION_SWITCHES, FACET_LINK_PCIE, FACET_LEVEL_MULTI_SWITCH},
        {DCMI_CONNECTION_SWITCH, FACET_LINK_PCIE, FACET_LEVEL_SINGLE_SWITCH},
        {DCMI_CONNECTION_PACKAGE, FACET_LINK_INTERNAL, FACET_LEVEL_INTERNAL},
        {DCMI_CONNECTION_HCCS_SWITCH, FACET_LINK_HCCS, FACET_LEVEL_SINGLE_SWITCH},
    };

    /* Drivers before HDK 24 report this number for "unknown", and only two chips of one card can be in one package. */
    if (connection == DCMI_CONNECTION_PACKAGE && !same_card)
        return false;
    for (size_t i = 0; i < sizeof connections / sizeof *connections; i++) {
        if (connections[i].connection != connection)
            continue;
        *ret_type = connections[i].type;
        *ret_level = connections[i].level;
        return true;
    }
    return false;
}

/* The link between two chips; false when the driver knows none. */
static bool read_link(const struct facet_provider_instance *instance, uint32_t a, uint32_t b,
                      struct facet_topology_link *ret_link)
{
    const struct ascend_chip *from = &instance->chips[a], *to = &instance->chips[b];
    struct facet_topology_link link = {.size = sizeof link, .a = a, .b = b, .lanes = 1};
    int connection = -1;

    if (ASCEND_DCMI(&instance->dcmi, get_topo_info_by_device_id, from->card, from->chip_number, to->card,
                    to->chip_number, &connection) ||
        !translate_link(connection, from->card == to->card, &link.type, &link.level))
        return false;
    *ret_link = link;
    return true;
}

enum facet_status ascend_device_links(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                      uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    uint32_t count = 0, pairs = instance->count ? instance->count * (instance->count - 1) / 2 : 0;
    enum facet_status status = ascend_devices_check(instance, FACET_CAN_TOPOLOGY, error);

    if (status != FACET_OK)
        return status;
    struct facet_topology_link *links = calloc(pairs + 1, sizeof *links);
    if (!links)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " links", pairs);
    for (uint32_t a = 0; a < instance->count; a++) {
        for (uint32_t b = a + 1; b < instance->count; b++)
            count += read_link(instance, a, b, &links[count]);
    }
    status = facet_kit_list_items(links, sizeof *links, count, items, item_size, capacity, ret_count, error);
    free(links);
    return status;
}
