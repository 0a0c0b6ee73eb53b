/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the amounts of memory that a program sees. Never: raises them above the driver's answer. */
#include "base/integer.h"
#include "charge.h"
#include "graph.h"
#include "interpose/kit/memory/pool.h"

/*
 * Limits the driver's answer to the quota. Other tenants use the device too, so the free amount is the smaller of both;
 * but a vGPU with oversubscription makes others give way. `is_exact`: the free amount is the device's exact figure.
 * Neither figure shows that a tenant died whose memory was swapped out.
 */
static void narrow_to_quota(struct facet_tenant *tenant, bool is_exact, uint64_t *is_free, uint64_t *total)
{
    bool gives_way = atomic_load_explicit(&tenant->policy->oversubscribed, memory_order_relaxed);

    *total = facet_min_u64(*total, facet_tenant_memory_limit(tenant));
    if (gives_way || !is_exact)
        *is_free = facet_min_u64(gives_way ? *total : *is_free, facet_tenant_memory_free_now(tenant));
    else
        *is_free = facet_min_u64(*is_free, facet_tenant_memory_free_beside(tenant, *is_free));
}

static struct facet_tenant *settled_tenant(void)
{
    uint32_t device = facet_cuda_current_device();

    if (facet_pools_any())
        facet_pools_settle(device);
    if (facet_graphs_ever_used())
        facet_graphs_settle(device);
    return facet_cuda_tenant(device);
}

CUresult facet_cuMemGetInfo_v2(size_t *is_free, size_t *total)
{
    size_t driver_free = 0, driver_total = 0;
    CUresult result = facet_cuda_driver.cuMemGetInfo_v2(&driver_free, &driver_total);
    struct facet_tenant *tenant = result == CUDA_SUCCESS ? settled_tenant() : NULL;

    if (tenant)
        narrow_to_quota(tenant, true, &driver_free, &driver_total);
    if (result == CUDA_SUCCESS && is_free)
        *is_free = driver_free;
    if (result == CUDA_SUCCESS && total)
        *total = driver_total;
    return result;
}

/* The 32-bit form: a larger amount is reported as the largest that fits, as the driver does. */
CUresult facet_cuMemGetInfo(unsigned *is_free, unsigned *total)
{
    uint64_t quota_free = UINT32_MAX, quota_total = UINT32_MAX;
    CUresult result = facet_cuda_driver.cuMemGetInfo(is_free, total);
    struct facet_tenant *tenant = result == CUDA_SUCCESS ? settled_tenant() : NULL;

    if (tenant)
        narrow_to_quota(tenant, false, &quota_free, &quota_total);
    if (tenant && is_free)
        *is_free = (unsigned)facet_min_u64(*is_free, quota_free);
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
