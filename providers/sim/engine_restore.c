/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading a snapshot's bytes back into contexts that are in no table yet.
 * Never: trusts a number in those bytes: each number is checked before its use.
 */
#include <stdlib.h>
#include <unistd.h>

#include "engine_saved.h"

struct reader {
    const struct facet_provider_instance *instance;
    uint32_t target; /* device, or SIM_SAME_DEVICE */
    int fd;
    struct sim_table numbers; /* of all objects read so far */
    struct facet_error *error;
};

#define CORRUPT(reader, ...) facet_kit_fail((reader)->error, FACET_CORRUPT, "snapshot: " __VA_ARGS__)

static enum facet_status read_bytes(struct reader *reader, void *ret_data, uint64_t bytes)
{
    for (char *next = ret_data; bytes > 0;) {
        ssize_t done = read(reader->fd, next, bytes < SIM_CHUNK_BYTES ? bytes : SIM_CHUNK_BYTES);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return facet_kit_fail(reader->error, FACET_IO, "the snapshot cannot be read: %s", strerror(errno));
        if (done == 0)
            return CORRUPT(reader, "ends early: expected %" PRIu64 " bytes more", bytes);
        next += done;
        bytes -= (uint64_t)done;
    }
    return FACET_OK;
}

/* Turns the refusal of a called function, which blames its arguments, into FACET_CORRUPT: the bytes are at fault. */
static enum facet_status blame_bytes(struct reader *reader, enum facet_status status)
{
    if (status == FACET_OK || status == FACET_NO_MEMORY || status == FACET_IO)
        return status;
    if (reader->error)
        reader->error->status = FACET_CORRUPT;
    return FACET_CORRUPT;
}

static enum facet_status no_memory(struct reader *reader)
{
    return facet_kit_fail(reader->error, FACET_NO_MEMORY, "no memory to read a snapshot");
}

/* Gives `object` its earlier number, and adds it to the context. On failure the caller still owns it. */
static enum facet_status enter_object(struct reader *reader, struct sim_context *context, struct sim_object *object,
                                      enum sim_kind kind, uint64_t number)
{
    if (number == 0 || number == UINT64_MAX || sim_table_find(&reader->numbers, number))
        return CORRUPT(reader, "number %" PRIu64 ": expected a different one for each object", number);
    if (!sim_table_reserve(&reader->numbers, 1))
        return no_memory(reader);
    sim_table_insert(&reader->numbers, number, object);
    object->kind = kind;
    object->number = number;
    object->context = context;
    if (kind != SIM_KIND_CONTEXT)
        TAILQ_INSERT_TAIL(&context->objects, object, link);
    return FACET_OK;
}

static void *find_object(const struct reader *reader, const struct sim_context *context, enum sim_kind kind,
                         uint64_t number)
{
    struct sim_object *object = sim_table_find(&reader->numbers, number);

    return object && object->kind == kind && object->context == context ? object : NULL;
}

/* --- pages --- */

static enum facet_status get_contents(struct reader *reader, struct sim_pages *pages)
{
    int store = pages->object.context->space.store;
    unsigned char block[SIM_STORE_BLOCK];
    struct saved_extent extent;
    enum facet_status status;

    while ((status = read_bytes(reader, &extent, sizeof extent)) == FACET_OK && extent.bytes > 0) {
        if (extent.bytes > sizeof block || extent.offset > pages->bytes || extent.bytes > pages->bytes - extent.offset)
            return CORRUPT(reader, "contents at %" PRIu64 ", %" PRIu64 " bytes: expected them inside pages %" PRIu64,
                           extent.offset, extent.bytes, pages->object.number);
        status = read_bytes(reader, block, extent.bytes);
        if (status == FACET_OK)
            status =
                sim_store_write(store, pages->extent->range.at + extent.offset, block, extent.bytes, reader->error);
        if (status != FACET_OK)
            break;
    }
    return status;
}

static enum facet_status get_pages(struct reader *reader, struct sim_context *context)
{
    struct saved_pages saved;
    struct sim_pages *pages;

    enum facet_status status = read_bytes(reader, &saved, sizeof saved);
    if (status != FACET_OK)
        return status;
    if (saved.bytes == 0 || saved.bytes > SIM_BYTES_MAX || saved.destroyed > 1)
        return CORRUPT(reader, "pages %" PRIu64 " of %" PRIu64 " bytes: expected 1 to %" PRIu64, saved.number,
                       saved.bytes, SIM_BYTES_MAX);
    status = sim_pages_new(context, saved.bytes, &pages, reader->error);
    if (status != FACET_OK)
        return status;
    pages->destroyed = saved.destroyed;
    status = enter_object(reader, context, &pages->object, SIM_KIND_PAGES, saved.number);
    if (status != FACET_OK) {
        sim_space_free_extent(&context->space, pages->extent);
        free(pages);
        return status;
    }
    return get_contents(reader, pages);
}

/* --- modules and streams --- */

static enum facet_status get_module(struct reader *reader, struct sim_context *context)
{
    struct saved_module saved;
    struct sim_module *module;

    enum facet_status status = read_bytes(reader, &saved, sizeof saved);
    if (status != FACET_OK)
        return status;
    if (saved.bytes == 0 || saved.bytes > SIM_IMAGE_MAX_BYTES)
        return CORRUPT(reader, "module %" PRIu64 " of %" PRIu64 " bytes: expected 1 to %" PRIu64, saved.number,
                       saved.bytes, SIM_IMAGE_MAX_BYTES);
    char *text = malloc(saved.bytes);
    if (!text)
        return no_memory(reader);
    status = read_bytes(reader, text, saved.bytes);
    if (status == FACET_OK)
        status = blame_bytes(reader, sim_module_new(text, saved.bytes, &module, reader->error));
    free(text);
    if (status != FACET_OK)
        return status;
    status = enter_object(reader, context, &module->object, SIM_KIND_MODULE, saved.number);
    if (status != FACET_OK)
        sim_module_free(module);
    return status;
}

static enum facet_status get_launch(struct reader *reader, struct sim_stream *stream)
{
    unsigned char arguments[SIM_ARGUMENTS_MAX];
    struct saved_launch saved;
    struct sim_launch *launch;

    enum facet_status status = read_bytes(reader, &saved, sizeof saved);
    if (status != FACET_OK)
        return status;
    if (saved.request.argument_bytes > sizeof arguments || saved.request.size != sizeof saved.request)
        return CORRUPT(reader, "a launch with %" PRIu32 " argument bytes: expected at most %u",
                       saved.request.argument_bytes, SIM_ARGUMENTS_MAX);
    status = read_bytes(reader, arguments, saved.request.argument_bytes);
    if (status != FACET_OK)
        return status;
    struct sim_module *module = find_object(reader, stream->object.context, SIM_KIND_MODULE, saved.request.module);
    bool not_begun = saved.remaining == SIM_WHOLE_WORK && saved.elapsed_ns == 0;
    if (!module || saved.remaining <= SIM_ROUNDING || saved.remaining > SIM_WHOLE_WORK ||
        (!not_begun && !TAILQ_EMPTY(&stream->queue)))
        return CORRUPT(reader,
                       "a launch of module %" PRIu64 ": expected a module of this context, and only the first launch "
                       "of a stream to have begun",
                       saved.request.module);
    status = sim_launch_new(stream, module, &saved.request, arguments, &launch, reader->error);
    if (status != FACET_OK)
        return blame_bytes(reader, status);
    launch->remaining = saved.remaining;
    launch->elapsed_ns = saved.elapsed_ns;
    sim_launch_queue(launch);
    return FACET_OK;
}

static enum facet_status get_stream(struct reader *reader, struct sim_context *context)
{
    struct saved_stream saved;

    enum facet_status status = read_bytes(reader, &saved, sizeof saved);
    if (status != FACET_OK)
        return status;
    if (saved.completed > saved.launched || saved.launched - saved.completed != saved.queued ||
        saved.failed > INT32_MAX)
        return CORRUPT(reader, "stream %" PRIu64 ": expected as many launches as are not complete", saved.number);
    struct sim_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return no_memory(reader);
    TAILQ_INIT(&stream->queue);
    stream->failed = (uint32_t)saved.failed;
    stream->launched = saved.launched;
    stream->completed = saved.completed;
    stream->busy_ns = saved.busy_ns;
    status = enter_object(reader, context, &stream->object, SIM_KIND_STREAM, saved.number);
    if (status != FACET_OK) {
        free(stream);
        return status;
    }
    for (uint64_t i = 0; i < saved.queued && status == FACET_OK; i++)
        status = get_launch(reader, stream);
    return status;
}

/* --- addresses --- */

static enum facet_status get_reservation(struct reader *reader, struct sim_context *context)
{
    struct saved_reservation saved;
    struct sim_reservation *reservation;

    enum facet_status status = read_bytes(reader, &saved, sizeof saved);
    if (status != FACET_OK)
        return status;
    uint64_t granule = saved.plain ? SIM_PLAIN_ALIGN : context->space.page_bytes;
    if (saved.plain > 1 || saved.address % granule != 0 || (!saved.plain && saved.bytes % granule != 0))
        return CORRUPT(reader, "reservation at %#" PRIx64 ": expected whole pages", saved.address);
    status = sim_space_reserve_at(&context->space, (struct sim_range){saved.address, saved.bytes}, &reservation,
                                  reader->error);
    if (status == FACET_OK)
        reservation->plain = saved.plain;
    return blame_bytes(reader, status);
}

static enum facet_status get_mapping(struct reader *reader, struct sim_context *context)
{
    struct saved_mapping saved;

    enum facet_status status = read_bytes(reader, &saved, sizeof saved);
    if (status != FACET_OK)
        return status;
    const struct sim_range range = {saved.address, saved.bytes};
    const struct sim_reservation *around = sim_space_around(&context->space, saved.address);
    struct sim_pages *pages = find_object(reader, context, SIM_KIND_PAGES, saved.pages);
    uint64_t granule = context->space.page_bytes;
    if (!around || !pages || saved.bytes == 0 ||
        saved.bytes > around->range.bytes - (saved.address - around->range.at) || saved.offset > pages->bytes ||
        saved.bytes > pages->bytes - saved.offset || sim_space_is_mapped(&context->space, range))
        return CORRUPT(reader, "mapping at %#" PRIx64 ": expected pages %" PRIu64 ", mapped once inside a reservation",
                       saved.address, saved.pages);
    if (around->plain ? saved.bytes != around->range.bytes || !pages->destroyed
                      : (saved.address | saved.bytes | saved.offset) % granule != 0)
        return CORRUPT(reader, "mapping at %#" PRIx64 ": expected whole pages", saved.address);
    return sim_space_map(&context->space, range, pages, saved.offset, reader->error);
}

/* Refuses page objects that could never be freed, and plain memory without its pages. */
static enum facet_status check_context_is_consistent(struct reader *reader, const struct sim_context *context)
{
    const struct sim_object *object;

    TAILQ_FOREACH (object, &context->objects, link) {
        const struct sim_pages *pages = (const struct sim_pages *)object;

        if (object->kind == SIM_KIND_PAGES && pages->destroyed && pages->mappings == 0)
            return CORRUPT(reader, "pages %" PRIu64 ": expected a mapping of these destroyed pages", object->number);
    }
    for (size_t i = 0; i < context->space.reservations.count; i++) {
        const struct sim_reservation *reservation = context->space.reservations.entries[i].value;

        if (reservation->plain && !sim_space_is_mapped(&context->space, reservation->range))
            return CORRUPT(reader, "memory at %#" PRIx64 ": expected its pages", reservation->range.at);
    }
    return FACET_OK;
}

/* --- contexts --- */

static bool is_text(const char *text, size_t size)
{
    size_t length = strnlen(text, size);

    for (size_t i = 0; i < length; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return length < size;
}

/* The device must have the same name, memory, units and pages as the saved one. */
static enum facet_status check_identity(struct reader *reader, const struct saved_context *saved)
{
    uint32_t device = reader->target == SIM_SAME_DEVICE ? saved->device : reader->target;

    if (!is_text(saved->worker, sizeof saved->worker) || facet_kit_check_worker(saved->worker, NULL) != FACET_OK ||
        !is_text(saved->partition_uuid, sizeof saved->partition_uuid) ||
        !is_text(saved->device_name, sizeof saved->device_name))
        return CORRUPT(reader, "context %" PRIu64 ": expected printable names of its worker, partition and device",
                       saved->number);
    if (device >= reader->instance->engine->device_count)
        return facet_kit_fail(reader->error, FACET_UNSUPPORTED, "snapshot of device %" PRIu32 ": there are %" PRIu32,
                              device, reader->instance->engine->device_count);
    const struct facet_device_info *info = sim_device_info(reader->instance, device);
    if (strcmp(info->name, saved->device_name) != 0 || info->memory_bytes != saved->device_memory_bytes ||
        info->compute_units != saved->device_units ||
        sim_device_model(reader->instance, device)->page_bytes != saved->page_bytes)
        return facet_kit_fail(reader->error, FACET_UNSUPPORTED,
                              "snapshot of '%.100s' (%" PRIu64 " bytes, %" PRIu32 " units): expected '%.100s' (%" PRIu64
                              " bytes, %" PRIu32 " units)",
                              saved->device_name, saved->device_memory_bytes, saved->device_units, info->name,
                              info->memory_bytes, info->compute_units);
    return FACET_OK;
}

static enum facet_status read_each(struct reader *reader, struct sim_context *context, uint64_t count,
                                   enum facet_status (*read_one)(struct reader *, struct sim_context *))
{
    enum facet_status status = FACET_OK;

    for (uint64_t i = 0; i < count && status == FACET_OK; i++)
        status = read_one(reader, context);
    return status;
}

static enum facet_status get_objects(struct reader *reader, struct sim_context *context,
                                     const struct saved_context *saved)
{
    enum facet_status status = read_each(reader, context, saved->pages, get_pages);

    if (status == FACET_OK)
        status = read_each(reader, context, saved->modules, get_module);
    if (status == FACET_OK)
        status = read_each(reader, context, saved->streams, get_stream);
    if (status == FACET_OK)
        status = read_each(reader, context, saved->reservations, get_reservation);
    if (status == FACET_OK)
        status = read_each(reader, context, saved->mappings, get_mapping);
    return status == FACET_OK ? check_context_is_consistent(reader, context) : status;
}

/* The context is in the list as soon as it exists, so that a failure frees it with the others. */
static enum facet_status get_context(struct reader *reader, struct sim_contexts *contexts)
{
    struct saved_context saved;
    struct sim_context *context;

    enum facet_status status = read_bytes(reader, &saved, sizeof saved);
    if (status == FACET_OK)
        status = check_identity(reader, &saved);
    if (status == FACET_OK)
        status = sim_context_new(saved.page_bytes, &context, reader->error);
    if (status != FACET_OK)
        return status;
    TAILQ_INSERT_TAIL(contexts, context, link);
    context->device = reader->target == SIM_SAME_DEVICE ? saved.device : reader->target;
    context->account = calloc(1, sizeof *context->account);
    if (!context->account)
        return no_memory(reader);
    context->account->device = context->device;
    FACET_KIT_TEXT(context->account->worker, saved.worker);
    FACET_KIT_TEXT(context->account->partition_uuid, saved.partition_uuid);
    status = enter_object(reader, context, &context->object, SIM_KIND_CONTEXT, saved.number);
    return status == FACET_OK ? get_objects(reader, context, &saved) : status;
}

static enum facet_status get_contexts(struct reader *reader, char ret_scope[FACET_WORKER_SIZE],
                                      struct sim_contexts *contexts)
{
    struct saved_header header;
    uint64_t end;

    enum facet_status status = read_bytes(reader, &header, sizeof header);
    if (status != FACET_OK)
        return status;
    if (memcmp(header.magic, SAVED_MAGIC, sizeof header.magic) != 0 || header.contexts == 0 ||
        !is_text(header.scope, sizeof header.scope))
        return CORRUPT(reader, "expected bytes that begin with " SAVED_MAGIC);
    if (header.version != SAVED_VERSION)
        return facet_kit_fail(reader->error, FACET_UNSUPPORTED, "snapshot of version %" PRIu32 ": expected %u",
                              header.version, SAVED_VERSION);
    for (uint32_t i = 0; i < header.contexts && status == FACET_OK; i++)
        status = get_context(reader, contexts);
    if (status == FACET_OK)
        status = read_bytes(reader, &end, sizeof end);
    if (status == FACET_OK && end != SAVED_END)
        return CORRUPT(reader, "expected its end after the last context");
    if (status == FACET_OK)
        memcpy(ret_scope, header.scope, sizeof header.scope);
    return status;
}

void sim_contexts_free(struct sim_contexts *contexts)
{
    struct sim_context *context;

    while ((context = TAILQ_FIRST(contexts))) {
        TAILQ_REMOVE(contexts, context, link);
        sim_context_free(context);
    }
}

enum facet_status sim_restore(const struct facet_provider_instance *instance, uint32_t target, int fd,
                              char ret_scope[FACET_WORKER_SIZE], struct sim_contexts *ret_contexts,
                              struct facet_error *error)
{
    struct reader reader = {.instance = instance, .target = target, .fd = fd, .error = error};
    struct sim_contexts contexts = TAILQ_HEAD_INITIALIZER(contexts);

    enum facet_status status = get_contexts(&reader, ret_scope, &contexts);
    sim_table_clear(&reader.numbers);
    if (status == FACET_OK)
        TAILQ_CONCAT(ret_contexts, &contexts, link);
    else
        sim_contexts_free(&contexts);
    return status;
}
