/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: converting elements of operands to numbers and back, rounded once, to nearest even. Never: checks a range. */
#include <math.h>

#include "base.h"

uint64_t base_bytes_of(uint32_t type)
{
    static const uint64_t bytes[] = {4, 2, 2, 1, 4};

    return bytes[type];
}

static float float_from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static double double_from_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);

    if (exponent == 31)
        value = fraction ? NAN : INFINITY;
    return bits >> 15 ? -value : value;
}

static uint16_t half_from_double(double value)
{
    double size = fabs(value);
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    int exponent;

    if (isnan(value))
        return 0x7e00;
    if (size >= 65520)
        return sign | 0x7c00;
    if (size < 0x1p-14)
        return (uint16_t)(sign | (uint16_t)nearbyint(ldexp(size, 24)));
    frexp(size, &exponent);
    return (uint16_t)(sign + ((exponent + 14) << 10) + (int)nearbyint(ldexp(size, 11 - exponent)) - 1024);
}

static uint16_t bfloat_from_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double base_number(const struct base_operand *operand, uint64_t index)
{
    const unsigned char *at = operand->bytes + index * base_bytes_of(operand->type);
    uint32_t word = 0;

    memcpy(&word, at, base_bytes_of(operand->type));
    switch (operand->type) {
    case FACET_MATH_F32:
        return float_from_bits(word);
    case FACET_MATH_BF16:
        return float_from_bits(word << 16);
    case FACET_MATH_F16:
        return double_from_half((uint16_t)word);
    case FACET_MATH_INT8:
        return (int8_t)word;
    default:
        return (int32_t)word;
    }
}

void base_store(const struct base_operand *operand, uint64_t index, double value)
{
    unsigned char *at = operand->bytes + index * base_bytes_of(operand->type);
    float rounded = (float)value;
    uint32_t word = 0;

    switch (operand->type) {
    case FACET_MATH_F32:
        memcpy(&word, &rounded, sizeof word);
        break;
    case FACET_MATH_BF16:
        word = bfloat_from_float(rounded);
        break;
    case FACET_MATH_F16:
        word = half_from_double(value);
        break;
    default:
        word = (uint32_t)(int32_t)value;
        break;
    }
    memcpy(at, &word, base_bytes_of(operand->type));
}
