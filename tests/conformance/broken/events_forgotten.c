/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: events that were read once are gone. Never: breaks anything else. */
#include "base.h"

static enum facet_status events(struct facet_provider_instance *instance, uint64_t after, void *items,
                                uint32_t item_size, uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    enum facet_status status = base_device.events(instance, after, items, item_size, capacity, ret_count, error);

    if (status == FACET_OK)
        instance->event_count = 0;
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.events = events;
}
