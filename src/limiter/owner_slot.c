/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: an owner's view of one process's slot. Never: judges whether the process lives, or trusts more of the slot than
 * integers.
 */
#include "limiter/owner_inside.h"
#include "limiter/slot.h"

/* A process was alive when its work in flight began, even if alive_ns is older. */
static uint64_t last_alive_ns(const struct facet_slot *slot)
{
    uint64_t alive_ns = atomic_load_explicit(&slot->alive_ns, memory_order_relaxed);
    uint64_t began_ns = facet_slot_unsettled_since_ns(slot);

    return alive_ns && began_ns > alive_ns ? began_ns : alive_ns;
}

/* When the oldest work in flight began. */
static uint64_t oldest_begun_ns(const struct facet_slot *slot)
{
    uint64_t oldest_ns = 0;

    for (uint32_t i = 0, used = facet_slot_shards(slot); i < used; i++) {
        uint64_t begun_ns = atomic_load(&slot->shards[i].begun_ns);

        if (facet_inflight_count(atomic_load(&slot->shards[i].inflight)) && (!oldest_ns || begun_ns < oldest_ns))
            oldest_ns = begun_ns;
    }
    return oldest_ns;
}

bool facet_owner_read_slot(const struct facet_owner *owner, uint32_t index, struct facet_owner_slot *ret_slot)
{
    const struct facet_usage *usage = owner->usage;

    if (index >= FACET_SEGMENT_SLOTS || index >= atomic_load(&usage->slots_used))
        return false;
    const struct facet_slot *slot = &usage->slots[index];
    uint64_t inflight = facet_slot_inflight(slot), oldest_ns = oldest_begun_ns(slot);

    *ret_slot = (struct facet_owner_slot){
        .waiting = atomic_load(&slot->waiting),
        .inflight = facet_inflight_count(inflight),
        .inflight_ns = facet_inflight_ns(inflight),
        .idle_since_ns = atomic_load(&slot->idle_since_ns),
        .begun_ns = oldest_ns,
        .busy_ns = atomic_load(&slot->busy_ns),
        .alive_ns = last_alive_ns(slot),
    };
    return true;
}
