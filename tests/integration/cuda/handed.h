/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message from one process of a test to another: a descriptor and its data, through a pair of sockets.
 *
 * Owns: sending and receiving the message. Never: waits for an answer.
 */
#ifndef FACET_TEST_CUDA_HANDED_H
#define FACET_TEST_CUDA_HANDED_H

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#define HANDED_BYTES 64 /* the data's size: that of an exported pool pointer, the longest data */

union handed_control {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

static inline bool send_descriptor(int socket, int fd, void *data)
{
    union handed_control control = {.bytes = {0}};
    struct iovec part = {.iov_base = data, .iov_len = HANDED_BYTES};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(socket, &message, 0) == HANDED_BYTES;
}

static inline bool receive_descriptor(int socket, int *ret_fd, void *ret_data)
{
    union handed_control control = {.bytes = {0}};
    struct iovec part = {.iov_base = ret_data, .iov_len = HANDED_BYTES};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};

    if (recvmsg(socket, &message, 0) != HANDED_BYTES || !CMSG_FIRSTHDR(&message))
        return false;
    memcpy(ret_fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof *ret_fd);
    return true;
}

#endif
