/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: every byte that is written to or read from a message. Never: interprets one. */
#include "session/wire.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_MIN = 512, ALIGNMENT = 8 };

static size_t padded_size(size_t size)
{
    return (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

void facet_wire_free(struct facet_wire_writer *writer)
{
    free(writer->bytes);
    *writer = (struct facet_wire_writer){0};
}

static bool make_room(struct facet_wire_writer *writer, size_t size)
{
    size_t room = writer->room ? writer->room : ROOM_MIN;

    if (writer->failed || size > FACET_WIRE_MAX || padded_size(size) > FACET_WIRE_MAX - writer->size)
        return false;
    while (room < writer->size + padded_size(size))
        room *= 2;
    if (room == writer->room)
        return true;
    uint8_t *bytes = realloc(writer->bytes, room);
    if (!bytes) {
        writer->no_memory = true;
        return false;
    }
    writer->bytes = bytes;
    writer->room = room;
    return true;
}

void facet_wire_put(struct facet_wire_writer *writer, const void *bytes, size_t size)
{
    if (!make_room(writer, size)) {
        writer->failed = true;
        return;
    }
    if (size > 0)
        memcpy(writer->bytes + writer->size, bytes, size);
    memset(writer->bytes + writer->size + size, 0, padded_size(size) - size);
    writer->size += padded_size(size);
}

void facet_wire_put_number(struct facet_wire_writer *writer, uint64_t number)
{
    facet_wire_put(writer, &number, sizeof number);
}

/* Writes the size with the terminator, then the bytes. The size 0 stands for NULL. */
void facet_wire_put_text(struct facet_wire_writer *writer, const char *text)
{
    size_t size = text ? strlen(text) + 1 : 0;

    facet_wire_put_number(writer, size);
    facet_wire_put(writer, text, size);
}

const void *facet_wire_take(struct facet_wire_reader *reader, size_t size)
{
    if (reader->failed || size > reader->left || padded_size(size) > reader->left) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *bytes = reader->bytes;
    reader->bytes += padded_size(size);
    reader->left -= padded_size(size);
    return bytes;
}

uint64_t facet_wire_take_number(struct facet_wire_reader *reader)
{
    uint64_t number = 0;
    const void *bytes = facet_wire_take(reader, sizeof number);

    if (bytes)
        memcpy(&number, bytes, sizeof number);
    return number;
}

const char *facet_wire_take_text(struct facet_wire_reader *reader)
{
    uint64_t size = facet_wire_take_number(reader);
    const char *text = size > 0 ? facet_wire_take(reader, size) : NULL;

    if (text && strnlen(text, size) != size - 1) {
        reader->failed = true;
        return NULL;
    }
    return text;
}

bool facet_wire_is_complete(const struct facet_wire_reader *reader)
{
    return !reader->failed && reader->left == 0;
}
