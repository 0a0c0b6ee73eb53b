/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: readings of the memory in use, and differences of them. Never: repeats a reading more than a few times, or
 * after two have agreed.
 */
#include "measure.h"

#include <sched.h>

#include "held.h"
#include "hooks.h"

#define TRIES 8

static bool by_process(const struct facet_tenant *tenant, uint32_t device, int64_t *ret_bytes)
{
    uint64_t held = 0, charged = facet_slot_memory(tenant->slot);
    bool listed = facet_hip_held(device, &held);

    *ret_bytes = listed ? (int64_t)held - (int64_t)charged : -(int64_t)charged;
    return listed;
}

/* Returns 0 when the runtime has no answer. */
static int64_t by_device(const struct facet_tenant *tenant, uint32_t device)
{
    size_t is_free = 0, total = 0;
    int current = (int)device;
    bool foreign = facet_hip_plain.hipGetDevice(&current) == hipSuccess && (uint32_t)current != device;

    if (foreign && facet_hip_plain.hipSetDevice((int)device) != hipSuccess)
        return 0;
    hipError_t result = facet_hip_driver.hipMemGetInfo(&is_free, &total);
    if (foreign)
        facet_hip_plain.hipSetDevice(current);
    if (result != hipSuccess)
        return 0;
    return (int64_t)(total - is_free) - (int64_t)facet_usage_memory(tenant->usage);
}

/* Before its first call a process has no files in the driver, and holds nothing. */
void facet_hip_measure_begin(struct facet_hip_measure *measure, uint32_t device)
{
    const struct facet_tenant *tenant = facet_hip_tenant(device);

    *measure = (struct facet_hip_measure){.device = device, .held = -1};
    if (!tenant)
        return;
    if (!facet_hip_held_tells(device))
        measure->held = facet_tenant_hold_device(tenant, FACET_HIP_MEASURE_WAIT_NS);
    by_process(tenant, device, &measure->of_process);
    measure->of_device = by_device(tenant, device);
}

void facet_hip_measure_end(const struct facet_hip_measure *measure)
{
    const struct facet_tenant *tenant = facet_hip_tenant(measure->device);

    if (tenant)
        facet_tenant_let_device_go(tenant, measure->held);
}

void facet_hip_measure_begin_first(struct facet_hip_measure *measure, uint32_t device, uint64_t besides)
{
    facet_hip_measure_begin(measure, device);
    if (measure->of_process > (int64_t)besides)
        measure->of_process = (int64_t)besides;
}

void facet_hip_measure_held(struct facet_hip_measure *measure, uint32_t device)
{
    const struct facet_tenant *tenant = facet_hip_tenant(device);

    *measure = (struct facet_hip_measure){.device = device, .held = -1};
    if (tenant && !by_process(tenant, device, &measure->of_process))
        measure->of_process = INT64_MIN;
}

uint64_t facet_hip_measure_shrunk(const struct facet_hip_measure *measure)
{
    const struct facet_tenant *tenant = facet_hip_tenant(measure->device);
    int64_t bytes;

    if (!tenant || measure->of_process == INT64_MIN || !by_process(tenant, measure->device, &bytes))
        return 0;
    return bytes < measure->of_process ? (uint64_t)(measure->of_process - bytes) : 0;
}

static int64_t growth_now(const struct facet_tenant *tenant, const struct facet_hip_measure *measure)
{
    int64_t bytes;

    if (by_process(tenant, measure->device, &bytes))
        return bytes - measure->of_process;
    bytes = by_device(tenant, measure->device) - measure->of_device;
    return bytes < (int64_t)FACET_HIP_MEASURE_MOST ? bytes : (int64_t)FACET_HIP_MEASURE_MOST;
}

uint64_t facet_hip_measure_growth(const struct facet_hip_measure *measure)
{
    const struct facet_tenant *tenant = facet_hip_tenant(measure->device);
    int64_t growth, last;

    if (!tenant)
        return 0;
    growth = growth_now(tenant, measure);
    for (int i = 0; i < TRIES; i++) {
        last = growth;
        growth = growth_now(tenant, measure);
        if (growth == last)
            break;
        sched_yield();
    }
    return growth > 0 ? (uint64_t)growth : 0;
}
