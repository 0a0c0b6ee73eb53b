/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the memory figures of a tenant: its quota, the limiter's count, and the free memory, which is the smaller of
 * what the quota and what the device have left.
 * Never: reports more free memory than the device has.
 */
#include "hooks.h"
#include "vgpu.h"

struct amounts {
    unsigned long long total, used, free;
};

/* NVML_ERROR_GPU_IS_LOST once the vGPU was destroyed while the tenant used it. */
static nvmlReturn_t limit_to_vgpu(const struct facet_nvml_vgpu *vgpu, struct amounts device,
                                  struct amounts *ret_amounts)
{
    uint64_t limit = atomic_load_explicit(&vgpu->policy->memory_limit_bytes, memory_order_relaxed);
    uint64_t used = facet_nvml_memory(vgpu);

    if (atomic_load_explicit(&vgpu->policy->retired, memory_order_relaxed))
        return NVML_ERROR_GPU_IS_LOST;

    uint64_t total = limit < device.total ? limit : device.total;
    uint64_t left = used < total ? total - used : 0;
    *ret_amounts = (struct amounts){
        .total = total, .used = used < total ? used : total, .free = left < device.free ? left : device.free};
    return NVML_SUCCESS;
}

nvmlReturn_t facet_nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlReturn_t result = facet_nvml_library.nvmlDeviceGetMemoryInfo(device, memory);
    const struct facet_nvml_vgpu *vgpu = facet_nvml_vgpu(device);
    struct amounts amounts;

    if (result != NVML_SUCCESS || !vgpu)
        return result;
    result = limit_to_vgpu(vgpu, (struct amounts){memory->total, memory->used, memory->free}, &amounts);
    if (result == NVML_SUCCESS)
        *memory = (nvmlMemory_t){.total = amounts.total, .used = amounts.used, .free = amounts.free};
    return result;
}

/*
 * The driver's own memory does not count against the quota, so the reserved amount is 0. A newer, unknown form of the
 * struct cannot be corrected, so it is refused.
 */
nvmlReturn_t facet_nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    nvmlReturn_t result = facet_nvml_library.nvmlDeviceGetMemoryInfo_v2(device, memory);
    const struct facet_nvml_vgpu *vgpu = facet_nvml_vgpu(device);
    struct amounts amounts;

    if (result != NVML_SUCCESS || !vgpu)
        return result;
    if (memory->version != VENDOR_NVML_VERSION(nvmlMemory_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    result = limit_to_vgpu(vgpu, (struct amounts){memory->total, memory->used, memory->free}, &amounts);
    if (result != NVML_SUCCESS)
        return result;
    memory->total = amounts.total;
    memory->reserved = 0;
    memory->used = amounts.used;
    memory->free = amounts.free;
    return NVML_SUCCESS;
}
