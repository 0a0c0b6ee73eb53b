/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the table `execution`: streams, launches and transfers as the host requests them.
 * Never: submits to the driver's streams: the executor does.
 */
#include <stdlib.h>

#include "machine.h"
#include "provider_kit.h"

uint64_t gpu_number_next(struct gpu_machine *machine)
{
    pthread_mutex_lock(&machine->context_lock);
    uint64_t number = ++machine->last_number;
    pthread_mutex_unlock(&machine->context_lock);
    return number;
}

enum facet_status gpu_execution_enter(struct gpu_machine *machine, uint64_t number, struct gpu_context **ret_context,
                                      struct facet_error *error)
{
    enum facet_status status = gpu_context_enter(machine, number, GPU_USE_READ, ret_context, error);

    if (status != FACET_OK)
        return status;
    status = gpu_device_check(machine, (*ret_context)->device, FACET_CAN_EXECUTE, error);
    if (status != FACET_OK)
        gpu_context_leave(machine, *ret_context);
    return status;
}

static enum facet_status no_stream(uint64_t number, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NOT_FOUND, "stream %" PRIu64 ": expected one of this context", number);
}

enum facet_status gpu_stream_enter(struct gpu_machine *machine, uint64_t number, uint64_t stream_number,
                                   struct gpu_context **ret_context, struct gpu_stream **ret_stream,
                                   struct facet_error *error)
{
    enum facet_status status = gpu_execution_enter(machine, number, ret_context, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&machine->executor.lock);
    *ret_stream = gpu_stream_find(&machine->executor, *ret_context, stream_number);
    if (*ret_stream)
        return FACET_OK;
    pthread_mutex_unlock(&machine->executor.lock);
    gpu_context_leave(machine, *ret_context);
    return no_stream(stream_number, error);
}

void gpu_stream_leave(struct gpu_machine *machine, struct gpu_context *context)
{
    pthread_mutex_unlock(&machine->executor.lock);
    gpu_context_leave(machine, context);
}

/* --- streams --- */

static void free_stream(struct gpu_machine *machine, struct gpu_stream *stream)
{
    if (stream->handle)
        gpu_stream_close(machine, stream->context->device, stream->handle, stream->slice);
    free(stream->records);
    free(stream);
}

static enum facet_status make_stream(struct gpu_machine *machine, struct gpu_context *context,
                                     struct gpu_stream **ret_stream, struct facet_error *error)
{
    struct gpu_stream *stream = calloc(1, sizeof *stream);

    if (!stream)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a stream");
    stream->context = context;
    stream->number = gpu_number_next(machine);
    stream->state.size = sizeof stream->state;
    stream->priority = FACET_PRIORITY_NORMAL;
    TAILQ_INIT(&stream->queued);
    TAILQ_INIT(&stream->submitted);
    stream->records = calloc(GPU_RECORDS, sizeof *stream->records);
    if (!stream->records) {
        free_stream(machine, stream);
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a stream");
    }
    enum facet_status status = gpu_stream_open(machine, context, &stream->handle, &stream->slice, error);
    if (status == FACET_OK)
        *ret_stream = stream;
    else
        free_stream(machine, stream);
    return status;
}

static enum facet_status open_stream(struct gpu_machine *machine, struct gpu_context *context, uint64_t *ret_number,
                                     struct facet_error *error)
{
    struct gpu_executor *executor = &machine->executor;
    struct gpu_stream *stream = NULL;
    enum facet_status status = make_stream(machine, context, &stream, error);

    if (status != FACET_OK)
        return status;
    *ret_number = stream->number;
    pthread_mutex_lock(&executor->lock);
    status = gpu_executor_start(machine, error);
    if (status == FACET_OK)
        TAILQ_INSERT_TAIL(&executor->streams, stream, link);
    pthread_mutex_unlock(&executor->lock);
    if (status != FACET_OK)
        free_stream(machine, stream);
    return status;
}

static enum facet_status execution_create_stream(struct facet_provider_instance *instance, uint64_t number,
                                                 uint64_t *ret_stream, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    uint64_t opened = 0;

    if (!ret_stream)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_stream: expected an address, not NULL");
    enum facet_status status = gpu_execution_enter(machine, number, &context, error);
    if (status != FACET_OK)
        return status;
    status = open_stream(machine, context, &opened, error);
    gpu_context_leave(machine, context);
    if (status == FACET_OK)
        *ret_stream = opened;
    return status;
}

static enum facet_status execution_destroy_stream(struct facet_provider_instance *instance, uint64_t number,
                                                  uint64_t stream_number, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    struct gpu_stream *stream;
    enum facet_status status = gpu_stream_enter(machine, number, stream_number, &context, &stream, error);

    if (status != FACET_OK)
        return status;
    gpu_stream_cancel(&machine->executor, stream);
    stream->is_destroyed = true;
    pthread_cond_signal(&machine->executor.work);
    gpu_stream_leave(machine, context);
    return FACET_OK;
}

/* --- launches --- */

static enum facet_status check_launch(const struct gpu_machine *machine, const struct gpu_context *context,
                                      const struct facet_launch *launch, const void *arguments,
                                      struct facet_error *error)
{
    const struct gpu_device *device = &machine->devices[context->device];
    uint64_t items = 1;

    if (launch->argument_bytes > GPU_ARGUMENT_MOST)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "argument_bytes %" PRIu32 ": expected at most %u",
                              launch->argument_bytes, GPU_ARGUMENT_MOST);
    if (launch->argument_bytes && !arguments)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "arguments: expected %" PRIu32 " bytes, not NULL",
                              launch->argument_bytes);
    for (int i = 0; i < 3; i++) {
        if (!launch->grid[i] || launch->grid[i] > device->grid_most[i])
            return facet_kit_fail(error, FACET_OUT_OF_RANGE, "grid[%d] %" PRIu32 ": expected 1 to %" PRIu32, i,
                                  launch->grid[i], device->grid_most[i]);
        if (!launch->group[i] || launch->group[i] > device->group_most[i])
            return facet_kit_fail(error, FACET_OUT_OF_RANGE, "group[%d] %" PRIu32 ": expected 1 to %" PRIu32, i,
                                  launch->group[i], device->group_most[i]);
        if (launch->offset[i])
            return facet_kit_fail(error, FACET_UNSUPPORTED, "offset[%d] %" PRIu32 ": %s", i, launch->offset[i],
                                  machine->driver->offset_hint);
        items *= launch->group[i];
    }
    if (items > device->items_most)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "a work-group of %" PRIu64 ": expected at most %" PRIu32,
                              items, device->items_most);
    return FACET_OK;
}

struct gpu_command *gpu_command_new(enum gpu_command_kind kind, const void *data, size_t bytes)
{
    struct gpu_command *command = malloc(sizeof *command + bytes);

    if (!command)
        return NULL;
    *command = (struct gpu_command){.kind = kind, .data_bytes = bytes};
    if (bytes)
        memcpy(command->data, data, bytes);
    return command;
}

static void drop_command(struct gpu_machine *machine, struct gpu_command *command)
{
    if (command && command->module) {
        pthread_mutex_lock(&machine->executor.lock);
        command->module->pending--;
        pthread_mutex_unlock(&machine->executor.lock);
    }
    free(command);
}

/* Queues a command whose context is entered. Owns the command from here on, also on failure. */
static enum facet_status queue_command(struct gpu_machine *machine, const struct gpu_context *context,
                                       uint64_t stream_number, struct gpu_command *command, struct facet_error *error)
{
    struct gpu_executor *executor = &machine->executor;
    enum facet_status status = FACET_OK;
    size_t staged = command->kind == GPU_WRITE ? command->data_bytes : 0;

    pthread_mutex_lock(&executor->lock);
    struct gpu_stream *stream = gpu_stream_find(executor, context, stream_number);
    if (!stream)
        status = no_stream(stream_number, error);
    else if (stream->staged_bytes && staged && stream->staged_bytes + staged > GPU_STAGED_BYTES)
        status = facet_kit_fail(error, FACET_BUSY,
                                "%" PRIu64
                                " bytes wait to be written, and %zu more are too many: synchronize the stream first",
                                stream->staged_bytes, staged);
    else
        gpu_stream_queue(executor, stream, command);
    pthread_mutex_unlock(&executor->lock);
    if (status != FACET_OK)
        drop_command(machine, command);
    return status;
}

static enum facet_status launch_in(struct gpu_machine *machine, const struct gpu_context *context, uint64_t stream,
                                   const struct facet_launch *launch, const void *arguments, struct facet_error *error)
{
    enum facet_status status = check_launch(machine, context, launch, arguments, error);

    if (status != FACET_OK)
        return status;
    struct gpu_command *command = gpu_command_new(GPU_LAUNCH, arguments, launch->argument_bytes);
    if (!command)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a launch");
    command->launch = *launch;
    status = gpu_module_hold(machine, context, command, error);
    if (status == FACET_OK)
        return queue_command(machine, context, stream, command, error);
    drop_command(machine, command);
    return status;
}

static enum facet_status execution_launch(struct facet_provider_instance *instance, uint64_t number, uint64_t stream,
                                          const struct facet_launch *given, const void *arguments,
                                          struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    struct facet_launch launch;
    enum facet_status status = facet_kit_launch(given, &launch, error);

    if (status == FACET_OK)
        status = gpu_execution_enter(machine, number, &context, error);
    if (status != FACET_OK)
        return status;
    status = launch_in(machine, context, stream, &launch, arguments, error);
    gpu_context_leave(machine, context);
    return status;
}

/* --- transfers in the order of a stream --- */

static enum facet_status check_range(const struct gpu_machine *machine, const struct gpu_context *context,
                                     uint64_t address, uint64_t bytes, struct facet_error *error)
{
    if (gpu_context_holds(machine, context, address, bytes))
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                          "%" PRIu64 " bytes at 0x%" PRIx64 ": expected memory of the context", bytes, address);
}

static enum facet_status check_stream(struct gpu_machine *machine, const struct gpu_context *context, uint64_t number,
                                      struct facet_error *error)
{
    pthread_mutex_lock(&machine->executor.lock);
    bool found = gpu_stream_find(&machine->executor, context, number);
    pthread_mutex_unlock(&machine->executor.lock);
    return found ? FACET_OK : no_stream(number, error);
}

/* Checks the ranges of `command` (NULL: there was no memory for it) and queues it. Owns it from here on. */
static enum facet_status queue_transfer(struct gpu_machine *machine, uint64_t number, uint64_t stream_number,
                                        struct gpu_command *command, struct facet_error *error)
{
    struct gpu_context *context;

    if (!command)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a transfer");
    enum facet_status status = gpu_execution_enter(machine, number, &context, error);
    if (status != FACET_OK) {
        free(command);
        return status;
    }
    status = check_stream(machine, context, stream_number, error);
    if (status == FACET_OK)
        status = check_range(machine, context, command->to, command->bytes, error);
    if (status == FACET_OK && command->kind == GPU_COPY)
        status = check_range(machine, context, command->from, command->bytes, error);
    if (status == FACET_OK)
        status = queue_command(machine, context, stream_number, command, error);
    else
        free(command);
    gpu_context_leave(machine, context);
    return status;
}

static enum facet_status execution_write(struct facet_provider_instance *instance, uint64_t number, uint64_t stream,
                                         uint64_t address, const void *data, uint64_t bytes, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    if (!data)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "data: expected bytes, not NULL");
    struct gpu_command *command =
        bytes < SIZE_MAX - sizeof *command ? gpu_command_new(GPU_WRITE, data, (size_t)bytes) : NULL;
    if (command) {
        command->to = address;
        command->bytes = bytes;
    }
    return queue_transfer(machine, number, stream, command, error);
}

static enum facet_status execution_copy(struct facet_provider_instance *instance, uint64_t number, uint64_t stream,
                                        uint64_t to, uint64_t from, uint64_t bytes, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_command *command = gpu_command_new(GPU_COPY, NULL, 0);

    if (command) {
        command->to = to;
        command->from = from;
        command->bytes = bytes;
    }
    return queue_transfer(machine, number, stream, command, error);
}

static enum facet_status execution_fill(struct facet_provider_instance *instance, uint64_t number, uint64_t stream,
                                        uint64_t address, uint8_t value, uint64_t bytes, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_command *command = gpu_command_new(GPU_FILL, NULL, 0);

    if (command) {
        command->to = address;
        command->value = value;
        command->bytes = bytes;
    }
    return queue_transfer(machine, number, stream, command, error);
}

/* --- waiting --- */

/* Holds no lock and is no user of the context while it waits: the stream and its context may be destroyed. */
static enum facet_status execution_synchronize(struct facet_provider_instance *instance, uint64_t number,
                                               uint64_t stream_number, uint64_t timeout_ns, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_executor *executor = &machine->executor;
    uint64_t deadline = gpu_deadline_ns(timeout_ns), wanted = UINT64_MAX;
    struct gpu_context *context;
    struct gpu_stream *stream;
    bool in_time = true;

    do {
        enum facet_status status = gpu_stream_enter(machine, number, stream_number, &context, &stream, error);
        if (status != FACET_OK)
            return status;
        if (wanted == UINT64_MAX)
            wanted = stream->state.launched;
        bool complete = stream->state.completed >= wanted;
        uint64_t last_changes = executor->changes;
        gpu_stream_leave(machine, context);
        if (complete)
            return FACET_OK;
        pthread_mutex_lock(&executor->lock);
        in_time = executor->changes != last_changes || gpu_executor_wait(executor, deadline);
        pthread_mutex_unlock(&executor->lock);
    } while (in_time);
    return facet_kit_fail(error, FACET_TIMEOUT, "stream %" PRIu64 ": not complete after %" PRIu64 " ns", stream_number,
                          timeout_ns);
}

static enum facet_status execution_query(struct facet_provider_instance *instance, uint64_t number,
                                         uint64_t stream_number, struct facet_stream_state *ret_state,
                                         struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    struct gpu_stream *stream;
    enum facet_status status = gpu_stream_enter(machine, number, stream_number, &context, &stream, error);

    if (status != FACET_OK)
        return status;
    struct facet_stream_state state = stream->state;
    gpu_stream_leave(machine, context);
    return facet_kit_struct(&state, sizeof state, ret_state, error);
}

static enum facet_status execution_cancel(struct facet_provider_instance *instance, uint64_t number,
                                          uint64_t stream_number, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    struct gpu_stream *stream;
    enum facet_status status = gpu_stream_enter(machine, number, stream_number, &context, &stream, error);

    if (status != FACET_OK)
        return status;
    gpu_stream_cancel(&machine->executor, stream);
    gpu_stream_leave(machine, context);
    return FACET_OK;
}

/*
 * Copies the records in the order of completion. It differs from the order of sequence numbers if commands were
 * cancelled while others ran.
 */
static uint32_t pick_records(const struct gpu_stream *stream, uint64_t after, struct facet_launch_record *ret_records)
{
    uint64_t first = stream->record_count > GPU_RECORDS ? stream->record_count - GPU_RECORDS : 0;
    uint32_t count = 0;

    for (uint64_t i = first; i < stream->record_count; i++) {
        const struct facet_launch_record *record = &stream->records[i % GPU_RECORDS];

        if (record->sequence > after)
            ret_records[count++] = *record;
    }
    return count;
}

static enum facet_status execution_records(struct facet_provider_instance *instance, uint64_t number,
                                           uint64_t stream_number, uint64_t after, void *items, uint32_t item_size,
                                           uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct facet_launch_record *records = malloc(GPU_RECORDS * sizeof *records);
    struct gpu_context *context;
    struct gpu_stream *stream;

    if (!records)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for records");
    enum facet_status status = gpu_stream_enter(machine, number, stream_number, &context, &stream, error);
    if (status == FACET_OK) {
        uint32_t count = pick_records(stream, after, records);

        gpu_stream_leave(machine, context);
        status = facet_kit_list_items(records, sizeof *records, count, items, item_size, capacity, ret_count, error);
    }
    free(records);
    return status;
}

const struct facet_execution_ops gpu_execution_ops = {
    .size = sizeof gpu_execution_ops,
    .load = gpu_module_load,
    .unload = gpu_module_unload,
    .create_stream = execution_create_stream,
    .destroy_stream = execution_destroy_stream,
    .launch = execution_launch,
    .synchronize = execution_synchronize,
    .query = execution_query,
    .cancel = execution_cancel,
    .write = execution_write,
    .copy = execution_copy,
    .fill = execution_fill,
    .set_share = gpu_control_set_share,
    .set_priority = gpu_control_set_priority,
    .records = execution_records,
    .set_bounds = gpu_control_set_bounds,
    .pause = gpu_control_pause,
    .wait = gpu_control_wait,
    .cancel_launch = gpu_control_cancel_launch,
    .set_policy = gpu_control_set_policy,
};
