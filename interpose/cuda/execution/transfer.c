/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: copies and fills in stream order, from a size on that keeps the device busy.
 * Never: changes what they are given. What is small is passed through.
 */
#include "launch.h"

#define LEAST_BYTES (UINT64_C(1) << 20)

/* Transfers of one kind and power of two are alike. */
#define TRANSFER(name, parameters, per_thread, amount, ...)                                                            \
    CUresult facet_##name parameters                                                                                   \
    {                                                                                                                  \
        struct facet_flight launch;                                                                                    \
        uint64_t bytes = amount;                                                                                       \
        void *target = facet_flight_stream_of(stream, per_thread);                                                     \
                                                                                                                       \
        if (bytes < LEAST_BYTES)                                                                                       \
            return facet_cuda_driver.name(__VA_ARGS__);                                                                \
        if (!facet_flight_begin(&launch, target, kind_of(#name), size_class(bytes)))                                   \
            return CUDA_ERROR_SYSTEM_NOT_READY;                                                                        \
        CUresult result = facet_cuda_driver.name(__VA_ARGS__);                                                         \
        facet_flight_end(&launch, target, result == CUDA_SUCCESS);                                                     \
        return result;                                                                                                 \
    }
#define BOTH(name, parameters, amount, ...)                                                                            \
    TRANSFER(name, parameters, false, amount, __VA_ARGS__)                                                             \
    TRANSFER(name##_ptsz, parameters, true, amount, __VA_ARGS__)

/* The name of the call stands for its kind: an address that no kernel has. */
static const void *kind_of(const char *name)
{
    return name;
}

static uint64_t size_class(uint64_t bytes)
{
    return 63u - (unsigned)__builtin_clzll(bytes);
}

BOTH(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), size, to, from, size, stream)
BOTH(cuMemcpyPeerAsync,
     (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size, CUstream stream),
     size, to, to_context, from, from_context, size, stream)
BOTH(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t size, CUstream stream), size, to, from, size,
     stream)
BOTH(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t size, CUstream stream), size, to, from, size, stream)
BOTH(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), size, to, from, size,
     stream)
BOTH(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream), count, to, value, count,
     stream)
BOTH(cuMemsetD16Async, (CUdeviceptr to, unsigned short value, size_t count, CUstream stream), 2 * count, to, value,
     count, stream)
BOTH(cuMemsetD32Async, (CUdeviceptr to, unsigned value, size_t count, CUstream stream), 4 * count, to, value, count,
     stream)
BOTH(cuMemsetD2D8Async,
     (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream), width *height,
     to, pitch, value, width, height, stream)
BOTH(cuMemsetD2D16Async,
     (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream),
     2 * width * height, to, pitch, value, width, height, stream)
BOTH(cuMemsetD2D32Async, (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream),
     4 * width * height, to, pitch, value, width, height, stream)
