/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tenant's handling of neighbours that died. Never: judges by a process id whether a process is dead. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "limiter/slot.h"
#include "limiter/tenant.h"

/*
 * The time after a change for which the kernel is queried again: the device memory of a process that is about to end
 * may be free before its slot's lock is.
 */
#define STEADY_NS (100 * FACET_NS_PER_MS)

void facet_tenant_reclaim(struct facet_tenant *tenant)
{
    char path[32];
    int saved = errno;

    snprintf(path, sizeof path, "/proc/self/fd/%d", tenant->usage_fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    /*
     * The file is checked after it is opened: in any other file every slot's lock would look free, every process dead.
     */
    if (fd >= 0 && facet_tenant_is_usage(tenant, fd))
        facet_slot_reclaim(tenant->policy, tenant->usage, fd);
    if (fd >= 0)
        close(fd);
    errno = saved;
}

/*
 * Whether another slot has memory and no lock. The answer is wrong if the program has reused the descriptor's number;
 * facet_tenant_reclaim() checks that.
 */
static bool has_dead_neighbour(const struct facet_tenant *tenant)
{
    const struct facet_usage *usage = tenant->usage;
    uint32_t used = atomic_load_explicit(&usage->slots_used, memory_order_relaxed);

    for (uint32_t i = 0; i < used && i < FACET_SEGMENT_SLOTS; i++) {
        const struct facet_slot *slot = &usage->slots[i];

        if (slot != tenant->slot && facet_slot_memory(slot) &&
            !facet_slot_locked(tenant->usage_fd, FACET_SLOT_LOCK_OFFSET(i), 1))
            return true;
    }
    return false;
}

uint64_t facet_tenant_memory_free_now(struct facet_tenant *tenant)
{
    if (has_dead_neighbour(tenant))
        facet_tenant_reclaim(tenant);
    return facet_tenant_memory_free(tenant);
}

static uint64_t quota_left_at(const struct facet_tenant *tenant, uint64_t sum, uint64_t device_free)
{
    uint64_t limit = facet_tenant_memory_limit(tenant), used = sum - device_free;

    return used < limit ? limit - used : 0;
}

/* The slow path: the sum differs from the sum at which all processes were last known to live. */
static uint64_t read_free_memory(struct facet_tenant *tenant, uint64_t device_free)
{
    uint64_t left = facet_tenant_memory_free_now(tenant), now_ns = facet_clock_now_ns();
    uint64_t sum = device_free + facet_usage_memory(tenant->usage);

    if (atomic_load_explicit(&tenant->recent_bytes, memory_order_relaxed) != sum) {
        atomic_store_explicit(&tenant->recent_since_ns, now_ns, memory_order_relaxed);
        atomic_store_explicit(&tenant->recent_bytes, sum, memory_order_relaxed);
    } else if (now_ns > atomic_load_explicit(&tenant->recent_since_ns, memory_order_relaxed) + STEADY_NS) {
        atomic_store_explicit(&tenant->steady_bytes, sum, memory_order_relaxed);
    }
    return left;
}

uint64_t facet_tenant_memory_free_cached(struct facet_tenant *tenant, uint64_t device_free)
{
    uint64_t sum = device_free + facet_usage_memory(tenant->usage);

    if (__builtin_expect(sum == atomic_load_explicit(&tenant->steady_bytes, memory_order_relaxed), 1))
        return quota_left_at(tenant, sum, device_free);
    return read_free_memory(tenant, device_free);
}
