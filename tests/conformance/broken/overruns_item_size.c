/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: the whole struct is written, however small the host's is. Never: breaks anything else. */
#include "base.h"

static enum facet_status list(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                              uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    enum facet_status status = base_device.list(instance, items, item_size, capacity, ret_count, error);

    if (status == FACET_OK && capacity > 0 && item_size < sizeof(struct facet_device_info))
        base_describe(items);
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.list = list;
}
