/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the cache's layout. Never: reads outside of the file. */
#include "cache.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define OLD_MAGIC "ld.so-1.7.0"
#define MAGIC     "glibc-ld.so.cache1.1"

/* The flags of an entry for this processor: glibc 2's ELF, and the processor's ABI. */
#if defined(__x86_64__)
#define ENTRY_FLAGS 0x0303
#elif defined(__aarch64__)
#define ENTRY_FLAGS 0x0a03
#else
#error "the cache's flags of this processor are not known"
#endif

struct old_header {
    char magic[sizeof OLD_MAGIC]; /* with its terminator */
    uint32_t count;
};
struct old_entry {
    int32_t flags;
    uint32_t key, value;
};

struct header {
    char magic[sizeof MAGIC - 1];
    uint32_t count, strings_size;
    uint8_t flags, padding[3];
    uint32_t extensions, unused[3];
};
struct entry {
    int32_t flags;
    uint32_t key, value; /* offsets of strings from the header's beginning */
    uint32_t version;
    uint64_t capabilities;
};
_Static_assert(sizeof(struct header) == 48 && sizeof(struct entry) == 24, "as glibc writes them");

/* The offset of the header, which may follow a cache in the older format. SIZE_MAX if there is no header. */
static size_t find_header(const char *data, size_t size)
{
    struct old_header old;
    struct header header;
    size_t offset = 0;

    if (size >= sizeof old && memcmp(data, OLD_MAGIC, sizeof OLD_MAGIC - 1) == 0) {
        memcpy(&old, data, sizeof old);
        offset = sizeof old + (size_t)old.count * sizeof(struct old_entry);
        offset = (offset + 7) / 8 * 8;
    }
    if (offset > size || size - offset < sizeof header || memcmp(data + offset, MAGIC, sizeof header.magic) != 0)
        return SIZE_MAX;
    return offset;
}

/* A string that ends within the file; NULL when it does not. */
static const char *string_at(const char *data, size_t size, uint32_t offset)
{
    return offset < size && memchr(data + offset, 0, size - offset) ? data + offset : NULL;
}

static bool each_path(const char *data, size_t size, const char *soname,
                      bool (*try_path)(const char *path, void *context), void *context)
{
    size_t header_offset = find_header(data, size);
    struct header header;
    struct entry entry;

    if (header_offset == SIZE_MAX)
        return false;
    data += header_offset;
    size -= header_offset;
    memcpy(&header, data, sizeof header);
    for (size_t i = 0; i < header.count && (i + 1) * sizeof entry <= size - sizeof header; i++) {
        memcpy(&entry, data + sizeof header + i * sizeof entry, sizeof entry);
        const char *key = string_at(data, size, entry.key), *path = string_at(data, size, entry.value);
        if (entry.flags == ENTRY_FLAGS && key && path && strcmp(key, soname) == 0 && try_path(path, context))
            return true;
    }
    return false;
}

bool facet_cache_each(const char *file, const char *soname, bool (*try_path)(const char *path, void *context),
                      void *context)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    struct stat status;
    void *data = MAP_FAILED;
    bool was_accepted = false;

    if (fd < 0)
        return false;
    if (fstat(fd, &status) == 0 && status.st_size > 0)
        data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED)
        return false;
    was_accepted = each_path(data, (size_t)status.st_size, soname, try_path, context);
    munmap(data, (size_t)status.st_size);
    return was_accepted;
}
