/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing the archive of builtin functions: whatever the bytes, everything that is found lies inside them. */
#include "kernel/builtins/archive.h"

#include "fuzz.h"

static void check_found(const struct facet_archive *archive)
{
    for (uint32_t i = 0; i < archive->symbol_count; i++) {
        uint32_t found = facet_archive_find(archive, archive->names + archive->symbols[i].name);

        FUZZ_ASSERT(found == archive->symbols[i].shard);
        FUZZ_ASSERT(archive->shards[found].offset <= archive->size);
        FUZZ_ASSERT(archive->shards[found].size <= archive->size - archive->shards[found].offset);
    }
    FUZZ_ASSERT(facet_archive_find(archive, "\xff\xff") == FACET_ARCHIVE_NONE || archive->symbol_count > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facet_archive archive = {0};
    struct facet_error error = {0};
    void *exact = malloc(size ? size : 1); /* the sanitizer sees a read past its end */

    FUZZ_ASSERT(exact);
    memcpy(exact, data, size);
    enum facet_status status = facet_archive_read(exact, size, &archive, &error);
    if (status == FACET_OK)
        check_found(&archive);
    else
        FUZZ_ASSERT(status == FACET_CORRUPT && error.message[0]);
    free(exact);
    return 0;
}
