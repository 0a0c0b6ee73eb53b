/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: the sum of the limits goes above the device. Never: breaks anything else. */
#include "base.h"

static enum facet_status set_memory(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                    uint64_t bytes, struct facet_error *error)
{
    enum facet_status status = base_limit.set_memory(instance, device, worker, bytes, error);

    return status == FACET_NO_SPACE ? FACET_OK : status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->limit.set_memory = set_memory;
}
