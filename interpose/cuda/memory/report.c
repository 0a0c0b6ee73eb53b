/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the amounts of memory that a program sees. Never: raises them above the driver's answer. */
#include "base/integer.h"
#include "charge.h"
#include "graph.h"
#include "interpose/kit/memory/pool.h"

/*
 * Limits the driver's answer to the quota. Other tenants use the device too, so the free amount is the smaller of the
 * device's and the quota's. A vGPU with oversubscription makes others give way, so only its quota counts; dead
 * processes are looked for, because neither amount changes when a process dies whose memory was swapped out.
 * `is_exact`: the free amount is the device's exact figure.
 */
static void narrow_to_quota(struct facet_tenant *tenant, bool is_exact, uint64_t *free_bytes, uint64_t *total)
{
    bool others_give_way = atomic_load_explicit(&tenant->policy->oversubscribed, memory_order_relaxed);

    *total = facet_min_u64(*total, facet_tenant_memory_limit(tenant));
    if (others_give_way || !is_exact)
        *free_bytes = facet_min_u64(others_give_way ? *total : *free_bytes, facet_tenant_memory_free_now(tenant));
    else
        *free_bytes = facet_min_u64(*free_bytes, facet_tenant_memory_free_cached(tenant, *free_bytes));
}

/* The current device's tenant, after the charges of its pools and graphs were brought up to date. */
static struct facet_tenant *settled_tenant(void)
{
    uint32_t device = facet_cuda_current_device();

    if (facet_pools_any())
        facet_pools_settle(device);
    if (facet_graphs_ever_used())
        facet_graphs_settle(device);
    return facet_cuda_tenant(device);
}

CUresult facet_cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    size_t driver_free = 0, driver_total = 0;
    CUresult result = facet_cuda_driver.cuMemGetInfo_v2(&driver_free, &driver_total);
    struct facet_tenant *tenant = result == CUDA_SUCCESS ? settled_tenant() : NULL;

    if (tenant)
        narrow_to_quota(tenant, true, &driver_free, &driver_total);
    if (result == CUDA_SUCCESS && free_bytes)
        *free_bytes = driver_free;
    if (result == CUDA_SUCCESS && total)
        *total = driver_total;
    return result;
}

/* The 32-bit form: a larger amount is reported as the largest that fits, as the driver does. */
CUresult facet_cuMemGetInfo(unsigned *free_bytes, unsigned *total)
{
    uint64_t quota_free = UINT32_MAX, quota_total = UINT32_MAX;
    CUresult result = facet_cuda_driver.cuMemGetInfo(free_bytes, total);
    struct facet_tenant *tenant = result == CUDA_SUCCESS ? settled_tenant() : NULL;

    if (tenant)
        narrow_to_quota(tenant, false, &quota_free, &quota_total);
    if (tenant && free_bytes)
        *free_bytes = (unsigned)facet_min_u64(*free_bytes, quota_free);
    if (tenant && total)
        *total = (unsigned)facet_min_u64(*total, quota_total);
    return result;
}

CUresult facet_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    CUresult result = facet_cuda_driver.cuDeviceTotalMem_v2(bytes, device);
    struct facet_tenant *tenant = result == CUDA_SUCCESS ? facet_cuda_tenant((uint32_t)device) : NULL;

    if (tenant)
        *bytes = facet_min_u64(*bytes, facet_tenant_memory_limit(tenant));
    return result;
}

CUresult facet_cuDeviceTotalMem(unsigned *bytes, CUdevice device)
{
    CUresult result = facet_cuda_driver.cuDeviceTotalMem(bytes, device);
    struct facet_tenant *tenant = result == CUDA_SUCCESS ? facet_cuda_tenant((uint32_t)device) : NULL;

    if (tenant)
        *bytes = (unsigned)facet_min_u64(*bytes, facet_tenant_memory_limit(tenant));
    return result;
}
