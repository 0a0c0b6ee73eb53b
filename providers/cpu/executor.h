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
    uint32_t processors;  /* while fewer units work, a waiting thread polls before it sleeps; 0: it never polls */
    uint64_t watchdog_ns; /* a work-group that runs longer is reported once; 0: none is reported */
    /* A thread is ended, and another takes its place, if its work-group runs for longer than `end_after_ns` after its
     * launch was cancelled, or for longer than `group_most_ns` in all: that launch fails with FACET_TIMEOUT. 0: no
     * thread is ended. Threads can be ended only in images that are not checked, outside of mathematics. */
    uint64_t end_after_ns, group_most_ns;
    /* Called from the watchdog's thread with the kernel and its running time so far. NULL: not called. */
    void (*overlong)(void *owner, const char *kernel, uint64_t running_ns);
    void *owner;
    uint32_t policy; /* enum facet_pick_policy (src/compute/pick.h); 0: fair */
    /*
     * The clock for charges and records. NULL: CLOCK_MONOTONIC, and a unit is charged only the time in which its thread
     * ran on a processor.
     */
    uint64_t (*now_ns)(void *owner);
};

/* Starts no thread before the first job. FACET_NO_MEMORY, FACET_OUT_OF_RANGE. */
enum facet_status cpu_executor_create(const struct cpu_executor_options *options, struct cpu_executor **ret_executor,
                                      struct facet_error *error);
/* Ends and joins the threads. All tenants are destroyed before. NULL is allowed. */
void cpu_executor_destroy(struct cpu_executor *executor);

/* Since the start: the working time of all units, summed, and the time in which at least one unit worked. */
void cpu_executor_busy(struct cpu_executor *executor, uint64_t *ret_unit_ns, uint64_t *ret_busy_ns);

/* Like facet_execution_ops.set_policy, with a valid `policy`. `slice_ns` 0: the executor's own length of turns. */
void cpu_executor_set_policy(struct cpu_executor *executor, uint32_t policy, bool preempt, uint64_t slice_ns);

enum facet_status cpu_tenant_create(struct cpu_executor *executor, struct cpu_tenant **ret_tenant,
                                    struct facet_error *error);
/* Cancels all work of the tenant, returns when no unit runs it, and frees the streams. NULL is allowed. */
void cpu_tenant_destroy(struct cpu_tenant *tenant);
/* Like facet_execution_ops.set_share. A new tenant is best effort, without a cap, and of normal priority. */
void cpu_tenant_set_share(struct cpu_tenant *tenant, uint32_t request_milli, uint32_t limit_milli, uint32_t priority);
/* At most `units` units work for the tenant at a time: a hard limit. A new tenant may use all. */
void cpu_tenant_set_units(struct cpu_tenant *tenant, uint32_t units);
/* Like facet_execution_ops.set_bounds. The bounds hold in addition to cpu_tenant_set_units(). */
void cpu_tenant_set_bounds(struct cpu_tenant *tenant, uint32_t units, uint32_t launches);
/* The time that was charged to the tenant. It never decreases. */
uint64_t cpu_tenant_busy_ns(struct cpu_tenant *tenant);
uint32_t cpu_tenant_units_active(struct cpu_tenant *tenant);
/* true: units claim no more work-groups of the tenant; waits until none runs (FACET_TIMEOUT). false: ends that. */
enum facet_status cpu_tenant_pause(struct cpu_tenant *tenant, bool pause, uint64_t timeout_ns);
/* Waits until no stream of the tenant has work left. FACET_TIMEOUT: always when it has work and is paused. */
enum facet_status cpu_tenant_wait(struct cpu_tenant *tenant, uint64_t timeout_ns);

enum facet_status cpu_stream_create(struct cpu_tenant *tenant, struct cpu_stream **ret_stream,
                                    struct facet_error *error);
/* Cancels the stream's work, and returns when no unit runs it. NULL is allowed. */
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
 * Queues a launch. `launch` was validated. It and the arguments are copied; the kernel is borrowed until `done`.
 * With `check` the work-groups run one at a time, and `check->barrier` is called before each. So the owner sees the
 * accesses of one work-group between two such calls. `check` NULL: not a checked image.
 */
enum facet_status cpu_stream_launch(struct cpu_stream *stream, const struct facet_host_kernel *kernel,
                                    const struct facet_launch *launch, const void *arguments,
                                    const struct facet_host_check *check, void *check_owner, cpu_done_func done,
                                    void *owner, struct facet_error *error);
/*
 * A launch whose work-groups run in phases: a phase begins when the last work-group of the phase before has ended. It
 * is one job, with one sequence number and one record. `phases` is borrowed until `done`.
 */
struct cpu_phases {
    uint32_t count;           /* at least 1 */
    const uint64_t *ends;     /* for each phase the index behind its last work-group; the last is the grid's size */
    const atomic_int *status; /* read between work-groups: an enum facet_status other than FACET_OK ends the launch */
};
enum facet_status cpu_stream_launch_phases(struct cpu_stream *stream, const struct facet_host_kernel *kernel,
                                           const struct facet_launch *launch, const void *arguments,
                                           const struct cpu_phases *phases, cpu_done_func done, void *owner,
                                           struct facet_error *error);

/*
 * Queues a transfer: `work` runs on a unit when its turn comes. A status other than FACET_OK fails the stream, and jobs
 * that are queued behind it still run. facet_stream_state counts it as it counts launches.
 */
typedef enum facet_status (*cpu_work_func)(void *owner);
enum facet_status cpu_stream_call(struct cpu_stream *stream, cpu_work_func work, cpu_done_func done, void *owner,
                                  struct facet_error *error);

/* Queues a job that is complete when all jobs that `other`, a stream of the same tenant, has now are complete. */
enum facet_status cpu_stream_await(struct cpu_stream *stream, struct cpu_stream *other, struct facet_error *error);

enum facet_status cpu_stream_wait(struct cpu_stream *stream, uint64_t timeout_ns);
void cpu_stream_state(struct cpu_stream *stream, struct facet_stream_state *ret_state);
void cpu_stream_cancel(struct cpu_stream *stream);
/* Cancels one job; false: no job with that number is incomplete. */
bool cpu_stream_cancel_one(struct cpu_stream *stream, uint64_t sequence);
/* Copies at most `capacity` records after number `after` to `records` (may be NULL); returns how many there are. */
uint32_t cpu_stream_records(struct cpu_stream *stream, uint64_t after, struct facet_launch_record *records,
                            uint32_t capacity);

#endif
