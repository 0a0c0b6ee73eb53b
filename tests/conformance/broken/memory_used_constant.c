/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: the memory in use stands still. Never: breaks anything else. */
#include "base.h"

static enum facet_status readings(struct facet_provider_instance *instance, uint32_t device,
                                  struct facet_device_metrics *ret_metrics, struct facet_error *error)
{
    enum facet_status status = base_metrics.device(instance, device, ret_metrics, error);

    if (status == FACET_OK && ret_metrics->size == sizeof *ret_metrics)
        ret_metrics->memory_used_bytes = 4096;
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->metrics.device = readings;
}
