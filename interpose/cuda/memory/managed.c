/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: cuMemAllocManaged (interpose/kit/memory/managed.h). Never: checks where its pages are. */
#include "interpose/kit/memory/managed.h"

#include "charge.h"
#include "refusal.h"

/* Waits for frozen memory before anything is charged. */
static enum facet_memory_refusal take_managed(uint64_t bytes, struct facet_memory_charge *ret_refusing)
{
    if (!facet_cuda_tenant(0))
        return FACET_MEMORY_NO_VGPU;
    for (uint32_t i = 0; i < facet_cuda_process.count; i++)
        facet_tenant_thaw(facet_cuda_tenant(i));
    facet_pending_enter(FACET_PENDING_ANY_DEVICE, bytes);
    enum facet_memory_refusal refusal = facet_managed_try(bytes, ret_refusing);
    if (refusal != FACET_MEMORY_CHARGED)
        facet_pending_leave();
    return refusal;
}

static CUresult keep_managed(const struct facet_cuda_charge *charge, CUresult result, CUdeviceptr pointer)
{
    if (result == CUDA_SUCCESS && facet_cuda_charge_keep(charge, FACET_CUDA_MANAGED, pointer))
        return CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        facet_cuda_driver.cuMemFree_v2(pointer);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    facet_managed_release(charge->bytes);
    return result;
}

/* A driver may allocate more managed memory than a device has: then only the quota refuses. */
static CUresult refuse_managed(uint32_t device, const CUdeviceptr *pointer, size_t bytes, unsigned flags)
{
    CUdeviceptr probe = 0;
    size_t beyond_bytes;
    CUresult driver_result = facet_cuda_beyond_device(device, bytes, &beyond_bytes);

    if (driver_result == CUDA_SUCCESS)
        driver_result = facet_cuda_driver.cuMemAllocManaged(pointer ? &probe : NULL, beyond_bytes, flags);
    if (probe)
        facet_cuda_driver.cuMemFree_v2(probe);
    return facet_cuda_refuse(device, driver_result);
}

/* The driver may keep the memory on any device, in steps that it chooses. */
CUresult facet_cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags)
{
    struct facet_cuda_charge charge = {.bytes = facet_cuda_granted(bytes), .device = facet_cuda_current_device()};
    struct facet_memory_charge refusing;
    enum facet_memory_refusal refusal = take_managed(charge.bytes, &refusing);

    if (refusal == FACET_MEMORY_OVER_QUOTA)
        return refuse_managed(refusing.device, pointer, bytes, flags);
    if (refusal != FACET_MEMORY_CHARGED)
        return CUDA_ERROR_NOT_INITIALIZED;
    facet_cuda_charge_set_owner(&charge);
    CUresult result = facet_cuda_driver.cuMemAllocManaged(pointer, bytes, flags);
    result = keep_managed(&charge, result, result == CUDA_SUCCESS ? *pointer : 0);
    facet_cuda_charge_end(&charge);
    return result;
}
