/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: CUDA's pools, over interpose/kit/memory/pool.h. Never: charges an allocation that is captured: the resulting
 * graph is charged when it holds memory.
 */
#include "interpose/kit/memory/pool.h"

#include "graph.h"
#include "refusal.h"

struct allocation {
    struct facet_pool_allocation common; /* first: the kit gets a pointer to it */
    CUdeviceptr *pointer;
    size_t bytes;
    CUmemoryPool pool;
    CUstream stream;
    bool per_thread;
};

static int allocate_from_driver(struct facet_pool_allocation *common)
{
    struct allocation *allocation = (struct allocation *)common;
    CUresult (*driver)(CUdeviceptr *, size_t, CUmemoryPool, CUstream) =
        allocation->per_thread ? facet_cuda_driver.cuMemAllocFromPoolAsync_ptsz
                               : facet_cuda_driver.cuMemAllocFromPoolAsync;
    CUresult result = driver(allocation->pointer, allocation->bytes, allocation->pool, allocation->stream);

    common->pointer = result == CUDA_SUCCESS ? *allocation->pointer : 0;
    return (int)result;
}

/* Waits for the stream, because only then the trim releases the pool's growth. */
static void undo_allocation(struct facet_pool_allocation *common)
{
    struct allocation *allocation = (struct allocation *)common;

    if (allocation->per_thread)
        facet_cuda_driver.cuMemFreeAsync_ptsz(*allocation->pointer, allocation->stream);
    else
        facet_cuda_driver.cuMemFreeAsync(*allocation->pointer, allocation->stream);
    facet_cuda_driver.cuCtxSynchronize();
    facet_cuda_driver.cuMemPoolTrimTo(allocation->pool, 0);
}

static CUresult allocate_charged(struct allocation *allocation, uint32_t device)
{
    facet_pending_enter(FACET_PENDING_ANY_DEVICE, facet_memory_round(allocation->bytes, FACET_CUDA_POOL_GROWTH));
    int result = facet_pool_allocate(allocation->pool, device, allocation->bytes, &allocation->common);
    facet_pending_leave();
    return (CUresult)result;
}

static CUresult refuse_from_pool(const struct allocation *allocation, uint32_t device)
{
    CUdeviceptr probe = 0;
    size_t beyond_bytes;
    struct allocation probe_allocation = *allocation;
    CUresult driver_result = facet_cuda_beyond_device(device, probe_allocation.bytes, &beyond_bytes);

    probe_allocation.pointer = &probe;
    probe_allocation.bytes = beyond_bytes;
    if (driver_result == CUDA_SUCCESS)
        driver_result = (CUresult)allocate_from_driver(&probe_allocation.common);
    if (driver_result == CUDA_SUCCESS)
        undo_allocation(&probe_allocation.common);
    if (driver_result != CUDA_SUCCESS && driver_result != CUDA_ERROR_OUT_OF_MEMORY)
        return driver_result;
    facet_tenant_deny(allocation->common.refused_by);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult allocate_from_pool(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, uint32_t device,
                                   CUstream stream, bool per_thread)
{
    struct allocation allocation = {.common = {.allocate = allocate_from_driver,
                                               .undo = undo_allocation,
                                               .quota_result = CUDA_ERROR_OUT_OF_MEMORY,
                                               .no_vgpu_result = CUDA_ERROR_NOT_INITIALIZED},
                                    .pointer = pointer,
                                    .bytes = bytes,
                                    .pool = pool,
                                    .stream = stream,
                                    .per_thread = per_thread};
    CUresult result = allocate_charged(&allocation, device);

    if (result == CUDA_ERROR_OUT_OF_MEMORY && facet_graphs_ever_used()) {
        facet_graphs_trim(device); /* without holding the pools' lock */
        result = allocate_charged(&allocation, device);
    }
    return allocation.common.refused_by ? refuse_from_pool(&allocation, device) : result;
}

/* Names the driver's current pool explicitly, so that the pool that grows is the one that was charged. */
static CUresult allocate_from_current(CUdeviceptr *pointer, size_t bytes, CUstream stream, bool per_thread)
{
    uint32_t device = facet_cuda_stream_device(stream);
    CUmemoryPool handle = NULL;
    CUresult result = facet_cuda_unhooked.cuDeviceGetMemPool(&handle, (CUdevice)device);

    return result == CUDA_SUCCESS ? allocate_from_pool(pointer, bytes, handle, device, stream, per_thread) : result;
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
    return allocate_from_pool(pointer, bytes, pool, facet_cuda_stream_device(stream), stream, false);
}

CUresult facet_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    if (!pointer || !bytes || facet_cuda_is_capturing(stream, true))
        return facet_cuda_driver.cuMemAllocFromPoolAsync_ptsz(pointer, bytes, pool, stream);
    return allocate_from_pool(pointer, bytes, pool, facet_cuda_stream_device(stream), stream, true);
}

/*
 * Managed memory is charged wherever the pool places it, like that of cuMemAllocManaged. Other host memory counts
 * against no quota.
 */
static enum facet_pool_place place_of(const CUmemLocation *location, CUmemAllocationType type, uint32_t *ret_device)
{
    bool on_device = location->type == CU_MEM_LOCATION_TYPE_DEVICE;

    *ret_device = on_device ? (uint32_t)location->id : 0;
    if (type == CU_MEM_ALLOCATION_TYPE_MANAGED)
        return FACET_POOL_MANAGED;
    return on_device ? FACET_POOL_ON_DEVICE : FACET_POOL_ON_HOST;
}

/* A pool that cannot be recorded is destroyed again. */
CUresult facet_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    CUresult result = facet_cuda_driver.cuMemPoolCreate(pool, properties);

    if (result != CUDA_SUCCESS)
        return result;
    uint32_t device;
    enum facet_pool_place place = place_of(&properties->location, properties->allocType, &device);
    if (facet_pool_made(*pool, device, place))
        return CUDA_SUCCESS;
    facet_cuda_driver.cuMemPoolDestroy(*pool);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Records the place of a pool that the driver returned, because the driver cannot be asked for it later. */
static CUresult record_found_pool(CUresult result, CUmemoryPool const *pool, const CUmemLocation *location,
                                  CUmemAllocationType type)
{
    uint32_t device;

    if (result != CUDA_SUCCESS)
        return result;
    enum facet_pool_place place = place_of(location, type, &device);
    return facet_pool_found(*pool, device, place) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult facet_cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    return record_found_pool(facet_cuda_driver.cuMemGetDefaultMemPool(pool, location, type), pool, location, type);
}

CUresult facet_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    return record_found_pool(facet_cuda_driver.cuMemGetMemPool(pool, location, type), pool, location, type);
}

static int destroy_pool(void *pool)
{
    return (int)facet_cuda_driver.cuMemPoolDestroy(pool);
}

CUresult facet_cuMemPoolDestroy(CUmemoryPool pool)
{
    return (CUresult)facet_pool_destroy(pool, destroy_pool);
}

CUresult facet_cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool, CUmemAllocationHandleType type,
                                                unsigned long long flags)
{
    CUresult result = facet_cuda_driver.cuMemPoolExportToShareableHandle(handle, pool, type, flags);

    if (result == CUDA_SUCCESS)
        facet_pool_exported(pool);
    return result;
}

static int trim_pool(void *pool, uint64_t keep)
{
    return (int)facet_cuda_driver.cuMemPoolTrimTo(pool, keep);
}

CUresult facet_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    return (CUresult)facet_pool_trim(pool, keep, trim_pool);
}
