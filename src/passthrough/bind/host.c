/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the operations on the real host, except writes. Never: creates a file, or follows a link, outside `root` and
 * the directory of journals.
 */
#include "passthrough/bind/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/quiet.h"
#include "passthrough/scan/tree.h"

static enum facet_status host_scan(struct bind_host *host, struct facet_pci_snapshot **ret_snapshot,
                                   struct facet_error *error)
{
    /* Every PCI function can be bound, not only accelerators. */
    const struct facet_pci_scan_config config = {
        .size = sizeof config, .flags = FACET_PCI_SCAN_HOLDERS | FACET_PCI_SCAN_ALL, .root = host->root};

    return facet_pci_scan(&config, ret_snapshot, error);
}

static int host_own(struct bind_host *host, const char *path, uid_t uid, gid_t gid)
{
    struct stat status;
    FACET_CLEANUP_FD int fd = tree_open_path(host->root, path);

    if (fd < 0)
        return errno;
    if (fstat(fd, &status) < 0)
        return errno;
    if (!S_ISCHR(status.st_mode))
        return ENOTTY; /* the file is no node of vfio */
    return fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0 ? errno : 0;
}

/* ---- locks and files ---- */

enum { LOCK_POLL_NS = 20000000 };

static int host_lock(struct bind_host *host, const char *name, uint64_t deadline_ns, int *ret_fd)
{
    FACET_CLEANUP_FD int fd = openat(host->state, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    uint64_t end = facet_clock_now_ns() + deadline_ns;

    if (fd < 0)
        return errno;
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return errno;
        if (facet_clock_now_ns() >= end)
            return EBUSY;
        nanosleep(&(struct timespec){.tv_nsec = LOCK_POLL_NS}, NULL);
    }
    *ret_fd = FACET_TAKE_FD(fd);
    return 0;
}

static int host_create(struct bind_host *host, const char *name, int *ret_fd)
{
    int fd;

    /* A crash may have left any kind of file under that name: opening a pipe would block. */
    if (unlinkat(host->state, name, 0) < 0 && errno != ENOENT)
        return errno;
    fd = openat(host->state, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno;
    *ret_fd = fd;
    return 0;
}

static int host_append(struct bind_host *host, int fd, const char *bytes, size_t size)
{
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();

    while (size > 0) {
        ssize_t count = write(fd, bytes, size);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return errno;
        bytes += count;
        size -= (size_t)count;
    }
    return 0;
}

static int sync_file(struct bind_host *host, int fd)
{
    return fsync(fd) < 0 ? errno : 0;
}

static int rename_file(struct bind_host *host, const char *from, const char *to)
{
    return renameat(host->state, from, host->state, to) < 0 ? errno : 0;
}

static int remove_file(struct bind_host *host, const char *name)
{
    return unlinkat(host->state, name, 0) < 0 ? errno : 0;
}

const struct bind_host_ops bind_host_real = {
    .scan = host_scan,
    .write = bind_write,
    .load = bind_load,
    .set_owner = host_own,
    .lock = host_lock,
    .create = host_create,
    .append = host_append,
    .sync = sync_file,
    .rename = rename_file,
    .remove = remove_file,
};

/* ---- reading ---- */

/* The start time is the 22nd word of /proc/PID/stat; the 2nd, the name in brackets, may hold blanks and brackets. */
uint64_t bind_start_of(int root, int64_t pid)
{
    char path[40], line[1024];
    const char *word;

    snprintf(path, sizeof path, "proc/%lld/stat", (long long)pid);
    if (tree_read_text_cut(root, path, line, sizeof line) != FACET_PCI_READ)
        return 0;
    word = strrchr(line, ')');
    for (int i = 2; word && i < 22; i++) {
        word = strchr(word + 1, ' ');
        /* A zombie counts as ended, because its write has returned. */
        if (word && i == 2 && word[1] == 'Z')
            return 0;
    }
    return word ? strtoull(word + 1, NULL, 10) : 0;
}

bool bind_is_alive(const struct bind_host *host, const struct bind_stuck *stuck)
{
    return stuck->pid > 0 && stuck->start != 0 && bind_start_of(host->root, stuck->pid) == stuck->start;
}

void bind_read_owner(const struct bind_host *host, const char *path, char *text, size_t size)
{
    FACET_CLEANUP_FD int fd = tree_open_path(host->root, path);
    struct stat status;

    text[0] = '\0';
    if (fd >= 0 && fstat(fd, &status) == 0)
        snprintf(text, size, "%u:%u", (unsigned)status.st_uid, (unsigned)status.st_gid);
}

void bind_read_boot_id(const struct bind_host *host, char *text, size_t size)
{
    tree_read_text(host->root, "proc/sys/kernel/random/boot_id", text, size);
}
