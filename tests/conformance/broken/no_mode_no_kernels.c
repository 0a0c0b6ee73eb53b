/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a device offers no mode and runs no kernels either. Never: breaks anything else. */
#include "base.h"

static enum facet_status list(struct facet_provider_instance *instance, void *infos, uint32_t info_size,
                              uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    struct facet_device_info info;

    base_describe(&info);
    info.modes = 0;
    memset(info.mode_group, 0, sizeof info.mode_group);
    info.capabilities &= ~(uint64_t)(FACET_CAN_EXECUTE | FACET_CAN_ENQUEUE | FACET_CAN_SHARE | FACET_CAN_RECORD);
    return facet_kit_list(&info, 1, infos, info_size, capacity, ret_count, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.list = list;
}
