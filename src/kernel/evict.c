/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the size of the kernel cache: counting, and evicting the least recently used entries.
 * Never: waits for another process longer than that one needs to count and evict; removes a file that is not the
 *        cache's own.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/quiet.h"
#include "kernel/cache.h"

enum { NAME_SIZE = 48, LEFTOVER_S = 3600 };

struct entry {
    char name[NAME_SIZE];
    uint64_t bytes, used_ns;
};

struct entries {
    struct entry *list;
    size_t count, capacity;
    uint64_t bytes;
};

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), tail = strlen(ending);

    return length >= tail && strcmp(text + length - tail, ending) == 0;
}

static bool add_entry(struct entries *entries, const char *name, const struct stat *info)
{
    if (entries->count == entries->capacity) {
        size_t capacity = entries->capacity ? entries->capacity * 2 : 64;
        struct entry *list = realloc(entries->list, capacity * sizeof *list);
        if (!list)
            return false;
        entries->list = list;
        entries->capacity = capacity;
    }
    struct entry *entry = &entries->list[entries->count++];
    memcpy(entry->name, name, strlen(name) + 1); /* the caller has checked its length */
    entry->bytes = (uint64_t)info->st_size;
    entry->used_ns = facet_timespec_ns(&info->st_atim);
    entries->bytes += entry->bytes;
    return true;
}

/* Removes an old file that a process left when it died: a partial entry, or a lock that no process holds. */
static void remove_leftover(int folder, const char *name, const struct stat *info)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec - info->st_mtim.tv_sec < LEFTOVER_S)
        return;
    FACET_CLEANUP_FD int fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(folder, name, 0);
}

/* Lists all entries; with `tidy`, removes leftovers, too. False: the folder cannot be read, or memory ran out. */
static bool collect_entries(int folder, struct entries *entries, bool tidy)
{
    FACET_CLEANUP_FD int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FACET_CLEANUP_DIR DIR *list = again >= 0 ? fdopendir(again) : NULL;
    const struct dirent *file;
    struct stat info;

    if (!list)
        return false;
    again = -1; /* `list` owns it now. NOLINT(clang-analyzer-deadcode.DeadStores): read when it goes out of scope */
    while ((file = readdir(list))) {
        if (fstatat(folder, file->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(info.st_mode))
            continue;
        if (ends_with(file->d_name, ".kernel") && strlen(file->d_name) < NAME_SIZE) {
            if (!add_entry(entries, file->d_name, &info))
                return false;
        } else if (tidy && (ends_with(file->d_name, ".tmp") || ends_with(file->d_name, ".lock"))) {
            remove_leftover(folder, file->d_name, &info);
        }
    }
    return true;
}

static int compare_age(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;

    return (a->used_ns > b->used_ns) - (a->used_ns < b->used_ns);
}

/* Evicts down to seven eighths of the limit, so that the next entry does not evict again. Returns the remaining
 * bytes. */
static uint64_t evict_oldest(const struct facet_cache *cache, struct entries *entries)
{
    uint64_t goal = cache->limit - cache->limit / 8;

    qsort(entries->list, entries->count, sizeof *entries->list, compare_age);
    for (size_t i = 0; i < entries->count && entries->bytes > goal; i++)
        if (unlinkat(cache->folder, entries->list[i].name, 0) == 0 || errno == ENOENT)
            entries->bytes -= entries->list[i].bytes;
    return entries->bytes;
}

/* Counts the bytes of all entries, and evicts when they are above the limit. False: not all entries were counted. */
static bool recount_bytes(const struct facet_cache *cache, uint64_t *ret_bytes)
{
    struct entries entries = {0};
    bool complete = collect_entries(cache->folder, &entries, true);

    *ret_bytes = entries.bytes > cache->limit ? evict_oldest(cache, &entries) : entries.bytes;
    free(entries.list);
    return complete;
}

void facet_cache_account(const struct facet_cache *cache, uint64_t bytes)
{
    FACET_CLEANUP_FD int usage = openat(cache->folder, "usage", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    uint64_t total = 0;

    /* A holder needs microseconds, or one scan of the folder. */
    if (usage < 0 || flock(usage, LOCK_EX) < 0)
        return;
    bool known = pread(usage, &total, sizeof total, 0) == (ssize_t)sizeof total && total <= UINT64_MAX - bytes;
    total += known ? bytes : 0;
    if ((!known || total > cache->limit) && !recount_bytes(cache, &total))
        return;
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();

    (void)!pwrite(usage, &total, sizeof total, 0);
}

bool facet_cache_measure(const struct facet_cache *cache, struct facet_cache_usage *ret_usage)
{
    struct entries entries = {0};
    bool complete = cache->folder >= 0 && collect_entries(cache->folder, &entries, false);

    if (complete)
        *ret_usage = (struct facet_cache_usage){.entries = entries.count, .bytes = entries.bytes};
    free(entries.list);
    return complete;
}
