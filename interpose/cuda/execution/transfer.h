/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy or fill as a launch: from a size on that keeps the device busy.
 *
 * Owns: the body of such a hook. Transfers of one kind and power of two are alike.
 * Never: changes what the call is given. What is small is passed through.
 */
#ifndef FACET_CUDA_TRANSFER_H
#define FACET_CUDA_TRANSFER_H

#include "launch.h"

#define FACET_CUDA_TRANSFER_LEAST (UINT64_C(1) << 20)

/* The name of the call stands for its kind: an address that no kernel has. */
static inline const void *facet_cuda_transfer_kind(const char *name)
{
    return name;
}

static inline uint64_t facet_cuda_transfer_class(uint64_t bytes)
{
    return 63u - (unsigned)__builtin_clzll(bytes);
}

/* How much is moved. Nothing is as large as what overflows: that is the driver's to refuse, as what is small. */
static inline uint64_t facet_cuda_transfer_times(uint64_t one, uint64_t other)
{
    uint64_t product;

    return __builtin_mul_overflow(one, other, &product) ? 0 : product;
}

static inline uint64_t facet_cuda_transfer_rows(const CUDA_MEMCPY2D *copy)
{
    return copy ? facet_cuda_transfer_times(copy->WidthInBytes, copy->Height) : 0;
}

static inline uint64_t facet_cuda_transfer_box(const CUDA_MEMCPY3D *copy)
{
    if (!copy)
        return 0;
    return facet_cuda_transfer_times(facet_cuda_transfer_times(copy->WidthInBytes, copy->Height), copy->Depth);
}

static inline uint64_t facet_cuda_transfer_box_of_peer(const CUDA_MEMCPY3D_PEER *copy)
{
    if (!copy)
        return 0;
    return facet_cuda_transfer_times(facet_cuda_transfer_times(copy->WidthInBytes, copy->Height), copy->Depth);
}

#define FACET_CUDA_TRANSFER(name, parameters, per_thread, amount, ...)                                                 \
    CUresult facet_##name parameters                                                                                   \
    {                                                                                                                  \
        struct facet_flight launch;                                                                                    \
        uint64_t bytes = amount;                                                                                       \
        void *target = facet_flight_stream_of(stream, per_thread);                                                     \
                                                                                                                       \
        if (bytes < FACET_CUDA_TRANSFER_LEAST)                                                                         \
            return facet_cuda_driver.name(__VA_ARGS__);                                                                \
        if (!facet_flight_begin(&launch, target, facet_cuda_transfer_kind(#name), facet_cuda_transfer_class(bytes)))   \
            return CUDA_ERROR_SYSTEM_NOT_READY;                                                                        \
        CUresult result = facet_cuda_driver.name(__VA_ARGS__);                                                         \
        facet_flight_end(&launch, target, result == CUDA_SUCCESS);                                                     \
        return result;                                                                                                 \
    }

/* Both forms of a call. */
#define FACET_CUDA_TRANSFERS(name, parameters, amount, ...)                                                            \
    FACET_CUDA_TRANSFER(name, parameters, false, amount, __VA_ARGS__)                                                  \
    FACET_CUDA_TRANSFER(name##_ptsz, parameters, true, amount, __VA_ARGS__)

#endif
