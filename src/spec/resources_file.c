/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: resource files on disk, by the descriptor of their folder. Never: leaves a file that is half written. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/quiet.h"
#include "spec/resources.h"

enum { NAME_SIZE = 256, ATTEMPTS = 16 };

static enum facet_status check_name(const char *name, struct facet_error *error)
{
    /* A draft's name is this name with a dot before it and a number after it (open_draft()). */
    if (name && name[0] && name[0] != '.' && !strchr(name, '/') && strlen(name) < NAME_SIZE - 32)
        return FACET_OK;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "name",
                                "name '%.80s': expected a file's name without a slash or a dot in front",
                                name ? name : "NULL");
}

/*
 * Makes a new file next to the file that it will replace. The new file's name has a random number instead of the
 * process id: a process of another container may have the same id, and may have left its draft when it was killed.
 */
static int open_draft(int folder, const char *name, char ret_draft[NAME_SIZE])
{
    int fd = -1;

    for (int attempt = 0; fd < 0 && attempt < ATTEMPTS; attempt++) {
        uint64_t number;
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
            return -1;
        snprintf(ret_draft, NAME_SIZE, ".%s.%016" PRIx64, name, number);
        fd = openat(folder, ret_draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 && errno != EEXIST)
            return -1;
    }
    return fd;
}

static bool write_all(int fd, const char *text, size_t bytes)
{
    FACET_QUIET struct facet_quiet quiet =
        facet_quiet_begin(); /* blocks SIGPIPE and SIGXFSZ: the write fails instead */

    while (bytes > 0) {
        ssize_t written = write(fd, text, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        text += written;
        bytes -= (size_t)written;
    }
    return fsync(fd) == 0;
}

/* Writes the draft to the disk, renames it, then syncs the folder that has the name. */
static enum facet_status replace_file(int folder, const char *name, const char *text, size_t bytes,
                                      struct facet_error *error)
{
    char draft[NAME_SIZE];
    FACET_CLEANUP_FD int fd = open_draft(folder, name, draft);

    if (fd < 0)
        return facet_error_errno(error, errno, "cannot make a file beside '%.80s'", name);
    bool written = write_all(fd, text, bytes);
    int why = errno;
    if (!written || renameat(folder, draft, folder, name) < 0) {
        why = written ? errno : why;
        unlinkat(folder, draft, 0);
        return facet_error_errno(error, why, "cannot write '%.80s'", name);
    }
    if (fsync(folder) < 0)
        return facet_error_errno(
            error, errno,
            "'%.80s' is written, but its folder could not be synced: after a power failure the former file "
            "may be back; save again",
            name);
    return FACET_OK;
}

enum facet_status facet_resources_save(const struct facet_resources *resources, int folder, const char *name,
                                       struct facet_error *error)
{
    FACET_CLEANUP_FREE char *text = NULL;
    size_t bytes = 0;
    enum facet_status status = check_name(name, error);

    if (status == FACET_OK)
        status = facet_resources_format(resources, &text, &bytes, error);
    return status == FACET_OK ? replace_file(folder, name, text, bytes, error) : status;
}

static enum facet_status read_all(int fd, const char *name, char **ret_text, size_t *ret_bytes,
                                  struct facet_error *error)
{
    FACET_CLEANUP_GROWING struct facet_growing text = {0};
    char block[4096];
    ssize_t got;

    while ((got = read(fd, block, sizeof block)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return facet_error_errno(error, errno, "cannot read '%.80s'", name);
        facet_growing_add(&text, block, (size_t)got);
        if (text.length > FACET_RESOURCES_BYTES)
            return facet_error_argument(error, FACET_CORRUPT, "resources",
                                        "'%.80s' is too long, expected at most 16 MiB", name);
    }
    facet_growing_add(&text, "", 0);
    if (text.failed)
        return facet_json_no_memory(error);
    *ret_bytes = text.length;
    *ret_text = FACET_TAKE_PTR(text.text);
    return FACET_OK;
}

enum facet_status facet_resources_load(int folder, const char *name, struct facet_resources **ret_resources,
                                       struct facet_error *error)
{
    FACET_CLEANUP_FREE char *text = NULL;
    size_t bytes = 0;
    struct stat info;
    enum facet_status status = check_name(name, error);

    if (status != FACET_OK)
        return status;
    /* O_NONBLOCK: there may be a pipe in the file's place. */
    FACET_CLEANUP_FD int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) < 0)
        return facet_error_errno(error, errno, "cannot read '%.80s'", name);
    if (!S_ISREG(info.st_mode))
        return facet_error_argument(error, FACET_CORRUPT, "resources", "'%.80s': expected a regular file", name);
    status = read_all(fd, name, &text, &bytes, error);
    if (status == FACET_OK)
        status = facet_resources_parse(text, bytes, ret_resources, error);
    if (status != FACET_OK && status != FACET_NO_MEMORY)
        facet_error_prefix(error, "'%.80s'", name);
    return status;
}
