/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: taking the daemon's lock. Never: decides by the file's content: its process id is only for messages. */
#include "lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/paths.h"

static int read_pid(int fd)
{
    char text[16] = "";

    return pread(fd, text, sizeof text - 1, 0) > 0 ? atoi(text) : 0;
}

static enum facet_status write_pid(int fd, const char *path, struct facet_error *error)
{
    char text[16];
    int length = snprintf(text, sizeof text, "%d\n", getpid());

    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)length, 0) != length)
        return facet_error_errno(error, errno, "writing '%s'", path);
    return FACET_OK;
}

static void print_path(char *buffer, size_t size, const char *runtime_dir)
{
    snprintf(buffer, size, "%s/facetd.lock", runtime_dir);
}

enum facet_status lock_take(const char *runtime_dir, int *ret_fd, struct facet_error *error)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[FACET_PATH_SIZE + 16];

    print_path(path, sizeof path, runtime_dir);
    FACET_CLEANUP_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return facet_error_errno(error, errno, "opening '%s'", path);
    if (fcntl(fd, F_OFD_SETLK, &lock) < 0) {
        if (errno != EAGAIN && errno != EACCES)
            return facet_error_errno(error, errno, "locking '%s'", path);
        return facet_error_set(error, FACET_BUSY, "another facetd (process %d) has '%s'", read_pid(fd), path);
    }
    enum facet_status status = write_pid(fd, path, error);
    if (status == FACET_OK)
        *ret_fd = FACET_TAKE_FD(fd);
    return status;
}

/* The kernel grants a lock again to the open file that holds it. */
enum facet_status lock_confirm(int fd, struct facet_error *error)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat file;

    if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return FACET_OK;
    return facet_error_set(error, FACET_BAD_STATE,
                           "descriptor %d is no lock of this daemon: --resume is for facetd itself", fd);
}

bool lock_is_ours(const char *runtime_dir, int fd)
{
    char path[FACET_PATH_SIZE + 16];
    struct stat held, at_path;

    print_path(path, sizeof path, runtime_dir);
    return fstat(fd, &held) == 0 && lstat(path, &at_path) == 0 && held.st_dev == at_path.st_dev &&
           held.st_ino == at_path.st_ino;
}
