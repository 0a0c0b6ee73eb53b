/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: pages are cleared when they are mapped. Never: breaks anything else. */
#include "base.h"

static enum facet_status map(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                             uint64_t pages, uint64_t offset, uint64_t bytes, struct facet_error *error)
{
    enum facet_status status = base_memory.map(instance, context, address, pages, offset, bytes, error);

    return status == FACET_OK ? base_memory.fill(instance, context, address, 0, bytes, error) : status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->memory.map = map;
}
