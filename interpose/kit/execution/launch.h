/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One launch: admitted, submitted, counted, and now and then followed by an event.
 *
 *     facet_flight_begin()   waits until the vGPU may submit (throttled at submit, never deferred: order is kept)
 *     the driver's call
 *     facet_flight_end()     counts it, or takes the admission back if the call failed
 *
 * Owns: that sequence. The usual way through it is one atomic of the limiter, and words of the calling thread.
 * Never: holds a lock while it waits or while the driver is called; touches a stream that is being captured.
 */
#ifndef FACET_FLIGHT_LAUNCH_H
#define FACET_FLIGHT_LAUNCH_H

#include "capture.h"
#include "interpose/kit/estimate.h"
#include "lane.h"
#include "track.h"

/* Counted besides what launches take, so that very short ones are sampled now and then, too. */
#define FACET_FLIGHT_SAMPLE_FLOOR_NS 200

struct facet_flight {
    struct facet_flight_lane *lane;     /* NULL: not admitted, only passed through */
    struct facet_flight_kind *kind;     /* what is known of its like */
    uint64_t charge, cost;              /* by the limiter; what it is expected to take */
    uint64_t others;                    /* what those are expected to take that passed before it, uncounted */
    struct facet_flight_sample *sample; /* NULL: this one is not followed */
};

/* What was admitted, and the driver refused. */
void facet_flight_failed(struct facet_flight_lane *lane, uint64_t charge);

/* The sizes of a grid in one word: two grids that fall together only share an estimate. */
static inline uint64_t facet_flight_grid(unsigned x, unsigned y, unsigned z)
{
    return x + ((uint64_t)y << 24) + ((uint64_t)z << 44);
}

/*
 * `stream` is of facet_flight_stream_of(); `object` and `size` say what is launched: launches that agree in both take
 * about the same time. False when there is no vGPU to launch in: it is refused. One that the driver is to judge, or to
 * take note of, is let through.
 */
bool facet_flight_begin(struct facet_flight *launch, void *stream, const void *object, uint64_t size);

/* `taken`: the driver's call was a success. */
void facet_flight_end(struct facet_flight *launch, void *stream, bool taken);

/* ---- the usual way, inlined: for the calls that programs make by the million ---- */

/* Where a thread has what it knows of a kind of launch, if it does. */
static inline struct facet_flight_kind *facet_flight_kind_at(struct facet_flight_lane *lane, const void *object,
                                                             uint64_t size)
{
    return &lane->kinds[facet_flight_place((uintptr_t)object + size)];
}

/* The kind of a launch that is like a recent one of the thread, and need not be followed; else NULL. */
static inline struct facet_flight_kind *facet_flight_usual(struct facet_flight_lane *lane, void *stream,
                                                           const void *object, uint64_t size)
{
    if (!lane || atomic_load_explicit(&lane->stream, memory_order_relaxed) != stream || lane->left_ns < 0 ||
        atomic_load_explicit(&facet_flight_captures, memory_order_relaxed))
        return NULL;
    struct facet_flight_kind *kind = facet_flight_kind_at(lane, object, size);
    return kind->object == object && kind->size == size ? kind : NULL;
}

/* Whether it still is, now that it is admitted. */
static inline bool facet_flight_stays_usual(const struct facet_flight_lane *lane, uint64_t charge)
{
    return charge != FACET_TENANT_LOST && atomic_load_explicit(&facet_flight_on_duty, memory_order_seq_cst) &&
           lane->gate == atomic_load_explicit(&lane->tenant->policy->gate, memory_order_relaxed);
}

/* Goes on with one that is not. False as facet_flight_begin(). */
bool facet_flight_admitted(struct facet_flight *launch, struct facet_flight_lane *lane, struct facet_flight_kind *kind,
                           uint64_t charge, void *stream, const void *object, uint64_t size);

static inline void facet_flight_add(_Atomic uint64_t *word, uint64_t value, memory_order order)
{
    atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) + value, order);
}

/* The helper reads the count first, and then finds at least what was charged for it. */
static inline void facet_flight_count(struct facet_flight_lane *lane, uint64_t charge, uint64_t cost)
{
    if (charge)
        facet_flight_add(&lane->charged, charge, memory_order_relaxed);
    if (__builtin_expect(cost != 0, 1))
        facet_flight_add(&lane->expected, cost, memory_order_relaxed);
    else
        facet_flight_add(&lane->unknown, 1, memory_order_relaxed);
    facet_flight_add(&lane->submitted, 1, memory_order_release);
}

/*
 * The body of a hook that returns `type`, in which 0 is success: `call` is the vendor's function, `refusal` what is
 * said when there is no vGPU to launch in.
 */
#define FACET_FLIGHT_LAUNCH(type, refusal, stream_of_call, object_of_call, size_of_call, call)                         \
    void *facet_stream = stream_of_call;                                                                               \
    const void *facet_object = object_of_call;                                                                         \
    uint64_t facet_size = size_of_call, charge = 0;                                                                    \
    struct facet_flight_lane *lane = facet_flight_recent[facet_flight_place((uintptr_t)facet_stream)];                 \
    struct facet_flight_kind *kind = facet_flight_usual(lane, facet_stream, facet_object, facet_size);                 \
    struct facet_flight launch;                                                                                        \
    type result;                                                                                                       \
                                                                                                                       \
    if (__builtin_expect(kind != NULL, 1)) {                                                                           \
        charge = facet_tenant_launch_in(lane->tenant, lane->counted, kind->asked_ns);                                  \
        if (__builtin_expect(facet_flight_stays_usual(lane, charge), 1)) {                                             \
            uint64_t cost = kind->estimate_ns;                                                                         \
                                                                                                                       \
            lane->left_ns -= (int64_t)cost + FACET_FLIGHT_SAMPLE_FLOOR_NS;                                             \
            result = call;                                                                                             \
            if (__builtin_expect(result == 0, 1))                                                                      \
                facet_flight_count(lane, charge, cost);                                                                \
            else                                                                                                       \
                facet_flight_failed(lane, charge);                                                                     \
            return result;                                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    if (!(kind ? facet_flight_admitted(&launch, lane, kind, charge, facet_stream, facet_object, facet_size)            \
               : facet_flight_begin(&launch, facet_stream, facet_object, facet_size)))                                 \
        return refusal;                                                                                                \
    result = call;                                                                                                     \
    facet_flight_end(&launch, facet_stream, result == 0);                                                              \
    return result

#endif
