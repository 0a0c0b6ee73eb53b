/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: all callers share one variable without a lock. Never: breaks anything else. */
#include <sched.h>

#include "base.h"

static uint64_t shared_context;

static enum facet_status create_context(struct facet_provider_instance *instance, uint32_t device,
                                        const char *partition_uuid, const char *worker, uint64_t *ret_context,
                                        struct facet_error *error)
{
    uint64_t context = 0;
    enum facet_status status =
        base_memory.create_context(instance, device, partition_uuid, worker, ret_context ? &context : NULL, error);

    if (status != FACET_OK)
        return status;
    __atomic_store_n(&shared_context, context, __ATOMIC_RELAXED);
    sched_yield();
    *ret_context = __atomic_load_n(&shared_context, __ATOMIC_RELAXED);
    return FACET_OK;
}

void base_install_fault(struct base_tables *tables)
{
    tables->memory.create_context = create_context;
}
