/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: each thread's lanes, and the list of all. Never: frees a lane that its thread or the helper may still use. */
#include "lane.h"

#include <errno.h>
#include <stdlib.h>

#include "interpose/cuda/hooks.h"

#define CACHED 32u

struct thread {
    struct facet_cuda_lane *cache[CACHED]; /* by stream */
    struct facet_cuda_lane *lanes;
};

pthread_mutex_t facet_cuda_track_lock = PTHREAD_MUTEX_INITIALIZER;
struct facet_cuda_lane *facet_cuda_lanes;
_Thread_local struct facet_cuda_lane *facet_cuda_last_lane;

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static bool thread_keyed;

/* The thread is gone, what it launched need not be: the helper frees its lanes when they are settled. */
static void thread_ended(void *argument)
{
    struct thread *thread = argument;

    facet_cuda_last_lane = NULL;
    pthread_mutex_lock(&facet_cuda_track_lock);
    for (struct facet_cuda_lane *lane = thread->lanes; lane; lane = lane->own)
        atomic_store(&lane->left, true);
    pthread_mutex_unlock(&facet_cuda_track_lock);
    free(thread);
}

static void make_key(void)
{
    thread_keyed = pthread_key_create(&thread_key, thread_ended) == 0;
}

static struct thread *this_thread(void)
{
    pthread_once(&thread_once, make_key);
    struct thread *thread = thread_keyed ? pthread_getspecific(thread_key) : NULL;
    if (thread || !thread_keyed)
        return thread;
    thread = calloc(1, sizeof *thread);
    if (thread && pthread_setspecific(thread_key, thread) != 0) {
        free(thread);
        return NULL;
    }
    return thread;
}

static struct facet_cuda_lane **cached(struct thread *thread, CUstream stream)
{
    uintptr_t handle = (uintptr_t)stream;

    return &thread->cache[(handle >> 4 ^ handle >> 9 ^ handle) % CACHED];
}

static bool is_of(const struct facet_cuda_lane *lane, CUstream stream, CUcontext context)
{
    return atomic_load(&lane->stream) == stream && (!context || lane->context == context);
}

/* One whose stream is gone, and with which nobody is busy any more. */
static struct facet_cuda_lane *take_old(struct thread *thread)
{
    for (struct facet_cuda_lane *lane = thread->lanes; lane; lane = lane->own)
        if (atomic_load(&lane->stream) == FACET_CUDA_NO_STREAM &&
            atomic_load_explicit(&lane->settled, memory_order_acquire))
            return lane;
    return NULL;
}

static struct facet_cuda_lane *new_lane(struct thread *thread)
{
    struct facet_cuda_lane *lane = aligned_alloc(_Alignof(struct facet_cuda_lane), sizeof *lane);

    if (!lane)
        return NULL;
    *lane = (struct facet_cuda_lane){.own = thread->lanes};
    lane->last = &lane->first;
    atomic_store(&lane->stream, FACET_CUDA_NO_STREAM);
    atomic_store(&lane->settled, true);
    thread->lanes = lane;
    pthread_mutex_lock(&facet_cuda_track_lock);
    lane->next = facet_cuda_lanes;
    facet_cuda_lanes = lane;
    pthread_mutex_unlock(&facet_cuda_track_lock);
    return lane;
}

static struct facet_cuda_lane *make(struct thread *thread, CUstream stream, CUcontext context,
                                    struct facet_tenant *tenant, uint32_t device)
{
    struct facet_cuda_lane *lane = take_old(thread);

    if (!lane)
        lane = new_lane(thread);
    if (!lane)
        return NULL;
    pthread_mutex_lock(&facet_cuda_track_lock);
    struct facet_cuda_timeline *timeline = facet_cuda_timeline_of(context, device);
    if (timeline) {
        lane->tenant = tenant;
        lane->left_ns = -1; /* the first is sampled */
        lane->gate = 0;
        lane->object = NULL;
        lane->random = (uint32_t)(uintptr_t)lane;
        lane->context = context;
        lane->timeline = timeline;
        atomic_store(&lane->mean_ns, 0);
        atomic_store(&lane->settled, false);
        atomic_store(&lane->destroyed, false);
        atomic_store(&lane->ended, false);
        atomic_store(&lane->stream, stream);
    }
    pthread_mutex_unlock(&facet_cuda_track_lock);
    return timeline ? lane : NULL;
}

static struct facet_cuda_lane *find(struct thread *thread, CUstream stream, CUcontext context)
{
    struct facet_cuda_lane **at = cached(thread, stream), *lane = *at;

    if (lane && is_of(lane, stream, context))
        return lane;
    for (lane = thread->lanes; lane && !is_of(lane, stream, context); lane = lane->own)
        ;
    if (!lane) {
        uint32_t device = facet_cuda_stream_device(stream);
        struct facet_tenant *tenant = facet_cuda_tenant(device);

        if (!context && facet_cuda_plain.cuStreamGetCtx(stream, &context) != CUDA_SUCCESS)
            return NULL;
        lane = tenant ? make(thread, stream, context, tenant, device) : NULL;
    }
    *at = lane;
    return lane;
}

struct facet_cuda_lane *facet_cuda_lane_find(CUstream stream)
{
    struct thread *thread = this_thread();
    struct facet_cuda_lane *lane = NULL;
    CUcontext context = NULL;
    int saved = errno;

    if (thread && (!facet_cuda_stream_is_default(stream) ||
                   (facet_cuda_plain.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context)))
        lane = find(thread, stream, context);
    /* With several GPUs the default streams are another with every cudaSetDevice(): each launch asks again. */
    bool lasts = !facet_cuda_stream_is_default(stream) || facet_cuda_process.count == 1;
    facet_cuda_last_lane = lasts ? lane : NULL;
    errno = saved;
    return lane;
}

void facet_cuda_lanes_destroy(CUstream stream)
{
    for (struct facet_cuda_lane *lane = facet_cuda_lanes; lane; lane = lane->next)
        if (atomic_load(&lane->stream) == stream) {
            atomic_store(&lane->destroyed, true);
            atomic_store(&lane->stream, FACET_CUDA_NO_STREAM);
        }
}

void facet_cuda_lanes_end(CUcontext context)
{
    for (struct facet_cuda_lane *lane = facet_cuda_lanes; lane; lane = lane->next)
        if (lane->context == context) {
            atomic_store(&lane->ended, true);
            atomic_store(&lane->stream, FACET_CUDA_NO_STREAM);
        }
}

/* Only the forking thread is there: its lanes, and all others', counted what the parent launched. */
void facet_cuda_lanes_forked(void)
{
    struct thread *thread = thread_keyed ? pthread_getspecific(thread_key) : NULL;

    facet_cuda_last_lane = NULL;
    facet_cuda_lanes = NULL;
    if (thread)
        *thread = (struct thread){0};
}
