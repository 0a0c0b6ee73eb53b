/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: streams: making them when they are first used, their order of launches, and the record of each launch's result.
 * Never: makes up a record: a record that the device has dropped is marked as lost.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "memory/unmap_queue.h"
#include "vgpu/driver.h"
#include "vgpu/pin.h"
#include "vgpu/stream.h"

#define FIRST_ROOM 16u /* records that a stream first has room for */

enum facet_status facet_vgpu_streams_init(struct facet_vgpu *vgpu, uint32_t count, struct facet_error *error)
{
    if (count > vgpu->driver->config.streams)
        return facet_error_argument(error, FACET_QUOTA, "streams",
                                    "streams %" PRIu32 ": expected at most the driver's limit, %" PRIu32, count,
                                    vgpu->driver->config.streams);
    vgpu->stream = calloc(count, sizeof *vgpu->stream);
    if (!vgpu->stream)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " streams", count);
    for (uint32_t i = 0; i < count; i++) {
        pthread_mutex_init(&vgpu->stream[i].lock, NULL);
        vgpu->stream[i].priority = FACET_PRIORITY_NORMAL;
        vgpu->stream[i].state.size = sizeof vgpu->stream[i].state;
    }
    return FACET_OK;
}

void facet_vgpu_streams_free(struct facet_vgpu *vgpu)
{
    for (uint32_t i = 0; vgpu->stream && i < vgpu->streams; i++) {
        pthread_mutex_destroy(&vgpu->stream[i].lock);
        free(vgpu->stream[i].records);
    }
    free(vgpu->stream);
}

void facet_vgpu_streams_cancel(struct facet_vgpu *vgpu)
{
    struct facet_vgpu_device *device = vgpu->device;

    for (uint32_t i = 0; device && vgpu->stream && i < vgpu->streams; i++) {
        struct facet_vgpu_stream *stream = &vgpu->stream[i];

        pthread_mutex_lock(&stream->lock);
        if (stream->number)
            (void)device->provider->execution->cancel(device->instance, vgpu->context, stream->number, NULL);
        pthread_mutex_unlock(&stream->lock);
    }
}

void facet_vgpu_streams_clear(struct facet_vgpu *vgpu)
{
    struct facet_vgpu_device *device = vgpu->device;

    for (uint32_t i = 0; i < vgpu->streams; i++)
        if (vgpu->stream[i].number)
            (void)device->provider->execution->destroy_stream(device->instance, vgpu->context, vgpu->stream[i].number,
                                                              NULL);
}

/* Creates the stream on the device at its first use. With the stream's lock held. */
static enum facet_status make_stream(struct facet_vgpu *vgpu, struct facet_vgpu_stream *stream,
                                     struct facet_error *error)
{
    const struct facet_vgpu_device *device = vgpu->device;
    const struct facet_execution_ops *ops = device->provider->execution;
    uint64_t number = 0;
    enum facet_status status = ops->create_stream(device->instance, vgpu->context, &number, error);

    if (status == FACET_OK && stream->priority != FACET_PRIORITY_NORMAL)
        status = ops->set_priority(device->instance, vgpu->context, number, stream->priority, error);
    if (status == FACET_OK)
        stream->number = number;
    else if (number)
        (void)ops->destroy_stream(device->instance, vgpu->context, number, NULL);
    return status;
}

enum facet_status facet_vgpu_stream_open(struct facet_vgpu *vgpu, uint32_t index, struct facet_vgpu_stream **ret_stream,
                                         struct facet_error *error)
{
    enum facet_status status = facet_vgpu_device_check(vgpu->device, error);

    if (status != FACET_OK)
        return status;
    if (index >= vgpu->streams)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "stream",
                                    "stream %" PRIu32 ": expected 0 to %" PRIu32 ", the streams of vGPU %" PRIu32,
                                    index, vgpu->streams - 1, vgpu->id);
    struct facet_vgpu_stream *stream = &vgpu->stream[index];

    pthread_mutex_lock(&stream->lock);
    if (!stream->number)
        status = make_stream(vgpu, stream, error);
    if (status != FACET_OK)
        pthread_mutex_unlock(&stream->lock);
    else
        *ret_stream = stream;
    return status;
}

uint64_t facet_vgpu_stream_close(struct facet_vgpu_stream *stream, enum facet_status status)
{
    uint64_t sequence = status == FACET_OK ? ++stream->launched : stream->launched;

    pthread_mutex_unlock(&stream->lock);
    return sequence;
}

enum facet_status facet_vgpu_stream_drain(struct facet_vgpu *vgpu, uint64_t execution)
{
    const struct facet_vgpu_device *device = vgpu->device;
    uint64_t number = vgpu->stream[(execution >> FACET_EXECUTION_SHIFT) - 1].number;

    return device->provider->execution->synchronize(device->instance, vgpu->context, number, FACET_FOREVER, NULL);
}

bool facet_vgpu_stream_is_busy(const struct facet_vgpu_stream *stream)
{
    return stream->state.completed < stream->launched;
}

/* ---- records ---- */

/* Makes room for `newest` records, or for FACET_STREAM_RECORDS, the most that are kept. */
static bool make_room(struct facet_vgpu_stream *stream, uint64_t newest)
{
    uint32_t room = stream->capacity ? stream->capacity : FIRST_ROOM;

    while (room < newest && room < FACET_STREAM_RECORDS)
        room *= 2;
    if (room == stream->capacity)
        return true;
    struct facet_launch_record *records = calloc(room, sizeof *records);
    if (!records)
        return false;
    for (uint32_t i = 0; i < stream->capacity; i++)
        records[stream->records[i].sequence % room] = stream->records[i];
    free(stream->records);
    stream->records = records;
    stream->capacity = room;
    return true;
}

static void keep_record(struct facet_vgpu_stream *stream, const struct facet_launch_record *record)
{
    stream->lost_records = stream->lost_records || record->sequence != stream->last_read + 1;
    stream->last_read = record->sequence;
    stream->delay_ns += (record->start_ns ? record->start_ns : record->end_ns) - record->queued_ns;
    stream->cancelled += record->status == FACET_BAD_STATE;
    stream->failed += record->status != FACET_OK && record->status != FACET_BAD_STATE;
    stream->records[record->sequence % stream->capacity] = *record;
}

static enum facet_status read_records(struct facet_vgpu *vgpu, struct facet_vgpu_stream *stream,
                                      struct facet_error *error)
{
    const struct facet_vgpu_device *device = vgpu->device;
    uint64_t missing = stream->state.completed - stream->last_read;
    uint32_t room = missing < UINT32_MAX / sizeof(struct facet_launch_record) ? (uint32_t)missing + 8 : 2048;
    enum facet_status status = FACET_TOO_SMALL;

    for (int tries = 0; tries < 4 && status == FACET_TOO_SMALL; tries++) {
        FACET_CLEANUP_FREE struct facet_launch_record *records = calloc(room, sizeof *records);
        uint32_t count = 0;

        if (!records)
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " records", room);
        status = device->provider->execution->records(device->instance, vgpu->context, stream->number,
                                                      stream->last_read, records, sizeof *records, room, &count, error);
        if (status == FACET_TOO_SMALL)
            room = count + 64;
        if (status != FACET_OK)
            continue;
        if (!make_room(stream, count > 0 ? records[count - 1].sequence : 0)) /* the next call reads them again */
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " records", count);
        for (uint32_t i = 0; i < count; i++)
            keep_record(stream, &records[i]);
    }
    return status;
}

enum facet_status facet_vgpu_stream_drain_records(struct facet_vgpu *vgpu, struct facet_vgpu_stream *stream,
                                                  struct facet_error *error)
{
    const struct facet_vgpu_device *device = vgpu->device;

    if (!stream->number || (stream->last_read == stream->launched && !facet_vgpu_stream_is_busy(stream)))
        return FACET_OK;
    enum facet_status status =
        device->provider->execution->query(device->instance, vgpu->context, stream->number, &stream->state, error);
    if (status != FACET_OK || stream->last_read >= stream->state.completed)
        return status;
    status = read_records(vgpu, stream, error);
    if (status != FACET_UNSUPPORTED)
        return status;
    stream->lost_records = true; /* the device keeps no records */
    stream->last_read = stream->state.completed;
    return FACET_OK;
}

/* ---- queries ---- */

enum facet_status facet_vgpu_query(struct facet_driver *driver, uint32_t id, uint32_t index,
                                   struct facet_stream_info *ret_info, struct facet_error *error)
{
    struct facet_vgpu_stream *stream = NULL;
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;

    FACET_VGPU_NEED_STRUCT(ret_info, error);
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    status = facet_vgpu_stream_open(vgpu, index, &stream, error);
    if (status != FACET_OK)
        return facet_vgpu_note_status(vgpu, status);
    status = facet_vgpu_stream_drain_records(vgpu, stream, error);
    struct facet_stream_info info = {
        .size = sizeof info,
        .priority = stream->priority,
        .idle = !facet_vgpu_stream_is_busy(stream),
        .failure = -(int32_t)stream->state.failed,
        .launched = stream->launched,
        .begun = stream->state.begun,
        .completed = stream->state.completed,
        .busy_ns = stream->state.busy_ns,
    };
    pthread_mutex_unlock(&stream->lock);
    if (status == FACET_OK)
        facet_sized_copy_out(ret_info, &info, sizeof info);
    return facet_vgpu_note_status(vgpu, status);
}

enum facet_status facet_vgpu_wait(struct facet_driver *driver, uint32_t id, uint32_t index, uint32_t other_index,
                                  struct facet_error *error)
{
    struct facet_vgpu_stream *stream = NULL, *other = NULL;
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);

    if (status != FACET_OK)
        return status;
    /* One lock at a time is enough: the stream waits for the work that the other stream has queued by now. */
    status = facet_vgpu_stream_open(vgpu, other_index, &other, error);
    if (status != FACET_OK)
        return facet_vgpu_note_status(vgpu, status);
    uint64_t number = other->number;
    pthread_mutex_unlock(&other->lock);
    status = facet_vgpu_stream_open(vgpu, index, &stream, error);
    if (status == FACET_OK) {
        const struct facet_vgpu_device *device = vgpu->device;

        status = device->provider->execution->wait(device->instance, vgpu->context, stream->number, number, error);
        facet_vgpu_stream_close(stream, status);
    }
    return facet_vgpu_note_status(vgpu, status);
}

enum facet_status facet_vgpu_set_stream_priority(struct facet_driver *driver, uint32_t id, uint32_t index,
                                                 uint32_t priority, struct facet_error *error)
{
    struct facet_vgpu_stream *stream = NULL;
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = facet_vgpu_check_priority(priority, error);

    if (status == FACET_OK)
        status = facet_vgpu_take(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    status = facet_vgpu_stream_open(vgpu, index, &stream, error);
    if (status == FACET_OK) {
        const struct facet_vgpu_device *device = vgpu->device;

        status =
            device->provider->execution->set_priority(device->instance, vgpu->context, stream->number, priority, error);
        if (status == FACET_OK)
            stream->priority = priority;
        pthread_mutex_unlock(&stream->lock);
    }
    return facet_vgpu_note_status(vgpu, status);
}

static enum facet_status synchronize_stream(struct facet_vgpu *vgpu, uint32_t index, uint64_t timeout_ns,
                                            struct facet_error *error)
{
    const struct facet_vgpu_device *device = vgpu->device;
    struct facet_vgpu_stream *stream = NULL;
    enum facet_status status = facet_vgpu_stream_open(vgpu, index, &stream, error);

    if (status != FACET_OK)
        return status;
    uint64_t number = stream->number;
    bool idle = !facet_vgpu_stream_is_busy(stream);
    if (!idle && atomic_load(&vgpu->paused))
        status = facet_vgpu_stream_drain_records(vgpu, stream, error);
    if (status == FACET_OK && facet_vgpu_stream_is_busy(stream) && atomic_load(&vgpu->paused))
        status = facet_error_set(error, FACET_FROZEN,
                                 "vGPU %" PRIu32 " is paused with work on stream %" PRIu32 "; resume it first",
                                 vgpu->id, index);
    pthread_mutex_unlock(&stream->lock);
    if (status != FACET_OK)
        return status;
    status = device->provider->execution->synchronize(device->instance, vgpu->context, number, timeout_ns, error);
    if (status != FACET_OK)
        return status;
    facet_vgpu_pins_release(vgpu, false);
    if (vgpu->space)
        (void)facet_space_unmap_freed(vgpu->space); /* memory that was freed while the work ran */
    return FACET_OK;
}

/* Streams that were never used have nothing to wait for. */
static bool is_used(struct facet_vgpu_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    bool used = stream->number != 0;
    pthread_mutex_unlock(&stream->lock);
    return used;
}

static enum facet_status synchronize_vgpu(struct facet_vgpu *vgpu, uint64_t timeout_ns, struct facet_error *error)
{
    uint64_t start = facet_clock_now_ns();
    enum facet_status status = facet_vgpu_device_check(vgpu->device, error);

    for (uint32_t i = 0; i < vgpu->streams && status == FACET_OK; i++) {
        uint64_t spent = facet_clock_now_ns() - start;

        if (is_used(&vgpu->stream[i]))
            status = synchronize_stream(vgpu, i, timeout_ns > spent ? timeout_ns - spent : 0, error);
    }
    return status;
}

enum facet_status facet_vgpu_synchronize(struct facet_driver *driver, uint32_t id, uint32_t stream, uint64_t timeout_ns,
                                         struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);

    if (status != FACET_OK)
        return status;
    status = stream == FACET_STREAM_ALL ? synchronize_vgpu(vgpu, timeout_ns, error)
                                        : synchronize_stream(vgpu, stream, timeout_ns, error);
    return facet_vgpu_note_status(vgpu, status);
}
