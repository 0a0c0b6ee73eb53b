/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: streams and the one kernel of the base device. Never: does work before a caller waits for it. */
#include <time.h>

#include "base.h"

enum { POLL_NS = 500000 };

static struct base_stream *find_stream(struct facet_provider_instance *instance, uint64_t context, uint64_t number,
                                       bool module)
{
    for (int i = 0; number && i < BASE_STREAMS; i++) {
        struct base_stream *one = &instance->streams[i];
        if (one->number == number && one->context == context && one->module == module)
            return one;
    }
    return NULL;
}

struct base_stream *base_find_stream(struct facet_provider_instance *instance, uint64_t context, uint64_t number)
{
    return find_stream(instance, context, number, false);
}

enum facet_status base_require_stream(struct facet_provider_instance *instance, uint64_t context, uint64_t number,
                                      struct base_stream **ret_stream, struct facet_error *error)
{
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);

    if (status != FACET_OK)
        return status;
    struct base_stream *stream = find_stream(instance, context, number, false);
    if (!stream)
        return facet_kit_fail(error, FACET_NOT_FOUND, "stream %" PRIu64 ": expected a stream that exists", number);
    *ret_stream = stream;
    return FACET_OK;
}

static enum facet_status make_stream(struct facet_provider_instance *instance, uint64_t context, bool module,
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
    return facet_kit_fail(error, FACET_NO_SPACE, "a limit of %d streams and modules is reached: destroy one first",
                          BASE_STREAMS);
}

static enum facet_status base_load(struct facet_provider_instance *instance, uint64_t context, const void *image,
                                   uint64_t bytes, uint64_t *ret_module, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);

    if (status != FACET_OK)
        return status;
    if (!image || !ret_module)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "image, ret_module: expected both, not NULL");
    if (bytes != strlen(BASE_IMAGE) || memcmp(image, BASE_IMAGE, bytes) != 0)
        return facet_kit_fail(error, FACET_CORRUPT, "expected the image '%s'", BASE_IMAGE);
    return make_stream(instance, context, true, ret_module, error);
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
    enum facet_status status = base_require_context(instance, context, &owner, error);

    if (status != FACET_OK)
        return status;
    struct base_stream *one = find_stream(instance, context, module, true);
    if (!one)
        return facet_kit_fail(error, FACET_NOT_FOUND, "module %" PRIu64 ": expected a module that exists", module);
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
    enum facet_status status = base_require_context(instance, context, &one, error);

    return status == FACET_OK ? make_stream(instance, context, false, ret_stream, error) : status;
}

static enum facet_status base_destroy_stream(struct facet_provider_instance *instance, uint64_t context,
                                             uint64_t stream, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = base_require_stream(instance, context, stream, &one, error);

    if (status == FACET_OK)
        *one = (struct base_stream){0};
    return status;
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
    enum facet_status status = base_require_stream(instance, context, stream, &one, error);
    uint64_t values[3]; /* address, count, value */

    if (status == FACET_OK && !launch)
        status = facet_kit_fail(error, FACET_INVALID_ARGUMENT, "launch: expected one, not NULL");
    if (status == FACET_OK && launch->size < offsetof(struct facet_launch, offset))
        status = facet_kit_fail(error, FACET_INVALID_ARGUMENT, "launch: size %" PRIu32 ": expected %zu", launch->size,
                                offsetof(struct facet_launch, offset));
    if (status == FACET_OK && !find_stream(instance, context, launch->module, true))
        status =
            facet_kit_fail(error, FACET_NOT_FOUND, "module %" PRIu64 ": expected a module that exists", launch->module);
    if (status == FACET_OK)
        status = check_launch(launch, arguments, error);
    if (status != FACET_OK)
        return status;
    memcpy(values, arguments, sizeof values);
    return base_enqueue(
        instance, one,
        &(const struct base_queued_work){.kind = BASE_LAUNCH,
                                         .module = launch->module,
                                         .address = values[0],
                                         .count = values[1],
                                         .value = values[2],
                                         .groups = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2]},
        error);
}

/* All work that is not paused is done at once. For paused work the function polls, and releases the lock meanwhile. */
static enum facet_status base_synchronize(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                          uint64_t timeout_ns, struct facet_error *error)
{
    uint64_t began_ns = base_now_ns();

    for (;;) {
        {
            BASE_LOCK(instance);
            struct base_stream *one = NULL;
            enum facet_status status = base_require_stream(instance, context, stream, &one, error);

            if (status == FACET_OK)
                base_run(instance);
            if (status != FACET_OK || one->queued == 0)
                return status;
        }
        if (base_now_ns() - began_ns >= timeout_ns)
            return facet_kit_fail(error, FACET_TIMEOUT, "stream %" PRIu64 ": not all is complete", stream);
        nanosleep(&(const struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
}

/* Work that is still queued has not begun; all work before it has. */
static enum facet_status base_query(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                    struct facet_stream_state *ret_state, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = base_require_stream(instance, context, stream, &one, error);

    if (status != FACET_OK)
        return status;
    one->state.begun = one->queued > 0 ? one->queue[0].sequence - 1 : one->state.launched;
    return facet_kit_struct(&one->state, sizeof one->state, ret_state, error);
}

static enum facet_status base_cancel(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                     struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = base_require_stream(instance, context, stream, &one, error);

    while (status == FACET_OK && one->queued > 0)
        base_finish(one, 0, FACET_BAD_STATE, 0);
    return status;
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
    .set_bounds = base_set_bounds,
    .pause = base_pause,
    .wait = base_wait,
    .cancel_launch = base_cancel_launch,
    .set_policy = base_set_policy,
};
