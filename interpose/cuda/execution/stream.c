/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the calls that destroy a stream. Never: ends a default stream's tracking, because such a stream never ends. */
#include "interpose/kit/execution/stream.h"

#include "interpose/cuda/hooks.h"
#include "interpose/kit/execution/counter.h"

static CUresult destroy_stream(CUstream stream, CUresult (*driver)(CUstream stream))
{
    if (!stream || facet_flight_stream_is_default(stream))
        return driver(stream);
    facet_flight_stream_ends(stream);
    CUresult result = driver(stream);
    facet_flight_stream_ended();
    return result;
}

CUresult facet_cuStreamDestroy(CUstream stream)
{
    return destroy_stream(stream, facet_cuda_driver.cuStreamDestroy);
}

CUresult facet_cuStreamDestroy_v2(CUstream stream)
{
    return destroy_stream(stream, facet_cuda_driver.cuStreamDestroy_v2);
}
