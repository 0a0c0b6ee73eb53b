/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the socket's system calls, waiting for it, the buffer of received bytes. Never: blocks beyond the deadline. */
#include "passthrough/attach/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum { FIRST_CAPACITY = 16 << 10 };

/* The interval between attempts to connect while the socket does not accept. */
#define RETRY_NS (20 * FACET_NS_PER_MS)

static enum facet_status refuse_late(struct facet_error *error)
{
    return facet_error_set(error, FACET_TIMEOUT, "no answer in time");
}

static enum facet_status connect_until(int fd, const struct sockaddr_un *address, uint64_t deadline_ns,
                                       struct facet_error *error)
{
    const struct timespec pause = facet_ns_timespec(RETRY_NS);

    while (connect(fd, (const struct sockaddr *)address, sizeof *address) < 0) {
        if (errno == ECONNREFUSED)
            return facet_error_set(error, FACET_IO, "no process listens there");
        if (errno != EAGAIN && errno != EINTR)
            return facet_error_errno(error, errno, "cannot connect");
        if (facet_clock_now_ns() >= deadline_ns)
            return refuse_late(error);
        nanosleep(&pause, NULL);
    }
    return FACET_OK;
}

enum facet_status facet_wire_connect(struct facet_wire *ret_wire, const char *path, uint64_t deadline_ns,
                                     struct facet_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);

    if (length == 0 || length >= sizeof address.sun_path)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "socket", "its path has %zu bytes, expected 1 to %zu",
                                    length, sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, length);
    FACET_CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return facet_error_errno(error, errno, "cannot make a socket");
    enum facet_status status = connect_until(fd, &address, deadline_ns, error);
    if (status == FACET_OK)
        *ret_wire = (struct facet_wire){.fd = FACET_TAKE_FD(fd), .deadline_ns = deadline_ns};
    return status;
}

void facet_wire_close(struct facet_wire *wire)
{
    facet_cleanup_fd(&wire->fd);
    free(wire->buffer);
    *wire = (struct facet_wire){.fd = -1};
}

/* Waits until the socket is ready or closed, or until `until_ns`. */
static enum facet_status wait_for(const struct facet_wire *wire, short events, uint64_t until_ns,
                                  struct facet_error *error)
{
    struct pollfd watched = {.fd = wire->fd, .events = events};

    for (;;) {
        uint64_t now = facet_clock_now_ns();
        if (now >= until_ns)
            return refuse_late(error);
        const struct timespec left = facet_ns_timespec(until_ns - now);
        int ready = ppoll(&watched, 1, &left, NULL);
        if (ready > 0)
            return FACET_OK;
        if (ready < 0 && errno != EINTR)
            return facet_error_errno(error, errno, "cannot wait for the socket");
    }
}

static ssize_t send_some(int socket, const char *bytes, size_t count, int fd)
{
    struct iovec piece = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = count};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {0};

    if (fd > 0) {
        struct cmsghdr *header = (struct cmsghdr *)control;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL);
}

static enum facet_status refuse_gone(struct facet_error *error)
{
    return facet_error_set(error, FACET_IO, "the other side closed the socket");
}

enum facet_status facet_wire_send(struct facet_wire *wire, const char *bytes, size_t count, int fd,
                                  struct facet_error *error)
{
    while (count > 0) {
        ssize_t sent = send_some(wire->fd, bytes, count, fd);
        if (sent > 0) {
            bytes += sent;
            count -= (size_t)sent;
            fd = 0; /* it was sent with the first byte */
            continue;
        }
        if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
            return refuse_gone(error);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return facet_error_errno(error, errno, "cannot send");
        enum facet_status status = wait_for(wire, POLLOUT, wire->deadline_ns, error);
        if (status != FACET_OK)
            return status;
    }
    return FACET_OK;
}

/* Makes room for more input: moves the unread bytes to the front, and grows the buffer if that is not enough. */
static enum facet_status make_room(struct facet_wire *wire, struct facet_error *error)
{
    size_t used = wire->end - wire->begin;
    size_t capacity = wire->capacity ? wire->capacity : FIRST_CAPACITY;

    if (wire->begin > 0) {
        memmove(wire->buffer, wire->buffer + wire->begin, used);
        wire->begin = 0;
        wire->end = used;
    }
    if (used >= FACET_WIRE_LINE_MAX)
        return facet_error_set(error, FACET_CORRUPT, "a line of more than %zu MiB", FACET_WIRE_LINE_MAX >> 20);
    while (capacity < used + FIRST_CAPACITY / 2)
        capacity *= 2;
    if (capacity == wire->capacity)
        return FACET_OK;
    char *buffer = realloc(wire->buffer, capacity);
    if (!buffer)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for an answer");
    wire->buffer = buffer;
    wire->capacity = capacity;
    return FACET_OK;
}

static enum facet_status receive_more(struct facet_wire *wire, uint64_t until_ns, struct facet_error *error)
{
    enum facet_status status = make_room(wire, error);

    while (status == FACET_OK) {
        ssize_t got = recv(wire->fd, wire->buffer + wire->end, wire->capacity - wire->end, 0);
        if (got > 0) {
            wire->end += (size_t)got;
            return FACET_OK;
        }
        if (got == 0 || errno == ECONNRESET)
            return refuse_gone(error);
        if (errno != EAGAIN && errno != EINTR)
            return facet_error_errno(error, errno, "cannot receive");
        status = wait_for(wire, POLLIN, until_ns, error);
    }
    return status;
}

/* The end of the first line, searched behind the first `seen` bytes, which have none; NULL: it has not arrived. */
static char *find_end(const struct facet_wire *wire, size_t seen)
{
    size_t have = wire->end - wire->begin;

    return have > seen ? memchr(wire->buffer + wire->begin + seen, '\n', have - seen) : NULL;
}

enum facet_status facet_wire_receive(struct facet_wire *wire, uint64_t until_ns, char **ret_line, size_t *ret_length,
                                     struct facet_error *error)
{
    uint64_t limit = until_ns < wire->deadline_ns ? until_ns : wire->deadline_ns;
    size_t seen = 0;

    for (;;) {
        const char *end = find_end(wire, seen);
        if (end) {
            char *line = wire->buffer + wire->begin;
            *ret_line = line;
            *ret_length = (size_t)(end - line);
            wire->begin += *ret_length + 1;
            return FACET_OK;
        }
        seen = wire->end - wire->begin;
        /* The deadline also holds for a peer that never stops sending. */
        if (facet_clock_now_ns() >= limit)
            return refuse_late(error);
        enum facet_status status = receive_more(wire, limit, error);
        if (status != FACET_OK)
            return status;
    }
}
