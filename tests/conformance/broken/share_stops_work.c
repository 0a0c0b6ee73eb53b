/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: work that is queued when the share changes never ends. Never: breaks anything else. */
#include "base.h"

static bool changed; /* whether the share has changed since the last launch */

static enum facet_status launch(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                const struct facet_launch *launch, const void *arguments, struct facet_error *error)
{
    changed = false;
    return base_execution.launch(instance, context, stream, launch, arguments, error);
}

static enum facet_status set_share(struct facet_provider_instance *instance, uint64_t context, uint32_t request_milli,
                                   uint32_t limit_milli, uint32_t priority, struct facet_error *error)
{
    changed = true;
    return base_execution.set_share(instance, context, request_milli, limit_milli, priority, error);
}

static enum facet_status synchronize(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                     uint64_t timeout_ns, struct facet_error *error)
{
    if (changed && timeout_ns > 0)
        return facet_kit_fail(error, FACET_TIMEOUT, "this work never ends");
    return base_execution.synchronize(instance, context, stream, timeout_ns, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.launch = launch;
    tables->execution.set_share = set_share;
    tables->execution.synchronize = synchronize;
}
