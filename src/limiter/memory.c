/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the arithmetic of memory.h. Never: lets the sum over the slots pass the quota with a request granted. */
#include "limiter/memory.h"

#include <sched.h>

#define TRIES 4

static uint64_t quota(const struct facet_policy *policy)
{
    return atomic_load_explicit(&policy->memory_limit_bytes, memory_order_relaxed);
}

uint64_t facet_memory_left(const struct facet_policy *policy, const struct facet_usage *usage)
{
    uint64_t limit = quota(policy), used = facet_usage_memory(usage);

    return used < limit ? limit - used : 0;
}

static void raise_peak(struct facet_usage *usage, uint64_t sum)
{
    uint64_t peak = atomic_load_explicit(&usage->memory_peak_bytes, memory_order_relaxed);

    while (sum > peak && !atomic_compare_exchange_weak(&usage->memory_peak_bytes, &peak, sum))
        ;
}

/*
 * Adds to the slot first and sums afterwards: of two processes that race for the last bytes, one at least sees both.
 * What cannot fit is not even added, lest a large request that is refused again and again keeps small ones out
 * meanwhile.
 */
bool facet_memory_take(const struct facet_policy *policy, struct facet_usage *usage, struct facet_slot *slot,
                       uint64_t bytes)
{
    if (facet_memory_left(policy, usage) < bytes)
        return false;
    atomic_fetch_add_explicit(&slot->memory_bytes, bytes, memory_order_seq_cst);

    uint64_t sum = facet_usage_memory(usage);
    if (__builtin_expect(sum <= quota(policy), 1)) {
        raise_peak(usage, sum);
        return true;
    }
    atomic_fetch_sub_explicit(&slot->memory_bytes, bytes, memory_order_seq_cst);
    return false;
}

bool facet_memory_take_again(const struct facet_policy *policy, struct facet_usage *usage, struct facet_slot *slot,
                             uint64_t bytes)
{
    for (int i = 0; i < TRIES; i++) {
        if (facet_memory_take(policy, usage, slot, bytes))
            return true;
        sched_yield();
    }
    return false;
}

void facet_memory_give(struct facet_slot *slot, uint64_t bytes)
{
    uint64_t held = atomic_fetch_sub_explicit(&slot->memory_bytes, bytes, memory_order_seq_cst);

    /* Only a damaged segment gets here; below zero it would refuse everybody everything. */
    if (__builtin_expect(held < bytes, 0))
        atomic_fetch_add_explicit(&slot->memory_bytes, bytes - held, memory_order_seq_cst);
}
