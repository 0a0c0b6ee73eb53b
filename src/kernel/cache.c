/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the folder, its entries, and the locks of keys. Never: follows a link in the folder. */
#include "kernel/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/paths.h"
#include "base/quiet.h"
#include "kernel/cache_entry.h"

enum { NAME_SIZE = 96 };
#define ENTRY_MAX     (UINT64_C(1) << 30)
#define LOCK_POLL_MIN (200 * FACET_NS_PER_US)
#define LOCK_POLL_MAX (5 * FACET_NS_PER_MS)

/* --- the folder ------------------------------------------------------------------------------------------------- */

/*
 * Programs are loaded from this folder, so no other user may write to it. Without `make` a missing folder is no error:
 * *ret_folder stays unset.
 */
static enum facet_status open_folder(const char *path, bool make, int *ret_folder, struct facet_error *error)
{
    FACET_CLEANUP_FD int folder = -1;
    struct facet_error why = {0};
    enum facet_status status = make ? facet_path_make(path, 0700, &why) : facet_path_trust_folder(path, &why);

    if (status == FACET_NOT_FOUND && !make)
        return FACET_OK;
    if (status != FACET_OK)
        return facet_error_argument(error, status, "cache_dir", "%s", why.message);
    folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return facet_error_errno(error, errno, "cannot open the kernel cache %s", path);
    *ret_folder = FACET_TAKE_FD(folder);
    return FACET_OK;
}

static enum facet_status choose_folder(const char *chosen, char *ret_path, struct facet_error *error)
{
    if (!chosen)
        return facet_path_cache(ret_path, FACET_PATH_SIZE, error);
    if (chosen[0] != '/' || strlen(chosen) >= FACET_PATH_SIZE)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "cache_dir",
                                    "cache_dir '%.200s': expected an absolute path", chosen);
    memcpy(ret_path, chosen, strlen(chosen) + 1);
    return FACET_OK;
}

/* Whether the error lies in the arguments rather than in the folder. */
static bool is_argument_error(enum facet_status status)
{
    return status == FACET_INVALID_ARGUMENT || status == FACET_OUT_OF_RANGE;
}

enum facet_status facet_cache_open(const struct facet_compiler_options *options, struct facet_cache *ret_cache,
                                   struct facet_error *error)
{
    struct facet_cache cache = {.folder = -1, .mode = options->cache_mode, .limit = options->cache_bytes};
    struct facet_error *why = &cache.folder_error;
    char path[FACET_PATH_SIZE];
    enum facet_status status = FACET_OK;

    if (!cache.limit)
        status = facet_config_u64(FACET_SETTING_CACHE_SIZE, &cache.limit, error);
    if (status == FACET_OK && cache.mode != FACET_CACHE_BYPASS) {
        status = choose_folder(options->cache_dir, path, why);
        if (is_argument_error(status))
            return facet_error_argument(error, status, why->argument, "%s", why->message);
        if (status == FACET_OK)
            (void)open_folder(path, cache.mode != FACET_CACHE_READ_ONLY, &cache.folder, why);
        status = FACET_OK;
    }
    if (status == FACET_OK)
        *ret_cache = cache;
    return status;
}

void facet_cache_close(struct facet_cache *cache)
{
    if (cache->folder >= 0)
        close(cache->folder);
    cache->folder = -1;
}

/* --- entries ---------------------------------------------------------------------------------------------------- */

static void name_of(const struct facet_cache_key *key, const char *ending, char name[NAME_SIZE])
{
    char digits[33];

    facet_cache_key_print(key, digits);
    snprintf(name, NAME_SIZE, "%s%s", digits, ending);
}

/* The file's bytes; NULL when it is not an acceptable entry. */
static void *read_entry(int fd, size_t *ret_size)
{
    struct stat info;
    size_t done = 0;

    if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode) || (info.st_uid != geteuid() && info.st_uid != 0) ||
        (uint64_t)info.st_size > ENTRY_MAX)
        return NULL;
    size_t size = (size_t)info.st_size;
    FACET_CLEANUP_FREE char *bytes = malloc(size + 1);
    while (bytes && done < size) {
        ssize_t got = read(fd, bytes + done, size - done);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return NULL;
        done += got > 0 ? (size_t)got : 0;
    }
    *ret_size = size;
    return FACET_TAKE_PTR(bytes);
}

struct facet_image *facet_cache_find(const struct facet_cache *cache, const struct facet_cache_key *key)
{
    static const struct timespec used_now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    struct facet_image *image = NULL;
    char name[NAME_SIZE];
    size_t size;

    if (cache->folder < 0)
        return NULL;
    name_of(key, ".kernel", name);
    FACET_CLEANUP_FD int fd = openat(cache->folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    FACET_CLEANUP_FREE void *bytes = read_entry(fd, &size);
    if (!bytes)
        return NULL;
    enum facet_status status = facet_cache_entry_read(key, bytes, size, &image, NULL);
    if (status == FACET_OK &&
        !facet_manifest_is_current(&image->manifest)) { /* outdated; the next compile replaces it */
        facet_image_destroy(image);
        return NULL;
    }
    if (cache->mode == FACET_CACHE_READ_ONLY)
        return image;
    if (status == FACET_OK)
        (void)futimens(fd, used_now);
    else if (status == FACET_CORRUPT)
        (void)unlinkat(cache->folder, name, 0);
    return image;
}

static bool write_all(int fd, const char *bytes, size_t size)
{
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();

    while (size) {
        ssize_t put = write(fd, bytes, size);
        if (put < 0 && errno != EINTR)
            return false;
        bytes += put > 0 ? put : 0;
        size -= put > 0 ? (size_t)put : 0;
    }
    return true;
}

/* An empty folder at the entry's path is removed, since it would block the entry forever. */
static bool replace_entry(int folder, const char *temporary, const char *name)
{
    if (renameat(folder, temporary, folder, name) == 0)
        return true;
    return errno == EISDIR && unlinkat(folder, name, AT_REMOVEDIR) == 0 &&
           renameat(folder, temporary, folder, name) == 0;
}

/* Readers never see a partial entry. A crash of the machine may truncate it, which the checksum detects. */
static enum facet_status write_entry(const struct facet_cache *cache, const struct facet_cache_key *key,
                                     const void *bytes, size_t size, struct facet_error *error)
{
    char name[NAME_SIZE], temporary[NAME_SIZE], ending[40];

    snprintf(ending, sizeof ending, ".%ld.%" PRIx64 ".tmp", (long)gettid(), facet_clock_now_ns());
    name_of(key, ".kernel", name);
    name_of(key, ending, temporary);
    FACET_CLEANUP_FD int fd =
        openat(cache->folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return facet_error_errno(error, errno, "the image cannot be kept in the kernel cache");
    if (write_all(fd, bytes, size) && replace_entry(cache->folder, temporary, name))
        return FACET_OK;
    int errnum = errno;
    (void)unlinkat(cache->folder, temporary, 0);
    return facet_error_errno(error, errnum, "the image cannot be kept in the kernel cache");
}

enum facet_status facet_cache_keep(const struct facet_cache *cache, const struct facet_cache_key *key,
                                   const struct facet_image *image, struct facet_error *error)
{
    void *bytes;
    size_t size;

    if (cache->folder < 0 || cache->mode == FACET_CACHE_READ_ONLY || cache->mode == FACET_CACHE_BYPASS ||
        image->unrepeatable)
        return FACET_OK;
    enum facet_status status = facet_cache_entry_write(key, image, &bytes, &size, error);
    if (status != FACET_OK)
        return status;
    if (size > cache->limit || size > ENTRY_MAX)
        status =
            facet_error_set(error, FACET_NO_SPACE, "the image has %zu bytes in the kernel cache; its limit is %" PRIu64,
                            size, cache->limit < ENTRY_MAX ? cache->limit : ENTRY_MAX);
    else
        status = write_entry(cache, key, bytes, size, error);
    if (status == FACET_OK)
        facet_cache_account(cache, size);
    free(bytes);
    return status;
}

/* --- the lock of a key ------------------------------------------------------------------------------------------- */

/* Whether `lock` is still the file called `name`: the last holder may have removed it while we waited. */
static bool is_still_named(const struct facet_cache *cache, const char *name, int lock)
{
    struct stat held, named;

    return fstat(lock, &held) == 0 && fstatat(cache->folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

/* Tries once to take the lock. -1 with EWOULDBLOCK: another thread or process holds it. */
static int try_lock(const struct facet_cache *cache, const char *name)
{
    FACET_CLEANUP_FD int lock = openat(cache->folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
        return -1;
    if (!is_still_named(cache, name, lock)) {
        errno = EWOULDBLOCK;
        return -1;
    }
    return FACET_TAKE_FD(lock);
}

int facet_cache_lock(const struct facet_cache *cache, const struct facet_cache_key *key, uint64_t wait_ns)
{
    uint64_t begin = facet_clock_now_ns(), pause = LOCK_POLL_MIN;
    char name[NAME_SIZE];

    if (cache->folder < 0 || cache->mode == FACET_CACHE_READ_ONLY || cache->mode == FACET_CACHE_BYPASS)
        return -1;
    name_of(key, ".lock", name);
    for (;;) {
        int lock = try_lock(cache, name);
        if (lock >= 0 || errno != EWOULDBLOCK || facet_clock_now_ns() - begin >= wait_ns)
            return lock;
        const struct timespec time = facet_ns_timespec(pause);
        nanosleep(&time, NULL);
        pause = pause * 2 < LOCK_POLL_MAX ? pause * 2 : LOCK_POLL_MAX;
    }
}

void facet_cache_unlock(const struct facet_cache *cache, const struct facet_cache_key *key, int lock)
{
    char name[NAME_SIZE];

    if (lock < 0)
        return;
    /*
     * The file is removed while its lock is held. A process that has opened it already will find that the file has no
     * name any more, and try again.
     */
    name_of(key, ".lock", name);
    (void)unlinkat(cache->folder, name, 0);
    close(lock);
}
