/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table `execution`: modules, streams, launches, waiting. Never: decides how long a kernel takes. */
#include <stdlib.h>
#include <time.h>

#include "engine.h"

static uint64_t real_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Lets time pass until a change or the real time `deadline_ns`; false: the deadline has passed. */
static bool wait_for_change(struct facet_provider_instance *instance, uint64_t deadline_ns)
{
    uint64_t now = real_now_ns();

    return now < deadline_ns && sim_clock_wait(instance, sim_engine_next(instance), deadline_ns - now);
}

static uint64_t deadline_of(uint64_t timeout_ns)
{
    uint64_t now = real_now_ns();

    return timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
}

/* --- modules --- */

void sim_module_free(struct sim_module *module)
{
    sim_image_clear(&module->image);
    free(module->text);
    free(module);
}

enum facet_status sim_module_new(const void *image, uint64_t bytes, struct sim_module **ret_module,
                                 struct facet_error *error)
{
    struct sim_module *module = calloc(1, sizeof *module);
    enum facet_status status;

    if (!module)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a module");
    status = sim_image_parse(image, bytes, &module->image, error);
    if (status == FACET_OK) {
        module->text = malloc(bytes);
        module->bytes = bytes;
        if (!module->text)
            status = facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an image of %" PRIu64 " bytes", bytes);
    }
    if (status != FACET_OK) {
        sim_module_free(module);
        return status;
    }
    memcpy(module->text, image, bytes);
    *ret_module = module;
    return FACET_OK;
}

static enum facet_status execution_load(struct facet_provider_instance *instance, uint64_t number, const void *image,
                                        uint64_t bytes, uint64_t *ret_module, struct facet_error *error)
{
    struct sim_context *context = NULL;
    struct sim_module *module = NULL;

    SIM_REQUIRE(instance, error);
    SIM_REQUIRE(image, error);
    SIM_REQUIRE(ret_module, error);
    SIM_LOCK(instance);
    enum facet_status status = sim_context_find(instance, "execution.load", number, &context, error);
    if (status == FACET_OK)
        status = sim_module_new(image, bytes, &module, error);
    if (status != FACET_OK)
        return status;
    status = sim_object_enter(instance, context, &module->object, SIM_KIND_MODULE, error);
    if (status == FACET_OK)
        *ret_module = module->object.number;
    else
        sim_module_free(module);
    return status;
}

static enum facet_status find_module(const struct facet_provider_instance *instance, const struct sim_context *context,
                                     uint64_t number, struct sim_module **ret_module, struct facet_error *error)
{
    struct sim_module *module = sim_object_find(instance, context, SIM_KIND_MODULE, number);

    if (!module)
        return facet_kit_fail(error, FACET_NOT_FOUND, "module %" PRIu64 ": expected one of this context", number);
    *ret_module = module;
    return FACET_OK;
}

static enum facet_status execution_unload(struct facet_provider_instance *instance, uint64_t number,
                                          uint64_t module_number, struct facet_error *error)
{
    struct sim_context *context = NULL;
    struct sim_module *module = NULL;

    SIM_REQUIRE(instance, error);
    SIM_LOCK(instance);
    enum facet_status status = sim_context_find(instance, "execution.unload", number, &context, error);
    if (status == FACET_OK)
        status = find_module(instance, context, module_number, &module, error);
    if (status != FACET_OK)
        return status;
    if (module->pending > 0)
        return facet_kit_fail(error, FACET_BUSY, "module %" PRIu64 ": expected none of its launches to be under way",
                              module_number);
    sim_object_drop(instance, &module->object);
    return FACET_OK;
}

/* --- streams --- */

static enum facet_status find_stream(struct facet_provider_instance *instance, const char *operation, uint64_t number,
                                     uint64_t stream_number, struct sim_stream **ret_stream, struct facet_error *error)
{
    struct sim_context *context = NULL;

    enum facet_status status = sim_context_find(instance, operation, number, &context, error);
    if (status != FACET_OK)
        return status;
    struct sim_stream *stream = sim_object_find(instance, context, SIM_KIND_STREAM, stream_number);
    if (!stream)
        return facet_kit_fail(error, FACET_NOT_FOUND, "stream %" PRIu64 ": expected one of this context",
                              stream_number);
    *ret_stream = stream;
    return FACET_OK;
}

static enum facet_status execution_create_stream(struct facet_provider_instance *instance, uint64_t number,
                                                 uint64_t *ret_stream, struct facet_error *error)
{
    struct sim_context *context = NULL;

    SIM_REQUIRE(instance, error);
    SIM_REQUIRE(ret_stream, error);
    SIM_LOCK(instance);
    enum facet_status status = sim_context_find(instance, "execution.create_stream", number, &context, error);
    if (status != FACET_OK)
        return status;
    struct sim_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a stream");
    TAILQ_INIT(&stream->queue);
    status = sim_object_enter(instance, context, &stream->object, SIM_KIND_STREAM, error);
    if (status == FACET_OK)
        *ret_stream = stream->object.number;
    else
        free(stream);
    return status;
}

static enum facet_status execution_destroy_stream(struct facet_provider_instance *instance, uint64_t number,
                                                  uint64_t stream_number, struct facet_error *error)
{
    struct sim_stream *stream = NULL;

    SIM_REQUIRE(instance, error);
    SIM_LOCK(instance);
    enum facet_status status = find_stream(instance, "execution.destroy_stream", number, stream_number, &stream, error);
    if (status != FACET_OK)
        return status;
    sim_stream_clear(instance, stream, FACET_OK);
    sim_object_drop(instance, &stream->object);
    sim_clock_changed(instance);
    return FACET_OK;
}

static enum facet_status execution_cancel(struct facet_provider_instance *instance, uint64_t number,
                                          uint64_t stream_number, struct facet_error *error)
{
    struct sim_stream *stream = NULL;

    SIM_REQUIRE(instance, error);
    SIM_LOCK(instance);
    enum facet_status status = find_stream(instance, "execution.cancel", number, stream_number, &stream, error);
    if (status != FACET_OK)
        return status;
    sim_stream_clear(instance, stream, FACET_OK);
    sim_clock_changed(instance);
    return FACET_OK;
}

static enum facet_status execution_query(struct facet_provider_instance *instance, uint64_t number,
                                         uint64_t stream_number, struct facet_stream_state *ret_state,
                                         struct facet_error *error)
{
    struct sim_stream *stream = NULL;

    SIM_REQUIRE(instance, error);
    SIM_REQUIRE(ret_state, error);
    SIM_LOCK(instance);
    enum facet_status status = find_stream(instance, "execution.query", number, stream_number, &stream, error);
    if (status != FACET_OK)
        return status;
    const struct sim_launch *head = TAILQ_FIRST(&stream->queue);
    const struct facet_stream_state state = {
        .size = sizeof state,
        .failed = stream->failed,
        .launched = stream->launched,
        .completed = stream->completed,
        .busy_ns = stream->busy_ns,
        .begun = stream->completed + (head && head->begun),
    };
    return facet_kit_struct(&state, sizeof state, ret_state, error);
}

/* The stream is looked up again after each wait: another thread may destroy it while the lock is released. */
static enum facet_status wait_for_launches(struct facet_provider_instance *instance, uint64_t number,
                                           uint64_t stream_number, uint64_t deadline_ns, struct facet_error *error)
{
    struct sim_stream *stream = NULL;

    enum facet_status status = find_stream(instance, NULL, number, stream_number, &stream, error);
    if (status != FACET_OK)
        return status;
    for (uint64_t launched = stream->launched; stream->completed < launched;) {
        bool in_time = wait_for_change(instance, deadline_ns);

        status = find_stream(instance, NULL, number, stream_number, &stream, error);
        if (status != FACET_OK)
            return status;
        if (!in_time && stream->completed < launched)
            return facet_kit_fail(error, FACET_TIMEOUT,
                                  "stream %" PRIu64 ": %" PRIu64 " of %" PRIu64 " launches are complete", stream_number,
                                  stream->completed, launched);
    }
    return FACET_OK;
}

static enum facet_status execution_synchronize(struct facet_provider_instance *instance, uint64_t number,
                                               uint64_t stream_number, uint64_t timeout_ns, struct facet_error *error)
{
    SIM_REQUIRE(instance, error);
    SIM_LOCK(instance);
    return wait_for_launches(instance, number, stream_number, deadline_of(timeout_ns), error);
}

/* The number of a stream of the context that has work; 0: none. */
static uint64_t busy_stream(const struct sim_context *context)
{
    struct sim_object *object;

    TAILQ_FOREACH (object, &context->objects, link)
        if (object->kind == SIM_KIND_STREAM && !TAILQ_EMPTY(&((struct sim_stream *)object)->queue))
            return object->number;
    return 0;
}

enum facet_status sim_context_drain(struct facet_provider_instance *instance, uint64_t number, uint64_t timeout_ns,
                                    struct facet_error *error)
{
    uint64_t deadline_ns = deadline_of(timeout_ns);
    struct sim_context *context = NULL;
    enum facet_status status;
    uint64_t stream;

    while ((status = sim_context_find(instance, NULL, number, &context, error)) == FACET_OK &&
           (stream = busy_stream(context)) != 0) {
        status = wait_for_launches(instance, number, stream, deadline_ns, error);
        if (status != FACET_OK && status != FACET_NOT_FOUND) /* a destroyed stream has nothing queued */
            break;
    }
    return status;
}

/* --- launches --- */

static enum facet_status check_dimensions(const struct facet_launch *launch, uint64_t *ret_groups,
                                          struct facet_error *error)
{
    uint64_t groups = 1, items = 1;

    for (int i = 0; i < 3; i++) {
        if (launch->grid[i] == 0 || launch->grid[i] >= SIM_GRID_MAX || groups > SIM_GROUPS_MAX / launch->grid[i])
            return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                                  "grid[%d] %" PRIu32 ": expected at least 1, below 2^31, and 2^48 groups at most", i,
                                  launch->grid[i]);
        if (launch->group[i] == 0 || items * launch->group[i] > SIM_GROUP_MAX)
            return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                                  "group[%d] %" PRIu32 ": expected at least 1, and %u work-items at most", i,
                                  launch->group[i], SIM_GROUP_MAX);
        groups *= launch->grid[i];
        items *= launch->group[i];
    }
    if (launch->local_bytes > SIM_LOCAL_MAX)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "local_bytes %" PRIu32 ": expected at most %" PRIu32,
                              launch->local_bytes, SIM_LOCAL_MAX);
    *ret_groups = groups;
    return FACET_OK;
}

static enum facet_status check_arguments(const struct sim_kernel *kernel, uint32_t bytes, struct facet_error *error)
{
    if (kernel->effect == SIM_EFFECT_NONE && bytes <= SIM_ARGUMENTS_MAX)
        return FACET_OK;
    if (kernel->effect != SIM_EFFECT_NONE && bytes == SIM_EFFECT_ARGUMENT_BYTES)
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE, "argument_bytes %" PRIu32 ": expected %s%u for kernel %s", bytes,
                          kernel->effect == SIM_EFFECT_NONE ? "at most " : "",
                          kernel->effect == SIM_EFFECT_NONE ? SIM_ARGUMENTS_MAX : SIM_EFFECT_ARGUMENT_BYTES,
                          kernel->name);
}

enum facet_status sim_launch_new(struct sim_stream *stream, struct sim_module *module,
                                 const struct facet_launch *request, const void *arguments,
                                 struct sim_launch **ret_launch, struct facet_error *error)
{
    const struct sim_kernel *kernel = NULL;
    uint64_t groups = 0;

    if (memchr(request->kernel, '\0', sizeof request->kernel))
        kernel = sim_image_find(&module->image, request->kernel);
    if (!kernel)
        return facet_kit_fail(error, FACET_NOT_FOUND, "kernel '%.63s': expected one of module %" PRIu64,
                              request->kernel, request->module);
    enum facet_status status = check_dimensions(request, &groups, error);
    if (status == FACET_OK)
        status = check_arguments(kernel, request->argument_bytes, error);
    if (status != FACET_OK)
        return status;
    struct sim_launch *launch = calloc(1, sizeof *launch + request->argument_bytes);
    if (!launch)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a launch");
    launch->stream = stream;
    launch->module = module;
    launch->kernel = kernel;
    launch->groups = groups;
    launch->remaining = SIM_WHOLE_WORK;
    launch->request = *request;
    if (request->argument_bytes > 0)
        memcpy(launch->arguments, arguments, request->argument_bytes);
    *ret_launch = launch;
    return FACET_OK;
}

void sim_launch_queue(struct sim_launch *launch)
{
    TAILQ_INSERT_TAIL(&launch->stream->queue, launch, queued);
    launch->module->pending++;
}

static enum facet_status execution_launch(struct facet_provider_instance *instance, uint64_t number,
                                          uint64_t stream_number, const struct facet_launch *launch,
                                          const void *arguments, struct facet_error *error)
{
    struct facet_launch request;
    struct sim_stream *stream = NULL;
    struct sim_module *module = NULL;
    struct sim_launch *queued = NULL;

    SIM_REQUIRE(instance, error);
    enum facet_status status = facet_kit_launch(launch, &request, error);
    if (status != FACET_OK)
        return status;
    if (request.argument_bytes > 0)
        SIM_REQUIRE(arguments, error);
    SIM_LOCK(instance);
    status = find_stream(instance, "execution.launch", number, stream_number, &stream, error);
    if (status == FACET_OK)
        status = find_module(instance, stream->object.context, request.module, &module, error);
    if (status == FACET_OK)
        status = sim_context_refresh(instance, stream->object.context, error);
    if (status == FACET_OK)
        status = sim_launch_new(stream, module, &request, arguments, &queued, error);
    if (status != FACET_OK)
        return status;
    sim_launch_queue(queued);
    stream->launched++;
    sim_stream_begin_next(instance, stream);
    return FACET_OK;
}

const struct facet_execution_ops sim_execution_ops = {
    .size = sizeof sim_execution_ops,
    .load = execution_load,
    .unload = execution_unload,
    .create_stream = execution_create_stream,
    .destroy_stream = execution_destroy_stream,
    .launch = execution_launch,
    .synchronize = execution_synchronize,
    .query = execution_query,
    .cancel = execution_cancel,
};
