/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a worker's memory limit binds each of its contexts by itself. Never: breaks anything else. */
#include "base.h"

static uint64_t held_by(struct facet_provider_instance *instance, uint64_t context)
{
    uint64_t bytes = 0;

    BASE_LOCK(instance);
    for (int i = 0; i < BASE_PAGES; i++)
        if (instance->pages[i].number && instance->pages[i].context == context)
            bytes += instance->pages[i].bytes;
    return bytes;
}

/* One byte is enough to show the defect: the base itself keeps to the limit and would refuse more. */
static enum facet_status alloc(struct facet_provider_instance *instance, uint64_t context, uint64_t bytes,
                               uint64_t *ret_address, struct facet_error *error)
{
    struct facet_memory_info info = {.size = sizeof info};
    enum facet_status status = base_memory.alloc(instance, context, bytes, ret_address, error);

    if (status == FACET_QUOTA && base_memory.info(instance, context, &info, NULL) == FACET_OK &&
        held_by(instance, context) + bytes <= info.total_bytes)
        return base_memory.alloc(instance, context, 1, ret_address, error);
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->memory.alloc = alloc;
}
