/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: CUDA's implementation of the calls that interpose/kit/memory needs. Never: charges anything. */
#include "charge.h"

#include "vendor/cuda/graph_memory.h"

static struct facet_ledger *process_ledger(void)
{
    return facet_cuda_process.ledger;
}

static uint32_t count_devices(void)
{
    return facet_cuda_process.count;
}

static uint64_t pool_attribute(void *pool, CUmemPool_attribute attribute)
{
    uint64_t value = 0;

    return facet_cuda_unhooked.cuMemPoolGetAttribute(pool, attribute, &value) == CUDA_SUCCESS ? value : 0;
}

static uint64_t pool_held(void *pool)
{
    return pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

static uint64_t pool_used(void *pool)
{
    return pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
}

static void pool_trim(void *pool)
{
    facet_cuda_driver.cuMemPoolTrimTo(pool, 0);
}

/* Finds the device whose default or current pool this is. */
static uint32_t pool_device(void *pool, uint32_t fallback)
{
    CUmemoryPool found = NULL;

    for (uint32_t i = 0; i < facet_cuda_process.count; i++) {
        if (facet_cuda_unhooked.cuDeviceGetDefaultMemPool(&found, (CUdevice)i) == CUDA_SUCCESS && found == pool)
            return i;
        if (facet_cuda_unhooked.cuDeviceGetMemPool(&found, (CUdevice)i) == CUDA_SUCCESS && found == pool)
            return i;
    }
    return fallback;
}

static uint64_t graph_attribute(uint32_t device, CUgraphMem_attribute attribute)
{
    uint64_t value = 0;

    return facet_cuda_unhooked.cuDeviceGetGraphMemAttribute((CUdevice)device, attribute, &value) == CUDA_SUCCESS ? value
                                                                                                                 : 0;
}

static uint64_t graphs_held(uint32_t device)
{
    return graph_attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
}

static uint64_t graphs_used(uint32_t device)
{
    return graph_attribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
}

static void graphs_trim(uint32_t device)
{
    facet_cuda_driver.cuDeviceGraphMemTrim((CUdevice)device);
}

const struct facet_memory_driver facet_memory_driver = {
    .ledger = process_ledger,
    .tenant = facet_cuda_tenant,
    .devices = count_devices,
    .pool_held = pool_held,
    .pool_used = pool_used,
    .pool_trim = pool_trim,
    .pool_device = pool_device,
    .pool_growth = FACET_CUDA_POOL_GROWTH,
    .pool_step = UINT64_C(2) << 20,
    .graphs_held = graphs_held,
    .graphs_used = graphs_used,
    .graphs_trim = graphs_trim,
};
