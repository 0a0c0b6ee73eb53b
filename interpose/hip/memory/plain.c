/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: linear memory: plain, pitched, managed, and freeing by pointer. Never: rounds a requested size. */
#include "charge.h"
#include "interpose/hip/initialize.h"
#include "interpose/kit/memory/managed.h"

#define PITCH_STEP UINT64_C(256) /* the smallest pitch that runtimes choose */

static uint64_t granted_bytes(uint64_t bytes)
{
    return facet_memory_round(bytes, FACET_HIP_STEP);
}

static int free_at_once(uint64_t pointer, void *stream)
{
    (void)stream;
    return facet_hip_driver.hipFree((void *)(uintptr_t)pointer); /* NOLINT(performance-no-int-to-ptr) */
}

static int free_in_order(uint64_t pointer, void *stream)
{
    return facet_hip_driver.hipFreeAsync((void *)(uintptr_t)pointer, stream); /* NOLINT(performance-no-int-to-ptr) */
}

static hipError_t settle_plain(const struct facet_memory_charge *charge, hipError_t result, void *const *pointer)
{
    return facet_hip_charge_settle(charge, result, charge->managed ? FACET_MEMORY_MANAGED : FACET_MEMORY_PLAIN,
                                   result == hipSuccess && pointer ? (uintptr_t)*pointer : 0, free_at_once);
}

/* ---- after the quota has refused: would the runtime refuse too? ---- */

enum call { PLAIN, FLAGGED, MANAGED };

static hipError_t call_driver(enum call call, void **pointer, size_t bytes, unsigned flags)
{
    switch (call) {
    case FLAGGED:
        return facet_hip_driver.hipExtMallocWithFlags(pointer, bytes, flags);
    case MANAGED:
        return facet_hip_driver.hipMallocManaged(pointer, bytes, flags);
    default:
        return facet_hip_driver.hipMalloc(pointer, bytes);
    }
}

static hipError_t refuse_plain(const struct facet_memory_charge *charge, enum call call, void **pointer, size_t bytes,
                               unsigned flags)
{
    void *probe = NULL;
    size_t beyond_bytes = facet_hip_probe_begin(charge->device, bytes);
    hipError_t runtime_result = call_driver(call, pointer ? &probe : NULL, beyond_bytes, flags);

    if (probe)
        facet_hip_driver.hipFree(probe);
    return facet_hip_probe_end(charge, runtime_result);
}

hipError_t facet_hipMalloc(void **pointer, size_t bytes)
{
    struct facet_memory_charge charge;
    hipError_t result = facet_hip_charge_take(facet_hip_current_device(), granted_bytes(bytes), &charge);

    if (result != hipSuccess)
        return charge.refused ? refuse_plain(&charge, PLAIN, pointer, bytes, 0) : result;
    result = call_driver(PLAIN, pointer, bytes, 0);
    return settle_plain(&charge, result, pointer);
}

hipError_t facet_hipExtMallocWithFlags(void **pointer, size_t bytes, unsigned flags)
{
    struct facet_memory_charge charge;
    uint64_t charged_bytes = flags == hipMallocSignalMemory ? 0 : granted_bytes(bytes);
    hipError_t result = facet_hip_charge_take(facet_hip_current_device(), charged_bytes, &charge);

    if (result != hipSuccess)
        return charge.refused ? refuse_plain(&charge, FLAGGED, pointer, bytes, flags) : result;
    result = call_driver(FLAGGED, pointer, bytes, flags);
    return settle_plain(&charge, result, pointer);
}

/* Takes a charge of 0 bytes on the current device, because managed memory is charged on each device. */
static hipError_t charge_managed(uint64_t bytes, struct facet_memory_charge *ret_charge)
{
    hipError_t result = facet_hip_charge_take(facet_hip_current_device(), 0, ret_charge);

    if (result != hipSuccess || !ret_charge->tenant)
        return result;
    struct facet_memory_charge refusing = {0};
    result = facet_hip_refusal(facet_managed_try(bytes, &refusing));
    if (result != hipSuccess) {
        settle_plain(ret_charge, result, NULL);
        *ret_charge = refusing;
        return result;
    }
    ret_charge->bytes = bytes;
    ret_charge->managed = true;
    return hipSuccess;
}

hipError_t facet_hipMallocManaged(void **pointer, size_t bytes, unsigned flags)
{
    struct facet_memory_charge charge;
    hipError_t result = charge_managed(granted_bytes(bytes), &charge);

    if (result != hipSuccess)
        return charge.refused ? refuse_plain(&charge, MANAGED, pointer, bytes, flags) : result;
    result = call_driver(MANAGED, pointer, bytes, flags);
    return settle_plain(&charge, result, pointer);
}

/* Pitch times height, rounded; UINT64_MAX, which no quota grants, where it overflows. */
static uint64_t pitched_bytes(uint64_t pitch, uint64_t height)
{
    uint64_t bytes;

    return __builtin_mul_overflow(pitch, height, &bytes) ? UINT64_MAX : granted_bytes(bytes);
}

/* The pitch is known only after the call. */
static hipError_t settle_pitched(struct facet_memory_charge *charge, hipError_t result, void *const *pointer,
                                 uint64_t pitch, uint64_t height)
{
    if (result == hipSuccess && facet_charge_resize(charge, pitched_bytes(pitch, height)) != FACET_MEMORY_CHARGED) {
        free_at_once((uintptr_t)*pointer, NULL);
        result = hipErrorOutOfMemory;
    }
    return settle_plain(charge, result, pointer);
}

static hipError_t charge_pitched(uint64_t width, uint64_t height, struct facet_memory_charge *ret_charge)
{
    return facet_hip_charge_take(facet_hip_current_device(),
                                 pitched_bytes(facet_memory_round(width, PITCH_STEP), height), ret_charge);
}

/* The number of rows of that width for which no device has memory. */
static size_t rows_beyond_device(const struct facet_memory_charge *charge, size_t width)
{
    size_t row = facet_memory_round(width, PITCH_STEP), beyond_bytes = facet_hip_probe_begin(charge->device, 0);

    return row && row < beyond_bytes ? beyond_bytes / row : 1;
}

static hipError_t refuse_pitched(const struct facet_memory_charge *charge, void *probe, hipError_t runtime_result)
{
    if (probe)
        facet_hip_driver.hipFree(probe);
    return facet_hip_probe_end(charge, runtime_result);
}

static hipError_t refuse_rows(const struct facet_memory_charge *charge, void **pointer, size_t *pitch, size_t width)
{
    size_t rows = rows_beyond_device(charge, width), chosen = 0;
    void *probe = NULL;
    hipError_t runtime_result =
        facet_hip_driver.hipMallocPitch(pointer ? &probe : NULL, pitch ? &chosen : NULL, width, rows);

    return refuse_pitched(charge, probe, runtime_result);
}

static hipError_t refuse_elements(const struct facet_memory_charge *charge, hipDeviceptr_t *pointer, size_t *pitch,
                                  size_t width, unsigned element)
{
    size_t rows = rows_beyond_device(charge, width), chosen = 0;
    hipDeviceptr_t probe = NULL;
    hipError_t runtime_result =
        facet_hip_driver.hipMemAllocPitch(pointer ? &probe : NULL, pitch ? &chosen : NULL, width, rows, element);

    return refuse_pitched(charge, (void *)probe, runtime_result);
}

static hipError_t refuse_extent(const struct facet_memory_charge *charge, hipPitchedPtr *pointer, size_t width)
{
    size_t rows = rows_beyond_device(charge, width);
    hipPitchedPtr probe = {0};
    hipError_t runtime_result =
        facet_hip_driver.hipMalloc3D(pointer ? &probe : NULL, (hipExtent){.width = width, .height = rows, .depth = 1});

    return refuse_pitched(charge, runtime_result == hipSuccess ? probe.ptr : NULL, runtime_result);
}

hipError_t facet_hipMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    struct facet_memory_charge charge;
    hipError_t result = charge_pitched(width, height, &charge);

    if (result != hipSuccess)
        return charge.refused ? refuse_rows(&charge, pointer, pitch, width) : result;
    result = facet_hip_driver.hipMallocPitch(pointer, pitch, width, height);
    return settle_pitched(&charge, result, pointer, result == hipSuccess ? *pitch : 0, height);
}

hipError_t facet_hipMemAllocPitch(hipDeviceptr_t *pointer, size_t *pitch, size_t width, size_t height, unsigned element)
{
    struct facet_memory_charge charge;
    hipError_t result = charge_pitched(width, height, &charge);

    if (result != hipSuccess)
        return charge.refused ? refuse_elements(&charge, pointer, pitch, width, element) : result;
    result = facet_hip_driver.hipMemAllocPitch(pointer, pitch, width, height, element);
    return settle_pitched(&charge, result, pointer, result == hipSuccess ? *pitch : 0, height);
}

hipError_t facet_hipMalloc3D(hipPitchedPtr *pointer, hipExtent extent)
{
    struct facet_memory_charge charge;
    uint64_t rows;

    if (__builtin_mul_overflow(extent.height, extent.depth, &rows))
        rows = UINT64_MAX;
    hipError_t result = charge_pitched(extent.width, rows, &charge);
    if (result != hipSuccess)
        return charge.refused ? refuse_extent(&charge, pointer, extent.width) : result;
    result = facet_hip_driver.hipMalloc3D(pointer, extent);
    return settle_pitched(&charge, result, pointer ? &pointer->ptr : NULL, result == hipSuccess ? pointer->pitch : 0,
                          rows);
}

/* Programs use hipFree(NULL) to initialize a device. */
hipError_t facet_hipFree(void *pointer)
{
    hipError_t result = pointer ? hipSuccess : facet_hip_initialize_device(facet_hip_current_device());

    if (result != hipSuccess)
        return result;
    return facet_charge_free(FACET_MEMORY_PLAIN, (uintptr_t)pointer, free_at_once, NULL);
}

/*
 * The charge is released when the free is enqueued. For memory of a pool, the pool stays charged until the stream
 * reaches the free. For other memory there is no way to learn when the runtime has freed it.
 */
hipError_t facet_hipFreeAsync(void *pointer, hipStream_t stream)
{
    return facet_charge_free(FACET_MEMORY_PLAIN, (uintptr_t)pointer, free_in_order, stream);
}
