/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provider ABI, table `execution`: streams, kernels, launches.
 *
 * Owns: loading binaries for a device, ordered launches and transfers, shares, waiting and cancelling.
 * Never: compiles (src/kernel does) and never blocks without a timeout.
 *
 * Device time (`busy_ns`) means one thing for a launch, a stream or a worker: the time that the device's own scheduler
 * charges for it, whether or not others share the device. On processors (FACET_DEVICE_CPU), whose units are handed out
 * one by one, it is the sum of the processor time of all units that worked for the launch; processor time of other
 * programs is charged to no launch. Any other device is handed out as a whole. On such a device it is the wall-clock
 * time on the device, and the time in which launches overlap is charged once, to the launch that ended first. So in any
 * interval the sum over all contexts is at most the length of the interval; on processors, at most that length times
 * the number of units. The provider `sim` is an exception: it runs launches of several contexts side by side, and
 * reports how long each launch was on the device, so its sum may be larger.
 */
#ifndef FACET_PROVIDER_EXECUTION_H
#define FACET_PROVIDER_EXECUTION_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_provider_instance;

/* One launch. Arguments are bytes, laid out as the kernel's target defines; at most 4096. */
struct facet_launch {
    uint32_t size;
    uint32_t argument_bytes; /* the size of `arguments`, which are passed beside this struct */
    uint64_t module;
    uint32_t grid[3];     /* work-groups */
    uint32_t group[3];    /* work-items of one */
    uint32_t local_bytes; /* work-group memory beyond the kernel's own */
    uint32_t dimensions;  /* since 1.2: 1, 2 or 3: the value of get_work_dim(); 0 stands for 3 */
    char kernel[64];

    /* Since 1.2; zero before. */
    uint32_t offset[3]; /* of the first work-item's global id; FACET_UNSUPPORTED where the device counts from 0 */
    uint32_t reserved;
};
FACET_STATIC_ASSERT(offsetof(struct facet_launch, offset) == 112, "ABI: facet_launch 1.1");
FACET_STATIC_ASSERT(sizeof(struct facet_launch) == 128, "ABI: facet_launch 1.2");

struct facet_stream_state {
    uint32_t size;
    uint32_t failed;    /* enum facet_status of the first launch that failed, negated; 0: none */
    uint64_t launched;  /* counter: launches accepted */
    uint64_t completed; /* counter: launches that are done, failed or cancelled */
    uint64_t busy_ns;   /* counter: device time of the completed launches */

    /* Since 1.4. */
    uint64_t begun; /* counter: launches that began, or were dropped before they began; the last such launch has the
                       number `begun` */
};
FACET_STATIC_ASSERT(offsetof(struct facet_stream_state, begun) == 32, "ABI: facet_stream_state 1.1");
FACET_STATIC_ASSERT(sizeof(struct facet_stream_state) == 40, "ABI: facet_stream_state 1.4");

/* The policy by which a device chooses the context whose launch is next. */
enum facet_scheduling {
    FACET_SCHEDULE_FAIR = 0,        /* the context with the least device time for its share; a priority is a bounded
                                       head start */
    FACET_SCHEDULE_ROUND_ROBIN = 1, /* in turns, whatever device time they take */
    FACET_SCHEDULE_PRIORITY = 2,    /* always the higher priority; among equal priorities as FACET_SCHEDULE_FAIR */
    FACET_SCHEDULE_FIFO = 3,        /* the context that has waited longest, until it has no more work */
};

/*
 * The outcome of one launch or transfer of a stream, as the device measured it. The queueing time is from `queued_ns`
 * to `start_ns`. Between start and end a launch may have waited for other launches again, or run beside them; `busy_ns`
 * is its own device time.
 */
struct facet_launch_record {
    uint32_t size;
    int32_t status;     /* enum facet_status: FACET_OK; FACET_BAD_STATE when it was cancelled; else the failure */
    uint64_t sequence;  /* 1, 2, 3, ... in one stream; a gap means that older records were dropped */
    uint64_t queued_ns; /* CLOCK_MONOTONIC of the provider, as start and end */
    uint64_t start_ns;  /* of its first work-group; 0: no work-group began */
    uint64_t end_ns;
    uint64_t busy_ns;     /* device time */
    uint64_t groups;      /* work-groups that ran to their end */
    uint64_t longest_ns;  /* the longest time of one work-group */
    uint32_t units;       /* the most that worked on it at a time */
    uint32_t preemptions; /* how often it was preempted */
    char kernel[64];      /* "" for a transfer */
};
FACET_STATIC_ASSERT(sizeof(struct facet_launch_record) == 136, "ABI: facet_launch_record");

struct facet_execution_ops {
    uint64_t size; /* of this table, as the provider was built */

    /* Loads a binary. FACET_CORRUPT when the binary is not for this device; the error names the expected form. */
    enum facet_status (*load)(struct facet_provider_instance *instance, uint64_t context, const void *image,
                              uint64_t bytes, uint64_t *ret_module, struct facet_error *error);
    /* FACET_BUSY while a launch of the module is not complete; FACET_NOT_FOUND also for a module that is unloaded
     * already. */
    enum facet_status (*unload)(struct facet_provider_instance *instance, uint64_t context, uint64_t module,
                                struct facet_error *error);

    enum facet_status (*create_stream)(struct facet_provider_instance *instance, uint64_t context, uint64_t *ret_stream,
                                       struct facet_error *error);
    /* Waits for nothing: queued work is cancelled. */
    enum facet_status (*destroy_stream)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                        struct facet_error *error);

    /*
     * Queues a launch behind the stream's other work. FACET_NOT_FOUND (stream, module, kernel), FACET_OUT_OF_RANGE
     * (dimensions of 0 or too large, argument bytes).
     */
    enum facet_status (*launch)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                const struct facet_launch *launch, const void *arguments, struct facet_error *error);

    /* Waits until everything queued before is complete, for at most `timeout_ns` (FACET_TIMEOUT). */
    enum facet_status (*synchronize)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                     uint64_t timeout_ns, struct facet_error *error);
    enum facet_status (*query)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                               struct facet_stream_state *ret_state, struct facet_error *error);
    /* Drops queued work; ends running work if the device can. */
    enum facet_status (*cancel)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                struct facet_error *error);

    /* Since 1.2. */

    /*
     * Transfers in the order of a stream, like launches. `write` has copied its bytes when it returns. Ranges are
     * checked when a transfer is queued, and again when it begins: if memory was freed in between, the stream fails
     * (FACET_OUT_OF_RANGE in its state). FACET_BUSY: no more bytes can be buffered until earlier writes are done.
     * Reading needs no operation: synchronize, then facet_memory_ops.read.
     */
    enum facet_status (*write)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                               uint64_t address, const void *data, uint64_t bytes, struct facet_error *error);
    enum facet_status (*copy)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream, uint64_t to,
                              uint64_t from, uint64_t bytes, struct facet_error *error);
    enum facet_status (*fill)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                              uint64_t address, uint8_t value, uint64_t bytes, struct facet_error *error);

    /*
     * Sets the context's share of the device while other contexts want it too. `request_milli` is its weight; 0 is best
     * effort: contexts of weight 0 that have work divide equally what the other weights leave. `limit_milli` is its cap
     * (1 to 1000), `priority` an enum facet_priority. Takes effect at the next scheduling decision. Shares are of
     * measured device time. FACET_OUT_OF_RANGE.
     */
    enum facet_status (*set_share)(struct facet_provider_instance *instance, uint64_t context, uint32_t request_milli,
                                   uint32_t limit_milli, uint32_t priority, struct facet_error *error);

    /* Among the streams of one context the higher priority goes first; a running launch of lower priority is preempted
     * at the device's next point of preemption. Streams begin with FACET_PRIORITY_NORMAL. */
    enum facet_status (*set_priority)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                      uint32_t priority, struct facet_error *error);

    /*
     * Lists the records (struct facet_launch_record) of a stream's completed work, cancelled launches included, whose
     * sequence is above `after`, in the order of completion. At least the last 1024 records are kept.
     */
    enum facet_status (*records)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                 uint64_t after, void *items, uint32_t item_size, uint32_t capacity,
                                 uint32_t *ret_count, struct facet_error *error);

    /* Since 1.4. */

    /*
     * At most `units` compute units work for the context at a time, and at most `launches` of its launches and
     * transfers are in flight. Both bounds hold whatever the context's share is. 0: no bound. They take effect at the
     * next point of preemption; a limit of the worker (limit.h) holds as well. If the device has steps of units, a
     * bound between two steps becomes the next larger step, as with limits. FACET_OUT_OF_RANGE: more units than the
     * device has.
     */
    enum facet_status (*set_bounds)(struct facet_provider_instance *instance, uint64_t context, uint32_t units,
                                    uint32_t launches, struct facet_error *error);

    /*
     * With `paused` 1 no more work of the context begins; running work stops at its next point of preemption, and
     * the call returns when all work has stopped. Queued work stays, and more may be queued. With `paused` 0 all work
     * goes on from where it stopped. Operations that wait for the context's queue (memory.h: copies, unmap) wait while
     * the context is paused, some seconds at most. FACET_TIMEOUT: the context is paused, but a work-group is still
     * running after some seconds.
     */
    enum facet_status (*pause)(struct facet_provider_instance *instance, uint64_t context, uint32_t paused,
                               struct facet_error *error);

    /*
     * Work given to `stream` from now on begins when all present work of `other`, of the same context, is complete,
     * failed or cancelled. Counts as a launch of `stream`, and leaves a record as a transfer does. A stream waits for
     * itself anyway.
     */
    enum facet_status (*wait)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                              uint64_t other, struct facet_error *error);

    /*
     * Cancels one launch or transfer as `cancel` does a stream, by its sequence (facet_launch_record); the work behind
     * it goes on. FACET_NOT_FOUND: no queued or running work has that number.
     */
    enum facet_status (*cancel_launch)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                       uint64_t sequence, struct facet_error *error);

    /*
     * The policy among the contexts of a device (enum facet_scheduling), from the next scheduling decision on. With
     * `preempt` 0 a launch that began keeps its units until it ends, and only then a launch of another context begins
     * on them. With 1, the default before the first call, such a launch is preempted. `slice_ns` is the length of a
     * turn while other contexts wait; 0: the device's own. FACET_OUT_OF_RANGE.
     */
    enum facet_status (*set_policy)(struct facet_provider_instance *instance, uint32_t device, uint32_t policy,
                                    uint32_t preempt, uint64_t slice_ns, struct facet_error *error);
};
FACET_STATIC_ASSERT(offsetof(struct facet_execution_ops, write) == 72, "ABI: facet_execution_ops 1.1");
FACET_STATIC_ASSERT(offsetof(struct facet_execution_ops, set_bounds) == 120, "ABI: facet_execution_ops 1.2");
FACET_STATIC_ASSERT(sizeof(struct facet_execution_ops) == 160, "ABI: facet_execution_ops 1.4");

#ifdef __cplusplus
}
#endif
#endif
