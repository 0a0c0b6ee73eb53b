/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: copies and fills in stream order, from a size on that keeps the device busy.
 * Never: changes what they are given. What is small is passed through.
 */
#include "launch.h"

#define LEAST_BYTES (UINT64_C(1) << 20)

/* Transfers of one kind and power of two are alike. */
#define TRANSFER(name, parameters, per_thread, amount, ...)                                                            \
    hipError_t facet_##name parameters                                                                                 \
    {                                                                                                                  \
        struct facet_flight launch;                                                                                    \
        uint64_t bytes = amount;                                                                                       \
        void *target = facet_flight_stream_of(stream, per_thread);                                                     \
                                                                                                                       \
        if (bytes < LEAST_BYTES)                                                                                       \
            return facet_hip_driver.name(__VA_ARGS__);                                                                 \
        if (!facet_flight_begin(&launch, target, kind_of(#name), size_class(bytes)))                                   \
            return facet_hip_refuse();                                                                                 \
        hipError_t result = facet_hip_driver.name(__VA_ARGS__);                                                        \
        facet_flight_end(&launch, target, result == hipSuccess);                                                       \
        return result;                                                                                                 \
    }
#define BOTH(name, parameters, amount, ...)                                                                            \
    TRANSFER(name, parameters, false, amount, __VA_ARGS__)                                                             \
    TRANSFER(name##_spt, parameters, true, amount, __VA_ARGS__)

/* The name of the call stands for its kind: an address that no kernel has. */
static const void *kind_of(const char *name)
{
    return name;
}

static uint64_t size_class(uint64_t bytes)
{
    return 63u - (unsigned)__builtin_clzll(bytes);
}

BOTH(hipMemcpyAsync, (void *to, const void *from, size_t size, hipMemcpyKind kind, hipStream_t stream), size, to, from,
     size, kind, stream)
TRANSFER(hipMemcpyWithStream, (void *to, const void *from, size_t size, hipMemcpyKind kind, hipStream_t stream), false,
         size, to, from, size, kind, stream)
TRANSFER(hipMemcpyHtoDAsync, (hipDeviceptr_t to, void *from, size_t size, hipStream_t stream), false, size, to, from,
         size, stream)
TRANSFER(hipMemcpyDtoHAsync, (void *to, hipDeviceptr_t from, size_t size, hipStream_t stream), false, size, to, from,
         size, stream)
TRANSFER(hipMemcpyDtoDAsync, (hipDeviceptr_t to, hipDeviceptr_t from, size_t size, hipStream_t stream), false, size, to,
         from, size, stream)
TRANSFER(hipMemcpyPeerAsync,
         (void *to, int to_device, const void *from, int from_device, size_t size, hipStream_t stream), false, size, to,
         to_device, from, from_device, size, stream)
BOTH(hipMemsetAsync, (void *to, int value, size_t size, hipStream_t stream), size, to, value, size, stream)
BOTH(hipMemset2DAsync, (void *to, size_t pitch, int value, size_t width, size_t height, hipStream_t stream),
     width *height, to, pitch, value, width, height, stream)
TRANSFER(hipMemsetD8Async, (hipDeviceptr_t to, unsigned char value, size_t count, hipStream_t stream), false, count, to,
         value, count, stream)
TRANSFER(hipMemsetD16Async, (hipDeviceptr_t to, unsigned short value, size_t count, hipStream_t stream), false,
         2 * count, to, value, count, stream)
TRANSFER(hipMemsetD32Async, (hipDeviceptr_t to, int value, size_t count, hipStream_t stream), false, 4 * count, to,
         value, count, stream)
