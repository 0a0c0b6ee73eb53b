/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading the folder of published drivers. Never: removes the files of a driver that holds its lock. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/paths.h"
#include "vgpu/published.h"

#define TEXT_MAX    ((size_t)8 << 20) /* bytes of a text; a longer one is not read */
#define DRIVERS_MAX 256u              /* published drivers that are read */

enum facet_status facet_published_folder(char *ret_path, size_t size, struct facet_error *error)
{
    enum facet_status status = facet_path_runtime(ret_path, size, error);
    size_t length = status == FACET_OK ? strlen(ret_path) : 0;

    if (status == FACET_OK && (size_t)snprintf(ret_path + length, size - length, "/drivers") >= size - length)
        status = facet_error_set(error, FACET_OUT_OF_RANGE, "the runtime folder's path is too long");
    return status;
}

/* Opens a regular file only, without blocking: the folder may hold anything. */
static int open_file(int folder, const char *name)
{
    FACET_CLEANUP_FD int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat info;

    return fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? FACET_TAKE_FD(fd) : -1;
}

/* Reads a published text. The text is complete, because the driver replaces the file and never writes to it. */
static char *read_file(int folder, const char *name, size_t *ret_length)
{
    FACET_CLEANUP_FD int fd = open_file(folder, name);
    struct stat info;

    if (fd < 0 || fstat(fd, &info) != 0 || (size_t)info.st_size > TEXT_MAX)
        return NULL;
    char *text = malloc((size_t)info.st_size + 1);
    size_t done = 0;

    while (text && done < (size_t)info.st_size) {
        ssize_t got = read(fd, text + done, (size_t)info.st_size - done);

        if (got <= 0)
            break;
        done += (size_t)got;
    }
    *ret_length = done;
    return text;
}

/* Whether no process holds the lock, so that the driver is gone. Both files are then removed under the lock. */
static bool is_left_behind(int folder, const char *lock, const char *text)
{
    FACET_CLEANUP_FD int fd = open_file(folder, lock);

    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0)
        return false;
    unlinkat(folder, text, 0);
    unlinkat(folder, lock, 0);
    return true;
}

/* Parses "4711-0.lock" and makes "4711-0.json". The process is taken from the name, because a text may state any. */
static bool parse_names(const char *name, char *ret_text, size_t size, struct facet_published *ret_driver)
{
    int length = 0;

    if (sscanf(name, "%" SCNi64 "-%" SCNu32 "%n", &ret_driver->pid, &ret_driver->number, &length) != 2 ||
        strcmp(name + length, ".lock") != 0)
        return false;
    return (size_t)snprintf(ret_text, size, "%.*s.json", length, name) < size;
}

static bool read_driver(int folder, const char *lock, struct facet_published *ret_driver)
{
    struct facet_published named_driver = {0};
    char name[300];
    size_t length = 0;

    if (!parse_names(lock, name, sizeof name, &named_driver) || is_left_behind(folder, lock, name))
        return false;
    FACET_CLEANUP_FREE char *text = read_file(folder, name, &length);
    if (!text) /* the driver has just been opened, or closes */
        return false;
    struct facet_error reason;
    struct facet_published driver = {0};
    if (facet_published_parse(text, length, &driver, &reason) != FACET_OK)
        snprintf(driver.refusal, sizeof driver.refusal, "%.*s", (int)sizeof driver.refusal - 1, reason.message);
    driver.pid = named_driver.pid;
    driver.number = named_driver.number;
    *ret_driver = driver;
    return true;
}

enum facet_status facet_published_read(struct facet_published **ret_drivers, uint32_t *ret_count,
                                       struct facet_error *error)
{
    char path[FACET_PATH_SIZE];
    enum facet_status status = facet_published_folder(path, sizeof path, error);
    struct facet_published *drivers;
    uint32_t count = 0;
    struct dirent *entry;

    if (status == FACET_OK)
        status = facet_path_trust_chosen(path, FACET_SETTING_RUNTIME_DIR, error);
    if (status != FACET_OK && status != FACET_NOT_FOUND)
        return status;
    FACET_CLEANUP_DIR DIR *folder = status == FACET_OK ? opendir(path) : NULL;
    if (!folder && status == FACET_OK)
        return facet_error_errno(error, errno, "%s", path);
    drivers = calloc(DRIVERS_MAX, sizeof *drivers);
    if (!drivers)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a list of published drivers");
    while (folder && count < DRIVERS_MAX && (entry = readdir(folder)))
        count += read_driver(dirfd(folder), entry->d_name, &drivers[count]);
    *ret_drivers = drivers;
    *ret_count = count;
    return FACET_OK;
}

void facet_published_free(struct facet_published *drivers, uint32_t count)
{
    for (uint32_t i = 0; drivers && i < count; i++)
        facet_published_clear(&drivers[i]);
    free(drivers);
}
