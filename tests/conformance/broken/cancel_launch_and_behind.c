/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: work behind a cancelled launch is cancelled, too. Never: breaks anything else. */
#include "base.h"

static enum facet_status cancel_launch(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                       uint64_t sequence, struct facet_error *error)
{
    enum facet_status status = base_execution.cancel_launch(instance, context, stream, sequence, error);

    BASE_LOCK(instance);
    struct base_stream *one = base_find_stream(instance, context, stream);
    while (status == FACET_OK && one->queued > 0 && one->queue[one->queued - 1].sequence > sequence)
        base_finish(one, one->queued - 1, FACET_BAD_STATE, 0);
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.cancel_launch = cancel_launch;
}
