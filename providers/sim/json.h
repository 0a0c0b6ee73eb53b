/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict reading of the simulator's JSON files.
 *
 * Owns: the place in a document that is being read, and refusals that name the file, the place, the value and the
 * expectation.
 * Never: accepts an unknown member, or a truncated number.
 *
 * Readers return zeros for a value that they refuse, and go on. The first refusal is kept in `status`, which the caller
 * checks at the end.
 */
#ifndef FACET_SIM_JSON_H
#define FACET_SIM_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <facet/error.h>

struct sim_document {
    const char *file; /* for messages */
    struct facet_error *error;
    enum facet_status status;
};

/* A value of a document and its path: "models.h100.slices[2]". Value NULL: it is missing. */
struct sim_json {
    struct sim_document *document;
    json_t *value;
    char path[128];
};

/* A name in a file and its value here. Tables end with a NULL name. */
struct sim_choice {
    const char *name;
    uint32_t value;
};

/* The whole text of a regular file, at most a mebibyte. The caller frees it. */
enum facet_status sim_read_file(const char *file, char **ret_text, size_t *ret_length, struct facet_error *error);

/* The document in `text`, to be released with json_decref(). Refuses members that occur twice. */
enum facet_status sim_json_parse(const char *file, const char *text, size_t length, json_t **ret_root,
                                 struct facet_error *error);

/* Refuses the document because of the value at `at`. */
void sim_json_refuse(const struct sim_json *at, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct sim_json sim_json_member(const struct sim_json *at, const char *name); /* refuses when it is missing */
struct sim_json sim_json_item(const struct sim_json *at, size_t index);
bool sim_json_has(const struct sim_json *at, const char *name);

/* Refuses a value that is no object, and any member besides `names` (ends with NULL). */
void sim_json_only(const struct sim_json *at, const char *const *names);
/* The number of items of an array of `low` to `high`. */
size_t sim_json_count(const struct sim_json *at, size_t low, size_t high);
int64_t sim_json_integer(const struct sim_json *at, int64_t low, int64_t high);
/* A text of 1 to `size` - 1 printable characters; "" when refused. */
const char *sim_json_text(const struct sim_json *at, size_t size);
/* A text that fits the extended regular expression `pattern`, which messages show. */
const char *sim_json_match(const struct sim_json *at, const char *pattern);
bool sim_json_flag(const struct sim_json *at);
uint32_t sim_json_choice(const struct sim_json *at, const struct sim_choice *choices);

#endif
