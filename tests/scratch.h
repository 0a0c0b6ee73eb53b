/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders and files of tests, in memory if possible, which are cleaned up even after a killed test.
 *
 * A folder stays locked while its creator, or a child of its creator, lives. The process that makes the next folder of
 * a kind removes the unlocked folders of that kind. A file has no name in any folder, and disappears when the last
 * process that has it open closes it.
 *
 * Owns: making, locking and removing folders, by one process at a time, which locks the parent folder; making files.
 * Never: removes a folder of a running test, even in another PID namespace: the kernel knows the lock.
 */
#ifndef FACET_TEST_SCRATCH_H
#define FACET_TEST_SCRATCH_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCRATCH_PREFIX "facet-scratch-"

static inline int scratch_open_up(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    return type == FTW_DNR ? chmod(path, 0700) : 0;
}

static inline int scratch_remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    return remove(path);
}

/* Removes a folder with its contents, even if folders in it are unreadable. */
static inline bool scratch_remove(const char *path)
{
    nftw(path, scratch_open_up, 16, FTW_PHYS);
    return nftw(path, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0;
}

static inline bool scratch_lock(int fd, int how)
{
    while (flock(fd, how) != 0)
        if (errno != EINTR)
            return false;
    return true;
}

/* Removes the unlocked folders of this kind that this user may remove. */
static inline void scratch_sweep(int parent_fd, const char *parent, const char *kind)
{
    char prefix[64], path[512];
    DIR *all = fdopendir(dup(parent_fd));
    struct dirent *entry;

    snprintf(prefix, sizeof prefix, SCRATCH_PREFIX "%s-", kind);
    while (all && (entry = readdir(all))) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        int fd = openat(parent_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && scratch_lock(fd, LOCK_EX | LOCK_NB)) {
            snprintf(path, sizeof path, "%s/%s", parent, entry->d_name);
            scratch_remove(path);
        }
        if (fd >= 0)
            close(fd);
    }
    if (all)
        closedir(all);
}

/* Makes a folder. Returns the descriptor that locks it, or -1 with errno. Close the descriptor after removing the
 * folder. */
static inline int scratch_folder(const char *kind, char *path, size_t size)
{
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    int parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC), folder = -1;

    if (parent_fd >= 0 && scratch_lock(parent_fd, LOCK_EX)) {
        scratch_sweep(parent_fd, parent, kind);
        if ((size_t)snprintf(path, size, "%s/" SCRATCH_PREFIX "%s-XXXXXX", parent, kind) < size && mkdtemp(path))
            folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (folder >= 0)
            scratch_lock(folder, LOCK_SH);
    }
    if (parent_fd >= 0)
        close(parent_fd);
    return folder;
}

/* Makes a file that this user's processes find at `path` while this process lives. Returns its descriptor, or -1 with
 * errno. */
static inline int scratch_file(char *path, size_t size)
{
    int file = memfd_create("facet-scratch", MFD_CLOEXEC);

    snprintf(path, size, "/proc/%d/fd/%d", (int)getpid(), file);
    return file;
}

#endif
