/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: all partitions come with one node. Never: breaks anything else. */
#include "base.h"

static enum facet_status items(struct facet_provider_instance *instance, uint32_t device, const char *partition_uuid,
                               void *all, uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                               struct facet_error *error)
{
    enum facet_status status =
        base_container.items(instance, device, partition_uuid, all, item_size, capacity, ret_count, error);
    struct facet_container_item *node = all;

    if (status == FACET_OK && partition_uuid && partition_uuid[0] && capacity > 0 && item_size >= sizeof *node)
        snprintf(node->host, sizeof node->host, "/dev/base0-slices");
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->container.items = items;
}
