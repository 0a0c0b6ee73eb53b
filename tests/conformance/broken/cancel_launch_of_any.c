/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a launch that is done can be cancelled. Never: breaks anything else. */
#include "base.h"

static enum facet_status cancel_launch(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                       uint64_t sequence, struct facet_error *error)
{
    enum facet_status status = base_execution.cancel_launch(instance, context, stream, sequence, error);

    BASE_LOCK(instance);
    const struct base_stream *one = base_find_stream(instance, context, stream);
    return status == FACET_NOT_FOUND && one && sequence > 0 && sequence <= one->state.completed ? FACET_OK : status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.cancel_launch = cancel_launch;
}
