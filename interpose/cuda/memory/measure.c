/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: readings of the memory in use, and differences of them. Never: repeats a reading more than a few times. */
#include "measure.h"

#include <string.h>

#include "graph.h"
#include "interpose/cuda/hooks.h"
#include "interpose/kit/memory/managed.h"
#include "interpose/kit/memory/pool.h"
#include "listed.h"

#define READ_TRIES 4

/* Devices where NVML's figure for our pid is known to be ours. */
static bool nvml_pid_is_ours[FACET_CUDA_TENANTS];

/* Descriptors of the devices' locks, plus one; 0: not locked. */
static int device_locks[FACET_CUDA_TENANTS];

static bool uncharged_by_process(const struct facet_tenant *tenant, int64_t *ret_bytes)
{
    uint64_t held = 0, charged = facet_slot_memory(tenant->slot);
    bool listed = facet_cuda_process_bytes(tenant, &held);

    *ret_bytes = listed ? (int64_t)held - (int64_t)charged : 0;
    return listed;
}

static bool uncharged_by_device(const struct facet_tenant *tenant, CUcontext context, int64_t *ret_bytes)
{
    size_t free_bytes = 0, total = 0;
    uint64_t held = 0;
    CUcontext popped;

    *ret_bytes = 0;
    if (facet_cuda_device_bytes(tenant, &held)) {
        *ret_bytes = (int64_t)held - (int64_t)facet_usage_memory(tenant->usage);
        return true;
    }
    if (!context || facet_cuda_unhooked.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return false;
    CUresult result = facet_cuda_driver.cuMemGetInfo_v2(&free_bytes, &total);
    facet_cuda_unhooked.cuCtxPopCurrent_v2(&popped);
    if (result == CUDA_SUCCESS)
        *ret_bytes = (int64_t)(total - free_bytes) - (int64_t)facet_usage_memory(tenant->usage);
    return result == CUDA_SUCCESS;
}

/* Memory in use that is charged to no tenant; 0 when there is no source. */
static int64_t unexplained_bytes(const struct facet_tenant *tenant, uint32_t device, CUcontext context)
{
    int64_t bytes = 0;

    if (nvml_pid_is_ours[device] && uncharged_by_process(tenant, &bytes))
        return bytes;
    return uncharged_by_device(tenant, context, &bytes) ? bytes : 0;
}

/* Releases the charge of memory that pools and graphs have given back without a call. */
static void settle_pools(uint32_t device)
{
    if (facet_graphs_ever_used())
        facet_graphs_settle_if_free(device);
    if (facet_pools_any())
        facet_pools_settle_if_free(device);
}

static uint64_t charged_bytes(const struct facet_tenant *tenant)
{
    return facet_slot_memory(tenant->slot);
}

/* A pool may shrink between the two reads: then the reading is repeated. */
static int64_t read_uncharged(const struct facet_tenant *tenant, uint32_t device, CUcontext context)
{
    int64_t bytes = 0;

    settle_pools(device);
    for (int i = 0; i < READ_TRIES; i++) {
        uint64_t before = charged_bytes(tenant);

        bytes = unexplained_bytes(tenant, device, context);
        settle_pools(device);
        if (charged_bytes(tenant) == before)
            break;
    }
    return bytes;
}

/* Reads while new allocations are held off. */
static int64_t read_without_pending(const struct facet_tenant *tenant, uint32_t device, CUcontext context,
                                    struct facet_pending *ret_pending)
{
    facet_pending_quiesce(device, FACET_CUDA_PENDING_WAIT_NS, ret_pending);
    int64_t bytes = read_uncharged(tenant, device, context);
    facet_pending_open();
    return bytes;
}

/* Two processes that compare totals of the device at once would each count the growth of the other. */
static void lock_shared_device(const struct facet_tenant *tenant, uint32_t device, bool is_first)
{
    bool alone = is_first ? facet_cuda_is_listable(tenant) : nvml_pid_is_ours[device];

    if (!alone && !device_locks[device])
        device_locks[device] = facet_tenant_lock_device(tenant, FACET_CUDA_MEASURE_WAIT_NS) + 1;
}

void facet_cuda_measures_end(void)
{
    for (uint32_t i = 0; i < facet_cuda_process.count; i++) {
        if (device_locks[i])
            facet_tenant_unlock_device(&facet_cuda_process.tenants[i], device_locks[i] - 1);
        device_locks[i] = 0;
    }
}

void facet_cuda_measure_begin(struct facet_cuda_measure *measure, uint32_t device, CUcontext context)
{
    const struct facet_tenant *tenant = facet_cuda_tenant(device);

    *measure = (struct facet_cuda_measure){.device = device, .is_first = !context};
    if (!tenant)
        return;
    lock_shared_device(tenant, device, measure->is_first);
    if (context) {
        measure->uncharged_before = read_without_pending(tenant, device, context, &measure->pending);
    } else {
        measure->minus_managed = -(int64_t)facet_managed_charged();
        measure->was_listed = uncharged_by_process(tenant, &(int64_t){0});
        if (!uncharged_by_device(tenant, NULL, &measure->uncharged_before))
            measure->uncharged_before = measure->minus_managed;
    }
}

/* If NVML lists our pid before we hold anything, the entry is another process's: pids of two namespaces collide. */
uint64_t facet_cuda_measure_growth(struct facet_cuda_measure *measure, CUcontext context)
{
    const struct facet_tenant *tenant = facet_cuda_tenant(measure->device);
    struct facet_pending pending;

    if (!tenant)
        return 0;
    if (measure->is_first) {
        nvml_pid_is_ours[measure->device] = !measure->was_listed && uncharged_by_process(tenant, &(int64_t){0});
        measure->uncharged_before =
            nvml_pid_is_ours[measure->device] ? measure->minus_managed : measure->uncharged_before;
    }
    int64_t growth = read_without_pending(tenant, measure->device, context, &pending) - measure->uncharged_before;
    if (growth <= 0)
        return 0;
    uint64_t own_growth = facet_pending_subtract((uint64_t)growth, &measure->pending);
    return nvml_pid_is_ours[measure->device] || own_growth < FACET_CUDA_MEASURE_MOST ? own_growth
                                                                                     : FACET_CUDA_MEASURE_MOST;
}

void facet_cuda_measures_forked(void)
{
    memset(nvml_pid_is_ours, 0, sizeof nvml_pid_is_ours);
    facet_pending_forked();
    facet_cuda_listed_forked();
}
