/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: work that waits when a pause ends is dropped. Never: breaks anything else. */
#include "base.h"

static enum facet_status pause_context(struct facet_provider_instance *instance, uint64_t context, uint32_t paused,
                                       struct facet_error *error)
{
    enum facet_status status = base_execution.pause(instance, context, paused, error);

    for (int i = 0; status == FACET_OK && !paused && i < BASE_STREAMS; i++)
        if (instance->streams[i].context == context)
            base_execution.cancel(instance, context, instance->streams[i].number, NULL);
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.pause = pause_context;
}
