/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a list that is too long is cut and called a success. Never: breaks anything else. */
#include "base.h"

static enum facet_status templates(struct facet_provider_instance *instance, uint32_t device, void *items,
                                   uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                   struct facet_error *error)
{
    uint32_t needed = 0;
    enum facet_status status =
        base_partition.templates(instance, device, items, item_size, capacity, ret_count ? &needed : NULL, error);

    if (!ret_count || status != FACET_TOO_SMALL || capacity == 0) {
        if (ret_count && (status == FACET_OK || status == FACET_TOO_SMALL))
            *ret_count = needed;
        return status;
    }
    *ret_count = capacity;
    return FACET_OK;
}

void base_install_fault(struct base_tables *tables)
{
    tables->partition.templates = templates;
}
