/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: any number is a priority. Never: breaks anything else. */
#include "base.h"

static enum facet_status set_priority(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                      uint32_t priority, struct facet_error *error)
{
    return base_execution.set_priority(instance, context, stream, priority % 3, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.set_priority = set_priority;
}
