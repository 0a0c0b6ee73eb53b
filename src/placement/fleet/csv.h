/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading lines of comma-separated fields, and the texts of errors about them. Never: interprets a column.
 */
#ifndef FACET_PLACEMENT_CSV_H
#define FACET_PLACEMENT_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>

#define CSV_FIELDS 64u
#define CSV_FIELD  4096u /* bytes of one field, at most */

struct csv {
    char *text;            /* a copy, cut into fields in place */
    size_t length, offset; /* the text's length; where the unread text begins */
    const char *file;
    uint32_t line; /* the number of the line whose fields follow */
    uint32_t next_line;
    uint32_t count;
    char *field[CSV_FIELDS]; /* `count` of them */
};

/* Takes a copy. A byte order mark is skipped. FACET_INVALID_ARGUMENT: a zero byte in the text. */
enum facet_status csv_open(struct csv *csv, const char *text, size_t length, const char *file,
                           struct facet_error *error);
void csv_close(struct csv *csv);

/* Reads the next line that is not blank. *ret_more: whether there was such a line. */
enum facet_status csv_next(struct csv *csv, bool *ret_more, struct facet_error *error);

/*
 * Passes each line after the headings, which the caller has read, to `row`. FACET_INVALID_ARGUMENT: there is no line.
 * `plural` names the lines in a message.
 */
typedef enum facet_status (*csv_row_func)(void *list, const struct csv *csv, const uint32_t *columns,
                                          struct facet_error *error);
enum facet_status csv_rows(struct csv *csv, const uint32_t *columns, const char *plural, csv_row_func row, void *list,
                           struct facet_error *error);

/*
 * Finds the column of each of `names` among the headings; CSV_FIELDS for a missing name. Refuses a heading that comes
 * twice.
 */
enum facet_status csv_headings(struct csv *csv, const char *const *names, uint32_t count, uint32_t *ret_columns,
                               struct facet_error *error);

/* Sets the error "FILE:LINE: column NAME: 'VALUE': expected TEXT". */
enum facet_status csv_refuse(const struct csv *csv, const char *column, const char *value, const char *expected,
                             struct facet_error *error);

/* Reads a whole number up to `max`; "12.0" is a whole number, too. */
enum facet_status csv_number(const struct csv *csv, const char *column, const char *value, uint64_t max,
                             uint64_t *ret_number, struct facet_error *error);

/* Copies of texts, which are freed together with their list. */
struct csv_texts {
    char **blocks;
    size_t count, room, used, size;
};
/* Returns a copy of the text; NULL: there is no memory. */
const char *csv_text_keep(struct csv_texts *texts, const char *text);
void csv_texts_free(struct csv_texts *texts);

#endif
