/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the form of our resource files. Never: accepts a truncated or damaged file.
 *
 *     facet-resources 1
 *     grant 1500000 0 11:cuda.shares 12:0000:41:00.0
 *     end 1 4f1c...32 hexadecimal digits
 *
 * A record is its name; if it has a number, the number in millionths and how many decimals are shown; and each text as
 * its length in bytes, a colon and the bytes. The last line has the number of records, and the 128 bits of XXH3 over
 * all bytes before that line.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "spec/resources.h"

#define HEAD   "facet-resources "
#define HEAD_1 HEAD "1\n"

enum { HASH_DIGITS = 32, KINDS = FACET_RESOURCES_DATA + 1 };

static void hash_text(const char *text, size_t bytes, char ret_digits[HASH_DIGITS + 1])
{
    XXH128_hash_t hash = XXH3_128bits(text, bytes);

    snprintf(ret_digits, HASH_DIGITS + 1, "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64, (uint64_t)hash.low64);
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

static void add_record(struct facet_growing *text, const struct facet_resources_record *record)
{
    const struct facet_resources_form *form = facet_resources_form(record->kind);

    facet_growing_format(text, "%s", form->name);
    if (form->number)
        facet_growing_format(text, " %" PRId64 " %" PRIu32, record->number, record->places);
    for (uint32_t i = 0; i < form->texts; i++) {
        facet_growing_format(text, " %zu:", strlen(record->text[i]));
        facet_growing_add(text, record->text[i], strlen(record->text[i]));
    }
    facet_growing_add(text, "\n", 1);
}

enum facet_status facet_resources_format(const struct facet_resources *resources, char **ret_text, size_t *ret_bytes,
                                         struct facet_error *error)
{
    FACET_CLEANUP_GROWING struct facet_growing text = {0};
    struct facet_resources_record record = {.size = sizeof record};
    uint32_t count = facet_resources_count(resources);
    char digits[HASH_DIGITS + 1];

    if (!resources || !ret_text || !ret_bytes)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "resources",
                                    "resources: expected records and room for the results, not NULL");
    facet_growing_format(&text, HEAD_1);
    for (uint32_t i = 0; i < count; i++) {
        facet_resources_get(resources, i, &record, NULL);
        add_record(&text, &record);
    }
    if (text.failed)
        return facet_json_no_memory(error);
    hash_text(text.text, text.length, digits);
    facet_growing_format(&text, "end %" PRIu32 " %s\n", count, digits);
    if (text.failed)
        return facet_json_no_memory(error);
    if (text.length > FACET_RESOURCES_BYTES)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "resources", "%zu bytes: expected at most %" PRIu32,
                                    text.length, FACET_RESOURCES_BYTES);
    *ret_text = FACET_TAKE_PTR(text.text);
    *ret_bytes = text.length;
    return FACET_OK;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

struct reader {
    const char *at, *end;
    uint32_t line;
};

static enum facet_status refuse_damaged(const struct reader *reader, const char *what, struct facet_error *error)
{
    return facet_error_argument(error, FACET_CORRUPT, "resources", "line %" PRIu32 ": %s", reader->line, what);
}

static bool skip_text(struct reader *reader, const char *text)
{
    size_t length = strlen(text);

    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, text, length) != 0)
        return false;
    reader->at += length;
    return true;
}

/* Reads a number as it is written: no sign, no leading zero, at most `max`. */
static bool read_number(struct reader *reader, uint64_t max, uint64_t *ret_number)
{
    const char *start = reader->at;
    uint64_t number = 0;

    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        uint64_t digit = (uint64_t)(*reader->at - '0');
        if (number > (max - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    if (reader->at == start || (*start == '0' && reader->at > start + 1))
        return false;
    *ret_number = number;
    return true;
}

/* Reads a text such as " 4:cuda", to be freed. */
static enum facet_status read_text(struct reader *reader, char **ret_text, struct facet_error *error)
{
    uint64_t length;

    if (!skip_text(reader, " ") || !read_number(reader, FACET_RESOURCES_BYTES, &length) || !skip_text(reader, ":") ||
        length > (uint64_t)(reader->end - reader->at))
        return refuse_damaged(reader, "expected a text with its length", error);
    if (memchr(reader->at, '\0', length))
        return refuse_damaged(reader, "expected a text without a zero byte", error);
    char *text = malloc(length + 1);
    if (!text)
        return facet_json_no_memory(error);
    memcpy(text, reader->at, length);
    text[length] = '\0';
    for (uint64_t i = 0; i < length; i++)
        reader->line += text[i] == '\n';
    reader->at += length;
    *ret_text = text;
    return FACET_OK;
}

static bool read_kind(struct reader *reader, uint32_t *ret_kind)
{
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        const char *name = facet_resources_form(kind)->name;
        if (skip_text(reader, name)) {
            *ret_kind = kind;
            return true;
        }
    }
    return false;
}

static bool read_amount(struct reader *reader, struct facet_resources_record *record)
{
    uint64_t number, places;

    if (!skip_text(reader, " ") || !read_number(reader, INT64_MAX, &number) || !skip_text(reader, " ") ||
        !read_number(reader, UINT32_MAX, &places))
        return false;
    record->number = (int64_t)number;
    record->places = (uint32_t)places;
    return true;
}

/*
 * Adds one record. In memory, the first grant of a slot also adds the slot's allocation. A file has that allocation as
 * a record of its own before the grant; if it lacks the record, read_end() finds too many records.
 */
static enum facet_status add_read_record(struct facet_resources *resources, const struct facet_resources_record *record,
                                         const struct reader *reader, struct facet_error *error)
{
    struct facet_error why = {0};
    enum facet_status status = facet_resources_add(resources, record, &why);

    if (status == FACET_OK || status == FACET_NO_MEMORY)
        return status == FACET_OK ? status : facet_json_no_memory(error);
    return refuse_damaged(reader, why.message, error);
}

static enum facet_status read_record(struct reader *reader, struct facet_resources *resources,
                                     struct facet_error *error)
{
    struct facet_resources_record record = {.size = sizeof record};
    char *texts[4] = {0};
    enum facet_status status = FACET_OK;

    if (!read_kind(reader, &record.kind))
        return refuse_damaged(reader, "expected a record", error);
    const struct facet_resources_form *form = facet_resources_form(record.kind);
    if (form->number && !read_amount(reader, &record))
        return refuse_damaged(reader, "expected a number and its decimals", error);
    for (uint32_t i = 0; status == FACET_OK && i < form->texts; i++) {
        status = read_text(reader, &texts[i], error);
        record.text[i] = texts[i];
    }
    if (status == FACET_OK && !skip_text(reader, "\n"))
        status = refuse_damaged(reader, "expected the end of the record", error);
    if (status == FACET_OK)
        status = add_read_record(resources, &record, reader, error);
    for (uint32_t i = 0; i < form->texts; i++)
        free(texts[i]);
    reader->line++;
    return status;
}

/* Reads "end 3 <hash>" after the records. */
static enum facet_status read_end(struct reader *reader, const char *text, const struct facet_resources *resources,
                                  struct facet_error *error)
{
    char digits[HASH_DIGITS + 1];
    uint64_t count;

    hash_text(text, (size_t)(reader->at - text), digits);
    if (!skip_text(reader, "end ") || !read_number(reader, UINT32_MAX, &count) || !skip_text(reader, " "))
        return refuse_damaged(reader, "expected the last line", error);
    if (!skip_text(reader, digits) || !skip_text(reader, "\n"))
        return refuse_damaged(reader, "the checksum is not that of the file", error);
    if (count != facet_resources_count(resources) || reader->at != reader->end)
        return refuse_damaged(reader, "expected as many records as the last line counts, and no more", error);
    return FACET_OK;
}

/* Refuses a file of a version that this library cannot read. */
static enum facet_status check_head(struct reader *reader, struct facet_error *error)
{
    struct reader other = *reader;
    uint64_t version;

    if (skip_text(reader, HEAD_1))
        return FACET_OK;
    if (skip_text(&other, HEAD) && read_number(&other, UINT32_MAX, &version) && version > 1 && skip_text(&other, "\n"))
        return facet_error_argument(error, FACET_UNSUPPORTED, "resources", "version %" PRIu64 ": expected 1", version);
    return refuse_damaged(reader, "expected a resource file, '" HEAD "1'", error);
}

enum facet_status facet_resources_parse(const char *text, size_t bytes, struct facet_resources **ret_resources,
                                        struct facet_error *error)
{
    FACET_CLEANUP_RESOURCES struct facet_resources *resources = NULL;
    struct reader reader = {.at = text, .end = text + bytes, .line = 1};

    if (!text || !ret_resources)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "text",
                                    "text: expected a text and room for a result, not NULL");
    if (bytes > FACET_RESOURCES_BYTES)
        return facet_error_argument(error, FACET_CORRUPT, "resources", "%zu bytes: expected at most %" PRIu32, bytes,
                                    FACET_RESOURCES_BYTES);
    enum facet_status status = check_head(&reader, error);
    if (status == FACET_OK)
        status = facet_resources_create(&resources, error);
    reader.line++;
    while (status == FACET_OK && (size_t)(reader.end - reader.at) >= 4 && memcmp(reader.at, "end ", 4) != 0)
        status = read_record(&reader, resources, error);
    if (status == FACET_OK)
        status = read_end(&reader, text, resources, error);
    if (status == FACET_OK)
        *ret_resources = FACET_TAKE_PTR(resources);
    return status;
}
