/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a share may be limited to nothing. Never: breaks anything else. */
#include "base.h"

static enum facet_status set_share(struct facet_provider_instance *instance, uint64_t context, uint32_t request_milli,
                                   uint32_t limit_milli, uint32_t priority, struct facet_error *error)
{
    return base_execution.set_share(instance, context, request_milli, limit_milli ? limit_milli : 1, priority, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.set_share = set_share;
}
