/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a start that is no placement is accepted, and another start chosen. Never: breaks anything else. */
#include "base.h"

static enum facet_status create(struct facet_provider_instance *instance, uint32_t device, const char *template_id,
                                uint32_t start, struct facet_partition_info *ret_info, struct facet_error *error)
{
    if (start != FACET_PLACEMENT_ANY && start >= BASE_SLICES)
        start = 0;
    return base_partition.create(instance, device, template_id, start, ret_info, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->partition.create = create;
}
