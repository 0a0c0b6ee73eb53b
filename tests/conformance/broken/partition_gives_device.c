/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a partition comes with the node of the whole device. Never: breaks anything else. */
#include "base.h"

static enum facet_status items(struct facet_provider_instance *instance, uint32_t device, const char *partition_uuid,
                               void *all, uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                               struct facet_error *error)
{
    enum facet_status status =
        base_container.items(instance, device, partition_uuid, all, item_size, capacity, ret_count, error);

    if (status == FACET_OK && partition_uuid && capacity > 0)
        return base_container.items(instance, device, NULL, all, item_size, capacity, ret_count, error);
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->container.items = items;
}
