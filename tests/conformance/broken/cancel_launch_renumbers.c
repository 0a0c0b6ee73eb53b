/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: cancelling a launch renumbers the launches queued behind it. Never: breaks anything else. */
#include "base.h"

static enum facet_status cancel_launch(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                       uint64_t sequence, struct facet_error *error)
{
    enum facet_status status = base_execution.cancel_launch(instance, context, stream, sequence, error);

    BASE_LOCK(instance);
    struct base_stream *one = base_find_stream(instance, context, stream);
    for (uint32_t i = 0; status == FACET_OK && i < one->queued; i++)
        one->queue[i].sequence -= one->queue[i].sequence > sequence;
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.cancel_launch = cancel_launch;
}
