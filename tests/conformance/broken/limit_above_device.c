/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a limit above the device is accepted. Never: breaks anything else. */
#include "base.h"

static enum facet_status set_memory(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                    uint64_t bytes, struct facet_error *error)
{
    if (bytes > BASE_MEMORY)
        return device == 0 ? FACET_OK : FACET_NOT_FOUND;
    return base_limit.set_memory(instance, device, worker, bytes, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->limit.set_memory = set_memory;
}
