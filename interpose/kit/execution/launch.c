/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the uncommon paths of a launch: a new stream, a captured stream, samples, failures. */
#include "launch.h"

#include <errno.h>

#include "base/clock.h"
#include "driver.h"
#include "sample.h"
#include "transfer.h"

/*
 * The expected work between two samples. While other vGPUs wait, or a limit applies, reports must be prompt, so samples
 * are frequent. While the vGPU is alone on the device, samples only tell how much device time was used.
 */
#define SAMPLE_PROMPT_NS (200 * FACET_NS_PER_US)
#define SAMPLE_ALONE_NS  FACET_NS_PER_MS

/* While the vGPU is alone on the device: of launches without an estimate, one in this many is sampled. */
#define UNSAMPLED_MOST 8u

_Thread_local uint64_t facet_flight_accumulated_bytes[FACET_FLIGHT_DEVICES];

/* Varies by up to half, so that a program with a repeating pattern is not always sampled at the same kernel. */
static int64_t next_sample_ns(struct facet_flight_counter *counter)
{
    bool prompt = FACET_GATE_STATE(counter->gate) != FACET_GATE_OPEN;
    int64_t mean_ns = (int64_t)(prompt ? SAMPLE_PROMPT_NS : SAMPLE_ALONE_NS);

    if (prompt && atomic_load_explicit(&counter->stream, memory_order_relaxed) == FACET_FLIGHT_PER_THREAD)
        return 0; /* only this thread can query its per-thread stream */
    counter->random = counter->random * 1664525u + 1013904223u;
    return mean_ns / 2 + (int64_t)((uint64_t)mean_ns * (counter->random >> 16) >> 16);
}

/*
 * A default stream belongs to the current context, which a thread may change. Only sampled launches check the context.
 */
static bool context_is_current(const struct facet_flight_counter *counter, void *stream)
{
    void *context;

    return !facet_flight_stream_is_default(stream) ||
           (facet_flight_driver.stream_context(stream, &context) && context == counter->context);
}

/* Moves a launch to the counter of the current context, if that context is of the vGPU that admitted the launch. */
static void change_counter(struct facet_flight *launch, void *stream)
{
    struct facet_tenant *tenant = launch->counter->tenant;

    facet_flight_thread_forget_counters();
    struct facet_flight_counter *counter = facet_flight_counter(stream);
    if (counter && counter->tenant == tenant)
        launch->counter = counter;
}

static void drop_sample(struct facet_flight *launch)
{
    if (launch->sample)
        facet_flight_sample_free(launch->counter, launch->sample);
    launch->sample = NULL;
}

/*
 * A launch without an estimate is sampled: at once while others wait, else one in UNSAMPLED_MOST, because samples are
 * slow.
 */
static bool sample_is_due(const struct facet_flight_counter *counter, bool changed)
{
    uint64_t unsampled = atomic_load_explicit(&counter->submitted, memory_order_relaxed) - counter->sampled;

    return changed || counter->until_sample_ns < 0 || FACET_GATE_STATE(counter->gate) != FACET_GATE_OPEN ||
           unsampled >= UNSAMPLED_MOST;
}

static void sample_launch(struct facet_flight *launch, void *stream, const void *object, uint64_t size)
{
    uint32_t gate = atomic_load_explicit(&launch->counter->tenant->policy->gate, memory_order_relaxed);
    bool changed = gate != launch->counter->gate;
    int saved = errno;

    launch->counter->gate = gate;
    if (!sample_is_due(launch->counter, changed))
        return;
    if (!context_is_current(launch->counter, stream))
        change_counter(launch, stream);
    launch->counter->until_sample_ns = next_sample_ns(launch->counter);
    launch->kind->object = NULL; /* the sample changes the estimate, so the next launch looks it up again */
    launch->sample = facet_flight_sample_new(launch->counter, true);
    if (launch->sample) {
        launch->sample->key = facet_estimate_key(object, size);
        launch->sample->after_others = changed;
        if (!facet_flight_driver.event_record(launch->sample->start, stream))
            drop_sample(launch);
    }
    errno = saved;
}

bool facet_flight_admitted(struct facet_flight *launch, struct facet_flight_counter *counter,
                           struct facet_flight_kind *kind, uint64_t charge, void *stream, const void *object,
                           uint64_t size)
{
    uint64_t mean_ns = atomic_load_explicit(&counter->mean_ns, memory_order_relaxed);
    uint32_t gate = atomic_load_explicit(&counter->tenant->policy->gate, memory_order_relaxed);

    if (charge == FACET_TENANT_LOST)
        return false;
    facet_flight_wake();
    *launch = (struct facet_flight){.counter = counter,
                                    .kind = kind,
                                    .charge = charge,
                                    .expected_ns = kind->estimate_ns ? kind->estimate_ns : mean_ns};
    counter->until_sample_ns -= (int64_t)launch->expected_ns + FACET_FLIGHT_SAMPLE_FLOOR_NS;
    if (counter->until_sample_ns < 0 || !kind->estimate_ns || counter->gate != gate)
        sample_launch(launch, stream, object, size);
    return true;
}

/*
 * The time to request from the limiter. Two launches may be in flight even if they slightly exceed the depth together:
 * with only one, the device would idle from its end until the next is submitted. So a launch whose estimate exceeds
 * half the depth by no more than an eighth requests half the depth.
 */
static uint64_t requested_ns(const struct facet_tenant *tenant, uint64_t estimate_ns)
{
    uint64_t half_depth_ns = atomic_load_explicit(&tenant->policy->depth_ns, memory_order_relaxed) / 2;

    return estimate_ns > half_depth_ns && estimate_ns - half_depth_ns <= half_depth_ns / 8 ? half_depth_ns
                                                                                           : estimate_ns;
}

/* Looks the estimate up, and caches it for the next launch of the kind. */
static struct facet_flight_kind *look_up_kind(struct facet_flight_counter *counter, const void *object, uint64_t size)
{
    struct facet_flight_kind *kind = facet_flight_kind_at(counter, object, size);

    kind->estimate_ns = facet_estimate_get(facet_estimate_key(object, size));
    kind->request_ns = requested_ns(counter->tenant, kind->estimate_ns);
    kind->object = kind->estimate_ns ? object : NULL;
    kind->size = size;
    return kind;
}

/* ns * due / counts: the estimate for all transfers for which this transfer is admitted. */
static uint64_t scale_ns(uint64_t ns, uint64_t due, uint64_t counts)
{
    return (uint64_t)((double)ns * (double)due / (double)counts);
}

static bool begin_launch(struct facet_flight *launch, void *stream, const void *object, uint64_t size, uint64_t due,
                         uint64_t counts)
{
    void *context;
    bool captures = atomic_load_explicit(&facet_flight_captures, memory_order_relaxed);

    *launch = (struct facet_flight){.counter = NULL};
    if (captures && facet_flight_driver.stream_captured(stream))
        return true; /* the stream records the launch: nothing runs, so nothing is admitted */
    struct facet_flight_counter *counter = facet_flight_counter(stream);
    if (!counter)
        return !facet_flight_driver.stream_context(stream, &context);
    if (captures)
        counter->until_sample_ns =
            -1; /* streams are not queried during a capture, so only events tell the progress of this one */
    struct facet_flight_kind *kind = look_up_kind(counter, object, size);
    uint64_t all_ns = due == counts ? kind->estimate_ns : scale_ns(kind->estimate_ns, due, counts);
    uint64_t others_ns = all_ns - kind->estimate_ns;
    uint64_t request_ns = others_ns ? requested_ns(counter->tenant, all_ns) : kind->request_ns;
    uint64_t charge = facet_tenant_launch_in(counter->tenant, counter->shard, request_ns);
    counter->until_sample_ns -= (int64_t)others_ns;
    if (!facet_flight_admitted(launch, counter, kind, charge, stream, object, size))
        return false;
    launch->others_ns = others_ns;
    return true;
}

bool facet_flight_begin(struct facet_flight *launch, void *stream, const void *object, uint64_t size)
{
    return begin_launch(launch, stream, object, size, 1, 1);
}

/* The thread's cached kinds are keyed by name and size, which no kernel's launch matches. */
bool facet_flight_transfer_begin(struct facet_flight *launch, void *stream, const char *name, uint64_t bytes,
                                 uint64_t due)
{
    return begin_launch(launch, stream, name, 63u - (unsigned)__builtin_clzll(bytes), due,
                        facet_flight_transfer_counts(bytes));
}

void facet_flight_failed(struct facet_flight_counter *counter, uint64_t charge)
{
    facet_tenant_refused_in(counter->tenant, counter->shard, charge);
}

void facet_flight_end(struct facet_flight *launch, void *stream, bool accepted)
{
    struct facet_flight_counter *counter = launch->counter;

    if (!counter)
        return;
    if (!accepted) {
        drop_sample(launch);
        facet_flight_failed(counter, launch->charge);
        return;
    }
    facet_flight_count(counter, launch->charge, launch->expected_ns + launch->others_ns);
    if (!launch->sample)
        return;
    launch->sample->expected_ns = launch->expected_ns;
    if (facet_flight_driver.event_record(launch->sample->end, stream))
        facet_flight_sample_append(counter, launch->sample);
    else
        drop_sample(launch);
}
