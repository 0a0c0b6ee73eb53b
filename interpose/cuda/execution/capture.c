/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: which captures are going on, so that nobody of ours touches a stream that is captured.
 * Never: changes what a capture does. From before one begins until after it ended the helper asks for no stream, as a
 * question to a capturing stream ends its capture; and launches look whether theirs is captured.
 */
#include "capture.h"

#include <stdlib.h>

#include "interpose/cuda/hooks.h"
#include "track.h"

/* Where a capture began: it ends there. A thread's own stream is known by its thread. */
struct origin {
    CUstream stream;
    CUcontext context;
    pthread_t thread;
    struct origin *next;
};

static struct origin *origins; /* under the track lock */

static bool is_origin(const struct origin *origin, CUstream stream, CUcontext context)
{
    if (origin->stream != stream || (context && origin->context != context))
        return false;
    return stream != CU_STREAM_PER_THREAD || pthread_equal(origin->thread, pthread_self());
}

/* Takes out what a stream, or a whole context, had begun. */
static void forget(CUstream stream, CUcontext context)
{
    pthread_mutex_lock(&facet_cuda_track_lock);
    for (struct origin **at = &origins; *at;) {
        struct origin *origin = *at;

        if (stream ? !is_origin(origin, stream, context) : origin->context != context) {
            at = &origin->next;
            continue;
        }
        *at = origin->next;
        free(origin);
        atomic_fetch_sub(&facet_cuda_captures, 1);
    }
    pthread_mutex_unlock(&facet_cuda_track_lock);
}

void facet_cuda_capture_stream_ends(CUstream stream)
{
    if (atomic_load(&facet_cuda_captures))
        forget(stream, NULL);
}

void facet_cuda_capture_context_ends(CUcontext context)
{
    if (atomic_load(&facet_cuda_captures))
        forget(NULL, context);
}

void facet_cuda_captures_forked(void)
{
    origins = NULL;
    atomic_store(&facet_cuda_captures, 0);
}

static void remember(struct origin *origin, CUstream stream)
{
    *origin = (struct origin){.stream = stream, .thread = pthread_self()};
    if (facet_cuda_plain.cuStreamGetCtx(stream, &origin->context) != CUDA_SUCCESS)
        origin->context = NULL;
    pthread_mutex_lock(&facet_cuda_track_lock);
    origin->next = origins;
    origins = origin;
    pthread_mutex_unlock(&facet_cuda_track_lock);
}

/* Counted before the driver is asked; the helper, when it is just asking for something, is waited for. */
static struct origin *begin(void)
{
    struct origin *origin = malloc(sizeof *origin);

    if (!origin)
        return NULL;
    atomic_fetch_add(&facet_cuda_captures, 1);
    facet_cuda_track_hold();
    return origin;
}

static CUresult begun(struct origin *origin, CUstream stream, CUresult result)
{
    if (result == CUDA_SUCCESS) {
        remember(origin, stream);
    } else {
        atomic_fetch_sub(&facet_cuda_captures, 1);
        free(origin);
    }
    facet_cuda_track_release();
    return result;
}

/* A capture may go on after an end that failed (of another thread, of another stream). */
static CUresult ended(CUstream stream, CUresult result)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    if (facet_cuda_plain.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
        status == CU_STREAM_CAPTURE_STATUS_NONE)
        forget(stream, NULL);
    return result;
}

#define BEGIN(name, parameters, per_thread, ...)                                                                       \
    CUresult facet_##name parameters                                                                                   \
    {                                                                                                                  \
        struct origin *origin = begin();                                                                               \
                                                                                                                       \
        if (!origin)                                                                                                   \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                                           \
        return begun(origin, facet_cuda_stream_of(stream, per_thread), facet_cuda_driver.name(__VA_ARGS__));           \
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
    return ended(facet_cuda_stream_of(stream, false), facet_cuda_driver.cuStreamEndCapture(stream, graph));
}

CUresult facet_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
    return ended(facet_cuda_stream_of(stream, true), facet_cuda_driver.cuStreamEndCapture_ptsz(stream, graph));
}
