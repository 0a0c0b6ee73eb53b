/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a bound of units is forgotten. Never: breaks anything else. */
#include "base.h"

static enum facet_status set_bounds(struct facet_provider_instance *instance, uint64_t context, uint32_t units,
                                    uint32_t launches, struct facet_error *error)
{
    enum facet_status status = base_execution.set_bounds(instance, context, units, launches, error);

    return status == FACET_OK ? base_execution.set_bounds(instance, context, 0, launches, error) : status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.set_bounds = set_bounds;
}
