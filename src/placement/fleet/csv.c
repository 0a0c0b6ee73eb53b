/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: cutting a list's text into lines and fields, with quotes, and reading the numbers in fields. Never: prints, or
 * reads past the end of its text. */
#include "placement/fleet/csv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 65536u /* the size of the blocks in which kept texts are allocated */

enum facet_status csv_open(struct csv *csv, const char *text, size_t length, const char *file,
                           struct facet_error *error)
{
    *csv = (struct csv){.file = file ? file : "list", .next_line = 1};
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        length -= 3;
    }
    if (length > 0 && memchr(text, '\0', length))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "text", "%s: a zero byte, expected text", csv->file);
    csv->text = malloc(length + 1);
    if (!csv->text)
        return facet_error_set(error, FACET_NO_MEMORY, "out of memory for %s", csv->file);
    if (length > 0)
        memcpy(csv->text, text, length);
    csv->text[length] = '\0';
    csv->length = length;
    return FACET_OK;
}

void csv_close(struct csv *csv)
{
    free(csv->text);
    csv->text = NULL;
}

static enum facet_status refuse_line(const struct csv *csv, const char *what, struct facet_error *error)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "text", "%s:%u: %s", csv->file, csv->line, what);
}

/*
 * Copies a quoted field to its own beginning, where `from` is the byte after the opening quote: two quotes stand for
 * one. Returns the byte after the closing quote; NULL: there is none.
 */
static char *unquote_cell(struct csv *csv, char *from)
{
    char *to = from;

    for (; *from; from++) {
        if (*from == '\n')
            csv->next_line++;
        if (*from == '"' && *++from != '"') {
            /* `*after` may be the separator, which a terminator at `after` would overwrite. */
            char *after = from;

            if (to < after)
                *to = '\0';
            return after;
        }
        *to++ = *from;
    }
    return NULL;
}

static bool ends_line(const char *at)
{
    return *at == '\0' || *at == '\n' || (*at == '\r' && (at[1] == '\n' || at[1] == '\0'));
}

static char *skip_plain(char *at)
{
    while (*at != ',' && !ends_line(at))
        at++;
    return at;
}

/* Cuts one field off. *ret_more: whether a comma follows the field. */
static enum facet_status cut_field(struct csv *csv, bool *ret_more, struct facet_error *error)
{
    char *from = csv->text + csv->offset;
    char *after = *from == '"' ? unquote_cell(csv, ++from) : skip_plain(from);

    if (!after)
        return refuse_line(csv, "a quoted field without its closing quote, expected '\"'", error);
    if (*after != ',' && !ends_line(after))
        return refuse_line(csv, "text after a quoted field, expected ',' or the end of the line", error);
    if (csv->count == CSV_FIELDS)
        return refuse_line(csv, "too many fields, expected at most 64", error);
    csv->field[csv->count++] = from;
    *ret_more = *after == ',';
    csv->offset = (size_t)(after - csv->text);
    if (*after == '\r')
        csv->offset++;
    if (csv->text[csv->offset] == '\n')
        csv->next_line++;
    if (csv->offset < csv->length)
        csv->offset++;
    *after = '\0';
    if (strlen(from) > CSV_FIELD)
        return refuse_line(csv, "a field is too long, expected at most 4096 bytes", error);
    return FACET_OK;
}

enum facet_status csv_next(struct csv *csv, bool *ret_more, struct facet_error *error)
{
    bool blank = true;

    while (blank && csv->offset < csv->length) {
        bool more = true;

        csv->line = csv->next_line;
        csv->count = 0;
        while (more) {
            enum facet_status status = cut_field(csv, &more, error);

            if (status != FACET_OK)
                return status;
        }
        blank = csv->count == 1 && csv->field[0][0] == '\0';
    }
    *ret_more = !blank;
    return FACET_OK;
}

enum facet_status csv_refuse(const struct csv *csv, const char *column, const char *value, const char *expected,
                             struct facet_error *error)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, column, "%s:%u: column %s: '%.80s': expected %s",
                                csv->file, csv->line, column, value, expected);
}

enum facet_status csv_rows(struct csv *csv, const uint32_t *columns, const char *plural, csv_row_func row, void *list,
                           struct facet_error *error)
{
    bool more = false;
    uint64_t count = 0;
    enum facet_status status = csv_next(csv, &more, error);

    while (status == FACET_OK && more) {
        count++;
        status = row(list, csv, columns, error);
        if (status == FACET_OK)
            status = csv_next(csv, &more, error);
    }
    if (status == FACET_OK && count == 0)
        status = facet_error_argument(error, FACET_INVALID_ARGUMENT, "text", "%s: no %s, expected at least one",
                                      csv->file, plural);
    return status;
}

enum facet_status csv_headings(struct csv *csv, const char *const *names, uint32_t count, uint32_t *ret_columns,
                               struct facet_error *error)
{
    bool more = false;
    enum facet_status status = csv_next(csv, &more, error);

    if (status != FACET_OK)
        return status;
    if (!more)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "text", "%s: empty, expected a line of headings",
                                    csv->file);
    for (uint32_t i = 0; i < count; i++) {
        ret_columns[i] = CSV_FIELDS;
        for (uint32_t field = 0; field < csv->count; field++) {
            if (strcmp(csv->field[field], names[i]) != 0)
                continue;
            if (ret_columns[i] != CSV_FIELDS)
                return csv_refuse(csv, names[i], names[i], "each heading once", error);
            ret_columns[i] = field;
        }
    }
    return FACET_OK;
}

enum facet_status csv_number(const struct csv *csv, const char *column, const char *value, uint64_t max,
                             uint64_t *ret_number, struct facet_error *error)
{
    const char *at = value;
    uint64_t number = 0;
    char expected[64];

    for (; *at >= '0' && *at <= '9' && number <= max / 10; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    bool digits = at != value;

    if (digits && *at == '.')
        for (at++; *at == '0'; at++)
            ;
    if (digits && *at == '\0' && number <= max) {
        *ret_number = number;
        return FACET_OK;
    }
    snprintf(expected, sizeof expected, "a whole number up to %" PRIu64, max);
    return csv_refuse(csv, column, value, expected, error);
}

static bool add_block(struct csv_texts *texts, size_t bytes)
{
    size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;

    if (texts->count == texts->room) {
        size_t room = texts->room ? 2 * texts->room : 8;
        char **blocks = realloc(texts->blocks, room * sizeof *blocks);

        if (!blocks)
            return false;
        texts->blocks = blocks;
        texts->room = room;
    }
    texts->blocks[texts->count] = malloc(size);
    if (!texts->blocks[texts->count])
        return false;
    texts->count++;
    texts->used = 0;
    texts->size = size;
    return true;
}

const char *csv_text_keep(struct csv_texts *texts, const char *text)
{
    size_t bytes = strlen(text) + 1;

    if (bytes > texts->size - texts->used && !add_block(texts, bytes))
        return NULL;
    char *kept = texts->blocks[texts->count - 1] + texts->used;

    memcpy(kept, text, bytes);
    texts->used += bytes;
    return kept;
}

void csv_texts_free(struct csv_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        free(texts->blocks[i]);
    free(texts->blocks);
    *texts = (struct csv_texts){0};
}
