/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels: what an operator writes to a virtual GPU to find it again, such as "job=1234" or "example.org/team=vision".
 *
 * Owns: the form of a label. Never: gives a label a meaning.
 *
 * A key has 1 to 63 letters, digits and ". _ / -", and begins and ends with a letter or digit. A value has 1 to 63
 * printable ASCII characters. So a label is a line of a terminal, of a database and of Prometheus without quoting more
 * than a quotation mark.
 */
#ifndef FACET_BASE_LABEL_H
#define FACET_BASE_LABEL_H

#include <stdbool.h>
#include <stddef.h>

#include <facet/error.h>

#define FACET_LABELS_MOST      16u /* of one virtual GPU */
#define FACET_LABEL_KEY_MOST   63u
#define FACET_LABEL_VALUE_MOST 63u

/* "key=value\n" for each label. */
#define FACET_LABELS_SIZE (FACET_LABELS_MOST * (FACET_LABEL_KEY_MOST + FACET_LABEL_VALUE_MOST + 2) + 1)

/* FACET_INVALID_ARGUMENT names the key and what was expected; its argument is "labels". */
enum facet_status facet_label_check_key(const char *key, size_t length, struct facet_error *error);
enum facet_status facet_label_check(const char *key, const char *value, struct facet_error *error);

/* The next line of `lines` from *at on: its key (not terminated), its length, and its value with its length. False:
 * there is none, or the line has no '='. */
struct facet_label_line {
    const char *key, *value;
    size_t key_length, value_length;
};
bool facet_label_next(const char *lines, size_t *at, struct facet_label_line *ret_label);

/* Changes `lines` by the lines of `change`: adds or replaces a label, and removes one whose value is empty.
 * FACET_OUT_OF_RANGE: there would be more than FACET_LABELS_MOST; then `lines` stays as it was. */
enum facet_status facet_label_merge(char lines[FACET_LABELS_SIZE], const char *change, struct facet_error *error);

#endif
