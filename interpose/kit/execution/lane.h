/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread's launches into one stream.
 *
 * Owns: counting them, so that a launch writes what no other thread writes; and finding the lane of a launch.
 * Never: is shared between launching threads. What the helper (track.h) needs to know, it reads.
 *
 * A stream that is destroyed takes its lanes with it: their handle changes, so that nobody finds them. Lanes are used
 * again by their thread, and freed when it has ended.
 */
#ifndef FACET_FLIGHT_LANE_H
#define FACET_FLIGHT_LANE_H

#include <pthread.h>
#include <stdatomic.h>

#include "driver.h"
#include "timeline.h"

/* A launch that was followed by an event. */
struct facet_flight_sample {
    void *start, *end; /* right before and right behind it; NULL start: only what is behind is known */
    uint64_t key;      /* of what was launched (interpose/kit/estimate.h) */
    uint64_t submitted, charged, expected, unknown; /* of its lane, up to and with it */
    uint64_t cost, begun_ns;                        /* its own expectation; when it was launched */
    bool after_others;                              /* the device may still have been at somebody else's work */
    struct facet_flight_sample *next;
};

/* How far a lane is: launches, what was charged and is expected for them, and for how many nothing is. */
struct facet_flight_mark {
    uint64_t submitted, charged, expected, unknown;
};

/* Launches that are alike, as far as the thread knows them. */
struct facet_flight_kind {
    const void *object; /* NULL: unknown */
    uint64_t size, estimate_ns, asked_ns;
};

/* Programs take turns between some kernels and some streams: so many are at hand. */
#define FACET_FLIGHT_AT_HAND_BITS 3
#define FACET_FLIGHT_AT_HAND      (1u << FACET_FLIGHT_AT_HAND_BITS)

static inline uint32_t facet_flight_place(uint64_t key)
{
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - FACET_FLIGHT_AT_HAND_BITS));
}

struct facet_flight_lane {
    /* The launching thread's. */
    _Atomic(void *) stream; /* as named by the program; FACET_FLIGHT_NO_STREAM once it was destroyed */
    struct facet_tenant *tenant;
    struct facet_slot_lane *counted; /* where the limiter counts what is in flight */
    int64_t left_ns;                 /* work until the next launch is sampled */
    uint32_t gate, random;           /* the gate as of the last sample */
    _Atomic uint64_t submitted;      /* launches that the driver has taken */
    _Atomic uint64_t charged;        /* what was charged for them */
    _Atomic uint64_t expected;       /* what they are expected to take */
    _Atomic uint64_t unknown;        /* launches of which nothing is expected */
    struct facet_flight_lane *own;   /* the thread's next */

    struct facet_flight_kind kinds[FACET_FLIGHT_AT_HAND];

    /* Set when it is made. */
    void *context;
    struct facet_flight_timeline *timeline;
    pthread_t thread;
    uint64_t id;       /* of no other lane, and another one each time it is used again */
    bool joins_legacy; /* the legacy stream waits for its stream */

    /* Of who has the turn (track.h). */
    _Alignas(64) _Atomic uint64_t mean_ns; /* what a launch took of late */
    _Atomic uint64_t reported;             /* of submitted */
    uint64_t reported_charge;              /* of charged */
    uint64_t measured_expected;            /* of expected: up to where time is accounted */
    uint64_t measured_unknown;
    uint64_t until_ns;    /* up to where time is accounted */
    uint64_t ahead_ns;    /* reported from there on already, by what was expected */
    bool until_late;      /* what ended there may have ended before: nobody saw it */
    uint64_t since_ns;    /* since when something is in flight that is not; 0: nothing is */
    _Atomic bool settled; /* all is reported */

    /* Under the track lock. */
    struct facet_flight_mark waited; /* what the program knows to be complete */
    bool doubtful;                   /* it may know more: the driver does */
    struct facet_flight_sample *first, **last;
    uint64_t followed;              /* of submitted, up to the last sample */
    _Atomic bool destroyed;         /* the stream: ask events only */
    _Atomic bool ended;             /* the context: ask nothing */
    uint64_t ended_ns;              /* when, if it has */
    _Atomic bool left;              /* by its thread */
    struct facet_flight_lane *next; /* of all lanes */
};

#define FACET_FLIGHT_NO_STREAM ((void *)-1)

static inline struct facet_flight_mark facet_flight_mark_of(const struct facet_flight_lane *lane)
{
    uint64_t submitted = atomic_load_explicit(&lane->submitted, memory_order_acquire);

    return (struct facet_flight_mark){submitted, atomic_load_explicit(&lane->charged, memory_order_relaxed),
                                      atomic_load_explicit(&lane->expected, memory_order_relaxed),
                                      atomic_load_explicit(&lane->unknown, memory_order_relaxed)};
}

/* Guards the lists of lanes, samples and timelines. Held for a few instructions, never in the driver. */
extern pthread_mutex_t facet_flight_track_lock;
extern struct facet_flight_lane *facet_flight_lanes;

/* The lanes of the thread's last launches: a dlopened library may have a few words of the fast kind of thread's memory.
 */
extern _Thread_local struct facet_flight_lane *facet_flight_recent[FACET_FLIGHT_AT_HAND]
    __attribute__((tls_model("initial-exec")));

struct facet_flight_lane *facet_flight_lane_find(void *stream);

/* The lane of a launch into `stream` (never NULL: see facet_flight_stream_of()); NULL when there is no vGPU, or no
 * memory, for it. */
static inline struct facet_flight_lane *facet_flight_lane(void *stream)
{
    struct facet_flight_lane *lane = facet_flight_recent[facet_flight_place((uintptr_t)stream)];

    if (__builtin_expect(lane && atomic_load_explicit(&lane->stream, memory_order_relaxed) == stream, 1))
        return lane;
    return facet_flight_lane_find(stream);
}

/* The stream that a handle names, in a function of the legacy form or of the per-thread one. */
static inline void *facet_flight_stream_of(void *stream, bool per_thread)
{
    if (stream)
        return stream;
    return per_thread ? FACET_FLIGHT_PER_THREAD : FACET_FLIGHT_LEGACY;
}

/* Whether a stream is no object, so that the current context says which it is. */
static inline bool facet_flight_stream_is_default(void *stream)
{
    return stream == FACET_FLIGHT_LEGACY || stream == FACET_FLIGHT_PER_THREAD;
}

/* Makes the lanes of a stream, or of a context, unfindable. Under the track lock. */
void facet_flight_lanes_destroy(void *stream);
void facet_flight_lanes_end(void *context);

/* The next launch of the calling thread looks again: it may be in another context. */
void facet_flight_lane_forget(void);

void facet_flight_lanes_forked(void);

#endif
