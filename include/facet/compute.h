/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computing on virtual GPUs: streams, kernels, operations, and how much of the device each may have.
 *
 * Owns: launches on a vGPU (facet/vgpu.h), following and cancelling them, shares, units, precision.
 * Never: runs a kernel or an operation outside the share of its vGPU; reports a time that was not measured.
 *
 * Copies and fills that are not queued, and preparing an operation, take the caller's time and are not charged.
 *
 *     facet_vgpu_load_kernel(driver, 1, image, "saxpy", &kernel, &error);
 *     facet_kernel_set_value(kernel, 0, &a, sizeof a, &error);      (facet/kernel.h)
 *     facet_kernel_set_memory(kernel, 1, x, &error);
 *     facet_vgpu_execute(driver, 1, 0, kernel, &range, &execution, &error);
 *     facet_vgpu_synchronize(driver, 1, 0, FACET_FOREVER, &error);
 *     facet_vgpu_get_execution(driver, 1, execution, &what, &error);
 *
 * A stream runs its work in order; different streams run side by side. Streams are numbered from 0 up to the number
 * that the vGPU was created with. Thread rule and errors as in facet/vgpu.h; a stream that the vGPU does not have is
 * FACET_OUT_OF_RANGE. With memory beyond the device (swap_bytes) a launch waits until all memory of the vGPU is on the
 * device, half a minute at most; then it fails with FACET_TIMEOUT, for example because a paused vGPU with work in
 * flight keeps its memory there. A vGPU that has more memory than the device can launch nothing until it has freed some
 * (FACET_OUT_OF_RANGE), because a kernel may follow any pointer.
 * docs/promises.md lists the promises and their tests.
 */
#ifndef FACET_COMPUTE_H
#define FACET_COMPUTE_H

#include <facet/kernel.h>
#include <facet/provider/execution.h>
#include <facet/provider/math.h>
#include <facet/vgpu.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FACET_FOREVER    UINT64_MAX
#define FACET_STREAM_ALL UINT32_MAX

/* --- kernels --- */

/* Like facet_kernel_load(), for a vGPU. One thread at a time may use the kernel. It must be destroyed
 * (facet_kernel_destroy()) before the driver is closed; it may outlive its vGPU. */
FACET_API enum facet_status facet_vgpu_load_kernel(struct facet_driver *driver, uint32_t id,
                                                   const struct facet_image *image, const char *name,
                                                   struct facet_kernel **ret_kernel, struct facet_error *error);

/* The target for facet_compile(), for this vGPU's device: "host". Borrowed until the driver is closed. */
FACET_API enum facet_status facet_vgpu_target(struct facet_driver *driver, uint32_t id, const char **ret_target,
                                              struct facet_error *error);

/* --- executions --- */

/*
 * Device time (`busy_ns`, here, in facet/vgpu.h and facet/monitor.h) is the time that the device's scheduler charges a
 * vGPU for, whether the vGPU has the device to itself or not. On `cpu` it is the processor time of the compute units
 * that worked for the vGPU, summed over them. It leaves out the processor time of other programs, so it may be less
 * than the time from start to end. A GPU is handed out as a whole: there device time is the time in which the GPU
 * worked for the vGPU, and the time in which launches of several streams overlap is counted once. So the device time of
 * all vGPUs together is at most the time that passed; on `cpu`, at most that time multiplied by the number of units.
 */

/*
 * Queues a launch. `ret_execution` (NULL is fine, here and below) is its number, unique in its vGPU and never 0. Errors
 * as of facet_kernel_launch(); FACET_INVALID_ARGUMENT: the kernel is another vGPU's; FACET_OUT_OF_RANGE, with the
 * argument's name: an address that is neither in an allocation nor directly behind one. Only the address itself is
 * checked: from there a kernel can reach all memory of its vGPU, and no other memory. With a checked image
 * (facet/kernel.h) each access is checked.
 */
FACET_API enum facet_status facet_vgpu_execute(struct facet_driver *driver, uint32_t id, uint32_t stream,
                                               struct facet_kernel *kernel, const struct facet_range *range,
                                               uint64_t *ret_execution, struct facet_error *error);

/* Queues an operation (facet/provider/math.h). The vGPU's settings are added to its flags: tensor cores off, mixed
 * precision on. FACET_UNSUPPORTED: the device has no such operation, or not for this type. FACET_OUT_OF_RANGE, with the
 * operand's name: the operand does not lie inside one allocation. */
FACET_API enum facet_status facet_vgpu_operate(struct facet_driver *driver, uint32_t id, uint32_t stream,
                                               const struct facet_math *operation, uint64_t *ret_execution,
                                               struct facet_error *error);
/* Which operations the device has, and for which types. */
FACET_API enum facet_status facet_vgpu_get_operations(struct facet_driver *driver, uint32_t id,
                                                      struct facet_math_support *ret_support,
                                                      struct facet_error *error);

/*
 * Queue a copy or a fill in the order of a stream. A copy to the device has read its source when the call returns. A
 * copy to the host cannot be queued: synchronize, then call facet_vgpu_copy(). Kinds: FACET_COPY_TO_DEVICE,
 * FACET_COPY_ON_DEVICE. FACET_OUT_OF_RANGE: an address of the device whose range does not lie inside one allocation;
 * nothing is queued. FACET_BUSY: the provider cannot keep more bytes that wait to be written (`cpu`: 256 MiB, or one
 * copy that is larger); synchronize.
 */
FACET_API enum facet_status facet_vgpu_enqueue_copy(struct facet_driver *driver, uint32_t id, uint32_t stream,
                                                    uint64_t to, uint64_t from, uint64_t bytes, enum facet_copy kind,
                                                    uint64_t *ret_execution, struct facet_error *error);
FACET_API enum facet_status facet_vgpu_enqueue_fill(struct facet_driver *driver, uint32_t id, uint32_t stream,
                                                    uint64_t address, uint8_t value, uint64_t bytes,
                                                    uint64_t *ret_execution, struct facet_error *error);

enum facet_execution_status {
    FACET_EXECUTION_QUEUED = 1,
    FACET_EXECUTION_RUNNING = 2,
    FACET_EXECUTION_COMPLETED = 3,
    FACET_EXECUTION_FAILED = 4,
    FACET_EXECUTION_CANCELLED = 5,
};

FACET_API const char *facet_execution_status_name(uint32_t status); /* "queued"; NULL when unknown */

struct facet_execution {
    uint32_t size;
    uint32_t status; /* enum facet_execution_status */
    uint64_t execution;
    uint32_t stream;
    int32_t failure; /* enum facet_status of a failed execution */

    /* Of a finished execution; 0 before, and if it never began. Times are of the device's CLOCK_MONOTONIC. */
    uint64_t queued_ns, start_ns, end_ns;
    uint64_t busy_ns; /* device time, as above */
    uint64_t groups;  /* work-groups that ran to their end */
    uint32_t units;   /* the most that worked on it at a time */
    uint32_t preemptions;
    char kernel[64]; /* "" for transfers */
};

/*
 * FACET_NOT_FOUND: there was no such execution, or it ended long ago: at least the last 512 of each stream are known.
 */
FACET_API enum facet_status facet_vgpu_get_execution(struct facet_driver *driver, uint32_t id, uint64_t execution,
                                                     struct facet_execution *ret_execution, struct facet_error *error);

/*
 * Takes an execution out of its queue, or ends it between two work-groups; the work behind it goes on. FACET_NOT_FOUND:
 * the execution is over.
 */
FACET_API enum facet_status facet_vgpu_cancel(struct facet_driver *driver, uint32_t id, uint64_t execution,
                                              struct facet_error *error);

/* --- streams --- */

/*
 * Waits until all earlier queued work is over, on one stream or FACET_STREAM_ALL, at most `timeout_ns`: FACET_TIMEOUT.
 * This reports the findings of a checked image. FACET_FROZEN: the vGPU is paused, and something is queued.
 */
FACET_API enum facet_status facet_vgpu_synchronize(struct facet_driver *driver, uint32_t id, uint32_t stream,
                                                   uint64_t timeout_ns, struct facet_error *error);

struct facet_stream_info {
    uint32_t size;
    uint32_t priority;                   /* enum facet_priority */
    uint32_t idle;                       /* 1: nothing is queued or running */
    int32_t failure;                     /* enum facet_status of the first execution that failed; FACET_OK: none did */
    uint64_t launched, begun, completed; /* counters */
    uint64_t busy_ns;                    /* device time of the completed executions */
};
FACET_API enum facet_status facet_vgpu_query(struct facet_driver *driver, uint32_t id, uint32_t stream,
                                             struct facet_stream_info *ret_info, struct facet_error *error);

/* Work given to `stream` from now on begins when all present work of `other` is over. The call does not block. */
FACET_API enum facet_status facet_vgpu_wait(struct facet_driver *driver, uint32_t id, uint32_t stream, uint32_t other,
                                            struct facet_error *error);

/* Among the streams of one vGPU the higher priority goes first, and preempts running work of lower priority. */
FACET_API enum facet_status facet_vgpu_set_stream_priority(struct facet_driver *driver, uint32_t id, uint32_t stream,
                                                           uint32_t priority, struct facet_error *error);

/* --- how much of the device --- */

/*
 * These functions may be called at any time, and take effect at the device's next scheduling decision. They set the
 * requested values, within which scaling (facet/vgpu.h) stays. FACET_OUT_OF_RANGE; FACET_UNSUPPORTED: the device cannot
 * do it, or compute virtualization is off.
 */
FACET_API enum facet_status facet_vgpu_set_share(struct facet_driver *driver, uint32_t id, uint32_t request_milli,
                                                 uint32_t limit_milli, struct facet_error *error);
FACET_API enum facet_status facet_vgpu_set_priority(struct facet_driver *driver, uint32_t id, uint32_t priority,
                                                    struct facet_error *error);
/* `units` 0: all of them; `launches` 0: as many as there are streams. */
FACET_API enum facet_status facet_vgpu_set_bounds(struct facet_driver *driver, uint32_t id, uint32_t units,
                                                  uint32_t launches, struct facet_error *error);
/* The policy among the vGPUs of a device (enum facet_scheduling), and whether running work is preempted. */
FACET_API enum facet_status facet_driver_set_policy(struct facet_driver *driver, uint32_t device, uint32_t policy,
                                                    bool preempt, uint64_t slice_ns, struct facet_error *error);

/* --- precision --- */

/*
 * These settings hold for operations that are queued from now on. The `kernel` of an operation's execution names the
 * implementation, which shows whether tensor cores were used. FACET_UNSUPPORTED: switched off for the driver.
 */
FACET_API enum facet_status facet_vgpu_set_tensor_cores(struct facet_driver *driver, uint32_t id, bool on,
                                                        struct facet_error *error);
FACET_API enum facet_status facet_vgpu_set_mixed_precision(struct facet_driver *driver, uint32_t id, bool on,
                                                           struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
