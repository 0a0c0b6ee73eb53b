/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: `device` accepts a struct whose size is 0. Never: breaks anything else. */
#include "base.h"

static enum facet_status device(struct facet_provider_instance *instance, uint32_t index,
                                struct facet_device_metrics *ret_metrics, struct facet_error *error)
{
    if (index == 0 && ret_metrics && ret_metrics->size == 0)
        return FACET_OK;
    return base_metrics.device(instance, index, ret_metrics, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->metrics.device = device;
}
