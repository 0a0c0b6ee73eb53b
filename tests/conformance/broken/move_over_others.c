/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a move goes to pages that are mapped, without an error. Never: breaks anything else. */
#include "base.h"

static enum facet_status move(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                              uint64_t pages, uint64_t offset, uint64_t bytes, struct facet_error *error)
{
    enum facet_status status = base_memory.move(instance, context, address, pages, offset, bytes, error);

    return status == FACET_BUSY ? FACET_OK : status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->memory.move = move;
}
