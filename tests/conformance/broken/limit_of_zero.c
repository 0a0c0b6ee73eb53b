/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a compute limit of 0 is accepted. Never: breaks anything else. */
#include "base.h"

static enum facet_status set_compute(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                     uint32_t milli, struct facet_error *error)
{
    if (milli == 0)
        return FACET_OK;
    return base_limit.set_compute(instance, device, worker, milli, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->limit.set_compute = set_compute;
}
