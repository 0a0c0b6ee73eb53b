/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the initial content of buffers, and their elements as text and as JSON.
 * Never: fills a buffer from an unpredictable source: the same fill and seed give the same content in each run, so that
 * the results of two runs can be compared.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel_argument.h"
#include "kernel_build.h"

/* The next number of splitmix64, a fixed pseudo-random sequence. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

/* Writes a float in [0, 1), or a whole number anywhere in its type's range. */
static void put_random(const struct kernel_type *type, unsigned char *element, uint64_t *state)
{
    uint64_t bits = next_random(state);
    double wide = (double)(bits >> 11) * 0x1p-53;
    float narrow = (float)(bits >> 40) * 0x1p-24f;

    memcpy(element,
           type->family != 'f' ? (void *)&bits
           : type->bytes == 4  ? (void *)&narrow
                               : (void *)&wide,
           type->bytes);
}

static void put_number(const struct kernel_type *type, unsigned char *element, uint64_t number)
{
    double wide = (double)number;
    float narrow = (float)number;

    memcpy(element,
           type->family != 'f' ? (void *)&number
           : type->bytes == 4  ? (void *)&narrow
                               : (void *)&wide,
           type->bytes);
}

static void fill_sequence(struct kernel_argument *argument, bool random, uint32_t seed)
{
    uint64_t state = (uint64_t)seed << 32;

    for (uint64_t i = 0; i < argument->count; i++) {
        unsigned char *element = argument->data + i * argument->type->bytes;
        if (random)
            put_random(argument->type, element, &state);
        else
            put_number(argument->type, element, i);
    }
}

static enum facet_status fill_from_file(struct kernel_argument *argument, struct facet_error *error)
{
    KERNEL_TEXT_CLEANUP struct kernel_text text = {0};
    struct facet_error reason = {0};
    enum facet_status status = kernel_text_read(argument->fill, &text, &reason);

    if (status != FACET_OK)
        return facet_error_argument(error, status, "--arg",
                                    "%s; expected zeros, iota, random, a number or a file behind '='", reason.message);
    if (text.size != argument->bytes)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "--arg",
                                    "%.200s has %zu bytes; expected %" PRIu64 ", %" PRIu64 " elements of %s",
                                    argument->fill, text.size, argument->bytes, argument->count, argument->type->name);
    memcpy(argument->data, text.bytes, text.size);
    return FACET_OK;
}

/* Whether the text can be read as a number. A file may have such a name, too. */
static bool is_number(const char *text)
{
    char *end;

    strtod(text, &end);
    return end != text && !*end;
}

enum facet_status kernel_argument_fill(struct kernel_argument *argument, uint32_t seed, struct facet_error *error)
{
    const char *fill = argument->fill ? argument->fill : "zeros";
    unsigned char element[8];

    argument->data = calloc(argument->count, argument->type->bytes);
    if (!argument->data)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a buffer of %" PRIu64 " bytes", argument->bytes);
    if (strcmp(fill, "zeros") == 0)
        return FACET_OK;
    if (strcmp(fill, "iota") == 0 || strcmp(fill, "random") == 0) {
        fill_sequence(argument, fill[0] == 'r', seed);
        return FACET_OK;
    }
    if (!kernel_type_read(argument->type, fill, element)) {
        if (is_number(fill) && access(fill, F_OK) != 0)
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, "--arg",
                                        "%.200s: expected a number that %s can represent", fill, argument->type->name);
        return fill_from_file(argument, error);
    }
    for (uint64_t i = 0; i < argument->count; i++)
        memcpy(argument->data + i * argument->type->bytes, element, argument->type->bytes);
    return FACET_OK;
}

/* --- elements as text and as JSON --------------------------------------------------------------------------------- */

static double float_at(const struct kernel_argument *argument, uint64_t index)
{
    double wide;
    float narrow;

    if (argument->type->bytes == 8)
        return memcpy(&wide, argument->data + index * 8, 8), wide;
    memcpy(&narrow, argument->data + index * 4, 4);
    return (double)narrow;
}

/* The bits of an element, sign-extended if its type is signed. */
static uint64_t bits_at(const struct kernel_argument *argument, uint64_t index)
{
    uint32_t unused_bits = 64 - 8 * argument->type->bytes;
    uint64_t bits = 0;

    memcpy(&bits, argument->data + index * argument->type->bytes, argument->type->bytes);
    return argument->type->family == 'i' ? (uint64_t)((int64_t)(bits << unused_bits) >> unused_bits) : bits;
}

char *kernel_element_print(const struct kernel_argument *argument, uint64_t index, char *buffer, size_t size)
{
    if (argument->type->family == 'f')
        snprintf(buffer, size, argument->type->bytes == 8 ? "%.15g" : "%.7g", float_at(argument, index));
    else if (argument->type->family == 'i')
        snprintf(buffer, size, "%" PRId64, (int64_t)bits_at(argument, index));
    else
        snprintf(buffer, size, "%" PRIu64, bits_at(argument, index));
    return buffer;
}

json_t *kernel_element_json(const struct kernel_argument *argument, uint64_t index)
{
    if (argument->type->family != 'f')
        return json_integer((json_int_t)bits_at(argument, index));
    double number = float_at(argument, index);
    return isfinite(number) ? json_real(number) : json_null();
}
