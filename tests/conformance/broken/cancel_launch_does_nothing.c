/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: cancelling one launch succeeds, and the launch runs. Never: breaks anything else. */
#include "base.h"

static enum facet_status cancel_launch(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                       uint64_t sequence, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = base_require_stream(instance, context, stream, &one, error);

    if (status == FACET_OK && (sequence == 0 || sequence > one->state.launched))
        return facet_kit_fail(error, FACET_NOT_FOUND, "launch %" PRIu64 ": expected one that waits in the stream",
                              sequence);
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.cancel_launch = cancel_launch;
}
