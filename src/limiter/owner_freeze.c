/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: which resources are frozen, by hand and for idleness. Never: sets the gate: the callers do. */
#include <time.h>

#include "base/clock.h"
#include "limiter/owner_inside.h"

#define AUTO_SHIFT 16

_Static_assert(FACET_FROZEN_AUTO(1) == 1u << AUTO_SHIFT,
               "the high half of the word has the resources that froze for idleness");

static uint32_t frozen_word(const struct facet_owner *owner)
{
    return atomic_load_explicit(&owner->policy->frozen, memory_order_relaxed);
}

static uint64_t realtime_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return facet_timespec_ns(&now);
}

static void change_frozen_word(struct facet_owner *owner, uint32_t word)
{
    uint32_t old = frozen_word(owner);

    if (old == word)
        return;
    if (!old)
        atomic_store_explicit(&owner->policy->frozen_since_ns, realtime_ns(), memory_order_relaxed);
    atomic_store_explicit(&owner->policy->frozen, word, memory_order_seq_cst);
    facet_futex_wake(&owner->policy->frozen);
}

uint32_t facet_owner_frozen(const struct facet_owner *owner)
{
    return frozen_word(owner) & FACET_FROZEN_RESOURCES;
}

uint32_t facet_owner_auto_frozen(const struct facet_owner *owner)
{
    return frozen_word(owner) >> AUTO_SHIFT & FACET_FROZEN_RESOURCES;
}

uint64_t facet_owner_frozen_since_ns(const struct facet_owner *owner)
{
    return frozen_word(owner) ? atomic_load_explicit(&owner->policy->frozen_since_ns, memory_order_relaxed) : 0;
}

void facet_owner_note_use(struct facet_owner *owner, uint32_t resources, uint64_t now_ns)
{
    for (uint32_t i = 0; i < FACET_RESOURCE_COUNT; i++)
        if (resources & 1u << i)
            owner->used_ns[i] = now_ns;
    change_frozen_word(owner, frozen_word(owner) & ~FACET_FROZEN_AUTO(resources));
}

void facet_owner_set_frozen(struct facet_owner *owner, uint32_t resources)
{
    uint32_t word = frozen_word(owner), thawed = word & FACET_FROZEN_RESOURCES & ~resources;

    change_frozen_word(owner, (word & ~FACET_FROZEN_RESOURCES) | resources);
    if (thawed)
        facet_owner_note_use(owner, thawed, facet_clock_now_ns());
}

void facet_owner_set_idle_freeze(struct facet_owner *owner, uint32_t resources, uint64_t idle_ns)
{
    for (uint32_t i = 0; i < FACET_RESOURCE_COUNT; i++)
        if (resources & 1u << i)
            atomic_store_explicit(&owner->policy->idle_freeze_ns[i], idle_ns, memory_order_relaxed);
}

static uint64_t threshold_ns(const struct facet_owner *owner, uint32_t resource)
{
    return atomic_load_explicit(&owner->policy->idle_freeze_ns[resource], memory_order_relaxed);
}

/* The resources that were used since the last tick, or for which a thread waits now. */
static uint32_t resources_in_use(struct facet_owner *owner, const struct facet_usage_totals *totals)
{
    struct facet_owner_last_totals last = owner->last_totals;
    const struct facet_owner_last_totals now = {totals->launches, totals->busy_ns, totals->memory_bytes,
                                                totals->denied};

    owner->last_totals = now;
    if (totals->inflight || totals->waiting || now.launches != last.launches || now.busy_ns != last.busy_ns)
        return FACET_FROZEN_RESOURCES;
    if (totals->allocating || now.memory_bytes != last.memory_bytes || now.denied != last.denied)
        return FACET_RESOURCE_MEMORY;
    return 0;
}

/*
 * At the first reading no earlier use is known, so all resources count as used now. Resources that an earlier owner
 * froze stay frozen until they are used.
 */
static void begin_watching(struct facet_owner *owner, const struct facet_usage_totals *totals, uint64_t now_ns)
{
    resources_in_use(owner, totals);
    for (uint32_t i = 0; i < FACET_RESOURCE_COUNT; i++) {
        uint64_t idle_ns = facet_owner_auto_frozen(owner) & 1u << i ? threshold_ns(owner, i) : 0;

        owner->used_ns[i] = idle_ns < now_ns ? now_ns - idle_ns : 1;
    }
}

static bool idle_for_too_long(const struct facet_owner *owner, uint32_t resource, uint64_t now_ns)
{
    uint64_t idle_ns = threshold_ns(owner, resource), used_ns = owner->used_ns[resource];

    return idle_ns && now_ns > used_ns && now_ns - used_ns >= idle_ns;
}

uint32_t facet_owner_update_idle_freeze(struct facet_owner *owner, const struct facet_usage_totals *totals,
                                        uint64_t now_ns)
{
    uint32_t word = frozen_word(owner) & FACET_FROZEN_RESOURCES;

    if (!owner->used_ns[0])
        begin_watching(owner, totals, now_ns);
    uint32_t used = resources_in_use(owner, totals);
    for (uint32_t i = 0; i < FACET_RESOURCE_COUNT; i++) {
        if (used & 1u << i)
            owner->used_ns[i] = now_ns;
        if (idle_for_too_long(owner, i, now_ns))
            word |= FACET_FROZEN_AUTO(1u << i);
    }
    change_frozen_word(owner, word);
    return facet_owner_auto_frozen(owner);
}

uint64_t facet_owner_idle_ns(const struct facet_owner *owner, uint64_t now_ns)
{
    uint64_t used_ns = owner->used_ns[0] > owner->used_ns[1] ? owner->used_ns[0] : owner->used_ns[1];

    return now_ns > used_ns ? now_ns - used_ns : 0;
}
