/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the files of the balancer share (facet/balance.h is the manual): its members, runners, buffers and
 * jobs.
 *
 * Owns: the objects, and the one lock that protects them.
 * Never: holds that lock while it copies, launches or waits. Under the lock only a vGPU's status is read.
 *
 * A runner is a stream of a member and the thread that feeds it: one job at a time. A job is a task, or a read or write
 * of a buffer by the host, which takes part in the order of tasks and is done by the calling thread. A job is
 *     held      until the jobs that it depends on are over (`unreleased`)
 *     placed    by the strategy in a member's queue, or unplaced while no member accepts jobs
 *     taken     by a runner, which brings its buffers, launches it, and waits
 *     over      its result can be read
 *     released  over, and not held any more: the jobs that depend on it may go
 */
#ifndef FACET_VGPU_BALANCER_H
#define FACET_VGPU_BALANCER_H

#include <pthread.h>
#include <stdbool.h>

#include <facet/balance.h>

#include "compute/balance.h"

#define FACET_RUNNER_KERNELS        8u   /* loaded kernels that a runner keeps */
#define FACET_BALANCER_RATES        128u /* kernels whose time is known */
#define FACET_BALANCER_PLAN_WORKS   512u /* jobs that are considered each interval */
#define FACET_BALANCER_PLAN_ACTIONS 128u

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
    bool counts_as_user;               /* in `users` of the copy on the job's member */
    struct facet_job_use *next, *prev; /* among the readers of the buffer since its last writer */
    bool listed;
};

struct facet_buffer {
    uint64_t number, bytes;
    struct facet_job *writer; /* the last one submitted, not released */
    struct facet_job_use *readers;
    uint32_t jobs;             /* that are not released and use it */
    bool moving;               /* a runner or the host copies it somewhere */
    bool never_written;        /* no copy is valid, and the content is zeros */
    enum facet_status lost_by; /* FACET_OK, or the error by which its bytes were lost */
    unsigned char *host;       /* NULL: none */
    bool host_valid;
    struct facet_buffer_copy copy[]; /* of each member */
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
    struct facet_balancer_task record; /* its record for queries */
    struct facet_error *failure;       /* why it failed; NULL also when memory for this ran out */
    enum facet_status end_status;      /* the result, once it is over: FACET_BAD_STATE when cancelled */
    bool is_over, of_host, cancelled;
    bool express;  /* PREEMPT: goes through the runner that is kept for it */
    bool launched; /* may have changed the buffers that it writes */
    bool pinned;   /* has all its memory on its member */
    enum facet_job_place place;
    uint32_t unreleased; /* jobs that must be released before it */
    uint32_t waiters;    /* threads in facet_balancer_wait() */
    uint32_t moves;
    int previous_member; /* member that it was moved from last */
    uint64_t expected_ns;
    struct facet_job *next, *prev; /* of its queue, or of the list of jobs to be placed */

    struct facet_job_edge *dependents; /* a list; each element is in the `edges` of the job that depends on this one */
    struct facet_job_edge *edges;
    uint32_t uses_count;
    struct facet_job_use *uses;

    /* Of tasks. */
    struct facet_image *image; /* held */
    const char *kernel;        /* in the image */
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
    bool express, started;
    pthread_t thread;
    struct facet_job *job; /* under way */
    uint64_t taken_ns;
    uint32_t priority; /* of its stream; this and the members below are used by its own thread only */
    uint64_t used;
    struct {
        struct facet_kernel *kernel;
        struct facet_image *image; /* the kernel holds it */
        const char *name;
        uint64_t used;
    } kernels[FACET_RUNNER_KERNELS];
};

struct facet_member {
    uint32_t id, device, weight;
    bool paused, lost;
    bool pinning;           /* one of its runners gets memory for its job */
    uint64_t idle_since_ns; /* 0: it has work */
    struct facet_job_list queue;
    uint64_t waiting_ns; /* the expected time of its queue */
    uint32_t runner_count;
    struct facet_runner runners[FACET_BALANCER_DEPTH + 1];
    pthread_cond_t work;

    /* As it was when it became a member, and as actions have changed it since. */
    uint32_t request_milli, limit_milli, launches, units_bound, units, units_least, units_device;
    uint32_t share_milli, share_now_milli, units_now;
    bool share_changed, units_changed;
    uint32_t memory_milli, utilization_milli, others_active;

    uint64_t over_total, arrived_total, left_total, busy_ns, brought_bytes, brought_ns;
};

/* How long a kernel takes. */
struct facet_rate {
    const struct facet_image *image;
    char kernel[64];
    uint64_t group_ns;
    uint64_t used;
};

/* Bytes and time of copies in one direction. */
struct facet_transfer {
    uint64_t bytes, ns;
};

struct facet_balancer {
    struct facet_driver *driver;
    struct facet_balancer_config config; /* with every default; ids and weights are in the members */
    uint32_t count;
    struct facet_member *member;

    pthread_mutex_t lock;        /* all below, and members, runners, buffers and jobs unless they say otherwise */
    pthread_cond_t job_over;     /* a job is over, or may go on */
    pthread_cond_t buffer_moved; /* a buffer is not moving any more */
    pthread_cond_t ticker_wake;
    bool closing, ticking;
    pthread_t ticker;

    struct facet_job **jobs; /* a ring: by number modulo its size, a power of two */
    uint64_t jobs_capacity, first_job, next_job;
    uint32_t unfinished;
    struct facet_job_list ready;    /* jobs that nothing holds any more: to be placed, or released */
    struct facet_job_list unplaced; /* no member takes anything */

    struct facet_buffer **buffers;                 /* by the lower half of their numbers, less one */
    uint32_t buffers_capacity, buffers_used_below; /* used_below: no slot below it is free */
    uint32_t buffer_generation;
    uint64_t release_count; /* how often a member's memory may have become free: a job ended, a buffer arrived */

    struct facet_balance balance;
    struct facet_balance_member *described; /* each member's load; keeps the credits of the strategy `weighted` */
    uint64_t *bytes_on;
    struct facet_transfer copied_in, copied_out;

    struct facet_rate rates[FACET_BALANCER_RATES];
    uint64_t rate_uses, mean_ns; /* of all tasks */

    struct facet_balancer_action *log; /* a ring by number */
    uint64_t logged_actions;

    /* Of the ticker alone, but filled under the lock. */
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
/* NULL: there is none. */
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
/* Per member, how many bytes of a job's buffers are valid there. */
void facet_job_count_bytes(const struct facet_balancer *balancer, const struct facet_job *job, uint64_t *ret_bytes);
/* The time that the job is expected to take, and the update of that estimate when the job is over. */
uint64_t facet_job_expected_ns(struct facet_balancer *balancer, const struct facet_job *job);
void facet_job_update_estimate(struct facet_balancer *balancer, const struct facet_job *job);
/* The remaining time of a job that is under way. */
uint64_t facet_job_left_ns(const struct facet_job *job, uint64_t taken_ns, uint64_t now_ns, uint32_t units);

/* --- buffer.c --- */

struct facet_buffer *facet_buffer_find(struct facet_balancer *balancer, uint64_t number, struct facet_error *error);
/*
 * Makes all buffers that a job needs valid on its runner's member. FACET_BAD_STATE: the job was cancelled.
 * FACET_DEVICE_LOST: of the job's own member, unless *ret_broken: then a buffer's content is lost, and the job cannot
 * run anywhere. Without the lock.
 */
enum facet_status facet_job_bring_buffers(struct facet_runner *runner, struct facet_job *job, bool *ret_broken,
                                          struct facet_error *error);
/* The job is not under way any more: the copies that it wrote are the newest, if it ran at all. With the lock held. */
void facet_job_leave_buffers(struct facet_balancer *balancer, struct facet_job *job, enum facet_status status);
/* With the lock held: drops the copies on a member that is lost. */
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
