/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of float for -cl-fast-relaxed-math (compile/rename.c), shorter than the exact functions, for vector lanes.
 *
 * Owns: sin, cos, exp, log and functions made of them, to 2^-17 of the value; sin and cos for |x| < 2^13, beyond which
 *       they lose digits until they are merely between -1 and 1; tan and powr lose a few bits more.
 * Never: handles infinities and NaN, which that option rules out; is exact below 2^-126.
 */
#include "vectors.h"

/* A float plus this number has the float's nearest integer in its low bits. */
#define ROUND 0x1.8p23f

static float limit(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* --- sin and cos ------------------------------------------------------------------------------------------------- */

/* The sine of x - n * pi, with the low bit of `turns` as its sign. pi is subtracted in three parts, of which the first
 * two are so short that their products with n are exact. */
static float sin_of_remainder(float x, float n, int turns)
{
    float r = limit(((x - n * 0x1.92p+1f) - n * 0x1.fb4p-11f) - n * 0x1.4442d2p-23f, -1.6f, 1.6f);
    float u = r * r, p = 0x1.5dbd44p-19f;

    p = p * u + -0x1.9f6ff4p-13f;
    p = p * u + 0x1.110ed4p-7f;
    p = p * u + -0x1.55554cp-3f;
    return as_float(as_int((p * u) * r + r) ^ turns << 31);
}

PUBLIC float __fast_sin(float x)
{
    float rounded = x * M_1_PI_F + ROUND;

    return sin_of_remainder(x, rounded - ROUND, as_int(rounded));
}

/* cos(x) is sin(x + pi / 2). */
PUBLIC float __fast_cos(float x)
{
    float rounded = (x * M_1_PI_F + 0.5f) + ROUND;

    return sin_of_remainder(x, (rounded - ROUND) - 0.5f, as_int(rounded));
}

PUBLIC float __fast_tan(float x)
{
    return __fast_sin(x) / __fast_cos(x);
}

/* --- exp and log ------------------------------------------------------------------------------------------------- */

PUBLIC float __fast_exp2(float x)
{
    float at = limit(x, -127.0f, 128.0f), rounded = at + ROUND, r = at - (rounded - ROUND);
    float p = 0x1.3a02ccp-7f;

    p = p * r + 0x1.c9fc46p-5f;
    p = p * r + 0x1.ec0378p-3f;
    p = p * r + 0x1.62e12cp-1f;
    return as_float(as_int(p * r + 1.0f) + (as_int(rounded) << 23));
}

PUBLIC float __fast_exp(float x)
{
    return __fast_exp2(x * M_LOG2E_F);
}

PUBLIC float __fast_exp10(float x)
{
    return __fast_exp2(x * 0x1.a934f0p+1f);
}

PUBLIC float __fast_log2(float x)
{
    int bits = as_int(x), exponent = (bits - 0x3f3504f3) >> 23;
    float t = as_float(bits - (exponent << 23)) - 1.0f;
    float p = 0x1.5f7cacp-3f;

    p = p * t + -0x1.13c8acp-2f;
    p = p * t + 0x1.2ecbdcp-2f;
    p = p * t + -0x1.6fff1ep-2f;
    p = p * t + 0x1.ec296cp-2f;
    p = p * t + -0x1.715692p-1f;
    p = p * t + 0x1.71548ep+0f;
    return x > 0.0f ? p * t + (float)exponent : -INFINITY;
}

PUBLIC float __fast_log(float x)
{
    return __fast_log2(x) * M_LN2_F;
}

PUBLIC float __fast_log10(float x)
{
    return __fast_log2(x) * 0x1.344136p-2f;
}

PUBLIC float __fast_powr(float x, float y)
{
    return __fast_exp2(y * __fast_log2(x));
}

VECTORS1(__fast_sin, float)
VECTORS1(__fast_cos, float)
VECTORS1(__fast_tan, float)
VECTORS1(__fast_exp, float)
VECTORS1(__fast_exp2, float)
VECTORS1(__fast_exp10, float)
VECTORS1(__fast_log, float)
VECTORS1(__fast_log2, float)
VECTORS1(__fast_log10, float)
VECTORS2(__fast_powr, float, float)
