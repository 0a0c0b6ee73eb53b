/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: operands of all types in an area of memory, and the comparison of results. Never: computes the
 * result of an operation; math_reference.c does. */
#include "conformance/trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 64, POISON = 0xff };

const char *facet_check_type_name(uint32_t type)
{
    static const char *const names[] = {"f32", "bf16", "f16", "int8", "int32"};

    return type < sizeof names / sizeof names[0] ? names[type] : "an unknown type";
}

static size_t type_bytes(uint32_t type)
{
    return type == FACET_MATH_INT8 ? 1 : type == FACET_MATH_F32 || type == FACET_CHECK_INT32 ? 4 : 2;
}

void facet_check_trial_begin(struct facet_check_trial *trial, uint32_t operation, uint32_t type, uint32_t flags)
{
    memset(trial->image, 0x11, sizeof trial->image);
    trial->used_bytes = 0;
    trial->result_count = 0;
    trial->seed = 1;
    trial->math = (struct facet_math){.size = sizeof trial->math, .operation = operation, .type = type, .flags = flags};
}

/* In f16 the significand has 11 bits, and the exponent has a bias of 15. */
static double half_to_double(uint16_t bits)
{
    double magnitude =
        bits & 0x7c00 ? ldexp((bits & 0x3ff) | 0x400, (bits >> 10 & 0x1f) - 25) : ldexp(bits & 0x3ff, -24);

    if ((bits & 0x7c00) == 0x7c00)
        magnitude = bits & 0x3ff ? (double)NAN : (double)INFINITY;
    return bits & 0x8000 ? -magnitude : magnitude;
}

static double decode_number(const unsigned char *at, uint32_t type)
{
    uint16_t half;
    uint32_t word;
    float value;

    memcpy(&half, at, sizeof half);
    memcpy(&word, at, sizeof word);
    if (type == FACET_MATH_F16)
        return half_to_double(half);
    if (type == FACET_MATH_INT8)
        return (int8_t)at[0];
    if (type == FACET_CHECK_INT32)
        return (int32_t)word;
    if (type == FACET_MATH_BF16)
        word = (uint32_t)half << 16;
    memcpy(&value, &word, sizeof value);
    return (double)value;
}

double facet_check_operand_get(const struct facet_check_trial *trial, const struct facet_check_operand *operand,
                               uint64_t index)
{
    return decode_number(trial->image + operand->at + index * type_bytes(operand->type), operand->type);
}

/* `value` is exact in f16 and not subnormal, so nothing is rounded. */
static uint16_t double_to_half(double value)
{
    double magnitude = fabs(value);
    int exponent = 0;

    if (magnitude <= 0)
        return 0;
    frexp(magnitude, &exponent);
    return (uint16_t)((value < 0 ? 0x8000 : 0) | ((exponent + 14) << 10) |
                      ((int)ldexp(magnitude, 11 - exponent) & 0x3ff));
}

void facet_check_operand_set(struct facet_check_trial *trial, const struct facet_check_operand *operand, uint64_t index,
                             double value)
{
    unsigned char *at = trial->image + operand->at + index * type_bytes(operand->type);
    float single = (float)value;
    uint32_t word;

    memcpy(&word, &single, sizeof word);
    if (operand->type == FACET_MATH_BF16)
        word >>= 16;
    if (operand->type == FACET_MATH_F16)
        word = double_to_half(value);
    if (operand->type == FACET_MATH_INT8 || operand->type == FACET_CHECK_INT32)
        word = (uint32_t)(int32_t)value;
    memcpy(at, &word, type_bytes(operand->type)); /* all supported machines are little-endian */
}

static struct facet_check_operand allot_operand(struct facet_check_trial *trial, uint32_t type, uint64_t count)
{
    struct facet_check_operand operand = {.type = type, .at = trial->used_bytes, .count = count};

    trial->used_bytes += (count * type_bytes(type) + 2 * ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    return operand;
}

/*
 * Operands of the integer types hold any integers from -128 to 127. Those of the other types hold multiples of 1/64
 * from -1 to 1, whose products and short sums are exact in f32.
 */
struct facet_check_operand facet_check_operand_make(struct facet_check_trial *trial, uint32_t type, uint64_t count)
{
    struct facet_check_operand operand = allot_operand(trial, type, count);

    for (uint64_t i = 0; i < count; i++) {
        trial->seed = trial->seed * 1664525u + 1013904223u;
        if (type == FACET_MATH_INT8 || type == FACET_CHECK_INT32)
            facet_check_operand_set(trial, &operand, i, (int)(trial->seed >> 24) - 128);
        else
            facet_check_operand_set(trial, &operand, i, ((int)((trial->seed >> 16) % 129) - 64) / 64.0);
    }
    return operand;
}

struct facet_check_operand facet_check_operand_poison(struct facet_check_trial *trial, uint32_t type, uint64_t count)
{
    struct facet_check_operand operand = allot_operand(trial, type, count);

    memset(trial->image + operand.at, POISON, count * type_bytes(type));
    return operand;
}

uint64_t facet_check_operand_address(const struct facet_check_trial *trial, const struct facet_check_operand *operand)
{
    return trial->address + operand->at;
}

/* The largest error of rounding `value` to the type: half a unit in the last place. */
static double rounding_error(uint32_t type, double value)
{
    switch (type) {
    case FACET_MATH_F32:
        return fabs(value) * 0x1p-24 + 0x1p-149;
    case FACET_MATH_BF16:
        return fabs(value) * 0x1p-8 + 0x1p-133;
    case FACET_MATH_F16:
        return fabs(value) * 0x1p-11 + 0x1p-25;
    default:
        return 0;
    }
}

void facet_check_operand_expect(struct facet_check_trial *trial, const struct facet_check_operand *operand,
                                uint64_t index, double value, double margin)
{
    if (trial->result_count == FACET_CHECK_RESULTS)
        return;
    trial->results[trial->result_count++] =
        (struct facet_check_result){.at = operand->at + index * type_bytes(operand->type),
                                    .type = operand->type,
                                    .value = value,
                                    .margin = margin + rounding_error(operand->type, fabs(value) + margin)};
}

const char *facet_check_trial_fault(struct facet_check_trial *trial, const unsigned char *got, char *ret_text,
                                    size_t size)
{
    for (uint32_t i = 0; i < trial->result_count; i++) {
        const struct facet_check_result *one = &trial->results[i];
        double value = decode_number(got + one->at, one->type);

        if (!(fabs(value - one->value) <= one->margin)) { /* true for a NaN, too */
            snprintf(ret_text, size, "expected: result %u of %u to be %.9g, within %.3g\ngot: %.9g", i,
                     trial->result_count, one->value, one->margin, value);
            return ret_text;
        }
        memcpy(trial->image + one->at, got + one->at, type_bytes(one->type));
    }
    for (size_t i = 0; i < sizeof trial->image; i++)
        if (trial->image[i] != got[i]) {
            snprintf(ret_text, size, "expected: nothing written but results\ngot: 0x%02x at byte %zu of the area",
                     got[i], i);
            return ret_text;
        }
    return NULL;
}
