/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: when the room for templates is too small, `templates` returns a needed count that is one too low. Never:
 * breaks anything else. */
#include "base.h"

static enum facet_status templates(struct facet_provider_instance *instance, uint32_t device, void *items,
                                   uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                   struct facet_error *error)
{
    enum facet_status status = base_partition.templates(instance, device, items, item_size, capacity, ret_count, error);

    if (status == FACET_TOO_SMALL)
        --*ret_count;
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->partition.templates = templates;
}
