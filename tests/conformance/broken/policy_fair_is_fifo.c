/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: the policy fair schedules as fifo does. Never: breaks anything else. */
#include "base.h"

static enum facet_status set_policy(struct facet_provider_instance *instance, uint32_t device, uint32_t policy,
                                    uint32_t preempt, uint64_t slice_ns, struct facet_error *error)
{
    uint32_t meant = policy == FACET_SCHEDULE_FAIR ? FACET_SCHEDULE_FIFO : policy;

    return base_execution.set_policy(instance, device, meant, preempt, slice_ns, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.set_policy = set_policy;
}
