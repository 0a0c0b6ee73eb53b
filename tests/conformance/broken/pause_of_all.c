/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a pause of one context pauses all. Never: breaks anything else. */
#include "base.h"

static enum facet_status pause_context(struct facet_provider_instance *instance, uint64_t context, uint32_t paused,
                                       struct facet_error *error)
{
    enum facet_status status = base_execution.pause(instance, context, paused, error);

    for (int i = 0; status == FACET_OK && i < BASE_CONTEXTS; i++)
        instance->contexts[i].paused = paused != 0;
    return status;
}

static uint64_t last_context(const struct facet_provider_instance *instance)
{
    uint64_t last = 0;

    for (int i = 0; i < BASE_CONTEXTS; i++)
        if (instance->contexts[i].number > last)
            last = instance->contexts[i].number;
    return last;
}

/* A context that is created later finds the device paused, too. */
static enum facet_status create_context(struct facet_provider_instance *instance, uint32_t device,
                                        const char *partition_uuid, const char *worker, uint64_t *ret_context,
                                        struct facet_error *error)
{
    bool paused = false;

    for (int i = 0; i < BASE_CONTEXTS; i++)
        paused = paused || instance->contexts[i].paused;
    enum facet_status status = base_memory.create_context(instance, device, partition_uuid, worker, ret_context, error);
    if (status == FACET_OK && paused)
        base_execution.pause(instance, last_context(instance), 1, NULL);
    return status;
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
    tables->memory.create_context = create_context;
}
