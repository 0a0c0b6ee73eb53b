/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: cancel leaves everything queued. Never: breaks anything else. */
#include "base.h"

static enum facet_status cancel(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                struct facet_error *error)
{
    struct facet_stream_state state = {.size = sizeof state};

    return base_execution.query(instance, context, stream, &state, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.cancel = cancel;
}
