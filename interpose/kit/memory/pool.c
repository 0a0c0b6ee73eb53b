/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of pools, and their charges. Never: lets a pool keep more than the quota: growth beyond it is undone.
 */
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "charge.h"
#include "managed.h"

#define COUNT_STEP UINT64_C(512) /* unit in which allocations from a pool are counted */

struct pool {
    struct pool *next;
    void *handle;
    uint32_t device;
    enum facet_pool_place place;
    bool exported;                   /* other processes may hold its memory */
    bool destroyed;                  /* by the program; the library keeps it while it has allocations */
    uint64_t charged;                /* bytes reserved in the quota */
    uint64_t live_count, live_bytes; /* its current allocations */
};

_Atomic uint32_t facet_pool_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pools;

/* ---- the device that is charged: the pool's, or each ---- */

static bool is_charged(const struct pool *pool)
{
    return pool->place != FACET_POOL_ON_HOST;
}

static bool is_charged_on(const struct pool *pool, uint32_t device)
{
    return pool->place == FACET_POOL_MANAGED || (pool->place == FACET_POOL_ON_DEVICE && pool->device == device);
}

static bool reserve_for_pool(const struct pool *pool, struct facet_tenant *tenant, uint64_t bytes)
{
    return pool->place == FACET_POOL_MANAGED ? facet_managed_reserve(bytes) : facet_tenant_try_reserve(tenant, bytes);
}

static void release_from_pool(const struct pool *pool, struct facet_tenant *tenant, uint64_t bytes)
{
    if (pool->place == FACET_POOL_MANAGED)
        facet_managed_release(bytes);
    else
        facet_tenant_release(tenant, bytes);
}

static bool quota_lacks(const struct pool *pool, struct facet_tenant *tenant, uint64_t bytes)
{
    return pool->place == FACET_POOL_MANAGED ? facet_managed_free() < bytes : facet_tenant_lacks(tenant, bytes);
}

static uint64_t held_by_pool(const struct pool *pool)
{
    if (pool->destroyed && pool->exported)
        return pool->charged;
    return pool->destroyed ? facet_memory_round(pool->live_bytes, facet_memory_driver.pool_step)
                           : facet_memory_driver.pool_held(pool->handle);
}

/*
 * Adjusts the charge to the memory that the pool holds; `reserved` bytes beyond the charge are reserved already. False
 * when the quota has too little left for that memory: then only the `reserved` bytes are added to the charge.
 */
static bool settle_pool(struct pool *pool, uint64_t reserved)
{
    struct facet_tenant *tenant = facet_memory_driver.tenant(pool->device);
    uint64_t charged_bytes = pool->charged + reserved, held_bytes = held_by_pool(pool);

    if (!tenant)
        return false;
    if (held_bytes > charged_bytes && !reserve_for_pool(pool, tenant, held_bytes - charged_bytes)) {
        pool->charged = charged_bytes;
        return false;
    }
    if (held_bytes < charged_bytes)
        release_from_pool(pool, tenant, charged_bytes - held_bytes);
    pool->charged = held_bytes;
    return true;
}

static struct pool *find_pool(const void *handle)
{
    struct pool *pool = pools;

    while (pool && (pool->handle != handle || pool->destroyed))
        pool = pool->next;
    return pool;
}

static struct pool *add_pool(void *handle, uint32_t device, enum facet_pool_place place)
{
    struct pool *pool = malloc(sizeof *pool);

    if (!pool)
        return NULL;
    *pool = (struct pool){.next = pools, .handle = handle, .device = device, .place = place};
    pools = pool;
    atomic_fetch_add_explicit(&facet_pool_count, 1, memory_order_relaxed);
    return pool;
}

static void forget_pool(struct pool *pool)
{
    struct pool **at = &pools;

    while (*at != pool)
        at = &(*at)->next;
    *at = pool->next;
    free(pool);
    atomic_fetch_sub_explicit(&facet_pool_count, 1, memory_order_relaxed);
}

static void settle_pools(uint32_t device)
{
    for (struct pool *pool = pools; pool; pool = pool->next)
        if (is_charged_on(pool, device))
            settle_pool(pool, 0);
}

void facet_pools_settle(uint32_t device)
{
    pthread_mutex_lock(&lock);
    settle_pools(device);
    pthread_mutex_unlock(&lock);
}

void facet_pools_settle_if_free(uint32_t device)
{
    if (pthread_mutex_trylock(&lock) != 0)
        return;
    settle_pools(device);
    pthread_mutex_unlock(&lock);
}

static void trim_pools(uint32_t device)
{
    for (struct pool *pool = pools; pool; pool = pool->next) {
        if (!is_charged_on(pool, device))
            continue;
        if (!pool->destroyed)
            facet_memory_driver.pool_trim(pool->handle);
        settle_pool(pool, 0);
    }
}

/* Makes the pools of each GPU where `pool` is charged release their unused memory. */
static void trim_pools_of(const struct pool *pool)
{
    uint32_t count = pool->place == FACET_POOL_MANAGED ? facet_memory_driver.devices() : 0;

    for (uint32_t i = 0; i < count; i++)
        trim_pools(i);
    if (!count)
        trim_pools(pool->device);
}

void facet_pools_trim(uint32_t device)
{
    pthread_mutex_lock(&lock);
    trim_pools(device);
    pthread_mutex_unlock(&lock);
}

/*
 * Reserves the possible growth of the pool by an allocation of `bytes`. If the quota has too little left, an allocation
 * that fits into the pool's unused memory goes ahead without a reservation: the pool will probably not grow.
 */
static enum facet_memory_refusal reserve_growth(struct pool *pool, uint64_t bytes, uint64_t *ret_hold)
{
    struct facet_tenant *tenant = facet_memory_driver.tenant(pool->device);
    uint64_t growth = facet_memory_round(bytes, facet_memory_driver.pool_growth);

    *ret_hold = 0;
    if (!tenant)
        return FACET_MEMORY_NO_VGPU;
    if (!settle_pool(pool, 0)) {
        trim_pools_of(pool);
        if (!settle_pool(pool, 0))
            return FACET_MEMORY_OVER_QUOTA;
    }
    if (quota_lacks(pool, tenant, growth)) {
        uint64_t used = facet_memory_driver.pool_used(pool->handle);
        if (used <= pool->charged && bytes <= pool->charged - used)
            return FACET_MEMORY_CHARGED;
        trim_pools_of(pool);
    }
    if (!reserve_for_pool(pool, tenant, growth))
        return FACET_MEMORY_OVER_QUOTA;
    *ret_hold = growth;
    return FACET_MEMORY_CHARGED;
}

static bool remember_block(struct pool *pool, uint64_t pointer, uint64_t bytes)
{
    struct facet_memory_charge charge = {
        .tenant = facet_memory_driver.tenant(pool->device), .bytes = bytes, .device = pool->device};

    if (!facet_charge_keep(&charge, FACET_MEMORY_POOLED, pointer, (uintptr_t)pool))
        return false;
    pool->live_count++;
    pool->live_bytes += bytes;
    return true;
}

/* Called with the lock held. */
static int allocate_from_charged(struct pool *pool, uint64_t asked, struct facet_pool_allocation *allocation)
{
    uint64_t bytes = facet_memory_round(asked, COUNT_STEP), reserved;
    enum facet_memory_refusal refusal = reserve_growth(pool, bytes, &reserved);

    allocation->refused_by = refusal == FACET_MEMORY_OVER_QUOTA ? facet_memory_driver.tenant(pool->device) : NULL;
    if (refusal != FACET_MEMORY_CHARGED)
        return refusal == FACET_MEMORY_OVER_QUOTA ? allocation->quota_result : allocation->no_vgpu_result;
    int result = allocation->allocate(allocation);
    bool fits_quota = settle_pool(pool, reserved);
    if (result != 0 || (fits_quota && remember_block(pool, allocation->pointer, bytes)))
        return result;
    allocation->undo(allocation);
    settle_pool(pool, 0);
    allocation->refused_by = fits_quota ? NULL : facet_memory_driver.tenant(pool->device);
    return allocation->quota_result;
}

static struct pool *add_found_pool(void *handle, uint32_t device)
{
    return add_pool(handle, facet_memory_driver.pool_device ? facet_memory_driver.pool_device(handle, device) : device,
                    FACET_POOL_ON_DEVICE);
}

int facet_pool_allocate(void *handle, uint32_t device, uint64_t bytes, struct facet_pool_allocation *allocation)
{
    int result = allocation->quota_result;

    pthread_mutex_lock(&lock);
    struct pool *listed = find_pool(handle), *pool = listed ? listed : add_found_pool(handle, device);
    if (pool)
        result = is_charged(pool) ? allocate_from_charged(pool, bytes, allocation) : allocation->allocate(allocation);
    if (pool && !listed && result != 0 && !pool->charged)
        forget_pool(pool); /* probably not a pool */
    pthread_mutex_unlock(&lock);
    return result;
}

void facet_pool_freed(const struct facet_ledger_entry *entry)
{
    struct pool *pool = (struct pool *)(uintptr_t)entry->owner; /* NOLINT(performance-no-int-to-ptr): ours */

    pthread_mutex_lock(&lock);
    pool->live_count--;
    pool->live_bytes -= entry->bytes;
    settle_pool(pool, 0);
    if (pool->destroyed && !pool->live_count)
        forget_pool(pool);
    pthread_mutex_unlock(&lock);
}

bool facet_pool_made(void *handle, uint32_t device, enum facet_pool_place place)
{
    pthread_mutex_lock(&lock);
    bool is_added = add_pool(handle, device, place);
    pthread_mutex_unlock(&lock);
    return is_added;
}

bool facet_pool_found(void *handle, uint32_t device, enum facet_pool_place place)
{
    pthread_mutex_lock(&lock);
    bool is_listed = find_pool(handle) || add_pool(handle, device, place);
    pthread_mutex_unlock(&lock);
    return is_listed;
}

int facet_pool_destroy(void *handle, int (*destroy)(void *pool))
{
    pthread_mutex_lock(&lock);
    int result = destroy(handle);
    struct pool *pool = result == 0 ? find_pool(handle) : NULL;
    if (pool) {
        pool->destroyed = true;
        if (is_charged(pool))
            settle_pool(pool, 0);
        if (!pool->live_count)
            forget_pool(pool);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void facet_pool_exported(void *handle)
{
    pthread_mutex_lock(&lock);
    struct pool *pool = find_pool(handle);
    if (pool)
        pool->exported = true;
    pthread_mutex_unlock(&lock);
}

int facet_pool_trim(void *handle, uint64_t keep, int (*trim)(void *pool, uint64_t keep))
{
    pthread_mutex_lock(&lock);
    int result = trim(handle, keep);
    struct pool *pool = find_pool(handle);
    if (pool && is_charged(pool))
        settle_pool(pool, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

void facet_pools_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void facet_pools_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* The pools belong to the parent. */
void facet_pools_forked(void)
{
    while (pools)
        forget_pool(pools);
    pthread_mutex_unlock(&lock);
}
