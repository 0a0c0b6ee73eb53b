/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: opening the registry, and restoring the state that an earlier daemon or provider left: rows, parts of devices,
 * and segments, of which those without a vGPU ("strays") are removed.
 * Never: gives up an acknowledged vGPU; it keeps one that cannot be served now, with the reason.
 */
#include "vgpu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"

#define ASIDE_MAX 1000 /* unusable segments of one vGPU that are kept */

/* Finds the row's device by uuid, since an index changes when devices come and go. */
static const struct facet_device_record *find_device(const struct registry *registry, const struct vgpu_row *row)
{
    for (uint32_t i = 0; i < facet_device_table_count(registry->parts.devices); i++) {
        const struct facet_device_record *device = facet_device_table_at(registry->parts.devices, i);
        if (strcmp(device->info.uuid, row->device_uuid) == 0)
            return device;
    }
    return NULL;
}

/* Renames an unusable segment to <id>.corrupt-<n>, for people to examine. */
static enum facet_status move_aside(const struct registry *registry, const char *id, const char *reason,
                                    struct facet_error *error)
{
    char dir[FACET_PATH_SIZE], new_path[FACET_PATH_SIZE];

    vgpu_segment_path(registry, id, dir, sizeof dir);
    for (int n = 1; n <= ASIDE_MAX; n++) {
        snprintf(new_path, sizeof new_path, "%s/%s.corrupt-%d", registry->segments, id, n);
        if (renameat2(AT_FDCWD, dir, AT_FDCWD, new_path, RENAME_NOREPLACE) == 0) {
            facet_log(FACET_LOG_WARNING, "%s; moved aside to '%s', and made anew", reason, new_path);
            return FACET_OK;
        }
        if (errno != EEXIST)
            return facet_error_errno(error, errno, "moving '%s' aside", dir);
    }
    return facet_error_set(error, FACET_BUSY, "moving '%s' aside: %d corrupt ones are there; remove them", dir,
                           ASIDE_MAX);
}

/* --- serving a vGPU --------------------------------------------------------------------------------------------- */

static bool is_same_part(const struct vgpu_row *left, const struct vgpu_row *right)
{
    return strcmp(left->slice.partition_uuid, right->slice.partition_uuid) == 0 &&
           strcmp(left->slice.address, right->slice.address) == 0 && left->slice.start == right->slice.start &&
           left->slice.memory_bytes == right->slice.memory_bytes &&
           left->slice.compute_milli == right->slice.compute_milli &&
           left->slice.compute_units == right->slice.compute_units &&
           left->limits.memory_bytes == right->limits.memory_bytes &&
           left->limits.compute_request_milli == right->limits.compute_request_milli;
}

/* Keeps the vGPU's part of the device, or takes it again. The database records a change before the part is used. */
static enum facet_status keep_part(struct registry *registry, struct vgpu *vgpu, bool *ret_changed,
                                   struct facet_error *error)
{
    struct vgpu_row row = vgpu->row;

    if (!mode_is_spatial(row.limits.mode))
        return FACET_OK;
    const struct claim claim = {registry, vgpu};
    const struct grant_others others = {claim_others_have, &claim};
    enum facet_status status = grant_keep(registry->parts.sessions, vgpu->device, &row, &others, error);
    if (status != FACET_OK)
        return status;
    *ret_changed = !is_same_part(&row, &vgpu->row);
    if (*ret_changed)
        status = registry_write_row(registry, store_update, &row, error);
    if (status == FACET_OK)
        vgpu->row = row;
    return status;
}

/* Keeps an unreadable segment with processes in it: a new segment would give the memory that they hold out again. */
static enum facet_status keep_unreadable(struct vgpu *vgpu, const struct facet_error *reason, struct facet_error *error)
{
    if (!vgpu->damaged)
        facet_log(FACET_LOG_WARNING, "vGPU %s (%s): %s; processes are in it, so it is kept", vgpu->row.name,
                  vgpu->row.id, reason->message);
    vgpu->damaged = true;
    return facet_error_set(error, FACET_BUSY,
                           "its segment %s, and processes are in it: no other can enter; end them, or destroy the "
                           "vGPU by force and create it again",
                           reason->status == FACET_ABI_MISMATCH ? "is of another release of Facet"
                                                                : "was damaged from outside");
}

/*
 * Makes a segment where there is none: the vGPU is from before the machine started, or the runtime folder was lost. In
 * a lost segment processes may live. What they hold is not given out again before they have ended.
 */
static enum facet_status replace_missing(struct registry *registry, struct vgpu *vgpu, struct facet_error *error)
{
    char dir[FACET_PATH_SIZE];

    vgpu_segment_path(registry, vgpu->row.id, dir, sizeof dir);
    vgpu->damaged = facet_segment_find_lost(dir, vgpu->row.id, false, &vgpu->lost);
    if (vgpu->damaged)
        return facet_error_set(
            error, FACET_BUSY,
            "its segment was removed from outside, and processes are in it (%u): no other can enter; "
            "end them, or destroy the vGPU by force and create it again",
            vgpu->lost.pid);
    vgpu->lost = (struct facet_process_identity){0};
    return vgpu_install(registry, vgpu, error);
}

static enum facet_status attach_segment(struct registry *registry, struct vgpu *vgpu, struct facet_error *error)
{
    struct facet_error reason;

    enum facet_status status = vgpu_adopt(registry, vgpu, &reason);
    if (status == FACET_CORRUPT || status == FACET_ABI_MISMATCH) {
        if (vgpu_in_use(registry, vgpu))
            return keep_unreadable(vgpu, &reason, error);
        vgpu->damaged = false;
        status = move_aside(registry, vgpu->row.id, reason.message, error);
        return status == FACET_OK ? vgpu_install(registry, vgpu, error) : status;
    }
    if (status == FACET_NOT_FOUND)
        return replace_missing(registry, vgpu, error);
    if (status != FACET_OK && error)
        *error = reason;
    return status;
}

/* Adopts the segment. A segment names its vGPU's part of the device, so a part that changed gets a new segment, and
 * tenants must start again. */
static enum facet_status attach_part(struct registry *registry, struct vgpu *vgpu, bool has_changed,
                                     struct facet_error *error)
{
    if (vgpu->scheduled && !has_changed)
        return FACET_OK;
    if (!has_changed)
        return attach_segment(registry, vgpu, error);
    if (vgpu->scheduled)
        snprintf(vgpu->notice, sizeof vgpu->notice,
                 "its part of the device was gone and was taken again; start its programs anew");
    enum facet_status status = vgpu_withdraw(registry, vgpu, error);
    return status == FACET_OK ? vgpu_install(registry, vgpu, error) : status;
}

static enum facet_status serve_vgpu(struct registry *registry, struct vgpu *vgpu, struct facet_error *error)
{
    struct sessions *sessions = registry->parts.sessions;
    bool spatial = mode_is_spatial(vgpu->row.limits.mode), has_changed = false;
    struct facet_error reason;

    if (!vgpu->device)
        return facet_error_set(error, FACET_DEVICE_LOST, "its device %s (%s) is not there", vgpu->row.device_id,
                               vgpu->row.device_name);
    enum facet_status status = keep_part(registry, vgpu, &has_changed, error);
    if (status == FACET_OK)
        status = attach_part(registry, vgpu, has_changed, error);
    if (status != FACET_OK)
        return status;
    status = grant_environment(sessions, vgpu->device, &vgpu->row, &vgpu->environment, &reason);
    if (status == FACET_OK || !spatial)
        return FACET_OK;
    return facet_error_set(error, status, "its environment: %s", reason.message);
}

void vgpu_serve(struct registry *registry, struct vgpu *vgpu)
{
    bool is_retried = vgpu->device && mode_is_spatial(vgpu->row.limits.mode);
    bool had_trouble = vgpu->trouble[0] != '\0';
    struct facet_error reason;

    if (serve_vgpu(registry, vgpu, &reason) == FACET_OK) {
        vgpu->trouble[0] = '\0';
        vgpu->damaged = false;
        if (had_trouble)
            facet_log(FACET_LOG_INFO, "vGPU %s (%s) is served again", vgpu->row.name, vgpu->row.id);
        return;
    }
    if (vgpu->damaged)
        snprintf(vgpu->trouble, sizeof vgpu->trouble, "%.250s", reason.message);
    else
        snprintf(vgpu->trouble, sizeof vgpu->trouble, "not served until %s: %.200s",
                 is_retried ? "the provider can" : "facetd starts again", reason.message);
    if (!had_trouble)
        facet_log(FACET_LOG_WARNING, "vGPU %s (%s): %s", vgpu->row.name, vgpu->row.id, vgpu->trouble);
}

void vgpu_serve_again(struct registry *registry, struct vgpu *listed)
{
    struct vgpu vgpu = *listed;

    vgpu_serve(registry, &vgpu);
    registry_publish(registry, listed, &vgpu);
}

/* --- start-up --------------------------------------------------------------------------------------------------- */

/* Removes a vGPU that was never acknowledged, or was being removed. True: it is gone. */
static bool resolve_half_made(struct registry *registry, struct vgpu *vgpu)
{
    struct facet_error reason;

    if (vgpu_finish_removal(registry, vgpu, &reason) == FACET_OK) {
        facet_log(FACET_LOG_INFO, "vGPU %s (%s) was half %s, and is removed", vgpu->row.name, vgpu->row.id,
                  vgpu->row.state == ROW_CREATING ? "made" : "removed");
        return true;
    }
    snprintf(vgpu->trouble, sizeof vgpu->trouble, "its part of the device could not be removed yet: %.200s",
             reason.message);
    facet_log(FACET_LOG_WARNING, "vGPU %s (%s): %s", vgpu->row.name, vgpu->row.id, vgpu->trouble);
    return false;
}

static enum facet_status restore_vgpu(struct registry *registry, const struct vgpu_row *row, struct facet_error *error)
{
    struct vgpu vgpu = {.row = *row,
                        .device = find_device(registry, row),
                        .retry_after_ns = row->ephemeral ? facet_clock_now_ns() + EPHEMERAL_GRACE_NS : 0};

    enum facet_status status = registry_ensure_capacity(registry, error);
    if (status != FACET_OK)
        return status;
    if (vgpu.device)
        snprintf(vgpu.row.device_id, sizeof vgpu.row.device_id, "%s", vgpu.device->id);
    if (row->state == ROW_READY)
        vgpu_serve(registry, &vgpu);
    else if (resolve_half_made(registry, &vgpu))
        return FACET_OK;
    registry_add(registry, &vgpu);
    return FACET_OK;
}

static bool is_known(const struct registry *registry, const char *id)
{
    for (size_t i = 0; i < registry->count; i++)
        if (strcmp(registry->vgpus[i].row.id, id) == 0)
            return true;
    return false;
}

/* Removes a segment without a vGPU, unless tenants are in it, whose vGPU was destroyed by force. */
static void remove_stray(const char *dir)
{
    struct facet_error error;
    bool in_use = false;

    if (facet_segment_in_use(dir, &in_use, NULL) == FACET_OK && in_use)
        return;
    if (facet_owner_remove(dir, &error) == FACET_OK)
        facet_log(FACET_LOG_INFO, "removed segment '%s', which no vGPU has", dir);
    else
        facet_log(FACET_LOG_WARNING, "%s", error.message);
}

static enum facet_status sweep_strays(const struct registry *registry, struct facet_error *error)
{
    char dir[FACET_PATH_SIZE];
    FACET_CLEANUP_DIR DIR *folder = opendir(registry->segments);

    if (!folder)
        return facet_error_errno(error, errno, "reading folder '%s'", registry->segments);
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        if (entry->d_name[0] == '.' || strstr(entry->d_name, ".corrupt-") || is_known(registry, entry->d_name))
            continue;
        if ((size_t)snprintf(dir, sizeof dir, "%s/%s", registry->segments, entry->d_name) < sizeof dir)
            remove_stray(dir);
    }
    return FACET_OK;
}

/* Restores acknowledged vGPUs first, so that their parts are not mistaken for those of half-made vGPUs. */
static enum facet_status registry_restore(struct registry *registry, struct facet_error *error)
{
    FACET_CLEANUP_FREE struct vgpu_row *rows = NULL;
    size_t count = 0;

    enum facet_status status = store_load(registry->store, &rows, &count, error);
    for (size_t i = 0; status == FACET_OK && i < count; i++)
        if (rows[i].state == ROW_READY)
            status = restore_vgpu(registry, &rows[i], error);
    for (size_t i = 0; status == FACET_OK && i < count; i++)
        if (rows[i].state != ROW_READY)
            status = restore_vgpu(registry, &rows[i], error);
    if (status == FACET_OK)
        status = reserve_restore(registry, error);
    if (status == FACET_OK)
        reserve_look(registry);
    return status == FACET_OK ? sweep_strays(registry, error) : status;
}

enum facet_status registry_open(const char *runtime_dir, const char *state_dir, const struct registry_parts *parts,
                                struct registry **ret_registry, struct facet_error *error)
{
    struct registry *registry = calloc(1, sizeof *registry);

    if (!registry)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the registry");
    pthread_mutex_init(&registry->change, NULL);
    pthread_mutex_init(&registry->lock, NULL);
    registry->parts = *parts;
    int length = snprintf(registry->segments, sizeof registry->segments, "%s/vgpu", runtime_dir);
    enum facet_status status =
        (size_t)length < sizeof registry->segments
            ? facet_path_make(registry->segments, 0700, error)
            : facet_error_set(error, FACET_OUT_OF_RANGE, "runtime folder '%.64s...': too long", runtime_dir);
    /* The segments below are open to every user whom a container's mount leads past this folder (vgpu.c). */
    if (status == FACET_OK && chmod(registry->segments, 0700) < 0)
        status = facet_error_errno(error, errno, "setting the mode of '%s'", registry->segments);
    if (status == FACET_OK)
        status = store_open(state_dir, &registry->store, error);
    if (status == FACET_OK) {
        pthread_mutex_lock(&registry->change);
        status = registry_restore(registry, error);
        pthread_mutex_unlock(&registry->change);
    }
    if (status != FACET_OK) {
        registry_close(registry);
        return status;
    }
    *ret_registry = registry;
    return FACET_OK;
}
