/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device time that no scheduler settles: claimed from one word of the device.
 *
 * Owns: the words facet_bell.claimed_until_ns and facet_usage.claimed_ns. Never: decides which vGPU runs, or waits.
 *
 * vGPUs that overlap each measure the same moment in full. While a scheduler lives, it settles how
 * much of such a moment counts for each (src/compute/settle.h). Without one, each vGPU claims its measured time from
 * the time that has passed on the device: `claimed_until_ns` is the moment up to which that time is claimed, so all
 * vGPUs together never have more than has passed. The next scheduler takes the claims over.
 */
#ifndef FACET_LIMITER_CLAIM_H
#define FACET_LIMITER_CLAIM_H

#include "limiter/segment.h"

/*
 * The divisors for facet_claim(). A process that works without a scheduler claims at most an eighth of the free time at
 * once, every few milliseconds, so that vGPUs that overlap get about the same, whichever claims first. A reader of the
 * totals claims all that is left.
 */
#define FACET_CLAIM_BY_TENANT 8u
#define FACET_CLAIM_BY_READER 1u

/*
 * Claims the vGPU's measured time, at most 1/`divisor` of the free time. Does nothing where no scheduler ever settled.
 */
void facet_claim(const struct facet_policy *policy, struct facet_usage *usage, struct facet_bell *bell,
                 uint32_t divisor, uint64_t now_ns);

/*
 * The time up to which the device's time is claimed; 0: unknown. Tenants can write the word, so a time later than now
 * is not believed.
 */
uint64_t facet_claim_until_ns(const struct facet_bell *bell, uint64_t now_ns);

#endif
