/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: streams, the one kernel, snapshots of the base device. Never: has work under way when a call returns. */
#include <stdlib.h>
#include <unistd.h>

#include "base.h"

static enum facet_status no_context(uint64_t context, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NOT_FOUND, "context %" PRIu64 ": there is none", context);
}

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

static enum facet_status need_stream(struct facet_provider_instance *instance, uint64_t context, uint64_t number,
                                     struct base_stream **ret_stream, struct facet_error *error)
{
    if (!base_find_context(instance, context))
        return no_context(context, error);
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
    if (!base_find_context(instance, context))
        return no_context(context, error);
    if (!image || !ret_module)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "image, ret_module: expected both, not NULL");
    if (bytes != strlen(BASE_IMAGE) || memcmp(image, BASE_IMAGE, bytes) != 0)
        return facet_kit_fail(error, FACET_CORRUPT, "expected the image '%s'", BASE_IMAGE);
    return make(instance, context, true, ret_module, error);
}

static enum facet_status base_unload(struct facet_provider_instance *instance, uint64_t context, uint64_t module,
                                     struct facet_error *error)
{
    BASE_LOCK(instance);
    if (!base_find_context(instance, context))
        return no_context(context, error);
    struct base_stream *one = find(instance, context, module, true);
    if (!one)
        return facet_kit_fail(error, FACET_NOT_FOUND, "module %" PRIu64 ": there is none", module);
    *one = (struct base_stream){0};
    return FACET_OK;
}

static enum facet_status base_create_stream(struct facet_provider_instance *instance, uint64_t context,
                                            uint64_t *ret_stream, struct facet_error *error)
{
    BASE_LOCK(instance);
    if (!base_find_context(instance, context))
        return no_context(context, error);
    return make(instance, context, false, ret_stream, error);
}

static enum facet_status base_destroy_stream(struct facet_provider_instance *instance, uint64_t context,
                                             uint64_t stream, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = need_stream(instance, context, stream, &one, error);

    if (status == FACET_OK)
        *one = (struct base_stream){0};
    return status;
}

static enum facet_status check_launch(const struct facet_launch *launch, const void *arguments,
                                      struct facet_error *error)
{
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
    enum facet_status status = need_stream(instance, context, stream, &one, error);
    uint64_t values[3]; /* address, count, value */

    if (status == FACET_OK && !launch)
        status = facet_kit_fail(error, FACET_INVALID_ARGUMENT, "launch: expected one, not NULL");
    if (status == FACET_OK && !find(instance, context, launch->module, true))
        status = facet_kit_fail(error, FACET_NOT_FOUND, "module %" PRIu64 ": there is none", launch->module);
    if (status == FACET_OK)
        status = check_launch(launch, arguments, error);
    if (status != FACET_OK)
        return status;
    memcpy(values, arguments, sizeof values);
    for (uint64_t i = 0; status == FACET_OK && i < values[1]; i++)
        status =
            base_move(instance, context, values[0] + i * sizeof values[2], NULL, &values[2], sizeof values[2], error);
    one->state.launched++;
    one->state.completed++;
    one->state.busy_ns += values[1] + 1;
    one->state.failed = status == FACET_OK ? one->state.failed : (uint32_t)-status;
    return FACET_OK;
}

static enum facet_status base_synchronize(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                          uint64_t timeout_ns, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;

    return need_stream(instance, context, stream, &one, error);
}

static enum facet_status base_query(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                    struct facet_stream_state *ret_state, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = need_stream(instance, context, stream, &one, error);

    return status == FACET_OK ? facet_kit_struct(&one->state, sizeof one->state, ret_state, error) : status;
}

static enum facet_status base_cancel(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                     struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;

    return need_stream(instance, context, stream, &one, error);
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
};

/* What a snapshot begins with; each of the pages follows as number, size and content. */
struct saved_header {
    char magic[8];
    uint64_t size; /* of everything */
    uint64_t count;
};

static bool is_of(struct facet_provider_instance *instance, const struct base_pages *pages, const char *worker)
{
    const struct base_context *context = base_find_context(instance, pages->context);

    return pages->number && context && (!worker || strcmp(context->worker, worker) == 0);
}

/* Whether the worker has a context, and whether it is away. */
static enum facet_status look_for(const struct facet_provider_instance *instance, const char *worker, bool *ret_away,
                                  struct facet_error *error)
{
    for (int i = 0; i < BASE_CONTEXTS; i++) {
        const struct base_context *context = &instance->contexts[i];
        if (!context->number || (worker && strcmp(context->worker, worker) != 0))
            continue;
        *ret_away = context->away;
        return FACET_OK;
    }
    return facet_kit_fail(error, FACET_NOT_FOUND, "worker '%.63s' has nothing on the device", worker ? worker : "");
}

static unsigned char *pack(struct facet_provider_instance *instance, const char *worker, size_t *ret_size)
{
    struct saved_header header = {.magic = "base 1", .size = sizeof header};

    for (int i = 0; i < BASE_PAGES; i++)
        if (is_of(instance, &instance->pages[i], worker)) {
            header.size += 2 * sizeof(uint64_t) + instance->pages[i].bytes;
            header.count++;
        }
    unsigned char *bytes = malloc(header.size), *at = bytes;
    if (!bytes)
        return NULL;
    memcpy(at, &header, sizeof header);
    at += sizeof header;
    for (int i = 0; i < BASE_PAGES; i++) {
        const struct base_pages *pages = &instance->pages[i];
        if (!is_of(instance, pages, worker))
            continue;
        memcpy(at, &pages->number, sizeof pages->number);
        memcpy(at + 8, &pages->bytes, sizeof pages->bytes);
        memcpy(at + 16, pages->data, pages->bytes);
        at += 16 + pages->bytes;
    }
    *ret_size = header.size;
    return bytes;
}

static void set_away(struct facet_provider_instance *instance, const char *worker, bool away)
{
    for (int i = 0; i < BASE_CONTEXTS; i++)
        if (instance->contexts[i].number && (!worker || strcmp(instance->contexts[i].worker, worker) == 0))
            instance->contexts[i].away = away;
}

static bool write_all(int fd, const unsigned char *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t count = write(fd, bytes + at, size - at);
        if (count <= 0)
            return false;
        at += (size_t)count;
    }
    return true;
}

static enum facet_status keep(struct facet_provider_instance *instance, const char *worker, int fd,
                              unsigned char *bytes, size_t size, struct facet_error *error)
{
    if (fd >= 0) {
        bool written = write_all(fd, bytes, size);
        free(bytes);
        return written ? FACET_OK : facet_kit_fail(error, FACET_IO, "descriptor %d cannot be written", fd);
    }
    free(instance->saved.bytes);
    instance->saved = (struct base_saved){.bytes = bytes, .size = size};
    FACET_KIT_TEXT(instance->saved.worker, worker ? worker : "");
    return FACET_OK;
}

static enum facet_status base_save(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                   int fd, struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, 1, error);
    BASE_LOCK(instance);
    bool away = false;
    size_t size = 0;

    if (status == FACET_OK)
        status = look_for(instance, worker, &away, error);
    if (status == FACET_OK && away)
        status = facet_kit_fail(error, FACET_BAD_STATE, "worker '%.63s' is off the device", worker ? worker : "");
    if (status != FACET_OK)
        return status;
    unsigned char *bytes = pack(instance, worker, &size);
    if (!bytes)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a snapshot");
    status = keep(instance, worker, fd, bytes, size, error);
    if (status != FACET_OK)
        return status;
    for (int i = 0; i < BASE_PAGES; i++)
        if (is_of(instance, &instance->pages[i], worker)) {
            free(instance->pages[i].data);
            instance->pages[i].data = NULL;
        }
    set_away(instance, worker, true);
    return FACET_OK;
}

/* All bytes up to the end of `fd`, or those that are kept here; to free(). */
static unsigned char *fetch(struct facet_provider_instance *instance, int fd, size_t *ret_size)
{
    size_t room = fd < 0 ? instance->saved.size : BASE_MEMORY + (1 << 16), size = 0;
    unsigned char *bytes = malloc(room + 1);

    if (bytes && fd < 0) {
        memcpy(bytes, instance->saved.bytes, room);
        size = room;
    }
    while (bytes && fd >= 0 && size < room) {
        ssize_t count = read(fd, bytes + size, room - size);
        if (count <= 0)
            break;
        size += (size_t)count;
    }
    *ret_size = size;
    return bytes;
}

static void unpack(struct facet_provider_instance *instance, const unsigned char *at, uint64_t count)
{
    for (uint64_t left = count; left > 0; left--) {
        uint64_t number, bytes;

        memcpy(&number, at, sizeof number);
        memcpy(&bytes, at + 8, sizeof bytes);
        for (int i = 0; i < BASE_PAGES; i++)
            if (instance->pages[i].number == number && !instance->pages[i].data) {
                instance->pages[i].data = malloc(bytes);
                if (instance->pages[i].data)
                    memcpy(instance->pages[i].data, at + 16, bytes);
            }
        at += 16 + bytes;
    }
}

static enum facet_status base_resume(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                     int fd, struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, 1, error);
    struct saved_header header;
    bool away = false;
    size_t size = 0;

    if (status != FACET_OK)
        return status;
    BASE_LOCK(instance);
    if (fd < 0 && !instance->saved.bytes)
        return facet_kit_fail(error, FACET_NOT_FOUND, "nothing is kept here");
    unsigned char *bytes = fetch(instance, fd, &size);
    if (!bytes)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a snapshot");
    if (size >= sizeof header)
        memcpy(&header, bytes, sizeof header);
    if (size < sizeof header || strcmp(header.magic, "base 1") != 0 || header.size != size)
        status = facet_kit_fail(error, FACET_CORRUPT, "expected a snapshot of this provider");
    if (status == FACET_OK)
        status = look_for(instance, worker, &away, error);
    if (status == FACET_OK && !away)
        status = facet_kit_fail(error, FACET_BUSY, "worker '%.63s' is on the device", worker ? worker : "");
    if (status == FACET_OK) {
        unpack(instance, bytes + sizeof header, header.count);
        set_away(instance, worker, false);
    }
    free(bytes);
    return status;
}

/* No process but those that ask has anything here, and nothing is kept for one. */
static enum facet_status base_processes(struct facet_provider_instance *instance, const int32_t *pids, uint32_t count,
                                        struct facet_error *error)
{
    if (!pids || count == 0)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "pids: expected some");
    return facet_kit_fail(error, FACET_NOT_FOUND, "process %" PRId32 " has nothing on a device", pids[0]);
}

const struct facet_snapshot_ops base_snapshot = {
    .size = sizeof base_snapshot,
    .snapshot = base_save,
    .resume = base_resume,
    .snapshot_processes = base_processes,
    .resume_processes = base_processes,
};
