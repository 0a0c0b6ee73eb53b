/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading --arg. Never: guesses a type. */
#include "kernel_argument.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/host_kernel.h>
#include <facet/limits.h>

enum {
    NUMBER_SIZE = 64,
    ELEMENTS_MOST = 16, /* of OpenCL's largest vectors */
};
#define BUFFER_MOST (UINT64_C(64) << 30)

static const struct kernel_type types[] = {
    {"f32", 4, 'f'}, {"f64", 8, 'f'}, {"i8", 1, 'i'},  {"i16", 2, 'i'}, {"i32", 4, 'i'},
    {"i64", 8, 'i'}, {"u8", 1, 'u'},  {"u16", 2, 'u'}, {"u32", 4, 'u'}, {"u64", 8, 'u'},
};

static enum facet_status refuse_argument(struct facet_error *error, const char *text, const char *expected)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "--arg", "--arg '%.80s': expected %s", text, expected);
}

/* The type whose name, followed by a colon, `text` begins with. */
static const struct kernel_type *find_type(const char *text, const char **ret_rest)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        size_t length = strlen(types[i].name);

        if (strncmp(text, types[i].name, length) != 0 || text[length] != ':')
            continue;
        *ret_rest = text + length + 1;
        return &types[i];
    }
    return NULL;
}

/* A value too large for the type is refused; infinity must be spelled out ("inf"). */
static bool read_float(const struct kernel_type *type, const char *text, unsigned char *ret_element)
{
    char *end;
    double number = strtod(text, &end);
    float narrow = strtof(text, &end);
    bool infinite = isinf(type->bytes == 4 ? (double)narrow : number);

    if (end == text || *end || (infinite && !strpbrk(text, "iI")))
        return false;
    memcpy(ret_element, type->bytes == 4 ? (void *)&narrow : (void *)&number, type->bytes);
    return true;
}

bool kernel_type_read(const struct kernel_type *type, const char *text, unsigned char *ret_element)
{
    uint32_t unused_bits = 64 - 8 * type->bytes;
    char *end;

    if (type->family == 'f')
        return read_float(type, text, ret_element);
    errno = 0;
    uint64_t number = type->family == 'i' ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
    if (end == text || *end || errno || (type->family == 'u' && text[0] == '-'))
        return false;
    /* Little-endian: the first bytes are the low ones. Bits that are cut off must be zeros, or copies of the sign. */
    if (type->family == 'u' ? (number << unused_bits >> unused_bits) != number
                            : ((int64_t)(number << unused_bits) >> unused_bits) != (int64_t)number)
        return false;
    memcpy(ret_element, &number, type->bytes);
    return true;
}

/* "1,2,3,4" for a vector; three become four, as in OpenCL. */
static enum facet_status read_values(const char *text, const char *list, struct kernel_argument *argument,
                                     struct facet_error *error)
{
    char number[NUMBER_SIZE];
    uint32_t count = 0;

    for (const char *element = list;; element++) {
        size_t length = strcspn(element, ",");
        if (count == ELEMENTS_MOST)
            return refuse_argument(error, text, "up to 16 numbers");
        if (length >= sizeof number)
            return refuse_argument(error, text, "numbers of at most 63 characters");
        memcpy(number, element, length);
        number[length] = '\0';
        if (!kernel_type_read(argument->type, number, argument->value + count * argument->type->bytes))
            return refuse_argument(error, text,
                                   "numbers of that type that fit: f32:2.5, f32:inf, or f32:1,2,3,4 for a vector");
        count++;
        element += length;
        if (!*element)
            break;
    }
    argument->count = count;
    argument->value_bytes = (count == 3 ? 4 : count) * argument->type->bytes;
    return FACET_OK;
}

/* TYPE:COUNT[=FILL] */
static enum facet_status read_buffer(const char *text, const char *type_text, struct kernel_argument *argument,
                                     struct facet_error *error)
{
    static const char expected[] = "buffer:TYPE:COUNT[=FILL], such as buffer:f32:1024=random";
    char *end;

    argument->type = find_type(type_text, &type_text);
    if (!argument->type || type_text[0] < '0' || type_text[0] > '9')
        return refuse_argument(error, text, expected);
    errno = 0;
    argument->count = strtoull(type_text, &end, 0);
    if (*end && *end != '=')
        return refuse_argument(error, text, expected);
    if (errno || argument->count == 0 || argument->count > BUFFER_MOST / argument->type->bytes)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "--arg",
                                    "--arg '%.80s': expected 1 to %" PRIu64 " elements", text,
                                    BUFFER_MOST / argument->type->bytes);
    argument->bytes = argument->count * argument->type->bytes;
    argument->fill = *end ? end + 1 : NULL;
    return FACET_OK;
}

enum facet_status kernel_argument_parse(const char *text, struct kernel_argument *ret_argument,
                                        struct facet_error *error)
{
    struct kernel_argument argument = {.form = KERNEL_FORM_VALUE};
    enum facet_status status = FACET_OK;
    const char *type_text = text;

    if (strncmp(text, "local:", 6) == 0) {
        argument.form = KERNEL_FORM_LOCAL;
        status = facet_parse_size(text + 6, "--arg", 0, &argument.bytes, error);
        if (status == FACET_OK && argument.bytes > FACET_HOST_LOCAL_MOST)
            status = refuse_argument(error, text, "at most 2147483520 bytes of local memory");
    } else if (strncmp(text, "buffer:", 7) == 0) {
        argument.form = KERNEL_FORM_BUFFER;
        status = read_buffer(text, text + 7, &argument, error);
    } else if ((argument.type = find_type(text, &type_text))) {
        status = read_values(text, type_text, &argument, error);
    } else {
        status = refuse_argument(error, text,
                                 "TYPE:VALUE, buffer:TYPE:COUNT or local:BYTES; types are f32 f64 i8 .. i64 u8 .. u64");
    }
    if (status == FACET_OK)
        *ret_argument = argument;
    return status;
}

void kernel_argument_clear(struct kernel_argument *argument)
{
    free(argument->data);
    argument->data = NULL;
}
