/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the calls that begin and end a capture. Never: changes a capture (interpose/kit/execution/capture.h). */
#include "interpose/kit/execution/capture.h"

#include "interpose/cuda/hooks.h"
#include "interpose/kit/execution/counter.h"

static CUresult capture_begun(struct facet_flight_origin *origin, void *stream, CUresult result)
{
    facet_flight_capture_begun(origin, stream, result == CUDA_SUCCESS);
    return result;
}

static CUresult capture_ended(void *stream, CUresult result)
{
    facet_flight_capture_ended(stream);
    return result;
}

#define BEGIN(name, parameters, per_thread, ...)                                                                       \
    CUresult facet_##name parameters                                                                                   \
    {                                                                                                                  \
        struct facet_flight_origin *origin = facet_flight_capture_begin();                                             \
                                                                                                                       \
        if (!origin)                                                                                                   \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                                           \
        return capture_begun(origin, facet_flight_stream_of(stream, per_thread), facet_cuda_driver.name(__VA_ARGS__)); \
    }

#define TO_GRAPH_PARAMETERS                                                                                            \
    (CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count,      \
     CUstreamCaptureMode mode)

BEGIN(cuStreamBeginCapture, (CUstream stream), false, stream)
BEGIN(cuStreamBeginCapture_ptsz, (CUstream stream), true, stream)
BEGIN(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), false, stream, mode)
BEGIN(cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode), true, stream, mode)
BEGIN(cuStreamBeginCaptureToGraph, TO_GRAPH_PARAMETERS, false, stream, graph, dependencies, edges, count, mode)
BEGIN(cuStreamBeginCaptureToGraph_ptsz, TO_GRAPH_PARAMETERS, true, stream, graph, dependencies, edges, count, mode)

CUresult facet_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    return capture_ended(facet_flight_stream_of(stream, false), facet_cuda_driver.cuStreamEndCapture(stream, graph));
}

CUresult facet_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
    return capture_ended(facet_flight_stream_of(stream, true),
                         facet_cuda_driver.cuStreamEndCapture_ptsz(stream, graph));
}
