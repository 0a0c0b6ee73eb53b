/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a pause does not end. Never: breaks anything else. */
#include "base.h"

static enum facet_status pause_context(struct facet_provider_instance *instance, uint64_t context, uint32_t paused,
                                       struct facet_error *error)
{
    enum facet_status status = base_execution.pause(instance, context, paused, error);

    return status == FACET_OK ? base_execution.pause(instance, context, 1, error) : status;
}

/* Answers for work that never ends without waiting for the whole timeout, so that the suite takes less time. */
static enum facet_status synchronize(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                     uint64_t timeout_ns, struct facet_error *error)
{
    const uint64_t most_ns = 100000000;

    return base_execution.synchronize(instance, context, stream, timeout_ns < most_ns ? timeout_ns : most_ns, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.synchronize = synchronize;
    tables->execution.pause = pause_context;
}
