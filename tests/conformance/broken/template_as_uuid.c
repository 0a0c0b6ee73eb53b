/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: partitions of one template have the same uuid, the template's name. Never: breaks anything else. */
#include "base.h"

static enum facet_status create(struct facet_provider_instance *instance, uint32_t device, const char *template_id,
                                uint32_t start, struct facet_partition_info *ret_info, struct facet_error *error)
{
    enum facet_status status = base_partition.create(instance, device, template_id, start, ret_info, error);

    if (status == FACET_OK && ret_info->size == sizeof *ret_info) {
        for (int i = 0; i < BASE_SLICES; i++)
            if (strcmp(instance->partitions[i].uuid, ret_info->uuid) == 0)
                snprintf(instance->partitions[i].uuid, sizeof instance->partitions[i].uuid, "base-%s", template_id);
        snprintf(ret_info->uuid, sizeof ret_info->uuid, "base-%s", template_id);
    }
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->partition.create = create;
}
