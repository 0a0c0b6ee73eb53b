/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: items lie as far apart as this provider's structs are, not the host's. Never: breaks anything else. */
#include "base.h"

static enum facet_status templates(struct facet_provider_instance *instance, uint32_t device, void *items,
                                   uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                   struct facet_error *error)
{
    const uint32_t own = sizeof(struct facet_partition_template);

    return base_partition.templates(instance, device, items, item_size > own ? own : item_size, capacity, ret_count,
                                    error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->partition.templates = templates;
}
