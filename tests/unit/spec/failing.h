/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: failures of the Nth allocation, in Facet's code (the linker's --wrap) and in jansson's.
 * Never: fails outside of failing_loop().
 */
#ifndef FACET_TEST_SPEC_FAILING_H
#define FACET_TEST_SPEC_FAILING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

static uint64_t failing_calls, failing_at;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
char *__wrap_strdup(const char *text);

static bool failing_now(void)
{
    return ++failing_calls == failing_at;
}

void *__wrap_malloc(size_t bytes)
{
    return failing_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return failing_now() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return failing_now() ? NULL : __real_realloc(old, bytes);
}

char *__wrap_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = __wrap_malloc(bytes);

    return copy ? memcpy(copy, text, bytes) : NULL;
}

static inline void failing_begin(void)
{
    json_set_alloc_funcs(__wrap_malloc, free);
}

/* Runs `step` while the first, second, ... allocation fails, until none is left to fail, and returns how many failed.
 * `step` returns whether it succeeded, and asserts the conditions that must hold after a failure. */
static inline uint64_t failing_loop(bool (*step)(void *context), void *context)
{
    uint64_t at = 0;
    bool reached = true;

    while (reached) {
        failing_calls = 0;
        failing_at = ++at;
        bool done = step(context);
        reached = failing_calls >= failing_at;
        failing_at = 0;
        if (!done && !reached)
            abort();
    }
    return at - 1;
}

#endif
