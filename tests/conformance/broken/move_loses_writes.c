/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a launch's writes while its memory moves are lost. Never: breaks anything else. */
#include "base.h"

static enum facet_status move(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                              uint64_t pages, uint64_t offset, uint64_t bytes, struct facet_error *error)
{
    unsigned char old[BASE_PAGE];
    enum facet_status status = base_memory.move(instance, context, address, pages, offset, bytes, error);

    if (status != FACET_OK)
        return status;
    BASE_LOCK(instance);
    base_access_memory(instance, context, address, old, NULL, sizeof old, NULL);
    base_run(instance);
    return base_access_memory(instance, context, address, NULL, old, sizeof old, NULL);
}

void base_install_fault(struct base_tables *tables)
{
    tables->memory.move = move;
}
