/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: failures of the Nth allocation, in Facet's code (the linker's --wrap) and in jansson's.
 * Never: fails outside of failing_loop() and failing_loop_from().
 */
#ifndef FACET_TEST_SPEC_FAILING_H
#define FACET_TEST_SPEC_FAILING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "../../effort.h"

static uint64_t failing_calls, failing_at;
static bool failing_reads; /* jansson reads a document */

/* What the last run without a failure allocated: the size of each allocation, and whether a reader made it. */
enum { FAILING_CALLS_MOST = 1 << 18 };
struct failing_call {
    uint32_t bytes;
    bool reads;
};
static struct failing_call failing_trace[FAILING_CALLS_MOST];

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
char *__wrap_strdup(const char *text);
json_t *__real_json_loadb(const char *text, size_t bytes, size_t flags, json_error_t *error);
json_t *__wrap_json_loadb(const char *text, size_t bytes, size_t flags, json_error_t *error);

static bool failing_now(size_t bytes)
{
    if (!failing_at && failing_calls < FAILING_CALLS_MOST)
        failing_trace[failing_calls] = (struct failing_call){.bytes = (uint32_t)bytes, .reads = failing_reads};
    return ++failing_calls == failing_at;
}

void *__wrap_malloc(size_t bytes)
{
    return failing_now(bytes) ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return failing_now(count * bytes) ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return failing_now(bytes) ? NULL : __real_realloc(old, bytes);
}

char *__wrap_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = __wrap_malloc(bytes);

    return copy ? memcpy(copy, text, bytes) : NULL;
}

json_t *__wrap_json_loadb(const char *text, size_t bytes, size_t flags, json_error_t *error)
{
    failing_reads = true;
    json_t *json = __real_json_loadb(text, bytes, flags, error);
    failing_reads = false;
    return json;
}

static inline void failing_begin(void)
{
    json_set_alloc_funcs(__wrap_malloc, free);
}

/* Runs `step` without a failure, and returns how many allocations it makes; `failing_trace` has them. */
static inline uint64_t failing_record(bool (*step)(void *context), void *context)
{
    failing_calls = 0;
    if (!step(context) || failing_calls > FAILING_CALLS_MOST)
        abort();
    return failing_calls;
}

/* A reader makes thousands of equal allocations, for one member like for the next. With little effort, as under a
 * sanitizer, every third of them fails; the seed says which. */
static inline bool failing_skips(uint64_t at, uint64_t count)
{
    enum { EQUAL_STEPS = 3, MANY = 100, LITTLE = 25 };

    return at <= count && failing_trace[at - 1].reads && effort(MANY, 1) < LITTLE &&
           (at + effort_seed(0)) % EQUAL_STEPS != 0;
}

/* Runs `step` while the allocation `first`, the next, ... fails, until none is left to fail, and returns how many it
 * makes. `failing_trace` has its `count` allocations; `step` returns whether it succeeded, and asserts the conditions
 * that must hold after a failure. */
static inline uint64_t failing_loop_from(uint64_t first, uint64_t count, bool (*step)(void *context), void *context)
{
    uint64_t at = first - 1;
    bool reached = true;

    while (reached) {
        if (failing_skips(++at, count))
            continue;
        failing_calls = 0;
        failing_at = at;
        bool done = step(context);
        reached = failing_calls >= failing_at;
        failing_at = 0;
        if (!done && !reached)
            abort();
    }
    return at - 1;
}

static inline uint64_t failing_loop(bool (*step)(void *context), void *context)
{
    return failing_loop_from(1, 0, step, context);
}

/* failing_loop() for a step that reads long documents, and can be repeated. */
static inline uint64_t failing_loop_of_reader(bool (*step)(void *context), void *context)
{
    uint64_t count = failing_record(step, context);

    return failing_loop_from(1, count, step, context);
}

#endif
