/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the files of the balancer share (facet/balance.h is the manual): its members, runners, buffers and
 * jobs.
 *
 * Owns: the objects, and the one lock that protects them.
 * Never: holds that lock while it copies, launches or waits for a device. The only call to a vGPU that is made under
 * the lock reads its status.
 *
 * A runner is a stream of a member and the thread that feeds it one job at a time. A job is a task, or a read or write
 * of a buffer by the host, which takes part in the order of tasks and is done by the calling thread. A job is
 *     held      until the jobs that it depends on are over (`unreleased`)
 *     placed    by the strategy in a member's queue, or unplaced while no member accepts jobs
 *     taken     by a runner, which brings its buffers, launches it, and waits
 *     over      its result can be read
 *     released  over, and so are the jobs that it depends on: the jobs that depend on it may go
 */
#ifndef FACET_VGPU_BALANCER_H
#define FACET_VGPU_BALANCER_H

#include <pthread.h>
#include <stdbool.h>

#include <facet/balance.h>

#include "compute/balance.h"

#define FACET_RUNNER_KERNELS        8u   /* loaded kernels that a runner keeps */
#define FACET_BALANCER_RATES        128u /* kernels whose measured time is kept */
#define FACET_BALANCER_PLAN_WORKS   512u /* jobs that are considered in each interval */
#define FACET_BALANCER_PLAN_ACTIONS 128u /* the most actions that are planned in an interval */

struct facet_job;

/* ---- buffers ---- */

struct facet_buffer_copy {
    uint64_t address; /* 0: no memory */
    bool valid;
    uint32_t users; /* running jobs that use it */
};

struct facet_job_use {
    struct facet_job *job;
    struct facet_buffer *buffer;
    uint32_t access;
    bool counts_as_user;               /* it is counted in `users` of the copy on the job's member */
    struct facet_job_use *next, *prev; /* links in the buffer's list `readers` */
    bool listed;
};

struct facet_buffer {
    uint64_t number, bytes;
    struct facet_job *writer;      /* the job that writes it and was submitted last; NULL once released */
    struct facet_job_use *readers; /* uses by jobs submitted since that writer that only read it */
    uint32_t jobs;                 /* jobs that use it and are not released */
    bool moving;                   /* a runner or the host copies it somewhere */
    bool never_written;            /* no copy is valid, and the content is zeros */
    enum facet_status lost_by;     /* FACET_OK, or the error by which its bytes were lost */
    unsigned char *host;           /* NULL: none */
    bool host_valid;
    struct facet_buffer_copy copy[]; /* by the member's index */
};

/* ---- jobs ---- */

struct facet_job_edge {
    struct facet_job *dependent;
    struct facet_job_edge *next;
};

enum facet_job_place {
    FACET_JOB_HELD = 0,
    FACET_JOB_READY = 1, /* to be placed, or to be released */
    FACET_JOB_UNPLACED = 2,
    FACET_JOB_QUEUED = 3,
    FACET_JOB_TAKEN = 4,
    FACET_JOB_RELEASED = 5,
};

struct facet_job {
    struct facet_balancer_task record; /* what facet_balancer_get_task() reports */
    struct facet_error *failure;       /* why it failed; NULL also when memory for this ran out */
    enum facet_status end_status;      /* the result, once it is over: FACET_BAD_STATE when cancelled */
    bool is_over, of_host, cancelled;
    bool express;  /* PREEMPT admitted it: the express runner takes it */
    bool launched; /* may have changed the buffers that it writes */
    bool pinned;   /* has all its memory on its member */
    enum facet_job_place place;
    uint32_t unreleased; /* jobs that must be released before it */
    uint32_t waiters;    /* threads in facet_balancer_wait() */
    uint32_t moves;      /* how often it was migrated or preempted */
    int previous_member; /* the member that it was migrated from last */
    uint64_t expected_ns;
    struct facet_job *next, *prev; /* of its queue, or of the list of jobs to be placed */

    struct facet_job_edge *dependents; /* a list; each element is in the `edges` of the job that depends on this one */
    struct facet_job_edge *edges;
    uint32_t uses_count;
    struct facet_job_use *uses;

    /* The members below are set in tasks only. */
    struct facet_image *image; /* the job holds a reference until it is released */
    const char *kernel;        /* name, in the image */
    struct facet_range range;
    uint64_t groups;
    uint32_t argument_count;
    struct facet_balancer_argument *arguments; /* their values are copied behind the array */
    uint32_t *kinds;
};

struct facet_job_list {
    struct facet_job *first, *last;
    uint32_t length;
};

/* ---- members ---- */

struct facet_runner {
    struct facet_balancer *balancer;
    uint32_t member, stream;
    bool express; /* takes only jobs that PREEMPT admitted */
    bool started;
    pthread_t thread;
    struct facet_job *job; /* the job that it runs; NULL: none */
    uint64_t taken_ns;
    uint32_t priority; /* of its stream; this and the members below are used by its own thread only */
    uint64_t kernel_uses;
    struct {
        struct facet_kernel *kernel;
        struct facet_image *image; /* the kernel holds it */
        const char *name;
        uint64_t last_use; /* `kernel_uses` at its last use: the lowest makes room */
    } kernels[FACET_RUNNER_KERNELS];
};

struct facet_member {
    uint32_t id, device, weight;
    bool paused, lost;
    bool pinning;           /* one of its runners gets memory for its job */
    uint64_t idle_since_ns; /* 0: it has work */
    struct facet_job_list queue;
    uint64_t waiting_ns; /* the expected device time of the jobs in its queue */
    uint32_t runner_count;
    struct facet_runner runners[FACET_BALANCER_DEPTH + 1];
    pthread_cond_t work;

    /* The vGPU's settings when it became a member. Names with `_now`: the values that actions have set since. */
    uint32_t request_milli, limit_milli, launches, units_bound, units, units_least, units_device;
    uint32_t share_milli, share_now_milli, units_now;
    bool share_changed, units_changed;
    uint32_t memory_milli, utilization_milli, others_active;

    uint64_t over_total, arrived_total, left_total, busy_ns, brought_bytes, brought_ns;
};

/* How long a work-group of a kernel takes. */
struct facet_rate {
    const struct facet_image *image;
    char kernel[64];
    uint64_t group_ns;
    uint64_t last_use; /* `rate_uses` at its last update */
};

/* Bytes and time of copies in one direction. */
struct facet_transfer {
    uint64_t bytes, ns;
};

struct facet_balancer {
    struct facet_driver *driver;
    struct facet_balancer_config config; /* with defaults filled in; ids and weights are in the members */
    uint32_t count;
    struct facet_member *member;

    pthread_mutex_t lock;        /* all below, and members, runners, buffers and jobs unless they say otherwise */
    pthread_cond_t job_over;     /* a job is over, or may go on */
    pthread_cond_t buffer_moved; /* a buffer is not moving any more */
    pthread_cond_t ticker_wake;
    bool closing, ticking;
    pthread_t ticker;

    struct facet_job **jobs; /* a ring: index is the number modulo jobs_capacity, a power of two */
    uint64_t jobs_capacity, first_job, next_job;
    uint32_t unfinished;
    struct facet_job_list ready;    /* jobs that nothing holds any more: to be placed, or released */
    struct facet_job_list unplaced; /* no member takes anything */

    struct facet_buffer **buffers;                 /* index: the lower 32 bits of a buffer's number, minus 1 */
    uint32_t buffers_capacity, buffers_used_below; /* all indices below buffers_used_below are taken */
    uint32_t buffer_generation;
    uint64_t release_count; /* events that may have freed a member's memory: a job ended, a buffer arrived */

    struct facet_balance balance;
    struct facet_balance_member *described; /* each member's load; keeps the credits of the strategy `weighted` */
    uint64_t *bytes_on;
    struct facet_transfer copied_in, copied_out;

    struct facet_rate rates[FACET_BALANCER_RATES];
    uint64_t rate_uses, mean_ns; /* updates of `rates`; mean device time of all tasks */

    struct facet_balancer_action *log; /* a ring: index is the action's number modulo config.log */
    uint64_t logged_actions;

    /* Only the ticker uses these; it fills them under the lock. */
    struct facet_balance_member *plan_members;
    struct facet_balance_work *plan_works;
    uint64_t *plan_bytes; /* [work * count + member] */
};

/* --- balancer.c --- */

void facet_job_list_remove(struct facet_job_list *list, struct facet_job *job);
void facet_job_list_append(struct facet_job_list *list, struct facet_job *job);
/* Waits at most until `until_ns`; false when it has passed. With the lock held. */
bool facet_balancer_wait_until(struct facet_balancer *balancer, pthread_cond_t *condition, uint64_t until_ns);

/* --- job.c: all with the lock held --- */

/* Puts a job behind all jobs that it depends on, and places it when there are none. */
enum facet_status facet_job_enter(struct facet_balancer *balancer, struct facet_job *job, struct facet_error *error);
/* Records the job's result; `failure` may be NULL. The caller then calls facet_balancer_place_ready(). */
void facet_job_end(struct facet_balancer *balancer, struct facet_job *job, enum facet_status status,
                   const struct facet_error *failure);
/* Makes the jobs that depended on this job ready. May free the job. */
void facet_job_release(struct facet_balancer *balancer, struct facet_job *job);
/* Frees a task's job with all its parts. */
void facet_job_free(struct facet_job *job);
/* Returns NULL when no job has that number. */
struct facet_job *facet_job_find(struct facet_balancer *balancer, uint64_t number);

/* --- place.c: all with the lock held --- */

/* Places and releases all jobs that can be. */
void facet_balancer_place_ready(struct facet_balancer *balancer);
void facet_member_enqueue(struct facet_balancer *balancer, uint32_t member, struct facet_job *job);
void facet_member_dequeue(struct facet_balancer *balancer, struct facet_job *job);
/* Marks a member as lost, because its device or its vGPU is gone. */
void facet_member_lose(struct facet_balancer *balancer, uint32_t member);
/* Describes the load of each member. */
void facet_balancer_describe(struct facet_balancer *balancer, struct facet_balance_member *ret_members);
/* Sums, for each member, the bytes of the job's inputs there: a buffer counts in equal parts for all valid copies. */
void facet_job_count_bytes(const struct facet_balancer *balancer, const struct facet_job *job, uint64_t *ret_bytes);
/* The device time that the job is expected to take, and the update of that estimate when a job is over. */
uint64_t facet_job_expected_ns(struct facet_balancer *balancer, const struct facet_job *job);
void facet_job_update_estimate(struct facet_balancer *balancer, const struct facet_job *job);
/* The remaining time of a job that is under way. */
uint64_t facet_job_left_ns(const struct facet_job *job, uint64_t taken_ns, uint64_t now_ns, uint32_t units);

/* --- buffer.c --- */

struct facet_buffer *facet_buffer_find(struct facet_balancer *balancer, uint64_t number, struct facet_error *error);
/*
 * Makes all buffers that a job needs valid on its runner's member. FACET_BAD_STATE: the job was cancelled.
 * FACET_DEVICE_LOST: the job's member is lost or, with *ret_broken, a buffer's content is, so that the job cannot run
 * anywhere. The caller does not hold the lock.
 */
enum facet_status facet_job_bring_buffers(struct facet_runner *runner, struct facet_job *job, bool *ret_broken,
                                          struct facet_error *error);
/* After a job was run: the copies that it wrote become the newest, if it was launched. The caller holds the lock. */
void facet_job_leave_buffers(struct facet_balancer *balancer, struct facet_job *job, enum facet_status status);
/* Drops the copies on a member that is lost. The caller holds the lock. */
void facet_buffers_lose(struct facet_balancer *balancer, uint32_t member);
/* Waits until no other thread moves the buffer. With the lock held. FACET_BAD_STATE: the job was cancelled. */
enum facet_status facet_buffer_begin_moving(struct facet_balancer *balancer, const struct facet_job *job,
                                            struct facet_buffer *buffer);
void facet_buffer_end_moving(struct facet_balancer *balancer, struct facet_buffer *buffer);
/* Reads from any member that has a valid copy; retries while that member is busy. The caller has set `moving`, and does
 * not hold the lock. */
enum facet_status facet_buffer_read(struct facet_balancer *balancer, const struct facet_job *job,
                                    struct facet_buffer *buffer, uint64_t offset, void *ret_data, uint64_t bytes,
                                    struct facet_error *error);
/* Makes the host's copy valid; called like facet_buffer_read(). */
enum facet_status facet_buffer_fetch(struct facet_balancer *balancer, const struct facet_job *job,
                                     struct facet_buffer *buffer, struct facet_error *error);
/* Frees all buffers when the balancer closes. */
void facet_buffers_free(struct facet_balancer *balancer);

/* --- runner.c --- */

void *facet_runner_main(void *runner);
void facet_runner_free_kernels(struct facet_runner *runner);

/* --- look.c --- */

void *facet_balancer_ticker(void *balancer);
/* Reads the members' initial settings, and gives each its runners. */
enum facet_status facet_members_init(struct facet_balancer *balancer, struct facet_error *error);
void facet_members_restore(struct facet_balancer *balancer);

#endif
