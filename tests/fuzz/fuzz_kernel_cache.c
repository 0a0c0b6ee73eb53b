/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: fuzzing the kernel cache's entries. An input is tried as it is, and with the right checksum, so that the code
 * behind that check is reached, too. An accepted entry can be written and read again.
 */
#include "kernel/cache_entry.h"

#include "fuzz.h"

/* Offsets in an entry, and the size of its header, as in cache_entry.c. */
enum { CHECKSUM_AT = 136, HEADER_SIZE = 152, KEY_AT = 56 };

static void read_once(const struct facet_cache_key *key, const unsigned char *bytes, size_t size)
{
    struct facet_error error = {0};
    struct facet_image *image = NULL, *again = NULL;
    void *written;
    size_t length;

    enum facet_status status = facet_cache_entry_read(key, bytes, size, &image, &error);
    if (status != FACET_OK) {
        FUZZ_ASSERT(status == FACET_CORRUPT && !image && error.message[0]);
        return;
    }
    FUZZ_ASSERT(facet_cache_entry_write(key, image, &written, &length, &error) == FACET_OK);
    FUZZ_ASSERT(facet_cache_entry_read(key, written, length, &again, &error) == FACET_OK);
    FUZZ_ASSERT(again->size == image->size && again->kernel_count == image->kernel_count);
    FUZZ_ASSERT(again->diagnostic_count == image->diagnostic_count);
    FUZZ_ASSERT(again->manifest.count == image->manifest.count && again->manifest.size == image->manifest.size);
    FUZZ_ASSERT(!image->manifest.size ||
                memcmp(again->manifest.bytes, image->manifest.bytes, image->manifest.size) == 0);
    facet_image_destroy(again);
    facet_image_destroy(image);
    free(written);
}

/* Writes the right checksum, computed like in cache_entry.c. */
static void seal_entry(unsigned char *bytes, size_t size)
{
    XXH128_hash_t hash = XXH3_128bits(bytes, CHECKSUM_AT);
    XXH128_canonical_t checksum;

    hash = XXH3_128bits_withSeed(bytes + HEADER_SIZE, size - HEADER_SIZE, hash.low64 ^ hash.high64);
    XXH128_canonicalFromHash(&checksum, hash);
    memcpy(bytes + CHECKSUM_AT, &checksum, sizeof checksum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facet_cache_key key = {{0}};
    unsigned char *bytes = malloc(size + 1);

    FUZZ_ASSERT(bytes);
    memcpy(bytes, data, size);
    if (size >= HEADER_SIZE)
        memcpy(&key, bytes + KEY_AT, sizeof key);
    read_once(&key, bytes, size);
    if (size >= HEADER_SIZE) {
        seal_entry(bytes, size);
        read_once(&key, bytes, size);
    }
    free(bytes);
    return 0;
}
