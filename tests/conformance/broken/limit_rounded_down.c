/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a memory limit is granted in whole MiB, rounded down. Never: breaks anything else. */
#include "base.h"

static enum facet_status set_memory(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                    uint64_t bytes, struct facet_error *error)
{
    const uint64_t step = UINT64_C(1) << 20;

    return base_limit.set_memory(instance, device, worker, bytes <= BASE_MEMORY ? bytes / step * step : bytes, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->limit.set_memory = set_memory;
}
