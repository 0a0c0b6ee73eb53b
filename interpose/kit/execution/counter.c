/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: each thread's counters, and the list of all. Never: frees a counter that a thread may still use. */
#include "counter.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"

#define CACHED 32u

struct thread {
    struct facet_flight_counter *cache[CACHED]; /* by stream */
    struct facet_flight_counter *counters;
    uint32_t shard; /* number of the thread's shard, from 1; 0: none yet */
};

pthread_mutex_t facet_flight_track_lock = PTHREAD_MUTEX_INITIALIZER;
struct facet_flight_counter *facet_flight_counters;
_Thread_local struct facet_flight_counter *facet_flight_recent[FACET_FLIGHT_CACHED];

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static bool thread_key_made;
static uint32_t shard_threads[FACET_SLOT_SHARDS]; /* threads that count in each shard; protected by the track lock */

/* The thread has ended, but its launches may still run: the helper frees its counters when they are settled. */
static void thread_ended(void *argument)
{
    struct thread *thread = argument;

    facet_flight_thread_forget_counters();
    pthread_mutex_lock(&facet_flight_track_lock);
    for (struct facet_flight_counter *counter = thread->counters; counter; counter = counter->next_of_thread)
        atomic_store(&counter->thread_ended, true);
    if (thread->shard)
        shard_threads[thread->shard - 1]--;
    pthread_mutex_unlock(&facet_flight_track_lock);
    free(thread);
}

static void make_key(void)
{
    thread_key_made = pthread_key_create(&thread_key, thread_ended) == 0;
}

static struct thread *this_thread(void)
{
    pthread_once(&thread_once, make_key);
    struct thread *thread = thread_key_made ? pthread_getspecific(thread_key) : NULL;
    if (thread || !thread_key_made)
        return thread;
    thread = calloc(1, sizeof *thread);
    if (thread && pthread_setspecific(thread_key, thread) != 0) {
        free(thread);
        return NULL;
    }
    return thread;
}

/*
 * The first of the shards with the fewest threads. So a program with one thread uses only one shard, and a reader need
 * not read the others.
 */
static uint32_t choose_shard(struct thread *thread)
{
    uint32_t least = 0;

    if (thread->shard)
        return thread->shard - 1;
    for (uint32_t i = 1; i < FACET_SLOT_SHARDS; i++)
        if (shard_threads[i] < shard_threads[least])
            least = i;
    shard_threads[least]++;
    thread->shard = least + 1;
    return least;
}

static struct facet_flight_counter **cached_counter(struct thread *thread, void *stream)
{
    uintptr_t handle = (uintptr_t)stream;

    return &thread->cache[(handle >> 4 ^ handle >> 9 ^ handle) % CACHED];
}

static bool counter_matches(const struct facet_flight_counter *counter, void *stream, void *context)
{
    return atomic_load(&counter->stream) == stream && (!context || counter->context == context);
}

/* A counter whose stream was destroyed and whose launches are all reported. */
static struct facet_flight_counter *find_reusable_counter(struct thread *thread)
{
    for (struct facet_flight_counter *counter = thread->counters; counter; counter = counter->next_of_thread)
        if (atomic_load(&counter->stream) == FACET_FLIGHT_NO_STREAM &&
            atomic_load_explicit(&counter->settled, memory_order_acquire))
            return counter;
    return NULL;
}

static struct facet_flight_counter *new_counter(struct thread *thread)
{
    struct facet_flight_counter *counter = aligned_alloc(_Alignof(struct facet_flight_counter), sizeof *counter);

    if (!counter)
        return NULL;
    *counter = (struct facet_flight_counter){.next_of_thread = thread->counters, .thread = pthread_self()};
    counter->last_sample = &counter->first_sample;
    atomic_store(&counter->stream, FACET_FLIGHT_NO_STREAM);
    atomic_store(&counter->settled, true);
    thread->counters = counter;
    pthread_mutex_lock(&facet_flight_track_lock);
    counter->next = facet_flight_counters;
    facet_flight_counters = counter;
    pthread_mutex_unlock(&facet_flight_track_lock);
    return counter;
}

static struct facet_flight_counter *make_counter(struct thread *thread, void *stream, void *context,
                                                 struct facet_tenant *tenant, uint32_t device)
{
    static uint64_t last_id; /* protected by the track lock */
    bool joins_legacy = stream == FACET_FLIGHT_PER_THREAD ||
                        (stream != FACET_FLIGHT_LEGACY && facet_flight_driver.stream_joins_legacy(stream));
    struct facet_flight_counter *counter = find_reusable_counter(thread);

    if (!counter)
        counter = new_counter(thread);
    if (!counter)
        return NULL;
    pthread_mutex_lock(&facet_flight_track_lock);
    struct facet_flight_timeline *timeline = facet_flight_timeline_of(context, device);
    if (timeline) {
        counter->tenant = tenant;
        counter->shard = facet_tenant_shard(tenant, choose_shard(thread));
        counter->until_sample_ns = -1; /* the first launch is sampled */
        counter->gate = 0;
        for (size_t i = 0; i < FACET_FLIGHT_CACHED; i++)
            counter->kinds[i].object = NULL;
        counter->random = (uint32_t)(uintptr_t)counter;
        counter->context = context;
        counter->timeline = timeline;
        counter->id = ++last_id;
        counter->joins_legacy = joins_legacy;
        counter->until_ns = facet_clock_now_ns();
        atomic_store(&counter->mean_ns, 0);
        atomic_store(&counter->settled, false);
        atomic_store(&counter->stream_destroyed, false);
        atomic_store(&counter->context_ended, false);
        atomic_store(&counter->stream, stream);
    }
    pthread_mutex_unlock(&facet_flight_track_lock);
    return timeline ? counter : NULL;
}

static struct facet_flight_counter *find_counter(struct thread *thread, void *stream, void *context)
{
    struct facet_flight_counter **at = cached_counter(thread, stream), *counter = *at;

    if (counter && counter_matches(counter, stream, context))
        return counter;
    for (counter = thread->counters; counter && !counter_matches(counter, stream, context);
         counter = counter->next_of_thread)
        ;
    if (!counter) {
        uint32_t device;
        struct facet_tenant *tenant = facet_flight_driver.stream_tenant(stream, &device);

        if (!tenant || (!context && !facet_flight_driver.stream_context(stream, &context)))
            return NULL;
        counter = make_counter(thread, stream, context, tenant, device);
    }
    *at = counter;
    return counter;
}

struct facet_flight_counter *facet_flight_counter_find(void *stream)
{
    struct thread *thread = this_thread();
    struct facet_flight_counter *counter = NULL;
    struct facet_tenant *tenants;
    void *context = NULL;
    int saved = errno;

    if (thread && (!facet_flight_stream_is_default(stream) || facet_flight_driver.stream_context(stream, &context)))
        counter = find_counter(thread, stream, context);
    /*
     * With several GPUs a default stream changes with the thread's device. So its counter is not cached: each launch
     * looks it up.
     */
    bool may_cache = !facet_flight_stream_is_default(stream) || facet_flight_driver.tenants(&tenants) == 1;
    facet_flight_recent[facet_flight_cache_index((uintptr_t)stream)] = may_cache ? counter : NULL;
    errno = saved;
    return counter;
}

void facet_flight_thread_forget_counters(void)
{
    for (size_t i = 0; i < FACET_FLIGHT_CACHED; i++)
        facet_flight_recent[i] = NULL;
}

void facet_flight_counters_destroy(void *stream)
{
    for (struct facet_flight_counter *counter = facet_flight_counters; counter; counter = counter->next)
        if (atomic_load(&counter->stream) == stream) {
            atomic_store(&counter->stream_destroyed, true);
            atomic_store(&counter->stream, FACET_FLIGHT_NO_STREAM);
        }
}

void facet_flight_counters_end(void *context)
{
    for (struct facet_flight_counter *counter = facet_flight_counters; counter; counter = counter->next)
        if (counter->context == context && !atomic_load(&counter->context_ended)) {
            counter->context_ended_ns = facet_clock_now_ns();
            atomic_store(&counter->context_ended, true);
            atomic_store(&counter->stream, FACET_FLIGHT_NO_STREAM);
        }
}

/* The child has only the forking thread. All counters counted launches of the parent. */
void facet_flight_counters_forked(void)
{
    struct thread *thread = thread_key_made ? pthread_getspecific(thread_key) : NULL;

    facet_flight_thread_forget_counters();
    facet_flight_counters = NULL;
    for (uint32_t i = 0; i < FACET_SLOT_SHARDS; i++)
        shard_threads[i] = 0;
    if (thread)
        *thread = (struct thread){0};
}
