/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: copies and fills of bytes, rows and boxes without a stream argument, which run in the default stream. They may
 * initialize a device.
 * Never: waits longer than the runtime does.
 */
#include "transfer.h"

#include "interpose/hip/initialize.h"

static const hipStream_t stream = NULL; /* the stream of every call in this file */

#define COPY_BODY(name, per_thread, amount, ...)                                                                       \
    {                                                                                                                  \
        hipError_t initialized = facet_hip_initialize_device(facet_hip_current_device());                              \
                                                                                                                       \
        if (initialized != hipSuccess)                                                                                 \
            return initialized;                                                                                        \
        FACET_HIP_TRANSFER_BODY(name, per_thread, amount, facet_hip_driver.name(__VA_ARGS__));                         \
    }
#define COPY(name, parameters, per_thread, amount, ...)                                                                \
    hipError_t facet_##name parameters COPY_BODY(name, per_thread, amount, __VA_ARGS__)
#define COPIES(name, parameters, amount, ...)                                                                          \
    COPY(name, parameters, false, amount, __VA_ARGS__)                                                                 \
    COPY(name##_spt, parameters, true, amount, __VA_ARGS__)

/* Copies that may go to the host. */
#define COPY_TO_HOST(name, parameters, per_thread, amount, where, ...)                                                 \
    static hipError_t copy_##name parameters COPY_BODY(name, per_thread, amount, __VA_ARGS__)                          \
        FACET_HIP_TO_HOST(name, parameters, per_thread, where, __VA_ARGS__)
#define COPIES_TO_HOST(name, parameters, amount, where, ...)                                                           \
    COPY_TO_HOST(name, parameters, false, amount, where, __VA_ARGS__)                                                  \
    COPY_TO_HOST(name##_spt, parameters, true, amount, where, __VA_ARGS__)

/* A copy within the host gives the device no work. */
static uint64_t device_bytes(size_t size, hipMemcpyKind kind)
{
    return kind == hipMemcpyHostToHost ? 0 : size;
}

COPIES_TO_HOST(hipMemcpy, (void *to, const void *from, size_t size, hipMemcpyKind kind), device_bytes(size, kind),
               facet_hip_transfer_direction(kind), to, from, size, kind)
COPY(hipMemcpyHtoD, (hipDeviceptr_t to, void *from, size_t size), false, size, to, from, size)
COPY_TO_HOST(hipMemcpyDtoH, (void *to, hipDeviceptr_t from, size_t size), false, size, FACET_FLIGHT_COPY_TO_HOST, to,
             from, size)
COPY(hipMemcpyDtoD, (hipDeviceptr_t to, hipDeviceptr_t from, size_t size), false, size, to, from, size)
COPY(hipMemcpyPeer, (void *to, int to_device, const void *from, int from_device, size_t size), false, size, to,
     to_device, from, from_device, size)
COPY(hipMemcpyAtoA, (hipArray_t to, size_t to_offset, hipArray_t from, size_t from_offset, size_t size), false, size,
     to, to_offset, from, from_offset, size)
COPY(hipMemcpyAtoD, (hipDeviceptr_t to, hipArray_t from, size_t offset, size_t size), false, size, to, from, offset,
     size)
COPY_TO_HOST(hipMemcpyAtoH, (void *to, hipArray_t from, size_t offset, size_t size), false, size,
             FACET_FLIGHT_COPY_TO_HOST, to, from, offset, size)
COPY(hipMemcpyDtoA, (hipArray_t to, size_t offset, hipDeviceptr_t from, size_t size), false, size, to, offset, from,
     size)
COPY(hipMemcpyHtoA, (hipArray_t to, size_t offset, const void *from, size_t size), false, size, to, offset, from, size)
COPY(hipMemcpyToArray, (hipArray_t to, size_t x, size_t y, const void *from, size_t size, hipMemcpyKind kind), false,
     size, to, x, y, from, size, kind)
COPIES_TO_HOST(hipMemcpyFromArray, (void *to, hipArray_t from, size_t x, size_t y, size_t size, hipMemcpyKind kind),
               size, facet_hip_transfer_direction(kind), to, from, x, y, size, kind)

COPIES_TO_HOST(hipMemcpy2D, (VENDOR_HIP_ROWS), device_bytes(facet_hip_transfer_times(width, height), kind),
               facet_hip_transfer_direction(kind), to, to_pitch, from, from_pitch, width, height, kind)
COPIES(hipMemcpy2DToArray, (VENDOR_HIP_ROWS_TO_ARRAY), facet_hip_transfer_times(width, height), to, x, y, from,
       from_pitch, width, height, kind)
COPIES_TO_HOST(hipMemcpy2DFromArray, (VENDOR_HIP_ROWS_FROM_ARRAY), facet_hip_transfer_times(width, height),
               facet_hip_transfer_direction(kind), to, to_pitch, from, x, y, width, height, kind)
COPY(hipMemcpy2DArrayToArray,
     (hipArray_t to, size_t to_x, size_t to_y, hipArray_t from, size_t from_x, size_t from_y, size_t width,
      size_t height, hipMemcpyKind kind),
     false, facet_hip_transfer_times(width, height), to, to_x, to_y, from, from_x, from_y, width, height, kind)
COPY_TO_HOST(hipMemcpyParam2D, (const hip_Memcpy2D *copy), false, facet_hip_transfer_rows(copy),
             FACET_FLIGHT_COPY_UNKNOWN, copy)
COPY_TO_HOST(hipDrvMemcpy2DUnaligned, (const hip_Memcpy2D *copy), false, facet_hip_transfer_rows(copy),
             FACET_FLIGHT_COPY_UNKNOWN, copy)
COPY_TO_HOST(hipDrvMemcpy3D, (const HIP_MEMCPY3D *copy), false, facet_hip_transfer_unknown(copy),
             FACET_FLIGHT_COPY_UNKNOWN, copy)
COPIES_TO_HOST(hipMemcpy3D, (const hipMemcpy3DParms *copy), facet_hip_transfer_copy(copy),
               copy ? facet_hip_transfer_direction(copy->kind) : FACET_FLIGHT_COPY_NOT_TO_HOST, copy)
COPY(hipMemcpy3DPeer, (hipMemcpy3DPeerParms * copy), false, facet_hip_transfer_peer_copy(copy), copy)

COPIES(hipMemset, (void *to, int value, size_t size), size, to, value, size)
COPIES(hipMemset2D, (void *to, size_t pitch, int value, size_t width, size_t height),
       facet_hip_transfer_times(width, height), to, pitch, value, width, height)
COPIES(hipMemset3D, (VENDOR_HIP_FILL_BOX), facet_hip_transfer_box(extent, false), to, value, extent)
COPY(hipMemsetD8, (hipDeviceptr_t to, unsigned char value, size_t count), false, count, to, value, count)
COPY(hipMemsetD16, (hipDeviceptr_t to, unsigned short value, size_t count), false, facet_hip_transfer_times(2, count),
     to, value, count)
COPY(hipMemsetD32, (hipDeviceptr_t to, int value, size_t count), false, facet_hip_transfer_times(4, count), to, value,
     count)
COPY(hipMemsetD2D8, (hipDeviceptr_t to, size_t pitch, unsigned char value, size_t width, size_t height), false,
     facet_hip_transfer_times(width, height), to, pitch, value, width, height)
COPY(hipMemsetD2D16, (hipDeviceptr_t to, size_t pitch, unsigned short value, size_t width, size_t height), false,
     facet_hip_transfer_times(2, facet_hip_transfer_times(width, height)), to, pitch, value, width, height)
COPY(hipMemsetD2D32, (hipDeviceptr_t to, size_t pitch, unsigned value, size_t width, size_t height), false,
     facet_hip_transfer_times(4, facet_hip_transfer_times(width, height)), to, pitch, value, width, height)
