/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One launch: admitted, submitted, counted, and now and then followed by an event.
 *
 *     facet_cuda_launch_begin()   waits until the vGPU may submit (throttled at submit, never deferred: order is kept)
 *     the driver's call
 *     facet_cuda_launch_end()     counts it, or takes the admission back if the call failed
 *
 * Owns: that sequence. The usual way through it is one atomic of the limiter, and words of the calling thread.
 * Never: holds a lock while it waits or while the driver is called; touches a stream that is being captured.
 */
#ifndef FACET_CUDA_LAUNCH_H
#define FACET_CUDA_LAUNCH_H

#include "interpose/kit/estimate.h"
#include "lane.h"
#include "track.h"

/* Counted besides what launches take, so that very short ones are sampled now and then, too. */
#define FACET_CUDA_SAMPLE_FLOOR_NS 200

struct facet_cuda_launch {
    struct facet_cuda_lane *lane;     /* NULL: not admitted, only passed through */
    uint64_t charge, cost;            /* by the limiter; what it is expected to take */
    struct facet_cuda_sample *sample; /* NULL: this one is not followed */
};

/* What was admitted, and the driver refused. */
CUresult facet_cuda_launch_failed(struct facet_cuda_lane *lane, uint64_t charge, CUresult result);

/* The sizes of a grid in one word: two grids that fall together only share an estimate. */
static inline uint64_t facet_cuda_grid(unsigned x, unsigned y, unsigned z)
{
    return x + ((uint64_t)y << 24) + ((uint64_t)z << 44);
}

/*
 * `stream` is of facet_cuda_stream_of(); `object` and `size` say what is launched: launches that agree in both take
 * about the same time. CUDA_ERROR_SYSTEM_NOT_READY when there is no vGPU to launch in.
 */
CUresult facet_cuda_launch_begin(struct facet_cuda_launch *launch, CUstream stream, const void *object, uint64_t size);

/* `result` is what the driver's call returned, and is returned. */
CUresult facet_cuda_launch_end(struct facet_cuda_launch *launch, CUstream stream, CUresult result);

/* ---- the usual way, inlined: for the calls that programs make by the million ---- */

/* Whether a launch repeats the thread's last one, and need not be followed. */
static inline bool facet_cuda_launch_is_usual(const struct facet_cuda_lane *lane, CUstream stream, const void *object,
                                              uint64_t size)
{
    return lane && atomic_load_explicit(&lane->stream, memory_order_relaxed) == stream && lane->object == object &&
           lane->size == size && lane->left_ns >= 0 &&
           !atomic_load_explicit(&facet_cuda_captures, memory_order_relaxed);
}

/* Whether it still is, now that it is admitted. */
static inline bool facet_cuda_launch_stays_usual(const struct facet_cuda_lane *lane, uint64_t charge)
{
    return charge != FACET_TENANT_LOST && atomic_load_explicit(&facet_cuda_track_on_duty, memory_order_seq_cst) &&
           lane->gate == atomic_load_explicit(&lane->tenant->policy->gate, memory_order_relaxed);
}

/* Goes on with one that is not. */
CUresult facet_cuda_launch_admitted(struct facet_cuda_launch *launch, struct facet_cuda_lane *lane, uint64_t charge,
                                    CUstream stream, const void *object, uint64_t size);

static inline void facet_cuda_add(_Atomic uint64_t *word, uint64_t value, memory_order order)
{
    atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) + value, order);
}

/* The helper reads the count first, and then finds at least what was charged for it. */
static inline void facet_cuda_launch_count(struct facet_cuda_lane *lane, uint64_t charge, uint64_t cost)
{
    if (charge)
        facet_cuda_add(&lane->charged, charge, memory_order_relaxed);
    if (__builtin_expect(cost != 0, 1))
        facet_cuda_add(&lane->expected, cost, memory_order_relaxed);
    else
        facet_cuda_add(&lane->unknown, 1, memory_order_relaxed);
    facet_cuda_add(&lane->submitted, 1, memory_order_release);
}

/* The body of a hook: `call` is the driver's. */
#define FACET_CUDA_LAUNCH(stream_of_call, object_of_call, size_of_call, call)                                          \
    CUstream facet_stream = stream_of_call;                                                                            \
    const void *facet_object = object_of_call;                                                                         \
    uint64_t facet_size = size_of_call, charge = 0;                                                                    \
    struct facet_cuda_lane *lane = facet_cuda_last_lane;                                                               \
    struct facet_cuda_launch launch;                                                                                   \
    CUresult result;                                                                                                   \
                                                                                                                       \
    bool usual = facet_cuda_launch_is_usual(lane, facet_stream, facet_object, facet_size);                             \
    if (__builtin_expect(usual, 1)) {                                                                                  \
        charge = facet_tenant_launch(lane->tenant, lane->asked_ns);                                                    \
        if (__builtin_expect(facet_cuda_launch_stays_usual(lane, charge), 1)) {                                        \
            lane->left_ns -= (int64_t)lane->estimate_ns + FACET_CUDA_SAMPLE_FLOOR_NS;                                  \
            result = call;                                                                                             \
            if (__builtin_expect(result != CUDA_SUCCESS, 0))                                                           \
                return facet_cuda_launch_failed(lane, charge, result);                                                 \
            facet_cuda_launch_count(lane, charge, lane->estimate_ns);                                                  \
            return CUDA_SUCCESS;                                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    result = usual ? facet_cuda_launch_admitted(&launch, lane, charge, facet_stream, facet_object, facet_size)         \
                   : facet_cuda_launch_begin(&launch, facet_stream, facet_object, facet_size);                         \
    if (result != CUDA_SUCCESS)                                                                                        \
        return result;                                                                                                 \
    return facet_cuda_launch_end(&launch, facet_stream, call)

#endif
