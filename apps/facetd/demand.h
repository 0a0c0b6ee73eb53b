/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A vGPU's demand for its device, from its segment to the policy.
 *
 * Owns: carrying each process's report (src/limiter/owner.h) to the policy (src/compute/fair.h), which judges whether a
 * live process stands behind it, and to the published time (src/compute/settle.h). Never: decides which vGPU runs.
 */
#ifndef FACETD_DEMAND_H
#define FACETD_DEMAND_H

#include "compute/fair.h"
#include "compute/settle.h"
#include "limiter/owner.h"

struct demand {
    struct facet_fair_demand fair;
    struct facet_settle_demand settle; /* all but the policy's charges */
};

/* A launch that is no longer in flight is in the device time already, so a cap always counts each launch once. */
struct demand demand_of(const struct facet_owner *owner, uint64_t now_ns);

#endif
