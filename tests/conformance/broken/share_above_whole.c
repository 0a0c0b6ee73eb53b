/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a device reports a busy share above 1000 milli. Never: breaks anything else. */
#include "base.h"

static enum facet_status readings(struct facet_provider_instance *instance, uint32_t device,
                                  struct facet_device_metrics *ret_metrics, struct facet_error *error)
{
    enum facet_status status = base_metrics.device(instance, device, ret_metrics, error);

    if (status == FACET_OK && ret_metrics->size == sizeof *ret_metrics)
        ret_metrics->compute_active_milli = 1700;
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->metrics.device = readings;
}
