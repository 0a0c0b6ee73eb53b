/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy or fill as a launch: from a size on that keeps the device busy.
 *
 * Owns: the body of such a hook. Transfers of one kind and power of two are alike.
 * Never: changes what the call is given. What is small is passed through.
 */
#ifndef FACET_HIP_TRANSFER_H
#define FACET_HIP_TRANSFER_H

#include "launch.h"

#define FACET_HIP_TRANSFER_LEAST (UINT64_C(1) << 20)

/* An array's elements are of up to so many bytes: it does not say how many, and one that is followed costs little. */
#define FACET_HIP_TRANSFER_ELEMENT 16u

/* The name of the call stands for its kind: an address that no kernel has. */
static inline const void *facet_hip_transfer_kind(const char *name)
{
    return name;
}

static inline uint64_t facet_hip_transfer_class(uint64_t bytes)
{
    return 63u - (unsigned)__builtin_clzll(bytes);
}

/* How much is moved. Nothing is as large as what overflows: that is the runtime's to refuse, as what is small. */
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

/* The body, behind what has begun; `call` is the runtime's. */
#define FACET_HIP_TRANSFER_BODY(name, per_thread, amount, call)                                                        \
    struct facet_flight launch;                                                                                        \
    uint64_t bytes = amount;                                                                                           \
    void *target = facet_flight_stream_of(stream, per_thread);                                                         \
                                                                                                                       \
    if (bytes < FACET_HIP_TRANSFER_LEAST)                                                                              \
        return call;                                                                                                   \
    if (!facet_flight_begin(&launch, target, facet_hip_transfer_kind(#name), facet_hip_transfer_class(bytes)))         \
        return facet_hip_refuse();                                                                                     \
    hipError_t done = call;                                                                                            \
    facet_flight_end(&launch, target, done == hipSuccess);                                                             \
    return done

#define FACET_HIP_TRANSFER(name, parameters, per_thread, amount, ...)                                                  \
    hipError_t facet_##name parameters                                                                                 \
    {                                                                                                                  \
        FACET_HIP_TRANSFER_BODY(name, per_thread, amount, facet_hip_driver.name(__VA_ARGS__));                         \
    }

/* Both forms of a call. */
#define FACET_HIP_TRANSFERS(name, parameters, amount, ...)                                                             \
    FACET_HIP_TRANSFER(name, parameters, false, amount, __VA_ARGS__)                                                   \
    FACET_HIP_TRANSFER(name##_spt, parameters, true, amount, __VA_ARGS__)

#endif
