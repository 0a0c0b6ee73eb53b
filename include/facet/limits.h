/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's limits: memory quota, compute share, isolation mode, priority; and how people write them.
 *
 * Owns: struct facet_limits, its parsing from text and its checking against a device.
 * Never: enforces a limit, which the limiter does.
 *
 * Amounts are integers: bytes, and milli of one device (1000 = the whole device).
 * Thread rule: pure functions, callable from any thread.
 */
#ifndef FACET_LIMITS_H
#define FACET_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a vGPU is kept apart from its neighbours (docs/modes.md). */
enum facet_mode {
    FACET_MODE_SHARED = 0,      /* no limit, only accounted */
    FACET_MODE_SOFT = 1,        /* limiter, time-sharing, may oversubscribe compute */
    FACET_MODE_HARD = 2,        /* one-time spatial limit, never oversubscribed */
    FACET_MODE_PARTITIONED = 3, /* a hardware or driver slice */
};

enum facet_priority {
    FACET_PRIORITY_LOW = 0,
    FACET_PRIORITY_NORMAL = 1,
    FACET_PRIORITY_HIGH = 2,
};

#define FACET_MILLI_WHOLE 1000u

/* The longest vGPU name, terminator included. Names match [A-Za-z0-9][A-Za-z0-9._-]*. */
#define FACET_NAME_SIZE 64

struct facet_limits {
    uint64_t memory_bytes;          /* quota; 0 = all of the device's memory */
    uint32_t compute_request_milli; /* guaranteed share; 0 = best effort */
    uint32_t compute_limit_milli;   /* cap, 1..1000; 1000 = no cap */
    uint32_t mode;                  /* enum facet_mode */
    uint32_t priority;              /* enum facet_priority */
};

/* The defaults: all memory, best effort, no cap, mode soft, priority normal. */
FACET_API void facet_limits_init(struct facet_limits *limits);

/*
 * Reads a size: "268435456", "256M", "2G", "1.5G", "64k", "512MiB" (all powers of 1024), or "50%" of `whole_bytes`.
 * Refuses 0, signs, overflow, unknown suffixes, trailing text, and a percentage of an unknown (0) whole.
 * Errors: FACET_INVALID_ARGUMENT, FACET_OUT_OF_RANGE; the message holds `argument`, the text and the expected form.
 */
FACET_API enum facet_status facet_parse_size(const char *text, const char *argument, uint64_t whole_bytes,
                                             uint64_t *ret_bytes, struct facet_error *error);

/*
 * Reads compute: REQUEST[:LIMIT], each "30", "30%" or "0.3", all meaning 300 milli; a bare number of at most 1
 * with a decimal point is a fraction, anything else is a percentage. LIMIT defaults to 1000.
 * Refuses 0, above 100 %, below one milli, LIMIT < REQUEST, signs, trailing text.
 */
FACET_API enum facet_status facet_parse_compute(const char *text, const char *argument, uint32_t *ret_request_milli,
                                                uint32_t *ret_limit_milli, struct facet_error *error);

FACET_API const char *facet_mode_name(enum facet_mode mode);             /* "soft"; NULL when unknown */
FACET_API const char *facet_priority_name(enum facet_priority priority); /* "normal"; NULL when unknown */
FACET_API enum facet_status facet_parse_mode(const char *text, const char *argument, uint32_t *ret_mode,
                                             struct facet_error *error);
FACET_API enum facet_status facet_parse_priority(const char *text, const char *argument, uint32_t *ret_priority,
                                                 struct facet_error *error);

/* Whether `name` may name a vGPU (see FACET_NAME_SIZE). */
FACET_API enum facet_status facet_check_name(const char *name, const char *argument, struct facet_error *error);

/*
 * Checks `limits` against a device of `device_memory_bytes`: a size above the device's memory, a request above the
 * limit, and an unknown mode or priority are refused. The error names the argument as the command writes it ("memory",
 * "compute", "mode", "priority").
 */
FACET_API enum facet_status facet_limits_check(const struct facet_limits *limits, uint64_t device_memory_bytes,
                                               struct facet_error *error);

/* Writes bytes for people: "256 MiB", "1.5 GiB", "17 B". Returns `buffer`. 16 bytes are enough. */
FACET_API char *facet_format_size(uint64_t bytes, char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
#endif
