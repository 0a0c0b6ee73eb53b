/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a pause succeeds without effect. Never: breaks anything else. */
#include "base.h"

static enum facet_status pause_context(struct facet_provider_instance *instance, uint64_t context, uint32_t paused,
                                       struct facet_error *error)
{
    return base_execution.pause(instance, context, 0, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.pause = pause_context;
}
