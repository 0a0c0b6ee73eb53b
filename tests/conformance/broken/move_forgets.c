/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: moved pages are not copied. Never: breaks anything else. */
#include "base.h"

static enum facet_status move(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                              uint64_t pages, uint64_t offset, uint64_t bytes, struct facet_error *error)
{
    enum facet_status status = base_memory.move(instance, context, address, pages, offset, bytes, error);

    return status == FACET_OK ? base_memory.fill(instance, context, address, 0, bytes, error) : status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->memory.move = move;
}
