/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sin, cos and tan of float, for vector lanes.
 *
 * Owns: the reduction by multiples of pi/2: in double, and for numbers too large for that by the digits of 2/pi. That
 *       is an `if`, which lanes enter only when one of them has such a number.
 * Never: calls a C library.
 */
#include "vectors.h"

/* The bits of 2/pi behind the point. */
static constant uint digits[] = {0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
                                 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u};

/* x = (4k + quarter) * pi/2 + rest, |rest| <= pi/4. */
struct angle {
    float rest;
    int quarter; /* only its two low bits count */
};

/* For |x| < 2^22. Infinities and NaN give NaN. */
static struct angle reduce_near(float x)
{
    double wide = x, rounded = wide * 0x1.45f306dc9c883p-1 + 0x1.8p52, n = rounded - 0x1.8p52;
    double rest = (wide - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34;

    return (struct angle){(float)rest, (int)as_long(rounded)};
}

/* For |x| >= 2^22: x = m * 2^e with a 24-bit m. Of 2/pi * 2^e, multiples of 4 and too small bits do not matter, so 96
 * bits remain. Their product with m has its point behind the highest two bits. */
static struct angle reduce_far(float x)
{
    uint bits = as_uint(x) & 0x7fffffff, exponent = (bits >> 23) - 150 - 2 + 32, word = exponent >> 5,
         shift = exponent & 31;
    ulong m = (bits & 0x7fffff) | 0x800000;
    ulong first = word == 0 ? digits[0] : ((ulong)digits[word - 1] << 32) | digits[word];
    ulong second = ((ulong)digits[word] << 32) | digits[word + 1];
    ulong third = ((ulong)digits[word + 1] << 32) | digits[word + 2];
    uint high = (uint)((first << shift) >> 32), middle = (uint)((second << shift) >> 32);
    uint low = (uint)((third << shift) >> 32);
    ulong product = ((m * high) << 32) + m * middle + ((m * low) >> 32);
    ulong rounded = product + 0x2000000000000000;
    double rest = (double)(long)(product - (rounded & 0xc000000000000000)) * 0x1.921fb54442d18p-62;
    int quarter = (int)(rounded >> 62);

    return (struct angle){as_int(x) < 0 ? -(float)rest : (float)rest, as_int(x) < 0 ? -quarter : quarter};
}

static struct angle reduce(float x)
{
    struct angle angle = reduce_near(x);

    if (fabs(x) >= 0x1p22f && fabs(x) < INFINITY)
        angle = reduce_far(x);
    return angle;
}

/* Copies the sign of r, which a negative zero would lose in the sum. */
static float sin_near(float r)
{
    float u = r * r, p = (-0x1.9ac780p-13f * u + 0x1.110c24p-7f) * u + -0x1.555552p-3f;

    return as_float(as_int((p * u) * r + r) | (as_int(r) & INT_MIN));
}

static float cos_near(float r)
{
    float u = r * r, p = (0x1.9bd6dap-16f * u + -0x1.6c12d0p-10f) * u + 0x1.555544p-5f;

    return (p * u) * u + (1.0f - 0.5f * u);
}

/* The sine of the angle plus `further` quarter turns: 1 gives the cosine. */
static float sin_of(struct angle angle, int further)
{
    int quarter = angle.quarter + further;
    float value = quarter & 1 ? cos_near(angle.rest) : sin_near(angle.rest);

    return as_float(as_int(value) ^ (quarter & 2) << 30);
}

static float tan_of(struct angle angle)
{
    float sine = sin_near(angle.rest), cosine = cos_near(angle.rest);
    bool odd = angle.quarter & 1;

    return (odd ? -cosine : sine) / (odd ? sine : cosine);
}

PUBLIC float sin(float x)
{
    return sin_of(reduce(x), 0);
}

PUBLIC float cos(float x)
{
    return sin_of(reduce(x), 1);
}

PUBLIC float tan(float x)
{
    return tan_of(reduce(x));
}

#define SINCOS(space)                                                                                                  \
    PUBLIC float sincos(float x, space float *cosine)                                                                  \
    {                                                                                                                  \
        struct angle angle = reduce(x);                                                                                \
        *cosine = sin_of(angle, 1);                                                                                    \
        return sin_of(angle, 0);                                                                                       \
    }                                                                                                                  \
    VECTORS_POINTER(sincos, float, float, space)
IN_SPACES(SINCOS)

PUBLIC float native_sin(float x)
{
    return sin_of(reduce_near(x), 0);
}

PUBLIC float native_cos(float x)
{
    return sin_of(reduce_near(x), 1);
}

PUBLIC float native_tan(float x)
{
    return tan_of(reduce_near(x));
}

PUBLIC float half_sin(float x)
{
    return native_sin(x);
}

PUBLIC float half_cos(float x)
{
    return native_cos(x);
}

PUBLIC float half_tan(float x)
{
    return native_tan(x);
}

VECTORS1(sin, float)
VECTORS1(cos, float)
VECTORS1(tan, float)
VECTORS1(native_sin, float)
VECTORS1(native_cos, float)
VECTORS1(native_tan, float)
VECTORS1(half_sin, float)
VECTORS1(half_cos, float)
VECTORS1(half_tan, float)
