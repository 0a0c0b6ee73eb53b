/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages over Unix sockets, each with at most one open file, under a deadline.
 *
 * Owns: waiting, sending and receiving whole messages, passing files.
 * Never: blocks beyond the deadline, raises SIGPIPE, or leaks a file that came unasked.
 */
#ifndef FACET_SESSION_TRANSPORT_H
#define FACET_SESSION_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

/* No deadline. */
#define FACET_TRANSPORT_FOREVER UINT64_MAX

enum facet_transport {
    FACET_TRANSPORT_OK,
    FACET_TRANSPORT_CLOSED,    /* the other end is gone */
    FACET_TRANSPORT_LATE,      /* the deadline (CLOCK_MONOTONIC) passed */
    FACET_TRANSPORT_FAILED,    /* too long, or broken */
    FACET_TRANSPORT_NO_MEMORY, /* for a message that came: it is gone, and the socket is ready for the next */
};

/* A message on a socket of streams: its length, then its bytes. `fd` -1: none. */
enum facet_transport facet_transport_send(int socket, const void *bytes, size_t size, int fd, uint64_t deadline_ns);

/* Into `room` of `room_size` bytes when it fits there, so that a short answer never fails for want of memory; else the
 * caller frees *ret_bytes, which is aligned as malloc() does. Closes *ret_fd, which is -1 when none came. */
enum facet_transport facet_transport_receive(int socket, uint64_t deadline_ns, void *room, size_t room_size,
                                             uint8_t **ret_bytes, size_t *ret_size, int *ret_fd);

/* The same for one message of fixed size on a socket of packets, where a message is whole by itself. */
enum facet_transport facet_transport_send_packet(int socket, const void *bytes, size_t size, int fd);
enum facet_transport facet_transport_receive_packet(int socket, uint64_t deadline_ns, void *ret_bytes, size_t size,
                                                    int *ret_fd);

#endif
