/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a path for a container is not absolute. Never: breaks anything else. */
#include "base.h"

static enum facet_status items_of(struct facet_provider_instance *instance, uint32_t device, const char *partition_uuid,
                                  void *items, uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                  struct facet_error *error)
{
    enum facet_status status =
        base_container.items(instance, device, partition_uuid, items, item_size, capacity, ret_count, error);

    for (uint32_t i = 0; status == FACET_OK && i < *ret_count && item_size >= sizeof(struct facet_container_item); i++)
        ((struct facet_container_item *)(void *)((char *)items + (size_t)i * item_size))->host[0] = 'x';
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->container.items = items_of;
}
