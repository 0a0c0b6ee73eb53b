/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load balancing: tasks that run on any of several virtual GPUs with room, with their data beside them.
 *
 * Owns: balancers: their members (vGPUs of one driver, on any of its devices), buffers that exist on each member that
 * needs them, tasks, the order that buffers put them into, and the actions that even out the load.
 * Never: lets a result depend on the member that ran a task; runs a task twice; leaves a share or bound that it
 * changed.
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
 * Order. Tasks that share no buffer run in any order and side by side. A task that reads a buffer begins when those
 * submitted before it that write it are over; one that writes it, when those that read it are over too. So everything
 * is as if tasks had run one after the other in the order of submission. A task's member is chosen once nothing holds
 * the task up any more; it then waits in a queue of the balancer, the higher priority first, until it is handed to its
 * member, and until then it can still go elsewhere.
 *
 * Data. A buffer's bytes are zero at first. It has a copy on each member that needed it for a task, and one in host
 * memory while that is the newest or a way station; a task that writes a buffer makes all other copies stale. When a
 * member's memory is short, stale copies give way, then copies of which another exists elsewhere, and then buffers that
 * no task uses just now go to host memory: only a task whose own buffers exceed its member's memory fails, with
 * FACET_QUOTA. A buffer belongs to the balancer: its addresses are internal. So it leaves a member without waiting for
 * other queued work of the vGPU, and without stopping that (except with memory virtualization off, FACET_OFF_MEMORY).
 *
 * Failure. When a member's device is lost, or the vGPU is destroyed, tasks that had not begun there go elsewhere. Tasks
 * that had begun fail with FACET_DEVICE_LOST. A buffer that a failed task was to write, or whose only valid copy is
 * lost, is broken: a read of it fails with the same status, once, until the host or a task writes all of it. A task
 * that is cancelled breaks nothing: those behind it find its writes until then.
 *
 * Members may be used directly as well, and a vGPU may be a member of several balancers: the wait that is expected
 * there counts only the tasks of this balancer. A member that is paused gets nothing new and keeps what it has.
 *
 * Thread rule: every function by any number of threads at once, but open and close, which are one thread's, and during
 * which no other call is under way. Times are nanoseconds of CLOCK_MONOTONIC. Errors, besides those named:
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
 * The expected wait of a member is the device time of its tasks, over the units and the share that work on it. The
 * device time of a task is its kernel's measured time for each work-group; before any measurement, the average of
 * earlier tasks.
 */
enum facet_balancer_strategy {
    FACET_BALANCER_LEAST_LOADED = 0, /* least expected wait; among equals, fewest running tasks */
    FACET_BALANCER_ROUND_ROBIN = 1,  /* one after the other */
    FACET_BALANCER_WEIGHTED = 2,     /* in proportion to the weights, in any stretch of time */
    FACET_BALANCER_LOCALITY = 3, /* least sum of the wait and of copying its buffers: beside its data, unless the queue
                                    there is longer than the way */
};

/*
 * The actions allowed in each interval in which the longest expected wait exceeds the mean by more than the threshold.
 */
#define FACET_BALANCER_MIGRATE      (UINT32_C(1) << 0) /* a task that waits goes to another member */
#define FACET_BALANCER_ADJUST_SHARE (UINT32_C(1) << 1) /* idle members lend the share that they do not use */
#define FACET_BALANCER_SCALE_UNITS  (UINT32_C(1) << 2) /* an idle member has its least units, and gets them back */
#define FACET_BALANCER_PREEMPT                                                                                         \
    (UINT32_C(1) << 3)                               /* a task that waits behind lower priority is let in: the         \
                                                        running one leaves the device between two work-groups,         \
                                                        and goes on afterwards. Needs a stream beyond `depth` */
#define FACET_BALANCER_NO_ACTION (UINT32_C(1) << 31) /* no action: tasks stay where the strategy sent them */

FACET_API const char *facet_balancer_strategy_name(uint32_t strategy); /* "least_loaded"; NULL when unknown */
FACET_API const char *facet_balancer_action_name(uint32_t action);     /* "migrate"; NULL when unknown */

/* Zeroed members mean the default. */
struct facet_balancer_config {
    uint32_t size;
    uint32_t count;          /* of ids; 1 to FACET_BALANCER_MEMBERS */
    const uint32_t *ids;     /* the vGPUs, each once. Must be given */
    const uint32_t *weights; /* a weight for each vGPU, for `weighted`; 0: no tasks. Default: all the same */
    uint32_t strategy;       /* enum facet_balancer_strategy */
    uint32_t actions; /* FACET_BALANCER_*; default MIGRATE. The others change shares and units of the vGPUs, which their
                         direct users notice */
    uint32_t threshold_milli; /* in milli of the mean wait; default 200. Actions end at half of it */
    uint32_t depth;       /* tasks that a member is handed at a time, each on a stream of its own, from 0 on; default
                             2, at most FACET_BALANCER_DEPTH, and never more than it has streams */
    uint64_t interval_ns; /* how often load is measured; default 100 ms, at least 1 ms */
    uint64_t idle_ns;     /* a member that was idle for this time lends and is scaled down; default 100 ms */
    uint32_t moves;       /* how often one task may be moved, or preempted; default 2 */
    uint32_t tasks;       /* the most tasks that are not over; default 65,536 */
    uint32_t records;     /* how many ended tasks are remembered at least; default 4,096 */
    uint32_t log;         /* how many actions are kept; default 1,024 */
};

/* FACET_NOT_FOUND, FACET_DEVICE_LOST: a member. FACET_OUT_OF_RANGE. After an error nothing is left behind. */
FACET_API enum facet_status facet_balancer_open(struct facet_driver *driver, const struct facet_balancer_config *config,
                                                struct facet_balancer **ret_balancer, struct facet_error *error);

/*
 * Cancels unfinished tasks, waits until they are off the devices, frees the buffers, and restores shares and units.
 * Before the driver is closed. NULL is fine.
 */
FACET_API void facet_balancer_close(struct facet_balancer *balancer);

/* --- buffers --- */

/* The buffer has no memory until it is used. `ret_buffer` is its number, never 0 and never used again. */
FACET_API enum facet_status facet_balancer_allocate(struct facet_balancer *balancer, uint64_t bytes,
                                                    uint64_t *ret_buffer, struct facet_error *error);
/* FACET_NOT_FOUND; FACET_BUSY: a task that is not over uses it. 0 is fine. */
FACET_API enum facet_status facet_balancer_free(struct facet_balancer *balancer, uint64_t buffer,
                                                struct facet_error *error);

/*
 * Waits for the tasks before it, as a task would, and those submitted meanwhile wait for it. FACET_NOT_FOUND,
 * FACET_OUT_OF_RANGE (beyond the buffer), and the status that broke the buffer, except for a write of all of it. While
 * all members with a valid copy are paused, it waits.
 */
FACET_API enum facet_status facet_balancer_write(struct facet_balancer *balancer, uint64_t buffer, uint64_t offset,
                                                 const void *data, uint64_t bytes, struct facet_error *error);
FACET_API enum facet_status facet_balancer_read(struct facet_balancer *balancer, uint64_t buffer, uint64_t offset,
                                                void *ret_data, uint64_t bytes, struct facet_error *error);

/* --- tasks --- */

/* One argument: a buffer, a value, or local memory, as the kernel declares it. */
struct facet_balancer_argument {
    uint64_t buffer;   /* of `__global` and `__constant` ones; 0: a null pointer */
    uint64_t offset;   /* bytes into the buffer */
    const void *value; /* a value, which is copied */
    uint64_t bytes;    /* of the value, or of local memory */
    uint32_t access; /* FACET_ARGUMENT_READS, _WRITES or both. Default: as the image says, where writing alone counts as
                        both, as it need not write everything. _WRITES alone promises that it does: no old contents are
                        copied */
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

/* Everything that can be checked is, before it is queued: as facet_kernel_launch(); FACET_NOT_FOUND: kernel or buffer.
 * FACET_QUOTA: too many are not over. `ret_task` (may be NULL) is its number: 1, 2, 3, ... Waits for nothing. */
FACET_API enum facet_status facet_balancer_submit(struct facet_balancer *balancer,
                                                  const struct facet_balancer_work *work, uint64_t *ret_task,
                                                  struct facet_error *error);

#define FACET_BALANCER_ALL UINT64_MAX

/* Until it is over, at most `timeout_ns`: FACET_TIMEOUT. Says how it ended: FACET_OK, FACET_BAD_STATE when it was
 * cancelled, or how it failed, with the reason. FACET_BALANCER_ALL: until all that were submitted before are over,
 * however they ended. FACET_NOT_FOUND: there never was one, or it has been over for long. */
FACET_API enum facet_status facet_balancer_wait(struct facet_balancer *balancer, uint64_t task, uint64_t timeout_ns,
                                                struct facet_error *error);

/* Takes it out of its queue, or ends it between two work-groups: then it is over soon. FACET_NOT_FOUND: it is over. */
FACET_API enum facet_status facet_balancer_cancel(struct facet_balancer *balancer, uint64_t task,
                                                  struct facet_error *error);

#define FACET_BALANCER_NOWHERE UINT32_MAX

struct facet_balancer_task {
    uint32_t size;
    uint32_t status; /* enum facet_execution_status; queued until it is handed to its member */
    uint64_t task;
    int32_t failure; /* enum facet_status of a failed task */
    uint32_t priority;
    uint32_t member; /* index, where it is or ran; FACET_BALANCER_NOWHERE before that is decided */
    uint32_t id;     /* of that vGPU */
    uint32_t migrations;
    uint32_t preemptions; /* how often the device took it off and put it on again; once it is over */
    uint64_t execution;   /* its number on that vGPU; 0: it was not launched */
    uint64_t queued_ns;   /* when the task was submitted */
    uint64_t start_ns;    /* of its first work-group, as the device says; once it is over */
    uint64_t end_ns;
    uint64_t busy_ns;       /* device time (facet/compute.h) */
    uint64_t groups;        /* work-groups that ran to their end */
    uint64_t expected_ns;   /* the device time that was expected when it was queued */
    uint64_t brought_bytes; /* that had to be copied to its member for it */
    char kernel[64];
};
FACET_API enum facet_status facet_balancer_get_task(struct facet_balancer *balancer, uint64_t task,
                                                    struct facet_balancer_task *ret_task, struct facet_error *error);

/* --- its readings and actions --- */

struct facet_balancer_member {
    uint32_t size;
    uint32_t id;
    uint32_t device; /* index of the device in the driver */
    uint32_t weight;
    uint32_t paused, lost;
    uint32_t queued, running;    /* tasks of this balancer */
    uint64_t queued_ns;          /* expected device time of these tasks */
    uint64_t wait_ns;            /* expected time until a new task could begin */
    uint32_t units, share_milli; /* as counted; of a vGPU without a request, the share that others leave */
    uint64_t over_total;         /* tasks that ended here, however */
    uint64_t arrived_total;      /* tasks that came from other members, and ... */
    uint64_t left_total;
    uint64_t busy_ns;       /* of those that ended here */
    uint64_t brought_bytes; /* copied to it, and how long that took */
    uint64_t brought_ns;
};
/* FACET_NOT_FOUND: there are fewer. */
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
    uint32_t to;                        /* of MIGRATE; else the same */
    uint64_t task;                      /* of MIGRATE; of PREEMPT: that makes room */
    uint64_t waiting;                   /* PREEMPT: that is let in */
    uint32_t before_milli, after_milli; /* ADJUST_SHARE */
    uint32_t before_units, after_units; /* SCALE_UNITS */
    uint64_t gain_ns; /* by how much it was expected to shorten the longest wait; UINT64_MAX: it had to be done */
    int32_t status;   /* enum facet_status: FACET_OK, or how it was refused */
    uint32_t reserved;
};
/* Those with numbers above `after`, oldest first, as far as they are kept; `size` of the first is of each. *ret_count:
 * how many were written. */
FACET_API enum facet_status facet_balancer_get_actions(struct facet_balancer *balancer, uint64_t after,
                                                       struct facet_balancer_action *ret_actions, uint32_t capacity,
                                                       uint32_t *ret_count, struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
