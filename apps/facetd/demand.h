/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a vGPU wants of its device, from its segment to the policy.
 *
 * Owns: carrying what each process says of itself (src/limiter/owner.h) to the policy (src/compute/fair.h), which
 * judges whether anybody is there to say it, and to what is published (src/compute/settle.h). Never: decides who runs.
 */
#ifndef FACETD_DEMAND_H
#define FACETD_DEMAND_H

#include "compute/fair.h"
#include "compute/settle.h"
#include "limiter/owner.h"

struct demand {
    struct facet_fair_demand fair;
    struct facet_settle_demand settle; /* but for what the policy charged */
};

/* What is in flight no more is in the device time, so that a cap has one or the other held against it at any time. */
struct demand demand_of(const struct facet_owner *owner, uint64_t now_ns);

#endif
