/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: the list of processes is empty. Never: breaks anything else. */
#include "base.h"

static enum facet_status processes(struct facet_provider_instance *instance, uint32_t device, void *items,
                                   uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                   struct facet_error *error)
{
    const struct facet_process_metrics none = {0};
    enum facet_status status = facet_kit_check_device(device, 1, error);

    if (status != FACET_OK)
        return status;
    return facet_kit_list_items(&none, sizeof none, 0, items, item_size, capacity, ret_count, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->metrics.processes = processes;
}
