/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what pool.h says. Never: grants a pool more than the quota leaves: what it took beyond is given back. */
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "graph.h"

#define GROWTH (UINT64_C(32) << 20) /* drivers let a pool grow in steps of this */
#define STEP   (UINT64_C(2) << 20)

struct pool {
    struct pool *next;
    CUmemoryPool handle;
    uint32_t device;
    bool charged_here;         /* of a device of ours; not of the host, and not another process's */
    bool destroyed;            /* by the program; the driver keeps it while something is allocated from it */
    uint64_t charged;          /* what the quota has given */
    uint64_t live, live_bytes; /* what is allocated from it */
};

_Atomic uint32_t facet_cuda_pool_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pools;

bool facet_cuda_is_capturing(CUstream stream, bool per_thread)
{
    CUresult (*ask)(CUstream, CUstreamCaptureStatus *) =
        per_thread ? facet_cuda_plain.cuStreamIsCapturing_ptsz : facet_cuda_plain.cuStreamIsCapturing;
    CUstreamCaptureStatus status = 0;
    CUresult result = ask ? ask(stream, &status) : CUDA_ERROR_NOT_SUPPORTED;

    return (result == CUDA_SUCCESS && status) || result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

static uint64_t number_of(const struct pool *pool, CUmemPool_attribute attribute)
{
    uint64_t value = 0;

    return facet_cuda_plain.cuMemPoolGetAttribute(pool->handle, attribute, &value) == CUDA_SUCCESS ? value : 0;
}

static uint64_t held(const struct pool *pool)
{
    return pool->destroyed ? facet_cuda_round(pool->live_bytes, STEP)
                           : number_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

/*
 * Brings the charge to what the pool holds, of which `hold` more is reserved already. False when the quota does not
 * reach: then the pool stays charged for as much as it does.
 */
static bool settle(struct pool *pool, uint64_t hold)
{
    struct facet_tenant *tenant = facet_cuda_tenant(pool->device);
    uint64_t paid = pool->charged + hold, holds = held(pool);

    if (!tenant)
        return false;
    if (holds > paid && !facet_tenant_reserve(tenant, holds - paid)) {
        pool->charged = paid;
        return false;
    }
    if (holds < paid)
        facet_tenant_release(tenant, paid - holds);
    pool->charged = holds;
    return true;
}

static struct pool *find(CUmemoryPool handle)
{
    struct pool *pool = pools;

    while (pool && (pool->handle != handle || pool->destroyed))
        pool = pool->next;
    return pool;
}

static struct pool *add(CUmemoryPool handle, uint32_t device, bool charged_here)
{
    struct pool *pool = malloc(sizeof *pool);

    if (!pool)
        return NULL;
    *pool = (struct pool){.next = pools, .handle = handle, .device = device, .charged_here = charged_here};
    pools = pool;
    atomic_fetch_add_explicit(&facet_cuda_pool_count, 1, memory_order_relaxed);
    return pool;
}

static void forget(struct pool *pool)
{
    struct pool **at = &pools;

    while (*at != pool)
        at = &(*at)->next;
    *at = pool->next;
    free(pool);
    atomic_fetch_sub_explicit(&facet_cuda_pool_count, 1, memory_order_relaxed);
}

/* The device of a pool that this process did not make: the default one of some device, or its current one. */
static uint32_t device_of(CUmemoryPool handle, uint32_t otherwise)
{
    CUmemoryPool found = NULL;

    for (uint32_t i = 0; i < facet_cuda_process.count; i++) {
        if (facet_cuda_plain.cuDeviceGetDefaultMemPool(&found, (CUdevice)i) == CUDA_SUCCESS && found == handle)
            return i;
        if (facet_cuda_plain.cuDeviceGetMemPool(&found, (CUdevice)i) == CUDA_SUCCESS && found == handle)
            return i;
    }
    return otherwise;
}

static void settle_all(uint32_t device)
{
    for (struct pool *pool = pools; pool; pool = pool->next)
        if (pool->charged_here && pool->device == device)
            settle(pool, 0);
}

void facet_cuda_pools_settle(uint32_t device)
{
    pthread_mutex_lock(&lock);
    settle_all(device);
    pthread_mutex_unlock(&lock);
}

void facet_cuda_pools_settle_if_free(uint32_t device)
{
    if (pthread_mutex_trylock(&lock) != 0)
        return;
    settle_all(device);
    pthread_mutex_unlock(&lock);
}

static void let_go(uint32_t device)
{
    for (struct pool *pool = pools; pool; pool = pool->next) {
        if (!pool->charged_here || pool->device != device)
            continue;
        if (!pool->destroyed)
            facet_cuda_driver.cuMemPoolTrimTo(pool->handle, 0);
        settle(pool, 0);
    }
}

void facet_cuda_pools_let_go(uint32_t device)
{
    pthread_mutex_lock(&lock);
    let_go(device);
    pthread_mutex_unlock(&lock);
}

/*
 * Reserves what the pool may grow by for an allocation of `bytes`. Where the quota has not so much left, an allocation
 * that fits into what the pool holds unused goes ahead without: most likely it does not grow.
 */
static CUresult make_room(struct pool *pool, uint64_t bytes, uint64_t *ret_hold)
{
    struct facet_tenant *tenant = facet_cuda_tenant(pool->device);
    uint64_t growth = facet_cuda_round(bytes, GROWTH);

    *ret_hold = 0;
    if (!tenant)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!settle(pool, 0)) {
        let_go(pool->device);
        if (!settle(pool, 0))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (facet_tenant_memory_free(tenant) < growth) {
        uint64_t used = number_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
        if (used <= pool->charged && bytes <= pool->charged - used)
            return CUDA_SUCCESS;
        let_go(pool->device);
    }
    if (!facet_tenant_reserve(tenant, growth))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_hold = growth;
    return CUDA_SUCCESS;
}

static CUresult call_driver(CUdeviceptr *pointer, size_t bytes, CUmemoryPool handle, CUstream stream, bool per_thread)
{
    return per_thread ? facet_cuda_driver.cuMemAllocFromPoolAsync_ptsz(pointer, bytes, handle, stream)
                      : facet_cuda_driver.cuMemAllocFromPoolAsync(pointer, bytes, handle, stream);
}

/* Undoes an allocation, and what the pool grew by for it: the stream has to be there for that. */
static void undo(const struct pool *pool, CUdeviceptr pointer, CUstream stream, bool per_thread)
{
    if (per_thread)
        facet_cuda_driver.cuMemFreeAsync_ptsz(pointer, stream);
    else
        facet_cuda_driver.cuMemFreeAsync(pointer, stream);
    facet_cuda_plain.cuCtxSynchronize();
    facet_cuda_driver.cuMemPoolTrimTo(pool->handle, 0);
}

static bool remember(struct pool *pool, CUdeviceptr pointer, uint64_t bytes)
{
    struct facet_cuda_charge charge = {.bytes = bytes, .device = pool->device};

    if (!facet_cuda_charge_keep(&charge, FACET_CUDA_POOLED, pointer, (uintptr_t)pool))
        return false;
    pool->live++;
    pool->live_bytes += bytes;
    return true;
}

/* With the lock held. */
static CUresult take(struct pool *pool, CUdeviceptr *pointer, size_t asked, CUstream stream, bool per_thread)
{
    uint64_t bytes = facet_cuda_round(asked, 512), hold;
    CUresult result = make_room(pool, bytes, &hold);

    if (result != CUDA_SUCCESS)
        return result;
    result = call_driver(pointer, asked, pool->handle, stream, per_thread);
    bool paid = settle(pool, hold);
    if (result != CUDA_SUCCESS || (paid && remember(pool, *pointer, bytes)))
        return result;
    undo(pool, *pointer, stream, per_thread);
    settle(pool, 0);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult allocate_once(CUdeviceptr *pointer, size_t bytes, CUmemoryPool handle, uint32_t device, CUstream stream,
                              bool per_thread)
{
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    facet_transit_enter(FACET_TRANSIT_ANY_DEVICE, facet_cuda_round(bytes, GROWTH));
    pthread_mutex_lock(&lock);
    struct pool *pool = find(handle), *known = pool;
    if (!pool)
        pool = add(handle, device_of(handle, device), true);
    if (pool && pool->charged_here)
        result = take(pool, pointer, bytes, stream, per_thread);
    else if (pool)
        result = call_driver(pointer, bytes, handle, stream, per_thread);
    if (pool && !known && result != CUDA_SUCCESS && !pool->charged)
        forget(pool); /* most likely it is none */
    pthread_mutex_unlock(&lock);
    facet_transit_leave();
    return result;
}

static CUresult allocate(CUdeviceptr *pointer, size_t bytes, CUmemoryPool handle, uint32_t device, CUstream stream,
                         bool per_thread)
{
    CUresult result = allocate_once(pointer, bytes, handle, device, stream, per_thread);

    if (result != CUDA_ERROR_OUT_OF_MEMORY || !facet_cuda_graphs_were())
        return result;
    facet_cuda_graphs_let_go(device);
    return allocate_once(pointer, bytes, handle, device, stream, per_thread);
}

/* By way of the pool that the driver would choose, so that the pool that grows is the one that is watched. */
static CUresult allocate_from_current(CUdeviceptr *pointer, size_t bytes, CUstream stream, bool per_thread)
{
    uint32_t device = facet_cuda_stream_device(stream);
    CUmemoryPool handle = NULL;
    CUresult result = facet_cuda_plain.cuDeviceGetMemPool(&handle, (CUdevice)device);

    return result == CUDA_SUCCESS ? allocate(pointer, bytes, handle, device, stream, per_thread) : result;
}

CUresult facet_cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    if (!pointer || !bytes || facet_cuda_is_capturing(stream, false))
        return facet_cuda_driver.cuMemAllocAsync(pointer, bytes, stream);
    return allocate_from_current(pointer, bytes, stream, false);
}

CUresult facet_cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    if (!pointer || !bytes || facet_cuda_is_capturing(stream, true))
        return facet_cuda_driver.cuMemAllocAsync_ptsz(pointer, bytes, stream);
    return allocate_from_current(pointer, bytes, stream, true);
}

CUresult facet_cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    if (!pointer || !bytes || facet_cuda_is_capturing(stream, false))
        return facet_cuda_driver.cuMemAllocFromPoolAsync(pointer, bytes, pool, stream);
    return allocate(pointer, bytes, pool, facet_cuda_stream_device(stream), stream, false);
}

CUresult facet_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    if (!pointer || !bytes || facet_cuda_is_capturing(stream, true))
        return facet_cuda_driver.cuMemAllocFromPoolAsync_ptsz(pointer, bytes, pool, stream);
    return allocate(pointer, bytes, pool, facet_cuda_stream_device(stream), stream, true);
}

void facet_cuda_pool_freed(const struct facet_ledger_entry *entry)
{
    struct pool *pool = (struct pool *)(uintptr_t)entry->owner;

    pthread_mutex_lock(&lock);
    pool->live--;
    pool->live_bytes -= entry->bytes;
    settle(pool, 0);
    if (pool->destroyed && !pool->live)
        forget(pool);
    pthread_mutex_unlock(&lock);
}

/* Where it could not be remembered, it is found again when something is allocated from it. */
CUresult facet_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    CUresult result = facet_cuda_driver.cuMemPoolCreate(pool, properties);

    if (result != CUDA_SUCCESS)
        return result;
    bool ours = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    pthread_mutex_lock(&lock);
    struct pool *made = add(*pool, ours ? (uint32_t)properties->location.id : 0, ours);
    pthread_mutex_unlock(&lock);
    if (made)
        return CUDA_SUCCESS;
    facet_cuda_driver.cuMemPoolDestroy(*pool);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Under the lock over the driver's call: a new pool may get the same handle right after. */
CUresult facet_cuMemPoolDestroy(CUmemoryPool handle)
{
    pthread_mutex_lock(&lock);
    CUresult result = facet_cuda_driver.cuMemPoolDestroy(handle);
    struct pool *pool = result == CUDA_SUCCESS ? find(handle) : NULL;
    if (pool) {
        pool->destroyed = true;
        if (pool->charged_here)
            settle(pool, 0);
        if (!pool->live)
            forget(pool);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult facet_cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    pthread_mutex_lock(&lock);
    CUresult result = facet_cuda_driver.cuMemPoolTrimTo(handle, keep);
    struct pool *pool = find(handle);
    if (pool && pool->charged_here)
        settle(pool, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

void facet_cuda_pools_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void facet_cuda_pools_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* The parent's pools are not the child's. */
void facet_cuda_pools_forked(void)
{
    while (pools)
        forget(pools);
    pthread_mutex_unlock(&lock);
}
