/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: items are written though there is not room for all. Never: breaks anything else. */
#include "base.h"

static enum facet_status templates(struct facet_provider_instance *instance, uint32_t device, void *items,
                                   uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                   struct facet_error *error)
{
    enum facet_status status = base_partition.templates(instance, device, items, item_size, capacity, ret_count, error);

    if (status == FACET_TOO_SMALL && capacity > 0)
        memset(items, 0, item_size);
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->partition.templates = templates;
}
