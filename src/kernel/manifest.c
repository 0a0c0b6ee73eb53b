/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the manifest's bytes, and the checks of the files. Never: reads more of a file than it had at the compile. */
#include "kernel/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_STATIC_LINKING_ONLY /* for a hash state on the stack */
#include <xxhash.h>

#include "base/cleanup.h"

enum { READ_CHUNK_BYTES = 32768 };

/* One entry; its path follows without a terminator. */
struct entry {
    uint32_t kind, path_bytes;
    uint64_t bytes, hash[2];
};
_Static_assert(sizeof(struct entry) == 32, "an entry has no holes");

/* --- bytes ------------------------------------------------------------------------------------------------------- */

enum facet_status facet_manifest_make(const struct facet_backend_read *reads, uint32_t count,
                                      struct facet_manifest *ret_manifest, struct facet_error *error)
{
    struct facet_manifest manifest = {.count = count};

    for (uint32_t i = 0; i < count; i++)
        manifest.size += sizeof(struct entry) + strlen(reads[i].path);
    manifest.bytes = count ? malloc(manifest.size) : NULL;
    if (count && !manifest.bytes)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a list of %u files", count);
    unsigned char *at = manifest.bytes;
    for (uint32_t i = 0; i < count; i++) {
        const struct entry entry = {
            reads[i].kind, (uint32_t)strlen(reads[i].path), reads[i].bytes, {reads[i].hash[0], reads[i].hash[1]}};
        memcpy(at, &entry, sizeof entry);
        memcpy(at + sizeof entry, reads[i].path, entry.path_bytes);
        at += sizeof entry + entry.path_bytes;
    }
    *ret_manifest = manifest;
    return FACET_OK;
}

void facet_manifest_clear(struct facet_manifest *manifest)
{
    free(manifest->bytes);
    *manifest = (struct facet_manifest){0};
}

static bool next_entry(const unsigned char **at, const unsigned char *end, struct entry *ret_entry, char path[PATH_MAX])
{
    if ((size_t)(end - *at) < sizeof *ret_entry)
        return false;
    memcpy(ret_entry, *at, sizeof *ret_entry);
    *at += sizeof *ret_entry;
    if (ret_entry->kind >= FACET_READ_KINDS || !ret_entry->path_bytes || ret_entry->path_bytes >= PATH_MAX ||
        ret_entry->path_bytes > (size_t)(end - *at) || memchr(*at, '\0', ret_entry->path_bytes))
        return false;
    memcpy(path, *at, ret_entry->path_bytes);
    path[ret_entry->path_bytes] = '\0';
    *at += ret_entry->path_bytes;
    return true;
}

bool facet_manifest_is_valid(const struct facet_manifest *manifest)
{
    const unsigned char *at = manifest->bytes, *end = at ? at + manifest->size : at;
    struct entry entry;
    char path[PATH_MAX];

    for (uint32_t i = 0; i < manifest->count; i++)
        if (!next_entry(&at, end, &entry, path))
            return false;
    return at == end;
}

/* --- files ------------------------------------------------------------------------------------------------------- */

static bool has_hash(int fd, const struct entry *entry)
{
    char piece[READ_CHUNK_BYTES];
    XXH3_state_t state;
    uint64_t done = 0;
    ssize_t got;

    XXH3_128bits_reset(&state);
    while (done <= entry->bytes && (got = read(fd, piece, sizeof piece)) != 0) {
        if (got < 0 && errno != EINTR)
            return false;
        if (got > 0)
            XXH3_128bits_update(&state, piece, (size_t)got);
        done += got > 0 ? (uint64_t)got : 0;
    }
    XXH128_hash_t hash = XXH3_128bits_digest(&state);
    return done == entry->bytes && hash.low64 == entry->hash[0] && hash.high64 == entry->hash[1];
}

/* A pipe in the file's place must not block us, nor a terminal become our controlling terminal. */
static bool is_unchanged_file(const char *path, const struct entry *entry)
{
    FACET_CLEANUP_FD int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat info;

    return fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size == entry->bytes &&
           has_hash(fd, entry);
}

static bool is_unchanged(const char *path, const struct entry *entry)
{
    struct stat info;

    if (entry->kind == FACET_READ_WHOLE)
        return is_unchanged_file(path, entry);
    if (stat(path, &info) < 0)
        return entry->kind == FACET_READ_MISSING;
    return (entry->kind == FACET_READ_FOLDER && S_ISDIR(info.st_mode)) ||
           (entry->kind == FACET_READ_PRESENT && S_ISREG(info.st_mode));
}

bool facet_manifest_is_current(const struct facet_manifest *manifest)
{
    const unsigned char *at = manifest->bytes, *end = at ? at + manifest->size : at;
    struct entry entry;
    char path[PATH_MAX];

    for (uint32_t i = 0; i < manifest->count; i++)
        if (!next_entry(&at, end, &entry, path) || !is_unchanged(path, &entry))
            return false;
    return true;
}
