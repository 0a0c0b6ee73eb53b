/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a Unix socket that carries lines of text, under one deadline.
 * Never: interprets a line, or accepts one of more than FACET_WIRE_LINE_MAX bytes.
 */
#ifndef FACET_PASSTHROUGH_ATTACH_WIRE_H
#define FACET_PASSTHROUGH_ATTACH_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>

/* QEMU's description of a machine with hundreds of devices takes some 300 KiB. */
#define FACET_WIRE_LINE_MAX ((size_t)4 << 20)

struct facet_wire {
    int fd;
    uint64_t deadline_ns;
    char *buffer;
    size_t capacity;
    size_t begin, end; /* of the received bytes in the buffer that were not yet returned as lines */
};

enum facet_status facet_wire_connect(struct facet_wire *ret_wire, const char *path, uint64_t deadline_ns,
                                     struct facet_error *error);
void facet_wire_close(struct facet_wire *wire);

/* Sends all bytes, with a copy of the descriptor `fd` when that is above 0. */
enum facet_status facet_wire_send(struct facet_wire *wire, const char *bytes, size_t count, int fd,
                                  struct facet_error *error);

/*
 * Returns the next line without its newline. The line is valid until the next call. FACET_TIMEOUT: no line came before
 * `until_ns`, or before the deadline.
 */
enum facet_status facet_wire_receive(struct facet_wire *wire, uint64_t until_ns, char **ret_line, size_t *ret_length,
                                     struct facet_error *error);

#endif
