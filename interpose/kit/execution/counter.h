/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A counter: one thread's launches into one stream, counted.
 *
 * Owns: counting them, so that a launch writes no word that another thread writes; and finding the counter of a launch.
 * Never: is shared between launching threads. The helper (track.h) only reads the counts.
 *
 * When a stream is destroyed, the handle in its counters changes, so that no launch finds them. A thread reuses its
 * counters; they are freed after it has ended.
 */
#ifndef FACET_FLIGHT_COUNTER_H
#define FACET_FLIGHT_COUNTER_H

#include <pthread.h>
#include <stdatomic.h>

#include "driver.h"
#include "timeline.h"

/* A launch with events around it. */
struct facet_flight_sample {
    void *start, *end; /* recorded right before and right after it; NULL start: the launches before `end` are unknown */
    uint64_t key;      /* of the launched object (interpose/kit/estimate.h) */
    uint64_t submitted, charged, expected, unknown; /* the counter's counts, including this launch */
    uint64_t expected_ns, launched_ns;              /* the launch's expected duration; when it was launched */
    bool after_others;                              /* the device may still have been busy with other vGPUs' work */
    struct facet_flight_sample *next;
};

/* A position in a counter: launches, their charges and expected time, and the number without an expectation. */
struct facet_flight_position {
    uint64_t submitted, charged, expected, unknown;
};

/* A kind of launch: launches of one object with one size, which take about the same time. One thread's cache entry. */
struct facet_flight_kind {
    const void *object; /* NULL: no entry */
    uint64_t size, estimate_ns, request_ns;
};

/* The number of kinds, and of streams, that are cached: programs alternate between several of each. */
#define FACET_FLIGHT_CACHED_BITS 3
#define FACET_FLIGHT_CACHED      (1u << FACET_FLIGHT_CACHED_BITS)

static inline uint32_t facet_flight_cache_index(uint64_t key)
{
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - FACET_FLIGHT_CACHED_BITS));
}

struct facet_flight_counter {
    /* Written by the launching thread. */
    _Atomic(void *) stream; /* the program's handle; FACET_FLIGHT_NO_STREAM once it was destroyed */
    struct facet_tenant *tenant;
    struct facet_slot_shard *shard;              /* the limiter's count of launches in flight */
    int64_t until_sample_ns;                     /* expected time until the next launch is sampled */
    uint32_t gate, random;                       /* gate: the vGPU's gate at the last sample */
    _Atomic uint64_t submitted;                  /* launches that the driver has accepted */
    _Atomic uint64_t charged;                    /* their charges */
    _Atomic uint64_t expected;                   /* their expected time */
    _Atomic uint64_t unknown;                    /* launches without an expectation */
    struct facet_flight_counter *next_of_thread; /* the next counter of this thread */

    struct facet_flight_kind kinds[FACET_FLIGHT_CACHED];

    /* Set when the counter is made. */
    void *context;
    struct facet_flight_timeline *timeline;
    pthread_t thread;
    uint64_t id;       /* unique; changes each time the counter is reused */
    bool joins_legacy; /* the legacy stream waits for this stream */

    /* Written by the thread that holds the look lock (track.h). */
    _Alignas(64) _Atomic uint64_t mean_ns; /* recent average duration of a launch */
    _Atomic uint64_t reported;             /* part of `submitted` */
    uint64_t reported_charge;              /* part of `charged` */
    uint64_t measured_expected;            /* part of `expected`, up to until_ns */
    uint64_t measured_unknown;
    uint64_t until_ns;            /* device time is accounted up to here */
    uint64_t reported_ahead_ns;   /* reported beyond until_ns already, by expectation */
    bool until_is_bound;          /* until_ns is an upper bound: the end was not observed */
    uint64_t unreported_since_ns; /* since when unreported work may run; 0: there is none */
    _Atomic bool settled;         /* everything is reported */

    /* Protected by the track lock. */
    struct facet_flight_position waited; /* up to here the program knows that launches are complete */
    bool must_query;                     /* the program may have waited for later launches too: query the driver */
    struct facet_flight_sample *first_sample, **last_sample;
    uint64_t sampled;                  /* part of `submitted`, up to the last sample */
    _Atomic bool stream_destroyed;     /* the stream is destroyed: query events only */
    _Atomic bool context_ended;        /* the context has ended: query nothing */
    uint64_t context_ended_ns;         /* when the context ended */
    _Atomic bool thread_ended;         /* the counter's thread has ended */
    struct facet_flight_counter *next; /* in the list of all counters */
};

#define FACET_FLIGHT_NO_STREAM ((void *)-1)

static inline struct facet_flight_position facet_flight_position_of(const struct facet_flight_counter *counter)
{
    uint64_t submitted = atomic_load_explicit(&counter->submitted, memory_order_acquire);

    return (struct facet_flight_position){submitted, atomic_load_explicit(&counter->charged, memory_order_relaxed),
                                          atomic_load_explicit(&counter->expected, memory_order_relaxed),
                                          atomic_load_explicit(&counter->unknown, memory_order_relaxed)};
}

/*
 * Protects the lists of counters, samples and timelines. Held for a few instructions, never during a call to the
 * driver.
 */
extern pthread_mutex_t facet_flight_track_lock;
extern struct facet_flight_counter *facet_flight_counters;

/* The counters of the thread's last launches, in static TLS: even a library opened with dlopen() gets a few words. */
extern _Thread_local struct facet_flight_counter *facet_flight_recent[FACET_FLIGHT_CACHED]
    __attribute__((tls_model("initial-exec")));

struct facet_flight_counter *facet_flight_counter_find(void *stream);

/*
 * The counter of a launch into `stream`, which comes from facet_flight_stream_of() and is not NULL. NULL when there is
 * no vGPU for the stream, or memory is out.
 */
static inline struct facet_flight_counter *facet_flight_counter(void *stream)
{
    struct facet_flight_counter *counter = facet_flight_recent[facet_flight_cache_index((uintptr_t)stream)];

    if (__builtin_expect(counter && atomic_load_explicit(&counter->stream, memory_order_relaxed) == stream, 1))
        return counter;
    return facet_flight_counter_find(stream);
}

/* The stream of a handle, in a function of the legacy form or of the per-thread one. */
static inline void *facet_flight_stream_of(void *stream, bool per_thread)
{
    if (stream)
        return stream;
    return per_thread ? FACET_FLIGHT_PER_THREAD : FACET_FLIGHT_LEGACY;
}

/* Whether a stream is a default one, whose identity depends on the current context. */
static inline bool facet_flight_stream_is_default(void *stream)
{
    return stream == FACET_FLIGHT_LEGACY || stream == FACET_FLIGHT_PER_THREAD;
}

/* Hides the counters of a stream, or of a context, from later launches. Called with the track lock. */
void facet_flight_counters_destroy(void *stream);
void facet_flight_counters_end(void *context);

/* Makes the calling thread look counters up anew, because its context may have changed. */
void facet_flight_thread_forget_counters(void);

void facet_flight_counters_forked(void);

#endif
