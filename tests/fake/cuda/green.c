/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: parts of a device's multiprocessors: resources and how they are split, green contexts, execution affinity.
 * Never: lets a part use other multiprocessors. The time of its kernels depends on its own multiprocessors alone.
 *
 * As on compute capability 9.0, the number of a part's multiprocessors is a multiple of 8; with IGNORE_SM_COSCHEDULING,
 * of 2. Resources can be combined if they are of one split. Execution affinity, in steps of 2, exists only for clients
 * of MPS: when CUDA_MPS_PIPE_DIRECTORY names a folder with `control` in it.
 */
#include "vendor/cuda/green.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "execution.h"
#include "memory.h"

#define UNITS_STEP       8u
#define UNITS_STEP_LOOSE 2u
#define MAX_RESOURCES    128u
#define CONTEXT_BYTES    (UINT64_C(2) << 20) /* of a green context, besides the primary context */

/* The driver's hidden part of a resource. */
struct resource_data {
    uint64_t magic, split_id;
    uint32_t device, unsplit;
};
#define RESOURCE_MAGIC UINT64_C(0x534d534d534d)

struct CUdevResourceDesc_st {
    uint32_t device, units;
};

struct CUgreenCtx_st {
    CUcontext primary;
    struct fake_block *context_block; /* the green context's own memory; freed with the primary context at the latest */
    uint32_t units;
    bool dead;
    struct fake_lane lane;
};

static struct resource_data resource_data_of(const CUdevResource *resource)
{
    struct resource_data resource_data;

    memcpy(&resource_data, resource->_internal_padding, sizeof resource_data);
    return resource_data;
}

static CUdevResource resource_of(struct resource_data resource_data, unsigned units, unsigned least)
{
    CUdevResource resource = {.type = CU_DEV_RESOURCE_TYPE_SM, .sm = {units, least, least}};

    memcpy(resource._internal_padding, &resource_data, sizeof resource_data);
    return resource;
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    uint32_t physical;
    CUresult result = fake_physical(device, &physical);

    if (result != CUDA_SUCCESS)
        return result;
    if (!resource)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    *resource = resource_of((struct resource_data){RESOURCE_MAGIC, 0, physical, 1},
                            fake_state()->devices[physical].units, UNITS_STEP);
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource *resource, CUdevResourceType type)
{
    if (!green || green->dead)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    *resource =
        resource_of((struct resource_data){RESOURCE_MAGIC, 0, green->primary->physical, 1}, green->units, UNITS_STEP);
    return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned *group_count, const CUdevResource *input,
                                     CUdevResource *remaining, unsigned flags, unsigned least)
{
    static _Atomic uint64_t splits;

    if (!group_count || !input || flags > 3)
        return CUDA_ERROR_INVALID_VALUE;
    struct resource_data resource_data = resource_data_of(input);
    if (input->type != CU_DEV_RESOURCE_TYPE_SM || resource_data.magic != RESOURCE_MAGIC)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (!resource_data.unsplit) /* the result of a split is not split again */
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    if (least > input->sm.smCount)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned step = flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING ? UNITS_STEP_LOOSE : UNITS_STEP;
    unsigned units = least ? (least + step - 1) / step * step : step, groups = input->sm.smCount / units;
    if (result && *group_count < groups)
        groups = *group_count;
    resource_data = (struct resource_data){RESOURCE_MAGIC, ++splits, resource_data.device, 0};
    for (unsigned i = 0; result && i < groups; i++)
        result[i] = resource_of(resource_data, units, step);
    if (remaining)
        *remaining = resource_of(resource_data, input->sm.smCount - groups * units, step);
    *group_count = groups;
    return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *description, CUdevResource *resources, unsigned count)
{
    if (!description || !resources || !count || count > MAX_RESOURCES)
        return CUDA_ERROR_INVALID_VALUE;
    struct resource_data first = resource_data_of(&resources[0]);
    unsigned units = 0;
    for (unsigned i = 0; i < count; i++) {
        struct resource_data resource_data = resource_data_of(&resources[i]);

        if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM || resource_data.magic != RESOURCE_MAGIC)
            return CUDA_ERROR_INVALID_RESOURCE_TYPE;
        if (resource_data.device != first.device || resource_data.split_id != first.split_id ||
            (count > 1 && resource_data.unsplit))
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        units += resources[i].sm.smCount;
    }
    if (!units || units > fake_state()->devices[first.device].units)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    *description = fake_execution_allocate(sizeof **description);
    **description = (struct CUdevResourceDesc_st){first.device, units};
    return CUDA_SUCCESS;
}

/* A green context retains the device's primary context. */
CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc description, CUdevice device, unsigned flags)
{
    uint32_t physical;
    CUcontext primary;
    CUresult result = fake_physical(device, &physical);

    if (result != CUDA_SUCCESS)
        return result;
    if (!green || !description || flags != CU_GREEN_CTX_DEFAULT_STREAM || description->device != physical)
        return CUDA_ERROR_INVALID_VALUE;
    result = cuDevicePrimaryCtxRetain(&primary, device);
    if (result != CUDA_SUCCESS)
        return result;
    fake_memory_lock();
    struct fake_block *context_block = fake_memory_make_driver_block(primary, FAKE_CONTEXT, CONTEXT_BYTES);
    fake_memory_unlock();
    if (!context_block) {
        cuDevicePrimaryCtxRelease_v2(device);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *green = fake_execution_allocate(sizeof **green);
    (*green)->primary = primary;
    (*green)->context_block = context_block;
    (*green)->units = description->units;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    if (!green)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (green->dead)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    green->dead = true;
    if (atomic_load(&green->primary->dead)) /* the primary context was reset */
        return CUDA_SUCCESS;
    fake_memory_lock();
    fake_memory_free_block(green->context_block);
    fake_memory_unlock();
    return cuDevicePrimaryCtxRelease_v2(green->primary->device);
}

CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    if (!green || green->dead)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = green->primary;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned flags, int priority)
{
    if (!stream || flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    if (!green || green->dead)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = cuCtxPushCurrent_v2(green->primary);
    if (result != CUDA_SUCCESS)
        return result;
    result = cuStreamCreateWithPriority(stream, flags, priority);
    if (result == CUDA_SUCCESS)
        (*stream)->green = green;
    cuCtxPopCurrent_v2(NULL);
    return result;
}

CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *green)
{
    CUstream stream;
    CUresult result = green ? fake_stream(handle, false, &stream) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        *green = stream->green;
    return result;
}

/* ---- work in a green context ---- */

bool fake_green_is_dead(CUgreenCtx green)
{
    return green->dead;
}

uint32_t fake_stream_units(CUstream stream)
{
    uint32_t context_units = stream->context->affinity_units;

    if (stream->green)
        return stream->green->units;
    if (stream->masked_units)
        return stream->masked_units;
    return context_units ? context_units : fake_state()->devices[stream->context->physical].units;
}

struct fake_lane *fake_stream_lane(CUstream stream)
{
    if (stream->green)
        return &stream->green->lane;
    if (stream->masked_units)
        return stream->lane;
    return stream->context->affinity_units ? &stream->context->lane : NULL;
}

/* ---- execution affinity ---- */

static bool is_client_of_mps(void)
{
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[4096];

    snprintf(path, sizeof path, "%s/control", folder ? folder : "");
    return folder && *folder && access(path, F_OK) == 0;
}

CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice device)
{
    uint32_t physical;

    if (!supported || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
        return CUDA_ERROR_INVALID_VALUE;
    *supported = is_client_of_mps();
    return fake_physical(device, &physical);
}

CUresult fake_affinity_read(const CUexecAffinityParam *affinities, int count, uint32_t physical, uint32_t *ret_units)
{
    uint32_t most = fake_state()->devices[physical].units, units = 0;

    if (count < 0 || (count && !affinities))
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < count; i++) {
        if (affinities[i].type != CU_EXEC_AFFINITY_TYPE_SM_COUNT || !is_client_of_mps())
            return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
        if (!affinities[i].param.smCount.val)
            return CUDA_ERROR_INVALID_VALUE;
        units = (affinities[i].param.smCount.val + 1) / 2 * 2;
    }
    *ret_units = units < most ? units : most;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity, CUexecAffinityType type)
{
    CUcontext context;
    CUresult result = affinity ? fake_enter(&context) : CUDA_ERROR_INVALID_VALUE;

    if (result != CUDA_SUCCESS)
        return result;
    if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT || !is_client_of_mps())
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    uint32_t most = fake_state()->devices[context->physical].units;
    affinity->type = type;
    affinity->param.smCount.val = context->affinity_units ? context->affinity_units : most;
    return CUDA_SUCCESS;
}
