/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a counter falls. Never: breaks anything else. */
#include "base.h"

static enum facet_status readings(struct facet_provider_instance *instance, uint32_t device,
                                  struct facet_device_metrics *ret_metrics, struct facet_error *error)
{
    instance->energy = instance->energy > 5 ? 0 : instance->energy;
    return base_metrics.device(instance, device, ret_metrics, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->metrics.device = readings;
}
