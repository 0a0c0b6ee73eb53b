/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error context: which argument, which value, which expectation.
 *
 * Owns: struct facet_error, which lives on the caller's stack and never allocates.
 * Never: prints, logs or decides on a reaction.
 *
 * Convention of all functions: a function that can fail takes `struct facet_error *error` (may be NULL), returns the
 * status, and leaves its outputs untouched on failure. It sets the error or lets its callee set it, never both; to add
 * the name of the failed action, it calls facet_error_prefix().
 */
#ifndef FACET_ERROR_H
#define FACET_ERROR_H

#include <facet/export.h>
#include <facet/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_error {
    enum facet_status status;
    char argument[32]; /* the argument or field at fault; empty when none */
    char message[360]; /* one line, no trailing newline, truncated with "..." when longer */
};

/* Fills `error` (when not NULL) and returns `status`, so that callers write `return facet_error_set(...)`. */
FACET_API enum facet_status facet_error_set(struct facet_error *error, enum facet_status status, const char *format,
                                            ...) FACET_PRINTF(3, 4);

/* As facet_error_set(), naming the argument at fault. `argument` may be NULL. */
FACET_API enum facet_status facet_error_argument(struct facet_error *error, enum facet_status status,
                                                 const char *argument, const char *format, ...) FACET_PRINTF(4, 5);

/* As facet_error_set(), with the text of `errnum` appended; the status is chosen from errnum. */
FACET_API enum facet_status facet_error_errno(struct facet_error *error, int errnum, const char *format, ...)
    FACET_PRINTF(3, 4);

/* Puts "text: " before the message, and returns the status already there. */
FACET_API enum facet_status facet_error_prefix(struct facet_error *error, const char *format, ...) FACET_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif
#endif
