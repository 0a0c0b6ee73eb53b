/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: files of one compile. Never: follows another user's link; the folder is of mode 0700. */
#include "kernel/compile/files.h"

#include <dirent.h>
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
#include "base/paths.h"

#define FOLDER_PREFIX "facet-compile-"

enum { UNLOCKED_AGE_S = 60 }; /* a younger folder may not be locked yet */

static void remove_files(int folder)
{
    FACET_CLEANUP_DIR DIR *list = fdopendir(dup(folder));
    const struct dirent *file;

    while (list && (file = readdir(list)))
        (void)unlinkat(folder, file->d_name, 0); /* "." and ".." stay */
}

static void remove_unused(int place, const char *name)
{
    FACET_CLEANUP_FD int folder = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat info;

    if (folder < 0 || fstat(folder, &info) < 0 || info.st_uid != geteuid() ||
        info.st_mtime > time(NULL) - UNLOCKED_AGE_S || flock(folder, LOCK_EX | LOCK_NB) < 0)
        return;
    remove_files(folder);
    (void)unlinkat(place, name, AT_REMOVEDIR);
}

static void remove_stale_folders(const char *place)
{
    FACET_CLEANUP_DIR DIR *list = opendir(place);
    const struct dirent *one;

    while (list && (one = readdir(list)))
        if (strncmp(one->d_name, FOLDER_PREFIX, strlen(FOLDER_PREFIX)) == 0)
            remove_unused(dirfd(list), one->d_name);
}

enum facet_status facet_folder_make(struct facet_folder *ret_folder, struct facet_error *error)
{
    const char *const places[] = {"/dev/shm", getenv("TMPDIR"), "/tmp"};
    struct facet_folder folder;
    const char *why = NULL;

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (!places[i] || snprintf(folder.path, sizeof folder.path, "%s/" FOLDER_PREFIX "XXXXXX", places[i]) >=
                              (int)sizeof folder.path)
            continue;
        if (!mkdtemp(folder.path))
            continue;
        /* The linker's output is run later, so a folder that other users could exchange is refused. */
        if (facet_path_trust_folder(folder.path, error) != FACET_OK) {
            why = "other users could exchange it";
            (void)rmdir(folder.path);
            continue;
        }
        folder.lock = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (folder.lock >= 0)
            (void)flock(folder.lock, LOCK_EX | LOCK_NB);
        remove_stale_folders(places[i]);
        *ret_folder = folder;
        return FACET_OK;
    }
    if (why)
        return facet_error_set(error, FACET_PERMISSION, "no folder is made in /dev/shm, $TMPDIR or /tmp: %s", why);
    return facet_error_errno(error, errno, "cannot make a folder in /dev/shm, $TMPDIR or /tmp");
}

void facet_folder_remove(const struct facet_folder *folder)
{
    if (!folder->path[0])
        return;
    FACET_CLEANUP_FD int again = open(folder->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (again >= 0)
        remove_files(again);
    (void)rmdir(folder->path);
    if (folder->lock >= 0)
        close(folder->lock);
}

enum facet_status facet_file_write(const char *path, const void *bytes, size_t size, struct facet_error *error)
{
    FACET_CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return facet_error_errno(error, errno, "cannot make %s", path);
    for (size_t done = 0; done < size;) {
        ssize_t wrote = write(fd, (const char *)bytes + done, size - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return facet_error_errno(error, wrote ? errno : ENOSPC, "cannot write %s", path);
        done += (size_t)wrote;
    }
    return FACET_OK;
}

enum facet_status facet_file_read(const char *path, void **ret_bytes, size_t *ret_size, struct facet_error *error)
{
    FACET_CLEANUP_FILE FILE *file = fopen(path, "re");
    struct stat info;

    if (!file || fstat(fileno(file), &info) < 0)
        return facet_error_errno(error, errno, "cannot read %s", path);
    void *bytes = malloc((size_t)info.st_size + 1);
    if (!bytes)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %s", path);
    if (fread(bytes, 1, (size_t)info.st_size, file) != (size_t)info.st_size) {
        free(bytes);
        return facet_error_set(error, FACET_IO, "cannot read all of %s", path);
    }
    *ret_bytes = bytes;
    *ret_size = (size_t)info.st_size;
    return FACET_OK;
}
