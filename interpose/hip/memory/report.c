/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the amounts of memory that a program sees. Never: raises them above the runtime's answer. */
#include "base/integer.h"
#include "charge.h"
#include "interpose/kit/memory/graph.h"
#include "interpose/kit/memory/pool.h"

/*
 * Other tenants use the device too, so the free amount is the smaller of the device's and the quota's. Dead processes
 * are looked for at each call: runtimes before 6 subtract only this process's memory, so their answer does not change
 * when another process dies.
 */
hipError_t facet_hipMemGetInfo(size_t *free_bytes, size_t *total)
{
    hipError_t result = facet_hip_driver.hipMemGetInfo(free_bytes, total);
    uint32_t device = facet_hip_current_device();
    struct facet_tenant *tenant = result == hipSuccess ? facet_hip_tenant(device) : NULL;

    if (!tenant)
        return result;
    if (facet_pools_any())
        facet_pools_settle(device);
    if (facet_graphs_ever_used())
        facet_graphs_settle(device);
    if (total)
        *total = facet_min_u64(*total, facet_tenant_memory_limit(tenant));
    if (free_bytes)
        *free_bytes = facet_min_u64(*free_bytes, facet_tenant_memory_free_now(tenant));
    return result;
}

/* Limits a runtime's answer to the vGPU's quota; unchanged when there is no vGPU. */
static uint64_t within_quota(int device, uint64_t bytes)
{
    struct facet_tenant *tenant = device >= 0 ? facet_hip_tenant((uint32_t)device) : NULL;

    return tenant ? facet_min_u64(bytes, facet_tenant_memory_limit(tenant)) : bytes;
}

hipError_t facet_hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    hipError_t result = facet_hip_driver.hipDeviceTotalMem(bytes, device);

    if (result == hipSuccess)
        *bytes = within_quota(device, *bytes);
    return result;
}

/* The value is an int, so the runtime reports the low 32 bits. Constants are kept in the device's memory. */
hipError_t facet_hipDeviceGetAttribute(int *value, int attribute, int device)
{
    hipError_t result = facet_hip_driver.hipDeviceGetAttribute(value, attribute, device);

    if (result == hipSuccess &&
        (attribute == hipDeviceAttributeTotalGlobalMem || attribute == hipDeviceAttributeTotalConstantMemory))
        *value = (int)within_quota(device, (uint32_t)*value);
    return result;
}

hipError_t facet_hipGetDeviceProperties(hipDeviceProp_tR0000 *properties, int device)
{
    hipError_t result = facet_hip_driver.hipGetDeviceProperties(properties, device);

    if (result == hipSuccess) {
        properties->totalGlobalMem = within_quota(device, properties->totalGlobalMem);
        properties->totalConstMem = within_quota(device, properties->totalConstMem);
    }
    return result;
}

hipError_t facet_hipGetDevicePropertiesR0000(hipDeviceProp_tR0000 *properties, int device)
{
    hipError_t result = facet_hip_driver.hipGetDevicePropertiesR0000(properties, device);

    if (result == hipSuccess) {
        properties->totalGlobalMem = within_quota(device, properties->totalGlobalMem);
        properties->totalConstMem = within_quota(device, properties->totalConstMem);
    }
    return result;
}

hipError_t facet_hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *properties, int device)
{
    hipError_t result = facet_hip_driver.hipGetDevicePropertiesR0600(properties, device);

    if (result == hipSuccess) {
        properties->totalGlobalMem = within_quota(device, properties->totalGlobalMem);
        properties->totalConstMem = within_quota(device, properties->totalConstMem);
    }
    return result;
}
