/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: waiting work is cancelled with the work that it waits for. Never: breaks anything else. */
#include "base.h"

static enum facet_status cancel(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                struct facet_error *error)
{
    for (int i = 0; i < BASE_STREAMS; i++) {
        struct base_stream *one = &instance->streams[i];

        if (one->context == context && one->queued > 0 && one->queue[0].kind == BASE_WAIT &&
            one->queue[0].value == stream)
            base_execution.cancel(instance, context, one->number, NULL);
    }
    return base_execution.cancel(instance, context, stream, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.cancel = cancel;
}
