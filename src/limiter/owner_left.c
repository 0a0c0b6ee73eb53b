/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the functions for a segment folder that has no owner and may be too damaged to be adopted.
 * Never: trusts the content of its files.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "limiter/owner_inside.h"
#include "limiter/slot.h"

static enum facet_status open_folder(const char *dir, int *ret_fd, struct facet_error *error)
{
    *ret_fd = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_fd < 0 ? facet_error_errno(error, errno, "opening segment folder '%s'", dir) : FACET_OK;
}

/* The locks do not depend on the content: the kernel keeps them when the file is overwritten or truncated. */
enum facet_status facet_segment_in_use(const char *dir, bool *ret_in_use, struct facet_error *error)
{
    FACET_CLEANUP_FD int dir_fd = -1;

    enum facet_status status = open_folder(dir, &dir_fd, error);
    if (status != FACET_OK)
        return status;
    FACET_CLEANUP_FD int fd = openat(dir_fd, "usage", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return facet_error_errno(error, errno, "opening segment file 'usage' in '%s'", dir);
    *ret_in_use = facet_slot_locked(fd, FACET_HOLDER_LOCK_OFFSET, FACET_SLOT_LOCK_OFFSET(FACET_SEGMENT_SLOTS));
    return FACET_OK;
}

enum facet_status facet_segment_retire(const char *dir, struct facet_error *error)
{
    FACET_CLEANUP_FD int dir_fd = -1, fd = -1;
    void *policy = NULL;
    size_t size = 0;

    enum facet_status status = open_folder(dir, &dir_fd, error);
    if (status == FACET_OK)
        status = facet_segment_map(dir_fd, "policy", true, sizeof(struct facet_policy), &policy, &size, &fd, error);
    if (status != FACET_OK)
        return status;
    facet_owner_retire(&(struct facet_owner){.policy = policy});
    munmap(policy, size);
    return FACET_OK;
}
