/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: every system call that moves bytes between a session and its child. Never: reads them. */
#include "session/transport.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "session/wire.h"

static enum facet_transport wait_for(int socket, short events, uint64_t deadline_ns)
{
    struct pollfd ready = {.fd = socket, .events = events};

    for (;;) {
        uint64_t now = facet_clock_now_ns();
        const struct timespec left = facet_ns_timespec(deadline_ns > now ? deadline_ns - now : 0);
        int count = ppoll(&ready, 1, deadline_ns == FACET_TRANSPORT_FOREVER ? NULL : &left, NULL);

        if (count > 0)
            return FACET_TRANSPORT_OK;
        if (count == 0)
            return FACET_TRANSPORT_LATE;
        if (errno != EINTR)
            return FACET_TRANSPORT_FAILED;
    }
}

static enum facet_transport failure_of(int errnum)
{
    return errnum == EPIPE || errnum == ECONNRESET ? FACET_TRANSPORT_CLOSED : FACET_TRANSPORT_FAILED;
}

/* Room for one file beside the bytes. */
union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static void attach_descriptor(struct msghdr *message, union control *control, int fd)
{
    memset(control, 0, sizeof *control);
    message->msg_control = control;
    message->msg_controllen = sizeof *control;
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
}

/* The file that came with a message; -1 when there is none. A second one finds no room and is dropped by the kernel. */
static int detach_descriptor(struct msghdr *message)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    int fd = -1;

    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

/* Sends as much of the pieces as the socket takes, and the file with the first byte. */
static ssize_t send_some(int socket, struct iovec *pieces, size_t count, int fd)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    union control control;
    ssize_t sent;

    if (fd >= 0)
        attach_descriptor(&message, &control, fd);
    do
        sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent;
}

static ssize_t receive_some(int socket, void *bytes, size_t size, int *ret_fd)
{
    struct iovec piece = {.iov_base = bytes, .iov_len = size};
    union control control;
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t received;

    do
        received = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (received < 0 && errno == EINTR);
    *ret_fd = received < 0 ? -1 : detach_descriptor(&message);
    return received;
}

/* Skips the first `sent` bytes of the pieces, and returns the first piece that is left. */
static struct iovec *advance_vectors(struct iovec *next, const struct iovec *end, size_t sent)
{
    for (; next < end && sent >= next->iov_len; next++)
        sent -= next->iov_len;
    if (next < end) {
        next->iov_base = (char *)next->iov_base + sent;
        next->iov_len -= sent;
    }
    return next;
}

enum facet_transport facet_transport_send(int socket, const void *bytes, size_t size, int fd, uint64_t deadline_ns)
{
    uint64_t length = size;
    struct iovec pieces[2] = {{&length, sizeof length}, {(void *)(uintptr_t)bytes, size}};
    const struct iovec *end = pieces + 2;

    for (struct iovec *next = pieces; next < end;) {
        ssize_t sent = send_some(socket, next, (size_t)(end - next), fd);
        if (sent >= 0) {
            fd = -1;
            next = advance_vectors(next, end, (size_t)sent);
            continue;
        }
        if (errno != EAGAIN)
            return failure_of(errno);
        enum facet_transport result = wait_for(socket, POLLOUT, deadline_ns);
        if (result != FACET_TRANSPORT_OK)
            return result;
    }
    return FACET_TRANSPORT_OK;
}

/* Receives `size` bytes, and the file that came with them; if several came, the first. */
static enum facet_transport receive_all(int socket, void *bytes, size_t size, int *fd, uint64_t deadline_ns)
{
    for (size_t have = 0; have < size;) {
        FACET_CLEANUP_FD int came = -1;
        ssize_t received = receive_some(socket, (char *)bytes + have, size - have, &came);

        if (received == 0)
            return FACET_TRANSPORT_CLOSED;
        if (received > 0) {
            have += (size_t)received;
            if (*fd < 0)
                *fd = FACET_TAKE_FD(came);
            continue;
        }
        if (errno != EAGAIN)
            return failure_of(errno);
        enum facet_transport result = wait_for(socket, POLLIN, deadline_ns);
        if (result != FACET_TRANSPORT_OK)
            return result;
    }
    return FACET_TRANSPORT_OK;
}

/* Reads and drops a message for which there is no memory. */
static enum facet_transport discard_bytes(int socket, uint64_t length, uint64_t deadline_ns)
{
    FACET_CLEANUP_FD int fd = -1;
    char some[4096];

    while (length > 0) {
        size_t part = length < sizeof some ? length : sizeof some;
        enum facet_transport result = receive_all(socket, some, part, &fd, deadline_ns);

        if (result != FACET_TRANSPORT_OK)
            return result;
        length -= part;
    }
    return FACET_TRANSPORT_NO_MEMORY;
}

enum facet_transport facet_transport_receive(int socket, uint64_t deadline_ns, void *room, size_t room_size,
                                             uint8_t **ret_bytes, size_t *ret_size, int *ret_fd)
{
    FACET_CLEANUP_FD int fd = -1;
    uint64_t length;
    enum facet_transport result = receive_all(socket, &length, sizeof length, &fd, deadline_ns);

    if (result != FACET_TRANSPORT_OK)
        return result;
    if (length > FACET_WIRE_MAX)
        return FACET_TRANSPORT_FAILED;
    uint8_t *bytes = length <= room_size ? room : malloc(length + 1);
    if (!bytes && length > 0)
        return discard_bytes(socket, length, deadline_ns);
    result = receive_all(socket, bytes, length, &fd, deadline_ns);
    if (result != FACET_TRANSPORT_OK) {
        if (bytes != room)
            free(bytes);
        return result;
    }
    *ret_bytes = bytes;
    *ret_size = length;
    *ret_fd = FACET_TAKE_FD(fd);
    return FACET_TRANSPORT_OK;
}

enum facet_transport facet_transport_send_packet(int socket, const void *bytes, size_t size, int fd)
{
    struct iovec piece = {(void *)(uintptr_t)bytes, size};

    return send_some(socket, &piece, 1, fd) == (ssize_t)size ? FACET_TRANSPORT_OK : failure_of(errno);
}

enum facet_transport facet_transport_receive_packet(int socket, uint64_t deadline_ns, void *ret_bytes, size_t size,
                                                    int *ret_fd)
{
    FACET_CLEANUP_FD int fd = -1;

    for (;;) {
        ssize_t received = receive_some(socket, ret_bytes, size, &fd);
        if (received == 0)
            return FACET_TRANSPORT_CLOSED;
        if (received > 0 && (size_t)received != size)
            return FACET_TRANSPORT_FAILED;
        if (received > 0)
            break;
        if (errno != EAGAIN)
            return failure_of(errno);
        enum facet_transport result = wait_for(socket, POLLIN, deadline_ns);
        if (result != FACET_TRANSPORT_OK)
            return result;
    }
    *ret_fd = FACET_TAKE_FD(fd);
    return FACET_TRANSPORT_OK;
}
