/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the body of the hook of a copy or fill, and the sizes of copies. Never: changes the arguments of the call. */
#ifndef FACET_HIP_TRANSFER_H
#define FACET_HIP_TRANSFER_H

#include "interpose/kit/execution/transfer.h"
#include "interpose/kit/execution/wait.h"
#include "launch.h"

/*
 * The size of the largest element of an array. It is assumed for all arrays, because tracking a small copy costs
 * little.
 */
#define FACET_HIP_TRANSFER_ELEMENT 16u

/*
 * The product of two sizes. A product that overflows counts as 0: no memory is that large, and the runtime refuses the
 * call.
 */
static inline uint64_t facet_hip_transfer_times(uint64_t one, uint64_t other)
{
    uint64_t product;

    return __builtin_mul_overflow(one, other, &product) ? 0 : product;
}

static inline uint64_t facet_hip_transfer_box(hipExtent extent, bool of_array)
{
    uint64_t bytes = facet_hip_transfer_times(facet_hip_transfer_times(extent.width, extent.height), extent.depth);

    return of_array ? facet_hip_transfer_times(bytes, FACET_HIP_TRANSFER_ELEMENT) : bytes;
}

static inline uint64_t facet_hip_transfer_copy(const hipMemcpy3DParms *copy)
{
    return copy ? facet_hip_transfer_box(copy->extent, copy->srcArray || copy->dstArray) : 0;
}

static inline uint64_t facet_hip_transfer_peer_copy(const hipMemcpy3DPeerParms *copy)
{
    return copy ? facet_hip_transfer_box(copy->extent, copy->srcArray || copy->dstArray) : 0;
}

static inline uint64_t facet_hip_transfer_rows(const hip_Memcpy2D *copy)
{
    return copy ? facet_hip_transfer_times(copy->WidthInBytes, copy->Height) : 0;
}

/* The struct differs between releases, so it is not read; each such copy counts as just large enough to be tracked. */
static inline uint64_t facet_hip_transfer_unknown(const HIP_MEMCPY3D *copy)
{
    return copy ? FACET_FLIGHT_TRANSFER_LEAST : 0;
}

/* After a copy to the host, the program has waited for that copy and for all earlier work of its stream. */
static inline enum facet_flight_copy facet_hip_transfer_direction(hipMemcpyKind kind)
{
    if (kind == hipMemcpyDefault)
        return FACET_FLIGHT_COPY_UNKNOWN;
    return kind == hipMemcpyDeviceToHost ? FACET_FLIGHT_COPY_TO_HOST : FACET_FLIGHT_COPY_NOT_TO_HOST;
}

/* The hook of a copy without a stream argument that may go to the host, around copy_##name. */
#define FACET_HIP_TO_HOST(name, parameters, per_thread, where, ...)                                                    \
    hipError_t facet_##name parameters                                                                                 \
    {                                                                                                                  \
        void *facet_target = facet_flight_stream_of(stream, per_thread);                                               \
        enum facet_flight_copy facet_direction = where;                                                                \
        struct facet_flight_wait facet_wait;                                                                           \
                                                                                                                       \
        facet_flight_copy_begins(&facet_wait, facet_target, facet_direction);                                          \
        hipError_t facet_result = copy_##name(__VA_ARGS__);                                                            \
        facet_flight_copy_ended(&facet_wait, facet_target, facet_direction, facet_result == hipSuccess);               \
        return facet_result;                                                                                           \
    }

/* The body of a hook, after the device is initialized; `call` is the call to the runtime. */
#define FACET_HIP_TRANSFER_BODY(name, per_thread, amount, call)                                                        \
    FACET_FLIGHT_TRANSFER(hipError_t, facet_hip_refuse(), #name, facet_flight_stream_of(stream, per_thread), amount,   \
                          call)

#define FACET_HIP_TRANSFER(name, parameters, per_thread, amount, ...)                                                  \
    hipError_t facet_##name parameters                                                                                 \
    {                                                                                                                  \
        FACET_HIP_TRANSFER_BODY(name, per_thread, amount, facet_hip_driver.name(__VA_ARGS__));                         \
    }

/* Both forms of a call: for the legacy and for the per-thread default stream. */
#define FACET_HIP_TRANSFERS(name, parameters, amount, ...)                                                             \
    FACET_HIP_TRANSFER(name, parameters, false, amount, __VA_ARGS__)                                                   \
    FACET_HIP_TRANSFER(name##_spt, parameters, true, amount, __VA_ARGS__)

#endif
