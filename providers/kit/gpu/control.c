/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: shares, priorities, bounds, pauses, waiting of streams for each other, cancelling one launch, policies.
 * Never: schedules turns (turns.c), or ends submitted work, for which drivers have no call. A launch that has begun
 * runs to its end even if it is cancelled, and a context whose launch does not end is not destroyed (FACET_TIMEOUT).
 *
 * A bound of compute units is a slice of that size, rounded up to the driver's steps. A stream moves to the slice with
 * its next command, once its submitted commands are complete.
 */
#include <stdlib.h>

#include "machine.h"
#include "provider_kit.h"

#define SLICE_LEAST_NS UINT64_C(1000)
#define SLICE_MOST_NS  UINT64_C(10000000000)

/* --- shares --- */

static enum facet_status check_share(uint32_t request_milli, uint32_t limit_milli, uint32_t priority,
                                     struct facet_error *error)
{
    if (request_milli > FACET_MILLI_WHOLE)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "request_milli %" PRIu32 ": expected at most %u",
                              request_milli, FACET_MILLI_WHOLE);
    if (limit_milli == 0 || limit_milli > FACET_MILLI_WHOLE)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "limit_milli %" PRIu32 ": expected 1 to %u", limit_milli,
                              FACET_MILLI_WHOLE);
    if (priority > FACET_PRIORITY_HIGH)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "priority %" PRIu32 ": expected at most %d", priority,
                              FACET_PRIORITY_HIGH);
    return FACET_OK;
}

enum facet_status gpu_control_set_share(struct facet_provider_instance *instance, uint64_t number,
                                        uint32_t request_milli, uint32_t limit_milli, uint32_t priority,
                                        struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    const struct facet_pick_share share = {request_milli, limit_milli, priority};
    struct gpu_context *context;
    enum facet_status status = gpu_execution_enter(machine, number, &context, error);

    if (status != FACET_OK)
        return status;
    status = check_share(request_milli, limit_milli, priority, error);
    if (status == FACET_OK) {
        struct gpu_tenant *tenant = &context->tenant;

        pthread_mutex_lock(&machine->executor.lock);
        facet_pick_set_share(&tenant->turns->pick, tenant->entity, &share, gpu_monotonic_ns());
        pthread_cond_signal(&machine->executor.work);
        pthread_mutex_unlock(&machine->executor.lock);
    }
    gpu_context_leave(machine, context);
    return status;
}

enum facet_status gpu_control_set_priority(struct facet_provider_instance *instance, uint64_t number,
                                           uint64_t stream_number, uint32_t priority, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    struct gpu_stream *stream;
    enum facet_status status = gpu_stream_enter(machine, number, stream_number, &context, &stream, error);

    if (status != FACET_OK)
        return status;
    if (priority <= FACET_PRIORITY_HIGH) {
        stream->priority = priority;
        context->tenant.has_priorities = true;
        pthread_cond_signal(&machine->executor.work);
    } else {
        status = facet_kit_fail(error, FACET_OUT_OF_RANGE, "priority %" PRIu32 ": expected at most %d", priority,
                                FACET_PRIORITY_HIGH);
    }
    gpu_stream_leave(machine, context);
    return status;
}

/* --- bounds --- */

/* Makes the slice for a bound. *ret_slice NULL: no bound is needed, as it would be the whole device. */
static enum facet_status make_bound(struct gpu_machine *machine, const struct gpu_context *context, uint32_t units,
                                    struct gpu_slice **ret_slice, struct facet_error *error)
{
    const struct gpu_slice *within = context->worker->slice;
    gpu_slice_handle handle = NULL;

    if (units == 0)
        return FACET_OK;
    pthread_mutex_lock(&machine->context_lock);
    enum facet_status status =
        machine->driver->bound_slice(machine, context->device, within ? within->handle : NULL, units, &handle, error);
    pthread_mutex_unlock(&machine->context_lock);
    if (status != FACET_OK || !handle)
        return status;
    return gpu_slice_new(machine, context->device, handle, units, ret_slice, error);
}

static enum facet_status bound_context(struct gpu_machine *machine, struct gpu_context *context, uint32_t units,
                                       uint32_t launches, struct facet_error *error)
{
    struct gpu_slice *slice = NULL;
    enum facet_status status = make_bound(machine, context, units, &slice, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&machine->executor.lock);
    struct gpu_slice *before = context->bound;
    context->bound = slice;
    context->tenant.launches_most = launches;
    pthread_cond_signal(&machine->executor.work);
    pthread_mutex_unlock(&machine->executor.lock);
    gpu_slice_drop(machine, context->device, before);
    return FACET_OK;
}

static enum facet_status enter_controlled(struct gpu_machine *machine, uint64_t number,
                                          struct gpu_context **ret_context, struct facet_error *error)
{
    enum facet_status status = gpu_execution_enter(machine, number, ret_context, error);

    if (status != FACET_OK)
        return status;
    status = gpu_device_check(machine, (*ret_context)->device, FACET_CAN_CONTROL, error);
    if (status != FACET_OK)
        gpu_context_leave(machine, *ret_context);
    return status;
}

static enum facet_status enter_stream(struct gpu_machine *machine, uint64_t number, uint64_t stream_number,
                                      struct gpu_context **ret_context, struct gpu_stream **ret_stream,
                                      struct facet_error *error)
{
    /* The device's capability is checked before the stream. */
    enum facet_status status = enter_controlled(machine, number, ret_context, error);

    if (status != FACET_OK)
        return status;
    gpu_context_leave(machine, *ret_context);
    return gpu_stream_enter(machine, number, stream_number, ret_context, ret_stream, error);
}

enum facet_status gpu_control_set_bounds(struct facet_provider_instance *instance, uint64_t number, uint32_t units,
                                         uint32_t launches, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    enum facet_status status = enter_controlled(machine, number, &context, error);

    if (status != FACET_OK)
        return status;
    uint32_t most = machine->infos[context->device].compute_units;
    status = units <= most
                 ? bound_context(machine, context, units, launches, error)
                 : facet_kit_fail(error, FACET_OUT_OF_RANGE,
                                  "units %" PRIu32 ": expected at most the %" PRIu32 " of the device", units, most);
    gpu_context_leave(machine, context);
    return status;
}

/* --- pauses and order --- */

enum facet_status gpu_control_pause(struct facet_provider_instance *instance, uint64_t number, uint32_t paused,
                                    struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    enum facet_status status = enter_controlled(machine, number, &context, error);

    if (status != FACET_OK)
        return status;
    if (paused > 1) {
        status = facet_kit_fail(error, FACET_OUT_OF_RANGE, "paused %" PRIu32 ": expected 0 or 1", paused);
    } else {
        pthread_mutex_lock(&machine->executor.lock);
        bool drained = gpu_tenant_pause(&machine->executor, &context->tenant, paused);
        pthread_mutex_unlock(&machine->executor.lock);
        if (!drained)
            status =
                facet_kit_fail(error, FACET_TIMEOUT, "context %" PRIu64 " is paused, but a launch still runs", number);
    }
    gpu_context_leave(machine, context);
    return status;
}

enum facet_status gpu_control_wait(struct facet_provider_instance *instance, uint64_t number, uint64_t stream_number,
                                   uint64_t other_number, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    struct gpu_stream *stream;
    struct gpu_command *command = gpu_command_new(GPU_WAIT, NULL, 0);

    if (!command)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a command");
    enum facet_status status = enter_stream(machine, number, stream_number, &context, &stream, error);
    if (status == FACET_OK) {
        const struct gpu_stream *other = gpu_stream_find(&machine->executor, context, other_number);

        if (other && other != stream) {
            command->awaited = other;
            command->awaited_sequence = other->last_sequence;
        }
        if (other)
            gpu_stream_queue(&machine->executor, stream, command);
        else
            status = facet_kit_fail(error, FACET_NOT_FOUND, "stream %" PRIu64 ": expected one of this context",
                                    other_number);
        gpu_stream_leave(machine, context);
    }
    if (status != FACET_OK)
        free(command);
    return status;
}

enum facet_status gpu_control_cancel_launch(struct facet_provider_instance *instance, uint64_t number,
                                            uint64_t stream_number, uint64_t sequence, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    struct gpu_stream *stream;
    enum facet_status status = enter_stream(machine, number, stream_number, &context, &stream, error);

    if (status != FACET_OK)
        return status;
    status = sequence ? gpu_stream_cancel_one(&machine->executor, stream, sequence) : FACET_NOT_FOUND;
    gpu_stream_leave(machine, context);
    return status == FACET_OK
               ? status
               : facet_kit_fail(error, status,
                                "launch %" PRIu64 " of stream %" PRIu64 ": expected one queued or running", sequence,
                                stream_number);
}

/* --- policies --- */

/* A launch is never preempted, so `preempt` has no effect. */
enum facet_status gpu_control_set_policy(struct facet_provider_instance *instance, uint32_t device, uint32_t policy,
                                         uint32_t preempt, uint64_t slice_ns, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    enum facet_status status = gpu_device_check(machine, device, FACET_CAN_SCHEDULE, error);

    if (status != FACET_OK)
        return status;
    if (policy > FACET_SCHEDULE_FIFO || preempt > 1)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "policy %" PRIu32 ", preempt %" PRIu32 ": expected at most %d, and 0 or 1", policy,
                              preempt, FACET_SCHEDULE_FIFO);
    if (slice_ns > SLICE_MOST_NS || (slice_ns > 0 && slice_ns < SLICE_LEAST_NS))
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "slice_ns %" PRIu64 ": expected 0, or %" PRIu64 " to %" PRIu64,
                              slice_ns, SLICE_LEAST_NS, SLICE_MOST_NS);
    pthread_mutex_lock(&machine->context_lock);
    gpu_turns_set_policy(machine, device, (enum facet_pick_policy)policy, slice_ns ? slice_ns : GPU_TURN_NS);
    pthread_mutex_unlock(&machine->context_lock);
    return FACET_OK;
}
