/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a capability is claimed, and the operation says unsupported. Never: breaks anything else. */
#include "base.h"

static enum facet_status readings(struct facet_provider_instance *instance, uint32_t device,
                                  struct facet_device_metrics *ret_metrics, struct facet_error *error)
{
    return device == 0 ? FACET_UNSUPPORTED : FACET_NOT_FOUND;
}

void base_install_fault(struct base_tables *tables)
{
    tables->metrics.device = readings;
}
