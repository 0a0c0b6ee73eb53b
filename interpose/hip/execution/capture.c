/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the calls that begin and end a capture. Never: changes a capture (interpose/kit/execution/capture.h). */
#include "interpose/kit/execution/capture.h"

#include "interpose/hip/hooks.h"
#include "interpose/kit/execution/counter.h"

static hipError_t capture_begun(struct facet_flight_origin *origin, void *stream, hipError_t result)
{
    facet_flight_capture_begun(origin, stream, result == hipSuccess);
    return result;
}

static hipError_t capture_ended(void *stream, hipError_t result)
{
    facet_flight_capture_ended(stream);
    return result;
}

#define BEGIN(name, parameters, per_thread, ...)                                                                       \
    hipError_t facet_##name parameters                                                                                 \
    {                                                                                                                  \
        struct facet_flight_origin *origin = facet_flight_capture_begin();                                             \
                                                                                                                       \
        if (!origin)                                                                                                   \
            return hipErrorOutOfMemory;                                                                                \
        return capture_begun(origin, facet_flight_stream_of(stream, per_thread), facet_hip_driver.name(__VA_ARGS__));  \
    }

#define TO_GRAPH_PARAMETERS                                                                                            \
    (hipStream_t stream, hipGraph_t graph, const hipGraphNode_t *dependencies, const hipGraphEdgeData *edges,          \
     size_t count, hipStreamCaptureMode mode)

BEGIN(hipStreamBeginCapture, (hipStream_t stream, hipStreamCaptureMode mode), false, stream, mode)
BEGIN(hipStreamBeginCapture_spt, (hipStream_t stream, hipStreamCaptureMode mode), true, stream, mode)
BEGIN(hipStreamBeginCaptureToGraph, TO_GRAPH_PARAMETERS, false, stream, graph, dependencies, edges, count, mode)

hipError_t facet_hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
    return capture_ended(facet_flight_stream_of(stream, false), facet_hip_driver.hipStreamEndCapture(stream, graph));
}

hipError_t facet_hipStreamEndCapture_spt(hipStream_t stream, hipGraph_t *graph)
{
    return capture_ended(facet_flight_stream_of(stream, true), facet_hip_driver.hipStreamEndCapture_spt(stream, graph));
}
