/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monitoring virtual GPUs: recent measurements, and a callback when a threshold is passed.
 *
 * Owns: samples of vGPUs and devices, taken once in every monitoring interval of their driver (facet/vgpu.h), kept in a
 * ring, and rules over them.
 * Never: estimates. Absent is not zero: a field that was not measured is marked.
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
    FACET_SAMPLE_QUEUE_NS = 4,     /* counter: how long those that completed had waited, in all */
    FACET_SAMPLE_QUEUED = 5,       /* gauge: waiting */
    FACET_SAMPLE_RUNNING = 6,      /* gauge: begun and not completed */
};
#define FACET_SAMPLE_FIELDS 7u

struct facet_sample {
    uint64_t time_ns;
    uint32_t valid; /* bit 1 << field: it was measured */
    uint64_t values[FACET_SAMPLE_FIELDS];
};

/* The measures of two samples that follow each other, which can be asked for and watched (facet_driver_watch()). */
enum facet_measure {
    FACET_MEASURE_UTILIZATION_MILLI = 0, /* device time per time; above 1000 where several units work */
    FACET_MEASURE_MEMORY_MILLI = 1,      /* of `memory_bytes` */
    FACET_MEASURE_QUEUE_DELAY_NS = 2,    /* mean of those that completed in between; absent when none did */
    FACET_MEASURE_LAUNCHES_MILLI = 3,    /* thousandths of a launch per second */
    FACET_MEASURE_COMPLETED_MILLI = 4,   /* likewise */
    FACET_MEASURE_MEMORY_BYTES = 5,      /* the gauges, as they are */
    FACET_MEASURE_QUEUED = 6,
    FACET_MEASURE_RUNNING = 7,
};

FACET_API const char *facet_sample_field_name(enum facet_sample_field field); /* "busy_ns"; NULL when unknown */
FACET_API const char *facet_measure_name(enum facet_measure measure); /* "utilization_milli"; NULL when unknown */

/* --- history --- */

/*
 * Samples later than `after_ns`, oldest first: at most *count of them, which becomes their number. A caller that passes
 * the time of its last sample misses none that the ring still has. Of a vGPU busy_ns is device time, running work
 * included if the device reports it; of a device it is time with something on it.
 * FACET_NOT_FOUND.
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
    uint32_t raised;  /* 1: the level was passed; 0: the measure is back */
    uint64_t watch;   /* the number of the watch */
    uint64_t value;   /* of the measure */
    uint64_t time_ns; /* of the sample that decided it */
    uint64_t since_ns;
};

/* Called in the driver's monitoring thread, which waits for it: so be brief. It may call any function of the driver but
 * those that wait for that thread: facet_driver_watch(), facet_driver_unwatch() and facet_vgpu_destroy() are
 * FACET_BAD_STATE in it, and facet_driver_close() does nothing: the driver stays open. */
typedef void (*facet_watch_func)(void *owner, const struct facet_watch_event *event);

/*
 * Told once when the measure was beyond its level over `for_ns`, and once when it was back at `clear_level` over as
 * long: a measure that oscillates around the level raises one event.
 */
struct facet_watch {
    uint32_t size;
    uint32_t vgpu;    /* its number; 0: a device */
    uint32_t device;  /* index, when `vgpu` is 0 */
    uint32_t measure; /* enum facet_measure */
    uint32_t below;   /* 1: raised when it is below its level */
    uint32_t reserved;
    uint64_t level;
    uint64_t clear_level; /* of a rule above: at most `level`; below: at least */
    uint64_t for_ns;      /* 0: at once */
    facet_watch_func told;
    void *owner;
};

/* `ret_watch` may be NULL. FACET_NOT_FOUND: the vGPU or device. FACET_INVALID_ARGUMENT: an unknown measure, a
 * clear_level on the wrong side, no function. A watch ends with its vGPU. */
FACET_API enum facet_status facet_driver_watch(struct facet_driver *driver, const struct facet_watch *watch,
                                               uint64_t *ret_watch, struct facet_error *error);
/* After this returns the watch's function is not called any more. FACET_NOT_FOUND. */
FACET_API enum facet_status facet_driver_unwatch(struct facet_driver *driver, uint64_t watch,
                                                 struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
