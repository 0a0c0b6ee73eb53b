/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monitoring virtual GPUs: recent measurements, and a callback when a threshold is passed.
 *
 * Owns: samples of vGPUs and devices, taken once in every monitoring interval of their driver (facet/vgpu.h) and kept
 * in a ring, and watches, which compare the samples with thresholds. Never: estimates a value. A field that was not
 * measured is not zero: its bit in `valid` is clear.
 *
 *     facet_driver_watch(driver, &(struct facet_watch){.size = sizeof(struct facet_watch), .vgpu = 1,
 *         .measure = FACET_MEASURE_MEMORY_MILLI, .level = 800, .clear_level = 700, .told = warn}, &watch, &error);
 *     count = 64;
 *     facet_vgpu_get_history(driver, 1, 0, samples, &count, &error);
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. Thread rule: any thread. docs/promises.md lists the promises and their
 * tests.
 */
#ifndef FACET_MONITOR_H
#define FACET_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_driver;

/* --- samples --- */

enum facet_sample_field {
    FACET_SAMPLE_BUSY_NS = 0,      /* counter: device time (facet/compute.h) */
    FACET_SAMPLE_MEMORY_BYTES = 1, /* gauge */
    FACET_SAMPLE_LAUNCHES = 2,     /* counter */
    FACET_SAMPLE_COMPLETED = 3,    /* counter */
    FACET_SAMPLE_QUEUE_NS = 4,     /* counter: the sum of the queueing times of all completed launches */
    FACET_SAMPLE_QUEUED = 5,       /* gauge: launches that wait */
    FACET_SAMPLE_RUNNING = 6,      /* gauge: launches that began and are not complete */
};
#define FACET_SAMPLE_FIELDS 7u

struct facet_sample {
    uint64_t time_ns;
    uint32_t valid; /* bit 1 << field: it was measured */
    uint64_t values[FACET_SAMPLE_FIELDS];
};

/* The values that a watch can follow (facet_driver_watch()). Each is computed from two successive samples. */
enum facet_measure {
    FACET_MEASURE_UTILIZATION_MILLI = 0, /* device time per elapsed time; above 1000 when several units work at once */
    FACET_MEASURE_MEMORY_MILLI = 1,      /* memory in use, as a part of the limit `memory_bytes` */
    FACET_MEASURE_QUEUE_DELAY_NS = 2,  /* mean queueing time of the launches that completed between the samples; absent
                                          when none completed */
    FACET_MEASURE_LAUNCHES_MILLI = 3,  /* thousandths of a launch per second */
    FACET_MEASURE_COMPLETED_MILLI = 4, /* thousandths of a completed launch per second */
    FACET_MEASURE_MEMORY_BYTES = 5,    /* this and the next two: the gauge in the later sample */
    FACET_MEASURE_QUEUED = 6,
    FACET_MEASURE_RUNNING = 7,
};

FACET_API const char *facet_sample_field_name(enum facet_sample_field field); /* "busy_ns"; NULL when unknown */
FACET_API const char *facet_measure_name(enum facet_measure measure); /* "utilization_milli"; NULL when unknown */

/* --- history --- */

/*
 * Samples later than `after_ns`, oldest first: at most *count of them, which becomes their number. A caller that passes
 * the time of its last sample misses none that the ring still has. In samples of a vGPU busy_ns is device time, running
 * work included if the device reports it; in samples of a device it is the time with at least one kernel on the device.
 * FACET_NOT_FOUND: no such vGPU or device.
 */
FACET_API enum facet_status facet_vgpu_get_history(struct facet_driver *driver, uint32_t id, uint64_t after_ns,
                                                   struct facet_sample *samples, uint32_t *count,
                                                   struct facet_error *error);
FACET_API enum facet_status facet_driver_get_history(struct facet_driver *driver, uint32_t device, uint64_t after_ns,
                                                     struct facet_sample *samples, uint32_t *count,
                                                     struct facet_error *error);

/* --- thresholds --- */

struct facet_watch_event {
    uint32_t size;
    uint32_t raised;   /* 1: the measure was beyond `level` for long enough; 0: it is back at `clear_level` */
    uint64_t watch;    /* the number of the watch */
    uint64_t value;    /* the value of the measure */
    uint64_t time_ns;  /* when the sample that caused the event was taken */
    uint64_t since_ns; /* when the first sample was taken since which the measure has been beyond the level, or back */
};

/* Called in the driver's monitoring thread, which waits until it returns, so it must be brief. It may call any function
 * of the driver except those that wait for the monitoring thread: facet_driver_watch(), facet_driver_unwatch() and
 * facet_vgpu_destroy() return FACET_BAD_STATE, and facet_driver_close() does nothing, so that the driver stays open. */
typedef void (*facet_watch_func)(void *owner, const struct facet_watch_event *event);

/*
 * A threshold of a vGPU or a device. `told` is called once when the measure was beyond `level` for `for_ns`, and once
 * when it was back at `clear_level` for as long: so a measure that oscillates around the level raises one event.
 */
struct facet_watch {
    uint32_t size;
    uint32_t vgpu;    /* number of the vGPU; 0: the watch is on a device */
    uint32_t device;  /* index of the device, when `vgpu` is 0 */
    uint32_t measure; /* enum facet_measure */
    uint32_t below;   /* 0: raised when the measure is above `level`; 1: when it is below */
    uint32_t reserved;
    uint64_t level;
    uint64_t clear_level; /* at most `level` when `below` is 0, at least `level` when it is 1 */
    uint64_t for_ns;      /* 0: at once */
    facet_watch_func told;
    void *owner;
};

/* `ret_watch` may be NULL. A watch ends with its vGPU. FACET_NOT_FOUND: no such vGPU or device. FACET_INVALID_ARGUMENT:
 * an unknown measure, a clear_level on the wrong side of the level, or no function. */
FACET_API enum facet_status facet_driver_watch(struct facet_driver *driver, const struct facet_watch *watch,
                                               uint64_t *ret_watch, struct facet_error *error);
/* After this returns the watch's function is not called any more. FACET_NOT_FOUND. */
FACET_API enum facet_status facet_driver_unwatch(struct facet_driver *driver, uint64_t watch,
                                                 struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
