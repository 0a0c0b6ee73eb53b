/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: copies and fills of bytes, rows and boxes without a stream argument, which run in the default stream.
 * Never: waits longer than the driver: a copy within the device may go on after the call has returned.
 *
 * After a copy to the host, the program has waited for that copy and for all earlier work of its stream.
 */
#include "interpose/kit/execution/wait.h"
#include "transfer.h"

static const CUstream stream = NULL; /* the stream of every call in this file */

#define COPIES(name, parameters, amount, ...)                                                                          \
    FACET_CUDA_TRANSFER(name, parameters, false, amount, __VA_ARGS__)                                                  \
    FACET_CUDA_TRANSFER(name##_ptds, parameters, true, amount, __VA_ARGS__)

static enum facet_flight_copy copy_direction(CUmemorytype type)
{
    if (type == CU_MEMORYTYPE_UNIFIED)
        return FACET_FLIGHT_COPY_UNKNOWN;
    return type == CU_MEMORYTYPE_HOST ? FACET_FLIGHT_COPY_TO_HOST : FACET_FLIGHT_COPY_NOT_TO_HOST;
}

static enum facet_flight_copy rows_direction(const CUDA_MEMCPY2D *copy)
{
    return copy ? copy_direction(copy->dstMemoryType) : FACET_FLIGHT_COPY_NOT_TO_HOST;
}

static enum facet_flight_copy box_direction(const CUDA_MEMCPY3D *copy)
{
    return copy ? copy_direction(copy->dstMemoryType) : FACET_FLIGHT_COPY_NOT_TO_HOST;
}

#define COPY_TO_HOST(name, parameters, per_thread, amount, to_where, ...)                                              \
    static CUresult copy_##name parameters                                                                             \
    {                                                                                                                  \
        FACET_FLIGHT_TRANSFER(CUresult, CUDA_ERROR_SYSTEM_NOT_READY, #name,                                            \
                              facet_flight_stream_of(stream, per_thread), amount,                                      \
                              facet_cuda_driver.name(__VA_ARGS__));                                                    \
    }                                                                                                                  \
    CUresult facet_##name parameters                                                                                   \
    {                                                                                                                  \
        void *target = facet_flight_stream_of(stream, per_thread);                                                     \
        enum facet_flight_copy direction = to_where;                                                                   \
        struct facet_flight_wait wait;                                                                                 \
                                                                                                                       \
        facet_flight_copy_begins(&wait, target, direction);                                                            \
        CUresult result = copy_##name(__VA_ARGS__);                                                                    \
        facet_flight_copy_ended(&wait, target, direction, result == CUDA_SUCCESS);                                     \
        return result;                                                                                                 \
    }
#define COPIES_TO_HOST(name, parameters, amount, to_where, ...)                                                        \
    COPY_TO_HOST(name, parameters, false, amount, to_where, __VA_ARGS__)                                               \
    COPY_TO_HOST(name##_ptds, parameters, true, amount, to_where, __VA_ARGS__)

COPIES_TO_HOST(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t size), size, FACET_FLIGHT_COPY_UNKNOWN, to, from,
               size)
COPIES(cuMemcpyPeer, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size),
       size, to, to_context, from, from_context, size)
COPIES(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t size), size, to, from, size)
COPIES_TO_HOST(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t size), size, FACET_FLIGHT_COPY_TO_HOST, to, from,
               size)
COPIES(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t size), size, to, from, size)
COPIES(cuMemcpyDtoA_v2, (CUarray to, size_t offset, CUdeviceptr from, size_t size), size, to, offset, from, size)
COPIES(cuMemcpyAtoD_v2, (CUdeviceptr to, CUarray from, size_t offset, size_t size), size, to, from, offset, size)
COPIES(cuMemcpyHtoA_v2, (CUarray to, size_t offset, const void *from, size_t size), size, to, offset, from, size)
COPIES_TO_HOST(cuMemcpyAtoH_v2, (void *to, CUarray from, size_t offset, size_t size), size, FACET_FLIGHT_COPY_TO_HOST,
               to, from, offset, size)
COPIES(cuMemcpyAtoA_v2, (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t size), size, to,
       to_offset, from, from_offset, size)
COPIES_TO_HOST(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy), facet_cuda_transfer_rows(copy), rows_direction(copy), copy)
COPIES_TO_HOST(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy), facet_cuda_transfer_rows(copy),
               rows_direction(copy), copy)
COPIES_TO_HOST(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *copy), facet_cuda_transfer_box(copy), box_direction(copy), copy)
COPIES(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *copy), facet_cuda_transfer_box_of_peer(copy), copy)
COPIES(cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t count), count, to, value, count)
COPIES(cuMemsetD16_v2, (CUdeviceptr to, unsigned short value, size_t count), facet_cuda_transfer_times(2, count), to,
       value, count)
COPIES(cuMemsetD32_v2, (CUdeviceptr to, unsigned value, size_t count), facet_cuda_transfer_times(4, count), to, value,
       count)
COPIES(cuMemsetD2D8_v2, (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height),
       facet_cuda_transfer_times(width, height), to, pitch, value, width, height)
COPIES(cuMemsetD2D16_v2, (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height),
       facet_cuda_transfer_times(2, facet_cuda_transfer_times(width, height)), to, pitch, value, width, height)
COPIES(cuMemsetD2D32_v2, (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height),
       facet_cuda_transfer_times(4, facet_cuda_transfer_times(width, height)), to, pitch, value, width, height)
