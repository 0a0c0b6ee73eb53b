/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: all callers share one variable for the stream that is made. Never: breaks anything else. */
#include <sched.h>

#include "base.h"

static uint64_t shared_stream;

static enum facet_status create_stream(struct facet_provider_instance *instance, uint64_t context, uint64_t *ret_stream,
                                       struct facet_error *error)
{
    uint64_t stream = 0;
    enum facet_status status = base_execution.create_stream(instance, context, ret_stream ? &stream : NULL, error);

    if (status != FACET_OK)
        return status;
    __atomic_store_n(&shared_stream, stream, __ATOMIC_RELAXED);
    sched_yield();
    *ret_stream = __atomic_load_n(&shared_stream, __ATOMIC_RELAXED);
    return FACET_OK;
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.create_stream = create_stream;
}
