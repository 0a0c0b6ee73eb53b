/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the table `execution`: streams, launches and transfers as they are asked for.
 * Never: hands anything to the driver's streams: that is the executor's.
 */
#include <stdlib.h>

#include "cuda.h"

uint64_t cuda_number_next(struct facet_provider_instance *instance)
{
    pthread_mutex_lock(&instance->context_lock);
    uint64_t number = ++instance->last_number;
    pthread_mutex_unlock(&instance->context_lock);
    return number;
}

enum facet_status cuda_execution_enter(struct facet_provider_instance *instance, uint64_t number,
                                       struct cuda_context **ret_context, struct facet_error *error)
{
    enum facet_status status = cuda_context_enter(instance, number, CUDA_USE_READ, ret_context, error);

    if (status != FACET_OK)
        return status;
    status = cuda_device_check(instance, (*ret_context)->device, FACET_CAN_EXECUTE, error);
    if (status != FACET_OK)
        cuda_context_leave(instance, *ret_context);
    return status;
}

static enum facet_status no_stream(uint64_t number, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NOT_FOUND, "stream %" PRIu64 ": expected one of this context", number);
}

/* Enters a context, and finds one of its streams with the executor's lock held. */
static enum facet_status enter_stream(struct facet_provider_instance *instance, uint64_t number, uint64_t stream_number,
                                      struct cuda_context **ret_context, struct cuda_stream **ret_stream,
                                      struct facet_error *error)
{
    enum facet_status status = cuda_execution_enter(instance, number, ret_context, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->executor.lock);
    *ret_stream = cuda_stream_find(&instance->executor, *ret_context, stream_number);
    if (*ret_stream)
        return FACET_OK;
    pthread_mutex_unlock(&instance->executor.lock);
    cuda_context_leave(instance, *ret_context);
    return no_stream(stream_number, error);
}

static void leave_stream(struct facet_provider_instance *instance, struct cuda_context *context)
{
    pthread_mutex_unlock(&instance->executor.lock);
    cuda_context_leave(instance, context);
}

/* --- streams --- */

static void free_stream(struct facet_provider_instance *instance, struct cuda_stream *stream)
{
    if (stream->handle)
        instance->driver.cuStreamDestroy_v2(stream->handle);
    free(stream->records);
    free(stream);
}

static enum facet_status make_stream(struct facet_provider_instance *instance, struct cuda_context *context,
                                     struct cuda_stream **ret_stream, struct facet_error *error)
{
    struct cuda_stream *stream = calloc(1, sizeof *stream);

    if (!stream)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a stream");
    stream->context = context;
    stream->number = cuda_number_next(instance);
    stream->state.size = sizeof stream->state;
    TAILQ_INIT(&stream->queued);
    TAILQ_INIT(&stream->handed);
    stream->records = calloc(CUDA_RECORDS, sizeof *stream->records);
    if (!stream->records) {
        free_stream(instance, stream);
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a stream");
    }
    CUresult result = instance->driver.cuStreamCreate(&stream->handle, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) {
        stream->handle = NULL;
        free_stream(instance, stream);
        return cuda_driver_fail(&instance->driver, error, "cuStreamCreate", result);
    }
    *ret_stream = stream;
    return FACET_OK;
}

static enum facet_status open_stream(struct facet_provider_instance *instance, struct cuda_context *context,
                                     uint64_t *ret_number, struct facet_error *error)
{
    struct cuda_executor *executor = &instance->executor;
    struct cuda_stream *stream = NULL;
    enum facet_status status = make_stream(instance, context, &stream, error);

    if (status != FACET_OK)
        return status;
    *ret_number = stream->number;
    pthread_mutex_lock(&executor->lock);
    status = cuda_executor_start(instance, error);
    if (status == FACET_OK)
        TAILQ_INSERT_TAIL(&executor->streams, stream, link);
    pthread_mutex_unlock(&executor->lock);
    if (status != FACET_OK)
        free_stream(instance, stream);
    return status;
}

static enum facet_status execution_create_stream(struct facet_provider_instance *instance, uint64_t number,
                                                 uint64_t *ret_stream, struct facet_error *error)
{
    struct cuda_context *context;
    uint64_t opened = 0;

    if (!ret_stream)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_stream: expected a place for it, not NULL");
    enum facet_status status = cuda_execution_enter(instance, number, &context, error);
    if (status != FACET_OK)
        return status;
    status = open_stream(instance, context, &opened, error);
    cuda_context_leave(instance, context);
    if (status == FACET_OK)
        *ret_stream = opened;
    return status;
}

static enum facet_status execution_destroy_stream(struct facet_provider_instance *instance, uint64_t number,
                                                  uint64_t stream_number, struct facet_error *error)
{
    struct cuda_context *context;
    struct cuda_stream *stream;
    enum facet_status status = enter_stream(instance, number, stream_number, &context, &stream, error);

    if (status != FACET_OK)
        return status;
    cuda_stream_cancel(&instance->executor, stream);
    stream->dying = true;
    pthread_cond_signal(&instance->executor.work);
    leave_stream(instance, context);
    return FACET_OK;
}

/* --- launches --- */

static enum facet_status check_launch(const struct facet_provider_instance *instance,
                                      const struct cuda_context *context, const struct facet_launch *launch,
                                      const void *arguments, struct facet_error *error)
{
    const struct cuda_device *device = &instance->devices[context->device];
    uint64_t items = 1;

    if (launch->argument_bytes > CUDA_ARGUMENT_MOST)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "argument_bytes %" PRIu32 ": expected at most %u",
                              launch->argument_bytes, CUDA_ARGUMENT_MOST);
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
            return facet_kit_fail(error, FACET_UNSUPPORTED,
                                  "offset[%d] %" PRIu32 ": CUDA's kernels begin at 0; pass it as an argument", i,
                                  launch->offset[i]);
        items *= launch->group[i];
    }
    if (items > device->items_most)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "a work-group of %" PRIu64 ": expected at most %" PRIu32,
                              items, device->items_most);
    return FACET_OK;
}

static struct cuda_command *make_command(enum cuda_command_kind kind, const void *data, size_t bytes)
{
    struct cuda_command *command = malloc(sizeof *command + bytes);

    if (!command)
        return NULL;
    *command = (struct cuda_command){.kind = kind, .data_bytes = bytes};
    if (bytes)
        memcpy(command->data, data, bytes);
    return command;
}

static void drop_command(struct facet_provider_instance *instance, struct cuda_command *command)
{
    if (command && command->module) {
        pthread_mutex_lock(&instance->executor.lock);
        command->module->pending--;
        pthread_mutex_unlock(&instance->executor.lock);
    }
    free(command);
}

/* Queues a command whose context is entered; takes it over, also when it fails. */
static enum facet_status queue(struct facet_provider_instance *instance, const struct cuda_context *context,
                               uint64_t stream_number, struct cuda_command *command, struct facet_error *error)
{
    struct cuda_executor *executor = &instance->executor;
    enum facet_status status = FACET_OK;
    size_t staged = command->kind == CUDA_WRITE ? command->data_bytes : 0;

    pthread_mutex_lock(&executor->lock);
    struct cuda_stream *stream = cuda_stream_find(executor, context, stream_number);
    if (!stream)
        status = no_stream(stream_number, error);
    else if (stream->staged_bytes && staged && stream->staged_bytes + staged > CUDA_STAGED_BYTES)
        status = facet_kit_fail(error, FACET_BUSY, "%" PRIu64 " bytes wait to be written: no room for %zu",
                                stream->staged_bytes, staged);
    else
        cuda_stream_queue(executor, stream, command);
    pthread_mutex_unlock(&executor->lock);
    if (status != FACET_OK)
        drop_command(instance, command);
    return status;
}

static enum facet_status launch_in(struct facet_provider_instance *instance, const struct cuda_context *context,
                                   uint64_t stream, const struct facet_launch *launch, const void *arguments,
                                   struct facet_error *error)
{
    enum facet_status status = check_launch(instance, context, launch, arguments, error);

    if (status != FACET_OK)
        return status;
    struct cuda_command *command = make_command(CUDA_LAUNCH, arguments, launch->argument_bytes);
    if (!command)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a launch");
    command->launch = *launch;
    status = cuda_module_hold(instance, context, command, error);
    if (status == FACET_OK)
        return queue(instance, context, stream, command, error);
    drop_command(instance, command);
    return status;
}

static enum facet_status execution_launch(struct facet_provider_instance *instance, uint64_t number, uint64_t stream,
                                          const struct facet_launch *given, const void *arguments,
                                          struct facet_error *error)
{
    struct cuda_context *context;
    struct facet_launch launch;
    enum facet_status status = facet_kit_launch(given, &launch, error);

    if (status == FACET_OK)
        status = cuda_execution_enter(instance, number, &context, error);
    if (status != FACET_OK)
        return status;
    status = launch_in(instance, context, stream, &launch, arguments, error);
    cuda_context_leave(instance, context);
    return status;
}

/* --- transfers in the order of a stream --- */

static enum facet_status check_range(const struct facet_provider_instance *instance, const struct cuda_context *context,
                                     uint64_t address, uint64_t bytes, struct facet_error *error)
{
    if (cuda_context_holds(instance, context, address, bytes))
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                          "%" PRIu64 " bytes at 0x%" PRIx64 ": expected memory of the context", bytes, address);
}

static enum facet_status check_stream(struct facet_provider_instance *instance, const struct cuda_context *context,
                                      uint64_t number, struct facet_error *error)
{
    pthread_mutex_lock(&instance->executor.lock);
    bool found = cuda_stream_find(&instance->executor, context, number);
    pthread_mutex_unlock(&instance->executor.lock);
    return found ? FACET_OK : no_stream(number, error);
}

/* Queues `command` (NULL: no memory) after its ranges were looked at. */
static enum facet_status queue_transfer(struct facet_provider_instance *instance, uint64_t number,
                                        uint64_t stream_number, struct cuda_command *command, struct facet_error *error)
{
    struct cuda_context *context;

    if (!command)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a transfer");
    enum facet_status status = cuda_execution_enter(instance, number, &context, error);
    if (status != FACET_OK) {
        free(command);
        return status;
    }
    status = check_stream(instance, context, stream_number, error);
    if (status == FACET_OK)
        status = check_range(instance, context, command->to, command->bytes, error);
    if (status == FACET_OK && command->kind == CUDA_COPY)
        status = check_range(instance, context, command->from, command->bytes, error);
    if (status == FACET_OK)
        status = queue(instance, context, stream_number, command, error);
    else
        free(command);
    cuda_context_leave(instance, context);
    return status;
}

static enum facet_status execution_write(struct facet_provider_instance *instance, uint64_t number, uint64_t stream,
                                         uint64_t address, const void *data, uint64_t bytes, struct facet_error *error)
{
    if (!data)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "data: expected bytes, not NULL");
    struct cuda_command *command =
        bytes < SIZE_MAX - sizeof *command ? make_command(CUDA_WRITE, data, (size_t)bytes) : NULL;
    if (command) {
        command->to = address;
        command->bytes = bytes;
    }
    return queue_transfer(instance, number, stream, command, error);
}

static enum facet_status execution_copy(struct facet_provider_instance *instance, uint64_t number, uint64_t stream,
                                        uint64_t to, uint64_t from, uint64_t bytes, struct facet_error *error)
{
    struct cuda_command *command = make_command(CUDA_COPY, NULL, 0);

    if (command) {
        command->to = to;
        command->from = from;
        command->bytes = bytes;
    }
    return queue_transfer(instance, number, stream, command, error);
}

static enum facet_status execution_fill(struct facet_provider_instance *instance, uint64_t number, uint64_t stream,
                                        uint64_t address, uint8_t value, uint64_t bytes, struct facet_error *error)
{
    struct cuda_command *command = make_command(CUDA_FILL, NULL, 0);

    if (command) {
        command->to = address;
        command->value = value;
        command->bytes = bytes;
    }
    return queue_transfer(instance, number, stream, command, error);
}

/* --- waiting --- */

/* Nothing is held while it waits: the stream may be destroyed, and its context, too. */
static enum facet_status execution_synchronize(struct facet_provider_instance *instance, uint64_t number,
                                               uint64_t stream_number, uint64_t timeout_ns, struct facet_error *error)
{
    struct cuda_executor *executor = &instance->executor;
    uint64_t deadline = cuda_deadline_ns(timeout_ns), wanted = UINT64_MAX;
    struct cuda_context *context;
    struct cuda_stream *stream;
    bool in_time = true;

    do {
        enum facet_status status = enter_stream(instance, number, stream_number, &context, &stream, error);
        if (status != FACET_OK)
            return status;
        if (wanted == UINT64_MAX)
            wanted = stream->state.launched;
        bool complete = stream->state.completed >= wanted;
        uint64_t seen = executor->changes;
        leave_stream(instance, context);
        if (complete)
            return FACET_OK;
        pthread_mutex_lock(&executor->lock);
        in_time = executor->changes != seen || cuda_executor_wait(executor, deadline);
        pthread_mutex_unlock(&executor->lock);
    } while (in_time);
    return facet_kit_fail(error, FACET_TIMEOUT, "stream %" PRIu64 ": not complete in time", stream_number);
}

static enum facet_status execution_query(struct facet_provider_instance *instance, uint64_t number,
                                         uint64_t stream_number, struct facet_stream_state *ret_state,
                                         struct facet_error *error)
{
    struct cuda_context *context;
    struct cuda_stream *stream;
    enum facet_status status = enter_stream(instance, number, stream_number, &context, &stream, error);

    if (status != FACET_OK)
        return status;
    struct facet_stream_state state = stream->state;
    leave_stream(instance, context);
    return facet_kit_struct(&state, sizeof state, ret_state, error);
}

static enum facet_status execution_cancel(struct facet_provider_instance *instance, uint64_t number,
                                          uint64_t stream_number, struct facet_error *error)
{
    struct cuda_context *context;
    struct cuda_stream *stream;
    enum facet_status status = enter_stream(instance, number, stream_number, &context, &stream, error);

    if (status != FACET_OK)
        return status;
    cuda_stream_cancel(&instance->executor, stream);
    leave_stream(instance, context);
    return FACET_OK;
}

/* In the order of completion, which is not that of sequences when some were cancelled while others ran. */
static uint32_t pick_records(const struct cuda_stream *stream, uint64_t after, struct facet_launch_record *ret_records)
{
    uint64_t first = stream->record_count > CUDA_RECORDS ? stream->record_count - CUDA_RECORDS : 0;
    uint32_t count = 0;

    for (uint64_t i = first; i < stream->record_count; i++) {
        const struct facet_launch_record *record = &stream->records[i % CUDA_RECORDS];

        if (record->sequence > after)
            ret_records[count++] = *record;
    }
    return count;
}

static enum facet_status execution_records(struct facet_provider_instance *instance, uint64_t number,
                                           uint64_t stream_number, uint64_t after, void *items, uint32_t item_size,
                                           uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    struct facet_launch_record *records = malloc(CUDA_RECORDS * sizeof *records);
    struct cuda_context *context;
    struct cuda_stream *stream;

    if (!records)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for records");
    enum facet_status status = enter_stream(instance, number, stream_number, &context, &stream, error);
    if (status == FACET_OK) {
        uint32_t count = pick_records(stream, after, records);

        leave_stream(instance, context);
        status = facet_kit_list_items(records, sizeof *records, count, items, item_size, capacity, ret_count, error);
    }
    free(records);
    return status;
}

const struct facet_execution_ops cuda_execution_ops = {
    .size = sizeof cuda_execution_ops,
    .load = cuda_module_load,
    .unload = cuda_module_unload,
    .create_stream = execution_create_stream,
    .destroy_stream = execution_destroy_stream,
    .launch = execution_launch,
    .synchronize = execution_synchronize,
    .query = execution_query,
    .cancel = execution_cancel,
    .write = execution_write,
    .copy = execution_copy,
    .fill = execution_fill,
    .records = execution_records,
};
