/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a wait for another stream ends at once. Never: breaks anything else. */
#include "base.h"

static enum facet_status wait_for(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                  uint64_t other, struct facet_error *error)
{
    struct base_stream *awaited = NULL;
    enum facet_status status;

    {
        BASE_LOCK(instance);
        status = base_require_stream(instance, context, other, &awaited, error);
    }
    return status == FACET_OK ? base_execution.wait(instance, context, stream, stream, error) : status;
}

/* Does this stream's launch before the work of the other streams, so that a launch behind a wait runs too early. */
static enum facet_status synchronize(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                     uint64_t timeout_ns, struct facet_error *error)
{
    {
        BASE_LOCK(instance);
        struct base_stream *one = base_find_stream(instance, context, stream);

        for (int i = 0; one && i < BASE_STREAMS; i++)
            if (instance->streams[i].number && &instance->streams[i] != one)
                for (uint32_t j = 0; j < instance->streams[i].queued; j++)
                    instance->streams[i].queue[j].queued_ns++;
        for (uint32_t i = 0; one && i < one->queued && one->queue[0].kind == BASE_WAIT; i++)
            base_finish(one, 0, FACET_OK, 0);
        if (one && one->queued == 1 && one->queue[0].sequence == 2 && one->queue[0].kind == BASE_LAUNCH)
            base_access_memory(instance, context, one->queue[0].address, NULL, &one->queue[0].value, sizeof(uint64_t),
                               NULL);
        if (one && one->queued == 1 && one->queue[0].sequence == 2 && one->queue[0].kind == BASE_LAUNCH)
            base_finish(one, 0, FACET_OK, 1);
    }
    return base_execution.synchronize(instance, context, stream, timeout_ns, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.wait = wait_for;
    tables->execution.synchronize = synchronize;
}
