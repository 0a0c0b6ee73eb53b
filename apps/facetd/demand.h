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

/* What is in flight no more is in the device time, so that a cap has one or the other held against it at any time. */
struct facet_fair_demand demand_of(const struct facet_owner *owner, uint64_t now_ns);

#endif
