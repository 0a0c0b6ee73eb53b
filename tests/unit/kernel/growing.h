/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: texts to which pieces are added, and compiles of such sources that must end with an expected status and
 * message. Never: measures; looks into an image.
 */
#ifndef FACET_TESTS_GROWING_H
#define FACET_TESTS_GROWING_H

#include "compiling.h"

/* A text that grows. */
struct text {
    char *bytes;
    size_t used;
};

static inline void add(struct text *text, const char *piece, size_t times)
{
    size_t length = strlen(piece);

    text->bytes = realloc(text->bytes, text->used + length * times + 1);
    assert_non_null(text->bytes);
    for (size_t i = 0; i < times; i++, text->used += length)
        memcpy(text->bytes + text->used, piece, length);
    text->bytes[text->used] = '\0';
}

static inline void expect(const struct text *source, const char *target, enum facet_status expected,
                          const char *fragment)
{
    struct facet_backend_result result = {0};
    struct facet_error error = {0};
    enum facet_status status =
        compile_bytes(FACET_SOURCE_OPENCL_C, source->bytes, source->used, target, NULL, &result, &error);

    if (status != expected || !strstr(error.message, fragment))
        fail_msg("%s: status %d: \"%s\"; expected %d and \"%s\"", target, status, error.message, expected, fragment);
    assert_int_equal(result.image != NULL, status == FACET_OK);
    backend->clear(&result);
}

/* Adds macros "M0", "M1", ... each of which is the previous one twice. */
static inline void add_doubling(struct text *source, unsigned count)
{
    char line[64];

    add(source, "#define M0 -~\n", 1);
    for (unsigned i = 1; i <= count; i++) {
        snprintf(line, sizeof line, "#define M%u M%u M%u\n", i, i - 1, i - 1);
        add(source, line, 1);
    }
}

#endif
