/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table of operations; checking, encoding and decoding requests. Never: reads an answer; answer.c does. */
#include "session/call.h"
#include "base/sized.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

/* A snapshot moves all of a worker's memory, so its timeout is the usual timeout times this. */
enum { SNAPSHOT_TIMEOUT_FACTOR = 60 };

/* The most bytes that an answer takes in addition to its items. */
enum { ANSWER_HEAD = 4096 };

/* The slowest supported machine moves 250 MB/s. */
enum { TIMEOUT_NS_PER_BYTE = 4 };

#define TYPE(type) type##_type
#define PARAMETER(kind_, name_, ...)                                                                                   \
    {.kind = FACET_KIND_##kind_, .name = #name_, __VA_OPT__(.type = &TYPE(__VA_ARGS__))},
#define OPERATION(table, operation, ...)                                                                               \
    [FACET_OPERATION_##table##_##operation] = {#table "." #operation, {FACET_EACH(PARAMETER, __VA_ARGS__)}},
const struct facet_operation facet_operations[FACET_OPERATION_COUNT] = {FACET_OPERATIONS(OPERATION)};

static const struct facet_parameter *parameters_of(const struct facet_call *call)
{
    return facet_operations[call->operation].parameters;
}

static enum facet_status refuse_null(const char *name, struct facet_error *error)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s: expected a value, not NULL", name);
}

/* A buffer may be NULL when nothing is to go into it or to come out of it. */
static bool is_missing(const void *buffer, uint64_t size)
{
    return !buffer && size > 0;
}

static enum facet_status check_fd(int fd, const char *name, struct facet_error *error)
{
    if (fd == -1 || (fd >= 0 && fcntl(fd, F_GETFD) >= 0))
        return FACET_OK;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s %d: expected an open file, or -1", name, fd);
}

static enum facet_status check_struct_size(uint32_t size, const char *name, struct facet_error *error)
{
    if (size >= sizeof size)
        return FACET_OK;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s: size %" PRIu32 ", expected at least %zu",
                                name, size, sizeof size);
}

static enum facet_status check_struct(const struct facet_parameter *parameter, const struct facet_argument *argument,
                                      struct facet_error *error)
{
    enum facet_status status = check_struct_size(argument->size, parameter->name, error);

    return status == FACET_OK ? facet_sized_known(parameter->name, argument->input, parameter->type->size, error)
                              : status;
}

static enum facet_status check_launch(const struct facet_argument *launch, const char *name, struct facet_error *error)
{
    if (!launch->input)
        return refuse_null(name, error);
    if (launch->number > FACET_CALL_LAUNCH_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "argument_bytes",
                                    "%" PRIu64 " bytes of arguments, expected at most %u", launch->number,
                                    FACET_CALL_LAUNCH_MAX);
    if (is_missing(launch->input_bytes, launch->number))
        return refuse_null("arguments", error);
    return facet_sized_known("launch", launch->input, sizeof(struct facet_launch), error);
}

static enum facet_status check_argument(const struct facet_parameter *parameter, const struct facet_argument *argument,
                                        struct facet_error *error)
{
    const char *name = parameter->name;
    bool missing = false;

    switch (parameter->kind) {
    case FACET_KIND_TEXT:
        missing = !argument->input;
        break;
    case FACET_KIND_FD:
        return check_fd(argument->fd, name, error);
    case FACET_KIND_PIDS:
    case FACET_KIND_DATA:
        missing = is_missing(argument->input, argument->number);
        break;
    case FACET_KIND_LAUNCH:
        return check_launch(argument, name, error);
    case FACET_KIND_STRUCT:
        return argument->input ? check_struct(parameter, argument, error) : refuse_null(name, error);
    case FACET_KIND_RET_U32:
    case FACET_KIND_RET_U64:
        missing = !argument->output;
        break;
    case FACET_KIND_RET_STRUCT:
        return argument->output ? check_struct_size(argument->size, name, error) : refuse_null(name, error);
    case FACET_KIND_RET_ITEMS:
    case FACET_KIND_RET_TEXT:
        if (!argument->ret_count)
            return refuse_null(parameter->kind == FACET_KIND_RET_TEXT ? "ret_size" : "ret_count", error);
        if (is_missing(argument->output, argument->number))
            return refuse_null(name, error);
        return parameter->kind == FACET_KIND_RET_TEXT ? FACET_OK
                                                      : check_struct_size(argument->size, "item_size", error);
    case FACET_KIND_RET_DATA:
        missing = is_missing(argument->output, argument->number);
        break;
    default:
        break;
    }
    return missing ? refuse_null(name, error) : FACET_OK;
}

enum facet_status facet_call_check(const struct facet_call *call, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (size_t i = 0; i < FACET_ARGUMENTS_MAX && status == FACET_OK; i++)
        status = check_argument(&parameters_of(call)[i], &call->arguments[i], error);
    return status;
}

static uint64_t add_capped(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

static uint64_t multiply_capped(uint64_t a, uint64_t b)
{
    return b > 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

uint64_t facet_call_timeout(const struct facet_call *call, uint64_t timeout_ns)
{
    for (size_t i = 0; i < FACET_ARGUMENTS_MAX; i++) {
        uint64_t number = call->arguments[i].number;

        switch (parameters_of(call)[i].kind) {
        case FACET_KIND_TIMEOUT:
            timeout_ns = add_capped(timeout_ns, number);
            break;
        case FACET_KIND_BYTES:
        case FACET_KIND_DATA:
        case FACET_KIND_RET_DATA:
            timeout_ns = add_capped(timeout_ns, multiply_capped(number, TIMEOUT_NS_PER_BYTE));
            break;
        case FACET_KIND_FD:
        case FACET_KIND_PIDS:
            timeout_ns = multiply_capped(timeout_ns, SNAPSHOT_TIMEOUT_FACTOR);
            break;
        default:
            break;
        }
    }
    return timeout_ns;
}

const struct facet_argument *facet_call_bulk(const struct facet_call *call, enum facet_parameter_kind *ret_kind)
{
    for (size_t i = 0; i < FACET_ARGUMENTS_MAX; i++) {
        enum facet_parameter_kind kind = (enum facet_parameter_kind)parameters_of(call)[i].kind;

        if ((kind != FACET_KIND_DATA && kind != FACET_KIND_RET_DATA) ||
            call->arguments[i].number <= FACET_CALL_INLINE_BYTES)
            continue;
        *ret_kind = kind;
        return &call->arguments[i];
    }
    return NULL;
}

int facet_call_fd(const struct facet_call *call)
{
    for (size_t i = 0; i < FACET_ARGUMENTS_MAX; i++)
        if (parameters_of(call)[i].kind == FACET_KIND_FD)
            return call->arguments[i].fd;
    return -1;
}

uint32_t facet_call_asked_size(const struct facet_parameter *parameter, const struct facet_argument *argument)
{
    return argument->size < parameter->type->size ? argument->size : parameter->type->size;
}

uint32_t facet_call_asked_capacity(const struct facet_parameter *parameter, const struct facet_argument *argument)
{
    uint32_t max = FACET_CALL_TEXT_MAX;

    if (parameter->kind == FACET_KIND_RET_ITEMS) {
        max = (FACET_WIRE_MAX - ANSWER_HEAD) / facet_call_asked_size(parameter, argument);
        max = max < FACET_CALL_ITEMS_MAX ? max : FACET_CALL_ITEMS_MAX;
    }
    return argument->number < max ? (uint32_t)argument->number : max;
}

/*
 * Writes a struct in `known` bytes. A newer caller's struct is longer and is cut: facet_call_check() has refused it if
 * a member that is unknown here was set. A shorter struct is filled up with zeros.
 */
static void put_struct(const void *bytes, uint32_t known, struct facet_wire_writer *writer)
{
    unsigned char copy[FACET_CALL_STRUCT_SIZE] = {0};
    uint32_t size;

    memcpy(&size, bytes, sizeof size);
    if (size > known)
        size = known;
    memcpy(copy, bytes, size);
    memcpy(copy, &size, sizeof size);
    facet_wire_put(writer, copy, known);
}

static void put_launch(const struct facet_argument *argument, struct facet_wire_writer *writer)
{
    put_struct(argument->input, sizeof(struct facet_launch), writer);
    facet_wire_put_number(writer, argument->number);
    facet_wire_put(writer, argument->input_bytes, argument->number);
}

static void put_argument(const struct facet_parameter *parameter, const struct facet_argument *argument,
                         struct facet_wire_writer *writer)
{
    switch (parameter->kind) {
    case FACET_KIND_U8:
    case FACET_KIND_U32:
    case FACET_KIND_U64:
    case FACET_KIND_BYTES:
    case FACET_KIND_TIMEOUT:
    case FACET_KIND_RET_DATA:
        facet_wire_put_number(writer, argument->number);
        break;
    case FACET_KIND_TEXT:
    case FACET_KIND_TEXT_OR_NULL:
        facet_wire_put_text(writer, argument->input);
        break;
    case FACET_KIND_PIDS:
        facet_wire_put_number(writer, argument->number);
        facet_wire_put(writer, argument->input, argument->number * sizeof(int32_t));
        break;
    case FACET_KIND_DATA:
        facet_wire_put_number(writer, argument->number);
        if (argument->number <= FACET_CALL_INLINE_BYTES)
            facet_wire_put(writer, argument->input, argument->number);
        break;
    case FACET_KIND_LAUNCH:
        put_launch(argument, writer);
        break;
    case FACET_KIND_STRUCT:
        put_struct(argument->input, parameter->type->size, writer);
        break;
    case FACET_KIND_RET_STRUCT:
        facet_wire_put_number(writer, facet_call_asked_size(parameter, argument));
        break;
    case FACET_KIND_RET_ITEMS:
        facet_wire_put_number(writer, facet_call_asked_size(parameter, argument));
        facet_wire_put_number(writer, facet_call_asked_capacity(parameter, argument));
        break;
    case FACET_KIND_RET_TEXT:
        facet_wire_put_number(writer, facet_call_asked_capacity(parameter, argument));
        break;
    default: /* a file travels beside the message, and a number that comes out needs nothing to go in */
        break;
    }
}

void facet_call_encode(const struct facet_call *call, struct facet_wire_writer *writer)
{
    facet_wire_put_number(writer, call->operation);
    for (size_t i = 0; i < FACET_ARGUMENTS_MAX; i++)
        put_argument(&parameters_of(call)[i], &call->arguments[i], writer);
}

/* Takes a number, which must be at most `max`. */
static uint64_t take_within(struct facet_wire_reader *reader, uint64_t max)
{
    uint64_t number = facet_wire_take_number(reader);

    if (number > max)
        reader->failed = true;
    return number;
}

static void take_launch(struct facet_wire_reader *reader, struct facet_argument *argument)
{
    argument->input = facet_wire_take(reader, sizeof(struct facet_launch));
    argument->number = take_within(reader, FACET_CALL_LAUNCH_MAX);
    argument->input_bytes = facet_wire_take(reader, argument->number);
}

/* Takes the room that the caller has for an output: the size of a struct, and the capacity of a list or a text. */
static void take_room(const struct facet_parameter *parameter, struct facet_wire_reader *reader,
                      struct facet_argument *argument)
{
    if (parameter->type) {
        argument->size = (uint32_t)take_within(reader, parameter->type->size);
        if (argument->size < sizeof argument->size)
            reader->failed = true;
    }
    if (parameter->kind != FACET_KIND_RET_STRUCT && !reader->failed) {
        argument->number = UINT32_MAX;
        argument->number = take_within(reader, facet_call_asked_capacity(parameter, argument));
    }
}

static void take_argument(const struct facet_parameter *parameter, struct facet_wire_reader *reader, int fd,
                          struct facet_argument *argument)
{
    switch (parameter->kind) {
    case FACET_KIND_U8:
        argument->number = take_within(reader, UINT8_MAX);
        break;
    case FACET_KIND_U32:
        argument->number = take_within(reader, UINT32_MAX);
        break;
    case FACET_KIND_U64:
    case FACET_KIND_BYTES:
    case FACET_KIND_TIMEOUT:
    case FACET_KIND_RET_DATA:
        argument->number = facet_wire_take_number(reader);
        break;
    case FACET_KIND_TEXT:
    case FACET_KIND_TEXT_OR_NULL:
        argument->input = facet_wire_take_text(reader);
        break;
    case FACET_KIND_FD:
        argument->fd = fd;
        break;
    case FACET_KIND_PIDS:
        argument->number = take_within(reader, FACET_WIRE_MAX / sizeof(int32_t));
        argument->input = facet_wire_take(reader, argument->number * sizeof(int32_t));
        break;
    case FACET_KIND_DATA:
        argument->number = facet_wire_take_number(reader);
        if (argument->number <= FACET_CALL_INLINE_BYTES)
            argument->input = facet_wire_take(reader, argument->number);
        break;
    case FACET_KIND_LAUNCH:
        take_launch(reader, argument);
        break;
    case FACET_KIND_STRUCT:
        argument->input = facet_wire_take(reader, parameter->type->size);
        break;
    case FACET_KIND_RET_STRUCT:
    case FACET_KIND_RET_ITEMS:
    case FACET_KIND_RET_TEXT:
        take_room(parameter, reader, argument);
        break;
    default:
        break;
    }
}

bool facet_call_decode(struct facet_wire_reader *reader, int fd, struct facet_call *ret_call)
{
    uint64_t operation = take_within(reader, FACET_OPERATION_COUNT - 1);

    if (reader->failed)
        return false;
    *ret_call = (struct facet_call){.operation = (enum facet_operation_id)operation};
    for (size_t i = 0; i < FACET_ARGUMENTS_MAX; i++)
        take_argument(&parameters_of(ret_call)[i], reader, fd, &ret_call->arguments[i]);
    return facet_wire_is_complete(reader);
}
