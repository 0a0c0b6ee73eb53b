/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: streams and the one kernel of the base device. Never: does work before somebody waits for it. */
#include "base.h"

static struct base_stream *find(struct facet_provider_instance *instance, uint64_t context, uint64_t number,
                                bool module)
{
    for (int i = 0; number && i < BASE_STREAMS; i++) {
        struct base_stream *one = &instance->streams[i];
        if (one->number == number && one->context == context && one->module == module)
            return one;
    }
    return NULL;
}

enum facet_status base_need_stream(struct facet_provider_instance *instance, uint64_t context, uint64_t number,
                                   struct base_stream **ret_stream, struct facet_error *error)
{
    struct base_context *one = NULL;
    enum facet_status status = base_need_context(instance, context, &one, error);

    if (status != FACET_OK)
        return status;
    struct base_stream *stream = find(instance, context, number, false);
    if (!stream)
        return facet_kit_fail(error, FACET_NOT_FOUND, "stream %" PRIu64 ": there is none", number);
    *ret_stream = stream;
    return FACET_OK;
}

static enum facet_status make(struct facet_provider_instance *instance, uint64_t context, bool module,
                              uint64_t *ret_number, struct facet_error *error)
{
    if (!ret_number)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "expected a place for the number, not NULL");
    for (int i = 0; i < BASE_STREAMS; i++) {
        struct base_stream *one = &instance->streams[i];
        if (one->number)
            continue;
        *one = (struct base_stream){.number = ++instance->last_number, .context = context, .module = module};
        *ret_number = one->number;
        return FACET_OK;
    }
    return facet_kit_fail(error, FACET_NO_SPACE, "%d streams and modules", BASE_STREAMS);
}

static enum facet_status base_load(struct facet_provider_instance *instance, uint64_t context, const void *image,
                                   uint64_t bytes, uint64_t *ret_module, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_need_context(instance, context, &one, error);

    if (status != FACET_OK)
        return status;
    if (!image || !ret_module)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "image, ret_module: expected both, not NULL");
    if (bytes != strlen(BASE_IMAGE) || memcmp(image, BASE_IMAGE, bytes) != 0)
        return facet_kit_fail(error, FACET_CORRUPT, "expected the image '%s'", BASE_IMAGE);
    return make(instance, context, true, ret_module, error);
}

static bool is_queued(const struct facet_provider_instance *instance, uint64_t module)
{
    for (int i = 0; i < BASE_STREAMS; i++)
        for (uint32_t j = 0; j < instance->streams[i].queued; j++)
            if (instance->streams[i].queue[j].module == module)
                return true;
    return false;
}

static enum facet_status base_unload(struct facet_provider_instance *instance, uint64_t context, uint64_t module,
                                     struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *owner = NULL;
    enum facet_status status = base_need_context(instance, context, &owner, error);

    if (status != FACET_OK)
        return status;
    struct base_stream *one = find(instance, context, module, true);
    if (!one)
        return facet_kit_fail(error, FACET_NOT_FOUND, "module %" PRIu64 ": there is none", module);
    if (is_queued(instance, module))
        return facet_kit_fail(error, FACET_BUSY, "module %" PRIu64 ": a launch of it waits", module);
    *one = (struct base_stream){0};
    return FACET_OK;
}

static enum facet_status base_create_stream(struct facet_provider_instance *instance, uint64_t context,
                                            uint64_t *ret_stream, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_need_context(instance, context, &one, error);

    return status == FACET_OK ? make(instance, context, false, ret_stream, error) : status;
}

static enum facet_status base_destroy_stream(struct facet_provider_instance *instance, uint64_t context,
                                             uint64_t stream, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = base_need_stream(instance, context, stream, &one, error);

    if (status == FACET_OK)
        *one = (struct base_stream){0};
    return status;
}

static void run_launch(struct facet_provider_instance *instance, struct base_stream *stream,
                       const struct base_launch *launch)
{
    struct facet_launch_record record = {
        .queued_ns = launch->queued_ns, .start_ns = base_now_ns(), .kernel = BASE_KERNEL};
    enum facet_status status = FACET_OK;

    for (uint64_t i = 0; status == FACET_OK && i < launch->count; i++)
        status = base_move(instance, stream->context, launch->address + i * sizeof launch->value, NULL, &launch->value,
                           sizeof launch->value, NULL);
    stream->state.completed++;
    stream->state.busy_ns += launch->count + 1;
    instance->busy_ns += launch->count + 1;
    if (status != FACET_OK && !stream->state.failed)
        stream->state.failed = (uint32_t)-status;
    record.status = status;
    record.end_ns = base_now_ns();
    record.busy_ns = record.longest_ns = launch->count + 1;
    record.groups = launch->groups;
    record.units = 1;
    base_record(stream, &record);
}

void base_run_queue(struct facet_provider_instance *instance, struct base_stream *stream)
{
    for (uint32_t i = 0; i < stream->queued; i++)
        run_launch(instance, stream, &stream->queue[i]);
    stream->queued = 0;
}

void base_run_queues(struct facet_provider_instance *instance, uint64_t context)
{
    for (int i = 0; i < BASE_STREAMS; i++)
        if (instance->streams[i].context == context)
            base_run_queue(instance, &instance->streams[i]);
}

static enum facet_status check_launch(const struct facet_launch *launch, const void *arguments,
                                      struct facet_error *error)
{
    if (launch->dimensions > 3)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "dimensions %" PRIu32 ": expected 0 to 3", launch->dimensions);
    for (int i = 0; i < 3; i++)
        if (launch->grid[i] == 0 || launch->group[i] == 0)
            return facet_kit_fail(error, FACET_OUT_OF_RANGE, "dimension %d is 0", i);
    if (strcmp(launch->kernel, BASE_KERNEL) != 0)
        return facet_kit_fail(error, FACET_NOT_FOUND, "kernel '%.63s': expected " BASE_KERNEL, launch->kernel);
    if (launch->argument_bytes != 24)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "argument_bytes: expected 24");
    if (!arguments)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "arguments: expected bytes, not NULL");
    return FACET_OK;
}

static enum facet_status base_launch(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                     const struct facet_launch *launch, const void *arguments,
                                     struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = base_need_stream(instance, context, stream, &one, error);
    uint64_t values[3]; /* address, count, value */

    if (status == FACET_OK && !launch)
        status = facet_kit_fail(error, FACET_INVALID_ARGUMENT, "launch: expected one, not NULL");
    if (status == FACET_OK && launch->size < offsetof(struct facet_launch, offset))
        status = facet_kit_fail(error, FACET_INVALID_ARGUMENT, "launch: size %" PRIu32 ": expected %zu", launch->size,
                                offsetof(struct facet_launch, offset));
    if (status == FACET_OK && !find(instance, context, launch->module, true))
        status = facet_kit_fail(error, FACET_NOT_FOUND, "module %" PRIu64 ": there is none", launch->module);
    if (status == FACET_OK)
        status = check_launch(launch, arguments, error);
    if (status != FACET_OK)
        return status;
    memcpy(values, arguments, sizeof values);
    if (one->queued == BASE_QUEUE)
        base_run_queue(instance, one);
    one->queue[one->queued++] = (struct base_launch){
        launch->module, values[0],     values[1],
        values[2],      base_now_ns(), (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2]};
    one->state.launched++;
    return FACET_OK;
}

static enum facet_status base_synchronize(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                          uint64_t timeout_ns, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = base_need_stream(instance, context, stream, &one, error);

    if (status == FACET_OK)
        base_run_queue(instance, one);
    return status;
}

static enum facet_status base_query(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                    struct facet_stream_state *ret_state, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = base_need_stream(instance, context, stream, &one, error);

    return status == FACET_OK ? facet_kit_struct(&one->state, sizeof one->state, ret_state, error) : status;
}

static enum facet_status base_cancel(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                     struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = base_need_stream(instance, context, stream, &one, error);

    if (status != FACET_OK)
        return status;
    one->state.completed += one->queued;
    for (uint32_t i = 0; i < one->queued; i++)
        base_record(one, &(const struct facet_launch_record){.status = FACET_BAD_STATE,
                                                             .queued_ns = one->queue[i].queued_ns,
                                                             .end_ns = base_now_ns(),
                                                             .kernel = BASE_KERNEL});
    one->queued = 0;
    return FACET_OK;
}

const struct facet_execution_ops base_execution = {
    .size = sizeof base_execution,
    .load = base_load,
    .unload = base_unload,
    .create_stream = base_create_stream,
    .destroy_stream = base_destroy_stream,
    .launch = base_launch,
    .synchronize = base_synchronize,
    .query = base_query,
    .cancel = base_cancel,
    .write = base_queue_write,
    .copy = base_queue_copy,
    .fill = base_queue_fill,
    .set_share = base_set_share,
    .set_priority = base_set_priority,
    .records = base_records,
};
