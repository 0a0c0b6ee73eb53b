/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: memory above the worker's limit is given. Never: breaks anything else. */
#include "base.h"

static enum facet_status alloc(struct facet_provider_instance *instance, uint64_t context, uint64_t bytes,
                               uint64_t *ret_address, struct facet_error *error)
{
    enum facet_status status = base_memory.alloc(instance, context, bytes, ret_address, error);

    return status == FACET_QUOTA ? base_memory.alloc(instance, context, 1, ret_address, error) : status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->memory.alloc = alloc;
}
