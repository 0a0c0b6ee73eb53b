/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limiter as a library: quotas of workers, for hosts that manage processes themselves.
 *
 * Owns: workers (one vGPU's quota on one device), the processes in them, admission of memory and compute, freezing.
 * Never: decides shares between workers, which the daemon's scheduler does. A worker is kept to its own limit.
 *
 * A worker is the same shared segment that `facetd` makes for a vGPU: a process that finds its folder in FACET_VGPU_DIR
 * is limited by an interposer without this API. Memory and time registered here on behalf of a process count against
 * the same quota. Compute is device time in nanoseconds, never launches or tokens.
 *
 * Owner: the caller closes the handle that facet_limiter_open() gives. Workers are files: they outlive the handle and
 * the process. One handle at a time manages a folder. Thread rule: any number of threads may call every function at
 * once, except close, during which no other call may be under way.
 */
#ifndef FACET_LIMITER_H
#define FACET_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/limits.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_limiter;

/* Resources, as bits. */
#define FACET_RESOURCE_MEMORY  (UINT32_C(1) << 0)
#define FACET_RESOURCE_COMPUTE (UINT32_C(1) << 1)

struct facet_limiter_worker {
    uint32_t size;
    uint32_t reserved;
    const char *id;             /* names the folder: [A-Za-z0-9][A-Za-z0-9._-]*, at most 63 bytes */
    const char *device_id;      /* "opencl:0" */
    const char *device_name;    /* for people; may be NULL */
    const char *device_address; /* facet_device_info.address, for interposers; may be NULL */
    uint64_t device_memory_bytes;
    struct facet_limits limits; /* memory_bytes 0: all of the device's memory */
};

/* The answer of a check. */
struct facet_limiter_verdict {
    uint32_t size;
    uint32_t admitted;  /* 1: recorded. 0: nothing was recorded, the caller must not go on */
    uint64_t available; /* bytes of the quota, or nanoseconds of device time, that are left now. Memory of dead
                           processes counts as used until facet_limiter_worker_state() or a heartbeat is called, or
                           until a check would be refused without it */
    uint64_t wait_ns; /* compute: how long until the work would be admitted; 0 when admitted, UINT64_MAX while frozen */
};

struct facet_limiter_state {
    uint32_t size;
    uint32_t frozen;      /* FACET_RESOURCE_* bits frozen by hand */
    uint32_t auto_frozen; /* FACET_RESOURCE_* bits frozen because the worker was idle: the next use resumes them */
    uint32_t processes;
    uint64_t frozen_since_ns; /* CLOCK_REALTIME; 0 when not frozen */
    uint64_t memory_bytes, memory_limit_bytes, memory_peak_bytes;
    uint64_t busy_ns; /* device time ever recorded */
    uint64_t denied;  /* memory checks refused */
    uint64_t idle_ns; /* time since the last launch or check */
};

/*
 * `dir`: the folder in which the workers' folders are; NULL: the folder of this user's facetd. Made when missing.
 * FACET_PERMISSION when another user can change it or a folder that leads to it (ADR 27).
 * FACET_BUSY when another handle or daemon manages it.
 */
FACET_API enum facet_status facet_limiter_open(const char *dir, struct facet_limiter **ret_limiter,
                                               struct facet_error *error);
/* Workers stay. NULL is allowed. */
FACET_API void facet_limiter_close(struct facet_limiter *limiter);

/* FACET_ALREADY_EXISTS: adopt a worker that an earlier handle left with facet_limiter_worker_adopt(). */
FACET_API enum facet_status facet_limiter_worker_create(struct facet_limiter *limiter,
                                                        const struct facet_limiter_worker *worker,
                                                        struct facet_error *error);
FACET_API enum facet_status facet_limiter_worker_adopt(struct facet_limiter *limiter,
                                                       const struct facet_limiter_worker *worker,
                                                       struct facet_error *error);
/* FACET_BUSY while a live process is in the worker. With `force` the worker is removed nevertheless, and calls of such
 * a process fail. */
FACET_API enum facet_status facet_limiter_worker_remove(struct facet_limiter *limiter, const char *id, bool force,
                                                        struct facet_error *error);
FACET_API enum facet_status facet_limiter_worker_set_limits(struct facet_limiter *limiter, const char *id,
                                                            const struct facet_limits *limits,
                                                            struct facet_error *error);

/*
 * A sign of life for interposed processes; call it every 200 ms. After 400 ms without a call these processes pace
 * themselves at the worker's guaranteed share. Also reclaims the memory of dead processes, and freezes idle workers.
 */
FACET_API enum facet_status facet_limiter_worker_heartbeat(struct facet_limiter *limiter, const char *id,
                                                           struct facet_error *error);

/*
 * Puts a live process into a worker. The death of the process is noticed without a call, and its memory is given back.
 * FACET_NOT_FOUND: no such process. FACET_ALREADY_EXISTS: the process is in the worker already. FACET_BUSY: the worker
 * has 4,096 processes.
 */
FACET_API enum facet_status facet_limiter_process_register(struct facet_limiter *limiter, const char *id, int32_t pid,
                                                           struct facet_error *error);

/* Checks a change of memory (`bytes` above 0: takes; below 0: gives back), and records it when it fits. The sum over
 * all processes never exceeds the quota by a byte. Giving back more than the process holds is FACET_OUT_OF_RANGE. */
FACET_API enum facet_status facet_limiter_memory_check(struct facet_limiter *limiter, const char *id, int32_t pid,
                                                       int64_t bytes, struct facet_limiter_verdict *ret_verdict,
                                                       struct facet_error *error);

/*
 * Checks and records `busy_ns` of device time against the worker's compute limit: a bucket that fills with
 * compute_limit_milli / 1000 of real time and holds at most 10 ms. A cost above the bucket's content is admitted only
 * when the bucket is full; later checks are refused until the debt is repaid.
 */
FACET_API enum facet_status facet_limiter_compute_check(struct facet_limiter *limiter, const char *id, int32_t pid,
                                                        uint64_t busy_ns, struct facet_limiter_verdict *ret_verdict,
                                                        struct facet_error *error);

/* Freezing by hand holds until the resource is resumed. A second freeze changes nothing. */
FACET_API enum facet_status facet_limiter_freeze(struct facet_limiter *limiter, const char *id, uint32_t resources,
                                                 struct facet_error *error);
FACET_API enum facet_status facet_limiter_resume(struct facet_limiter *limiter, const char *id, uint32_t resources,
                                                 struct facet_error *error);

/* From now on the resources freeze by themselves after `idle_ns` without use (0: never), and resume with the next
 * use. */
FACET_API enum facet_status facet_limiter_auto_freeze(struct facet_limiter *limiter, const char *id, uint32_t resources,
                                                      uint64_t idle_ns, struct facet_error *error);
/* Ends an automatic freeze now; a freeze by hand stays. */
FACET_API enum facet_status facet_limiter_auto_resume(struct facet_limiter *limiter, const char *id, uint32_t resources,
                                                      struct facet_error *error);

/* FACET_CORRUPT when a process has written over the worker's segment, so that these numbers mean nothing. */
FACET_API enum facet_status facet_limiter_worker_state(struct facet_limiter *limiter, const char *id,
                                                       struct facet_limiter_state *ret_state,
                                                       struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
