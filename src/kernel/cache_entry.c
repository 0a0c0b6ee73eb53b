/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: writing and reading one entry. Never: touches files. Numbers have the machine's byte order: a cache belongs
 * to one machine. */
#include "kernel/cache_entry.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { VERSION = 2, REMARKS_MOST = 65536, READS_MAX = 65536 };

struct header {
    char magic[8];
    uint32_t version;
    uint32_t remarks;
    uint32_t reads, reserved;
    uint64_t description_bytes, remark_bytes, manifest_bytes, code_bytes;
    struct facet_cache_key key;
    char target[FACET_TARGET_SIZE];
    XXH128_canonical_t checksum; /* of the header's members before it, and of the payload behind the header */
};
_Static_assert(sizeof(struct header) == 152, "an entry's header has no holes");

/* One remark; its file and text follow, without terminators. */
struct remark {
    uint32_t severity, line, column, file_bytes, text_bytes;
};

static const char magic[8] = "FCTKERN";

static void checksum_entry(const struct header *header, const unsigned char *payload, size_t size,
                           XXH128_canonical_t *ret_checksum)
{
    XXH128_hash_t hash = XXH3_128bits(header, offsetof(struct header, checksum));

    /* The payload's hash is seeded with the header's, so that one number covers both. */
    hash = XXH3_128bits_withSeed(payload, size, hash.low64 ^ hash.high64);
    XXH128_canonicalFromHash(ret_checksum, hash);
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static enum facet_status refuse_entry(struct facet_error *error, const char *what)
{
    return facet_error_set(error, FACET_CORRUPT, "the kernel cache's entry: %s", what);
}

/* Subtracts `bytes` from *left; false when fewer are left. */
static bool subtract_bytes(size_t *left, uint64_t bytes)
{
    if (bytes > *left)
        return false;
    *left -= (size_t)bytes;
    return true;
}

static enum facet_status check_header(const struct facet_cache_key *key, const struct header *header,
                                      const unsigned char *payload, size_t size, struct facet_error *error)
{
    XXH128_canonical_t expected;
    size_t whole = size;

    if (memcmp(header->magic, magic, sizeof magic) != 0 || header->version != VERSION)
        return refuse_entry(error, "not of this version");
    if (memcmp(&header->key, key, sizeof *key) != 0)
        return refuse_entry(error, "of another key");
    if (!subtract_bytes(&size, header->description_bytes) || !subtract_bytes(&size, header->remark_bytes) ||
        !subtract_bytes(&size, header->manifest_bytes) || size != header->code_bytes)
        return refuse_entry(error, "its lengths do not add up");
    checksum_entry(header, payload, whole, &expected);
    if (memcmp(&expected, &header->checksum, sizeof expected) != 0)
        return refuse_entry(error, "its checksum is wrong");
    if (header->remarks > REMARKS_MOST || header->reads > READS_MAX || header->reserved ||
        !memchr(header->target, '\0', sizeof header->target))
        return refuse_entry(error, "its header is wrong");
    return FACET_OK;
}

/* Bytes of an entry as a text; NULL: out of memory. Not strndup(): the bytes have no terminator. */
static char *text_of(const unsigned char *bytes, size_t count)
{
    char *text = malloc(count + 1);

    if (!text)
        return NULL;
    memcpy(text, bytes, count);
    text[count] = '\0';
    return text;
}

static enum facet_status read_remark(struct facet_image *image, const unsigned char **at, const unsigned char *end,
                                     struct facet_error *error)
{
    struct remark remark;

    if ((size_t)(end - *at) < sizeof remark)
        return refuse_entry(error, "its remarks are cut off");
    memcpy(&remark, *at, sizeof remark);
    *at += sizeof remark;
    if (remark.file_bytes > (size_t)(end - *at) || remark.text_bytes > (size_t)(end - *at) - remark.file_bytes)
        return refuse_entry(error, "its remarks are cut off");
    FACET_CLEANUP_FREE char *file = text_of(*at, remark.file_bytes);
    FACET_CLEANUP_FREE char *text = text_of(*at + remark.file_bytes, remark.text_bytes);
    *at += remark.file_bytes + remark.text_bytes;
    const struct facet_diagnostic diagnostic = {remark.severity, remark.line, remark.column, file, text};
    if (!file || !text || !facet_image_remark(image, &diagnostic))
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a compiler's remarks");
    return FACET_OK;
}

static enum facet_status read_manifest(struct facet_image *image, const struct header *header,
                                       const unsigned char *bytes, struct facet_error *error)
{
    const struct facet_manifest manifest = {(unsigned char *)(uintptr_t)bytes, header->manifest_bytes, header->reads};

    if (!facet_manifest_is_valid(&manifest))
        return refuse_entry(error, "its list of files is wrong");
    if (!manifest.count)
        return FACET_OK;
    image->manifest = manifest;
    image->manifest.bytes = malloc(manifest.size);
    if (!image->manifest.bytes)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a list of %u files", manifest.count);
    memcpy(image->manifest.bytes, bytes, manifest.size);
    return FACET_OK;
}

enum facet_status facet_cache_entry_read(const struct facet_cache_key *key, const void *bytes, size_t size,
                                         struct facet_image **ret_image, struct facet_error *error)
{
    FACET_CLEANUP_IMAGE struct facet_image *image = NULL;
    const unsigned char *payload = (const unsigned char *)bytes + sizeof(struct header);
    struct header header;

    if (size < sizeof header)
        return refuse_entry(error, "cut off in its header");
    memcpy(&header, bytes, sizeof header);
    enum facet_status status = check_header(key, &header, payload, size - sizeof header, error);
    if (status != FACET_OK)
        return status;
    const unsigned char *remarks = payload + header.description_bytes;
    const unsigned char *manifest = remarks + header.remark_bytes, *code = manifest + header.manifest_bytes;
    status = facet_image_create(code, header.code_bytes, header.description_bytes ? (const char *)payload : NULL,
                                header.description_bytes, header.target, &image, error);
    for (uint32_t i = 0; status == FACET_OK && i < header.remarks; i++)
        status = read_remark(image, &remarks, manifest, error);
    if (status == FACET_OK)
        status = read_manifest(image, &header, manifest, error);
    if (status != FACET_OK)
        return status;
    *ret_image = FACET_TAKE_PTR(image);
    return FACET_OK;
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

static size_t remark_size(const struct facet_diagnostic *diagnostic)
{
    return sizeof(struct remark) + strlen(diagnostic->file) + strlen(diagnostic->text);
}

static unsigned char *put_bytes(unsigned char *at, const void *bytes, size_t size)
{
    memcpy(at, bytes, size);
    return at + size;
}

static unsigned char *put_remark(unsigned char *at, const struct facet_diagnostic *diagnostic)
{
    const struct remark remark = {diagnostic->severity, diagnostic->line, diagnostic->column,
                                  (uint32_t)strlen(diagnostic->file), (uint32_t)strlen(diagnostic->text)};

    at = put_bytes(at, &remark, sizeof remark);
    at = put_bytes(at, diagnostic->file, remark.file_bytes);
    return put_bytes(at, diagnostic->text, remark.text_bytes);
}

enum facet_status facet_cache_entry_write(const struct facet_cache_key *key, const struct facet_image *image,
                                          void **ret_bytes, size_t *ret_size, struct facet_error *error)
{
    FACET_CLEANUP_FREE char *description = image->description ? json_dumps(image->description, JSON_COMPACT) : NULL;
    struct header header = {.version = VERSION,
                            .remarks = image->diagnostic_count,
                            .reads = image->manifest.count,
                            .manifest_bytes = image->manifest.size,
                            .code_bytes = image->size};

    if (image->diagnostic_count > REMARKS_MOST || image->manifest.count > READS_MAX ||
        (image->description && !description))
        return facet_error_set(error, FACET_NO_SPACE,
                               "the image cannot be kept in the kernel cache: it has more than %d remarks or files, or "
                               "memory ran out",
                               REMARKS_MOST);
    memcpy(header.magic, magic, sizeof magic);
    memcpy(header.target, image->target, sizeof header.target);
    header.key = *key;
    header.description_bytes = description ? strlen(description) : 0;
    for (uint32_t i = 0; i < image->diagnostic_count; i++)
        header.remark_bytes += remark_size(&image->diagnostics[i]);

    size_t payload = header.description_bytes + header.remark_bytes + header.manifest_bytes + header.code_bytes;
    unsigned char *bytes = malloc(sizeof header + payload), *at = bytes + sizeof header;
    if (!bytes)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for an entry of the kernel cache");
    at = put_bytes(at, description ? description : "", header.description_bytes);
    for (uint32_t i = 0; i < image->diagnostic_count; i++)
        at = put_remark(at, &image->diagnostics[i]);
    if (image->manifest.size)
        at = put_bytes(at, image->manifest.bytes, image->manifest.size);
    put_bytes(at, image->bytes, image->size);
    checksum_entry(&header, bytes + sizeof header, payload, &header.checksum);
    memcpy(bytes, &header, sizeof header);
    *ret_bytes = bytes;
    *ret_size = sizeof header + payload;
    return FACET_OK;
}
