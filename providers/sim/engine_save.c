/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: writing contexts as a snapshot's bytes. Never: changes a context, or writes blocks of zeros. */
#include <stdlib.h>
#include <unistd.h>

#include "engine_saved.h"

/* Keeps the first failure; later calls have no effect. */
struct writer {
    int fd;
    enum facet_status status;
    struct facet_error *error;
    size_t used;
    unsigned char buffer[SIM_CHUNK_BYTES];
};

static void flush_buffer(struct writer *writer)
{
    const unsigned char *next = writer->buffer;

    while (writer->used > 0 && writer->status == FACET_OK) {
        ssize_t done = write(writer->fd, next, writer->used);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            writer->status =
                facet_kit_fail(writer->error, errno == ENOSPC || errno == EDQUOT ? FACET_NO_SPACE : FACET_IO,
                               "the snapshot cannot be written: %s", strerror(errno));
            return;
        }
        next += done;
        writer->used -= (size_t)done;
    }
}

static void put_bytes(struct writer *writer, const void *data, uint64_t bytes)
{
    for (const unsigned char *next = data; bytes > 0 && writer->status == FACET_OK;) {
        size_t part = sizeof writer->buffer - writer->used;
        size_t length = bytes < part ? (size_t)bytes : part;

        memcpy(writer->buffer + writer->used, next, length);
        writer->used += length;
        next += length;
        bytes -= length;
        if (writer->used == sizeof writer->buffer)
            flush_buffer(writer);
    }
}

static bool is_zero(const unsigned char *data, uint64_t bytes)
{
    return bytes == 0 || (data[0] == 0 && memcmp(data, data + 1, bytes - 1) == 0);
}

/* Writes one stretch of the store that may hold data, block by block. */
static void put_stretch(struct writer *writer, const struct sim_pages *pages, struct sim_range stretch)
{
    unsigned char block[SIM_STORE_BLOCK];
    uint64_t end = stretch.at + stretch.bytes, first = pages->extent->range.at;

    for (uint64_t at = stretch.at; at < end && writer->status == FACET_OK; at += sizeof block) {
        struct saved_extent extent = {.offset = at - first};

        extent.bytes = pages->bytes - extent.offset < sizeof block ? pages->bytes - extent.offset : sizeof block;
        writer->status = sim_store_read(pages->object.context->space.store, at, block, extent.bytes, writer->error);
        if (writer->status != FACET_OK || is_zero(block, extent.bytes))
            continue;
        put_bytes(writer, &extent, sizeof extent);
        put_bytes(writer, block, extent.bytes);
    }
}

static void put_pages(struct writer *writer, const struct sim_pages *pages)
{
    const struct saved_pages saved = {pages->object.number, pages->bytes, pages->destroyed};
    const struct saved_extent none = {0, 0};
    struct sim_range unsaved = {pages->extent->range.at, pages->bytes}, stretch;
    uint64_t end = unsaved.at + unsaved.bytes;

    put_bytes(writer, &saved, sizeof saved);
    while (writer->status == FACET_OK && sim_store_data(pages->object.context->space.store, unsaved, &stretch)) {
        put_stretch(writer, pages, stretch);
        unsaved.at = stretch.at + stretch.bytes;
        unsaved.bytes = end - unsaved.at;
    }
    put_bytes(writer, &none, sizeof none);
}

static void put_module(struct writer *writer, const struct sim_module *module)
{
    const struct saved_module saved = {module->object.number, module->bytes};

    put_bytes(writer, &saved, sizeof saved);
    put_bytes(writer, module->text, module->bytes);
}

static void put_stream(struct writer *writer, const struct sim_stream *stream)
{
    struct saved_stream saved = {
        .number = stream->object.number,
        .failed = stream->failed,
        .launched = stream->launched,
        .completed = stream->completed,
        .busy_ns = stream->busy_ns,
        .queued = stream->launched - stream->completed,
    };
    const struct sim_launch *launch;

    put_bytes(writer, &saved, sizeof saved);
    TAILQ_FOREACH (launch, &stream->queue, queued) {
        const struct saved_launch saved_launch = {launch->remaining, launch->elapsed_ns, launch->request};

        put_bytes(writer, &saved_launch, sizeof saved_launch);
        put_bytes(writer, launch->arguments, launch->request.argument_bytes);
    }
}

/* Writes the objects of one kind; returns their number. A NULL writer only counts. */
static uint64_t put_objects(struct writer *writer, const struct sim_context *context, enum sim_kind kind)
{
    const struct sim_object *object;
    uint64_t count = 0;

    TAILQ_FOREACH (object, &context->objects, link) {
        if (object->kind != kind)
            continue;
        count++;
        if (!writer)
            continue;
        if (kind == SIM_KIND_PAGES)
            put_pages(writer, (const struct sim_pages *)object);
        else if (kind == SIM_KIND_MODULE)
            put_module(writer, (const struct sim_module *)object);
        else
            put_stream(writer, (const struct sim_stream *)object);
    }
    return count;
}

static void put_space(struct writer *writer, const struct sim_space *space)
{
    for (size_t i = 0; i < space->reservations.count; i++) {
        const struct sim_reservation *reservation = space->reservations.entries[i].value;
        const struct saved_reservation saved = {reservation->range.at, reservation->range.bytes, reservation->plain};

        put_bytes(writer, &saved, sizeof saved);
    }
    for (size_t i = 0; i < space->mappings.count; i++) {
        const struct sim_mapping *mapping = space->mappings.entries[i].value;
        const struct saved_mapping saved = {mapping->range.at, mapping->range.bytes, mapping->pages->object.number,
                                            mapping->offset};

        put_bytes(writer, &saved, sizeof saved);
    }
}

static void put_context(struct writer *writer, const struct facet_provider_instance *instance,
                        const struct sim_context *context)
{
    const struct facet_device_info *info = sim_device_info(instance, context->device);
    struct saved_context saved = {
        .number = context->object.number,
        .device_memory_bytes = info->memory_bytes,
        .device_units = info->compute_units,
        .page_bytes = context->space.page_bytes,
        .device = context->device,
        .pages = put_objects(NULL, context, SIM_KIND_PAGES),
        .modules = put_objects(NULL, context, SIM_KIND_MODULE),
        .streams = put_objects(NULL, context, SIM_KIND_STREAM),
        .reservations = context->space.reservations.count,
        .mappings = context->space.mappings.count,
    };

    FACET_KIT_TEXT(saved.worker, context->account->worker);
    FACET_KIT_TEXT(saved.partition_uuid, context->account->partition_uuid);
    FACET_KIT_TEXT(saved.device_name, info->name);
    put_bytes(writer, &saved, sizeof saved);
    put_objects(writer, context, SIM_KIND_PAGES);
    put_objects(writer, context, SIM_KIND_MODULE);
    put_objects(writer, context, SIM_KIND_STREAM);
    put_space(writer, &context->space);
}

enum facet_status sim_save(const struct facet_provider_instance *instance, struct sim_context *const *contexts,
                           uint32_t count, const char *scope, int fd, struct facet_error *error)
{
    struct saved_header header = {.magic = SAVED_MAGIC, .version = SAVED_VERSION, .contexts = count};
    const uint64_t end = SAVED_END;
    struct writer *writer = malloc(sizeof *writer);

    if (!writer)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory to write a snapshot");
    *writer = (struct writer){.fd = fd, .error = error};
    FACET_KIT_TEXT(header.scope, scope);
    put_bytes(writer, &header, sizeof header);
    for (uint32_t i = 0; i < count; i++)
        put_context(writer, instance, contexts[i]);
    put_bytes(writer, &end, sizeof end);
    flush_buffer(writer);
    enum facet_status status = writer->status;
    free(writer);
    return status;
}
