/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the answer to a refused allocation. Never: is asked before the quota has refused. */
#include "refusal.h"

CUresult facet_cuda_refuse(uint32_t device, CUresult driver_result)
{
    struct facet_tenant *tenant = facet_cuda_tenant(device);

    if (driver_result != CUDA_SUCCESS && driver_result != CUDA_ERROR_OUT_OF_MEMORY)
        return driver_result;
    if (tenant)
        facet_tenant_deny(tenant);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult facet_cuda_beyond_device(uint32_t device, uint64_t bytes, size_t *ret_bytes)
{
    size_t total = 0;
    CUresult result = facet_cuda_driver.cuDeviceTotalMem_v2(&total, (CUdevice)device);

    if (result == CUDA_SUCCESS)
        *ret_bytes = facet_memory_beyond_device(bytes, total);
    return result;
}
