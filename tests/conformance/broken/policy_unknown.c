/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: an unknown policy is taken. Never: breaks anything else. */
#include "base.h"

static enum facet_status set_policy(struct facet_provider_instance *instance, uint32_t device, uint32_t policy,
                                    uint32_t preempt, uint64_t slice_ns, struct facet_error *error)
{
    enum facet_status status = base_execution.set_policy(instance, device, policy, preempt, slice_ns, error);

    return status == FACET_OUT_OF_RANGE ? FACET_OK : status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.set_policy = set_policy;
}
