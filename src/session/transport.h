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
    FACET_TRANSPORT_FAILED,    /* the message is too long, or the connection is broken */
    FACET_TRANSPORT_NO_MEMORY, /* a message came, and was dropped for lack of memory; the next can be received */
};

/* Sends a message on a SOCK_STREAM socket: its length, then its bytes. `fd` -1: no file. */
enum facet_transport facet_transport_send(int socket, const void *bytes, size_t size, int fd, uint64_t deadline_ns);

/* Receives a message into `room` when it fits there, so that a short answer never fails for want of memory. Otherwise
 * *ret_bytes is from malloc(), and the caller frees it. The caller closes *ret_fd, which is -1 when no file came. */
enum facet_transport facet_transport_receive(int socket, uint64_t deadline_ns, void *room, size_t room_size,
                                             uint8_t **ret_bytes, size_t *ret_size, int *ret_fd);

/* Sends and receives a message of fixed size on a SOCK_SEQPACKET socket, which keeps messages apart by itself. */
enum facet_transport facet_transport_send_packet(int socket, const void *bytes, size_t size, int fd);
enum facet_transport facet_transport_receive_packet(int socket, uint64_t deadline_ns, void *ret_bytes, size_t size,
                                                    int *ret_fd);

#endif
