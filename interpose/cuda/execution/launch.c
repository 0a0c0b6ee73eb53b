/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the uncommon ways through a launch: a stream not seen before, one that is captured, samples, failures. */
#include "launch.h"

#include <errno.h>

#include "base/clock.h"
#include "interpose/cuda/hooks.h"
#include "sample.h"

/*
 * Work between two samples. Others, or a limit, wait for what is measured: then a sample is a hundredth of what it
 * measures, or every launch is one. Alone, it is only to be told how much was used.
 */
#define SAMPLE_PROMPT_NS (200 * FACET_NS_PER_US)
#define SAMPLE_ALONE_NS  FACET_NS_PER_MS

/* Of launches of which nothing is known, alone on the device. */
#define LEAST_BETWEEN 8u

/* A stream that is being captured takes note of what is launched into it: nothing runs, so nothing is admitted. */
static bool is_captured(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = stream == CU_STREAM_LEGACY ? CUDA_SUCCESS : facet_cuda_plain.cuStreamIsCapturing(stream, &status);

    return result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Whether the call is for the driver alone to judge: a stream or context that it does not know either. */
static bool is_unknown(CUstream stream)
{
    CUcontext context = NULL;

    if (!facet_cuda_is_tenant())
        return true;
    return (facet_cuda_stream_is_default(stream) ? facet_cuda_plain.cuCtxGetCurrent(&context)
                                                 : facet_cuda_plain.cuStreamGetCtx(stream, &context)) != CUDA_SUCCESS ||
           !context;
}

/* Up to half more or less each time, so that a program that repeats itself is not always seen at the same kernel. */
static int64_t next_sample_ns(struct facet_cuda_lane *lane)
{
    bool prompt = FACET_GATE_STATE(lane->gate) != FACET_GATE_OPEN;
    int64_t mean_ns = (int64_t)(prompt ? SAMPLE_PROMPT_NS : SAMPLE_ALONE_NS);

    if (prompt && atomic_load_explicit(&lane->stream, memory_order_relaxed) == CU_STREAM_PER_THREAD)
        return 0; /* nobody but this thread can ask for its stream */
    lane->random = lane->random * 1664525u + 1013904223u;
    return mean_ns / 2 + (int64_t)((uint64_t)mean_ns * (lane->random >> 16) >> 16);
}

/* Default streams are of the current context, and threads change it: seen here at the latest. */
static bool is_current(const struct facet_cuda_lane *lane, CUstream stream)
{
    CUcontext context;

    return !facet_cuda_stream_is_default(stream) ||
           (facet_cuda_plain.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context == lane->context);
}

/* The launch is admitted, in the same vGPU; only what follows it is of another context. */
static void change_lane(struct facet_cuda_launch *launch, CUstream stream)
{
    struct facet_tenant *tenant = launch->lane->tenant;

    facet_cuda_lane_forget();
    struct facet_cuda_lane *lane = facet_cuda_lane(stream);
    if (lane && lane->tenant == tenant)
        launch->lane = lane;
}

static void drop_sample(struct facet_cuda_launch *launch)
{
    if (launch->sample)
        facet_cuda_sample_free(launch->lane, launch->sample);
    launch->sample = NULL;
}

/* What nothing is known of is followed: at once where it counts, else one in some, lest a program of many kernels pay.
 */
static bool is_wanted(const struct facet_cuda_lane *lane, bool changed)
{
    uint64_t unfollowed = atomic_load_explicit(&lane->submitted, memory_order_relaxed) - lane->followed;

    return changed || lane->left_ns < 0 || FACET_GATE_STATE(lane->gate) != FACET_GATE_OPEN ||
           unfollowed >= LEAST_BETWEEN;
}

static void follow(struct facet_cuda_launch *launch, CUstream stream, const void *object, uint64_t size)
{
    uint32_t gate = atomic_load_explicit(&launch->lane->tenant->policy->gate, memory_order_relaxed);
    bool changed = gate != launch->lane->gate;
    int saved = errno;

    launch->lane->gate = gate;
    if (!is_wanted(launch->lane, changed))
        return;
    if (!is_current(launch->lane, stream))
        change_lane(launch, stream);
    launch->lane->left_ns = next_sample_ns(launch->lane);
    launch->lane->object = NULL; /* what is learned now is looked up anew */
    launch->sample = facet_cuda_sample_new(launch->lane, true);
    if (launch->sample) {
        launch->sample->key = facet_estimate_key(object, size);
        launch->sample->after_others = changed;
        if (facet_cuda_plain.cuEventRecord(launch->sample->start, stream) != CUDA_SUCCESS)
            drop_sample(launch);
    }
    errno = saved;
}

CUresult facet_cuda_launch_admitted(struct facet_cuda_launch *launch, struct facet_cuda_lane *lane, uint64_t charge,
                                    CUstream stream, const void *object, uint64_t size)
{
    uint64_t mean_ns = atomic_load_explicit(&lane->mean_ns, memory_order_relaxed);
    uint32_t gate = atomic_load_explicit(&lane->tenant->policy->gate, memory_order_relaxed);

    if (charge == FACET_TENANT_LOST)
        return CUDA_ERROR_SYSTEM_NOT_READY;
    facet_cuda_track_wake();
    *launch = (struct facet_cuda_launch){
        .lane = lane, .charge = charge, .cost = lane->estimate_ns ? lane->estimate_ns : mean_ns};
    lane->left_ns -= (int64_t)launch->cost + FACET_CUDA_SAMPLE_FLOOR_NS;
    if (lane->left_ns < 0 || !lane->estimate_ns || lane->gate != gate)
        follow(launch, stream, object, size);
    return CUDA_SUCCESS;
}

/*
 * What the limiter is asked for. Two launches that are together only a little more than may be in flight keep the
 * device busy; one does not, as the next would come when its end has been seen.
 */
static uint64_t to_ask(const struct facet_tenant *tenant, uint64_t estimate_ns)
{
    uint64_t half_ns = atomic_load_explicit(&tenant->policy->depth_ns, memory_order_relaxed) / 2;

    return estimate_ns > half_ns && estimate_ns - half_ns <= half_ns / 8 ? half_ns : estimate_ns;
}

/* What such a launch takes, if anything is known; the next of the kind need not look. */
static void look_up(struct facet_cuda_lane *lane, const void *object, uint64_t size)
{
    lane->estimate_ns = facet_estimate_get(facet_estimate_key(object, size));
    lane->asked_ns = to_ask(lane->tenant, lane->estimate_ns);
    lane->object = lane->estimate_ns ? object : NULL;
    lane->size = size;
}

CUresult facet_cuda_launch_begin(struct facet_cuda_launch *launch, CUstream stream, const void *object, uint64_t size)
{
    bool captures = atomic_load_explicit(&facet_cuda_captures, memory_order_relaxed);

    *launch = (struct facet_cuda_launch){.lane = NULL};
    if (captures && is_captured(stream))
        return CUDA_SUCCESS;
    struct facet_cuda_lane *lane = facet_cuda_lane(stream);
    if (!lane)
        return is_unknown(stream) ? CUDA_SUCCESS : CUDA_ERROR_SYSTEM_NOT_READY;
    if (captures)
        lane->left_ns = -1; /* no stream is asked while one is captured: only events tell how far this one is */
    look_up(lane, object, size);
    uint64_t charge = facet_tenant_launch(lane->tenant, lane->asked_ns);
    return facet_cuda_launch_admitted(launch, lane, charge, stream, object, size);
}

CUresult facet_cuda_launch_failed(struct facet_cuda_lane *lane, uint64_t charge, CUresult result)
{
    facet_tenant_complete(lane->tenant, 1, charge, 0, facet_clock_now_ns());
    return result;
}

CUresult facet_cuda_launch_end(struct facet_cuda_launch *launch, CUstream stream, CUresult result)
{
    struct facet_cuda_lane *lane = launch->lane;

    if (!lane)
        return result;
    if (result != CUDA_SUCCESS) {
        drop_sample(launch);
        return facet_cuda_launch_failed(lane, launch->charge, result);
    }
    facet_cuda_launch_count(lane, launch->charge, launch->cost);
    if (!launch->sample)
        return CUDA_SUCCESS;
    launch->sample->cost = launch->cost;
    if (facet_cuda_plain.cuEventRecord(launch->sample->end, stream) == CUDA_SUCCESS)
        facet_cuda_sample_follow(lane, launch->sample);
    else
        drop_sample(launch);
    return CUDA_SUCCESS;
}
