/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: finding libcurl's functions, and exchanges. Never: retries a call that its server may have seen. */
#include "http.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "terminal.h"

#define NOTE_NS (900 * FACET_NS_PER_MS) /* curl checks once a second */

/* The functions of libcurl that are used, each with the type that its header declares. */
#define CURL_FUNCTIONS(X)                                                                                              \
    X(init, curl_easy_init)                                                                                            \
    X(cleanup, curl_easy_cleanup)                                                                                      \
    X(reset, curl_easy_reset)                                                                                          \
    X(set, curl_easy_setopt)                                                                                           \
    X(perform, curl_easy_perform)                                                                                      \
    X(get, curl_easy_getinfo)                                                                                          \
    X(explain, curl_easy_strerror)                                                                                     \
    X(escape, curl_easy_escape)                                                                                        \
    X(free, curl_free)                                                                                                 \
    X(append, curl_slist_append)                                                                                       \
    X(free_list, curl_slist_free_all)

struct curl_functions {
#define CURL_MEMBER(name, function) __typeof__(function) *name;
    CURL_FUNCTIONS(CURL_MEMBER)
#undef CURL_MEMBER
};

struct http {
    struct curl_functions curl;
    CURL *handle;
};

/* ---- finding libcurl ---- */

/*
 * Both libraries have the same interface; they differ in their TLS library, which a Unix socket does not use. libcurl
 * stays loaded until the command ends, because libraries below it do not support unloading.
 */
static void *open_library(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    void *library = NULL;

    for (size_t i = 0; i < sizeof names / sizeof names[0] && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return library;
}

static enum facet_status find_functions(struct curl_functions *functions, struct facet_error *error)
{
    static const char *const names[] = {
#define CURL_NAME(name, function) #function,
        CURL_FUNCTIONS(CURL_NAME)
#undef CURL_NAME
    };
    void *found[sizeof names / sizeof names[0]], *library = open_library();

    _Static_assert(sizeof found == sizeof *functions, "a struct of pointers and nothing else");
    if (!library)
        return facet_error_set(error, FACET_UNSUPPORTED,
                               "this needs libcurl (Debian: libcurl4 or libcurl3-gnutls), which cannot be opened: %s",
                               dlerror());
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        found[i] = dlsym(library, names[i]);
        if (!found[i])
            return facet_error_set(error, FACET_UNSUPPORTED, "this machine's libcurl is another library: it has no %s",
                                   names[i]);
    }
    memcpy(functions, found, sizeof *functions);
    return FACET_OK;
}

enum facet_status http_open(struct http **ret_http, struct facet_error *error)
{
    struct curl_functions curl;
    enum facet_status status = find_functions(&curl, error);

    if (status != FACET_OK)
        return status;
    struct http *http = malloc(sizeof *http);
    CURL *handle = http ? curl.init() : NULL;
    if (!handle) {
        free(http);
        return facet_error_set(error, FACET_NO_MEMORY, "cannot set up the HTTP client");
    }
    *http = (struct http){.curl = curl, .handle = handle};
    *ret_http = http;
    return FACET_OK;
}

void http_close(struct http *http)
{
    if (http)
        http->curl.cleanup(http->handle);
    free(http);
}

/* ---- an exchange ---- */

/* The state of one call. */
struct exchange {
    const struct http_call *call;
    struct http_answer answer;
    uint64_t since_ns;
    int socket;
    int socket_errno; /* why socket() failed; 0: it did not */
    uid_t other_user; /* the listening process's user, when `is_other_user` */
    bool is_other_user;
    bool note_shown;
    bool is_too_long;
};

static size_t receive_body(char *data, size_t size, size_t count, void *context)
{
    struct exchange *exchange = context;
    struct http_answer *answer = &exchange->answer;
    size_t bytes = size * count;

    exchange->is_too_long = bytes > exchange->call->answer_most - answer->length;
    char *grown = exchange->is_too_long ? NULL : realloc(answer->text, answer->length + bytes + 1);
    if (!grown)
        return 0;
    memcpy(grown + answer->length, data, bytes);
    answer->text = grown;
    answer->length += bytes;
    grown[answer->length] = '\0';
    return bytes;
}

static int on_progress(void *context, curl_off_t down_all, curl_off_t down, curl_off_t up_all, curl_off_t up)
{
    struct exchange *exchange = context;

    if (exchange->call->note && !exchange->note_shown && facet_clock_now_ns() - exchange->since_ns >= NOTE_NS) {
        terminal_note(exchange->call->note);
        exchange->note_shown = true;
    }
    return 0;
}

static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct exchange *exchange = context;

    exchange->socket = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    exchange->socket_errno = exchange->socket < 0 ? errno : 0;
    return exchange->socket;
}

/* Checks the listening process's user. libcurl calls this when it is connected and has sent nothing yet. */
static int check_peer(void *context, char *their_address, char *our_address, int their_port, int our_port)
{
    struct exchange *exchange = context;
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t size = sizeof peer;

    if (getsockopt(exchange->socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
        (peer.uid == geteuid() || peer.uid == 0))
        return CURL_PREREQFUNC_OK;
    exchange->is_other_user = true;
    exchange->other_user = peer.uid;
    return CURL_PREREQFUNC_ABORT;
}

/*
 * Turns off the user's proxy, .netrc and redirects, which are not for a Unix socket. Each connection serves one call:
 * an idle one would keep a private daemon from ending, and curl by itself repeats a call on a kept connection that
 * broke.
 */
static CURLcode prepare_call(struct http *http, struct exchange *exchange, struct curl_slist *headers)
{
    const struct http_call *call = exchange->call;
    __typeof__(http->curl.set) set = http->curl.set;
    CURL *handle = http->handle;

    http->curl.reset(handle);
    set(handle, CURLOPT_UNIX_SOCKET_PATH, call->socket);
    set(handle, CURLOPT_URL, call->url);
    set(handle, CURLOPT_PATH_AS_IS, 1L);
    set(handle, CURLOPT_FORBID_REUSE, 1L);
    set(handle, CURLOPT_PROTOCOLS_STR, "http");
    set(handle, CURLOPT_PROXY, "");
    set(handle, CURLOPT_NOSIGNAL, 1L);
    set(handle, CURLOPT_TIMEOUT_MS, call->timeout_ms);
    set(handle, CURLOPT_CUSTOMREQUEST, call->method);
    set(handle, CURLOPT_HTTPHEADER, headers);
    set(handle, CURLOPT_WRITEFUNCTION, receive_body);
    set(handle, CURLOPT_WRITEDATA, exchange);
    set(handle, CURLOPT_NOPROGRESS, 0L);
    set(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
    set(handle, CURLOPT_XFERINFODATA, exchange);
    if (call->body)
        set(handle, CURLOPT_POSTFIELDS, call->body);
    if (!call->own_user_only)
        return CURLE_OK;
    set(handle, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    set(handle, CURLOPT_OPENSOCKETDATA, exchange);
    set(handle, CURLOPT_PREREQDATA, exchange);
    return set(handle, CURLOPT_PREREQFUNCTION, check_peer); /* libcurl before 7.80 refuses it; then no call is made */
}

static struct http_failure failure_of(struct http *http, const struct exchange *exchange, CURLcode code)
{
    struct http_failure failure = {.kind = HTTP_BROKEN, .reason = http->curl.explain(code)};
    long number = 0;

    if (exchange->is_other_user) {
        failure.kind = HTTP_OTHER_USER;
        failure.user = exchange->other_user;
    } else if (code == CURLE_COULDNT_CONNECT) {
        http->curl.get(http->handle, CURLINFO_OS_ERRNO, &number);
        failure.kind = HTTP_NOT_CONNECTED;
        failure.os_errno = number ? (int)number : exchange->socket_errno;
    } else if (code == CURLE_OPERATION_TIMEDOUT) {
        failure.kind = HTTP_TIMED_OUT;
    } else if (code == CURLE_WRITE_ERROR && exchange->is_too_long) {
        failure.kind = HTTP_TOO_LONG;
    } else if (code == CURLE_WRITE_ERROR || code == CURLE_OUT_OF_MEMORY) {
        failure.kind = HTTP_NO_MEMORY;
    }
    return failure;
}

/* An empty "Expect:" keeps curl from waiting for permission to send a longer body. */
static struct curl_slist *make_headers(struct http *http)
{
    struct curl_slist *headers = http->curl.append(NULL, "Expect:");
    struct curl_slist *all = headers ? http->curl.append(headers, "Content-Type: application/json") : NULL;

    if (!all)
        http->curl.free_list(headers);
    return all;
}

bool http_exchange(struct http *http, const struct http_call *call, struct http_answer *ret_answer,
                   struct http_failure *ret_failure)
{
    struct exchange exchange = {.call = call, .socket = -1, .since_ns = facet_clock_now_ns()};
    struct curl_slist *headers = make_headers(http);
    CURLcode code = CURLE_OUT_OF_MEMORY;

    if (headers) {
        code = prepare_call(http, &exchange, headers);
        if (code == CURLE_OK)
            code = http->curl.perform(http->handle);
        http->curl.free_list(headers);
    }
    if (exchange.note_shown)
        terminal_note_end();
    if (code != CURLE_OK) {
        free(exchange.answer.text);
        *ret_failure = failure_of(http, &exchange, code);
        return false;
    }
    http->curl.get(http->handle, CURLINFO_RESPONSE_CODE, &exchange.answer.status);
    *ret_answer = exchange.answer;
    return true;
}

char *http_escape(struct http *http, const char *text)
{
    char *escaped = http->curl.escape(http->handle, text, 0);
    char *copy = escaped ? strdup(escaped) : NULL;

    http->curl.free(escaped);
    return copy;
}
