/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a bound of launches is forgotten. Never: breaks anything else. */
#include "base.h"

static enum facet_status set_bounds(struct facet_provider_instance *instance, uint64_t context, uint32_t units,
                                    uint32_t launches, struct facet_error *error)
{
    return base_execution.set_bounds(instance, context, units, 0, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.set_bounds = set_bounds;
}
