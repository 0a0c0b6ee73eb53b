/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain data as bytes, and back, for the messages between a session and its child.
 *
 * Owns: a growing buffer of bytes to send, and a reader that never leaves the bytes it was given.
 * Never: names an operation (call.h does), or trusts a length. Numbers are in the machine's own byte order, because
 * both ends are of one build on one machine. Every piece begins at a multiple of eight bytes, so that structs and
 * arrays can be used in place.
 *
 * The buffer and the reader remember their first failure and do nothing from then on. So callers write or read a whole
 * message and ask once, at the end, whether it went well.
 */
#ifndef FACET_SESSION_WIRE_H
#define FACET_SESSION_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No message is longer, in either direction. */
#define FACET_WIRE_MAX (UINT32_C(64) << 20)

/* Bytes to send. Zeroed: none yet. */
struct facet_wire_writer {
    uint8_t *bytes;
    size_t size, room;
    bool failed;    /* out of memory, or past FACET_WIRE_MAX */
    bool no_memory; /* failed because memory ran out */
};

void facet_wire_free(struct facet_wire_writer *writer);
void facet_wire_put(struct facet_wire_writer *writer, const void *bytes, size_t size);
void facet_wire_put_number(struct facet_wire_writer *writer, uint64_t number);
/* A text, which may be NULL. */
void facet_wire_put_text(struct facet_wire_writer *writer, const char *text);

/* Bytes that were received, aligned as malloc() does. */
struct facet_wire_reader {
    const uint8_t *bytes;
    size_t left;
    bool failed; /* more was asked for than the message holds */
};

/* The next bytes, in place; NULL when fewer are left. */
const void *facet_wire_take(struct facet_wire_reader *reader, size_t size);
/* The next number; 0 when the reader has failed. */
uint64_t facet_wire_take_number(struct facet_wire_reader *reader);
/* The next text, in place and terminated; NULL when NULL was written, or when the reader has failed. */
const char *facet_wire_take_text(struct facet_wire_reader *reader);
/* Whether the message held everything that was asked for, and nothing else. */
bool facet_wire_is_complete(const struct facet_wire_reader *reader);

#endif
