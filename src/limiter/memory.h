/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission of memory: the only place where a quota is compared with the memory held.
 *
 * Owns: adding to the slot, summing the slots, and taking back (ADR 2); regions that are kept spare (ADR 24).
 * Never: waits, reads which resources are frozen, or asks which process owns a slot.
 * Thread rule: every function from any thread and process.
 */
#ifndef FACET_LIMITER_MEMORY_H
#define FACET_LIMITER_MEMORY_H

#include "limiter/segment.h"

/* Takes `bytes` for a slot if the sum over all slots stays within the quota. */
bool facet_memory_take(const struct facet_policy *policy, struct facet_usage *usage, struct facet_slot *slot,
                       uint64_t bytes);

/*
 * Like facet_memory_take() with a few retries: a refusal may be due to a neighbour whose own request is about to be
 * refused.
 */
bool facet_memory_take_again(const struct facet_policy *policy, struct facet_usage *usage, struct facet_slot *slot,
                             uint64_t bytes);

void facet_memory_give(struct facet_slot *slot, uint64_t bytes);

/* Like the two functions above, for a number of regions. */
bool facet_memory_take_regions(const struct facet_policy *policy, struct facet_usage *usage, struct facet_slot *slot,
                               uint32_t count);
bool facet_memory_take_regions_again(const struct facet_policy *policy, struct facet_usage *usage,
                                     struct facet_slot *slot, uint32_t count);

/*
 * With `keep_spare` the regions become spare, up to FACET_SPARE_REGIONS_MAX. Without it none becomes spare, and the
 * slot's spare regions are given back too.
 */
void facet_memory_give_regions(struct facet_slot *slot, uint32_t count, bool keep_spare);

/* The part of the quota that is left; spare regions count as left. */
uint64_t facet_memory_left(const struct facet_policy *policy, const struct facet_usage *usage);

#endif
