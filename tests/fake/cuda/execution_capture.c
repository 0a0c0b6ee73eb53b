/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: captures and their rules: the effect of forbidden calls on them.
 * Never: tolerates a forbidden call on a capturing stream: it ends the capture, as in the real driver.
 */
#include "execution.h"

/* All captures that were begun and not ended; under the lock. `capture_count`, read without the lock, counts them. */
static struct fake_capture *captures;
static _Atomic uint32_t capture_count;
static _Atomic uint64_t next_id = 1;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static bool is_any_capturing(void)
{
    return atomic_load_explicit(&capture_count, memory_order_relaxed) != 0;
}

/* ---- forbidden calls ---- */

/* The legacy stream would order itself against a stream that is captured. Called with the lock. */
static bool captures_legacy(const struct fake_capture *capture, const struct CUstream_st *stream)
{
    return stream->legacy && capture->origin->context == stream->context &&
           !(capture->origin->flags & CU_STREAM_NON_BLOCKING);
}

static CUresult invalidate_for_legacy(CUstream stream)
{
    CUresult result = CUDA_SUCCESS;

    for (struct fake_capture *capture = captures; capture; capture = capture->next)
        if (captures_legacy(capture, stream)) {
            capture->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    return result;
}

static CUresult capture_wait(CUstream stream)
{
    if (!stream->capture)
        return invalidate_for_legacy(stream);
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult fake_capture_wait(CUstream stream)
{
    if (!is_any_capturing())
        return CUDA_SUCCESS;
    CUresult result = fake_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&fake_execution_lock);
    result = capture_wait(stream);
    pthread_mutex_unlock(&fake_execution_lock);
    return result;
}

CUresult fake_capture_wait_context(CUcontext context)
{
    CUresult result = CUDA_SUCCESS;

    if (!is_any_capturing())
        return CUDA_SUCCESS;
    pthread_mutex_lock(&fake_execution_lock);
    for (struct fake_capture *capture = captures; capture; capture = capture->next)
        if (capture->origin->context == context) {
            capture->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    pthread_mutex_unlock(&fake_execution_lock);
    return result;
}

static bool forbids_unsafe_calls(const struct fake_capture *capture)
{
    bool is_of_this_thread = pthread_equal(capture->thread, pthread_self());

    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    return is_of_this_thread ||
           (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult fake_capture_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;

    if (!is_any_capturing())
        return CUDA_SUCCESS;
    pthread_mutex_lock(&fake_execution_lock);
    for (struct fake_capture *capture = captures; capture; capture = capture->next)
        if (forbids_unsafe_calls(capture)) {
            capture->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    pthread_mutex_unlock(&fake_execution_lock);
    return result;
}

/* ---- captured calls ---- */

CUresult fake_capture_work(CUstream stream, CUgraph *ret_graph)
{
    CUresult result = CUDA_SUCCESS;

    *ret_graph = NULL;
    if (!is_any_capturing())
        return CUDA_SUCCESS;
    pthread_mutex_lock(&fake_execution_lock);
    if (!stream->capture) {
        result = invalidate_for_legacy(stream);
    } else if (stream->capture->invalid) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else {
        *ret_graph = stream->capture->graph;
        stream->joined = false;
    }
    pthread_mutex_unlock(&fake_execution_lock);
    return result;
}

bool fake_capture_record(CUstream stream, CUevent event, CUresult *ret_result)
{
    bool captured = false;

    if (!is_any_capturing())
        return false;
    pthread_mutex_lock(&fake_execution_lock);
    *ret_result = invalidate_for_legacy(stream);
    captured = *ret_result != CUDA_SUCCESS;
    if (stream->capture) {
        captured = true;
        *ret_result = stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
        event->capture = stream->capture;
        event->stream = stream;
        event->recorded = true;
    }
    pthread_mutex_unlock(&fake_execution_lock);
    return captured;
}

static void join_capture(CUstream stream, struct fake_capture *capture)
{
    stream->capture = capture;
    atomic_store(&stream->captured, 1);
}

/* Waiting for captured work makes the waiting stream a part of the capture, and counts the event's stream as joined. */
static CUresult wait_for_captured(CUstream stream, CUevent event)
{
    struct fake_capture *capture = event->capture;

    if (!capture || capture->ended)
        return stream->capture ? CUDA_ERROR_STREAM_CAPTURE_ISOLATION : CUDA_SUCCESS;
    if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->capture && stream->capture != capture) {
        stream->capture->invalid = capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!stream->capture) {
        join_capture(stream, capture);
        stream->joined = false;
    }
    if (event->stream != stream)
        event->stream->joined = true;
    return CUDA_SUCCESS;
}

bool fake_capture_wait_event(CUstream stream, CUevent event, CUresult *ret_result)
{
    bool captured = false;

    if (!is_any_capturing())
        return false;
    pthread_mutex_lock(&fake_execution_lock);
    *ret_result = invalidate_for_legacy(stream);
    captured = *ret_result != CUDA_SUCCESS;
    if (!captured && (stream->capture || (event->capture && !event->capture->ended))) {
        captured = true;
        *ret_result = wait_for_captured(stream, event);
        if (*ret_result == CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
            stream->capture->invalid = true;
    }
    pthread_mutex_unlock(&fake_execution_lock);
    return captured;
}

/* ---- the functions ---- */

static CUresult begin_capture(CUstream handle, bool per_thread, CUgraph graph, CUstreamCaptureMode mode)
{
    struct fake_capture *capture;
    CUstream stream;
    CUresult result = fake_stream(handle, per_thread, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    capture = fake_execution_allocate(sizeof *capture);
    *capture = (struct fake_capture){.origin = stream,
                                     .graph = graph ? graph : fake_graph_new(),
                                     .mode = mode,
                                     .thread = pthread_self(),
                                     .id = atomic_fetch_add(&next_id, 1)};
    pthread_mutex_lock(&fake_execution_lock);
    result = stream->capture ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        join_capture(stream, capture);
        capture->next = captures;
        captures = capture;
        atomic_fetch_add(&capture_count, 1);
    }
    pthread_mutex_unlock(&fake_execution_lock);
    return result;
}

static CUresult do_cuStreamBeginCapture_v2(bool per_thread, CUstream stream, CUstreamCaptureMode mode)
{
    return begin_capture(stream, per_thread, NULL, mode);
}
FAKE_BOTH_FORMS(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), stream, mode)

static CUresult do_cuStreamBeginCapture(bool per_thread, CUstream stream)
{
    return begin_capture(stream, per_thread, NULL, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
FAKE_BOTH_FORMS(cuStreamBeginCapture, (CUstream stream), stream)

static CUresult do_cuStreamBeginCaptureToGraph(bool per_thread, CUstream stream, CUgraph graph,
                                               CUstreamCaptureMode mode)
{
    return graph ? begin_capture(stream, per_thread, graph, mode) : CUDA_ERROR_INVALID_VALUE;
}
FAKE_BOTH_FORMS(cuStreamBeginCaptureToGraph,
                (CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
                 size_t count, CUstreamCaptureMode mode),
                stream, graph, mode)

/* Removes all streams from the capture. Returns whether all were joined to its origin. */
static bool release_streams(struct fake_capture *capture)
{
    bool joined = true;

    for (CUstream stream = fake_execution_of(capture->origin->context)->streams; stream; stream = stream->next) {
        if (stream->capture != capture)
            continue;
        joined = joined && (stream == capture->origin || stream->joined);
        stream->capture = NULL;
        stream->joined = true;
        atomic_store(&stream->captured, 0);
    }
    return joined;
}

static CUresult end_capture(struct fake_capture *capture)
{
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    for (struct fake_capture **at = &captures; *at; at = &(*at)->next)
        if (*at == capture) {
            *at = capture->next;
            break;
        }
    capture->ended = true;
    atomic_fetch_sub(&capture_count, 1);
    if (!release_streams(capture))
        return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    return capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

static CUresult do_cuStreamEndCapture(bool per_thread, CUstream handle, CUgraph *graph)
{
    CUstream stream;
    CUresult result = fake_stream(handle, per_thread, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = NULL;
    pthread_mutex_lock(&fake_execution_lock);
    struct fake_capture *capture = stream->capture;
    if (!capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    else if (capture->origin != stream)
        result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    else
        result = end_capture(capture);
    if (result == CUDA_SUCCESS)
        *graph = capture->graph;
    pthread_mutex_unlock(&fake_execution_lock);
    return result;
}
FAKE_BOTH_FORMS(cuStreamEndCapture, (CUstream stream, CUgraph *graph), stream, graph)

static CUresult do_cuStreamGetCaptureInfo(bool per_thread, CUstream handle, CUstreamCaptureStatus *status, uint64_t *id)
{
    CUstream stream;
    CUresult result = fake_stream(handle, per_thread, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    pthread_mutex_lock(&fake_execution_lock);
    for (struct fake_capture *capture = captures; capture; capture = capture->next)
        if (captures_legacy(capture, stream))
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT; /* an error, but it ends no capture */
    if (stream->capture) {
        *status = stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
        if (id)
            *id = stream->capture->id;
    }
    pthread_mutex_unlock(&fake_execution_lock);
    return result;
}
FAKE_BOTH_FORMS(cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus *status, uint64_t *id), stream, status,
                id)

static CUresult do_cuStreamIsCapturing(bool per_thread, CUstream stream, CUstreamCaptureStatus *status)
{
    return do_cuStreamGetCaptureInfo(per_thread, stream, status, NULL);
}
FAKE_BOTH_FORMS(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status), stream, status)

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    if (!mode || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}
