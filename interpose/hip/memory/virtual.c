/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: HIP's virtual memory, over interpose/kit/memory/virtual.h. Never: charges memory that is not on a device of
 * ours.
 */
#include "interpose/kit/memory/virtual.h"

#include "charge.h"
#include "interpose/hip/initialize.h"

static hipError_t refuse_virtual(const struct facet_memory_charge *charge,
                                 const hipMemGenericAllocationHandle_t *handle, size_t bytes,
                                 const hipMemAllocationProp *properties, unsigned long long flags)
{
    hipMemGenericAllocationHandle_t probe = NULL;
    size_t beyond_bytes = facet_hip_probe_begin(charge->device, bytes);
    hipError_t runtime_result = facet_hip_driver.hipMemCreate(handle ? &probe : NULL, beyond_bytes, properties, flags);

    if (runtime_result == hipSuccess)
        facet_hip_driver.hipMemRelease(probe);
    return facet_hip_probe_end(charge, runtime_result);
}

static hipError_t create_virtual(hipMemGenericAllocationHandle_t *handle, size_t bytes,
                                 const hipMemAllocationProp *properties, unsigned long long flags)
{
    struct facet_memory_charge charge = {0};
    uint32_t device = (uint32_t)properties->location.id;
    hipError_t result = facet_hip_initialize_device(device);

    if (result == hipSuccess)
        result = facet_hip_refusal(facet_charge_try(device, bytes, &charge));
    if (result != hipSuccess)
        return charge.refused ? refuse_virtual(&charge, handle, bytes, properties, flags) : result;
    result = facet_hip_driver.hipMemCreate(handle, bytes, properties, flags);
    if (result == hipSuccess) {
        if (facet_virtual_made(&charge, (uintptr_t)*handle))
            return hipSuccess;
        facet_hip_driver.hipMemRelease(*handle);
        result = hipErrorOutOfMemory;
    }
    facet_charge_drop(&charge);
    return result;
}

/* The id is meaningful only for a device. The runtime refuses other arguments itself. */
hipError_t facet_hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t bytes,
                              const hipMemAllocationProp *properties, unsigned long long flags)
{
    if (!properties || properties->location.type != hipMemLocationTypeDevice || properties->location.id < 0 ||
        !facet_hip_tenant((uint32_t)properties->location.id))
        return facet_hip_driver.hipMemCreate(handle, bytes, properties, flags);
    return create_virtual(handle, bytes, properties, flags);
}

hipError_t facet_hipMemRelease(hipMemGenericAllocationHandle_t handle)
{
    facet_virtual_lock();
    hipError_t result = facet_hip_driver.hipMemRelease(handle);
    if (result == hipSuccess)
        facet_virtual_released((uintptr_t)handle);
    facet_virtual_unlock();
    return result;
}

hipError_t facet_hipMemMap(void *pointer, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t handle,
                           unsigned long long flags)
{
    hipError_t result = hipErrorOutOfMemory;

    facet_virtual_lock();
    if (facet_virtual_reserve_mapping())
        result = facet_hip_driver.hipMemMap(pointer, bytes, offset, handle, flags);
    if (result == hipSuccess)
        facet_virtual_mapped((uintptr_t)pointer, bytes, (uintptr_t)handle);
    facet_virtual_unlock();
    return result;
}

hipError_t facet_hipMemUnmap(void *pointer, size_t bytes)
{
    facet_virtual_lock();
    hipError_t result = facet_hip_driver.hipMemUnmap(pointer, bytes);
    if (result == hipSuccess)
        facet_virtual_unmapped((uintptr_t)pointer, bytes);
    facet_virtual_unlock();
    return result;
}

hipError_t facet_hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle, void *address)
{
    facet_virtual_lock();
    hipError_t result = facet_hip_driver.hipMemRetainAllocationHandle(handle, address);
    if (result == hipSuccess)
        facet_virtual_retained((uintptr_t)address, (uintptr_t)*handle);
    facet_virtual_unlock();
    return result;
}

hipError_t facet_hipMemExportToShareableHandle(void *shared, hipMemGenericAllocationHandle_t handle,
                                               hipMemAllocationHandleType type, unsigned long long flags)
{
    facet_virtual_lock();
    hipError_t result = facet_hip_driver.hipMemExportToShareableHandle(shared, handle, type, flags);
    if (result == hipSuccess)
        facet_virtual_exported((uintptr_t)handle);
    facet_virtual_unlock();
    return result;
}

hipError_t facet_hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *handle, void *shared,
                                                 hipMemAllocationHandleType type)
{
    facet_virtual_lock();
    hipError_t result = facet_hip_driver.hipMemImportFromShareableHandle(handle, shared, type);
    if (result == hipSuccess)
        facet_virtual_imported((uintptr_t)*handle);
    facet_virtual_unlock();
    return result;
}
