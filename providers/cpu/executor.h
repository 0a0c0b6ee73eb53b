/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor: a fixed set of compute units (threads) that claim work-groups from streams.
 *
 * Owns: units, the order of work, time measured per work-group and charged to tenants, preemption between work-groups,
 * cancelling, records, the watchdog that reports work-groups and ends them.
 * Never: knows contexts, modules or addresses (the provider's tables do), and never chooses the next tenant by itself:
 * the policies of src/compute do (ADR 12).
 *
 * A tenant is one context's presence: its share, its priority, its streams. A stream runs its jobs in order, one at a
 * time; the work-groups of one job run on as many units as the policy gives it. Between two work-groups a unit may turn
 * to another job; a job is never bound to a thread.
 *
 * Thread rule: any thread. Destroy functions may be called once per object, when no other thread uses it.
 */
#ifndef CPU_EXECUTOR_H
#define CPU_EXECUTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <facet/host_kernel.h>
#include <facet/provider.h>

#include "base/variables.h"

struct cpu_executor;
struct cpu_tenant;
struct cpu_stream;

#define CPU_UNITS_MOST FACET_VARIABLE_UNITS_MAX

struct cpu_executor_options {
    uint32_t units;       /* threads; 1 to CPU_UNITS_MOST */
    uint32_t processors;  /* while fewer units than that work, a waiting thread polls before it sleeps; 0: never */
    uint64_t watchdog_ns; /* a work-group that runs longer is reported, once; 0: none is */
    /* A work-group whose launch was cancelled has this time; then its thread is ended, and another one takes its place.
     * So is one that takes longer than `group_most_ns`: its launch fails with FACET_TIMEOUT. 0: none is. Only where a
     * thread can be ended: in images that are not checked, outside of mathematics. */
    uint64_t end_after_ns, group_most_ns;
    /* Called from the watchdog's thread with the kernel and its running time so far. NULL: not called. */
    void (*overlong)(void *owner, const char *kernel, uint64_t running_ns);
    void *owner;
    uint32_t policy; /* enum facet_pick_policy (src/compute/pick.h); 0: fair */
    /*
     * Time as it is charged and recorded. NULL: CLOCK_MONOTONIC, and a unit is charged the part of it in which it had
     * its processor.
     */
    uint64_t (*now_ns)(void *owner);
};

/* Starts no thread before the first job. FACET_NO_MEMORY, FACET_OUT_OF_RANGE. */
enum facet_status cpu_executor_create(const struct cpu_executor_options *options, struct cpu_executor **ret_executor,
                                      struct facet_error *error);
/* After all tenants. Ends and joins the threads. NULL is allowed. */
void cpu_executor_destroy(struct cpu_executor *executor);

/* Time that units were held, since the start, summed over them; and time with at least one unit at work. */
void cpu_executor_busy(struct cpu_executor *executor, uint64_t *ret_unit_ns, uint64_t *ret_busy_ns);

/* As facet_execution_ops.set_policy; `policy` is one that there is, `slice_ns` 0 the executor's own. */
void cpu_executor_set_policy(struct cpu_executor *executor, uint32_t policy, bool preempt, uint64_t slice_ns);

enum facet_status cpu_tenant_create(struct cpu_executor *executor, struct cpu_tenant **ret_tenant,
                                    struct facet_error *error);
/* Cancels everything; returns when no unit is in any of its work-groups. Its streams are freed. NULL is allowed. */
void cpu_tenant_destroy(struct cpu_tenant *tenant);
/* As facet_execution_ops.set_share. Begins as best effort, no cap, normal. */
void cpu_tenant_set_share(struct cpu_tenant *tenant, uint32_t request_milli, uint32_t limit_milli, uint32_t priority);
/* At most `units` units work for it at a time: a hard limit. Begins with all. */
void cpu_tenant_set_units(struct cpu_tenant *tenant, uint32_t units);
/* As facet_execution_ops.set_bounds: holds in addition to the limit above. */
void cpu_tenant_set_bounds(struct cpu_tenant *tenant, uint32_t units, uint32_t launches);
/* The time charged to it. Never goes back. */
uint64_t cpu_tenant_busy_ns(struct cpu_tenant *tenant);
uint32_t cpu_tenant_units_active(struct cpu_tenant *tenant);
/* Stops handing out its work-groups (true), or goes on. Returns when no unit is in one of them: FACET_TIMEOUT. */
enum facet_status cpu_tenant_pause(struct cpu_tenant *tenant, bool pause, uint64_t timeout_ns);
/* Waits until none of its streams has work left, at most `timeout_ns`, and not while it is paused: FACET_TIMEOUT. */
enum facet_status cpu_tenant_wait(struct cpu_tenant *tenant, uint64_t timeout_ns);

enum facet_status cpu_stream_create(struct cpu_tenant *tenant, struct cpu_stream **ret_stream,
                                    struct facet_error *error);
/* Cancels; returns when no unit is in one of its work-groups. NULL is allowed. */
void cpu_stream_destroy(struct cpu_stream *stream);
void cpu_stream_set_priority(struct cpu_stream *stream, uint32_t priority);

/*
 * Called once for each job that was accepted, when it is complete, failed or cancelled; from a unit's thread, the
 * cancelling thread, or the watchdog's, holding no lock. The calls for a stream come in order, and its next job begins
 * after the call: so be brief, and do not wait for or destroy the stream in it. A thread that waited for a job returns
 * after the job's call.
 */
typedef void (*cpu_done_func)(void *owner);

/*
 * A launch. `launch` was validated; both it and the arguments are copied, the kernel is borrowed until `done`.
 * With `check` the work-groups run one at a time, and its `barrier` is called before each: so the owner sees the
 * accesses of one work-group between two calls. NULL: not a checked image.
 */
enum facet_status cpu_stream_launch(struct cpu_stream *stream, const struct facet_host_kernel *kernel,
                                    const struct facet_launch *launch, const void *arguments,
                                    const struct facet_host_check *check, void *check_owner, cpu_done_func done,
                                    void *owner, struct facet_error *error);
/*
 * A launch whose work-groups run in phases: the first of a phase begins when the last of the phase before has ended.
 * Still one job: one count, one record. `phases` is borrowed until `done`.
 */
struct cpu_phases {
    uint32_t count;           /* at least 1 */
    const uint64_t *ends;     /* of each phase: its last work-group's index and one; rising, the last is the grid's */
    const atomic_int *status; /* read between work-groups: an enum facet_status other than FACET_OK ends it all */
};
enum facet_status cpu_stream_launch_phases(struct cpu_stream *stream, const struct facet_host_kernel *kernel,
                                           const struct facet_launch *launch, const void *arguments,
                                           const struct cpu_phases *phases, cpu_done_func done, void *owner,
                                           struct facet_error *error);

/*
 * A transfer: `work` runs on a unit in its turn. Its status fails the stream: jobs queued behind it still run. Counted
 * in facet_stream_state as launches are.
 */
typedef enum facet_status (*cpu_work_func)(void *owner);
enum facet_status cpu_stream_call(struct cpu_stream *stream, cpu_work_func work, cpu_done_func done, void *owner,
                                  struct facet_error *error);

/* A job that is complete when all jobs given to `other`, a stream of the same tenant, until now are. */
enum facet_status cpu_stream_await(struct cpu_stream *stream, struct cpu_stream *other, struct facet_error *error);

enum facet_status cpu_stream_wait(struct cpu_stream *stream, uint64_t timeout_ns);
void cpu_stream_state(struct cpu_stream *stream, struct facet_stream_state *ret_state);
void cpu_stream_cancel(struct cpu_stream *stream);
/* Cancels one job; false: no job with that number is incomplete. */
bool cpu_stream_cancel_one(struct cpu_stream *stream, uint64_t sequence);
/* At most `capacity` records above `after` into `records` (may be NULL); returns how many there are. */
uint32_t cpu_stream_records(struct cpu_stream *stream, uint64_t after, struct facet_launch_record *records,
                            uint32_t capacity);

#endif
