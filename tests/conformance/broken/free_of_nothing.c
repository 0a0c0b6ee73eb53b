/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: freeing an unknown address is said to be out of range. Never: breaks anything else. */
#include "base.h"

static enum facet_status free_badly(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                    struct facet_error *error)
{
    enum facet_status status = base_memory.free(instance, context, address, error);

    return status == FACET_NOT_FOUND && base_find_context(instance, context) ? FACET_OUT_OF_RANGE : status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->memory.free = free_badly;
}
