/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: streams' queues, the thread that hands commands on, and records.
 * Never: holds the lock while the driver is called.
 */
#include "executor.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "cuda.h"

#define POLL_NS UINT64_C(50000) /* between looks at what the driver has */

uint64_t cuda_monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t cuda_deadline_ns(uint64_t timeout_ns)
{
    uint64_t now = cuda_monotonic_ns();

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

bool cuda_executor_wait(struct cuda_executor *executor, uint64_t deadline_ns)
{
    return cuda_monotonic_ns() < deadline_ns &&
           (wait_until(&executor->done, &executor->lock, deadline_ns) || cuda_monotonic_ns() < deadline_ns);
}

static void say_done(struct cuda_executor *executor)
{
    executor->changes++;
    pthread_cond_broadcast(&executor->done);
}

/* --- streams, with the lock --- */

struct cuda_stream *cuda_stream_find(const struct cuda_executor *executor, const struct cuda_context *context,
                                     uint64_t number)
{
    struct cuda_stream *stream;

    TAILQ_FOREACH (stream, &executor->streams, link) {
        if (stream->number == number && stream->context == context && !stream->dying)
            return stream;
    }
    return NULL;
}

bool cuda_stream_is_idle(const struct cuda_stream *stream)
{
    return TAILQ_EMPTY(&stream->queued) && TAILQ_EMPTY(&stream->handed) && !stream->handing;
}

void cuda_stream_queue(struct cuda_executor *executor, struct cuda_stream *stream, struct cuda_command *command)
{
    command->sequence = ++stream->last_sequence;
    command->queued_ns = cuda_monotonic_ns();
    stream->state.launched++;
    stream->staged_bytes += command->kind == CUDA_WRITE ? command->data_bytes : 0;
    TAILQ_INSERT_TAIL(&stream->queued, command, link);
    pthread_cond_signal(&executor->work);
}

static const char *name_of(const struct cuda_command *command)
{
    return command->kind == CUDA_LAUNCH ? command->launch.kernel : "";
}

static uint64_t groups_of(const struct cuda_command *command)
{
    const uint32_t *grid = command->launch.grid;

    return command->kind == CUDA_LAUNCH ? (uint64_t)grid[0] * grid[1] * grid[2] : 0;
}

/* A command is over: counted, recorded, freed. `busy_ns` ends now, as the device's clock is no clock of this machine.
 */
static void finish(struct cuda_executor *executor, struct cuda_stream *stream, struct cuda_command *command,
                   enum facet_status status, bool began, uint64_t busy_ns)
{
    struct facet_launch_record *record = &stream->records[stream->record_count++ % CUDA_RECORDS];
    uint64_t now = cuda_monotonic_ns();
    uint64_t start = now - (busy_ns < now - command->queued_ns ? busy_ns : now - command->queued_ns);

    *record = (struct facet_launch_record){
        .size = sizeof *record,
        .status = status,
        .sequence = command->sequence,
        .queued_ns = command->queued_ns,
        .start_ns = began ? start : 0,
        .end_ns = now,
        .busy_ns = began ? now - start : 0,
        .groups = status == FACET_OK ? groups_of(command) : 0,
        .units = began,
    };
    FACET_KIT_TEXT(record->kernel, name_of(command));
    stream->state.completed++;
    stream->state.busy_ns += record->busy_ns;
    if (status != FACET_OK && status != FACET_BAD_STATE && !stream->state.failed)
        stream->state.failed = (uint32_t)-status;
    if (command->module)
        command->module->pending--;
    stream->staged_bytes -= command->kind == CUDA_WRITE ? command->data_bytes : 0;
    free(command);
    say_done(executor);
}

void cuda_stream_cancel(struct cuda_executor *executor, struct cuda_stream *stream)
{
    struct cuda_command *command;

    while ((command = TAILQ_FIRST(&stream->queued))) {
        TAILQ_REMOVE(&stream->queued, command, link);
        finish(executor, stream, command, FACET_BAD_STATE, false, 0);
    }
    stream->state.begun = stream->last_sequence;
}

/* --- handing on, by the thread alone, without the lock --- */

static CUresult hand_launch(const struct cuda_driver *driver, CUstream stream, struct cuda_command *command)
{
    const struct facet_launch *launch = &command->launch;
    size_t bytes = command->data_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, command->data, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};

    return driver->cuLaunchKernel(command->function, launch->grid[0], launch->grid[1], launch->grid[2],
                                  launch->group[0], launch->group[1], launch->group[2], launch->local_bytes, stream,
                                  NULL, extra);
}

static CUresult hand_work(const struct cuda_driver *driver, CUstream stream, struct cuda_command *command)
{
    if (command->kind == CUDA_LAUNCH)
        return hand_launch(driver, stream, command);
    if (command->bytes == 0)
        return CUDA_SUCCESS;
    if (command->kind == CUDA_WRITE)
        return driver->cuMemcpyHtoDAsync_v2(command->to, command->data, command->bytes, stream);
    if (command->kind == CUDA_COPY)
        return driver->cuMemcpyDtoDAsync_v2(command->to, command->from, command->bytes, stream);
    return driver->cuMemsetD8Async(command->to, command->value, command->bytes, stream);
}

static CUresult hand_timed(const struct cuda_driver *driver, CUstream stream, struct cuda_command *command)
{
    CUresult result = driver->cuEventCreate(&command->start, CU_EVENT_DEFAULT);

    if (result == CUDA_SUCCESS)
        result = driver->cuEventCreate(&command->end, CU_EVENT_DEFAULT);
    if (result == CUDA_SUCCESS)
        result = driver->cuEventRecord(command->start, stream);
    if (result == CUDA_SUCCESS)
        result = hand_work(driver, stream, command);
    if (result == CUDA_SUCCESS)
        result = driver->cuEventRecord(command->end, stream);
    return result;
}

static void drop_events(const struct cuda_driver *driver, struct cuda_command *command)
{
    if (command->start)
        driver->cuEventDestroy_v2(command->start);
    if (command->end)
        driver->cuEventDestroy_v2(command->end);
}

/* Memory that was freed since the command was queued must not reach the driver. */
static enum facet_status check_again(const struct facet_provider_instance *instance, struct cuda_context *context,
                                     const struct cuda_command *command)
{
    if (command->kind == CUDA_LAUNCH)
        return FACET_OK;
    bool good = cuda_context_holds(instance, context, command->to, command->bytes);
    if (command->kind == CUDA_COPY)
        good = good && cuda_context_holds(instance, context, command->from, command->bytes);
    return good ? FACET_OK : FACET_OUT_OF_RANGE;
}

static enum facet_status hand(struct facet_provider_instance *instance, struct cuda_stream *stream,
                              struct cuda_command *command)
{
    const struct cuda_driver *driver = &instance->driver;
    struct cuda_context *context = stream->context;
    CUcontext ours;

    if (driver->cuCtxPushCurrent_v2(instance->devices[context->device].primary) != CUDA_SUCCESS)
        return FACET_DEVICE_LOST;
    pthread_rwlock_rdlock(&context->lock);
    enum facet_status status = check_again(instance, context, command);
    if (status == FACET_OK) {
        CUresult result = hand_timed(driver, stream->handle, command);
        status = result == CUDA_SUCCESS ? FACET_OK : cuda_driver_fail(driver, NULL, "", result);
    }
    if (status != FACET_OK)
        drop_events(driver, command);
    pthread_rwlock_unlock(&context->lock);
    driver->cuCtxPopCurrent_v2(&ours);
    return status;
}

/* Takes the lock off and on. Whether there was something to hand on. */
static bool hand_next(struct facet_provider_instance *instance, struct cuda_stream *stream)
{
    struct cuda_executor *executor = &instance->executor;
    struct cuda_command *command = TAILQ_FIRST(&stream->queued);

    if (!command || stream->handed_count >= CUDA_IN_DRIVER)
        return false;
    TAILQ_REMOVE(&stream->queued, command, link);
    stream->handing = true;
    stream->state.begun = command->sequence;
    pthread_mutex_unlock(&executor->lock);
    enum facet_status status = hand(instance, stream, command);
    pthread_mutex_lock(&executor->lock);
    stream->handing = false;
    if (status == FACET_OK) {
        TAILQ_INSERT_TAIL(&stream->handed, command, link);
        stream->handed_count++;
    } else {
        finish(executor, stream, command, status, false, 0);
    }
    return true;
}

/* What the events say of a command that the driver has: FACET_TRY_AGAIN while it is under way. */
static enum facet_status look(const struct cuda_driver *driver, const struct cuda_command *command,
                              uint64_t *ret_busy_ns)
{
    float milliseconds = 0;
    CUresult result = driver->cuEventQuery(command->end);

    if (result == CUDA_ERROR_NOT_READY)
        return FACET_BUSY;
    if (result == CUDA_SUCCESS)
        result = driver->cuEventElapsedTime(&milliseconds, command->start, command->end);
    if (result != CUDA_SUCCESS)
        return cuda_driver_fail(driver, NULL, "", result);
    *ret_busy_ns = milliseconds > 0 ? (uint64_t)llroundf(milliseconds * 1e6F) : 0;
    return FACET_OK;
}

/* The same. */
static bool reap_next(struct facet_provider_instance *instance, struct cuda_stream *stream)
{
    struct cuda_executor *executor = &instance->executor;
    struct cuda_command *command = TAILQ_FIRST(&stream->handed);
    uint64_t busy_ns = 0;
    CUcontext ours;

    if (!command)
        return false;
    pthread_mutex_unlock(&executor->lock);
    bool current =
        instance->driver.cuCtxPushCurrent_v2(instance->devices[stream->context->device].primary) == CUDA_SUCCESS;
    enum facet_status status = look(&instance->driver, command, &busy_ns);
    if (status != FACET_BUSY)
        drop_events(&instance->driver, command);
    if (current)
        instance->driver.cuCtxPopCurrent_v2(&ours);
    pthread_mutex_lock(&executor->lock);
    if (status == FACET_BUSY)
        return false;
    TAILQ_REMOVE(&stream->handed, command, link);
    stream->handed_count--;
    finish(executor, stream, command, status, true, busy_ns);
    return true;
}

/* The same. */
static bool bury(struct facet_provider_instance *instance, struct cuda_stream *stream)
{
    struct cuda_executor *executor = &instance->executor;

    if (!stream->dying || !cuda_stream_is_idle(stream))
        return false;
    TAILQ_REMOVE(&executor->streams, stream, link);
    pthread_mutex_unlock(&executor->lock);
    instance->driver.cuStreamDestroy_v2(stream->handle);
    free(stream->records);
    free(stream);
    pthread_mutex_lock(&executor->lock);
    say_done(executor);
    return true;
}

/* --- the thread --- */

/* One look at every stream. Streams are freed by this thread alone, so the next one stays where it is. */
static bool turn(struct facet_provider_instance *instance, bool *ret_waiting)
{
    struct cuda_stream *stream, *next;
    bool moved = false;

    *ret_waiting = false;
    for (stream = TAILQ_FIRST(&instance->executor.streams); stream; stream = next) {
        while (reap_next(instance, stream))
            moved = true;
        moved |= hand_next(instance, stream);
        *ret_waiting |= !TAILQ_EMPTY(&stream->handed);
        next = TAILQ_NEXT(stream, link);
        moved |= bury(instance, stream);
    }
    return moved;
}

static void *run(void *closure)
{
    struct facet_provider_instance *instance = closure;
    struct cuda_executor *executor = &instance->executor;
    bool waiting;

    pthread_mutex_lock(&executor->lock);
    while (!executor->stopping || !TAILQ_EMPTY(&executor->streams)) {
        if (turn(instance, &waiting))
            continue;
        wait_until(&executor->work, &executor->lock, waiting ? cuda_monotonic_ns() + POLL_NS : UINT64_MAX);
    }
    pthread_mutex_unlock(&executor->lock);
    return NULL;
}

void cuda_executor_init(struct cuda_executor *executor)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&executor->lock, NULL);
    pthread_cond_init(&executor->work, &monotonic);
    pthread_cond_init(&executor->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    TAILQ_INIT(&executor->streams);
}

enum facet_status cuda_executor_start(struct facet_provider_instance *instance, struct facet_error *error)
{
    struct cuda_executor *executor = &instance->executor;
    sigset_t all, before;

    if (executor->running)
        return FACET_OK;
    /* Signals are the host program's. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = pthread_create(&executor->thread, NULL, run, instance);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result != 0)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no thread for the streams: %s", strerror(result));
    executor->running = true;
    return FACET_OK;
}

/* --- ends --- */

/* With the lock: destroys the streams of a context (NULL: all), and waits until the driver is done with them. */
static bool end_streams(struct cuda_executor *executor, const struct cuda_context *context)
{
    uint64_t deadline = cuda_deadline_ns(CUDA_DRAIN_NS);

    for (;;) {
        struct cuda_stream *stream;
        bool left = false;

        TAILQ_FOREACH (stream, &executor->streams, link) {
            if (context && stream->context != context)
                continue;
            left = true;
            cuda_stream_cancel(executor, stream);
            stream->dying = true;
        }
        pthread_cond_signal(&executor->work);
        if (!left || !cuda_executor_wait(executor, deadline))
            return !left;
    }
}

/* With the lock: takes a context's modules out of the list. */
static struct cuda_module *take_modules(struct cuda_executor *executor, const struct cuda_context *context)
{
    struct cuda_module **place = &executor->modules, *module, *taken = NULL;

    while ((module = *place)) {
        if (module->context != context) {
            place = &module->next;
            continue;
        }
        *place = module->next;
        module->next = taken;
        taken = module;
    }
    return taken;
}

static void free_modules(struct facet_provider_instance *instance, struct cuda_module *modules)
{
    while (modules) {
        struct cuda_module *module = modules;

        modules = module->next;
        instance->driver.cuModuleUnload(module->handle);
        free(module);
    }
}

enum facet_status cuda_executor_drain(struct facet_provider_instance *instance, const struct cuda_context *context,
                                      struct facet_error *error)
{
    struct cuda_executor *executor = &instance->executor;
    uint64_t deadline = cuda_deadline_ns(CUDA_DRAIN_NS);
    bool idle, in_time = true;

    pthread_mutex_lock(&executor->lock);
    do {
        struct cuda_stream *stream;

        idle = true;
        TAILQ_FOREACH (stream, &executor->streams, link)
            idle &= stream->context != context || cuda_stream_is_idle(stream);
        in_time = idle || cuda_executor_wait(executor, deadline);
    } while (!idle && in_time);
    pthread_mutex_unlock(&executor->lock);
    return idle ? FACET_OK : facet_kit_fail(error, FACET_TIMEOUT, "what the context has queued does not end");
}

bool cuda_executor_forget(struct facet_provider_instance *instance, const struct cuda_context *context)
{
    struct cuda_executor *executor = &instance->executor;

    pthread_mutex_lock(&executor->lock);
    bool ended = end_streams(executor, context);
    struct cuda_module *modules = ended ? take_modules(executor, context) : NULL;
    pthread_mutex_unlock(&executor->lock);
    if (!ended)
        return false;
    CUcontext ours;
    bool current = instance->driver.cuCtxPushCurrent_v2(instance->devices[context->device].primary) == CUDA_SUCCESS;
    free_modules(instance, modules);
    if (current)
        instance->driver.cuCtxPopCurrent_v2(&ours);
    return true;
}

bool cuda_executor_close(struct facet_provider_instance *instance)
{
    struct cuda_executor *executor = &instance->executor;

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
