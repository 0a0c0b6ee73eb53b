/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: CUDA's virtual memory, over interpose/kit/memory/virtual.h. Calls that release memory declare it pending before
 * they take the lock. Never: charges memory that is not on a device of ours.
 */
#include "interpose/kit/memory/virtual.h"

#include "charge.h"
#include "interpose/cuda/swap/swap.h"
#include "refusal.h"

static CUresult refuse_virtual(const CUmemGenericAllocationHandle *handle, size_t bytes,
                               const CUmemAllocationProp *properties, unsigned long long flags)
{
    CUmemGenericAllocationHandle made = 0;
    uint32_t device = (uint32_t)properties->location.id;
    size_t beyond_bytes;
    CUresult driver_result = facet_cuda_beyond_device(device, bytes, &beyond_bytes);

    if (driver_result == CUDA_SUCCESS)
        driver_result = facet_cuda_driver.cuMemCreate(handle ? &made : NULL, beyond_bytes, properties, flags);
    if (driver_result == CUDA_SUCCESS)
        facet_cuda_driver.cuMemRelease(made);
    return facet_cuda_refuse(device, driver_result);
}

static CUresult create_virtual(CUmemGenericAllocationHandle *handle, size_t bytes,
                               const CUmemAllocationProp *properties, unsigned long long flags)
{
    struct facet_cuda_charge charge;
    CUresult result = facet_cuda_charge_begin((uint32_t)properties->location.id, bytes, &charge);

    if (result != CUDA_SUCCESS)
        return result == CUDA_ERROR_OUT_OF_MEMORY ? refuse_virtual(handle, bytes, properties, flags) : result;
    result = facet_cuda_driver.cuMemCreate(handle, bytes, properties, flags);
    if (result == CUDA_SUCCESS &&
        !facet_virtual_made(
            &(struct facet_memory_charge){.tenant = charge.tenant, .bytes = charge.bytes, .device = charge.device},
            *handle)) {
        facet_cuda_driver.cuMemRelease(*handle);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS)
        facet_cuda_charge_drop(&charge);
    facet_pending_leave();
    return result;
}

/* The id is meaningful only for a device. The driver refuses other arguments itself. */
CUresult facet_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                           unsigned long long flags)
{
    if (!properties || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->location.id < 0 ||
        (uint32_t)properties->location.id >= facet_cuda_process.count)
        return facet_cuda_driver.cuMemCreate(handle, bytes, properties, flags);
    return create_virtual(handle, bytes, properties, flags);
}

CUresult facet_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    facet_pending_enter(FACET_PENDING_ANY_DEVICE, 0);
    facet_virtual_lock();
    CUresult result = facet_cuda_driver.cuMemRelease(handle);
    if (result == CUDA_SUCCESS)
        facet_virtual_released(handle);
    facet_virtual_unlock();
    facet_pending_leave();
    return result;
}

CUresult facet_cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                        unsigned long long flags)
{
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    facet_virtual_lock();
    if (facet_virtual_reserve_mapping())
        result = facet_cuda_driver.cuMemMap(pointer, bytes, offset, handle, flags);
    if (result == CUDA_SUCCESS)
        facet_virtual_mapped(pointer, bytes, handle);
    facet_virtual_unlock();
    return result;
}

CUresult facet_cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
    if (facet_cuda_swap_has(pointer))
        return CUDA_ERROR_INVALID_VALUE;
    facet_pending_enter(FACET_PENDING_ANY_DEVICE, 0);
    facet_virtual_lock();
    CUresult result = facet_cuda_driver.cuMemUnmap(pointer, bytes);
    if (result == CUDA_SUCCESS)
        facet_virtual_unmapped(pointer, bytes);
    facet_virtual_unlock();
    facet_pending_leave();
    return result;
}

CUresult facet_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    if (facet_cuda_swap_has((uintptr_t)address))
        return CUDA_ERROR_INVALID_VALUE;
    facet_virtual_lock();
    CUresult result = facet_cuda_driver.cuMemRetainAllocationHandle(handle, address);
    if (result == CUDA_SUCCESS)
        facet_virtual_retained((uintptr_t)address, *handle);
    facet_virtual_unlock();
    return result;
}

CUresult facet_cuMemExportToShareableHandle(void *shared, CUmemGenericAllocationHandle handle,
                                            CUmemAllocationHandleType type, unsigned long long flags)
{
    facet_virtual_lock();
    CUresult result = facet_cuda_driver.cuMemExportToShareableHandle(shared, handle, type, flags);
    if (result == CUDA_SUCCESS)
        facet_virtual_exported(handle);
    facet_virtual_unlock();
    return result;
}

CUresult facet_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
                                              CUmemAllocationHandleType type)
{
    facet_virtual_lock();
    CUresult result = facet_cuda_driver.cuMemImportFromShareableHandle(handle, shared, type);
    if (result == CUDA_SUCCESS)
        facet_virtual_imported(*handle);
    facet_virtual_unlock();
    return result;
}
