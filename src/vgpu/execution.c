/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: queueing launches, operations and transfers, once their addresses were checked against the vGPU's allocations;
 * querying and cancelling one of them.
 * Never: runs them: the device does.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "kernel/launch.h"
#include "math_check.h"
#include "memory/transfer.h"
#include "vgpu/driver.h"
#include "vgpu/managed/enter.h"
#include "vgpu/pin.h"
#include "vgpu/stream.h"

/* A stream's records are read after this many launches: the device keeps the last 1024, so none is lost by then. */
#define DRAIN_EVERY 256u

/* ---- queueing ---- */

/* A launch, operation or transfer to queue; `queue` queues it on an open stream. */
struct work {
    struct facet_vgpu *vgpu;
    enum facet_status (*queue)(const struct work *work, const struct facet_vgpu_stream *stream,
                               struct facet_error *error);
    struct facet_kernel *kernel;
    const struct facet_range *range;
    const struct facet_math *operation;
    uint64_t to, from, bytes;
    uint8_t value;
};

static enum facet_status queue_on_stream(struct work *work, uint32_t index, uint64_t *ret_execution,
                                         struct facet_error *error)
{
    struct facet_vgpu *vgpu = work->vgpu;
    struct facet_vgpu_stream *stream = NULL;
    struct facet_managed *entered = NULL;
    struct facet_pin *pin = NULL;
    uint64_t execution = 0;
    enum facet_status status = facet_vgpu_pin_all(vgpu, &pin, error);

    if (status == FACET_OK)
        status = facet_managed_enter(vgpu, &entered, error);
    if (status == FACET_OK)
        status = facet_vgpu_stream_open(vgpu, index, &stream, error);
    if (status == FACET_OK) {
        if (stream->launched - stream->last_read >= DRAIN_EVERY)
            /* A failure is ignored: if it loses records, a later call finds the gap in their numbers. */
            (void)facet_vgpu_stream_drain_records(vgpu, stream, NULL);
        status = work->queue(work, stream, error);
        execution = facet_execution_number(index, facet_vgpu_stream_close(stream, status));
    }
    facet_managed_leave(entered);
    facet_vgpu_pin_follow(vgpu, pin, status == FACET_OK ? execution : 0);
    if (status != FACET_OK)
        return status;
    atomic_store_explicit(&vgpu->used, true, memory_order_relaxed);
    if (ret_execution)
        *ret_execution = execution;
    return FACET_OK;
}

static enum facet_status queue_work(struct facet_driver *driver, uint32_t id, uint32_t index, struct work work,
                                    uint64_t *ret_execution, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);

    if (status != FACET_OK)
        return status;
    work.vgpu = vgpu;
    return facet_vgpu_note_status(vgpu, queue_on_stream(&work, index, ret_execution, error));
}

/* ---- checks of addresses ---- */

/*
 * The device knows which pages are the vGPU's, but only the space knows which of their bytes are allocated. An empty
 * range is always accepted.
 */
static enum facet_status check_range(const struct work *work, const char *argument, uint64_t address, uint64_t bytes,
                                     struct facet_error *error)
{
    if (!work->vgpu->space || bytes == 0)
        return FACET_OK;
    return facet_space_check_range(work->vgpu->space, argument, address, bytes, error);
}

/*
 * How far a kernel reads from an address is unknown. So the address must lie in an allocation, or at its end, where
 * loops over pointers stop.
 */
static enum facet_status check_argument(void *data, const char *argument, uint64_t address, struct facet_error *error)
{
    struct facet_space *space = data;

    if (facet_space_check_range(space, argument, address, 0, NULL) == FACET_OK ||
        facet_space_check_range(space, argument, address - 1, 1, NULL) == FACET_OK)
        return FACET_OK;
    return facet_space_check_range(space, argument, address, 0, error);
}

/* ---- kernels ---- */

enum facet_status facet_vgpu_load_kernel(struct facet_driver *driver, uint32_t id, const struct facet_image *image,
                                         const char *name, struct facet_kernel **ret_kernel, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;

    FACET_NEED(image, error);
    FACET_NEED(name, error);
    FACET_NEED(ret_kernel, error);
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    status = facet_vgpu_device_check(vgpu->device, error);
    if (status == FACET_OK)
        status = facet_kernel_load(vgpu->device->session, vgpu->context, image, name, ret_kernel, error);
    return facet_vgpu_note_status(vgpu, status);
}

enum facet_status facet_vgpu_target(struct facet_driver *driver, uint32_t id, const char **ret_target,
                                    struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;

    FACET_NEED(ret_target, error);
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    if (vgpu->device->target[0])
        *ret_target = vgpu->device->target;
    else
        status = facet_error_set(error, FACET_UNSUPPORTED, "device %s does not report which code it accepts",
                                 vgpu->device->id);
    return facet_vgpu_note_status(vgpu, status);
}

static enum facet_status queue_kernel(const struct work *work, const struct facet_vgpu_stream *stream,
                                      struct facet_error *error)
{
    struct facet_space *space = work->vgpu->space;
    enum facet_status status = space ? facet_kernel_judge_memory(work->kernel, check_argument, space, error) : FACET_OK;

    return status == FACET_OK ? facet_kernel_launch(work->kernel, stream->number, work->range, error) : status;
}

enum facet_status facet_vgpu_execute(struct facet_driver *driver, uint32_t id, uint32_t stream,
                                     struct facet_kernel *kernel, const struct facet_range *range,
                                     uint64_t *ret_execution, struct facet_error *error)
{
    struct work work = {.queue = queue_kernel, .kernel = kernel, .range = range};
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;

    FACET_NEED(kernel, error);
    FACET_NEED(range, error);
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    if (!facet_kernel_is_of(kernel, vgpu->device->session, vgpu->context))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "kernel",
                                    "kernel '%s': expected one that was loaded for vGPU %" PRIu32,
                                    facet_kernel_name(kernel), id);
    work.vgpu = vgpu;
    return facet_vgpu_note_status(vgpu, queue_on_stream(&work, stream, ret_execution, error));
}

/* ---- operations ---- */

/* The operation's flags after the vGPU's switches, which may add or remove FACET_MATH_MIXED and forbid tensor cores. */
static uint32_t switched_flags(const struct facet_vgpu *vgpu, const struct facet_math *operation)
{
    bool mixed = atomic_load(&vgpu->features_on) & FACET_ON_MIXED_PRECISION && operation->type == FACET_MATH_F32;
    uint32_t flags = operation->flags;

    if (mixed && (operation->operation == FACET_MATH_GEMM || operation->operation == FACET_MATH_CONVOLUTION ||
                  operation->operation == FACET_MATH_ATTENTION))
        flags |= FACET_MATH_MIXED;
    if (facet_vgpu_is_off(vgpu, FACET_OFF_MIXED_PRECISION))
        flags &= ~FACET_MATH_MIXED;
    return atomic_load(&vgpu->features_off) & FACET_OFF_TENSOR_CORES ? flags | FACET_MATH_NO_TENSOR : flags;
}

static enum facet_status check_operands(const struct work *work, const struct facet_math *operation,
                                        struct facet_error *error)
{
    struct kit_math_operands operands = {0};
    struct facet_math checked_math;
    enum facet_status status = kit_math_check(operation, &checked_math, &operands, error);

    for (uint32_t i = 0; i < operands.count && status == FACET_OK; i++)
        status = check_range(work, operands.list[i].name, operands.list[i].address, operands.list[i].bytes, error);
    return status;
}

static enum facet_status queue_operation(const struct work *work, const struct facet_vgpu_stream *stream,
                                         struct facet_error *error)
{
    const struct facet_vgpu_device *device = work->vgpu->device;
    struct facet_math operation;

    FACET_SIZED_TAKE(&operation, work->operation);
    operation.flags = switched_flags(work->vgpu, &operation);
    enum facet_status status = work->vgpu->space ? check_operands(work, &operation, error) : FACET_OK;
    if (status != FACET_OK)
        return status;
    return device->provider->math->run(device->instance, work->vgpu->context, stream->number, &operation, error);
}

enum facet_status facet_vgpu_operate(struct facet_driver *driver, uint32_t id, uint32_t stream,
                                     const struct facet_math *operation, uint64_t *ret_execution,
                                     struct facet_error *error)
{
    FACET_NEED(operation, error);
    if (operation->size < sizeof *operation)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "operation",
                                    "operation: size %" PRIu32 ", expected that of struct facet_math, %zu",
                                    operation->size, sizeof *operation);
    FACET_NEED_KNOWN("operation", operation, error);
    return queue_work(driver, id, stream, (struct work){.queue = queue_operation, .operation = operation},
                      ret_execution, error);
}

enum facet_status facet_vgpu_get_operations(struct facet_driver *driver, uint32_t id,
                                            struct facet_math_support *ret_support, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;

    FACET_VGPU_NEED_STRUCT(ret_support, error);
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    const struct facet_vgpu_device *device = vgpu->device;
    status = device->provider->math->support(device->instance, device->number, ret_support, error);
    return facet_vgpu_note_status(vgpu, status);
}

/* ---- transfers ---- */

static enum facet_status queue_write(const struct work *work, const struct facet_vgpu_stream *stream,
                                     struct facet_error *error)
{
    const struct facet_vgpu_device *device = work->vgpu->device;
    enum facet_status status = check_range(work, "to", work->to, work->bytes, error);

    if (status != FACET_OK)
        return status;
    return device->provider->execution->write(device->instance, work->vgpu->context, stream->number, work->to,
                                              (const void *)(uintptr_t)work->from, work->bytes, error);
}

static enum facet_status queue_copy(const struct work *work, const struct facet_vgpu_stream *stream,
                                    struct facet_error *error)
{
    const struct facet_vgpu_device *device = work->vgpu->device;
    enum facet_status status = check_range(work, "to", work->to, work->bytes, error);

    if (status == FACET_OK)
        status = check_range(work, "from", work->from, work->bytes, error);
    if (status != FACET_OK)
        return status;
    return device->provider->execution->copy(device->instance, work->vgpu->context, stream->number, work->to,
                                             work->from, work->bytes, error);
}

static enum facet_status queue_fill(const struct work *work, const struct facet_vgpu_stream *stream,
                                    struct facet_error *error)
{
    const struct facet_vgpu_device *device = work->vgpu->device;
    enum facet_status status = check_range(work, "address", work->to, work->bytes, error);

    if (status != FACET_OK)
        return status;
    return device->provider->execution->fill(device->instance, work->vgpu->context, stream->number, work->to,
                                             work->value, work->bytes, error);
}

enum facet_status facet_vgpu_enqueue_copy(struct facet_driver *driver, uint32_t id, uint32_t stream, uint64_t to,
                                          uint64_t from, uint64_t bytes, enum facet_copy kind, uint64_t *ret_execution,
                                          struct facet_error *error)
{
    struct work work = {
        .queue = kind == FACET_COPY_TO_DEVICE ? queue_write : queue_copy, .to = to, .from = from, .bytes = bytes};

    FACET_VGPU_NEED_DRIVER(driver, error);
    if (kind != FACET_COPY_TO_DEVICE && kind != FACET_COPY_ON_DEVICE)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "kind",
                                    "kind %d in a stream: expected FACET_COPY_TO_DEVICE or FACET_COPY_ON_DEVICE",
                                    (int)kind);
    if (kind == FACET_COPY_TO_DEVICE && !from && bytes > 0)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "from", "from: expected an address, not 0");
    enum facet_status status = kind == FACET_COPY_TO_DEVICE && bytes > 0
                                   ? facet_vgpu_check_host(driver, "from", from, bytes, false, error)
                                   : FACET_OK;
    if (status != FACET_OK)
        return status;
    return queue_work(driver, id, stream, work, ret_execution, error);
}

enum facet_status facet_vgpu_enqueue_fill(struct facet_driver *driver, uint32_t id, uint32_t stream, uint64_t address,
                                          uint8_t value, uint64_t bytes, uint64_t *ret_execution,
                                          struct facet_error *error)
{
    const struct work work = {.queue = queue_fill, .to = address, .value = value, .bytes = bytes};

    return queue_work(driver, id, stream, work, ret_execution, error);
}

/* ---- status and cancelling ---- */

static enum facet_status refuse_unknown_execution(uint64_t execution, struct facet_error *error)
{
    return facet_error_argument(error, FACET_NOT_FOUND, "execution",
                                "execution 0x%" PRIx64 ": expected one of the last launches of this vGPU's streams",
                                execution);
}

/* Opens the stream of an execution and finds the launch's number in it. On success the stream's lock is held. */
static enum facet_status find_execution(struct facet_vgpu *vgpu, uint64_t execution,
                                        struct facet_vgpu_stream **ret_stream, uint64_t *ret_sequence,
                                        struct facet_error *error)
{
    uint64_t index = (execution >> FACET_EXECUTION_SHIFT) - 1;
    uint64_t sequence = execution & ((UINT64_C(1) << FACET_EXECUTION_SHIFT) - 1);
    struct facet_vgpu_stream *stream = NULL;

    if (index >= vgpu->streams)
        return refuse_unknown_execution(execution, error);
    enum facet_status status = facet_vgpu_stream_open(vgpu, (uint32_t)index, &stream, error);
    if (status != FACET_OK)
        return status;
    if (sequence == 0 || sequence > stream->launched) {
        pthread_mutex_unlock(&stream->lock);
        return refuse_unknown_execution(execution, error);
    }
    *ret_stream = stream;
    *ret_sequence = sequence;
    return FACET_OK;
}

static uint32_t execution_status_of(const struct facet_launch_record *record)
{
    if (record->status == FACET_OK)
        return FACET_EXECUTION_COMPLETED;
    return record->status == FACET_BAD_STATE ? FACET_EXECUTION_CANCELLED : FACET_EXECUTION_FAILED;
}

static void describe_record(const struct facet_launch_record *record, struct facet_execution *ret_execution)
{
    ret_execution->status = execution_status_of(record);
    ret_execution->failure = ret_execution->status == FACET_EXECUTION_FAILED ? record->status : FACET_OK;
    ret_execution->queued_ns = record->queued_ns;
    ret_execution->start_ns = record->start_ns;
    ret_execution->end_ns = record->end_ns;
    ret_execution->busy_ns = record->busy_ns;
    ret_execution->groups = record->groups;
    ret_execution->units = record->units;
    ret_execution->preemptions = record->preemptions;
    memcpy(ret_execution->kernel, record->kernel, sizeof ret_execution->kernel);
}

/* The caller holds the stream's lock and has just drained the stream's records. */
static enum facet_status look_up_record(const struct facet_vgpu_stream *stream, uint64_t sequence,
                                        struct facet_execution *ret_execution, struct facet_error *error)
{
    const struct facet_launch_record *record =
        stream->capacity > 0 ? &stream->records[sequence % stream->capacity] : NULL;

    if (sequence > stream->state.completed) {
        ret_execution->status = sequence > stream->state.begun ? FACET_EXECUTION_QUEUED : FACET_EXECUTION_RUNNING;
        return FACET_OK;
    }
    if (!record || record->sequence != sequence)
        return refuse_unknown_execution(ret_execution->execution, error);
    describe_record(record, ret_execution);
    return FACET_OK;
}

enum facet_status facet_vgpu_get_execution(struct facet_driver *driver, uint32_t id, uint64_t execution,
                                           struct facet_execution *ret_execution, struct facet_error *error)
{
    struct facet_execution found = {.size = sizeof found, .execution = execution};
    struct facet_vgpu_stream *stream = NULL;
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    uint64_t sequence = 0;

    FACET_VGPU_NEED_STRUCT(ret_execution, error);
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    status = find_execution(vgpu, execution, &stream, &sequence, error);
    if (status != FACET_OK)
        return facet_vgpu_note_status(vgpu, status);
    found.stream = (uint32_t)(stream - vgpu->stream);
    status = facet_vgpu_stream_drain_records(vgpu, stream, error);
    if (status == FACET_OK)
        status = look_up_record(stream, sequence, &found, error);
    pthread_mutex_unlock(&stream->lock);
    if (status == FACET_OK)
        facet_sized_copy_out(ret_execution, &found, sizeof found);
    return facet_vgpu_note_status(vgpu, status);
}

enum facet_status facet_vgpu_cancel(struct facet_driver *driver, uint32_t id, uint64_t execution,
                                    struct facet_error *error)
{
    struct facet_vgpu_stream *stream = NULL;
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    uint64_t sequence = 0;
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);

    if (status != FACET_OK)
        return status;
    status = find_execution(vgpu, execution, &stream, &sequence, error);
    if (status == FACET_OK) {
        const struct facet_vgpu_device *device = vgpu->device;

        status = device->provider->execution->cancel_launch(device->instance, vgpu->context, stream->number, sequence,
                                                            error);
        pthread_mutex_unlock(&stream->lock);
    }
    return facet_vgpu_note_status(vgpu, status);
}

const char *facet_execution_status_name(uint32_t status)
{
    static const char *const names[] = {NULL, "queued", "running", "completed", "failed", "cancelled"};

    return status < sizeof names / sizeof names[0] ? names[status] : NULL;
}
