/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a partition is created where another one is. Never: breaks anything else. */
#include "base.h"

static enum facet_status create(struct facet_provider_instance *instance, uint32_t device, const char *template_id,
                                uint32_t start, struct facet_partition_info *ret_info, struct facet_error *error)
{
    struct facet_partition_info hidden[BASE_SLICES];

    if (start == FACET_PLACEMENT_ANY || !ret_info)
        return base_partition.create(instance, device, template_id, start, ret_info, error);
    memcpy(hidden, instance->partitions, sizeof hidden);
    memset(instance->partitions, 0, sizeof instance->partitions);
    enum facet_status status = base_partition.create(instance, device, template_id, start, ret_info, error);
    for (int i = 0; i < BASE_SLICES; i++)
        if (!instance->partitions[i].uuid[0])
            instance->partitions[i] = hidden[i];
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->partition.create = create;
}
