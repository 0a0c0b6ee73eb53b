/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the life of a segment under the scheduler. Never: removes a segment that is still needed. */
#include "vgpu.h"

#include <errno.h>
#include <facet/limiter.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "limiter/refused.h"

void vgpu_segment_path(const struct registry *registry, const char *id, char *ret_path, size_t size)
{
    snprintf(ret_path, size, "%s/%s", registry->segments, id);
}

/* Fills in the device that the segment names: the whole device, or the part that the provider gave. */
static void fill_spec(const struct vgpu *vgpu, struct facet_owner_spec *spec)
{
    const struct facet_device_record *device = vgpu->device;
    const struct vgpu_slice *slice = &vgpu->row.slice;

    *spec = (struct facet_owner_spec){
        .vgpu_id = vgpu->row.id,
        .vgpu_name = vgpu->row.name,
        .device.memory_bytes = slice->memory_bytes ? slice->memory_bytes : device->info.memory_bytes,
        .limits = vgpu->row.limits,
        .oversubscribed = vgpu->row.oversubscribe,
    };
    snprintf(spec->device.id, sizeof spec->device.id, "%s",
             slice->partition_uuid[0] ? slice->partition_uuid : device->id);
    snprintf(spec->device.name, sizeof spec->device.name, "%s", device->info.name);
    snprintf(spec->device.address, sizeof spec->device.address, "%s",
             slice->address[0] ? slice->address : device->info.address);
}

/* Hands `owner` to the scheduler, or closes it. */
static enum facet_status schedule_vgpu(struct registry *registry, struct vgpu *vgpu, struct facet_owner *owner,
                                       struct facet_error *error)
{
    enum facet_status status = scheduler_add(registry->parts.scheduler, vgpu->device->id, vgpu->row.id, owner,
                                             &vgpu->row.limits, vgpu->row.frozen, error);

    if (status != FACET_OK)
        facet_owner_close(owner);
    else /* fails only for a vGPU that the scheduler does not have */
        scheduler_set_idle_freeze(registry->parts.scheduler, vgpu->row.id, FACET_RESOURCE_COMPUTE,
                                  vgpu->row.idle_freeze_s * FACET_NS_PER_S, NULL);
    vgpu->scheduled = status == FACET_OK;
    return status;
}

/* A vGPU's segment folder, its expected content, and its device's lock file. */
struct segment {
    char dir[FACET_PATH_SIZE], lock[FACET_PATH_SIZE];
    struct facet_owner_spec spec;
};

static enum facet_status describe_segment(struct registry *registry, const struct vgpu *vgpu, struct segment *segment,
                                          struct facet_error *error)
{
    vgpu_segment_path(registry, vgpu->row.id, segment->dir, sizeof segment->dir);
    fill_spec(vgpu, &segment->spec);
    return scheduler_device_lock(registry->parts.scheduler, vgpu->device->id, segment->lock, sizeof segment->lock,
                                 error);
}

/*
 * Lets the users of a container's processes in, whom the daemon cannot know: a program of user 1000, or of a user
 * namespace. The folder above the segments has mode 0700, so only a mount leads a process of another user here, and in
 * that mount the folder and `policy` are read-only (workload.c).
 */
static enum facet_status admit_container_users(const char *dir, struct facet_error *error)
{
    static const struct {
        const char *file;
        mode_t mode;
    } modes[] = {{".", 0755}, {"policy", 0644}, {"usage", 0666}, {FACET_REFUSED_FILE, 0666}};
    FACET_CLEANUP_FD int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        FACET_CLEANUP_FD int fd =
            dir_fd < 0 ? -1 : openat(dir_fd, modes[i].file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        if (fd < 0 || fchmod(fd, modes[i].mode) < 0)
            return facet_error_errno(error, errno, "setting the mode of '%s' in segment folder '%s'", modes[i].file,
                                     dir);
    }
    return FACET_OK;
}

enum facet_status vgpu_install(struct registry *registry, struct vgpu *vgpu, struct facet_error *error)
{
    struct facet_owner *owner = NULL;
    struct segment segment;

    enum facet_status status = describe_segment(registry, vgpu, &segment, error);
    if (status == FACET_OK)
        status = facet_owner_create(segment.dir, &segment.spec, segment.lock, &owner, error);
    if (status != FACET_OK)
        return status;
    status = admit_container_users(segment.dir, error);
    if (status == FACET_OK)
        status = schedule_vgpu(registry, vgpu, owner, error);
    else
        facet_owner_close(owner);
    if (status != FACET_OK)
        facet_owner_remove(segment.dir, NULL);
    return status;
}

enum facet_status vgpu_adopt(struct registry *registry, struct vgpu *vgpu, struct facet_error *error)
{
    struct facet_owner *owner = NULL;
    struct segment segment;

    enum facet_status status = describe_segment(registry, vgpu, &segment, error);
    if (status == FACET_OK)
        status = facet_owner_link_device(segment.dir, segment.lock, error);
    if (status == FACET_OK)
        status = facet_owner_adopt(segment.dir, &segment.spec, &owner, error);
    if (status != FACET_OK)
        return status;
    status = admit_container_users(segment.dir, error);
    if (status == FACET_OK)
        return schedule_vgpu(registry, vgpu, owner, error);
    facet_owner_close(owner);
    return status;
}

/* Refuses everything to the processes in a segment that cannot be adopted. */
static enum facet_status retire_processes(const struct vgpu *vgpu, const char *dir, struct facet_error *error)
{
    struct facet_process_identity process;

    if (!vgpu->lost.pid)
        return facet_segment_retire(dir, error);
    return facet_segment_find_lost(dir, vgpu->row.id, true, &process)
               ? FACET_OK
               : facet_error_set(error, FACET_PERMISSION, "only root can reach the removed segment of process %u",
                                 vgpu->lost.pid);
}

enum facet_status vgpu_withdraw(struct registry *registry, struct vgpu *vgpu, struct facet_error *error)
{
    char dir[FACET_PATH_SIZE];
    struct facet_error reason;
    enum facet_status status = FACET_OK;

    vgpu_segment_path(registry, vgpu->row.id, dir, sizeof dir);
    if (vgpu->scheduled)
        status = scheduler_remove(registry->parts.scheduler, vgpu->row.id, error);
    else if (vgpu->damaged && retire_processes(vgpu, dir, &reason) != FACET_OK)
        facet_log(FACET_LOG_WARNING, "the processes of vGPU %s go on without limits: %s", vgpu->row.name,
                  reason.message);
    if (status != FACET_OK)
        return status;
    vgpu->scheduled = false;
    return facet_owner_remove(dir, error);
}

/* Whether the locks of the segment, which may be damaged, show a process or holder. */
static bool segment_in_use(const struct registry *registry, const char *id)
{
    char dir[FACET_PATH_SIZE];
    bool in_use = false;

    vgpu_segment_path(registry, id, dir, sizeof dir);
    return facet_segment_in_use(dir, &in_use, NULL) == FACET_OK && in_use;
}

bool vgpu_in_use(struct registry *registry, const struct vgpu *vgpu)
{
    struct scheduler_view view;

    if (vgpu->scheduled && scheduler_view(registry->parts.scheduler, vgpu->row.id, &view, NULL) == FACET_OK)
        return view.in_use;
    if (vgpu->lost.pid)
        return facet_process_lives(&vgpu->lost);
    return segment_in_use(registry, vgpu->row.id);
}
