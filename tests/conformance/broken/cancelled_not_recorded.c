/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: cancelled work has no records. Never: breaks anything else. */
#include "base.h"

static enum facet_status cancel(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = base_require_stream(instance, context, stream, &one, error);

    if (status != FACET_OK)
        return status;
    one->state.completed += one->queued;
    one->queued = 0;
    return FACET_OK;
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.cancel = cancel;
}
