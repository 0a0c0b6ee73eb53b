/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: each thread's lanes, and the list of all. Never: frees a lane that its thread or the helper may still use. */
#include "lane.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"

#define CACHED 32u

struct thread {
    struct facet_flight_lane *cache[CACHED]; /* by stream */
    struct facet_flight_lane *lanes;
    uint32_t counted; /* number of the thread's lane of the limiter, from 1; 0: none yet */
};

pthread_mutex_t facet_flight_track_lock = PTHREAD_MUTEX_INITIALIZER;
struct facet_flight_lane *facet_flight_lanes;
_Thread_local struct facet_flight_lane *facet_flight_recent[FACET_FLIGHT_AT_HAND];

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static bool thread_keyed;
static uint32_t
    threads_in[FACET_SLOT_LANES]; /* threads that count in each lane of the limiter; protected by the track lock */

/* The thread has ended, but its launches may still run: the helper frees its lanes when they are settled. */
static void thread_ended(void *argument)
{
    struct thread *thread = argument;

    facet_flight_lane_forget();
    pthread_mutex_lock(&facet_flight_track_lock);
    for (struct facet_flight_lane *lane = thread->lanes; lane; lane = lane->own)
        atomic_store(&lane->left, true);
    if (thread->counted)
        threads_in[thread->counted - 1]--;
    pthread_mutex_unlock(&facet_flight_track_lock);
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

/*
 * The first of the least used lanes: a program with one thread uses one lane, and a reader has only that one to read.
 */
static uint32_t counted_in(struct thread *thread)
{
    uint32_t least = 0;

    if (thread->counted)
        return thread->counted - 1;
    for (uint32_t i = 1; i < FACET_SLOT_LANES; i++)
        if (threads_in[i] < threads_in[least])
            least = i;
    threads_in[least]++;
    thread->counted = least + 1;
    return least;
}

static struct facet_flight_lane **cached(struct thread *thread, void *stream)
{
    uintptr_t handle = (uintptr_t)stream;

    return &thread->cache[(handle >> 4 ^ handle >> 9 ^ handle) % CACHED];
}

static bool is_of(const struct facet_flight_lane *lane, void *stream, void *context)
{
    return atomic_load(&lane->stream) == stream && (!context || lane->context == context);
}

/* A lane whose stream was destroyed and whose launches are all reported. */
static struct facet_flight_lane *take_old(struct thread *thread)
{
    for (struct facet_flight_lane *lane = thread->lanes; lane; lane = lane->own)
        if (atomic_load(&lane->stream) == FACET_FLIGHT_NO_STREAM &&
            atomic_load_explicit(&lane->settled, memory_order_acquire))
            return lane;
    return NULL;
}

static struct facet_flight_lane *new_lane(struct thread *thread)
{
    struct facet_flight_lane *lane = aligned_alloc(_Alignof(struct facet_flight_lane), sizeof *lane);

    if (!lane)
        return NULL;
    *lane = (struct facet_flight_lane){.own = thread->lanes, .thread = pthread_self()};
    lane->last = &lane->first;
    atomic_store(&lane->stream, FACET_FLIGHT_NO_STREAM);
    atomic_store(&lane->settled, true);
    thread->lanes = lane;
    pthread_mutex_lock(&facet_flight_track_lock);
    lane->next = facet_flight_lanes;
    facet_flight_lanes = lane;
    pthread_mutex_unlock(&facet_flight_track_lock);
    return lane;
}

static struct facet_flight_lane *make(struct thread *thread, void *stream, void *context, struct facet_tenant *tenant,
                                      uint32_t device)
{
    static uint64_t last_id; /* protected by the track lock */
    bool joins_legacy = stream == FACET_FLIGHT_PER_THREAD ||
                        (stream != FACET_FLIGHT_LEGACY && facet_flight_driver.stream_joins_legacy(stream));
    struct facet_flight_lane *lane = take_old(thread);

    if (!lane)
        lane = new_lane(thread);
    if (!lane)
        return NULL;
    pthread_mutex_lock(&facet_flight_track_lock);
    struct facet_flight_timeline *timeline = facet_flight_timeline_of(context, device);
    if (timeline) {
        lane->tenant = tenant;
        lane->counted = facet_tenant_lane(tenant, counted_in(thread));
        lane->left_ns = -1; /* the first launch is sampled */
        lane->gate = 0;
        for (size_t i = 0; i < FACET_FLIGHT_AT_HAND; i++)
            lane->kinds[i].object = NULL;
        lane->random = (uint32_t)(uintptr_t)lane;
        lane->context = context;
        lane->timeline = timeline;
        lane->id = ++last_id;
        lane->joins_legacy = joins_legacy;
        lane->until_ns = facet_clock_now_ns();
        atomic_store(&lane->mean_ns, 0);
        atomic_store(&lane->settled, false);
        atomic_store(&lane->destroyed, false);
        atomic_store(&lane->ended, false);
        atomic_store(&lane->stream, stream);
    }
    pthread_mutex_unlock(&facet_flight_track_lock);
    return timeline ? lane : NULL;
}

static struct facet_flight_lane *find(struct thread *thread, void *stream, void *context)
{
    struct facet_flight_lane **at = cached(thread, stream), *lane = *at;

    if (lane && is_of(lane, stream, context))
        return lane;
    for (lane = thread->lanes; lane && !is_of(lane, stream, context); lane = lane->own)
        ;
    if (!lane) {
        uint32_t device;
        struct facet_tenant *tenant = facet_flight_driver.stream_tenant(stream, &device);

        if (!tenant || (!context && !facet_flight_driver.stream_context(stream, &context)))
            return NULL;
        lane = make(thread, stream, context, tenant, device);
    }
    *at = lane;
    return lane;
}

struct facet_flight_lane *facet_flight_lane_find(void *stream)
{
    struct thread *thread = this_thread();
    struct facet_flight_lane *lane = NULL;
    struct facet_tenant *tenants;
    void *context = NULL;
    int saved = errno;

    if (thread && (!facet_flight_stream_is_default(stream) || facet_flight_driver.stream_context(stream, &context)))
        lane = find(thread, stream, context);
    /*
     * With several GPUs a default stream changes with the thread's device, so it is not cached: each launch looks it
     * up.
     */
    bool lasts = !facet_flight_stream_is_default(stream) || facet_flight_driver.tenants(&tenants) == 1;
    facet_flight_recent[facet_flight_place((uintptr_t)stream)] = lasts ? lane : NULL;
    errno = saved;
    return lane;
}

void facet_flight_lane_forget(void)
{
    for (size_t i = 0; i < FACET_FLIGHT_AT_HAND; i++)
        facet_flight_recent[i] = NULL;
}

void facet_flight_lanes_destroy(void *stream)
{
    for (struct facet_flight_lane *lane = facet_flight_lanes; lane; lane = lane->next)
        if (atomic_load(&lane->stream) == stream) {
            atomic_store(&lane->destroyed, true);
            atomic_store(&lane->stream, FACET_FLIGHT_NO_STREAM);
        }
}

void facet_flight_lanes_end(void *context)
{
    for (struct facet_flight_lane *lane = facet_flight_lanes; lane; lane = lane->next)
        if (lane->context == context && !atomic_load(&lane->ended)) {
            lane->ended_ns = facet_clock_now_ns();
            atomic_store(&lane->ended, true);
            atomic_store(&lane->stream, FACET_FLIGHT_NO_STREAM);
        }
}

/* The child has only the forking thread. All lanes counted launches of the parent. */
void facet_flight_lanes_forked(void)
{
    struct thread *thread = thread_keyed ? pthread_getspecific(thread_key) : NULL;

    facet_flight_lane_forget();
    facet_flight_lanes = NULL;
    for (uint32_t i = 0; i < FACET_SLOT_LANES; i++)
        threads_in[i] = 0;
    if (thread)
        *thread = (struct thread){0};
}
