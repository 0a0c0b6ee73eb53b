/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: HIP's pools, over interpose/kit/memory/pool.h. Never: charges a pool for an allocation that is captured. */
#include "interpose/kit/memory/pool.h"

#include "charge.h"
#include "graph.h"
#include "interpose/hip/initialize.h"

struct allocation {
    struct facet_pool_allocation common; /* first: the kit gets a pointer to it */
    void **pointer;
    size_t bytes;
    hipMemPool_t pool;
    hipStream_t stream;
};

static int allocate_from_pool(struct facet_pool_allocation *common)
{
    struct allocation *allocation = (struct allocation *)common;
    hipError_t result = facet_hip_driver.hipMallocFromPoolAsync(allocation->pointer, allocation->bytes,
                                                                allocation->pool, allocation->stream);

    common->pointer = result == hipSuccess ? (uintptr_t)*allocation->pointer : 0;
    return result;
}

/* Waits for the stream, because only then the trim releases the pool's growth. */
static void undo_allocation(struct facet_pool_allocation *common)
{
    struct allocation *allocation = (struct allocation *)common;

    facet_hip_driver.hipFreeAsync(*allocation->pointer, allocation->stream);
    facet_hip_driver.hipDeviceSynchronize();
    facet_hip_driver.hipMemPoolTrimTo(allocation->pool, 0);
}

static hipError_t refuse_from_pool(const struct allocation *allocation, uint32_t device)
{
    const struct facet_memory_charge charge = {.tenant = allocation->common.refused_by, .device = device};
    struct allocation probe_allocation = *allocation;
    void *probe = NULL;

    probe_allocation.pointer = &probe;
    probe_allocation.bytes = facet_hip_probe_begin(device, allocation->bytes);
    hipError_t runtime_result = allocate_from_pool(&probe_allocation.common);
    if (runtime_result == hipSuccess)
        undo_allocation(&probe_allocation.common);
    return facet_hip_probe_end(&charge, runtime_result);
}

static hipError_t take_from_pool(void **pointer, size_t bytes, hipMemPool_t pool, uint32_t device, hipStream_t stream)
{
    struct allocation allocation = {.common = {.allocate = allocate_from_pool,
                                               .undo = undo_allocation,
                                               .quota_result = hipErrorOutOfMemory,
                                               .no_vgpu_result = hipErrorNotInitialized},
                                    .pointer = pointer,
                                    .bytes = bytes,
                                    .pool = pool,
                                    .stream = stream};

    hipError_t result = facet_pool_allocate(pool, device, bytes, &allocation.common);
    if (result == hipErrorOutOfMemory && facet_graphs_ever_used()) {
        facet_graphs_trim(device); /* without holding the pools' lock */
        result = facet_pool_allocate(pool, device, bytes, &allocation.common);
    }
    return allocation.common.refused_by ? refuse_from_pool(&allocation, device) : result;
}

/* Names the runtime's current pool explicitly, so that the pool that grows is the one that was charged. */
hipError_t facet_hipMallocAsync(void **pointer, size_t bytes, hipStream_t stream)
{
    uint32_t device = facet_hip_stream_device(stream);
    struct facet_graph_needs hold;
    hipMemPool_t pool = NULL;

    if (!pointer || !bytes)
        return facet_hip_driver.hipMallocAsync(pointer, bytes, stream);
    if (facet_hip_is_capturing(stream)) {
        hipError_t held = facet_hip_graph_adds(device, bytes, &hold);
        return held == hipSuccess
                   ? facet_hip_graph_launched(&hold, facet_hip_driver.hipMallocAsync(pointer, bytes, stream))
                   : held;
    }
    hipError_t result = facet_hip_initialize_device(device);
    if (result == hipSuccess)
        result = facet_hip_unhooked.hipDeviceGetMemPool(&pool, (int)device);
    return result == hipSuccess ? take_from_pool(pointer, bytes, pool, device, stream) : result;
}

/* The device of a pool that this process did not make: the device whose default or current pool it is. */
static uint32_t device_of(hipMemPool_t pool, uint32_t fallback)
{
    hipMemPool_t found = NULL;

    for (uint32_t i = 0; i < facet_hip_process.count; i++) {
        if (facet_hip_driver.hipDeviceGetDefaultMemPool(&found, (int)i) == hipSuccess && found == pool)
            return i;
        if (facet_hip_unhooked.hipDeviceGetMemPool(&found, (int)i) == hipSuccess && found == pool)
            return i;
    }
    return fallback;
}

hipError_t facet_hipMallocFromPoolAsync(void **pointer, size_t bytes, hipMemPool_t pool, hipStream_t stream)
{
    struct facet_graph_needs hold;

    if (!pointer || !bytes || !pool)
        return facet_hip_driver.hipMallocFromPoolAsync(pointer, bytes, pool, stream);
    uint32_t device = device_of(pool, facet_hip_stream_device(stream));
    if (facet_hip_is_capturing(stream)) {
        hipError_t held = facet_hip_graph_adds(device, bytes, &hold);
        return held == hipSuccess ? facet_hip_graph_launched(
                                        &hold, facet_hip_driver.hipMallocFromPoolAsync(pointer, bytes, pool, stream))
                                  : held;
    }
    hipError_t result = facet_hip_initialize_device(device);
    return result == hipSuccess ? take_from_pool(pointer, bytes, pool, device, stream) : result;
}

static enum facet_pool_place place_of(const hipMemPoolProps *properties, uint32_t *ret_device)
{
    bool is_on_device =
        properties && properties->location.type == hipMemLocationTypeDevice && properties->location.id >= 0;

    *ret_device = is_on_device ? (uint32_t)properties->location.id : 0;
    if (properties && properties->allocType == hipMemAllocationTypeManaged)
        return FACET_POOL_MANAGED;
    return is_on_device ? FACET_POOL_ON_DEVICE : FACET_POOL_ON_HOST;
}

hipError_t facet_hipMemPoolCreate(hipMemPool_t *pool, const hipMemPoolProps *properties)
{
    uint32_t device;
    enum facet_pool_place place = place_of(properties, &device);
    hipError_t result = place == FACET_POOL_ON_DEVICE ? facet_hip_initialize_device(device) : hipSuccess;

    if (result == hipSuccess)
        result = facet_hip_driver.hipMemPoolCreate(pool, properties);
    if (result != hipSuccess || facet_pool_made(*pool, device, place))
        return result;
    facet_hip_driver.hipMemPoolDestroy(*pool);
    return hipErrorOutOfMemory;
}

static int destroy_pool(void *pool)
{
    return facet_hip_driver.hipMemPoolDestroy(pool);
}

hipError_t facet_hipMemPoolDestroy(hipMemPool_t pool)
{
    return facet_pool_destroy(pool, destroy_pool);
}

hipError_t facet_hipMemPoolExportToShareableHandle(void *shared, hipMemPool_t pool, hipMemAllocationHandleType type,
                                                   unsigned flags)
{
    hipError_t result = facet_hip_driver.hipMemPoolExportToShareableHandle(shared, pool, type, flags);

    if (result == hipSuccess)
        facet_pool_exported(pool);
    return result;
}

static int trim_pool(void *pool, uint64_t keep)
{
    return facet_hip_driver.hipMemPoolTrimTo(pool, keep);
}

hipError_t facet_hipMemPoolTrimTo(hipMemPool_t pool, size_t keep)
{
    return facet_pool_trim(pool, keep, trim_pool);
}
