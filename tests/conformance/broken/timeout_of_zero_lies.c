/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: synchronize with a timeout of 0 reports that all is complete. Never: breaks anything else. */
#include "base.h"

static enum facet_status synchronize(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                     uint64_t timeout_ns, struct facet_error *error)
{
    struct facet_stream_state state = {.size = sizeof state};

    if (timeout_ns == 0)
        return base_execution.query(instance, context, stream, &state, error);
    return base_execution.synchronize(instance, context, stream, timeout_ns, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.synchronize = synchronize;
}
