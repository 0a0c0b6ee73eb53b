/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: fuzzing the reader of Facet's resource files. An input is tried as it is, and with the right checksum, which no
 * mutation finds, so that the code behind that check is reached, too.
 */
#include <inttypes.h>

#include <facet/workload.h>
#include <xxhash.h>

#include "fuzz.h"

static void check_text(const char *text, size_t bytes)
{
    struct facet_resources *resources = NULL;
    struct facet_error error = {0};
    char *back = NULL;
    size_t back_bytes = 0;

    enum facet_status status = facet_resources_parse(text, bytes, &resources, &error);
    FUZZ_ASSERT(status == FACET_OK || status == FACET_CORRUPT || status == FACET_UNSUPPORTED);
    if (status == FACET_OK) {
        struct facet_resources *again = NULL;
        FUZZ_ASSERT(facet_resources_format(resources, &back, &back_bytes, NULL) == FACET_OK);
        FUZZ_ASSERT(facet_resources_parse(back, back_bytes, &again, NULL) == FACET_OK);
        FUZZ_ASSERT(facet_resources_count(again) == facet_resources_count(resources));
        facet_resources_destroy(again);
        free(back);
    }
    facet_resources_destroy(resources);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t records = size ? data[0] : 0;
    char *text = malloc(size + 80);

    FUZZ_ASSERT(text);
    if (size) {
        memcpy(text, data + 1, size - 1);
        check_text(text, size - 1);
        XXH128_hash_t hash = XXH3_128bits(text, size - 1);
        int length = snprintf(text + size - 1, 80, "end %" PRIu32 " %016" PRIx64 "%016" PRIx64 "\n", records,
                              (uint64_t)hash.high64, (uint64_t)hash.low64);
        check_text(text, size - 1 + (size_t)length);
    }
    free(text);
    return 0;
}
