/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: charging, and HIP's implementation of the calls that the kit needs. Never: holds a lock. */
#include "charge.h"

#include "interpose/hip/initialize.h"
#include "interpose/kit/memory/pool.h"

/* The number of allocating hooks that this thread is in: older runtimes call their own exported functions. */
static _Thread_local unsigned call_depth;

hipError_t facet_hip_charge_take(uint32_t device, uint64_t bytes, struct facet_memory_charge *ret_charge)
{
    *ret_charge = (struct facet_memory_charge){0};
    if (call_depth) { /* called by the runtime itself: the outer call is charged */
        call_depth++;
        return hipSuccess;
    }
    hipError_t result = facet_hip_initialize_device(device);
    if (result == hipSuccess)
        result = facet_hip_refusal(facet_charge_try(device, bytes, ret_charge));
    if (result == hipSuccess)
        call_depth++;
    return result;
}

size_t facet_hip_probe_begin(uint32_t device, uint64_t bytes)
{
    size_t total = 0;

    facet_hip_charge_pause();
    facet_hip_driver.hipDeviceTotalMem(&total, (hipDevice_t)device); /* if it fails, `bytes` alone exceeds the memory */
    return facet_memory_beyond_device(bytes, total);
}

hipError_t facet_hip_probe_end(const struct facet_memory_charge *charge, hipError_t runtime_result)
{
    facet_hip_charge_resume();
    if (runtime_result != hipSuccess && runtime_result != hipErrorOutOfMemory)
        return runtime_result;
    facet_charge_refuse(charge);
    return hipErrorOutOfMemory;
}

hipError_t facet_hip_charge_settle(const struct facet_memory_charge *charge, hipError_t result,
                                   enum facet_memory_kind kind, uint64_t handle, int (*free_it)(uint64_t, void *))
{
    call_depth--;
    if (result == hipSuccess && !handle) { /* 0 bytes were requested, and nothing was allocated */
        facet_charge_drop(charge);
        return result;
    }
    if (result == hipSuccess && facet_charge_keep(charge, kind, handle, facet_hip_owner(charge->device)))
        return hipSuccess;
    if (result == hipSuccess) {
        free_it(handle, NULL);
        result = hipErrorOutOfMemory;
    }
    facet_charge_drop(charge);
    return result;
}

void facet_hip_charge_pause(void)
{
    call_depth++;
}

void facet_hip_charge_resume(void)
{
    call_depth--;
}

static struct facet_ledger *process_ledger(void)
{
    return facet_hip_process.ledger;
}

static uint32_t count_devices(void)
{
    return facet_hip_process.count;
}

static uint64_t pool_attribute(void *pool, hipMemPoolAttr attribute)
{
    uint64_t value = 0;

    return facet_hip_unhooked.hipMemPoolGetAttribute(pool, attribute, &value) == hipSuccess ? value : 0;
}

static uint64_t pool_held(void *pool)
{
    return pool_attribute(pool, hipMemPoolAttrReservedMemCurrent);
}

static uint64_t pool_used(void *pool)
{
    return pool_attribute(pool, hipMemPoolAttrUsedMemCurrent);
}

static void pool_trim(void *pool)
{
    facet_hip_driver.hipMemPoolTrimTo(pool, 0);
}

static uint64_t graph_attribute(uint32_t device, hipGraphMemAttributeType attribute)
{
    uint64_t value = 0;

    if (!facet_hip_unhooked.hipDeviceGetGraphMemAttribute ||
        facet_hip_unhooked.hipDeviceGetGraphMemAttribute((int)device, attribute, &value) != hipSuccess)
        return 0;
    return value;
}

static uint64_t graphs_held(uint32_t device)
{
    return graph_attribute(device, hipGraphMemAttrReservedMemCurrent);
}

static uint64_t graphs_used(uint32_t device)
{
    return graph_attribute(device, hipGraphMemAttrUsedMemCurrent);
}

static void graphs_trim(uint32_t device)
{
    facet_hip_driver.hipDeviceGraphMemTrim((int)device);
}

const struct facet_memory_driver facet_memory_driver = {
    .ledger = process_ledger,
    .tenant = facet_hip_tenant,
    .devices = count_devices,
    .pool_held = pool_held,
    .pool_used = pool_used,
    .pool_trim = pool_trim,
    .pool_growth = UINT64_C(2) << 20,
    .pool_step = UINT64_C(2) << 20,
    .graphs_held = graphs_held,
    .graphs_used = graphs_used,
    .graphs_trim = graphs_trim,
};
