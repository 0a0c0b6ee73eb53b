/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what measure.h says. Never: asks more often than until two answers agree, and then a few times at most. */
#include "measure.h"

#include <sched.h>
#include <string.h>

#include "interpose/cuda/hooks.h"
#include "listed.h"

#define TRIES 8

/* Where NVML's figure of this process is known to be of this process. */
static bool trusted[FACET_CUDA_TENANTS];

static bool by_process(const struct facet_tenant *tenant, int64_t *ret_bytes)
{
    uint64_t held = 0, charged = atomic_load(&tenant->slot->memory_bytes);
    bool listed = facet_cuda_listed(tenant, &held);

    *ret_bytes = listed ? (int64_t)held - (int64_t)charged : 0;
    return listed;
}

static bool by_device(const struct facet_tenant *tenant, CUcontext context, int64_t *ret_bytes)
{
    size_t is_free = 0, total = 0;
    CUcontext popped;

    *ret_bytes = 0;
    if (!context || facet_cuda_plain.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return false;
    CUresult result = facet_cuda_driver.cuMemGetInfo_v2(&is_free, &total);
    facet_cuda_plain.cuCtxPopCurrent_v2(&popped);
    if (result == CUDA_SUCCESS)
        *ret_bytes = (int64_t)(total - is_free) - (int64_t)facet_usage_memory(tenant->usage);
    return result == CUDA_SUCCESS;
}

/* What is in use and charged to nobody; 0 where nobody can be asked. */
static int64_t unexplained(const struct facet_tenant *tenant, uint32_t device, CUcontext context)
{
    int64_t bytes = 0;

    if (trusted[device] && by_process(tenant, &bytes))
        return bytes;
    return by_device(tenant, context, &bytes) ? bytes : 0;
}

void facet_cuda_measure_begin(struct facet_cuda_measure *measure, uint32_t device, CUcontext context)
{
    const struct facet_tenant *tenant = facet_cuda_tenant(device);

    *measure = (struct facet_cuda_measure){.device = device, .first = !context};
    if (tenant && context)
        measure->before = unexplained(tenant, device, context);
    else if (tenant)
        measure->listed = by_process(tenant, &(int64_t){0});
}

static int64_t growth_now(const struct facet_tenant *tenant, const struct facet_cuda_measure *measure,
                          CUcontext context)
{
    int64_t growth = unexplained(tenant, measure->device, context) - measure->before;

    return trusted[measure->device] || growth < (int64_t)FACET_CUDA_MEASURE_MOST ? growth
                                                                                 : (int64_t)FACET_CUDA_MEASURE_MOST;
}

/* A list that has our number before we have anything has another process of that number. */
uint64_t facet_cuda_measure_growth(const struct facet_cuda_measure *measure, CUcontext context)
{
    const struct facet_tenant *tenant = facet_cuda_tenant(measure->device);
    int64_t growth, last;

    if (!tenant)
        return 0;
    if (measure->first)
        trusted[measure->device] = !measure->listed && by_process(tenant, &(int64_t){0});
    growth = growth_now(tenant, measure, context);
    for (int i = 0; i < TRIES; i++) {
        last = growth;
        growth = growth_now(tenant, measure, context);
        if (growth == last)
            break;
        sched_yield();
    }
    return growth > 0 ? (uint64_t)growth : 0;
}

void facet_cuda_measures_forked(void)
{
    memset(trusted, 0, sizeof trusted);
    facet_cuda_listed_forked();
}
