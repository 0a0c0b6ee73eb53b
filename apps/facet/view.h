/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Amounts and tables as text for people.
 *
 * Owns: short forms of sizes and shares; tables through libsmartcols, whole when piped, fitted on a terminal.
 * Never: prints colours to a file or pipe, or when NO_COLOR is set or TERM is "dumb".
 */
#ifndef FACET_VIEW_H
#define FACET_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <libsmartcols/libsmartcols.h>

enum { VIEW_SIZE = 40 };

struct view_column {
    const char *title;
    int flags; /* SCOLS_FL_TRUNC: may be cut when a terminal is too narrow */
};

/* A table with these columns, ended by a NULL title; NULL when out of memory. Release with scols_unref_table(). */
struct libscols_table *view_table(const struct view_column *columns);

/* A table of names and values without headings. */
struct libscols_table *view_card(void);
bool view_card_add(struct libscols_table *card, const char *name, const char *value);

/* Adds a row of `count` texts; NULL shows as "-". False when out of memory. */
bool view_row(struct libscols_table *table, const char *const *cells, size_t count);

bool view_color(void); /* whether standard output takes colours */

/* Each returns `buffer`, of VIEW_SIZE bytes. */
char *view_memory(uint64_t bytes, char *buffer);                    /* "256M", "1.5G" */
char *view_vgpu_memory(const json_t *vgpu, char *buffer);           /* "12M/256M"; "-" for what is not known */
char *view_milli(uint64_t milli, char *buffer);                     /* "30%", "0.5%" */
char *view_compute(uint64_t request, uint64_t limit, char *buffer); /* "30%", "30:60%"; "-" when best effort */
char *view_seconds(uint64_t ns, char *buffer);                      /* "12.345 s" */

/* Members of an answer. Missing text is "", a missing number is 0; view_has() tells a missing number from 0. */
const char *view_text(const json_t *object, const char *member);
uint64_t view_number(const json_t *object, const char *member);
bool view_has(const json_t *object, const char *member);

static inline void view_cleanup_table(struct libscols_table **table)
{
    scols_unref_table(*table);
}
#define VIEW_CLEANUP_TABLE __attribute__((cleanup(view_cleanup_table)))

#endif
