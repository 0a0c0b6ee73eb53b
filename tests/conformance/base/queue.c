/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: transfers in the order of a stream, shares, and records of the base device. Never: delays a transfer that could
 * run at once. */
#include <stdlib.h>
#include <time.h>

#include "base.h"

uint64_t base_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void base_append_record(struct base_stream *stream, const struct facet_launch_record *record)
{
    struct facet_launch_record *place = &stream->records[stream->recorded++ % BASE_RECORDS];

    *place = *record;
    place->size = sizeof *place;
}

/* Appends a transfer to the stream. It is done at once if no work before it has to wait. */
static enum facet_status queue_transfer(struct facet_provider_instance *instance, struct base_stream *stream,
                                        const struct base_queued_work *work, struct facet_error *error)
{
    enum facet_status status = base_check_memory(instance, stream->context, work->address, work->count, error);

    if (status == FACET_OK && work->kind == BASE_COPY)
        status = base_check_memory(instance, stream->context, work->value, work->count, error);
    if (status == FACET_OK)
        status = base_enqueue(instance, stream, work, error);
    if (status == FACET_OK)
        base_run(instance);
    return status;
}

/* The queue entry has the bytes to be written, so a write may be only BASE_WRITE bytes long. */
enum facet_status base_queue_write(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                   uint64_t address, const void *data, uint64_t bytes, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    struct base_queued_work work = {.kind = BASE_QUEUED_WRITE, .address = address, .count = bytes};
    enum facet_status status = base_require_stream(instance, context, stream, &one, error);

    if (status != FACET_OK)
        return status;
    if (!data)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "data: expected bytes, not NULL");
    if (bytes > sizeof work.data)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%" PRIu64 " bytes: expected at most %zu", bytes,
                              sizeof work.data);
    memcpy(&work.data, data, bytes);
    return queue_transfer(instance, one, &work, error);
}

enum facet_status base_queue_copy(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                  uint64_t to, uint64_t from, uint64_t bytes, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    const struct base_queued_work work = {.kind = BASE_COPY, .address = to, .value = from, .count = bytes};
    enum facet_status status = base_require_stream(instance, context, stream, &one, error);

    return status == FACET_OK ? queue_transfer(instance, one, &work, error) : status;
}

enum facet_status base_queue_fill(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                  uint64_t address, uint8_t value, uint64_t bytes, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    const struct base_queued_work work = {.kind = BASE_FILL, .address = address, .value = value, .count = bytes};
    enum facet_status status = base_require_stream(instance, context, stream, &one, error);

    return status == FACET_OK ? queue_transfer(instance, one, &work, error) : status;
}

/* Shares are checked and ignored: this device runs one launch after the other. */
enum facet_status base_set_share(struct facet_provider_instance *instance, uint64_t context, uint32_t request_milli,
                                 uint32_t limit_milli, uint32_t priority, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_require_context(instance, context, &one, error);

    if (status != FACET_OK)
        return status;
    if (request_milli > FACET_MILLI_WHOLE || limit_milli == 0 || limit_milli > FACET_MILLI_WHOLE)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "share %" PRIu32 " up to %" PRIu32 ": expected thousandths",
                              request_milli, limit_milli);
    if (priority > FACET_PRIORITY_HIGH)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "priority %" PRIu32 ": expected 0 to 2", priority);
    one->priority = priority;
    return FACET_OK;
}

enum facet_status base_set_priority(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                    uint32_t priority, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = base_require_stream(instance, context, stream, &one, error);

    if (status == FACET_OK && priority > FACET_PRIORITY_HIGH)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "priority %" PRIu32 ": expected 0 to 2", priority);
    return status;
}

enum facet_status base_records(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                               uint64_t after, void *items, uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                               struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = base_require_stream(instance, context, stream, &one, error);
    uint32_t count = 0;

    if (status != FACET_OK)
        return status;
    uint64_t oldest = one->recorded > BASE_RECORDS ? one->recorded - BASE_RECORDS : 0;
    struct facet_launch_record *all = calloc(BASE_RECORDS, sizeof *all);
    if (!all)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %d records", BASE_RECORDS);
    for (uint64_t i = oldest; i < one->recorded; i++)
        if (one->records[i % BASE_RECORDS].sequence > after)
            all[count++] = one->records[i % BASE_RECORDS];
    status = facet_kit_list_items(all, sizeof *all, count, items, item_size, capacity, ret_count, error);
    free(all);
    return status;
}
