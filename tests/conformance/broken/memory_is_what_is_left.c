/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: the memory of a device is the part that is free now. Never: breaks anything else. */
#include "base.h"

static enum facet_status list(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                              uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    struct facet_device_info info;

    base_describe(&info);
    BASE_LOCK(instance);
    info.memory_bytes -= base_memory_used(instance, NULL);
    return facet_kit_list(&info, 1, items, item_size, capacity, ret_count, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.list = list;
}
