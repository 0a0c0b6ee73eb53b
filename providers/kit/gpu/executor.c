/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: streams' queues, the thread that submits commands, and records.
 * Never: holds the lock while the driver is called.
 */
#include "executor.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "machine.h"
#include "provider_kit.h"

#define POLL_NS UINT64_C(50000) /* between polls of the driver's progress */

uint64_t gpu_monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t gpu_deadline_ns(uint64_t timeout_ns)
{
    uint64_t now = gpu_monotonic_ns();

    return timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
}

static bool wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / UINT64_C(1000000000)),
                             .tv_nsec = (long)(deadline_ns % UINT64_C(1000000000))};

    if (deadline_ns == UINT64_MAX)
        return pthread_cond_wait(condition, lock) == 0;
    return pthread_cond_timedwait(condition, lock, &until) == 0;
}

bool gpu_executor_wait(struct gpu_executor *executor, uint64_t deadline_ns)
{
    return gpu_monotonic_ns() < deadline_ns &&
           (wait_until(&executor->done, &executor->lock, deadline_ns) || gpu_monotonic_ns() < deadline_ns);
}

static void announce_completion(struct gpu_executor *executor)
{
    executor->changes++;
    pthread_cond_broadcast(&executor->done);
}

/* --- streams, with the lock --- */

struct gpu_stream *gpu_stream_find(const struct gpu_executor *executor, const struct gpu_context *context,
                                   uint64_t number)
{
    struct gpu_stream *stream;

    TAILQ_FOREACH (stream, &executor->streams, link) {
        if (stream->number == number && stream->context == context && !stream->is_destroyed)
            return stream;
    }
    return NULL;
}

bool gpu_stream_is_idle(const struct gpu_stream *stream)
{
    return TAILQ_EMPTY(&stream->queued) && TAILQ_EMPTY(&stream->submitted) && !stream->submitting_sequence;
}

void gpu_stream_queue(struct gpu_executor *executor, struct gpu_stream *stream, struct gpu_command *command)
{
    command->sequence = ++stream->last_sequence;
    command->queued_ns = gpu_monotonic_ns();
    stream->state.launched++;
    stream->staged_bytes += command->kind == GPU_WRITE ? command->data_bytes : 0;
    TAILQ_INSERT_TAIL(&stream->queued, command, link);
    pthread_cond_signal(&executor->work);
}

static const char *kernel_name_of(const struct gpu_command *command)
{
    return command->kind == GPU_LAUNCH || command->kind == GPU_CALL ? command->launch.kernel : "";
}

static uint64_t groups_of(const struct gpu_command *command)
{
    const uint32_t *grid = command->launch.grid;

    return command->kind == GPU_LAUNCH ? (uint64_t)grid[0] * grid[1] * grid[2] : 0;
}

/*
 * The tenant's charge for a command of this duration. The device's clock differs from this machine's, and the end of a
 * command is seen late. So a command counts as begun when it was submitted, or when the previous command of its stream
 * ended.
 */
static uint64_t charge_tenant(struct gpu_stream *stream, const struct gpu_command *command, uint64_t took_ns,
                              uint64_t now_ns)
{
    uint64_t start = command->submitted_ns > stream->last_end_ns ? command->submitted_ns : stream->last_end_ns;
    uint64_t end = start + took_ns < now_ns ? start + took_ns : now_ns;

    stream->last_end_ns = end;
    return gpu_turns_charge(&stream->context->tenant, start, end, now_ns);
}

/* Counts, records and frees a command that is complete. The record assumes that it ends now, after `took_ns`. */
static void finish_command(struct gpu_executor *executor, struct gpu_stream *stream, struct gpu_command *command,
                           enum facet_status status, bool began, uint64_t took_ns)
{
    struct facet_launch_record *record = &stream->records[stream->record_count++ % GPU_RECORDS];
    uint64_t now = gpu_monotonic_ns();
    uint64_t start = now - (took_ns < now - command->queued_ns ? took_ns : now - command->queued_ns);

    *record = (struct facet_launch_record){
        .size = sizeof *record,
        .status = status,
        .sequence = command->sequence,
        .queued_ns = command->queued_ns,
        .start_ns = began ? start : 0,
        .end_ns = now,
        .busy_ns = began ? charge_tenant(stream, command, now - start, now) : 0,
        .groups = status == FACET_OK ? groups_of(command) : 0,
        .units = began,
    };
    FACET_KIT_TEXT(record->kernel, kernel_name_of(command));
    stream->state.completed++;
    stream->state.busy_ns += record->busy_ns;
    if (status != FACET_OK && status != FACET_BAD_STATE && !stream->state.failed)
        stream->state.failed = (uint32_t)-status;
    if (command->module)
        command->module->pending--;
    stream->staged_bytes -= command->kind == GPU_WRITE ? command->data_bytes : 0;
    free(command);
    announce_completion(executor);
}

/* Takes the command out of the queue. Commands before the first queued one have begun, or were cancelled. */
static void unqueue_command(struct gpu_stream *stream, struct gpu_command *command)
{
    TAILQ_REMOVE(&stream->queued, command, link);
    const struct gpu_command *first = TAILQ_FIRST(&stream->queued);
    stream->state.begun = first ? first->sequence - 1 : stream->last_sequence;
}

static void cancel_command(struct gpu_executor *executor, struct gpu_stream *stream, struct gpu_command *command)
{
    unqueue_command(stream, command);
    finish_command(executor, stream, command, FACET_BAD_STATE, false, 0);
    pthread_cond_signal(&executor->work); /* another stream may wait for this command */
}

void gpu_stream_cancel(struct gpu_executor *executor, struct gpu_stream *stream)
{
    struct gpu_command *command;

    while ((command = TAILQ_FIRST(&stream->queued)))
        cancel_command(executor, stream, command);
}

static struct gpu_command *find_command(struct gpu_commands *commands, uint64_t sequence)
{
    struct gpu_command *command;

    TAILQ_FOREACH (command, commands, link) {
        if (command->sequence == sequence)
            return command;
    }
    return NULL;
}

enum facet_status gpu_stream_cancel_one(struct gpu_executor *executor, struct gpu_stream *stream, uint64_t sequence)
{
    struct gpu_command *command = find_command(&stream->queued, sequence);

    if (command)
        cancel_command(executor, stream, command);
    return command || stream->submitting_sequence == sequence || find_command(&stream->submitted, sequence)
               ? FACET_OK
               : FACET_NOT_FOUND;
}

/* --- submission, by the thread alone, without the lock --- */

static enum facet_status submit_work(struct gpu_machine *machine, const struct gpu_stream *on,
                                     struct gpu_command *command)
{
    const struct gpu_driver *driver = machine->driver;
    gpu_stream_handle stream = on->handle;

    if (command->kind == GPU_CALL)
        return command->run(machine, on->context->device, stream, command->data);
    if (command->kind == GPU_LAUNCH)
        return driver->launch(machine, command->kernel, &command->launch, command->data, command->data_bytes, stream);
    if (command->bytes == 0)
        return FACET_OK;
    if (command->kind == GPU_WRITE)
        return driver->enqueue_write(machine, command->to, command->data, command->bytes, stream);
    if (command->kind == GPU_COPY)
        return driver->enqueue_copy(machine, command->to, command->from, command->bytes, stream);
    return driver->enqueue_fill(machine, command->to, command->value, command->bytes, stream);
}

static enum facet_status submit_timed(struct gpu_machine *machine, const struct gpu_stream *stream,
                                      struct gpu_command *command)
{
    const struct gpu_driver *driver = machine->driver;
    enum facet_status status = driver->create_event(machine, &command->start);

    if (status == FACET_OK)
        status = driver->create_event(machine, &command->end);
    if (status == FACET_OK)
        status = driver->record(machine, command->start, stream->handle);
    if (status == FACET_OK)
        status = submit_work(machine, stream, command);
    if (status == FACET_OK)
        status = driver->record(machine, command->end, stream->handle);
    return status;
}

static void drop_events(struct gpu_machine *machine, struct gpu_command *command)
{
    if (command->start)
        machine->driver->destroy_event(machine, command->start);
    if (command->end)
        machine->driver->destroy_event(machine, command->end);
}

/* Checks the command's ranges again: memory that was freed since it was queued must not reach the driver. */
static enum facet_status check_again(const struct gpu_machine *machine, struct gpu_context *context,
                                     const struct gpu_command *command)
{
    bool ranges_hold = true;

    for (uint32_t i = 0; i < command->operands.count; i++)
        ranges_hold &=
            gpu_context_holds(machine, context, command->operands.list[i].address, command->operands.list[i].bytes);
    if (command->kind == GPU_LAUNCH || command->kind == GPU_CALL)
        return ranges_hold ? FACET_OK : FACET_OUT_OF_RANGE;
    ranges_hold = gpu_context_holds(machine, context, command->to, command->bytes);
    if (command->kind == GPU_COPY)
        ranges_hold = ranges_hold && gpu_context_holds(machine, context, command->from, command->bytes);
    return ranges_hold ? FACET_OK : FACET_OUT_OF_RANGE;
}

static enum facet_status submit_command(struct gpu_machine *machine, struct gpu_stream *stream,
                                        struct gpu_command *command, bool changes_slice)
{
    struct gpu_context *context = stream->context;

    if (gpu_device_enter(machine, context, NULL) != FACET_OK)
        return FACET_DEVICE_LOST;
    pthread_rwlock_rdlock(&context->lock);
    enum facet_status status = check_again(machine, context, command);
    if (status == FACET_OK && changes_slice)
        status = gpu_stream_move(machine, stream);
    if (status == FACET_OK)
        status = submit_timed(machine, stream, command);
    if (status != FACET_OK)
        drop_events(machine, command);
    pthread_rwlock_unlock(&context->lock);
    machine->driver->leave(machine);
    return status;
}

/* Releases the lock and takes it again. Returns whether there was a command to submit. */
static bool submit_next(struct gpu_machine *machine, struct gpu_stream *stream)
{
    struct gpu_executor *executor = &machine->executor;
    struct gpu_command *command = TAILQ_FIRST(&stream->queued);

    if (!command || !gpu_turns_allow(executor, stream))
        return false;
    unqueue_command(stream, command);
    if (command->kind == GPU_WAIT) {
        finish_command(executor, stream, command, FACET_OK, true, 0);
        return true;
    }
    bool changes_slice = gpu_stream_needs_move(stream);
    stream->submitting_sequence = command->sequence;
    stream->context->tenant.submitted_commands++;
    command->submitted_ns = gpu_monotonic_ns();
    pthread_mutex_unlock(&executor->lock);
    enum facet_status status = submit_command(machine, stream, command, changes_slice);
    pthread_mutex_lock(&executor->lock);
    stream->submitting_sequence = 0;
    if (status == FACET_OK) {
        TAILQ_INSERT_TAIL(&stream->submitted, command, link);
        stream->submitted_count++;
    } else {
        stream->context->tenant.submitted_commands--;
        finish_command(executor, stream, command, status, false, 0);
    }
    return true;
}

/* Releases the lock and takes it again. Returns whether a command was complete. */
static bool finish_next(struct gpu_machine *machine, struct gpu_stream *stream)
{
    struct gpu_executor *executor = &machine->executor;
    struct gpu_command *command = TAILQ_FIRST(&stream->submitted);
    uint64_t took_ns = 0;

    if (!command)
        return false;
    pthread_mutex_unlock(&executor->lock);
    bool entered = gpu_device_enter(machine, stream->context, NULL) == FACET_OK;
    enum facet_status status = machine->driver->elapsed(machine, command->start, command->end, &took_ns);
    if (status != FACET_BUSY)
        drop_events(machine, command);
    if (entered)
        machine->driver->leave(machine);
    pthread_mutex_lock(&executor->lock);
    if (status == FACET_BUSY)
        return false;
    TAILQ_REMOVE(&stream->submitted, command, link);
    stream->submitted_count--;
    stream->context->tenant.submitted_commands--;
    stream->last_ns = took_ns;
    finish_command(executor, stream, command, status, true, took_ns);
    return true;
}

static void forget_awaited(struct gpu_executor *executor, const struct gpu_stream *gone)
{
    struct gpu_stream *stream;
    struct gpu_command *command;

    TAILQ_FOREACH (stream, &executor->streams, link)
        TAILQ_FOREACH (command, &stream->queued, link)
            if (command->awaited == gone)
                command->awaited = NULL;
}

/* Releases the lock and takes it again. Returns whether the stream was destroyed. */
static bool close_dying_stream(struct gpu_machine *machine, struct gpu_stream *stream)
{
    struct gpu_executor *executor = &machine->executor;

    if (!stream->is_destroyed || !gpu_stream_is_idle(stream))
        return false;
    /* The stream stays in the list until the driver has destroyed it: destroying its context waits for that. */
    pthread_mutex_unlock(&executor->lock);
    gpu_stream_close(machine, stream->context->device, stream->handle, stream->slice);
    pthread_mutex_lock(&executor->lock);
    TAILQ_REMOVE(&executor->streams, stream, link);
    forget_awaited(executor, stream);
    free(stream->records);
    free(stream);
    announce_completion(executor);
    return true;
}

/* --- the thread --- */

/* One pass over every stream. Only this thread frees streams, so `next` stays valid. */
static bool serve_streams(struct gpu_machine *machine, bool *ret_waiting)
{
    struct gpu_stream *stream, *next;
    bool progressed = false;

    *ret_waiting = false;
    gpu_turns_decide(&machine->executor);
    for (stream = TAILQ_FIRST(&machine->executor.streams); stream; stream = next) {
        while (finish_next(machine, stream))
            progressed = true;
        progressed |= submit_next(machine, stream);
        *ret_waiting |= !TAILQ_EMPTY(&stream->submitted);
        next = TAILQ_NEXT(stream, link);
        progressed |= close_dying_stream(machine, stream);
    }
    return progressed;
}

static void *run_executor(void *closure)
{
    struct gpu_machine *machine = closure;
    struct gpu_executor *executor = &machine->executor;
    bool waiting;

    pthread_mutex_lock(&executor->lock);
    while (!executor->stopping || !TAILQ_EMPTY(&executor->streams)) {
        if (serve_streams(machine, &waiting))
            continue;
        uint64_t again_ns = gpu_turns_again_ns(executor), soon = gpu_monotonic_ns() + POLL_NS;
        wait_until(&executor->work, &executor->lock, waiting && soon < again_ns ? soon : again_ns);
    }
    pthread_mutex_unlock(&executor->lock);
    return NULL;
}

void gpu_executor_init(struct gpu_executor *executor)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&executor->lock, NULL);
    pthread_cond_init(&executor->work, &monotonic);
    pthread_cond_init(&executor->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    TAILQ_INIT(&executor->streams);
    TAILQ_INIT(&executor->tenants);
    LIST_INIT(&executor->turns);
}

enum facet_status gpu_executor_start(struct gpu_machine *machine, struct facet_error *error)
{
    struct gpu_executor *executor = &machine->executor;
    sigset_t all, before;

    if (executor->running)
        return FACET_OK;
    /* The host program handles signals. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = pthread_create(&executor->thread, NULL, run_executor, machine);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result != 0)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no thread for the streams: %s", strerror(result));
    executor->running = true;
    return FACET_OK;
}

/* --- ends --- */

/* With the lock: destroys the streams of a context (NULL: all), and waits until the driver has finished with them. */
static bool end_streams(struct gpu_executor *executor, const struct gpu_context *context)
{
    uint64_t deadline = gpu_deadline_ns(GPU_DRAIN_NS);

    for (;;) {
        struct gpu_stream *stream;
        bool any_left = false;

        TAILQ_FOREACH (stream, &executor->streams, link) {
            if (context && stream->context != context)
                continue;
            any_left = true;
            gpu_stream_cancel(executor, stream);
            stream->is_destroyed = true;
        }
        pthread_cond_signal(&executor->work);
        if (!any_left || !gpu_executor_wait(executor, deadline))
            return !any_left;
    }
}

/* With the lock: removes a context's modules from the list. */
static struct gpu_module *take_modules(struct gpu_executor *executor, const struct gpu_context *context)
{
    struct gpu_module **place = &executor->modules, *module, *removed = NULL;

    while ((module = *place)) {
        if (module->context != context) {
            place = &module->next;
            continue;
        }
        *place = module->next;
        module->next = removed;
        removed = module;
    }
    return removed;
}

static void free_modules(struct gpu_machine *machine, struct gpu_module *modules)
{
    while (modules) {
        struct gpu_module *module = modules;

        modules = module->next;
        machine->driver->unload(machine, module->handle, NULL);
        free(module);
    }
}

bool gpu_tenant_pause(struct gpu_executor *executor, struct gpu_tenant *tenant, bool paused)
{
    uint64_t deadline = gpu_deadline_ns(GPU_DRAIN_NS);

    tenant->paused = paused;
    pthread_cond_signal(&executor->work);
    while (tenant->paused && tenant->submitted_commands && gpu_executor_wait(executor, deadline))
        ;
    return !tenant->paused || !tenant->submitted_commands;
}

enum facet_status gpu_executor_drain(struct gpu_machine *machine, const struct gpu_context *context,
                                     struct facet_error *error)
{
    struct gpu_executor *executor = &machine->executor;
    uint64_t deadline = gpu_deadline_ns(GPU_DRAIN_NS);
    bool idle, in_time = true;

    pthread_mutex_lock(&executor->lock);
    do {
        struct gpu_stream *stream;

        idle = true;
        TAILQ_FOREACH (stream, &executor->streams, link)
            idle &= stream->context != context || gpu_stream_is_idle(stream);
        in_time = idle || gpu_executor_wait(executor, deadline);
    } while (!idle && in_time);
    pthread_mutex_unlock(&executor->lock);
    return idle ? FACET_OK : facet_kit_fail(error, FACET_TIMEOUT, "the context's queued work did not end within 5 s");
}

enum facet_status gpu_executor_check_idle(struct gpu_machine *machine, const struct gpu_context *context,
                                          struct facet_error *error)
{
    struct gpu_executor *executor = &machine->executor;
    const struct gpu_stream *stream;
    bool idle = true;

    pthread_mutex_lock(&executor->lock);
    TAILQ_FOREACH (stream, &executor->streams, link)
        idle &= stream->context != context || gpu_stream_is_idle(stream);
    pthread_mutex_unlock(&executor->lock);
    return idle ? FACET_OK : facet_kit_fail(error, FACET_BUSY, "the context's queued work is not complete");
}

bool gpu_executor_forget(struct gpu_machine *machine, const struct gpu_context *context)
{
    struct gpu_executor *executor = &machine->executor;

    pthread_mutex_lock(&executor->lock);
    bool ended = end_streams(executor, context);
    struct gpu_module *modules = ended ? take_modules(executor, context) : NULL;
    pthread_mutex_unlock(&executor->lock);
    if (!ended)
        return false;
    bool entered = gpu_device_enter(machine, context, NULL) == FACET_OK;
    free_modules(machine, modules);
    if (entered)
        machine->driver->leave(machine);
    return true;
}

bool gpu_executor_close(struct gpu_machine *machine)
{
    struct gpu_executor *executor = &machine->executor;

    pthread_mutex_lock(&executor->lock);
    executor->stopping = true;
    bool ended = end_streams(executor, NULL);
    bool running = executor->running;
    pthread_mutex_unlock(&executor->lock);
    if (!ended)
        return false;
    if (running)
        pthread_join(executor->thread, NULL);
    pthread_mutex_destroy(&executor->lock);
    pthread_cond_destroy(&executor->work);
    pthread_cond_destroy(&executor->done);
    return true;
}
