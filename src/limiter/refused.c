/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading and writing the file of processes that could not enter; see refused.h. Never: follows a link, or trusts
 * the file to hold text.
 */
#include "limiter/refused.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/quiet.h"

static int open_file(const char *dir, int flags)
{
    FACET_CLEANUP_FD int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return dir_fd < 0 ? -1 : openat(dir_fd, FACET_REFUSED_FILE, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
}

/* The size in whole records; 0 if it is not a regular file. */
static off_t size_of(int fd)
{
    struct stat status;

    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return 0;
    return status.st_size / FACET_REFUSED_RECORD * FACET_REFUSED_RECORD;
}

void facet_refused_note(const char *dir, const char *reason)
{
    FACET_CLEANUP_FD int fd = open_file(dir, O_WRONLY | O_CREAT | O_APPEND);
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();
    char record[FACET_REFUSED_RECORD] = "";

    if (fd < 0 || size_of(fd) >= (off_t)FACET_REFUSED_MOST * FACET_REFUSED_RECORD)
        return;
    snprintf(record, sizeof record, "%s", reason);
    if (write(fd, record, sizeof record) < 0) /* a full disk: there is no other place to report to */
        return;
}

uint32_t facet_refused_read(const char *dir, char ret_reason[FACET_REFUSED_RECORD])
{
    FACET_CLEANUP_FD int fd = open_file(dir, O_RDONLY);
    off_t size = fd < 0 ? 0 : size_of(fd);

    memset(ret_reason, 0, FACET_REFUSED_RECORD);
    if (size == 0 || pread(fd, ret_reason, FACET_REFUSED_RECORD - 1, size - FACET_REFUSED_RECORD) <= 0)
        return 0;
    for (char *at = ret_reason; *at; at++)
        if ((unsigned char)*at < ' ' || (unsigned char)*at >= 0x7f)
            *at = '?';
    uint64_t count = (uint64_t)size / FACET_REFUSED_RECORD;
    return count < FACET_REFUSED_MOST ? (uint32_t)count : FACET_REFUSED_MOST;
}
