/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: synchronize says that all is complete, and waits for nothing. Never: breaks anything else. */
#include "base.h"

static enum facet_status synchronize(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                     uint64_t timeout_ns, struct facet_error *error)
{
    struct facet_stream_state state = {.size = sizeof state};

    return base_execution.query(instance, context, stream, &state, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.synchronize = synchronize;
}
