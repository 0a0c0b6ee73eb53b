/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading and writing the file of processes that could not enter; see refused.h. Never: follows a link, or
 * believes a damaged record.
 */
#include "limiter/refused.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/quiet.h"

#define REFUSED_MAGIC UINT64_C(0x3055464552434146) /* "FACREFU0" */

/* Processes can write the file, also by mistake: a record is believed only if its checksum (FNV-1a) is right. */
struct record {
    uint64_t magic;
    uint32_t checksum;
    char reason[FACET_REFUSED_REASON_SIZE];
};
_Static_assert(sizeof(struct record) == FACET_REFUSED_RECORD_SIZE, "records lie at multiples of their size");

#define READ_AT_ONCE 16u /* records */
#define LARGEST_FILE ((off_t)FACET_REFUSED_RECORDS_MAX * FACET_REFUSED_RECORD_SIZE)

static uint32_t checksum_of(const struct record *record)
{
    uint32_t checksum = 2166136261u;

    for (size_t i = 0; i < sizeof record->reason; i++)
        checksum = (checksum ^ (unsigned char)record->reason[i]) * 16777619u;
    return checksum;
}

static bool is_printable(char letter)
{
    return letter >= ' ' && letter < 0x7f;
}

static bool is_valid(const struct record *record)
{
    size_t length = strnlen(record->reason, sizeof record->reason);

    if (record->magic != REFUSED_MAGIC || record->checksum != checksum_of(record) || length == sizeof record->reason)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!is_printable(record->reason[i]))
            return false;
    return true;
}

static int open_file(const char *dir, int flags)
{
    FACET_CLEANUP_FD int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return dir_fd < 0 ? -1 : openat(dir_fd, FACET_REFUSED_FILE, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
}

/* Returns the file's size; -1: it is not a regular file. */
static off_t size_of(int fd)
{
    struct stat status;

    return fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) ? -1 : status.st_size;
}

enum facet_status facet_refused_make(int dir_fd, int *ret_fd, struct facet_error *error)
{
    struct stat present;
    bool exists = fstatat(dir_fd, FACET_REFUSED_FILE, &present, AT_SYMLINK_NOFOLLOW) == 0;

    *ret_fd = openat(dir_fd, FACET_REFUSED_FILE,
                     O_WRONLY | (exists ? 0 : O_CREAT | O_EXCL) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    /* A folder, link or pipe in the place of the file: facet_refused_read() says so. */
    if (*ret_fd >= 0 || (exists && !S_ISREG(present.st_mode)))
        return FACET_OK;
    return facet_error_errno(error, errno, "creating segment file '%s'", FACET_REFUSED_FILE);
}

void facet_refused_bound(int fd)
{
    if (fd >= 0 && size_of(fd) > LARGEST_FILE && ftruncate(fd, LARGEST_FILE) < 0)
        return; /* on the next call again */
}

/* Whether the limit on file sizes (ulimit -f) allows `size` bytes: otherwise only a part of the record is written. */
static bool may_grow_to(off_t size)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || (rlim_t)size <= limit.rlim_cur;
}

void facet_refused_note(const char *dir, const char *reason)
{
    FACET_CLEANUP_FD int fd = open_file(dir, O_WRONLY | O_CREAT | O_APPEND);
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();
    off_t size = fd < 0 ? -1 : size_of(fd);
    struct record record = {.magic = REFUSED_MAGIC};

    if (size < 0 || size >= LARGEST_FILE || !may_grow_to(size + FACET_REFUSED_RECORD_SIZE))
        return;
    snprintf(record.reason, sizeof record.reason, "%s", reason);
    for (char *letter = record.reason; *letter; letter++)
        if (!is_printable(*letter))
            *letter = '?';
    record.checksum = checksum_of(&record);
    if (write(fd, &record, sizeof record) < 0) /* a full disk: there is no other place to report to */
        return;
}

/* Counts records until the end of the file or FACET_REFUSED_RECORDS_MAX. False: a record is damaged or incomplete. */
static bool count_records(int fd, uint32_t *ret_count, char ret_reason[FACET_REFUSED_REASON_SIZE])
{
    struct record records[READ_AT_ONCE];
    uint32_t count = 0;
    ssize_t got;

    while (count < FACET_REFUSED_RECORDS_MAX &&
           (got = pread(fd, records, sizeof records, (off_t)count * FACET_REFUSED_RECORD_SIZE)) != 0) {
        if (got < 0 || got % FACET_REFUSED_RECORD_SIZE)
            return false;
        for (size_t i = 0; i < (size_t)got / FACET_REFUSED_RECORD_SIZE; i++, count++) {
            if (!is_valid(&records[i]))
                return false;
            memcpy(ret_reason, records[i].reason, FACET_REFUSED_REASON_SIZE);
        }
    }
    *ret_count = count;
    return true;
}

bool facet_refused_read(const char *dir, uint32_t *ret_count, char ret_reason[FACET_REFUSED_REASON_SIZE])
{
    FACET_CLEANUP_FD int fd = open_file(dir, O_RDONLY);
    bool missing = fd < 0 && errno == ENOENT;

    *ret_count = 0;
    memset(ret_reason, 0, FACET_REFUSED_REASON_SIZE);
    if (missing || (fd >= 0 && size_of(fd) >= 0 && count_records(fd, ret_count, ret_reason)))
        return true;
    memset(ret_reason, 0, FACET_REFUSED_REASON_SIZE);
    return false;
}
