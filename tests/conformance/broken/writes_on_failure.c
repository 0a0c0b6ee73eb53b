/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: an output is written though the call fails. Never: breaks anything else. */
#include "base.h"

static enum facet_status create(struct facet_provider_instance *instance, uint32_t device, const char *template_id,
                                uint32_t start, struct facet_partition_info *ret_info, struct facet_error *error)
{
    if (ret_info)
        memset(ret_info->uuid, 0, sizeof ret_info->uuid);
    return base_partition.create(instance, device, template_id, start, ret_info, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->partition.create = create;
}
