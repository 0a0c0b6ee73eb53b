/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the lock file of a device, which its vGPUs' segments link to, and segments of version 7.
 * Never: maps the lock file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "limiter/owner_inside.h"
#include "limiter/slot.h"

/*
 * Processes in segments of version 7 lock the device's doorbell, <device>.bell. While it is there, the lock file is a
 * link to it, so that processes in segments of both versions exclude each other.
 */
static enum facet_status link_old_bell(const char *path, bool *ret_linked, struct facet_error *error)
{
    char bell[FACET_DEVICE_PATH_SIZE];

    facet_device_bell_path(path, bell);
    *ret_linked = link(bell, path) == 0 || errno == EEXIST;
    return *ret_linked || errno == ENOENT ? FACET_OK : facet_error_errno(error, errno, "linking '%s'", bell);
}

void facet_device_bell_path(const char *lock_path, char ret_path[FACET_DEVICE_PATH_SIZE])
{
    size_t length = strlen(lock_path), ending = strlen(FACET_DEVICE_LOCK_ENDING);

    snprintf(ret_path, FACET_DEVICE_PATH_SIZE, "%.*s.bell", (int)(length > ending ? length - ending : 0), lock_path);
}

enum facet_status facet_device_lock_make(const char *path, struct facet_error *error)
{
    bool linked = false;

    enum facet_status status = link_old_bell(path, &linked, error);
    if (status != FACET_OK || linked)
        return status;
    FACET_CLEANUP_FD int fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);

    if (fd < 0 && errno == EEXIST)
        return FACET_OK;
    if (fd < 0 || fchmod(fd, 0444) < 0) /* whatever the umask is */
        return facet_error_errno(error, errno, "creating lock file '%s'", path);
    return FACET_OK;
}

enum facet_status facet_owner_link_device(const char *dir, const char *lock_path, struct facet_error *error)
{
    FACET_CLEANUP_FD int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat wanted, linked;

    if (dir_fd < 0)
        return facet_error_errno(error, errno, "opening segment folder '%s'", dir);
    if (stat(lock_path, &wanted) < 0)
        return facet_error_errno(error, errno, "looking at lock file '%s'", lock_path);
    if (fstatat(dir_fd, FACET_DEVICE_FILE, &linked, AT_SYMLINK_NOFOLLOW) == 0 && linked.st_dev == wanted.st_dev &&
        linked.st_ino == wanted.st_ino)
        return FACET_OK;
    unlinkat(dir_fd, FACET_DEVICE_FILE, 0);
    if (linkat(AT_FDCWD, lock_path, dir_fd, FACET_DEVICE_FILE, 0) < 0)
        return facet_error_errno(error, errno, "linking lock file '%s' into '%s'", lock_path, dir);
    return FACET_OK;
}

enum facet_status facet_bell_open(const char *path, struct facet_bell **ret_bell, struct facet_error *error)
{
    FACET_CLEANUP_FD int fd = -1;
    void *address;
    size_t size;

    enum facet_status status =
        facet_segment_map(AT_FDCWD, path, true, sizeof(struct facet_bell), &address, &size, &fd, error);
    if (status != FACET_OK)
        return status;
    status = facet_bell_check(address, size, path, error);
    if (status != FACET_OK) {
        munmap(address, size);
        return status;
    }
    *ret_bell = address;
    return FACET_OK;
}

void facet_bell_unmap(struct facet_bell *bell)
{
    if (bell)
        munmap(bell, sizeof *bell);
}

/*
 * The words that version 8 added are 0 in a file of version 7, as in a new one. A process that enters meanwhile has
 * read one version or the other, and both are served.
 */
void facet_segment_renew(struct facet_owner *owner)
{
    owner->usage->version = FACET_SEGMENT_VERSION;
    owner->policy->version = FACET_SEGMENT_VERSION;
}
