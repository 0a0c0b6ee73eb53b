/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a copy does not wait for the launches queued before it. Never: breaks anything else. */
#include "base.h"

static enum facet_status copy(struct facet_provider_instance *instance, uint64_t context, uint64_t stream, uint64_t to,
                              uint64_t from, uint64_t bytes, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = base_require_stream(instance, context, stream, &one, error);

    return status == FACET_OK ? base_copy_or_fill(instance, context, to, &from, 0, bytes, error) : status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.copy = copy;
}
