/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One launch: admitted, submitted, counted, and sometimes sampled by events.
 *
 *   - facet_flight_begin() waits until the vGPU may submit (throttled at submit, never deferred: order is kept);
 *   - the driver's call;
 *   - facet_flight_end() counts the launch, or releases the admission if the call failed.
 *
 * Owns: this sequence. The usual path takes one atomic operation of the limiter, and writes of the calling thread
 * alone.
 * Never: holds a lock while it waits or while the driver is called; touches a stream that is being captured.
 */
#ifndef FACET_FLIGHT_LAUNCH_H
#define FACET_FLIGHT_LAUNCH_H

#include "capture.h"
#include "counter.h"
#include "interpose/kit/estimate.h"
#include "track.h"

/* Added to each launch's time, so that very short launches are sampled sometimes, too. */
#define FACET_FLIGHT_SAMPLE_FLOOR_NS 200

struct facet_flight {
    struct facet_flight_counter *counter; /* NULL: not admitted, only passed through */
    struct facet_flight_kind *kind;       /* the thread's entry for similar launches */
    uint64_t charge, expected_ns;         /* charge: by the limiter; expected_ns: of this launch alone */
    uint64_t others_ns; /* expected time of the earlier, uncounted transfers for which this one is admitted */
    struct facet_flight_sample *sample; /* NULL: not sampled */
};

/* Releases an admission after the driver has refused the call. */
void facet_flight_failed(struct facet_flight_counter *counter, uint64_t charge);

/* The sizes of a grid in one word. Two grids with the same word share an estimate, and nothing else. */
static inline uint64_t facet_flight_grid(unsigned x, unsigned y, unsigned z)
{
    return x + ((uint64_t)y << 24) + ((uint64_t)z << 44);
}

/*
 * `stream` comes from facet_flight_stream_of(). Launches with the same `object` and `size` take about the same time.
 * False when there is no vGPU to launch in: the caller refuses. A launch that the driver will refuse or record passes.
 */
bool facet_flight_begin(struct facet_flight *launch, void *stream, const void *object, uint64_t size);

/* `accepted`: the driver's call succeeded. */
void facet_flight_end(struct facet_flight *launch, void *stream, bool accepted);

/* ---- the usual path, inlined, for calls that programs make by the million ---- */

/* The thread's cache entry for a kind of launch; it may hold another kind. */
static inline struct facet_flight_kind *facet_flight_kind_at(struct facet_flight_counter *counter, const void *object,
                                                             uint64_t size)
{
    return &counter->kinds[facet_flight_cache_index((uintptr_t)object + size)];
}

/* The kind of a launch that is similar to a recent one of the thread and needs no sample; else NULL. */
static inline struct facet_flight_kind *facet_flight_usual(struct facet_flight_counter *counter, void *stream,
                                                           const void *object, uint64_t size)
{
    if (!counter || atomic_load_explicit(&counter->stream, memory_order_relaxed) != stream ||
        counter->until_sample_ns < 0 || atomic_load_explicit(&facet_flight_captures, memory_order_relaxed))
        return NULL;
    struct facet_flight_kind *kind = facet_flight_kind_at(counter, object, size);
    return kind->object == object && kind->size == size ? kind : NULL;
}

/* Whether a launch for which facet_flight_usual() found a kind still needs no sample after the admission. */
static inline bool facet_flight_stays_usual(const struct facet_flight_counter *counter, uint64_t charge)
{
    return charge != FACET_TENANT_LOST && atomic_load_explicit(&facet_flight_helper_watches, memory_order_seq_cst) &&
           counter->gate == atomic_load_explicit(&counter->tenant->policy->gate, memory_order_relaxed);
}

/* Continues with an admitted launch that may need a sample. False as in facet_flight_begin(). */
bool facet_flight_admitted(struct facet_flight *launch, struct facet_flight_counter *counter,
                           struct facet_flight_kind *kind, uint64_t charge, void *stream, const void *object,
                           uint64_t size);

static inline void facet_flight_add(_Atomic uint64_t *word, uint64_t value, memory_order order)
{
    atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) + value, order);
}

/* `submitted` is written last and read first, so the helper finds at least the charges of that many launches. */
static inline void facet_flight_count(struct facet_flight_counter *counter, uint64_t charge, uint64_t expected_ns)
{
    if (charge)
        facet_flight_add(&counter->charged, charge, memory_order_relaxed);
    if (__builtin_expect(expected_ns != 0, 1))
        facet_flight_add(&counter->expected, expected_ns, memory_order_relaxed);
    else
        facet_flight_add(&counter->unknown, 1, memory_order_relaxed);
    facet_flight_add(&counter->submitted, 1, memory_order_release);
}

/*
 * The body of a hook that returns `type`, where 0 is success: `call` is the vendor's function, `refusal` the result
 * when there is no vGPU to launch in.
 */
#define FACET_FLIGHT_LAUNCH(type, refusal, stream_of_call, object_of_call, size_of_call, call)                         \
    void *facet_stream = stream_of_call;                                                                               \
    const void *facet_object = object_of_call;                                                                         \
    uint64_t facet_size = size_of_call, charge = 0;                                                                    \
    struct facet_flight_counter *counter = facet_flight_recent[facet_flight_cache_index((uintptr_t)facet_stream)];     \
    struct facet_flight_kind *kind = facet_flight_usual(counter, facet_stream, facet_object, facet_size);              \
    struct facet_flight launch;                                                                                        \
    type result;                                                                                                       \
                                                                                                                       \
    if (__builtin_expect(kind != NULL, 1)) {                                                                           \
        charge = facet_tenant_launch_in(counter->tenant, counter->shard, kind->request_ns);                            \
        if (__builtin_expect(facet_flight_stays_usual(counter, charge), 1)) {                                          \
            uint64_t expected_ns = kind->estimate_ns;                                                                  \
                                                                                                                       \
            counter->until_sample_ns -= (int64_t)expected_ns + FACET_FLIGHT_SAMPLE_FLOOR_NS;                           \
            result = call;                                                                                             \
            if (__builtin_expect(result == 0, 1))                                                                      \
                facet_flight_count(counter, charge, expected_ns);                                                      \
            else                                                                                                       \
                facet_flight_failed(counter, charge);                                                                  \
            return result;                                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    if (!(kind ? facet_flight_admitted(&launch, counter, kind, charge, facet_stream, facet_object, facet_size)         \
               : facet_flight_begin(&launch, facet_stream, facet_object, facet_size)))                                 \
        return refusal;                                                                                                \
    result = call;                                                                                                     \
    facet_flight_end(&launch, facet_stream, result == 0);                                                              \
    return result

#endif
