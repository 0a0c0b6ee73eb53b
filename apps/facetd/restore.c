/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: taking up what an earlier daemon left: rows, segments, strays.
 * Never: gives up a vGPU that was acknowledged: one that cannot be served now is kept and says why.
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

#define ASIDE_MAX 1000

/* By uuid: an index moves when devices come and go. */
static const struct facet_device_record *find_device(const struct registry *registry, const struct vgpu_row *row)
{
    for (uint32_t i = 0; i < facet_device_table_count(registry->devices); i++) {
        const struct facet_device_record *device = facet_device_table_at(registry->devices, i);
        if (strcmp(device->info.uuid, row->device_uuid) == 0)
            return device;
    }
    return NULL;
}

/* Renames a segment that cannot be used to <id>.corrupt-<n>, for people to look at. */
static enum facet_status move_aside(const struct registry *registry, const char *id, const char *reason,
                                    struct facet_error *error)
{
    char dir[FACET_PATH_SIZE], aside[FACET_PATH_SIZE];

    vgpu_segment_path(registry, id, dir, sizeof dir);
    for (int n = 1; n <= ASIDE_MAX; n++) {
        snprintf(aside, sizeof aside, "%s/%s.corrupt-%d", registry->segments, id, n);
        if (renameat2(AT_FDCWD, dir, AT_FDCWD, aside, RENAME_NOREPLACE) == 0) {
            facet_log(FACET_LOG_WARNING, "%s; moved aside to '%s', and made anew", reason, aside);
            return FACET_OK;
        }
        if (errno != EEXIST)
            return facet_error_errno(error, errno, "moving '%s' aside", dir);
    }
    return facet_error_set(error, FACET_BUSY, "moving '%s' aside: %d corrupt ones are there; remove them", dir,
                           ASIDE_MAX);
}

static enum facet_status attach(struct registry *registry, struct vgpu *vgpu, struct facet_error *error)
{
    struct facet_error reason;

    if (!vgpu->device)
        return facet_error_set(error, FACET_DEVICE_LOST, "its device %s (%s) is not there", vgpu->row.device_id,
                               vgpu->row.device_name);
    enum facet_status status = vgpu_adopt(registry, vgpu, &reason);
    if (status == FACET_CORRUPT || status == FACET_ABI_MISMATCH) {
        status = move_aside(registry, vgpu->row.id, reason.message, error);
        return status == FACET_OK ? vgpu_install(registry, vgpu, error) : status;
    }
    if (status == FACET_NOT_FOUND)
        return vgpu_install(registry, vgpu, error);
    if (status != FACET_OK && error)
        *error = reason;
    return status;
}

static enum facet_status restore_vgpu(struct registry *registry, const struct vgpu_row *row, struct facet_error *error)
{
    struct vgpu vgpu = {.row = *row, .device = find_device(registry, row)};
    struct facet_error reason;

    enum facet_status status = registry_reserve(registry, error);
    if (status != FACET_OK)
        return status;
    if (vgpu.device)
        snprintf(vgpu.row.device_id, sizeof vgpu.row.device_id, "%s", vgpu.device->id);
    if (attach(registry, &vgpu, &reason) != FACET_OK) {
        snprintf(vgpu.trouble, sizeof vgpu.trouble, "not served until facetd starts again: %.200s", reason.message);
        facet_log(FACET_LOG_WARNING, "vGPU %s (%s): %s", row->name, row->id, vgpu.trouble);
    }
    registry->vgpus[registry->count++] = vgpu;
    return FACET_OK;
}

static bool is_known(const struct registry *registry, const char *id)
{
    for (size_t i = 0; i < registry->count; i++)
        if (strcmp(registry->vgpus[i].row.id, id) == 0)
            return true;
    return false;
}

/* A stray may still have tenants: those that were in a vGPU when it was destroyed by force. Then it stays. */
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

static enum facet_status sweep(const struct registry *registry, struct facet_error *error)
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

enum facet_status registry_restore(struct registry *registry, struct facet_error *error)
{
    FACET_CLEANUP_FREE struct vgpu_row *rows = NULL;
    size_t count = 0;

    enum facet_status status = store_load(registry->store, &rows, &count, error);
    for (size_t i = 0; status == FACET_OK && i < count; i++)
        status = restore_vgpu(registry, &rows[i], error);
    return status == FACET_OK ? sweep(registry, error) : status;
}
