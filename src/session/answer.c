/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: encoding, checking and decoding answers. Never: writes an output of a call that failed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "session/call.h"

/* The index of the argument that is an output; FACET_ARGUMENTS_MAX when the answer is only a status. */
static size_t output_of(const struct facet_call *call)
{
    const struct facet_parameter *parameters = facet_operations[call->operation].parameters;
    size_t i = 0;

    while (i < FACET_ARGUMENTS_MAX && parameters[i].kind < FACET_KIND_RET_U32)
        i++;
    return i;
}

/* The bytes that one output takes beside the message. Bulk data takes none: it lies in a file of its own. */
static size_t room_of(const struct facet_parameter *parameter, const struct facet_argument *argument)
{
    switch (parameter->kind) {
    case FACET_KIND_RET_U32:
    case FACET_KIND_RET_U64:
        return sizeof(uint64_t);
    case FACET_KIND_RET_STRUCT:
        return argument->size;
    case FACET_KIND_RET_ITEMS:
        return (size_t)argument->number * argument->size;
    case FACET_KIND_RET_TEXT:
        return argument->number;
    default:
        return argument->number <= FACET_CALL_INLINE_BYTES ? argument->number : 0;
    }
}

/* Sets the size of each struct, as the ABI expects from a caller. */
static void set_sizes(struct facet_argument *argument, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memcpy((char *)argument->output + i * argument->size, &argument->size, sizeof argument->size);
}

bool facet_call_make_room(struct facet_call *call, void **ret_room)
{
    size_t i = output_of(call);

    *ret_room = NULL;
    if (i == FACET_ARGUMENTS_MAX)
        return true;
    const struct facet_parameter *parameter = &facet_operations[call->operation].parameters[i];
    struct facet_argument *argument = &call->arguments[i];
    size_t room = room_of(parameter, argument);

    /* The count of a list lies behind its items. */
    char *bytes = calloc(1, room + sizeof(uint64_t) * 2);
    if (!bytes)
        return false;
    *ret_room = bytes;
    argument->ret_count = (uint32_t *)(void *)(bytes + (room + 7) / 8 * 8);
    argument->output = room > 0 ? bytes : NULL;
    if (parameter->type)
        set_sizes(argument, parameter->kind == FACET_KIND_RET_ITEMS ? argument->number : 1);
    return true;
}

static void put_output(const struct facet_parameter *parameter, const struct facet_argument *argument,
                       enum facet_status status, struct facet_wire_writer *writer)
{
    bool counted = parameter->kind == FACET_KIND_RET_ITEMS || parameter->kind == FACET_KIND_RET_TEXT;
    uint32_t count = counted ? *argument->ret_count : 0;
    uint32_t number;

    if (counted)
        facet_wire_put_number(writer, count);
    if (status != FACET_OK)
        return;
    switch (parameter->kind) {
    case FACET_KIND_RET_U32:
        memcpy(&number, argument->output, sizeof number);
        facet_wire_put_number(writer, number);
        break;
    case FACET_KIND_RET_U64:
        facet_wire_put(writer, argument->output, sizeof(uint64_t));
        break;
    case FACET_KIND_RET_ITEMS:
        if (count <= argument->number)
            facet_wire_put(writer, argument->output, (size_t)count * argument->size);
        break;
    case FACET_KIND_RET_TEXT:
        if (count <= argument->number)
            facet_wire_put(writer, argument->output, count);
        break;
    default:
        facet_wire_put(writer, argument->output, room_of(parameter, argument));
        break;
    }
}

void facet_call_encode_answer(const struct facet_call *call, enum facet_status status, const struct facet_error *error,
                              struct facet_wire_writer *writer)
{
    size_t i = output_of(call);

    facet_wire_put_number(writer, (uint64_t)(int64_t)status);
    facet_wire_put(writer, error, sizeof *error);
    if ((status == FACET_OK || status == FACET_TOO_SMALL) && i < FACET_ARGUMENTS_MAX)
        put_output(&facet_operations[call->operation].parameters[i], &call->arguments[i], status, writer);
}

/* An answer under examination. */
struct answer {
    const char *operation;
    const struct facet_parameter *parameter; /* of the output; NULL when the answer is only a status */
    const struct facet_argument *argument;
    enum facet_status status;
    struct facet_wire_reader *reader;
    bool broken; /* the bytes do not form an answer */
    struct facet_error *error;
};

static enum facet_status refuse_broken(struct answer *answer)
{
    answer->broken = true;
    return facet_error_set(answer->error, FACET_CORRUPT, "answered %s with bytes that make no sense",
                           answer->operation);
}

static bool is_status(int64_t number)
{
    switch (number) {
#define IS_STATUS(NAME, name, value, text, todo) case value:
        FACET_STATUS_TABLE(IS_STATUS)
#undef IS_STATUS
        return true;
    default:
        return false;
    }
}

/* Returns the provider's own error, with its texts made printable. */
static enum facet_status refuse_answer(const struct answer *answer, const struct facet_error *provider_error)
{
    struct facet_error clean = {.status = answer->status};

    facet_text_copy(clean.argument, sizeof clean.argument, provider_error->argument, sizeof provider_error->argument);
    facet_text_copy(clean.message, sizeof clean.message, provider_error->message, sizeof provider_error->message);
    if (!clean.message[0])
        return facet_error_set(answer->error, answer->status, "%s: %s", answer->operation,
                               facet_status_text(answer->status));
    if (answer->error)
        *answer->error = clean;
    return answer->status;
}

/* The rules of the two-call listing, for items and for the bytes of a text. */
static enum facet_status check_count(const struct answer *answer, uint64_t count)
{
    const struct facet_argument boundless = {.number = UINT32_MAX, .size = answer->argument->size};
    uint32_t max = facet_call_asked_capacity(answer->parameter, &boundless);
    uint32_t capacity = facet_call_asked_capacity(answer->parameter, answer->argument);
    const char *what = answer->parameter->kind == FACET_KIND_RET_ITEMS ? "items" : "bytes";

    if (count > max)
        return facet_error_set(answer->error, FACET_CORRUPT, "%s lists %" PRIu64 " %s, expected at most %" PRIu32,
                               answer->operation, count, what, max);
    if (answer->status == FACET_OK && count > capacity)
        return facet_error_set(answer->error, FACET_CORRUPT,
                               "%s lists %" PRIu64 " %s in room for %" PRIu32 " and calls that a success",
                               answer->operation, count, what, capacity);
    if (answer->status == FACET_TOO_SMALL && count <= capacity)
        return facet_error_set(answer->error, FACET_CORRUPT,
                               "%s asks for room for %" PRIu64 " %s when it has room for %" PRIu32, answer->operation,
                               count, what, capacity);
    return FACET_OK;
}

static enum facet_status accept_too_small(struct answer *answer, const struct facet_error *provider_error)
{
    uint64_t count = facet_wire_take_number(answer->reader);

    if (!facet_wire_is_complete(answer->reader))
        return refuse_broken(answer);
    enum facet_status status = check_count(answer, count);
    if (status != FACET_OK)
        return status;
    *answer->argument->ret_count = (uint32_t)count;
    return refuse_answer(answer, provider_error);
}

static enum facet_status accept_struct(struct answer *answer)
{
    uint32_t size = facet_call_asked_size(answer->parameter, answer->argument);
    const char *bytes = facet_wire_take(answer->reader, size);

    if (!bytes || !facet_wire_is_complete(answer->reader))
        return refuse_broken(answer);
    const char *field = facet_struct_bad_field(answer->parameter->type, bytes, size);
    if (field)
        return facet_error_set(answer->error, FACET_CORRUPT, "%s gives a struct with a bad %s", answer->operation,
                               field);
    facet_struct_copy(answer->parameter->type, answer->argument->output, bytes);
    return FACET_OK;
}

static enum facet_status accept_items(struct answer *answer)
{
    const struct facet_argument *argument = answer->argument;
    uint32_t size = facet_call_asked_size(answer->parameter, argument);
    uint64_t count = facet_wire_take_number(answer->reader);
    enum facet_status status = check_count(answer, count);

    if (status != FACET_OK)
        return status;
    const char *items = facet_wire_take(answer->reader, count * size);
    if (!items || !facet_wire_is_complete(answer->reader))
        return refuse_broken(answer);
    for (uint64_t i = 0; i < count; i++) {
        const char *field = facet_struct_bad_field(answer->parameter->type, items + i * size, size);
        if (field)
            return facet_error_set(answer->error, FACET_CORRUPT, "%s gives item %" PRIu64 " with a bad %s",
                                   answer->operation, i, field);
    }
    for (uint64_t i = 0; i < count; i++)
        facet_struct_copy(answer->parameter->type, (char *)argument->output + i * argument->size, items + i * size);
    *argument->ret_count = (uint32_t)count;
    return FACET_OK;
}

static enum facet_status accept_text(struct answer *answer)
{
    uint64_t size = facet_wire_take_number(answer->reader);
    enum facet_status status = check_count(answer, size);

    if (status != FACET_OK)
        return status;
    const char *text = facet_wire_take(answer->reader, size);
    if (!text || !facet_wire_is_complete(answer->reader))
        return refuse_broken(answer);
    if (!facet_text_is_printable(text, size, true) || strlen(text) + 1 != size)
        return facet_error_set(answer->error, FACET_CORRUPT, "%s gives a text that is not %" PRIu64 " bytes of ASCII",
                               answer->operation, size);
    memcpy(answer->argument->output, text, size);
    *answer->argument->ret_count = (uint32_t)size;
    return FACET_OK;
}

static enum facet_status accept_health(struct answer *answer)
{
    uint64_t number = facet_wire_take_number(answer->reader);
    uint32_t health = (uint32_t)number;

    if (!facet_wire_is_complete(answer->reader) || number > UINT32_MAX)
        return refuse_broken(answer);
    if (health > FACET_HEALTH_FAILED)
        return facet_error_set(answer->error, FACET_CORRUPT, "%s answers with the unknown health %" PRIu32,
                               answer->operation, health);
    memcpy(answer->argument->output, &health, sizeof health);
    return FACET_OK;
}

static enum facet_status accept_number(struct answer *answer)
{
    uint64_t number = facet_wire_take_number(answer->reader);

    if (!facet_wire_is_complete(answer->reader))
        return refuse_broken(answer);
    memcpy(answer->argument->output, &number, sizeof number);
    return FACET_OK;
}

static enum facet_status accept_data(struct answer *answer)
{
    size_t size = room_of(answer->parameter, answer->argument);
    const void *bytes = facet_wire_take(answer->reader, size);

    if (!bytes || !facet_wire_is_complete(answer->reader))
        return refuse_broken(answer);
    if (size > 0)
        memcpy(answer->argument->output, bytes, size);
    return FACET_OK;
}

static enum facet_status accept_output(struct answer *answer)
{
    switch (answer->parameter ? answer->parameter->kind : FACET_KIND_NONE) {
    case FACET_KIND_NONE:
        return facet_wire_is_complete(answer->reader) ? FACET_OK : refuse_broken(answer);
    case FACET_KIND_RET_STRUCT:
        return accept_struct(answer);
    case FACET_KIND_RET_ITEMS:
        return accept_items(answer);
    case FACET_KIND_RET_TEXT:
        return accept_text(answer);
    case FACET_KIND_RET_DATA:
        return accept_data(answer);
    case FACET_KIND_RET_U32:
        return accept_health(answer);
    default:
        return accept_number(answer);
    }
}

static bool is_counted(const struct answer *answer)
{
    return answer->parameter &&
           (answer->parameter->kind == FACET_KIND_RET_ITEMS || answer->parameter->kind == FACET_KIND_RET_TEXT);
}

static enum facet_status accept_answer(struct answer *answer)
{
    int64_t status = (int64_t)facet_wire_take_number(answer->reader);
    const struct facet_error *provider_error = facet_wire_take(answer->reader, sizeof *provider_error);

    if (!provider_error)
        return refuse_broken(answer);
    if (!is_status(status))
        return facet_error_set(answer->error, FACET_CORRUPT, "%s answers with the unknown status %" PRId64,
                               answer->operation, status);
    answer->status = (enum facet_status)status;
    if (answer->status == FACET_OK)
        return accept_output(answer);
    if (answer->status == FACET_TOO_SMALL && is_counted(answer))
        return accept_too_small(answer, provider_error);
    return facet_wire_is_complete(answer->reader) ? refuse_answer(answer, provider_error) : refuse_broken(answer);
}

enum facet_status facet_call_decode_answer(const struct facet_call *call, struct facet_wire_reader *reader,
                                           bool *ret_broken, struct facet_error *error)
{
    const struct facet_operation *operation = &facet_operations[call->operation];
    size_t i = output_of(call);
    bool has_output = i < FACET_ARGUMENTS_MAX;
    struct answer answer = {.operation = operation->name,
                            .parameter = has_output ? &operation->parameters[i] : NULL,
                            .argument = has_output ? &call->arguments[i] : NULL,
                            .reader = reader,
                            .error = error};
    enum facet_status status = accept_answer(&answer);

    *ret_broken = answer.broken;
    return status;
}
