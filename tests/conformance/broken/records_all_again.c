/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: records before `after` are listed, too. Never: breaks anything else. */
#include "base.h"

static enum facet_status records(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                 uint64_t after, void *items, uint32_t item_size, uint32_t capacity,
                                 uint32_t *ret_count, struct facet_error *error)
{
    return base_execution.records(instance, context, stream, 0, items, item_size, capacity, ret_count, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.records = records;
}
