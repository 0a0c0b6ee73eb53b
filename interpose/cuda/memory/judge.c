/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the answer to a refused allocation. Never: is asked before the quota has refused. */
#include "judge.h"

CUresult facet_cuda_refuse(uint32_t device, CUresult judged)
{
    struct facet_tenant *tenant = facet_cuda_tenant(device);

    if (judged != CUDA_SUCCESS && judged != CUDA_ERROR_OUT_OF_MEMORY)
        return judged;
    if (tenant)
        facet_tenant_deny(tenant);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult facet_cuda_too_much(uint32_t device, uint64_t bytes, size_t *ret_bytes)
{
    size_t total = 0;
    CUresult result = facet_cuda_driver.cuDeviceTotalMem_v2(&total, (CUdevice)device);

    if (result == CUDA_SUCCESS)
        *ret_bytes = facet_memory_too_much(bytes, total);
    return result;
}
