/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 over a Unix socket, through libcurl.
 *
 * Owns: loading libcurl before the first call (it loads some thirty libraries, which most commands do not need), one
 * handle, the bound on an answer's size.
 * Never: makes a call twice.
 *
 * Thread rule: one thread.
 */
#ifndef FACET_HTTP_H
#define FACET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <facet/error.h>

struct http;

struct http_call {
    const char *socket;
    const char *method;
    const char *url;
    const char *body;   /* NULL: none */
    const char *note;   /* shown on a terminal when the call takes long; NULL: nothing */
    size_t answer_most; /* bytes that an answer may have */
    long timeout_ms;    /* above 0 */
    bool own_user_only; /* nothing is sent to a process of a user other than the caller and root */
};

struct http_answer {
    char *text; /* NUL-terminated; NULL: nothing came. The caller frees it */
    size_t length;
    long status; /* the HTTP status */
};

enum http_failure_kind {
    HTTP_NOT_CONNECTED = 0,
    HTTP_TIMED_OUT = 1, /* no whole answer in time */
    HTTP_TOO_LONG = 2,  /* an answer above `answer_most` */
    HTTP_NO_MEMORY = 3,
    HTTP_BROKEN = 4,     /* the exchange began, and never completed */
    HTTP_OTHER_USER = 5, /* another user's process listens, and `own_user_only` was asked for */
};

struct http_failure {
    enum http_failure_kind kind;
    int os_errno;       /* of HTTP_NOT_CONNECTED; 0: unknown */
    uid_t user;         /* of HTTP_OTHER_USER */
    const char *reason; /* libcurl's words */
};

/* FACET_UNSUPPORTED: this machine has no suitable libcurl. Makes no connection yet. */
enum facet_status http_open(struct http **ret_http, struct facet_error *error);
void http_close(struct http *http); /* NULL is allowed */

/* Makes one exchange, with any HTTP status. False: no answer came, and `ret_failure` says why. */
bool http_exchange(struct http *http, const struct http_call *call, struct http_answer *ret_answer,
                   struct http_failure *ret_failure);

/* `text`, escaped as one part of a URL's path. The caller frees the result; NULL: no memory. */
char *http_escape(struct http *http, const char *text);

#endif
