/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: helpers for all files of this room: JSON released at the end of its scope, reading and writing a document,
 * structs that begin with their size.
 * Never: interprets a document.
 */
#ifndef FACET_SPEC_JSON_H
#define FACET_SPEC_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <jansson.h>

#include <facet/error.h>

#include "base/sized.h"

static inline void facet_cleanup_json(json_t **json)
{
    json_decref(*json);
}
/* `unused`: some variables are only there to be released. */
#define FACET_CLEANUP_JSON __attribute__((cleanup(facet_cleanup_json), unused))

/* Reads an object or array. Refuses a member that comes twice; the message of a refusal has line and column. */
enum facet_status facet_json_read(const char *text, size_t bytes, json_t **ret_json, struct facet_error *error);

/* Writes JSON in the form of our files: indented, with a line feed at the end. */
enum facet_status facet_json_write(const json_t *json, char **ret_text, struct facet_error *error);

/* A text without blanks, to be freed; NULL when out of memory, or when `json` is NULL. */
char *facet_json_compact(const json_t *json);

/* Copies, and copies with all parts; NULL when out of memory. jansson's own functions then leave out some members. */
json_t *facet_json_copy(const json_t *json);
json_t *facet_json_deep_copy(const json_t *json);

enum facet_status facet_json_no_memory(struct facet_error *error);

/* Whether JSON can hold a text, which must be well-formed UTF-8; false for NULL. */
bool facet_json_is_utf8(const char *text);

/* The index of the item of an array whose `key` is `text`; the array's size when there is none. */
size_t facet_json_find(const json_t *array, const char *key, const char *text);

static inline const char *facet_json_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* --- structs that begin with their size --- */

/* Copies the caller's struct as far as both sides know it; members beyond are 0. */
static inline bool facet_struct_take(void *ret_ours, size_t bytes, const void *theirs)
{
    uint32_t size = 0;

    if (!theirs)
        return false;
    memcpy(&size, theirs, sizeof size);
    if (size < sizeof size)
        return false;
    facet_sized_copy_in(ret_ours, theirs, (uint32_t)bytes);
    return true;
}

/* Fills the caller's struct as far as both sides know it; its `size` stays. */
static inline bool facet_struct_give(void *ret_theirs, const void *ours, size_t bytes)
{
    uint32_t size = 0;

    if (!ret_theirs)
        return false;
    memcpy(&size, ret_theirs, sizeof size);
    if (size < sizeof size)
        return false;
    memcpy((char *)ret_theirs + sizeof size, (const char *)ours + sizeof size,
           (size < bytes ? size : bytes) - sizeof size);
    return true;
}

#endif
