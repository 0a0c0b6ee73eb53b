/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of vGPUs, and reading it. Never: changes a vGPU (create.c, change.c, restore.c), or waits for a disk
 * or a provider.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgpu.h"

static const char *const state_names[VGPU_STATE_COUNT] = {"idle", "running", "frozen", "removing"};

const char *vgpu_state_name(enum vgpu_state state)
{
    return state_names[state];
}

struct vgpu *registry_look_up(const struct registry *registry, const char *ref)
{
    for (size_t i = 0; i < registry->count; i++)
        if (strcmp(registry->vgpus[i].row.id, ref) == 0 || strcmp(registry->vgpus[i].row.name, ref) == 0)
            return &registry->vgpus[i];
    return NULL;
}

/* The sum of the guarantees on the device of `vgpu`. If it exceeds the device, the guarantees act as weights. */
static uint64_t guaranteed_milli(const struct registry *registry, const struct vgpu *vgpu)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < registry->count; i++)
        if (registry->vgpus[i].device == vgpu->device && mode_is_timed(registry->vgpus[i].row.limits.mode))
            sum += registry->vgpus[i].row.limits.compute_request_milli;
    return sum;
}

static void describe_warning(const struct registry *registry, const struct vgpu *vgpu, bool damaged, char *buffer,
                             size_t size)
{
    const struct facet_limits *limits = &vgpu->row.limits;
    char reason[360] = "";

    buffer[0] = '\0';
    if (vgpu->trouble[0] || vgpu->notice[0])
        snprintf(buffer, size, "%s", vgpu->trouble[0] ? vgpu->trouble : vgpu->notice);
    else if (damaged)
        snprintf(buffer, size, "its segment was damaged from outside; destroy it and create it again");
    else if (vgpu->device &&
             sessions_health(registry->parts.sessions, vgpu->device, reason, sizeof reason) == FACET_HEALTH_FAILED)
        snprintf(buffer, size, "its device %s failed%s%.150s", vgpu->row.device_id, reason[0] ? ": " : "", reason);
    else if (vgpu->device && mode_is_timed(limits->mode) && limits->compute_request_milli) {
        uint64_t sum = guaranteed_milli(registry, vgpu);
        if (sum > FACET_MILLI_WHOLE)
            snprintf(buffer, size,
                     "guarantees on %s add up to %" PRIu64 ".%" PRIu64 " %% of the device; they act as weights",
                     vgpu->row.device_id, sum / 10, sum % 10);
    }
}

/* The sum of the quotas on a device, `all` or only those whose memory cannot be swapped. */
static uint64_t promised_bytes(const struct registry *registry, const char *device_id, bool all)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < registry->count; i++) {
        const struct vgpu_row *row = &registry->vgpus[i].row;
        bool counts = row->limits.mode == FACET_MODE_SOFT && (all || !row->oversubscribe) && row->state == ROW_READY;

        if (counts && strcmp(row->device_id, device_id) == 0 &&
            __builtin_add_overflow(sum, row->limits.memory_bytes, &sum))
            return UINT64_MAX;
    }
    return sum;
}

/* Warns that a requested memory limit is not reserved, when the limits on the device exceed its memory. */
void registry_warn_of_crowding(const struct registry *registry, const struct request *request, struct vgpu_info *info)
{
    const struct vgpu_row *row = &info->row;
    const struct facet_device_record *device = NULL;
    char promised[16], whole[16];

    if (info->warning[0] || !(request->present & REQUEST_MEMORY_LIMIT) || row->limits.mode != FACET_MODE_SOFT ||
        row->oversubscribe ||
        facet_device_table_find(registry->parts.devices, row->device_id, &device, NULL) != FACET_OK ||
        !(device->info.valid & FACET_DEVICE_HAS_MEMORY))
        return;
    uint64_t sum = promised_bytes(registry, row->device_id, false);
    if (sum > device->info.memory_bytes)
        snprintf(info->warning, sizeof info->warning,
                 "limits on %s add up to %s of %s: programs may be refused memory that is within their limit",
                 row->device_id, facet_format_size(sum, promised, sizeof promised),
                 facet_format_size(device->info.memory_bytes, whole, sizeof whole));
    else if (promised_bytes(registry, row->device_id, true) > device->info.memory_bytes)
        snprintf(info->warning, sizeof info->warning,
                 "others on %s have limits above what is left, by --oversubscribe: they make room for each other, not "
                 "for this one",
                 row->device_id);
}

static enum vgpu_state state_of(const struct vgpu *vgpu, const struct vgpu_info *info)
{
    if (vgpu->row.state != ROW_READY)
        return VGPU_REMOVING;
    if (vgpu->row.frozen)
        return VGPU_FROZEN;
    bool running = info->measured ? info->view.totals.processes : vgpu->damaged;
    return running ? VGPU_RUNNING : VGPU_IDLE;
}

void vgpu_describe(const struct registry *registry, const struct vgpu *vgpu, struct vgpu_info *ret_info)
{
    struct vgpu_info info = {.row = vgpu->row, .environment = vgpu->environment};

    info.measured =
        vgpu->scheduled && scheduler_view(registry->parts.scheduler, vgpu->row.id, &info.view, NULL) == FACET_OK;
    info.damaged = info.measured ? info.view.damaged : vgpu->damaged;
    info.state = state_of(vgpu, &info);
    info.simulated =
        vgpu->device && vgpu->device->provider && (vgpu->device->provider->traits & FACET_PROVIDER_SIMULATED);
    vgpu_segment_path(registry, vgpu->row.id, info.segment, sizeof info.segment);
    describe_warning(registry, vgpu, info.damaged, info.warning, sizeof info.warning);
    *ret_info = info;
}

/* --- the list -------------------------------------------------------------------------------------------------- */

enum facet_status registry_ensure_capacity(struct registry *registry, struct facet_error *error)
{
    if (registry->count < registry->capacity)
        return FACET_OK;

    size_t capacity = registry->capacity ? registry->capacity * 2 : 16;
    pthread_mutex_lock(&registry->lock);
    struct vgpu *grown = reallocarray(registry->vgpus, capacity, sizeof *grown);
    if (grown) {
        registry->vgpus = grown;
        registry->capacity = capacity;
    }
    pthread_mutex_unlock(&registry->lock);
    return grown ? FACET_OK : facet_error_set(error, FACET_NO_MEMORY, "no memory for %zu vGPUs", capacity);
}

void registry_add(struct registry *registry, const struct vgpu *vgpu)
{
    pthread_mutex_lock(&registry->lock);
    registry->vgpus[registry->count++] = *vgpu;
    pthread_mutex_unlock(&registry->lock);
}

void registry_forget(struct registry *registry, const struct vgpu *vgpu)
{
    size_t index = (size_t)(vgpu - registry->vgpus);

    pthread_mutex_lock(&registry->lock);
    registry->count--;
    memmove(&registry->vgpus[index], &registry->vgpus[index + 1], (registry->count - index) * sizeof *vgpu);
    pthread_mutex_unlock(&registry->lock);
}

void registry_publish(struct registry *registry, struct vgpu *place, const struct vgpu *vgpu)
{
    pthread_mutex_lock(&registry->lock);
    *place = *vgpu;
    pthread_mutex_unlock(&registry->lock);
}

void registry_copy_info(struct registry *registry, const struct vgpu *vgpu, struct vgpu_info *ret_info)
{
    pthread_mutex_lock(&registry->lock);
    vgpu_describe(registry, vgpu, ret_info);
    pthread_mutex_unlock(&registry->lock);
}

/* The vGPU that has the partition. If two rows name it, which no daemon writes, the first vGPU has it. */
static const struct vgpu *owner_of(const struct registry *registry, const struct facet_device_record *device,
                                   const struct facet_partition_info *partition)
{
    for (size_t i = 0; i < registry->count; i++) {
        const struct vgpu *vgpu = &registry->vgpus[i];
        if (vgpu->device == device && grant_is_part(&vgpu->row, partition))
            return vgpu;
    }
    return NULL;
}

bool claim_others_have(const void *context, const struct facet_partition_info *partition)
{
    const struct claim *claim = context;
    const struct vgpu *owner = owner_of(claim->registry, claim->vgpu->device, partition);

    return owner && strcmp(owner->row.id, claim->vgpu->row.id) != 0;
}

enum facet_status registry_write_row(struct registry *registry,
                                     enum facet_status (*write)(struct store *, const struct vgpu_row *,
                                                                struct facet_error *),
                                     const struct vgpu_row *row, struct facet_error *error)
{
    enum facet_status status = store_begin(registry->store, error);

    if (status != FACET_OK)
        return status;
    status = write(registry->store, row, error);
    if (status == FACET_OK)
        return store_commit(registry->store, error);
    store_rollback(registry->store);
    return status;
}

enum facet_status registry_delete_row(struct registry *registry, const char *id, struct facet_error *error)
{
    enum facet_status status = store_begin(registry->store, error);

    if (status != FACET_OK)
        return status;
    status = store_delete(registry->store, id, error);
    if (status == FACET_OK)
        return store_commit(registry->store, error);
    store_rollback(registry->store);
    return status;
}

/* --- closing ---------------------------------------------------------------------------------------------------- */

void registry_close(struct registry *registry)
{
    if (!registry)
        return;
    store_close(registry->store);
    pthread_mutex_destroy(&registry->lock);
    pthread_mutex_destroy(&registry->change);
    reservation_list_clear(&registry->reservations);
    free(registry->vgpus);
    free(registry);
}

/* --- reading -------------------------------------------------------------------------------------------------- */

enum facet_status registry_find(struct registry *registry, const char *ref, struct vgpu_info *ret_info,
                                struct facet_error *error)
{
    pthread_mutex_lock(&registry->lock);
    const struct vgpu *vgpu = registry_look_up(registry, ref);
    if (vgpu)
        vgpu_describe(registry, vgpu, ret_info);
    pthread_mutex_unlock(&registry->lock);
    return vgpu ? FACET_OK
                : facet_error_argument(error, FACET_NOT_FOUND, "vgpu", "no vGPU has the id or name '%.64s'", ref);
}

bool registry_partition_owner(struct registry *registry, const struct facet_device_record *device,
                              const struct facet_partition_info *partition, char ret_name[FACET_NAME_SIZE])
{
    pthread_mutex_lock(&registry->lock);
    const struct vgpu *owner = owner_of(registry, device, partition);
    if (owner)
        memcpy(ret_name, owner->row.name, FACET_NAME_SIZE);
    pthread_mutex_unlock(&registry->lock);
    return owner != NULL;
}

enum facet_status registry_list(struct registry *registry, struct vgpu_info **ret_infos, size_t *ret_count,
                                struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    pthread_mutex_lock(&registry->lock);
    size_t count = registry->count;
    struct vgpu_info *infos = calloc(count ? count : 1, sizeof *infos);
    if (!infos)
        status = facet_error_set(error, FACET_NO_MEMORY, "no memory to list %zu vGPUs", count);
    for (size_t i = 0; infos && i < count; i++)
        vgpu_describe(registry, &registry->vgpus[i], &infos[i]);
    pthread_mutex_unlock(&registry->lock);
    if (status != FACET_OK)
        return status;
    *ret_infos = infos;
    *ret_count = count;
    return FACET_OK;
}

size_t registry_count(struct registry *registry)
{
    pthread_mutex_lock(&registry->lock);
    size_t count = registry->count;
    pthread_mutex_unlock(&registry->lock);
    return count;
}

bool registry_has_devices(struct registry *registry)
{
    bool has = false;

    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; !has && i < registry->count; i++)
        has = registry->vgpus[i].device;
    pthread_mutex_unlock(&registry->lock);
    return has;
}

/* Whether this daemon will remove the vGPU: an ephemeral one, unless it is half removed and its device is missing. */
static bool is_awaited(const struct vgpu *vgpu)
{
    return vgpu->row.ephemeral && (vgpu->row.state == ROW_READY || vgpu->device);
}

bool registry_idle(struct registry *registry)
{
    bool idle = true;

    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; idle && i < registry->count; i++)
        idle = !is_awaited(&registry->vgpus[i]) && !vgpu_in_use(registry, &registry->vgpus[i]);
    pthread_mutex_unlock(&registry->lock);
    return idle;
}
