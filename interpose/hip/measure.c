/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: readings of the memory in use, and differences of them. Never: repeats a reading more than a few times, or
 * after two have agreed.
 */
#include "measure.h"

#include <sched.h>

#include "hooks.h"
#include "process_bytes.h"

#define READ_TRIES 8

static bool uncharged_by_process(const struct facet_tenant *tenant, uint32_t device, int64_t *ret_bytes)
{
    uint64_t held = 0, charged = facet_slot_memory(tenant->slot);
    bool listed = facet_hip_process_bytes(device, &held);

    *ret_bytes = listed ? (int64_t)held - (int64_t)charged : -(int64_t)charged;
    return listed;
}

/* Returns 0 when the runtime has no answer. */
static int64_t uncharged_by_device(const struct facet_tenant *tenant, uint32_t device)
{
    size_t free_bytes = 0, total = 0;
    int current = (int)device;
    bool is_other_device = facet_hip_unhooked.hipGetDevice(&current) == hipSuccess && (uint32_t)current != device;

    if (is_other_device && facet_hip_unhooked.hipSetDevice((int)device) != hipSuccess)
        return 0;
    hipError_t result = facet_hip_driver.hipMemGetInfo(&free_bytes, &total);
    if (is_other_device)
        facet_hip_unhooked.hipSetDevice(current);
    if (result != hipSuccess)
        return 0;
    return (int64_t)(total - free_bytes) - (int64_t)facet_usage_memory(tenant->usage);
}

/* Before its first call a process has no files in the compute driver, and holds no memory. */
void facet_hip_measure_begin(struct facet_hip_measure *measure, uint32_t device)
{
    const struct facet_tenant *tenant = facet_hip_tenant(device);

    *measure = (struct facet_hip_measure){.device = device, .lock_fd = -1};
    if (!tenant)
        return;
    if (!facet_hip_process_is_listable(device))
        measure->lock_fd = facet_tenant_lock_device(tenant, FACET_HIP_MEASURE_WAIT_NS);
    uncharged_by_process(tenant, device, &measure->by_process);
    measure->by_device = uncharged_by_device(tenant, device);
}

void facet_hip_measure_end(const struct facet_hip_measure *measure)
{
    const struct facet_tenant *tenant = facet_hip_tenant(measure->device);

    if (tenant)
        facet_tenant_unlock_device(tenant, measure->lock_fd);
}

void facet_hip_measure_begin_initialize(struct facet_hip_measure *measure, uint32_t device, uint64_t separate_bytes)
{
    facet_hip_measure_begin(measure, device);
    if (measure->by_process > (int64_t)separate_bytes)
        measure->by_process = (int64_t)separate_bytes;
}

void facet_hip_measure_begin_free(struct facet_hip_measure *measure, uint32_t device)
{
    const struct facet_tenant *tenant = facet_hip_tenant(device);

    *measure = (struct facet_hip_measure){.device = device, .lock_fd = -1};
    if (tenant && !uncharged_by_process(tenant, device, &measure->by_process))
        measure->by_process = INT64_MIN;
}

uint64_t facet_hip_measure_freed(const struct facet_hip_measure *measure)
{
    const struct facet_tenant *tenant = facet_hip_tenant(measure->device);
    int64_t bytes;

    if (!tenant || measure->by_process == INT64_MIN || !uncharged_by_process(tenant, measure->device, &bytes))
        return 0;
    return bytes < measure->by_process ? (uint64_t)(measure->by_process - bytes) : 0;
}

static int64_t read_growth(const struct facet_tenant *tenant, const struct facet_hip_measure *measure)
{
    int64_t bytes;

    if (uncharged_by_process(tenant, measure->device, &bytes))
        return bytes - measure->by_process;
    bytes = uncharged_by_device(tenant, measure->device) - measure->by_device;
    return bytes < (int64_t)FACET_HIP_MEASURE_MOST ? bytes : (int64_t)FACET_HIP_MEASURE_MOST;
}

uint64_t facet_hip_measure_growth(const struct facet_hip_measure *measure)
{
    const struct facet_tenant *tenant = facet_hip_tenant(measure->device);
    int64_t growth, last;

    if (!tenant)
        return 0;
    growth = read_growth(tenant, measure);
    for (int i = 0; i < READ_TRIES; i++) {
        last = growth;
        growth = read_growth(tenant, measure);
        if (growth == last)
            break;
        sched_yield();
    }
    return growth > 0 ? (uint64_t)growth : 0;
}
