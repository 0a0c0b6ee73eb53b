/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the thread that measures devices and vGPUs, once in every monitoring interval.
 * Never: estimates. A value that the device does not report stays unknown.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/integer.h"
#include "device/listing.h"
#include "memory/unmap_queue.h"
#include "monitor/sample.h"
#include "vgpu/driver.h"
#include "vgpu/measure.h"
#include "vgpu/pin.h"
#include "vgpu/stream.h"
#include "vgpu/watch.h"

#define PIN_CHECK_NS FACET_NS_PER_MS /* where memory swaps: how often the thread checks which launches are over */

/* ---- vGPUs ---- */

static void add_stream(struct facet_vgpu *vgpu, struct facet_vgpu_stream *stream, struct facet_sample *sample)
{
    pthread_mutex_lock(&stream->lock);
    (void)facet_vgpu_stream_drain_records(vgpu, stream,
                                          NULL); /* a failure is ignored: a lost device keeps its last state */
    const struct facet_stream_state *state = &stream->state;
    uint64_t begun = state->begun > state->completed ? state->begun : state->completed;

    sample->values[FACET_SAMPLE_BUSY_NS] += state->busy_ns;
    sample->values[FACET_SAMPLE_LAUNCHES] += stream->launched;
    sample->values[FACET_SAMPLE_COMPLETED] += state->completed;
    sample->values[FACET_SAMPLE_QUEUED] += stream->launched - begun;
    sample->values[FACET_SAMPLE_RUNNING] += begun - state->completed;
    sample->values[FACET_SAMPLE_QUEUE_NS] += stream->delay_ns;
    if (stream->lost_records)
        sample->valid &= ~(UINT32_C(1) << FACET_SAMPLE_QUEUE_NS);
    pthread_mutex_unlock(&stream->lock);
}

static int by_worker(const void *left, const void *right)
{
    const struct facet_process_metrics *a = left, *b = right;

    return strcmp(a->worker, b->worker);
}

static void read_processes(struct facet_vgpu_device *device)
{
    const struct facet_listing_query query = {.provider = device->provider,
                                              .instance = device->instance,
                                              .kind = FACET_LISTING_PROCESSES,
                                              .device = device->number};
    void *items = NULL;

    if (device->processes || !(device->info.capabilities & FACET_CAN_PROCESS_METRICS) ||
        facet_listing_read(&query, &items, &device->process_count, NULL) != FACET_OK)
        return;
    device->processes = items;
    if (items)
        qsort(items, device->process_count, sizeof *device->processes, by_worker);
}

/* Adds the time of running work. Streams sum up completed work only; the device's busy time of the worker has both. */
static void add_running(struct facet_vgpu *vgpu, struct facet_sample *sample)
{
    struct facet_vgpu_device *device = vgpu->device;
    struct facet_process_metrics key = {0};
    uint64_t *busy_ns = &sample->values[FACET_SAMPLE_BUSY_NS];

    if (sample->values[FACET_SAMPLE_RUNNING] > 0) {
        read_processes(device);
        memcpy(key.worker, vgpu->worker, sizeof key.worker);
        const struct facet_process_metrics *found =
            device->processes
                ? bsearch(&key, device->processes, device->process_count, sizeof *device->processes, by_worker)
                : NULL;

        if (found && found->valid & FACET_PROCESS_HAS_BUSY && found->busy_ns > *busy_ns)
            *busy_ns = found->busy_ns;
    }
    /* The device may have counted more for a running launch than its record says at the end. */
    if (*busy_ns < vgpu->last.values[FACET_SAMPLE_BUSY_NS])
        *busy_ns = vgpu->last.values[FACET_SAMPLE_BUSY_NS];
}

static void take_sample(struct facet_vgpu *vgpu, struct facet_sample *ret_sample)
{
    *ret_sample = (struct facet_sample){.time_ns = facet_clock_now_ns(), .valid = (1u << FACET_SAMPLE_FIELDS) - 1};
    for (uint32_t i = 0; i < vgpu->streams; i++)
        add_stream(vgpu, &vgpu->stream[i], ret_sample);
    add_running(vgpu, ret_sample);
    ret_sample->valid &= ~(UINT32_C(1) << FACET_SAMPLE_MEMORY_BYTES);
    if (vgpu->space)
        facet_sample_set(ret_sample, FACET_SAMPLE_MEMORY_BYTES, facet_space_reserved_bytes(vgpu->space));
}

/* A history is allocated when its vGPU is first used, so that unused vGPUs take no memory for it. */
static struct facet_history *history_of(struct facet_vgpu *vgpu)
{
    struct facet_history *history = atomic_load(&vgpu->history);

    if (history || !atomic_load(&vgpu->used))
        return history;
    if (facet_history_create(vgpu->driver->config.history, &history, NULL) != FACET_OK)
        return NULL; /* the next measurement tries again */
    atomic_store(&vgpu->history, history);
    return history;
}

/* A launch may be counted only at its end, with its time before this interval, too; so the value is capped. */
static void note_utilization(struct facet_vgpu *vgpu, const struct facet_sample *sample)
{
    uint32_t parallel = facet_vgpu_device_parallel(vgpu->device);
    uint64_t milli = 0;

    if (!vgpu->last.time_ns || !facet_sample_measure(&vgpu->last, sample, FACET_MEASURE_UTILIZATION_MILLI, 0, &milli))
        return;
    pthread_mutex_lock(&vgpu->driver->monitor_lock);
    vgpu->compute_milli = (uint32_t)facet_min_u64(milli / parallel, FACET_MILLI_WHOLE);
    vgpu->measured = true;
    pthread_mutex_unlock(&vgpu->driver->monitor_lock);
}

static void measure_vgpu(struct facet_vgpu *vgpu)
{
    struct facet_history *history = history_of(vgpu);
    struct facet_sample sample;

    if (vgpu->space)
        facet_space_try_unmap_freed(vgpu->space);
    take_sample(vgpu, &sample);
    note_utilization(vgpu, &sample);
    if (history)
        (void)facet_history_add(history, &sample); /* fails only when the last sample has the same time */
    if (vgpu->driver->config.scaling && vgpu->last.time_ns)
        facet_vgpu_scale_note(vgpu, &vgpu->last, &sample);
    vgpu->last = sample;
    facet_vgpu_watches_feed(
        vgpu->driver,
        &(struct facet_vgpu_subject){.serial = vgpu->serial, .memory_bytes = atomic_load(&vgpu->limit_bytes)}, &sample);
}

static void for_each_vgpu(struct facet_driver *driver, void (*run)(struct facet_vgpu *vgpu))
{
    struct facet_vgpu *vgpu;

    for (uint32_t id = 0; (vgpu = facet_vgpu_next(driver, id));) {
        id = vgpu->id + 1;
        run(vgpu);
        facet_vgpu_drop(vgpu);
        if (id == 0)
            break;
    }
}

/* ---- devices ---- */

static void measure_device(struct facet_vgpu_device *device)
{
    struct facet_device_metrics metrics = {.size = sizeof metrics};
    struct facet_driver *driver = device->driver;

    if (atomic_load(&device->lost))
        return;
    enum facet_status status = device->provider->metrics->device(device->instance, device->number, &metrics, NULL);
    if (status == FACET_DEVICE_LOST)
        atomic_store(&device->lost, true);
    if (status != FACET_OK)
        return;
    pthread_mutex_lock(&driver->monitor_lock);
    if (metrics.valid & FACET_METRIC_BUSY) {
        device->busy_ns = metrics.busy_ns;
        device->valid |= FACET_DRIVER_HAS_BUSY;
    }
    if (metrics.valid & FACET_METRIC_COMPUTE_ACTIVE) {
        device->utilization_milli = metrics.compute_active_milli;
        device->valid |= FACET_DRIVER_HAS_UTILIZATION;
    }
    pthread_mutex_unlock(&driver->monitor_lock);
    struct facet_sample sample = {.time_ns = facet_clock_now_ns()};

    if (metrics.valid & FACET_METRIC_BUSY)
        facet_sample_set(&sample, FACET_SAMPLE_BUSY_NS, metrics.busy_ns);
    if (metrics.valid & FACET_METRIC_MEMORY_USED)
        facet_sample_set(&sample, FACET_SAMPLE_MEMORY_BYTES, metrics.memory_used_bytes);
    (void)facet_history_add(device->history, &sample);
    facet_vgpu_watches_feed(
        driver, &(struct facet_vgpu_subject){.device = device->index, .memory_bytes = device->memory_bytes}, &sample);
}

/* ---- the thread ---- */

static void release_pins(struct facet_vgpu *vgpu)
{
    facet_vgpu_pins_release(vgpu, false);
}

static void measure_driver(struct facet_driver *driver)
{
    for (uint32_t i = 0; i < driver->devices; i++)
        measure_device(&driver->device[i]);
    for_each_vgpu(driver, measure_vgpu);
    facet_vgpu_remains_free_finished(driver, NULL);
    for (uint32_t i = 0; i < driver->devices; i++) {
        free(driver->device[i].processes);
        driver->device[i].processes = NULL;
    }
    for (uint32_t i = 0; i < driver->devices && driver->config.scaling; i++)
        if (!atomic_load(&driver->device[i].lost))
            facet_vgpu_scale(&driver->device[i]);
}

static bool driver_swaps(const struct facet_driver *driver)
{
    return driver->config.memory && driver->config.memory->swap_bytes > 0;
}

/* Returns false when the driver closes. */
static bool sleep_until(struct facet_driver *driver, uint64_t until_ns)
{
    struct timespec until = facet_ns_timespec(until_ns);
    int result = 0;

    pthread_mutex_lock(&driver->monitor_lock);
    while (!driver->closing && result == 0)
        result = pthread_cond_timedwait(&driver->monitor_wake, &driver->monitor_lock, &until);
    bool closing = driver->closing;
    pthread_mutex_unlock(&driver->monitor_lock);
    return !closing;
}

static void *run_measurement(void *argument)
{
    struct facet_driver *driver = argument;
    uint64_t step = driver_swaps(driver) ? PIN_CHECK_NS : driver->config.monitor_ns, now = facet_clock_now_ns();
    uint64_t next_sample = now, next_wake = now;

    do {
        if (driver_swaps(driver))
            for_each_vgpu(driver, release_pins);
        now = facet_clock_now_ns();
        if (now >= next_sample) {
            measure_driver(driver);
            facet_vgpu_publish(driver, now);
            next_sample = now + driver->config.monitor_ns;
        }
        next_wake = (next_wake + step > now ? next_wake : now) + step; /* missed samples are not made up for */
    } while (sleep_until(driver, next_wake));
    return NULL;
}

enum facet_status facet_vgpu_measure_start(struct facet_driver *driver, struct facet_error *error)
{
    int result = pthread_create(&driver->thread, NULL, run_measurement, driver);

    if (result != 0)
        return facet_error_errno(error, result, "no thread to measure with");
    driver->measuring = true;
    return FACET_OK;
}

void facet_vgpu_measure_stop(struct facet_driver *driver)
{
    if (!driver->measuring)
        return;
    pthread_mutex_lock(&driver->monitor_lock);
    driver->closing = true;
    pthread_cond_broadcast(&driver->monitor_wake);
    pthread_mutex_unlock(&driver->monitor_lock);
    pthread_join(driver->thread, NULL);
    driver->measuring = false;
}
