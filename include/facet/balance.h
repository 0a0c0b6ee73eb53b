/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load balancing: tasks that may run on any of several virtual GPUs; the buffers that they use are copied there.
 *
 * Owns: balancers: their members (vGPUs of one driver, on any of its devices), buffers that exist on each member that
 * needs them, tasks and the order in which shared buffers make them run, and the actions that even out the load.
 * Never: lets a result depend on the member that ran a task; runs a task twice; closes without restoring the shares and
 * bounds that it changed.
 *
 *     facet_balancer_open(driver, &(struct facet_balancer_config){.size = sizeof(struct facet_balancer_config),
 *         .ids = (uint32_t[]){1, 2}, .count = 2, .strategy = FACET_BALANCER_LOCALITY}, &balancer, &error);
 *     facet_balancer_allocate(balancer, bytes, &x, &error);
 *     facet_balancer_write(balancer, x, 0, data, bytes, &error);
 *     facet_balancer_submit(balancer, &(struct facet_balancer_work){.size = sizeof(struct facet_balancer_work),
 *         .image = image, .kernel = "scale", .range = &range, .arguments = (struct facet_balancer_argument[]){
 *             {.buffer = x}, {.value = &factor, .bytes = sizeof factor}}, .count = 2}, &task, &error);
 *     facet_balancer_wait(balancer, task, FACET_FOREVER, &error);
 *     facet_balancer_read(balancer, x, 0, data, bytes, &error);
 *     facet_balancer_close(balancer);
 *
 * Order. Tasks that share no buffer run in any order and side by side. A task that reads a buffer begins when all tasks
 * that were submitted before it and write the buffer are over; a task that writes a buffer waits for the earlier
 * readers, too. So the results are as if the tasks had run one after the other in the order of submission. Once a task
 * has nothing more to wait for, its member is chosen. The task then waits in the balancer's queue for that member, the
 * higher priority first, until it is handed to the member; until then it can still move to another member.
 *
 * Data. A buffer's bytes are zero at first. It has a copy on each member that needed it for a task, and one in host
 * memory while that copy is the newest or is on its way from one member to another; a task that writes a buffer makes
 * all other copies stale. When a member's memory is short, stale copies are freed, then copies of which another exists
 * elsewhere, and then buffers that no task uses just now move to host memory: only a task whose own buffers exceed its
 * member's memory fails, with FACET_QUOTA. A buffer's addresses are known to the balancer alone. So freeing a copy
 * neither waits for other queued work of the vGPU nor stops that work (except with memory virtualization off,
 * FACET_OFF_MEMORY).
 *
 * Failure. When a member's device is lost, or the vGPU is destroyed, tasks that had not begun on it move to other
 * members. Tasks that had begun fail with FACET_DEVICE_LOST. A buffer that a failed task was to write, or whose only
 * valid copy is lost, is broken: reading it fails with the same status until the host or a task writes all of it. A
 * task that is cancelled breaks no buffer: later tasks find what it had written before it was cancelled.
 *
 * Members may be used directly as well, and a vGPU may be a member of several balancers: the expected wait of a member
 * counts only the tasks of this balancer. A member that is paused gets no new tasks and keeps those that it has.
 *
 * Thread rule: any number of threads may call any function at once, except open and close: one thread calls these,
 * while no other call is under way. Times are nanoseconds of CLOCK_MONOTONIC. Errors, besides those named:
 * FACET_INVALID_ARGUMENT, FACET_NO_MEMORY. docs/promises.md lists the promises and their tests.
 */
#ifndef FACET_BALANCE_H
#define FACET_BALANCE_H

#include <facet/compute.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_balancer;

/* --- the balancer --- */

#define FACET_BALANCER_MEMBERS 64u
#define FACET_BALANCER_DEPTH   8u

/*
 * The expected wait of a member is the expected device time of its tasks, divided by its compute units and its share.
 * The expected device time of a task is computed from its kernel's measured time for one work-group; before the kernel
 * was measured it is the average of earlier tasks.
 */
enum facet_balancer_strategy {
    FACET_BALANCER_LEAST_LOADED = 0, /* least expected wait; among equals, fewest running tasks */
    FACET_BALANCER_ROUND_ROBIN = 1,  /* one after the other */
    FACET_BALANCER_WEIGHTED = 2,     /* in proportion to the weights, in any stretch of time */
    FACET_BALANCER_LOCALITY = 3, /* least sum of the wait and the time to copy the task's buffers: the member that has
                                    its data, unless waiting there takes longer than copying the data elsewhere */
};

/*
 * The actions allowed in each interval in which the longest expected wait exceeds the mean by more than the threshold.
 */
#define FACET_BALANCER_MIGRATE      (UINT32_C(1) << 0) /* a task that waits moves to another member */
#define FACET_BALANCER_ADJUST_SHARE (UINT32_C(1) << 1) /* idle members lend the share that they do not use */
#define FACET_BALANCER_SCALE_UNITS  (UINT32_C(1) << 2) /* an idle member has its least units, and gets them back */
#define FACET_BALANCER_PREEMPT                                                                                         \
    (UINT32_C(1) << 3)                               /* a task that waits behind a running task of lower priority      \
                                                        runs first: the running task leaves the device between two     \
                                                        work-groups, and goes on afterwards. Needs a stream beyond     \
                                                        `depth` */
#define FACET_BALANCER_NO_ACTION (UINT32_C(1) << 31) /* tasks stay on the member that the strategy chose */

FACET_API const char *facet_balancer_strategy_name(uint32_t strategy); /* "least_loaded"; NULL when unknown */
FACET_API const char *facet_balancer_action_name(uint32_t action);     /* "migrate"; NULL when unknown */

/* Zeroed members mean the default. */
struct facet_balancer_config {
    uint32_t size;
    uint32_t count;          /* the number of ids, 1 to FACET_BALANCER_MEMBERS */
    const uint32_t *ids;     /* the vGPUs, each once. Must be given */
    const uint32_t *weights; /* a weight for each vGPU, for `weighted`; 0: no tasks. Default: all the same */
    uint32_t strategy;       /* enum facet_balancer_strategy */
    uint32_t actions; /* FACET_BALANCER_*; default MIGRATE. ADJUST_SHARE and SCALE_UNITS change shares and units of the
                         vGPUs, which programs that use the vGPUs directly notice */
    uint32_t threshold_milli; /* in milli of the mean wait; default 200. Actions end at half of it */
    uint32_t depth; /* how many tasks a member is handed at a time, each on a stream of its own (0, 1, ...); default
                       2, at most FACET_BALANCER_DEPTH, and never more than the member has streams */
    uint64_t interval_ns; /* how often load is measured; default 100 ms, at least 1 ms */
    uint64_t idle_ns;     /* a member that was idle for this time lends and is scaled down; default 100 ms */
    uint32_t moves;       /* how often one task may be moved, or preempted; default 2 */
    uint32_t tasks;       /* the most tasks that are not over; default 65,536 */
    uint32_t records;     /* how many ended tasks are remembered at least; default 4,096 */
    uint32_t log;         /* how many past actions are remembered; default 1,024 */
};

/* FACET_NOT_FOUND: no vGPU has one of the numbers. FACET_DEVICE_LOST: the device of one of the vGPUs is lost.
 * FACET_OUT_OF_RANGE. After an error nothing is left behind. */
FACET_API enum facet_status facet_balancer_open(struct facet_driver *driver, const struct facet_balancer_config *config,
                                                struct facet_balancer **ret_balancer, struct facet_error *error);

/*
 * Cancels unfinished tasks, waits until they are off the devices, frees the buffers, and restores shares and units.
 * Call it before the driver is closed. NULL is fine.
 */
FACET_API void facet_balancer_close(struct facet_balancer *balancer);

/* --- buffers --- */

/* The buffer has no memory until it is used. `ret_buffer` is its number, never 0 and never used again. */
FACET_API enum facet_status facet_balancer_allocate(struct facet_balancer *balancer, uint64_t bytes,
                                                    uint64_t *ret_buffer, struct facet_error *error);
/* FACET_NOT_FOUND; FACET_BUSY: a task that is not over uses it, or its content is being copied off a vGPU that has no
 * room for others: try again. 0 is fine. */
FACET_API enum facet_status facet_balancer_free(struct facet_balancer *balancer, uint64_t buffer,
                                                struct facet_error *error);

/*
 * Writes or reads a part of a buffer. The call waits for earlier tasks as a task with the same access would, and tasks
 * that are submitted meanwhile wait for the call. While all members with a valid copy are paused, the call waits.
 * FACET_NOT_FOUND; FACET_OUT_OF_RANGE: beyond the buffer; of a broken buffer the status that broke it, except when all
 * of it is written.
 */
FACET_API enum facet_status facet_balancer_write(struct facet_balancer *balancer, uint64_t buffer, uint64_t offset,
                                                 const void *data, uint64_t bytes, struct facet_error *error);
FACET_API enum facet_status facet_balancer_read(struct facet_balancer *balancer, uint64_t buffer, uint64_t offset,
                                                void *ret_data, uint64_t bytes, struct facet_error *error);

/* --- tasks --- */

/* One argument: a buffer, a value, or local memory, as the kernel declares it. */
struct facet_balancer_argument {
    uint64_t buffer;   /* the buffer for a `__global` or `__constant` argument; 0: a null pointer */
    uint64_t offset;   /* bytes into the buffer */
    const void *value; /* a value, which is copied */
    uint64_t bytes;    /* the size of the value, or of local memory */
    uint32_t access; /* FACET_ARGUMENT_READS, _WRITES or both. Default: the image's description, in which _WRITES alone
                        counts as both, because the kernel need not write every byte. _WRITES alone, given here,
                        promises that the kernel writes every byte, so the old contents are not copied to the member */
    uint32_t reserved;
};

struct facet_balancer_work {
    uint32_t size;
    uint32_t priority;               /* FACET_VGPU_PRIORITY(enum facet_priority); default normal */
    const struct facet_image *image; /* for every member's device; may be destroyed afterwards */
    const char *kernel;
    const struct facet_range *range;
    const struct facet_balancer_argument *arguments; /* as many as the kernel has */
    uint32_t count;
    uint32_t reserved;
};

/* Queues a task, and waits for nothing. `ret_task` (may be NULL) is the task's number: 1, 2, 3, ... The work is checked
 * before it is queued, with the errors of facet_kernel_launch(). FACET_NOT_FOUND: no such kernel or buffer.
 * FACET_QUOTA: as many tasks as the balancer may have are not over yet. */
FACET_API enum facet_status facet_balancer_submit(struct facet_balancer *balancer,
                                                  const struct facet_balancer_work *work, uint64_t *ret_task,
                                                  struct facet_error *error);

#define FACET_BALANCER_ALL UINT64_MAX

/* Waits until the task is over, at most `timeout_ns` (FACET_TIMEOUT). Returns how the task ended: FACET_OK,
 * FACET_BAD_STATE when it was cancelled, or the status of its failure, with the reason. FACET_BALANCER_ALL: waits until
 * all tasks that were submitted before are over, however they ended. FACET_NOT_FOUND: there never was such a task, or
 * it ended so long ago that its record is gone. */
FACET_API enum facet_status facet_balancer_wait(struct facet_balancer *balancer, uint64_t task, uint64_t timeout_ns,
                                                struct facet_error *error);

/* Takes the task out of its queue, or ends it between two work-groups; it is over soon after. FACET_NOT_FOUND: the task
 * is over already. */
FACET_API enum facet_status facet_balancer_cancel(struct facet_balancer *balancer, uint64_t task,
                                                  struct facet_error *error);

#define FACET_BALANCER_NOWHERE UINT32_MAX

struct facet_balancer_task {
    uint32_t size;
    uint32_t status; /* enum facet_execution_status; queued until it is handed to its member */
    uint64_t task;
    int32_t failure; /* enum facet_status of a failed task */
    uint32_t priority;
    uint32_t member; /* index of the member that it waits for or ran on; FACET_BALANCER_NOWHERE before one is chosen */
    uint32_t id;     /* number of that member's vGPU */
    uint32_t migrations;
    uint32_t preemptions; /* how often the device took it off and put it on again; known once it is over */
    uint64_t execution;   /* the task's number on that vGPU; 0: it was not launched */
    uint64_t queued_ns;   /* when the task was submitted */
    uint64_t start_ns;    /* when its first work-group began, as the device reports; known once the task is over */
    uint64_t end_ns;
    uint64_t busy_ns;       /* device time (facet/compute.h) */
    uint64_t groups;        /* work-groups that ran to their end */
    uint64_t expected_ns;   /* the device time that was expected when it was queued */
    uint64_t brought_bytes; /* bytes that were copied to its member for it */
    char kernel[64];
};
FACET_API enum facet_status facet_balancer_get_task(struct facet_balancer *balancer, uint64_t task,
                                                    struct facet_balancer_task *ret_task, struct facet_error *error);

/* --- the balancer's measurements and actions --- */

struct facet_balancer_member {
    uint32_t size;
    uint32_t id;
    uint32_t device; /* index of the device in the driver */
    uint32_t weight;
    uint32_t paused, lost;
    uint32_t queued, running;    /* tasks of this balancer */
    uint64_t queued_ns;          /* expected device time of these tasks */
    uint64_t wait_ns;            /* expected time until a new task could begin */
    uint32_t units, share_milli; /* the values that wait_ns is computed with; of a vGPU without a request, the share
                                    that other vGPUs leave */
    uint64_t over_total;         /* tasks that ended here, in whatever way */
    uint64_t arrived_total;      /* tasks that came from other members */
    uint64_t left_total;         /* tasks that moved to other members */
    uint64_t busy_ns;            /* device time of the tasks that ended here */
    uint64_t brought_bytes;      /* bytes of buffers that were copied to it */
    uint64_t brought_ns;         /* time that copying them took */
};
/* FACET_NOT_FOUND: there are fewer members. */
FACET_API enum facet_status facet_balancer_get_member(struct facet_balancer *balancer, uint32_t index,
                                                      struct facet_balancer_member *ret_member,
                                                      struct facet_error *error);

/* An action that was done, or that the vGPU refused. */
struct facet_balancer_action {
    uint32_t size;
    uint32_t action; /* FACET_BALANCER_MIGRATE, ... */
    uint64_t number; /* 1, 2, 3, ... */
    uint64_t time_ns;
    uint32_t from;                      /* index of the member that it concerns */
    uint32_t to;                        /* MIGRATE: index of the task's new member; else `from` */
    uint64_t task;                      /* MIGRATE: the task that moves; PREEMPT: the running task that makes room */
    uint64_t waiting;                   /* PREEMPT: the task that runs first instead */
    uint32_t before_milli, after_milli; /* ADJUST_SHARE: the share before and after */
    uint32_t before_units, after_units; /* SCALE_UNITS: the units before and after */
    uint64_t gain_ns; /* by how much it was to shorten the longest wait; UINT64_MAX: the action had to be done */
    int32_t status;   /* enum facet_status: FACET_OK, or the vGPU's reason to refuse it */
    uint32_t reserved;
};
/* Writes the remembered actions whose numbers are above `after`, oldest first. The caller sets `size` of the first
 * element, which holds for all. *ret_count: the number of actions written. */
FACET_API enum facet_status facet_balancer_get_actions(struct facet_balancer *balancer, uint64_t after,
                                                       struct facet_balancer_action *ret_actions, uint32_t capacity,
                                                       uint32_t *ret_count, struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
