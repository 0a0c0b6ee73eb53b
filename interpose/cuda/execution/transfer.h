/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the body of the hook of a copy or fill, and the sizes of copies. Never: changes the arguments of the call. */
#ifndef FACET_CUDA_TRANSFER_H
#define FACET_CUDA_TRANSFER_H

#include "interpose/kit/execution/transfer.h"
#include "launch.h"

/*
 * The product of two sizes. A product that overflows counts as 0: no memory is that large, and the driver refuses the
 * call.
 */
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
        FACET_FLIGHT_TRANSFER(CUresult, CUDA_ERROR_SYSTEM_NOT_READY, #name,                                            \
                              facet_flight_stream_of(stream, per_thread), amount,                                      \
                              facet_cuda_driver.name(__VA_ARGS__));                                                    \
    }

/* Both forms of a call: for the legacy and for the per-thread default stream. */
#define FACET_CUDA_TRANSFERS(name, parameters, amount, ...)                                                            \
    FACET_CUDA_TRANSFER(name, parameters, false, amount, __VA_ARGS__)                                                  \
    FACET_CUDA_TRANSFER(name##_ptsz, parameters, true, amount, __VA_ARGS__)

#endif
