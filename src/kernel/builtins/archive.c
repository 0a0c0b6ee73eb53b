/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading an archive of builtins. Never: allocates, or opens files. */
#include "kernel/builtins/archive.h"

#include <string.h>

static enum facet_status refuse_archive(struct facet_error *error, const char *what)
{
    return facet_error_set(error, FACET_CORRUPT, "archive of builtin functions: %s", what);
}

static enum facet_status check_header(const struct facet_archive_header *header, size_t size, struct facet_error *error)
{
    if (memcmp(header->magic, FACET_ARCHIVE_MAGIC, sizeof header->magic) != 0)
        return refuse_archive(error, "it does not begin with the magic bytes of an archive");
    if (header->version != FACET_ARCHIVE_VERSION)
        return facet_error_set(error, FACET_CORRUPT, "archive of builtin functions: version %u, expected %u",
                               header->version, FACET_ARCHIVE_VERSION);
    if (header->size != size)
        return facet_error_set(error, FACET_CORRUPT,
                               "archive of builtin functions: %zu bytes, but its header says %llu", size,
                               (unsigned long long)header->size);
    return FACET_OK;
}

static enum facet_status check_symbols(const struct facet_archive *archive, uint32_t name_bytes,
                                       struct facet_error *error)
{
    for (uint32_t i = 0; i < archive->symbol_count; i++) {
        const struct facet_archive_symbol *symbol = &archive->symbols[i];

        if (symbol->name >= name_bytes)
            return refuse_archive(error, "a symbol's name lies outside of the names");
        if (symbol->shard >= archive->shard_count)
            return refuse_archive(error, "a symbol's shard does not exist");
        if (i > 0 && strcmp(archive->names + archive->symbols[i - 1].name, archive->names + symbol->name) >= 0)
            return refuse_archive(error, "its symbols are out of order");
    }
    return FACET_OK;
}

static enum facet_status check_shards(const struct facet_archive *archive, uint64_t start, struct facet_error *error)
{
    for (uint32_t i = 0; i < archive->shard_count; i++) {
        const struct facet_archive_shard *shard = &archive->shards[i];

        if (shard->offset < start || shard->offset > archive->size || shard->size > archive->size - shard->offset)
            return refuse_archive(error, "a shard lies outside of the file");
        if (shard->offset % FACET_ARCHIVE_ALIGN != 0)
            return refuse_archive(error, "a shard is not aligned");
    }
    return FACET_OK;
}

/* Finds the tables behind the header. The counts have 32 bits and the entries are small: no sum overflows 64 bits. */
static enum facet_status place_tables(const struct facet_archive_header *header, struct facet_archive *archive,
                                      uint64_t *ret_end, struct facet_error *error)
{
    uint64_t shards_at = sizeof *header + (uint64_t)header->symbol_count * sizeof(struct facet_archive_symbol);
    uint64_t names_at = shards_at + (uint64_t)header->shard_count * sizeof(struct facet_archive_shard);
    uint64_t end = names_at + header->name_bytes;

    if (end > archive->size || header->name_bytes == 0)
        return refuse_archive(error, "its tables are cut off");
    if (archive->bytes[end - 1] != '\0')
        return refuse_archive(error, "its names do not end");
    archive->symbols = (const void *)(archive->bytes + sizeof *header);
    archive->shards = (const void *)(archive->bytes + shards_at);
    archive->names = (const char *)archive->bytes + names_at;
    archive->symbol_count = header->symbol_count;
    archive->shard_count = header->shard_count;
    *ret_end = end;
    return FACET_OK;
}

enum facet_status facet_archive_read(const void *bytes, size_t size, struct facet_archive *ret_archive,
                                     struct facet_error *error)
{
    const struct facet_archive_header *header = bytes;
    struct facet_archive archive = {.bytes = bytes, .size = size};
    uint64_t tables_end = 0;

    if ((uintptr_t)bytes % FACET_ARCHIVE_ALIGN != 0)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "bytes", "at %p, expected a multiple of %u", bytes,
                                    FACET_ARCHIVE_ALIGN);
    if (size < sizeof *header)
        return refuse_archive(error, "cut off in its header");
    enum facet_status status = check_header(header, size, error);
    if (status == FACET_OK)
        status = place_tables(header, &archive, &tables_end, error);
    if (status == FACET_OK)
        status = check_symbols(&archive, header->name_bytes, error);
    if (status == FACET_OK)
        status = check_shards(&archive, tables_end, error);
    if (status == FACET_OK)
        *ret_archive = archive;
    return status;
}

uint32_t facet_archive_find(const struct facet_archive *archive, const char *name)
{
    uint32_t low = 0, high = archive->symbol_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(archive->names + archive->symbols[middle].name, name);

        if (order == 0)
            return archive->symbols[middle].shard;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return FACET_ARCHIVE_NONE;
}
