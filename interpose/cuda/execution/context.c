/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: contexts that end while work is in flight.
 * Never: lets the helper ask for what is gone, or what was in flight be counted for ever.
 */
#include "capture.h"
#include "ends.h"
#include "interpose/cuda/hooks.h"
#include "track.h"

void facet_cuda_execution_hold(void)
{
    facet_cuda_track_hold();
}

void facet_cuda_execution_ended(CUcontext context)
{
    if (context) {
        facet_cuda_track_context_ends(context);
        facet_cuda_capture_context_ends(context);
        facet_cuda_lane_forget();
    }
    facet_cuda_track_release();
}

static CUresult destroy_context(CUcontext context, CUresult (*driver)(CUcontext context))
{
    facet_cuda_execution_hold();
    CUresult result = driver(context);
    facet_cuda_execution_ended(result == CUDA_SUCCESS ? context : NULL);
    return result;
}

CUresult facet_cuCtxDestroy(CUcontext context)
{
    return destroy_context(context, facet_cuda_driver.cuCtxDestroy);
}

CUresult facet_cuCtxDestroy_v2(CUcontext context)
{
    return destroy_context(context, facet_cuda_driver.cuCtxDestroy_v2);
}

/* The primary context if the device has one now; it stays as it is. */
static CUcontext primary_of(CUdevice device)
{
    CUcontext context = NULL;
    unsigned flags;
    int active = 0;

    if (facet_cuda_plain.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active)
        return NULL;
    if (facet_cuda_plain.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        return NULL;
    facet_cuda_driver.cuDevicePrimaryCtxRelease_v2(device);
    return context;
}

/* Reset ends it; a release does when it was the last. */
static CUresult end_primary(CUdevice device, CUresult (*driver)(CUdevice device))
{
    unsigned flags;
    int active = 1;

    facet_cuda_execution_hold();
    CUcontext context = primary_of(device);
    CUresult result = driver(device);
    bool reset =
        driver == facet_cuda_driver.cuDevicePrimaryCtxReset || driver == facet_cuda_driver.cuDevicePrimaryCtxReset_v2;
    if (!reset)
        facet_cuda_plain.cuDevicePrimaryCtxGetState(device, &flags, &active);
    facet_cuda_execution_ended(result == CUDA_SUCCESS && (reset || !active) ? context : NULL);
    return result;
}

CUresult facet_cuDevicePrimaryCtxReset(CUdevice device)
{
    return end_primary(device, facet_cuda_driver.cuDevicePrimaryCtxReset);
}

CUresult facet_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return end_primary(device, facet_cuda_driver.cuDevicePrimaryCtxReset_v2);
}

CUresult facet_cuDevicePrimaryCtxRelease(CUdevice device)
{
    return end_primary(device, facet_cuda_driver.cuDevicePrimaryCtxRelease);
}

CUresult facet_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return end_primary(device, facet_cuda_driver.cuDevicePrimaryCtxRelease_v2);
}
