/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the thread that accepts connections, and the check of each head; see front.h. Never: lets a slow caller delay
 * another one.
 *
 * A head is read without taking it out of the socket (MSG_PEEK), so that the library still reads all of it. poll()
 * cannot wait for more than the bytes that are there already, so the rest of a head is polled for every few
 * milliseconds.
 */
#include "front.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "head.h"
#include "refusal.h"
#include "threads.h"
#include "waiting.h"

#define CALLER_MOST_NS (30 * FACET_NS_PER_S) /* for a head to arrive, and for each write of an answer */
#define POLL_NS        (2 * FACET_NS_PER_MS) /* the first pause before a head is looked at again */
#define STOP_CHECK_MS  50                    /* how often a waiting thread checks whether the front stops */
#define FULL_MS        5                     /* how often a full front looks for room */

/*
 * The most time and the most bytes for which a refused caller's remaining data is read; see linger_on_socket().
 */
#define LINGER_MS    1000
#define LINGER_BYTES (1u << 20)

struct front {
    int listener, wake;
    unsigned connections_most;
    front_serve_func serve;
    void *context;
    pthread_t thread;
    bool accepts; /* the thread runs */
    _Atomic bool closed, stopping;
    _Atomic unsigned callers;
    struct waiting waiting;
};

struct caller {
    struct front *front;
    int fd;
};

/* ---- one connection ---- */

static const char *reason_of(unsigned http)
{
    switch (http) {
    case 403:
        return "Forbidden";
    case 411:
        return "Length Required";
    case 413:
        return "Content Too Large";
    case 414:
        return "URI Too Long";
    case 417:
        return "Expectation Failed";
    case 431:
        return "Request Header Fields Too Large";
    case 503:
        return "Service Unavailable";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "Bad Request";
    }
}

static void send_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);

        if (sent <= 0)
            return;
        data += sent;
        size -= (size_t)sent;
    }
}

/* Reads the caller's remaining data: closing with unread data would reset the connection, and the caller might lose its
 * answer. */
static void linger_on_socket(int fd)
{
    char discarded[4096];
    size_t read = 0;
    struct pollfd more = {.fd = fd, .events = POLLIN};

    shutdown(fd, SHUT_WR);
    while (read < LINGER_BYTES && poll(&more, 1, LINGER_MS) > 0) {
        ssize_t received = recv(fd, discarded, sizeof discarded, MSG_DONTWAIT);

        if (received <= 0)
            return;
        read += (size_t)received;
    }
}

static void answer_refusal(int fd, const struct head_refusal *refusal)
{
    FACET_CLEANUP_FREE char *text = refusal_text(&refusal->error), *response = NULL;
    int size = text ? asprintf(&response,
                               "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                               "Connection: close\r\n\r\n%s",
                               refusal->http, reason_of(refusal->http), strlen(text), refusal->no_body ? "" : text)
                    : -1;

    if (size < 0) {
        response = NULL;
        return;
    }
    send_all(fd, response, (size_t)size);
}

static void refuse_connection(int fd, const struct head_refusal *refusal)
{
    answer_refusal(fd, refusal);
    linger_on_socket(fd);
}

/* Refuses a connection for which no thread can start. Does not linger, which would delay others: the caller may still
 * read its answer. */
static void refuse_busy(int fd)
{
    struct head_refusal refusal = {.http = 503};

    facet_error_set(&refusal.error, FACET_BUSY,
                    "the daemon can start no thread: its user has as many processes as 'ulimit -u' allows, or the "
                    "machine has no memory");
    answer_refusal(fd, &refusal);
}

/* Whether the user of the process that connected may call the daemon. */
static bool may_call(int fd, struct head_refusal *refusal)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    refusal->http = 403;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
        facet_error_set(&refusal->error, FACET_PERMISSION, "cannot read the user of the calling process");
        return false;
    }
    if (peer.uid == 0 || peer.uid == geteuid())
        return true;
    facet_error_set(&refusal->error, FACET_PERMISSION, "this daemon serves user %u and root, not user %u", geteuid(),
                    peer.uid);
    return false;
}

static void sleep_for(uint64_t ns)
{
    const struct timespec length = facet_ns_timespec(ns);

    nanosleep(&length, NULL);
}

/*
 * Polls until the head is complete. HEAD_INCOMPLETE: it never became so. An incomplete head keeps the socket readable,
 * so it is judged once, and the pauses grow until more of it has arrived.
 */
static enum head_verdict wait_for_head(const struct front *front, int fd, struct head_refusal *ret_refusal)
{
    FACET_CLEANUP_FREE char *head = malloc(HEAD_MAX + 1);
    uint64_t deadline_ns = facet_clock_now_ns() + CALLER_MOST_NS;
    struct pollfd readable = {.fd = fd, .events = POLLIN | POLLRDHUP};
    uint64_t pause_ns = POLL_NS;
    int seen_size = 0, size = 0;

    while (head && !atomic_load(&front->stopping) && facet_clock_now_ns() < deadline_ns) {
        if (poll(&readable, 1, STOP_CHECK_MS) <= 0)
            continue;
        bool ended = readable.revents & (POLLHUP | POLLRDHUP);
        if (!ended && ioctl(fd, FIONREAD, &size) == 0 && size == seen_size) {
            sleep_for(pause_ns);
            pause_ns = pause_ns * 2 < STOP_CHECK_MS * FACET_NS_PER_MS ? pause_ns * 2 : STOP_CHECK_MS * FACET_NS_PER_MS;
            continue;
        }
        ssize_t received = recv(fd, head, HEAD_MAX + 1, MSG_PEEK | MSG_DONTWAIT);
        enum head_verdict verdict = received > 0 ? head_judge(head, (size_t)received, ret_refusal) : HEAD_INCOMPLETE;

        if (verdict != HEAD_INCOMPLETE)
            return verdict;
        if (received <= 0 || ended) /* the connection ended within its head */
            return HEAD_INCOMPLETE;
        seen_size = size;
        pause_ns = POLL_NS;
    }
    return HEAD_INCOMPLETE;
}

static void *caller_main(void *argument)
{
    struct caller caller = *(struct caller *)argument;
    struct head_refusal refusal = {0};
    enum head_verdict verdict = HEAD_BAD;

    free(argument);
    if (may_call(caller.fd, &refusal))
        verdict = wait_for_head(caller.front, caller.fd, &refusal);
    if (verdict == HEAD_GOOD && waiting_end(&caller.front->waiting, caller.fd)) {
        caller.front->serve(caller.front->context, caller.fd);
    } else {
        if (verdict == HEAD_BAD)
            refuse_connection(caller.fd, &refusal);
        (void)waiting_end(&caller.front->waiting, caller.fd);
        close(caller.fd);
    }
    atomic_fetch_sub(&caller.front->callers, 1);
    return NULL;
}

/* ---- accepting ---- */

static void begin_connection(struct front *front, int fd)
{
    const struct timeval timeout = {.tv_sec = CALLER_MOST_NS / FACET_NS_PER_S};
    struct caller *caller = malloc(sizeof *caller);
    pthread_t thread;

    atomic_fetch_add(&front->callers, 1);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    waiting_begin(&front->waiting, fd, facet_clock_now_ns());
    if (caller)
        *caller = (struct caller){front, fd};
    if (caller && thread_start(&thread, "caller", caller_main, caller) == 0) {
        pthread_detach(thread);
        return;
    }
    free(caller);
    refuse_busy(fd);
    (void)waiting_end(&front->waiting, fd);
    close(fd);
    atomic_fetch_sub(&front->callers, 1);
}

static void *front_main(void *argument)
{
    struct front *front = argument;
    struct pollfd ready[] = {{.fd = front->listener, .events = POLLIN}, {.fd = front->wake, .events = POLLIN}};

    while (!atomic_load(&front->closed)) {
        /* Connections above the bound wait in the socket's backlog, until an idle one is hung up on. */
        bool full = atomic_load(&front->callers) >= front->connections_most;

        if (full && poll(ready, 1, 0) > 0)
            (void)waiting_hang_up(&front->waiting, facet_clock_now_ns());
        if (poll(full ? ready + 1 : ready, full ? 1 : 2, full ? FULL_MS : -1) < 0 || full || !ready[0].revents)
            continue;
        int fd = accept4(front->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            begin_connection(front, fd);
        else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            sleep_for(POLL_NS); /* no descriptors left */
    }
    return NULL;
}

enum facet_status front_start(int fd, unsigned connections_most, front_serve_func serve, void *context,
                              struct front **ret_front, struct facet_error *error)
{
    struct front *front = calloc(1, sizeof *front);

    if (!front) {
        close(fd);
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the server");
    }
    *front = (struct front){.listener = fd,
                            .wake = eventfd(0, EFD_CLOEXEC),
                            .connections_most = connections_most,
                            .serve = serve,
                            .context = context};
    waiting_init(&front->waiting);
    int result = front->wake < 0 ? errno : thread_start(&front->thread, "front", front_main, front);
    if (result) {
        if (front->wake >= 0)
            close(front->wake);
        close(fd);
        waiting_clear(&front->waiting);
        free(front);
        return facet_error_errno(error, result, "starting the server");
    }
    front->accepts = true;
    *ret_front = front;
    return FACET_OK;
}

void front_stop_accepting(struct front *front)
{
    atomic_store(&front->closed, true);
    eventfd_write(front->wake, 1);
    if (front->accepts)
        pthread_join(front->thread, NULL);
    front->accepts = false;
}

void front_stop(struct front *front)
{
    if (!front)
        return;
    atomic_store(&front->stopping, true);
    front_stop_accepting(front);
    while (atomic_load(&front->callers))
        sleep_for(POLL_NS);
    close(front->listener);
    close(front->wake);
    waiting_clear(&front->waiting);
    free(front);
}

unsigned front_connections(struct front *front)
{
    struct pollfd waiting = {.fd = front->listener, .events = POLLIN};

    return front_accepted(front) + (poll(&waiting, 1, 0) > 0);
}

unsigned front_accepted(const struct front *front)
{
    return atomic_load(&front->callers);
}
