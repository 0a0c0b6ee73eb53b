/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor's internals, shared by executor*.c alone.
 *
 * Owns: its structs and the rules for access to them. Never: included by other files.
 *
 * The executor's lock guards all fields except the atomic ones. It is held to choose a turn and to account for it, and
 * never during a work-group, a transfer, or a callback.
 */
#ifndef CPU_EXECUTOR_PARTS_H
#define CPU_EXECUTOR_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "compute/pick.h"
#include "executor.h"

#define CPU_LINE 64u /* bytes of a cache line */

/* Work-groups [begin, end) of a job, counted along x, then y, then z. */
struct cpu_group_range {
    uint64_t begin, end;
};

/* A launch or a transfer. Allocated in one piece with its returned ranges and its arguments. */
struct cpu_job {
    TAILQ_ENTRY(cpu_job) link;
    struct cpu_stream *stream;
    cpu_done_func done;
    void *done_owner;

    const struct facet_host_kernel *kernel; /* NULL: a transfer, or a job that only waits */
    const struct facet_host_check *check;
    const void *arguments;
    struct facet_host_group group; /* local and scratch are each unit's own */
    uint64_t local_bytes, scratch_bytes;

    cpu_work_func work; /* a transfer: one group */
    void *work_owner;

    bool only_waits;                  /* runs nothing: ends when `awaited` has completed `awaited_sequence` */
    const struct cpu_stream *awaited; /* under the lock; NULL: it was destroyed */
    uint64_t awaited_sequence;

    uint64_t phase_end;              /* work-groups up to the end of the phase */
    uint64_t all_groups;             /* work-groups of all phases */
    const struct cpu_phases *phases; /* NULL: there is one phase */
    uint32_t phase;
    _Alignas(CPU_LINE) atomic_uint_least64_t next; /* the first unclaimed work-group; may pass `phase_end` */
    atomic_uint_least64_t group_ns;                /* how long the last work-groups took each; 0: unknown */

    /* Under the lock. */
    _Alignas(CPU_LINE) struct facet_launch_record record;
    uint32_t running; /* units in the job */
    bool stopped;     /* no more of its work-groups are claimed */
    /*
     * Work-groups that were claimed and not run, by units that had to turn to other work. A unit has one range, and
     * takes a returned one before it claims another. So there are never more returned ranges than units.
     */
    uint32_t returned_count;
    struct cpu_group_range *returned_ranges;
};

struct cpu_stream {
    TAILQ_ENTRY(cpu_stream) link;
    struct cpu_tenant *tenant;
    uint32_t priority;
    uint64_t turn; /* number of its last turn: of streams of equal priority the one with the lowest goes next */
    TAILQ_HEAD(, cpu_job) jobs;
    bool is_calling_done;   /* a thread calls a job's `done` */
    uint64_t wake_sequence; /* the first number whose end a thread sleeps for; UINT64_MAX: none */
    struct facet_stream_state state;
    atomic_uint_least64_t completed; /* of `state`, for threads that read it without the lock */

    struct facet_launch_record *records; /* a ring; grows to CPU_RECORDS */
    uint32_t record_capacity;
    uint64_t recorded; /* records that were kept so far */
};

#define CPU_RECORDS 1024u

struct cpu_tenant {
    struct cpu_executor *executor;
    int entity;           /* its index in `pick` */
    uint32_t units_most;  /* by limits */
    uint32_t units_bound; /* by cpu_tenant_set_bounds() */
    uint32_t launches_most, launches_under_way;
    uint32_t waiting; /* jobs that wait for another stream */
    uint32_t active;  /* units at work for it */
    bool paused;
    bool has_new_work;    /* work arrived for which no unit was preempted yet */
    uint64_t busy_ns;     /* time charged */
    uint64_t reported_ns; /* the most that was reported: the time of turns that have not ended is only an estimate */
    TAILQ_HEAD(, cpu_stream) streams;
    uint32_t watchers; /* threads that sleep until any job ends, or no unit works for it */
    /* Signalled when a job that a thread waits for ends; with watchers: when any job ends, or the last unit leaves. */
    pthread_cond_t changed;
};

/* A unit's work before it takes the lock again. */
struct cpu_turn {
    struct cpu_group_range range; /* claimed and not run */
    uint64_t start_ns, until_ns, end_ns;
    uint64_t begin_ns, run_ns; /* when it released the lock; the time from then to the last work-group's end */
    uint64_t processor_ns;     /* the part of run_ns in which the thread had a processor; UINT64_MAX: all, or unknown */
    uint64_t groups, longest_ns;
    enum facet_status status;
};

/*
 * A thread may be ended while it is inside of a work-group. The watchdog sets CPU_ENDING first, and a thread that finds
 * that when it leaves the work-group waits to be ended. pthread_setcancelstate() alone is not enough: a cancellation
 * that was sent before the call takes effect after it.
 */
enum cpu_endable { CPU_OUTSIDE = 0, CPU_INSIDE, CPU_ENDING };

/* A thread. */
struct cpu_unit {
    struct cpu_executor *executor;
    uint32_t index;
    pthread_t thread;
    pthread_cond_t wake;
    /* Only its thread touches these. */
    void *local, *scratch;
    uint64_t local_bytes, scratch_bytes;
    uint64_t last_work_ns;        /* when it last had work, by cpu_deadline_ns() */
    uint64_t thread_time_ns;      /* its thread's processor time at the last reading */
    uint64_t thread_time_read_ns; /* the time of that reading */
    struct cpu_turn turn;         /* once its thread is ended, the watchdog has it */

    /* Under the lock. */
    struct cpu_job *job; /* NULL: none */
    uint64_t turn_start_ns;
    bool long_turn; /* no other tenant waited when the turn began */
    bool idle;      /* in the list of units that sleep */
    bool spins;     /* in the list of units that poll for work without the lock */
    bool is_waking; /* it was woken, and does not run yet */
    uint64_t look_again_ns;
    SLIST_ENTRY(cpu_unit) link;
    uint64_t watched_groups, watched_since_ns, watched_processor_ns; /* as the watchdog last read them */
    bool reported;
    uint64_t leave_by_ns; /* its job was stopped: when its thread is ended, by cpu_deadline_ns(). 0: it was not */
    bool thread_is_ended; /* its thread was ended, and no other was started yet */
    uint64_t ended_processor_ns; /* turn.processor_ns of the thread that is being ended */

    _Alignas(CPU_LINE) atomic_bool must_leave; /* leave the job at the next work-group */
    atomic_uint_least64_t groups_begun;        /* so far */
    atomic_uint_least64_t begin_thread_ns;     /* its processor time when the turn began; 0: not known */
    atomic_int endable;                        /* enum cpu_endable */
};

struct cpu_executor {
    struct cpu_executor_options options;
    pthread_mutex_t lock;
    struct facet_pick pick;
    struct cpu_tenant *tenants[FACET_PICK_ENTITIES];
    uint32_t units_started; /* threads */
    atomic_uint active;     /* units at work; waiting threads read it without the lock */
    uint64_t turns;
    bool keeps_units;  /* no preemption: a tenant keeps its units until it has no work */
    uint64_t slice_ns; /* of a turn while others wait; 0: the executor's own */
    uint64_t unit_ns, busy_ns, active_since_ns;
    SLIST_HEAD(, cpu_unit) idle;     /* the one that went to sleep last is first: its caches are warm */
    SLIST_HEAD(, cpu_unit) spinning; /* they get work before a sleeping unit is woken */
    uint32_t spinners;               /* units in `spinning` */
    uint64_t jobs;                   /* jobs of all streams that have not ended */
    atomic_uint waking_units;        /* units on their way from sleep */
    bool closing;

    pthread_t watchdog;
    pthread_cond_t watchdog_wake; /* a unit works, or has a deadline to leave, or `closing` is set */
    bool watching, watchdog_started;

    struct cpu_unit units[];
};

static inline uint64_t cpu_executor_now_ns(const struct cpu_executor *executor)
{
    return executor->options.now_ns(executor->options.owner);
}

/* The processor time of the calling thread; 0: unknown, which it always is with options.now_ns. */
uint64_t cpu_thread_ns(const struct cpu_executor *executor);

/* Under the lock: processor time of the unit's thread in its present turn; UINT64_MAX: unknown. */
uint64_t cpu_unit_processor_ns(const struct cpu_unit *unit);

/* executor_job.c */
enum facet_status cpu_job_new(struct cpu_stream *stream, uint32_t argument_bytes, struct cpu_job **ret_job,
                              struct facet_error *error);
bool cpu_job_has_more(const struct cpu_job *job);
bool cpu_job_is_over(const struct cpu_job *job);
/* Whether a thread can be ended in the job's work-groups: code of images, and no other, holds no lock or resource. */
bool cpu_job_can_be_ended(const struct cpu_job *job);
/* Opens the next phase when all work-groups of the present one have run. */
void cpu_job_open_next_phase(struct cpu_job *job);
void cpu_job_take_range(struct cpu_job *job, struct cpu_group_range *ret_range);
void cpu_job_run(struct cpu_unit *unit, struct cpu_job *job, struct cpu_turn *turn);

/* executor_turn.c: all under the lock */
void *cpu_unit_main(void *unit);
uint32_t cpu_tenant_units_most(const struct cpu_tenant *tenant);
enum facet_status cpu_units_begin(struct cpu_executor *executor, struct facet_error *error);
void cpu_tenant_refresh(struct cpu_tenant *tenant);
void cpu_tenant_arrive(struct cpu_tenant *tenant);
void cpu_units_reconsider(struct cpu_executor *executor);
void cpu_units_preempt(struct cpu_executor *executor, const struct cpu_tenant *tenant, const struct cpu_stream *stream);
bool cpu_unit_start(struct cpu_unit *unit);
/* Accounts for a turn in which the unit's thread was ended. FACET_OK: the job had been cancelled. */
void cpu_unit_account_ended(struct cpu_unit *unit, enum facet_status status);

/* executor_stream.c: all under the lock */
bool cpu_stream_is_claimable(const struct cpu_stream *stream);
/* Reports the jobs at the head of the stream that have ended. It releases the lock meanwhile. */
void cpu_stream_settle(struct cpu_stream *stream);
void cpu_stream_stop(struct cpu_stream *stream);
void cpu_stream_release(struct cpu_stream *stream);

/* executor_tenant.c: under the lock. Wakes watchers if there are any: a needless wake-up costs as much as a job. */
void cpu_tenant_signal(struct cpu_tenant *tenant);
/* Waits for `changed` as a watcher. Returns what cpu_condition_wait() does. */
bool cpu_tenant_watch(struct cpu_tenant *tenant, uint64_t deadline_ns);

/* executor_record.c: all under the lock */
void cpu_record_keep(struct cpu_stream *stream, const struct facet_launch_record *record);

/* executor_watch.c: under the lock */
void cpu_watchdog_wake(struct cpu_executor *executor);
/* The unit's job was stopped: sets the time at which the unit's thread is ended if it is still in the work-group. */
void cpu_watchdog_set_deadline(struct cpu_unit *unit);
void cpu_watchdog_end(struct cpu_executor *executor);

/* executor.c */
bool cpu_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);
void cpu_condition_init(pthread_cond_t *condition);
/* Waits for `condition`, by the real clock; false: `deadline_ns` has passed. UINT64_MAX: waits forever. */
bool cpu_condition_wait(struct cpu_executor *executor, pthread_cond_t *condition, uint64_t deadline_ns);
uint64_t cpu_deadline_ns(uint64_t timeout_ns);

#endif
