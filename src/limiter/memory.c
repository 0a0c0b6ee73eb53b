/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the arithmetic of memory.h. Never: grants a request with which the sum over the slots exceeds the quota. */
#include "limiter/memory.h"

#include <sched.h>

#define TAKE_TRIES 4 /* attempts of facet_memory_take_again() */

static uint64_t quota_of(const struct facet_policy *policy)
{
    return atomic_load_explicit(&policy->memory_limit_bytes, memory_order_relaxed);
}

uint64_t facet_memory_left(const struct facet_policy *policy, const struct facet_usage *usage)
{
    uint64_t limit = quota_of(policy), used = facet_usage_memory(usage);

    return used < limit ? limit - used : 0;
}

static void raise_peak(struct facet_usage *usage, uint64_t sum)
{
    uint64_t peak = atomic_load_explicit(&usage->memory_peak_bytes, memory_order_relaxed);

    while (sum > peak && !atomic_compare_exchange_weak(&usage->memory_peak_bytes, &peak, sum))
        ;
}

/* If the sum is above the quota, all spare regions are taken back before it is compared again. */
static bool fits_quota(const struct facet_policy *policy, struct facet_usage *usage)
{
    uint64_t sum = facet_usage_charged(usage);

    if (__builtin_expect(sum > quota_of(policy), 0))
        sum = facet_usage_take_spares(usage);
    if (__builtin_expect(sum > quota_of(policy), 0))
        return false;
    raise_peak(usage, sum);
    return true;
}

/*
 * Adds to the slot first and sums afterwards: of two processes that race for the last bytes, at least one sees both
 * amounts. A
 * request that cannot fit is not even added; otherwise a large one that is refused again and again would keep small
 * ones out meanwhile. The slot's own spare regions were not enough for the request: they are given up, so that the peak
 * does not count them in addition to the new memory.
 */
static bool take_bytes(const struct facet_policy *policy, struct facet_usage *usage, struct facet_slot *slot,
                       _Atomic uint64_t *word, uint64_t amount, uint64_t bytes)
{
    if (facet_memory_left(policy, usage) < bytes)
        return false;
    facet_slot_take_spares(slot);
    atomic_fetch_add_explicit(word, amount, memory_order_seq_cst);
    if (__builtin_expect(fits_quota(policy, usage), 1))
        return true;
    atomic_fetch_sub_explicit(word, amount, memory_order_seq_cst);
    return false;
}

static bool take_bytes_again(const struct facet_policy *policy, struct facet_usage *usage, struct facet_slot *slot,
                             _Atomic uint64_t *word, uint64_t amount, uint64_t bytes)
{
    for (int i = 0; i < TAKE_TRIES; i++) {
        if (take_bytes(policy, usage, slot, word, amount, bytes))
            return true;
        sched_yield();
    }
    return false;
}

bool facet_memory_take(const struct facet_policy *policy, struct facet_usage *usage, struct facet_slot *slot,
                       uint64_t bytes)
{
    return take_bytes(policy, usage, slot, &slot->memory_bytes, bytes, bytes);
}

bool facet_memory_take_again(const struct facet_policy *policy, struct facet_usage *usage, struct facet_slot *slot,
                             uint64_t bytes)
{
    return take_bytes_again(policy, usage, slot, &slot->memory_bytes, bytes, bytes);
}

bool facet_memory_take_regions(const struct facet_policy *policy, struct facet_usage *usage, struct facet_slot *slot,
                               uint32_t count)
{
    return take_bytes(policy, usage, slot, &slot->regions, count, count * FACET_REGION_BYTES);
}

bool facet_memory_take_regions_again(const struct facet_policy *policy, struct facet_usage *usage,
                                     struct facet_slot *slot, uint32_t count)
{
    return take_bytes_again(policy, usage, slot, &slot->regions, count, count * FACET_REGION_BYTES);
}

void facet_memory_give(struct facet_slot *slot, uint64_t bytes)
{
    uint64_t held = atomic_fetch_sub_explicit(&slot->memory_bytes, bytes, memory_order_seq_cst);

    /* Only a damaged segment gets here; a value below zero would refuse every request of every process. */
    if (__builtin_expect(held < bytes, 0))
        atomic_fetch_add_explicit(&slot->memory_bytes, bytes - held, memory_order_seq_cst);
}

/* Never goes below zero, as in facet_memory_give(). */
void facet_memory_give_regions(struct facet_slot *slot, uint32_t count, bool keep_spare)
{
    uint64_t regions = atomic_load_explicit(&slot->regions, memory_order_relaxed), new_regions;

    do {
        uint64_t held = facet_regions_held(regions), given = count < held ? count : held;
        uint64_t spare = keep_spare ? facet_regions_spare(regions) + given : 0;

        new_regions =
            held - given + (spare < FACET_SPARE_REGIONS_MAX ? spare : FACET_SPARE_REGIONS_MAX) * FACET_SPARE_REGION;
    } while (!atomic_compare_exchange_weak(&slot->regions, &regions, new_regions));
}
