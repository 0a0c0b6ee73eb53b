/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measurements of nodes, devices, containers and processes: values with their units, or the reason why a value is
 * missing.
 *
 * Owns: the registry of meters (measurable quantities) and of units, gathering from control groups, /proc and
 * providers, statistics over the last points, and two forms of output: JSON and Prometheus text.
 * Never: puts zero for an unknown value, lets one meter's failure touch another or last beyond one sample, reads a
 * clock, or opens anything outside the directories that it is given.
 *
 *     facet_subject_create(&(struct facet_subject_config){.size = sizeof(struct facet_subject_config),
 *         .kind = FACET_SUBJECT_CONTAINER, .id = "c0ffee", .points = 16}, &subject, &error);
 *     for (;;) {
 *         count = FACET_GATHER_MOST;
 *         facet_gather_container(cgroup, now_ns(), measurements, &count, &error);
 *         facet_subject_add(subject, measurements, count, &error);
 *         facet_subjects_json(&subject, 1, &text, &error);
 *         ...
 *     }
 *
 * Amounts are signed 64-bit integers: a meter says how many of their digits are behind the point (`decimals`), so that
 * the amount 45250 of a meter with 3 decimals is 45.250. A value that does not fit is reported as
 * FACET_UNMEASURED_OUT_OF_RANGE, never cut off. Times are nanoseconds of one clock that only goes forward
 * (CLOCK_MONOTONIC), given by the caller.
 *
 * Thread rule: gathering and queries are pure and may run in any thread; one thread at a time for each subject. Errors,
 * besides those named: FACET_INVALID_ARGUMENT, FACET_NO_MEMORY. On failure nothing has changed. Source: Backend.AI's
 * "gather_node_measures", "gather_container_measures", "gather_process_measures"; docs/measurements.md.
 */
#ifndef FACET_MEASUREMENT_H
#define FACET_MEASUREMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_device_metrics;

/* --- units: a closed list --- */

enum facet_unit {
    FACET_UNIT_COUNT = 0,
    FACET_UNIT_BYTES = 1,
    FACET_UNIT_PERCENT = 2, /* of one CPU or device: two CPUs at work are 200 */
    FACET_UNIT_NANOSECONDS = 3,
    FACET_UNIT_MILLISECONDS = 4,
    FACET_UNIT_BITS_PER_SECOND = 5,
    FACET_UNIT_BYTES_PER_SECOND = 6,
    FACET_UNIT_COUNT_PER_SECOND = 7,
    FACET_UNIT_WATTS = 8,
    FACET_UNIT_JOULES = 9,
    FACET_UNIT_CELSIUS = 10,
    FACET_UNIT_HERTZ = 11,
};
#define FACET_UNITS 12u

FACET_API const char *facet_unit_name(uint32_t unit); /* "bytes_per_second"; NULL when unknown */

/* Finds a unit by its name, in upper or lower case; also by "msec", "nsec" and "bps" (bits), the names that older
 * plugins use. FACET_NOT_FOUND lists the known names. */
FACET_API enum facet_status facet_unit_find(const char *name, uint32_t *ret_unit, struct facet_error *error);

/* --- meters: measurable quantities --- */

enum facet_meter_type {
    FACET_METER_GAUGE = 0,        /* a momentary level */
    FACET_METER_RATE = 1,         /* per second, between two samples */
    FACET_METER_UTILIZATION = 2,  /* how much of a capacity was at work between two samples */
    FACET_METER_ACCUMULATION = 3, /* only grows, until it begins anew */
};
#define FACET_METER_TYPES 4u

enum facet_subject_kind {
    FACET_SUBJECT_NODE = 0,
    FACET_SUBJECT_DEVICE = 1,
    FACET_SUBJECT_CONTAINER = 2,
    FACET_SUBJECT_PROCESS = 3,
};
#define FACET_SUBJECT_KINDS 4u

/* Statistics, of which each meter names those that mean something for it. */
#define FACET_STATISTIC_MIN     (UINT32_C(1) << 0)
#define FACET_STATISTIC_MAX     (UINT32_C(1) << 1)
#define FACET_STATISTIC_SUM     (UINT32_C(1) << 2)
#define FACET_STATISTIC_AVERAGE (UINT32_C(1) << 3)
#define FACET_STATISTIC_DIFF    (UINT32_C(1) << 4)
#define FACET_STATISTIC_RATE    (UINT32_C(1) << 5)
#define FACET_STATISTICS        6u

struct facet_meter {
    uint32_t size;
    uint32_t type;       /* enum facet_meter_type */
    uint32_t unit;       /* enum facet_unit */
    uint32_t decimals;   /* digits behind the point, 0 to 9 */
    uint32_t statistics; /* FACET_STATISTIC_* */
    uint32_t subjects;   /* bit 1 << enum facet_subject_kind: the subjects that have it */
    const char *key;     /* "memory_used": lower-case letters, digits and '_', beginning with a letter, at most 47
                            characters, and not ending with _capacity or _total */
    const char *name;    /* for people, in ASCII, at most 100 characters: "Memory used" */
};

FACET_API const char *facet_meter_type_name(uint32_t type);            /* "gauge"; NULL when unknown */
FACET_API const char *facet_subject_kind_name(uint32_t kind);          /* "container"; NULL when unknown */
FACET_API const char *facet_statistic_name(uint32_t statistic);        /* of one bit: "average"; NULL when unknown */
FACET_API uint32_t facet_meter_count(void);                            /* how many meters the registry has */
FACET_API const struct facet_meter *facet_meter_at(uint32_t index);    /* NULL beyond the last; never freed */
FACET_API const struct facet_meter *facet_meter_find(const char *key); /* NULL when there is none */

/*
 * Checks a meter of the caller's own: its key, type, unit, decimals and subjects, and whether its type allows its
 * statistics. A gauge may have all statistics; a rate or a utilization min, max, average and diff; an accumulation diff
 * and rate. FACET_ALREADY_EXISTS: the registry has another meter with this key.
 */
FACET_API enum facet_status facet_meter_check(const struct facet_meter *meter, struct facet_error *error);

/* --- measurements --- */

/* Why a sample has no value. The next sample may have one. */
enum facet_unmeasured {
    FACET_MEASURED = 0,                /* there is a value */
    FACET_UNMEASURED_ABSENT = 1,       /* the kernel or the device does not offer it */
    FACET_UNMEASURED_PERMISSION = 2,   /* this process may not read it */
    FACET_UNMEASURED_MALFORMED = 3,    /* the text is not in the expected form */
    FACET_UNMEASURED_OUT_OF_RANGE = 4, /* the number does not fit into int64_t */
    FACET_UNMEASURED_GONE = 5,         /* the process, container or device is no more */
    FACET_UNMEASURED_IO = 6,           /* reading failed */
    FACET_UNMEASURED_UNLIMITED = 7,    /* a limit that is not set */
    FACET_UNMEASURED_FIRST = 8,        /* the value needs two samples, and this was the first */
    FACET_UNMEASURED_RESET = 9,        /* the counter that it is computed from began anew since the last sample */
};
#define FACET_UNMEASURED_REASONS 10u

FACET_API const char *facet_unmeasured_name(uint32_t reason); /* "permission"; NULL when unknown */

struct facet_measurement {
    uint32_t size;
    uint32_t reason;                 /* enum facet_unmeasured; when it is not 0, `value` means nothing */
    const struct facet_meter *meter; /* of the registry, or the caller's own, which must outlive all that use it */
    int64_t value;
    int64_t capacity; /* the most that `value` can be, in the same unit; only with has_capacity */
    uint32_t has_capacity;
    uint32_t reserved;
    uint64_t time_ns;
    uint64_t identity; /* distinguishes two subjects of the same name: a process's start time, a control group's inode,
                          a hash of the interfaces; 0: unknown */
};

/* Percent of capacity, in thousandths. False without a value or a capacity, for a capacity of zero, or if the result
 * does not fit. */
FACET_API bool facet_measurement_percent(const struct facet_measurement *measurement, int64_t *ret_percent_milli);

/* --- gathering: one sample --- */

#define FACET_GATHER_MOST 32u /* measurements of one sample, at most */

/*
 * Each function writes a measurement for every meter that it knows, in the order of the registry, measured or not.
 * *count is the room in `measurements`, and becomes their number. The functions allocate no memory, and follow no path
 * out of the directory. They fail only because of an argument (FACET_TOO_SMALL: no room); when a value cannot be read,
 * its measurement has the reason.
 *
 * A container: `cgroup` is its directory in a control group file system of version 2, recognized by its file
 * cgroup.controllers: without that file it counts as gone. An io.stat that is empty is zero, one that does not exist is
 * absent.
 */
FACET_API enum facet_status facet_gather_container(int cgroup, uint64_t now_ns, struct facet_measurement *measurements,
                                                   uint32_t *count, struct facet_error *error);

/* A process: `proc` is the directory /proc, or one like it. All values are of one process, even if its pid is reused
 * meanwhile. CPU time comes in steps of the kernel's tick, mostly 10 ms. */
FACET_API enum facet_status facet_gather_process(int proc, int64_t pid, uint64_t now_ns,
                                                 struct facet_measurement *measurements, uint32_t *count,
                                                 struct facet_error *error);

/*
 * The node. Its network is the sum of all interfaces but `lo`, as `proc`'s reader sees them: a packet through a bridge
 * or a bond is counted at each interface that it passes. When the set of interfaces changes, the sum begins anew.
 */
FACET_API enum facet_status facet_gather_node(int proc, uint64_t now_ns, struct facet_measurement *measurements,
                                              uint32_t *count, struct facet_error *error);

/*
 * A device: its provider's metrics (facet/provider/metrics.h); NULL when it is lost. `memory_bytes` is the device's
 * memory; 0: unknown.
 */
FACET_API enum facet_status facet_gather_device(const struct facet_device_metrics *metrics, uint64_t memory_bytes,
                                                uint64_t now_ns, struct facet_measurement *measurements,
                                                uint32_t *count, struct facet_error *error);

/* --- statistics --- */

struct facet_point {
    uint64_t time_ns;
    int64_t value;
    uint32_t reason; /* enum facet_unmeasured */
    uint32_t reserved;
};

struct facet_statistics {
    uint32_t size;
    uint32_t valid;    /* FACET_STATISTIC_*: which of these are known */
    uint32_t points;   /* points that the statistics are over, measured or not */
    uint32_t measured; /* points with a value, which min, max, sum and average are over */
    int64_t min;
    int64_t max;
    int64_t sum;
    int64_t average_milli; /* in thousandths of the amounts' unit (10^-decimals), to the nearest */
    int64_t diff;          /* the last value less the first */
    int64_t rate_milli;    /* `diff` per second, in thousandths of the amounts' unit */
};

/*
 * The statistics that the meter names, as far as they are known, of points in the order of growing time. `diff` and
 * `rate` need two values, one of them the last point; they are unknown for an accumulation that went back in between.
 */
FACET_API struct facet_statistics facet_points_summarize(const struct facet_meter *meter,
                                                         const struct facet_point *points, size_t count);

/* --- subjects: whose measurements they are, over time --- */

#define FACET_SUBJECT_ID_SIZE 512u
#define FACET_SUBJECT_POINTS  4096u
#define FACET_SUBJECT_METERS  64u

struct facet_subject;

struct facet_subject_config {
    uint32_t size;
    uint32_t kind;   /* enum facet_subject_kind */
    uint32_t points; /* how many samples statistics are over: 2 to FACET_SUBJECT_POINTS */
    uint32_t reserved;
    const char *id; /* a container's or device's id, a pid as text, a node's name; one line of UTF-8, copied */
};

/* FACET_OUT_OF_RANGE: points, or an id of FACET_SUBJECT_ID_SIZE bytes or more. */
FACET_API enum facet_status facet_subject_create(const struct facet_subject_config *config,
                                                 struct facet_subject **ret_subject, struct facet_error *error);
FACET_API void facet_subject_destroy(struct facet_subject *subject); /* NULL is fine */

/*
 * Adds one round of measurements. Rates and utilizations that the registry derives (cpu_utilization from cpu_time, ...)
 * are computed from this round and earlier ones. A meter that is missing from a round keeps its points. A measurement
 * whose identity is known and differs from the last known one is of another subject: its points, and derived values,
 * begin anew. The call adds all measurements or none. FACET_INVALID_ARGUMENT: a time that is not later than the meter's
 * last one or is beyond INT64_MAX, or a meter that comes twice, is not for this kind of subject, or fails
 * facet_meter_check(). FACET_OUT_OF_RANGE: more than FACET_SUBJECT_METERS meters.
 */
FACET_API enum facet_status facet_subject_add(struct facet_subject *subject,
                                              const struct facet_measurement *measurements, uint32_t count,
                                              struct facet_error *error);

/* The number of meters that the subject has had, derived meters included. */
FACET_API uint32_t facet_subject_meters(const struct facet_subject *subject);

/* The last measurement of a meter, and statistics over its points (may be NULL). `index` counts meters in the order in
 * which they came. FACET_NOT_FOUND. */
FACET_API enum facet_status facet_subject_get(const struct facet_subject *subject, uint32_t index,
                                              struct facet_measurement *ret_measurement,
                                              struct facet_statistics *ret_statistics, struct facet_error *error);
FACET_API enum facet_status facet_subject_find(const struct facet_subject *subject, const char *key,
                                               struct facet_measurement *ret_measurement,
                                               struct facet_statistics *ret_statistics, struct facet_error *error);

/* --- output: the caller frees the text --- */

/*
 * As schemas/measurements.schema.json says. Values are whole numbers with their `decimals` beside them; an unmeasured
 * value is null with its reason.
 */
FACET_API enum facet_status facet_subjects_json(struct facet_subject *const *subjects, size_t count, char **ret_text,
                                                struct facet_error *error);

/*
 * Exposition format 0.0.4, in base units: facet_container_memory_used_bytes{id="c0ffee"}. An unmeasured meter has no
 * sample of its own, but a sample of facet_unmeasurable with the reason. FACET_INVALID_ARGUMENT: two subjects of one
 * kind have the same id, or two subjects have different meters with the same key.
 */
FACET_API enum facet_status facet_subjects_prometheus(struct facet_subject *const *subjects, size_t count,
                                                      char **ret_text, struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
