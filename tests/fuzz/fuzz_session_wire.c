/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: fuzzing the messages between a session and its child. If the first byte is even, the message is a request, and
 * otherwise an answer. The next three bytes are an answer's operation and the room for its results: the number of items
 * and their size. The message follows.
 */
#include "session/call.h"

#include "fuzz.h"

enum { POISON = 0x5a, SETTINGS = 4 }; /* the value of unwritten bytes; how many bytes precede the message */

static const struct facet_parameter *output_of(enum facet_operation_id operation, size_t *ret_index)
{
    for (size_t i = 0; i < FACET_ARGUMENTS_MAX; i++) {
        *ret_index = i;
        if (facet_operations[operation].parameters[i].kind >= FACET_KIND_RET_U32)
            return &facet_operations[operation].parameters[i];
    }
    return NULL;
}

/* A request that is accepted can be answered, and has the same size when it is encoded again. */
static void take_request(const uint8_t *data, size_t size)
{
    struct facet_wire_reader reader = {.bytes = data, .left = size};
    struct facet_wire_writer writer = {0}, again = {0};
    const struct facet_error error = {0};
    struct facet_call call;
    void *room;

    if (!facet_call_decode(&reader, -1, &call))
        return;
    FUZZ_ASSERT(call.operation < FACET_OPERATION_COUNT);
    facet_call_encode(&call, &again);
    FUZZ_ASSERT(!again.failed && again.size == size);
    if (facet_call_make_room(&call, &room)) {
        enum facet_parameter_kind kind;
        bool bulk = facet_call_bulk(&call, &kind) != NULL;

        facet_call_encode_answer(&call, FACET_BUSY, &error, &writer);
        if (!bulk)
            facet_call_encode_answer(&call, FACET_OK, &error, &writer);
        FUZZ_ASSERT(!writer.failed || writer.size > FACET_WIRE_MAX / 2);
        free(room);
    }
    facet_wire_free(&writer);
    facet_wire_free(&again);
}

/* A refused answer writes no results; an accepted one stays within the room for them. */
static void take_answer(enum facet_operation_id operation, uint32_t capacity, uint32_t item_size, const uint8_t *data,
                        size_t size)
{
    struct facet_wire_reader reader = {.bytes = data, .left = size};
    struct facet_call call = {.operation = operation};
    struct facet_error error = {0};
    size_t index, room = (size_t)capacity * item_size + 1;
    const struct facet_parameter *output = output_of(operation, &index);
    unsigned char *out = malloc(room);
    uint32_t count = 4711; /* no answer of this size */
    bool broken = false;

    FUZZ_ASSERT(out);
    memset(out, POISON, room);
    call.arguments[index].output = out;
    call.arguments[index].ret_count = &count;
    call.arguments[index].number = output && output->kind == FACET_KIND_RET_TEXT ? room : capacity;
    call.arguments[index].size = item_size;
    enum facet_status status = facet_call_decode_answer(&call, &reader, &broken, &error);
    bool counted = output && (output->kind == FACET_KIND_RET_ITEMS || output->kind == FACET_KIND_RET_TEXT);
    if (status != FACET_OK) {
        for (size_t i = 0; i < room; i++)
            FUZZ_ASSERT(out[i] == POISON);
        FUZZ_ASSERT(count == 4711 || (counted && status == FACET_TOO_SMALL));
        FUZZ_ASSERT(error.status == status && error.message[0]);
        FUZZ_ASSERT(memchr(error.message, '\0', sizeof error.message));
    } else if (counted) {
        FUZZ_ASSERT(count <= call.arguments[index].number);
    }
    FUZZ_ASSERT(!broken || status == FACET_CORRUPT);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < SETTINGS)
        return 0;
    /* Aligned, and of the message's own size, so that the sanitizer sees a read past its end. */
    uint8_t *message = malloc(size - SETTINGS + 1);
    FUZZ_ASSERT(message);
    memcpy(message, data + SETTINGS, size - SETTINGS);
    if (data[0] % 2 == 0)
        take_request(message, size - SETTINGS);
    else /* room for at least one struct of any kind, also one that is longer than this library's version of it */
        take_answer((enum facet_operation_id)(data[1] % FACET_OPERATION_COUNT), 1u + data[2] % 8, 16u + data[3] * 8u,
                    message, size - SETTINGS);
    free(message);
    return 0;
}
