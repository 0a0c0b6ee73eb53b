/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: `list` of partitions takes the unknown device UINT32_MAX for device 0. Never: breaks anything else. */
#include "base.h"

static enum facet_status list(struct facet_provider_instance *instance, uint32_t device, void *items,
                              uint32_t item_size, uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    return base_partition.list(instance, device == UINT32_MAX ? 0 : device, items, item_size, capacity, ret_count,
                               error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->partition.list = list;
}
