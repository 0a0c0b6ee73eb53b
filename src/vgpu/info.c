/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: descriptions of vGPUs and devices for callers. Never: measures: measure.c does. */
#include <inttypes.h>
#include <string.h>

#include "vgpu/driver.h"
#include "vgpu/stream.h"

/* ---- one vGPU ---- */

static uint32_t milli_of(uint64_t part, uint64_t whole)
{
    if (whole == 0)
        return 0;
    return (uint32_t)((unsigned __int128)part * FACET_MILLI_WHOLE / whole);
}

static enum facet_status add_memory(struct facet_vgpu *vgpu, struct facet_vgpu_info *info, struct facet_error *error)
{
    struct facet_space_usage usage = {.size = sizeof usage};

    if (!vgpu->space)
        return FACET_OK;
    enum facet_status status = facet_space_get_usage(vgpu->space, &usage, error);
    if (status != FACET_OK)
        return status;
    info->valid |= FACET_VGPU_HAS_MEMORY;
    info->memory_limit_bytes = usage.limit_bytes;
    info->memory_allocated_bytes = usage.allocated_bytes;
    info->memory_reserved_bytes = usage.reserved_bytes;
    info->memory_peak_bytes = usage.peak_bytes;
    info->memory_milli = milli_of(usage.reserved_bytes, usage.limit_bytes);
    info->allocations = usage.allocations;
    return FACET_OK;
}

static enum facet_status add_stream(struct facet_vgpu *vgpu, struct facet_vgpu_stream *stream,
                                    struct facet_vgpu_info *info, struct facet_error *error)
{
    pthread_mutex_lock(&stream->lock);
    enum facet_status status = facet_vgpu_stream_drain_records(vgpu, stream, error);
    const struct facet_stream_state *state = &stream->state;

    info->launched_total += stream->launched;
    info->completed_total += state->completed;
    info->busy_ns += state->busy_ns;
    info->delay_ns += stream->delay_ns;
    info->failed_total += stream->failed;
    info->cancelled_total += stream->cancelled;
    info->streams_active += facet_vgpu_stream_is_busy(stream);
    if (state->begun > state->completed)
        info->running += (uint32_t)(state->begun - state->completed);
    info->queued += (uint32_t)(stream->launched - (state->begun > state->completed ? state->begun : state->completed));
    if (stream->lost_records)
        info->valid &= ~FACET_VGPU_HAS_RECORDS;
    pthread_mutex_unlock(&stream->lock);
    return status;
}

static void add_settings(struct facet_vgpu *vgpu, struct facet_vgpu_info *info)
{
    pthread_mutex_lock(&vgpu->lock);
    info->units = vgpu->units;
    info->launches = vgpu->launches;
    info->request_milli = vgpu->request_milli;
    info->limit_milli = vgpu->limit_milli;
    info->priority = vgpu->priority;
    info->given_milli = vgpu->scaled_milli;
    info->given_units = vgpu->scaled_units;
    pthread_mutex_unlock(&vgpu->lock);
    info->off = atomic_load(&vgpu->features_off);
    info->on = atomic_load(&vgpu->features_on);
}

static void add_measured(struct facet_vgpu *vgpu, struct facet_vgpu_info *info)
{
    pthread_mutex_lock(&vgpu->driver->monitor_lock);
    info->compute_milli = vgpu->compute_milli;
    if (vgpu->measured)
        info->valid |= FACET_VGPU_HAS_COMPUTE;
    pthread_mutex_unlock(&vgpu->driver->monitor_lock);
}

/* A vGPU of a lost device is described by its last known state. */
static enum facet_status describe_vgpu(struct facet_vgpu *vgpu, struct facet_vgpu_info *ret_info,
                                       struct facet_error *error)
{
    struct facet_vgpu_info info = {
        .size = sizeof info,
        .id = vgpu->id,
        .status = facet_vgpu_status_of(vgpu),
        .valid = FACET_VGPU_HAS_RECORDS,
        .device = vgpu->device->index,
        .streams = vgpu->streams,
        .created_ns = vgpu->created_ns,
    };
    enum facet_status status = FACET_OK;

    memcpy(info.name, vgpu->name, sizeof info.name);
    for (uint32_t i = 0; i < vgpu->streams && status == FACET_OK; i++) {
        status = add_stream(vgpu, &vgpu->stream[i], &info, error);
        if (status == FACET_DEVICE_LOST)
            status = FACET_OK;
    }
    if (status == FACET_OK)
        status = add_memory(vgpu, &info, error);
    if (status != FACET_OK)
        return status;
    add_settings(vgpu, &info);
    add_measured(vgpu, &info);
    facet_sized_copy_out(ret_info, &info, sizeof info);
    return FACET_OK;
}

enum facet_status facet_vgpu_get_info(struct facet_driver *driver, uint32_t id, struct facet_vgpu_info *ret_info,
                                      struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = facet_sized_check("ret_info", ret_info, error);

    if (status == FACET_OK)
        status = facet_vgpu_take(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    return describe_vgpu(vgpu, ret_info, error);
}

/* ---- every vGPU ---- */

/* The caller's structs may be smaller than this version's, and follow each other at the caller's size. */
static enum facet_status check_sizes(struct facet_vgpu_info *infos, uint32_t index, struct facet_vgpu_info **ret_info,
                                     struct facet_error *error)
{
    enum facet_status status = facet_sized_check("infos", infos, error);

    if (status != FACET_OK)
        return status;
    uint32_t size = infos->size;
    struct facet_vgpu_info *info = (struct facet_vgpu_info *)((char *)infos + (size_t)index * size);
    if (size % _Alignof(struct facet_vgpu_info) || info->size != size)
        return facet_error_argument(
            error, FACET_INVALID_ARGUMENT, "infos",
            "infos: size %" PRIu32 " of the first: expected that of struct facet_vgpu_info in each", size);
    *ret_info = info;
    return FACET_OK;
}

/* A vGPU that is made or destroyed meanwhile may be listed or not; every other vGPU is listed once. */
enum facet_status facet_vgpu_list(struct facet_driver *driver, struct facet_vgpu_info *infos, uint32_t capacity,
                                  uint32_t *ret_count, struct facet_error *error)
{
    uint32_t found = 0, id = 0;
    enum facet_status status = FACET_OK;
    struct facet_vgpu_info *info = NULL;
    struct facet_vgpu *vgpu;

    FACET_VGPU_NEED_DRIVER(driver, error);
    FACET_NEED(ret_count, error);
    if (capacity > 0)
        FACET_NEED(infos, error);
    uint32_t count = facet_vgpu_count(driver);
    if (count > capacity) {
        *ret_count = count;
        return facet_error_argument(error, FACET_TOO_SMALL, "capacity",
                                    "capacity %" PRIu32 ": the driver has %" PRIu32 " vGPUs", capacity, count);
    }
    while (status == FACET_OK && found < capacity && (vgpu = facet_vgpu_next(driver, id))) {
        id = vgpu->id + 1;
        status = check_sizes(infos, found, &info, error);
        if (status == FACET_OK) {
            status = describe_vgpu(vgpu, info, error);
            found++;
        }
        facet_vgpu_drop(vgpu);
        if (id == 0)
            break;
    }
    if (status == FACET_OK)
        *ret_count = found;
    return status;
}

/* ---- devices ---- */

static void add_device_memory(const struct facet_vgpu_device *device, struct facet_driver_device *ret_device)
{
    struct facet_memory_usage usage = {.size = sizeof usage};
    struct facet_memory_info info = {.size = sizeof info};

    ret_device->memory_bytes = device->memory_bytes;
    if (device->memory && facet_memory_get_usage(device->memory, &usage, NULL) == FACET_OK)
        ret_device->memory_used_bytes = usage.reserved_bytes;
    else if (device->provider->memory->info(device->instance, device->owner, &info, NULL) == FACET_OK)
        ret_device->memory_used_bytes = info.used_bytes;
}

bool facet_driver_get_device(struct facet_driver *driver, uint32_t index, struct facet_driver_device *ret_device)
{
    struct facet_driver_device described = {.size = sizeof described};

    if (!driver || index >= driver->devices || facet_origin_is_parent(&driver->origin) ||
        facet_sized_check("ret_device", ret_device, NULL) != FACET_OK)
        return false;
    struct facet_vgpu_device *device = &driver->device[index];

    memcpy(described.id, device->id, sizeof described.id);
    memcpy(described.name, device->info.name, sizeof described.name);
    described.name[sizeof described.name - 1] = '\0';
    described.lost = atomic_load(&device->lost);
    described.units = device->info.compute_units;
    add_device_memory(device, &described);
    pthread_rwlock_rdlock(&driver->list_lock);
    described.vgpus = device->vgpus;
    described.promised_bytes = device->promised_bytes;
    pthread_rwlock_unlock(&driver->list_lock);
    pthread_mutex_lock(&driver->monitor_lock);
    described.valid = described.lost ? 0 : device->valid; /* the last known values are not the present ones */
    described.utilization_milli = device->utilization_milli;
    described.busy_ns = device->busy_ns;
    pthread_mutex_unlock(&driver->monitor_lock);
    facet_sized_copy_out(ret_device, &described, sizeof described);
    return true;
}
