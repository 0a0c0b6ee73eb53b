/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the call that destroys a stream. Never: ends a default stream's tracking, because such a stream never ends. */
#include "interpose/kit/execution/stream.h"

#include "interpose/hip/hooks.h"
#include "interpose/kit/execution/counter.h"

hipError_t facet_hipStreamDestroy(hipStream_t stream)
{
    if (!stream || facet_flight_stream_is_default(stream))
        return facet_hip_driver.hipStreamDestroy(stream);
    facet_flight_stream_ends(stream);
    hipError_t result = facet_hip_driver.hipStreamDestroy(stream);
    facet_flight_stream_ended();
    return result;
}
