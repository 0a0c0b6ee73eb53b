/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission of memory: the only place where a quota is compared with what is held.
 *
 * Owns: add to the slot, sum the slots, take back (ADR 2); regions that are kept spare (ADR 24).
 * Never: waits, knows about freezing, or whose slot it is.
 * Thread rule: every function from any thread and process.
 */
#ifndef FACET_LIMITER_MEMORY_H
#define FACET_LIMITER_MEMORY_H

#include "limiter/segment.h"

/* Takes `bytes` for a slot if the sum over all slots stays within the quota. */
bool facet_memory_take(const struct facet_policy *policy, struct facet_usage *usage, struct facet_slot *slot,
                       uint64_t bytes);

/* The same a few times: a refusal may be for the sake of a neighbour that is itself about to be refused. */
bool facet_memory_take_again(const struct facet_policy *policy, struct facet_usage *usage, struct facet_slot *slot,
                             uint64_t bytes);

void facet_memory_give(struct facet_slot *slot, uint64_t bytes);

/* The same for a number of regions. */
bool facet_memory_take_regions(const struct facet_policy *policy, struct facet_usage *usage, struct facet_slot *slot,
                               uint32_t count);
bool facet_memory_take_regions_again(const struct facet_policy *policy, struct facet_usage *usage,
                                     struct facet_slot *slot, uint32_t count);

/* `keep`: they stay spare, as far as there may be so many. Otherwise none does, nor what was. */
void facet_memory_give_regions(struct facet_slot *slot, uint32_t count, bool keep);

/* What is left of the quota: what is spare is left. */
uint64_t facet_memory_left(const struct facet_policy *policy, const struct facet_usage *usage);

#endif
