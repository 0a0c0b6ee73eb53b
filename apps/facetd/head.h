/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of an HTTP request, its first line and headers: checked before the HTTP library reads it.
 *
 * Owns: the rules for a head. The library accepts some ambiguous heads (a NUL that ends a path early, two lengths), and
 * answers others with pages of its own. None of these heads reaches it.
 * Never: reads a socket or decodes a path.
 *
 * Thread rule: pure functions, callable from any thread.
 */
#ifndef FACETD_HEAD_H
#define FACETD_HEAD_H

#include <stdbool.h>
#include <stddef.h>

#include <facet/error.h>

/* The longest first line, and the longest head with it. */
#define HEAD_LINE_MAX ((size_t)8 * 1024)
#define HEAD_MAX      ((size_t)16 * 1024)

/*
 * The most headers, and the most arguments behind '?'. With more, the library would exceed its memory for a connection,
 * and answer with its own page.
 */
#define HEAD_HEADERS_MAX   100u
#define HEAD_ARGUMENTS_MAX 16u

enum head_verdict {
    HEAD_INCOMPLETE, /* more is to come */
    HEAD_GOOD,
    HEAD_BAD, /* refuse it */
};

/* Set with HEAD_BAD. `no_body`: the answer may not have a body, as the request's method is HEAD. */
struct head_refusal {
    unsigned http;
    bool no_body;
    struct facet_error error;
};

enum head_verdict head_judge(const char *data, size_t size, struct head_refusal *ret_refusal);

#endif
