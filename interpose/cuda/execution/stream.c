/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: streams that go while work is in flight.
 * Never: lets the helper ask for what is gone, or what was in flight be counted for ever.
 */
#include "capture.h"
#include "interpose/cuda/hooks.h"
#include "sample.h"
#include "track.h"

/* A lane of the stream in which something is not followed by an event; soon its stream cannot be asked any more. */
static struct facet_cuda_lane *unfollowed(CUstream stream)
{
    struct facet_cuda_lane *lane;

    pthread_mutex_lock(&facet_cuda_track_lock);
    for (lane = facet_cuda_lanes; lane; lane = lane->next)
        if (atomic_load(&lane->stream) == stream && atomic_load(&lane->submitted) > lane->followed &&
            atomic_load(&lane->submitted) > atomic_load(&lane->reported))
            break;
    pthread_mutex_unlock(&facet_cuda_track_lock);
    return lane;
}

/* One last event behind what is in the stream; it outlives the stream. */
static bool follow_tail(struct facet_cuda_lane *lane, CUstream stream)
{
    struct facet_cuda_sample *sample = facet_cuda_sample_new(lane, false);

    if (!sample)
        return false;
    if (facet_cuda_plain.cuEventRecord(sample->end, stream) != CUDA_SUCCESS) {
        facet_cuda_sample_free(lane, sample);
        return false;
    }
    facet_cuda_sample_follow(lane, sample);
    return true;
}

static bool is_captured(CUstream stream)
{
    CUstreamCaptureStatus status;

    return facet_cuda_plain.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static CUresult destroy(CUstream stream, CUresult (*driver)(CUstream stream))
{
    struct facet_cuda_lane *lane;

    if (!stream || facet_cuda_stream_is_default(stream))
        return driver(stream);
    facet_cuda_track_hold();
    while ((lane = unfollowed(stream)) && !is_captured(stream) && follow_tail(lane, stream))
        ;
    pthread_mutex_lock(&facet_cuda_track_lock);
    facet_cuda_lanes_destroy(stream);
    pthread_mutex_unlock(&facet_cuda_track_lock);
    facet_cuda_capture_stream_ends(stream);
    CUresult result = driver(stream);
    facet_cuda_track_release();
    return result;
}

CUresult facet_cuStreamDestroy(CUstream stream)
{
    return destroy(stream, facet_cuda_driver.cuStreamDestroy);
}

CUresult facet_cuStreamDestroy_v2(CUstream stream)
{
    return destroy(stream, facet_cuda_driver.cuStreamDestroy_v2);
}
