/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: CUDA's pools, over interpose/kit/memory/pool.h. Never: charges an allocation that is captured: the resulting
 * graph is charged when it holds memory.
 */
#include "interpose/kit/memory/pool.h"

#include "graph.h"
#include "judge.h"

struct taking {
    struct facet_pool_taking common; /* first: the kit gets a pointer to it */
    CUdeviceptr *pointer;
    size_t bytes;
    CUmemoryPool pool;
    CUstream stream;
    bool per_thread;
};

static int call_driver(struct facet_pool_taking *common)
{
    struct taking *taking = (struct taking *)common;
    CUresult (*driver)(CUdeviceptr *, size_t, CUmemoryPool, CUstream) =
        taking->per_thread ? facet_cuda_driver.cuMemAllocFromPoolAsync_ptsz : facet_cuda_driver.cuMemAllocFromPoolAsync;
    CUresult result = driver(taking->pointer, taking->bytes, taking->pool, taking->stream);

    common->pointer = result == CUDA_SUCCESS ? *taking->pointer : 0;
    return (int)result;
}

/* Waits for the stream, because only then the trim releases the pool's growth. */
static void undo_taking(struct facet_pool_taking *common)
{
    struct taking *taking = (struct taking *)common;

    if (taking->per_thread)
        facet_cuda_driver.cuMemFreeAsync_ptsz(*taking->pointer, taking->stream);
    else
        facet_cuda_driver.cuMemFreeAsync(*taking->pointer, taking->stream);
    facet_cuda_driver.cuCtxSynchronize();
    facet_cuda_driver.cuMemPoolTrimTo(taking->pool, 0);
}

static CUresult take_from_pool(struct taking *taking, uint32_t device)
{
    facet_pending_enter(FACET_PENDING_ANY_DEVICE, facet_memory_round(taking->bytes, FACET_CUDA_POOL_GROWTH));
    int result = facet_pool_allocate(taking->pool, device, taking->bytes, &taking->common);
    facet_pending_leave();
    return (CUresult)result;
}

static CUresult refuse_from_pool(const struct taking *taking, uint32_t device)
{
    CUdeviceptr made = 0;
    size_t much;
    struct taking asked = *taking;
    CUresult judged = facet_cuda_too_much(device, asked.bytes, &much);

    asked.pointer = &made;
    asked.bytes = much;
    if (judged == CUDA_SUCCESS)
        judged = (CUresult)call_driver(&asked.common);
    if (judged == CUDA_SUCCESS)
        undo_taking(&asked.common);
    if (judged != CUDA_SUCCESS && judged != CUDA_ERROR_OUT_OF_MEMORY)
        return judged;
    facet_tenant_deny(taking->common.refused_by);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult allocate_from_pool(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, uint32_t device,
                                   CUstream stream, bool per_thread)
{
    struct taking taking = {.common = {.allocate = call_driver,
                                       .undo = undo_taking,
                                       .out = CUDA_ERROR_OUT_OF_MEMORY,
                                       .no_vgpu = CUDA_ERROR_NOT_INITIALIZED},
                            .pointer = pointer,
                            .bytes = bytes,
                            .pool = pool,
                            .stream = stream,
                            .per_thread = per_thread};
    CUresult result = take_from_pool(&taking, device);

    if (result == CUDA_ERROR_OUT_OF_MEMORY && facet_graphs_were()) {
        facet_graphs_let_go(device); /* without holding the pools' lock */
        result = take_from_pool(&taking, device);
    }
    return taking.common.refused_by ? refuse_from_pool(&taking, device) : result;
}

/* Names the driver's current pool explicitly, so that the pool that grows is the one that was charged. */
static CUresult allocate_from_current(CUdeviceptr *pointer, size_t bytes, CUstream stream, bool per_thread)
{
    uint32_t device = facet_cuda_stream_device(stream);
    CUmemoryPool handle = NULL;
    CUresult result = facet_cuda_plain.cuDeviceGetMemPool(&handle, (CUdevice)device);

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
 * Managed memory is charged wherever the pool places it, as that of cuMemAllocManaged is. Other host memory counts
 * against no quota.
 */
static enum facet_pool_place place_of(const CUmemLocation *location, CUmemAllocationType type, uint32_t *ret_device)
{
    bool there = location->type == CU_MEM_LOCATION_TYPE_DEVICE;

    *ret_device = there ? (uint32_t)location->id : 0;
    if (type == CU_MEM_ALLOCATION_TYPE_MANAGED)
        return FACET_POOL_MANAGED;
    return there ? FACET_POOL_ON_DEVICE : FACET_POOL_ELSEWHERE;
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

/* Records the place of a pool that the driver has for it: the pool itself cannot be asked later. */
static CUresult meet_pool(CUresult result, CUmemoryPool const *pool, const CUmemLocation *location,
                          CUmemAllocationType type)
{
    uint32_t device;

    if (result != CUDA_SUCCESS)
        return result;
    enum facet_pool_place place = place_of(location, type, &device);
    return facet_pool_met(*pool, device, place) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult facet_cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    return meet_pool(facet_cuda_driver.cuMemGetDefaultMemPool(pool, location, type), pool, location, type);
}

CUresult facet_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    return meet_pool(facet_cuda_driver.cuMemGetMemPool(pool, location, type), pool, location, type);
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
