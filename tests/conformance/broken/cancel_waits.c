/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: cancel does all queued work before it returns. Never: breaks anything else. */
#include "base.h"

static enum facet_status cancel(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                struct facet_error *error)
{
    return base_execution.synchronize(instance, context, stream, UINT64_MAX, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.cancel = cancel;
}
