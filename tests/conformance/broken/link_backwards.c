/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a link has its ends the wrong way around. Never: breaks anything else. */
#include "base.h"

static enum facet_status links(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                               uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    static const struct facet_topology_link link = {.a = 2, .b = 1, .lanes = 1};

    return facet_kit_list_items(&link, sizeof link, 1, items, item_size, capacity, ret_count, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.links = links;
}
