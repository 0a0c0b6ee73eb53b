/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schedulers: one thread per device that has vGPUs, which waits for their processes and runs the policy.
 *
 * Owns: the threads, the devices' lock files, the attachment of segments (src/limiter/owner.h) to the policy
 * (src/compute/fair.h), heartbeats, and reclaiming dead processes. Never: speaks HTTP, touches the database, or creates
 * and removes segments' folders.
 *
 * Thread rule: every function from any thread. None blocks for more than a scheduling step (microseconds).
 */
#ifndef FACETD_SCHEDULER_H
#define FACETD_SCHEDULER_H

#include "limiter/belief.h"
#include "limiter/owner.h"

struct scheduler; /* all devices of this daemon */

/* The measured state of one vGPU. */
struct scheduler_view {
    struct facet_usage_totals totals;
    uint64_t device_time_ns; /* as published: over any window, all vGPUs of a device together have at most the window */
    bool share_valid;        /* the vGPU has been watched for at least 100 ms */
    uint32_t share_milli;    /* share of the device over the last second; those of all vGPUs sum to at most 1000 */
    bool frozen;
    bool idle_frozen;  /* frozen because it was idle; the next launch resumes it */
    bool stuck;        /* oversubscribed, gives no memory back, and no vGPU waits for it any longer */
    uint32_t believed; /* which totals are plausible (limiter/belief.h); BUSY covers device time and share, too */
    bool damaged;      /* a process wrote into its segment or truncated it */
    bool in_use;       /* a process or a holder has it */
};

/* `runtime_dir` holds the lock files (<runtime>/devices/<id>.lock). */
enum facet_status scheduler_start(const char *runtime_dir, struct scheduler **ret_scheduler, struct facet_error *error);

/* Stops the threads; gates and segments stay as they are, so tenants carry on. NULL is allowed. */
void scheduler_stop(struct scheduler *scheduler);

/* The path of a device's lock file, for facet_owner_create(). Makes the file on first use. */
enum facet_status scheduler_device_lock(struct scheduler *scheduler, const char *device_id, char *ret_path, size_t size,
                                        struct facet_error *error);

/*
 * Puts a vGPU under its device's scheduler. On success the scheduler owns `owner` until scheduler_remove(). FACET_BUSY
 * when the device has as many vGPUs as the policy can hold. `frozen` is the vGPU's first state. The mode in
 * `limits` says whether it takes turns (mode_is_timed() in plan.h) or has all its launches admitted.
 */
enum facet_status scheduler_add(struct scheduler *scheduler, const char *device_id, const char *vgpu_id,
                                struct facet_owner *owner, const struct facet_limits *limits, bool frozen,
                                struct facet_error *error);

/* Takes a vGPU out, retires its segment, whose tenants are then refused, and closes `owner`. FACET_NOT_FOUND when
 * unknown. */
enum facet_status scheduler_remove(struct scheduler *scheduler, const char *vgpu_id, struct facet_error *error);

enum facet_status scheduler_set_limits(struct scheduler *scheduler, const char *vgpu_id,
                                       const struct facet_limits *limits, struct facet_error *error);
enum facet_status scheduler_set_frozen(struct scheduler *scheduler, const char *vgpu_id, bool frozen,
                                       struct facet_error *error);
/*
 * Makes `resources` (FACET_RESOURCE_*) of the vGPU freeze after `idle_ns` without use (0: never), until the next use.
 * The segment keeps the setting; in a new segment it is 0.
 */
enum facet_status scheduler_set_idle_freeze(struct scheduler *scheduler, const char *vgpu_id, uint32_t resources,
                                            uint64_t idle_ns, struct facet_error *error);
enum facet_status scheduler_view(struct scheduler *scheduler, const char *vgpu_id, struct scheduler_view *ret_view,
                                 struct facet_error *error);

#endif
