/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: transfers in the order of a stream, shares, and records of the base device. Never: lets a transfer wait: it
 * does what is queued before it, and then itself. */
#include <stdlib.h>
#include <time.h>

#include "base.h"

uint64_t base_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void base_record(struct base_stream *stream, const struct facet_launch_record *record)
{
    struct facet_launch_record *place = &stream->records[stream->recorded % BASE_RECORDS];

    *place = *record;
    place->size = sizeof *place;
    place->sequence = ++stream->recorded;
}

/* Does what waits in the stream, so that a transfer comes after it. */
static enum facet_status reach(struct facet_provider_instance *instance, uint64_t context, uint64_t number,
                               struct base_stream **ret_stream, struct facet_error *error)
{
    enum facet_status status = base_need_stream(instance, context, number, ret_stream, error);

    if (status == FACET_OK)
        base_run_queue(instance, *ret_stream);
    return status;
}

static enum facet_status finish(struct base_stream *stream, uint64_t began_ns, enum facet_status status)
{
    if (status != FACET_OK)
        return status;
    stream->state.launched++;
    stream->state.completed++;
    base_record(stream, &(const struct facet_launch_record){
                            .queued_ns = began_ns, .start_ns = began_ns, .end_ns = base_now_ns(), .units = 1});
    return FACET_OK;
}

enum facet_status base_queue_write(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                   uint64_t address, const void *data, uint64_t bytes, struct facet_error *error)
{
    BASE_LOCK(instance);
    uint64_t now = base_now_ns();
    struct base_stream *one = NULL;
    enum facet_status status = reach(instance, context, stream, &one, error);

    if (status != FACET_OK)
        return status;
    if (!data)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "data: expected bytes, not NULL");
    return finish(one, now, base_move(instance, context, address, NULL, data, bytes, error));
}

enum facet_status base_queue_copy(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                  uint64_t to, uint64_t from, uint64_t bytes, struct facet_error *error)
{
    BASE_LOCK(instance);
    uint64_t now = base_now_ns();
    struct base_stream *one = NULL;
    enum facet_status status = reach(instance, context, stream, &one, error);

    if (status != FACET_OK)
        return status;
    return finish(one, now, base_through_buffer(instance, context, to, &from, 0, bytes, error));
}

enum facet_status base_queue_fill(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                  uint64_t address, uint8_t value, uint64_t bytes, struct facet_error *error)
{
    BASE_LOCK(instance);
    uint64_t now = base_now_ns();
    struct base_stream *one = NULL;
    enum facet_status status = reach(instance, context, stream, &one, error);

    if (status != FACET_OK)
        return status;
    return finish(one, now, base_through_buffer(instance, context, address, NULL, value, bytes, error));
}

/* There is nobody to share with: this device does one thing after the other. */
enum facet_status base_set_share(struct facet_provider_instance *instance, uint64_t context, uint32_t request_milli,
                                 uint32_t limit_milli, uint32_t priority, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_context *one = NULL;
    enum facet_status status = base_need_context(instance, context, &one, error);

    if (status != FACET_OK)
        return status;
    if (request_milli > FACET_MILLI_WHOLE || limit_milli == 0 || limit_milli > FACET_MILLI_WHOLE)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "share %" PRIu32 " up to %" PRIu32 ": expected thousandths",
                              request_milli, limit_milli);
    if (priority > FACET_PRIORITY_HIGH)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "priority %" PRIu32 ": expected 0 to 2", priority);
    return FACET_OK;
}

enum facet_status base_set_priority(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                    uint32_t priority, struct facet_error *error)
{
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = base_need_stream(instance, context, stream, &one, error);

    if (status == FACET_OK && priority > FACET_PRIORITY_HIGH)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "priority %" PRIu32 ": expected 0 to 2", priority);
    return status;
}

enum facet_status base_records(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                               uint64_t after, void *items, uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                               struct facet_error *error)
{
    static const struct facet_launch_record none[1];
    BASE_LOCK(instance);
    struct base_stream *one = NULL;
    enum facet_status status = base_need_stream(instance, context, stream, &one, error);

    if (status != FACET_OK)
        return status;
    uint64_t oldest = one->recorded > BASE_RECORDS ? one->recorded - BASE_RECORDS : 0;
    uint64_t first = after > oldest ? after : oldest;
    if (first >= one->recorded)
        return facet_kit_list_items(none, sizeof none[0], 0, items, item_size, capacity, ret_count, error);
    uint32_t count = (uint32_t)(one->recorded - first);
    struct facet_launch_record *all = calloc(count, sizeof *all);
    if (!all)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " records", count);
    for (uint32_t i = 0; i < count; i++)
        all[i] = one->records[(first + i) % BASE_RECORDS];
    status = facet_kit_list_items(all, sizeof *all, count, items, item_size, capacity, ret_count, error);
    free(all);
    return status;
}
