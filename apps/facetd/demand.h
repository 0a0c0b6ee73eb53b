/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a vGPU wants of its device, from its segment to the policy.
 *
 * Owns: carrying what each process says of itself (src/limiter/owner.h) to the policy (src/compute/fair.h), which
 * judges whether anybody is there to say it. Never: decides who runs.
 */
#ifndef FACETD_DEMAND_H
#define FACETD_DEMAND_H

#include "compute/fair.h"
#include "limiter/owner.h"

/* `totals` is the look at the vGPU that was taken just before. */
struct facet_fair_demand demand_of(const struct facet_owner *owner, const struct facet_usage_totals *totals,
                                   uint64_t now_ns);

#endif
