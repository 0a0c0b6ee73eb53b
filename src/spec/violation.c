/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the list's memory and its bounds. Never: drops a violation without counting it. */
#include "spec/violation.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "spec/json.h"

enum { BYTES_MAX = 1 << 20, MESSAGE = 256 };

struct item {
    char *pointer;
    char *message;
};

struct facet_violations {
    struct item *items;
    uint32_t count, capacity;
    uint64_t total;
    size_t bytes;
    bool broken;
};

struct facet_violations *facet_violations_create(void)
{
    return calloc(1, sizeof(struct facet_violations));
}

void facet_violations_destroy(struct facet_violations *violations)
{
    if (!violations)
        return;
    for (uint32_t i = 0; i < violations->count; i++) {
        free(violations->items[i].pointer);
        free(violations->items[i].message);
    }
    free(violations->items);
    free(violations);
}

uint32_t facet_violations_count(const struct facet_violations *violations)
{
    return violations ? violations->count : 0;
}

uint64_t facet_violations_total(const struct facet_violations *violations)
{
    return violations ? violations->total : 0;
}

void facet_violations_break(struct facet_violations *violations)
{
    violations->broken = true;
}

bool facet_violations_broken(const struct facet_violations *violations)
{
    return violations->broken;
}

enum facet_status facet_violations_get(const struct facet_violations *violations, uint32_t index,
                                       struct facet_violation *ret_violation, struct facet_error *error)
{
    if (index >= facet_violations_count(violations))
        return facet_error_argument(error, FACET_NOT_FOUND, "index", "violation %u: expected less than %u", index,
                                    facet_violations_count(violations));
    const struct facet_violation violation = {.pointer = violations->items[index].pointer,
                                              .message = violations->items[index].message};
    if (!facet_struct_give(ret_violation, &violation, sizeof violation))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "ret_violation",
                                    "ret_violation: expected a struct with its size");
    return FACET_OK;
}

/* Writes a key in the form of a JSON pointer, unless `to` is NULL. Returns its length in bytes. */
static size_t put_key(char *to, const char *key)
{
    size_t length = 0;

    for (; *key; key++) {
        bool escaped = *key == '~' || *key == '/';
        if (to && escaped)
            to[length] = '~';
        if (to)
            to[length + escaped] = *key == '~' ? '0' : *key == '/' ? '1' : *key;
        length += 1 + (size_t)escaped;
    }
    return length;
}

static size_t put_step(char *to, const struct facet_step *step)
{
    char number[24];

    if (to)
        *to = '/';
    if (step->key)
        return 1 + put_key(to ? to + 1 : NULL, step->key);
    size_t length = (size_t)snprintf(number, sizeof number, "%zu", step->index);
    if (to)
        memcpy(to + 1, number, length);
    return 1 + length;
}

char *facet_step_pointer(const struct facet_step *step)
{
    size_t length = 0;

    for (const struct facet_step *at = step; at && at->parent; at = at->parent)
        length += put_step(NULL, at);
    char *text = malloc(length + 1);
    if (!text)
        return NULL;
    text[length] = '\0';
    for (const struct facet_step *at = step; at && at->parent; at = at->parent) {
        length -= put_step(NULL, at);
        put_step(text + length, at);
    }
    return text;
}

static bool has_room(struct facet_violations *violations)
{
    if (violations->count < violations->capacity)
        return true;
    uint32_t capacity = violations->capacity ? violations->capacity * 2 : 16;
    struct item *items = realloc(violations->items, capacity * sizeof *items);
    if (!items)
        return false;
    violations->items = items;
    violations->capacity = capacity;
    return true;
}

static bool keep_violation(struct facet_violations *violations, const struct facet_step *step, const char *text)
{
    FACET_CLEANUP_FREE char *pointer = facet_step_pointer(step);
    FACET_CLEANUP_FREE char *message = strdup(text);

    if (!pointer || !message || !has_room(violations))
        return false;
    violations->bytes += strlen(pointer) + strlen(message);
    if (violations->bytes <= BYTES_MAX)
        violations->items[violations->count++] = (struct item){FACET_TAKE_PTR(pointer), FACET_TAKE_PTR(message)};
    return true;
}

void facet_violations_add(struct facet_violations *violations, const struct facet_step *step, const char *format, ...)
{
    char text[MESSAGE];
    va_list arguments;

    violations->total++;
    if (violations->broken || violations->count == FACET_VIOLATIONS || violations->bytes > BYTES_MAX)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    facet_text_make_line(text);
    violations->broken = !keep_violation(violations, step, text);
}
