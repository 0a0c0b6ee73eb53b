/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: every placement is said to be free. Never: breaks anything else. */
#include "base.h"

static enum facet_status placements(struct facet_provider_instance *instance, uint32_t device, const char *template_id,
                                    void *items, uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                    struct facet_error *error)
{
    enum facet_status status =
        base_partition.placements(instance, device, template_id, items, item_size, capacity, ret_count, error);

    for (uint32_t i = 0; status == FACET_OK && i < *ret_count && item_size >= 16; i++)
        ((struct facet_partition_placement *)(void *)((char *)items + (size_t)i * item_size))->free = 1;
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->partition.placements = placements;
}
