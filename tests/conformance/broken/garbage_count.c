/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a list returns an impossible count. Never: breaks anything else. */
#include "base.h"

static enum facet_status links(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                               uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    if (ret_count)
        *ret_count = 0xdeadbeef;
    return FACET_TOO_SMALL;
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.links = links;
}
