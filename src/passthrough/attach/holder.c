/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: searching /proc for processes that have a device node open. Never: counts an unreadable process as one without
 * the node.
 */
#include <facet/attach.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define POLL_NS (10 * FACET_NS_PER_MS)

static bool is_node(const char *target, const char *const *nodes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(target, nodes[i]) == 0)
            return true;
    return false;
}

/* Whether a process has one of the nodes open. When false, errno is 0 if all its descriptors were read. */
static bool process_holds(int root, const char *process, const char *const *nodes, uint32_t count)
{
    char path[64], target[PATH_MAX];

    snprintf(path, sizeof path, "proc/%.40s/fd", process);
    FACET_CLEANUP_FD int fd = openat(root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FACET_CLEANUP_DIR DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (!folder)
        return false;
    (void)FACET_TAKE_FD(fd); /* owned by `folder` from here */
    for (const struct dirent *entry; errno = 0, (entry = readdir(folder));) {
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        if (length <= 0)
            continue;
        target[length] = '\0';
        if (is_node(target, nodes, count))
            return true;
    }
    return false;
}

/* A process that ended during the scan does not count; any other error leaves the answer unknown. */
static bool is_unknown(int errnum)
{
    return errnum != 0 && errnum != ENOENT && errnum != ESRCH;
}

static enum facet_status refuse_unknown(int errnum, const char *process, struct facet_error *error)
{
    return facet_error_errno(error, errnum, "cannot read what process %s has open", process);
}

static enum facet_status find_any(int root, const char *const *nodes, uint32_t count, int64_t *ret_pid,
                                  struct facet_error *error)
{
    FACET_CLEANUP_FD int fd = openat(root, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FACET_CLEANUP_DIR DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    char unknown[32] = "";
    int why = 0;

    if (!folder)
        return facet_error_errno(error, errno, "cannot list processes");
    (void)FACET_TAKE_FD(fd); /* owned by `folder` from here */
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        if (process_holds(root, entry->d_name, nodes, count)) {
            *ret_pid = strtoll(entry->d_name, NULL, 10);
            return FACET_OK;
        }
        if (is_unknown(errno)) {
            why = errno;
            snprintf(unknown, sizeof unknown, "%.31s", entry->d_name);
        }
    }
    if (why)
        return refuse_unknown(why, unknown, error);
    *ret_pid = 0;
    return FACET_OK;
}

enum facet_status facet_attach_find_holder(int root, int64_t pid, const char *const *nodes, uint32_t count,
                                           int64_t *ret_pid, struct facet_error *error)
{
    char process[32];

    if (pid == 0)
        return find_any(root, nodes, count, ret_pid, error);
    snprintf(process, sizeof process, "%" PRId64, pid);
    bool found = process_holds(root, process, nodes, count);
    if (!found && is_unknown(errno))
        return refuse_unknown(errno, process, error);
    *ret_pid = found ? pid : 0;
    return FACET_OK;
}

enum facet_status facet_attach_wait_closed(int root, int64_t pid, const char *const *nodes, uint32_t count,
                                           uint64_t deadline_ns, struct facet_error *error)
{
    const struct timespec pause = facet_ns_timespec(POLL_NS);

    for (;;) {
        int64_t holder = 0;
        enum facet_status status = facet_attach_find_holder(root, pid, nodes, count, &holder, error);
        if (status != FACET_OK || !holder)
            return status;
        if (facet_clock_now_ns() >= deadline_ns)
            return facet_error_set(error, FACET_TIMEOUT, "process %" PRId64 " still has '%.80s' open", holder,
                                   count ? nodes[0] : "");
        nanosleep(&pause, NULL);
    }
}
