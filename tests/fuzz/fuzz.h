/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the declarations that fuzz targets share: libFuzzer's entry point, the input as a text, and an assertion that
 * ends the program. Never: knows the code under test.
 */
#ifndef FACET_FUZZ_H
#define FACET_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/error.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_ASSERT(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                             \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The input as a text of its exact size on the heap, so that the sanitizer sees a read past its end. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    FUZZ_ASSERT(text);
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* Checks that a refusal names the argument, and has a terminated message that says what was expected. */
static inline void fuzz_check_refusal(enum facet_status status, const struct facet_error *error, const char *argument)
{
    FUZZ_ASSERT(status == FACET_INVALID_ARGUMENT || status == FACET_OUT_OF_RANGE);
    FUZZ_ASSERT(error->status == status);
    FUZZ_ASSERT(strcmp(error->argument, argument) == 0);
    FUZZ_ASSERT(memchr(error->message, '\0', sizeof error->message));
    FUZZ_ASSERT(strstr(error->message, "expected"));
}

#endif
