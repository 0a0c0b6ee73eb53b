/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: linear memory: plain and pitched, and freeing by pointer. Never: rounds a requested size. */
#include "charge.h"
#include "graph.h"
#include "interpose/cuda/swap/swap.h"
#include "linear.h"
#include "refusal.h"

static CUresult free_sync(uint64_t pointer, CUstream stream)
{
    (void)stream;
    return facet_cuda_driver.cuMemFree_v2(pointer);
}

/* Completes an allocation: records its charge, or drops it. */
static CUresult settle_plain(struct facet_cuda_charge *charge, CUresult result, uint64_t bytes, CUdeviceptr pointer)
{
    if (result != CUDA_SUCCESS) {
        facet_cuda_charge_drop(charge);
    } else if ((result = facet_cuda_linear_keep(charge, bytes, pointer)) != CUDA_SUCCESS) {
        facet_cuda_driver.cuMemFree_v2(pointer);
    }
    facet_cuda_charge_end(charge);
    return result;
}

static CUresult refuse_plain(uint32_t device, const CUdeviceptr *pointer, size_t bytes)
{
    CUdeviceptr probe = 0;
    size_t beyond_bytes;
    CUresult driver_result = facet_cuda_beyond_device(device, bytes, &beyond_bytes);

    if (driver_result == CUDA_SUCCESS)
        driver_result = facet_cuda_driver.cuMemAlloc_v2(pointer ? &probe : NULL, beyond_bytes);
    if (probe)
        facet_cuda_driver.cuMemFree_v2(probe);
    return facet_cuda_refuse(device, driver_result);
}

/* Swappable memory is made without cuMemAlloc, which refuses without a context, so the context is checked here. */
static bool is_swapped(uint32_t device, size_t bytes)
{
    return facet_cuda_swap_applies(device, bytes) && facet_cuda_owner();
}

CUresult facet_cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    uint32_t device = facet_cuda_current_device();
    struct facet_cuda_charge charge;

    if (pointer && is_swapped(device, bytes))
        return facet_cuda_swap_allocate(pointer, device, bytes);
    CUresult result = facet_cuda_linear_begin(device, bytes, &charge);
    if (__builtin_expect(result != CUDA_SUCCESS, 0))
        return result == CUDA_ERROR_OUT_OF_MEMORY ? refuse_plain(device, pointer, bytes) : result;
    result = facet_cuda_driver.cuMemAlloc_v2(pointer, bytes);
    return settle_plain(&charge, result, bytes, result == CUDA_SUCCESS ? *pointer : 0);
}

/* Pitch times height; UINT64_MAX, which no quota grants, where it overflows. */
static uint64_t pitched_bytes(uint64_t pitch, uint64_t height)
{
    uint64_t bytes;

    return __builtin_mul_overflow(pitch, height, &bytes) ? UINT64_MAX : bytes;
}

/* Assumes the pitch that drivers choose. False for arguments that the driver refuses. */
static bool is_swapped_pitch(uint32_t device, const size_t *pitch, size_t width, size_t height, unsigned element)
{
    uint64_t bytes;

    return pitch && (element == 4 || element == 8 || element == 16) &&
           !__builtin_mul_overflow(facet_cuda_round(width, 512), height, &bytes) && is_swapped(device, bytes);
}

/* Asks the driver for so many rows of that width that no device has memory for them. */
static CUresult refuse_pitched(uint32_t device, const CUdeviceptr *pointer, const size_t *pitch, size_t width,
                               unsigned element)
{
    size_t beyond_bytes, row = facet_cuda_round(width, 512), chosen = 0;
    CUdeviceptr probe = 0;
    CUresult driver_result = facet_cuda_beyond_device(device, 0, &beyond_bytes);

    if (driver_result == CUDA_SUCCESS)
        driver_result =
            facet_cuda_driver.cuMemAllocPitch_v2(pointer ? &probe : NULL, pitch ? &chosen : NULL, width,
                                                 beyond_bytes > row && row ? beyond_bytes / row : 1, element);
    if (probe)
        facet_cuda_driver.cuMemFree_v2(probe);
    return facet_cuda_refuse(device, driver_result);
}

/* The pitch is known only after the call: until then it is assumed to be the one that drivers choose. */
CUresult facet_cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element)
{
    uint32_t device = facet_cuda_current_device();
    struct facet_cuda_charge charge;

    if (pointer && is_swapped_pitch(device, pitch, width, height, element)) {
        *pitch = facet_cuda_round(width, 512);
        return facet_cuda_swap_allocate(pointer, device, *pitch * height);
    }
    CUresult result = facet_cuda_linear_begin(device, pitched_bytes(facet_cuda_round(width, 512), height), &charge);
    if (result != CUDA_SUCCESS)
        return result == CUDA_ERROR_OUT_OF_MEMORY ? refuse_pitched(device, pointer, pitch, width, element) : result;
    result = facet_cuda_driver.cuMemAllocPitch_v2(pointer, pitch, width, height, element);
    bool is_allocated = result == CUDA_SUCCESS;
    return settle_plain(&charge, result, is_allocated ? pitched_bytes(*pitch, height) : 0, is_allocated ? *pointer : 0);
}

/* The old forms, with 32-bit pointers: a 64-bit driver exports them, and probably has no memory below 4 GiB. */
CUresult facet_cuMemAlloc(CUdeviceptr_v1 *pointer, unsigned bytes)
{
    uint32_t device = facet_cuda_current_device();
    struct facet_cuda_charge charge;
    CUresult result = facet_cuda_linear_begin(device, bytes, &charge);

    if (result == CUDA_ERROR_OUT_OF_MEMORY) /* judged by the current form, which takes any size */
        return refuse_plain(device, pointer ? &(CUdeviceptr){0} : NULL, bytes);
    if (result != CUDA_SUCCESS)
        return result;
    result = facet_cuda_driver.cuMemAlloc(pointer, bytes);
    return settle_plain(&charge, result, bytes, result == CUDA_SUCCESS ? *pointer : 0);
}

CUresult facet_cuMemAllocPitch(CUdeviceptr_v1 *pointer, unsigned *pitch, unsigned width, unsigned height,
                               unsigned element)
{
    uint32_t device = facet_cuda_current_device();
    struct facet_cuda_charge charge;
    CUresult result = facet_cuda_linear_begin(device, pitched_bytes(facet_cuda_round(width, 512), height), &charge);

    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return refuse_pitched(device, pointer ? &(CUdeviceptr){0} : NULL, pitch ? &(size_t){0} : NULL, width, element);
    if (result != CUDA_SUCCESS)
        return result;
    result = facet_cuda_driver.cuMemAllocPitch(pointer, pitch, width, height, element);
    bool is_allocated = result == CUDA_SUCCESS;
    return settle_plain(&charge, result, is_allocated ? pitched_bytes(*pitch, height) : 0, is_allocated ? *pointer : 0);
}

static CUresult free_v1(uint64_t pointer, CUstream stream)
{
    (void)stream;
    return facet_cuda_driver.cuMemFree((CUdeviceptr_v1)pointer);
}

CUresult facet_cuMemFree(CUdeviceptr_v1 pointer)
{
    return facet_cuda_charge_free(FACET_CUDA_PLAIN, pointer, free_v1, NULL);
}

CUresult facet_cuMemFree_v2(CUdeviceptr pointer)
{
    CUresult result;

    if (facet_cuda_swap_free(pointer, &result))
        return result;
    return facet_cuda_charge_free(FACET_CUDA_PLAIN, pointer, free_sync, NULL);
}

static CUresult free_async(uint64_t pointer, CUstream stream)
{
    return facet_cuda_driver.cuMemFreeAsync(pointer, stream);
}

static CUresult free_async_ptsz(uint64_t pointer, CUstream stream)
{
    return facet_cuda_driver.cuMemFreeAsync_ptsz(pointer, stream);
}

/*
 * The charge is released when the free is enqueued. For memory of a pool, the pool stays charged until the stream
 * reaches the free. For other memory there is no way to learn when the driver has freed it.
 */
CUresult facet_cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
    CUresult result;

    if (facet_cuda_is_capturing(stream, false))
        return facet_cuda_driver.cuMemFreeAsync(pointer, stream);
    if (facet_cuda_swap_free(pointer, &result))
        return result;
    return facet_cuda_charge_free(FACET_CUDA_PLAIN, pointer, free_async, stream);
}

CUresult facet_cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream)
{
    CUresult result;

    if (facet_cuda_is_capturing(stream, true))
        return facet_cuda_driver.cuMemFreeAsync_ptsz(pointer, stream);
    if (facet_cuda_swap_free(pointer, &result))
        return result;
    return facet_cuda_charge_free(FACET_CUDA_PLAIN, pointer, free_async_ptsz, stream);
}
