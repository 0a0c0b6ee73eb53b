/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: pages that were moved away from stay in use. Never: breaks anything else. */
#include "base.h"

static enum facet_status move(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                              uint64_t pages, uint64_t offset, uint64_t bytes, struct facet_error *error)
{
    struct base_pages *old = NULL;

    {
        BASE_LOCK(instance);
        const struct base_map *map = base_map_at(instance, context, address);
        old = map ? map->pages : NULL;
    }
    enum facet_status status = base_memory.move(instance, context, address, pages, offset, bytes, error);
    BASE_LOCK(instance);
    if (status == FACET_OK)
        old->maps++;
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->memory.move = move;
}
