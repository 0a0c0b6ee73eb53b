/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mathematical functions of float for vector lanes, in place of libclc's functions that look up tables (gathers),
 * divide, or branch.
 *
 * Owns: exp, log and powers; error bounds are OpenCL's (7.4), proven by tests/unit/kernel/test_builtins.c.
 * Never: calls a C library, has a branch, or converts a possible NaN to an integer. Numbers are rounded to integers by
 *        adding 1.5 * 2^23 (2^52 for double), which leaves the integer in the low bits.
 *
 * Polynomials are Chebyshev fits on the interval that the reduction leaves.
 */
#include "vectors.h"

#define ROUND_F 0x1.8p23f
#define ROUND_D 0x1.8p52
#define NAN_F   as_float(0x7fc00000)

/* Clamps x to [low, high]; NaN stays NaN. */
static float limit(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* x * 2^n for n in [-252, 254]: in two steps, so that subnormal results are right. */
static float scale(float x, int n)
{
    int half_n = n >> 1;

    return x * as_float((half_n + 127) << 23) * as_float((n - half_n + 127) << 23);
}

/* --- exp -------------------------------------------------------------------------------------------------------- */

PUBLIC float exp(float x)
{
    float at = limit(x, -104.0f, 89.0f), rounded = at * M_LOG2E_F + ROUND_F, n = rounded - ROUND_F;
    float r = (at - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
    float p = 0x1.6d10fcp-10f;

    p = p * r + 0x1.120b62p-7f;
    p = p * r + 0x1.55551ap-5f;
    p = p * r + 0x1.5554ddp-3f;
    p = p * r + 0.5f;
    return scale((r * r) * p + r + 1.0f, as_int(rounded) - as_int(ROUND_F));
}

PUBLIC float exp2(float x)
{
    float at = limit(x, -151.0f, 129.0f), rounded = at + ROUND_F, r = at - (rounded - ROUND_F);
    float p = 0x1.441389p-13f;

    p = p * r + 0x1.5f0890p-10f;
    p = p * r + 0x1.3b2a52p-7f;
    p = p * r + 0x1.c6af6cp-5f;
    p = p * r + 0x1.ebfbe0p-3f;
    p = p * r + 0x1.62e430p-1f;
    return scale(p * r + 1.0f, as_int(rounded) - as_int(ROUND_F));
}

PUBLIC float exp10(float x)
{
    float at = limit(x, -46.0f, 39.0f), rounded = at * 0x1.a934f0p+1f + ROUND_F, n = rounded - ROUND_F;
    float r = (at - n * 0x1.344p-2f) - n * 0x1.3509f8p-18f;
    float p = 0x1.a94b22p-3f;

    p = p * r + 0x1.1559dap-1f;
    p = p * r + 0x1.2bd702p+0f;
    p = p * r + 0x1.046fb4p+1f;
    p = p * r + 0x1.53524cp+1f;
    p = p * r + 0x1.26bb1cp+1f;
    return scale(p * r + 1.0f, as_int(rounded) - as_int(ROUND_F));
}

/* --- log -------------------------------------------------------------------------------------------------------- */

/* x = 2^exponent * (1 + fraction), 1 + fraction in [sqrt(1/2), sqrt(2)). */
struct split {
    float exponent, fraction;
};

static struct split split(float x)
{
    bool small = x < 0x1p-126f;
    int bits = as_int(small ? x * 0x1p23f : x), exponent = (bits - 0x3f3504f3) >> 23;

    return (struct split){(float)(exponent - (small ? 23 : 0)), as_float(bits - (exponent << 23)) - 1.0f};
}

/* log(1 + f) - f, for an f of struct split. */
static float log_tail(float f)
{
    float p = 0x1.1d8ea6p-4f, square = f * f;

    p = p * f + -0x1.d635bcp-4f;
    p = p * f + 0x1.dea282p-4f;
    p = p * f + -0x1.fcf4c6p-4f;
    p = p * f + 0x1.23d21ap-3f;
    p = p * f + -0x1.555b4ap-3f;
    p = p * f + 0x1.999d5ap-3f;
    p = p * f + -0x1.fffffcp-3f;
    p = p * f + 0x1.555554p-2f;
    return square * f * p - 0.5f * square;
}

/* The results of logarithms of all bases for infinities, NaN, zeros and negative numbers; else `result`. */
static float log_edges(float x, float result)
{
    result = x < INFINITY ? result : x; /* infinity and NaN */
    result = x == 0.0f ? -INFINITY : result;
    return x < 0.0f ? NAN_F : result;
}

PUBLIC float log(float x)
{
    struct split s = split(x);
    float tail = log_tail(s.fraction) + s.exponent * 0x1.7f7d1cp-20f;

    return log_edges(x, (s.fraction + tail) + s.exponent * 0x1.62e4p-1f);
}

/* log2(e) and log10(e) in two parts, so that the sum is rounded once where the exponent is zero. */
PUBLIC float log2(float x)
{
    struct split s = split(x);
    float tail = log_tail(s.fraction), rest = 0x1.715476p+0f - 1.0f;

    return log_edges(x, ((tail * rest + s.fraction * rest) + tail) + s.fraction + s.exponent);
}

PUBLIC float log10(float x)
{
    struct split s = split(x);
    float tail = log_tail(s.fraction), high = 0x1.bcp-2f, low = 0x1.6f62a4p-11f;
    float small = (tail + s.fraction) * low + s.exponent * 0x1.3509f8p-18f;

    return log_edges(x, ((small + tail * high) + s.fraction * high) + s.exponent * 0x1.344p-2f);
}

/* --- powers, in double: the exponent magnifies the logarithm's error by up to 128 ------------------------------- */

/* log2 of a positive number. */
static double log2_wide(float x)
{
    struct split parts = split(x);
    double f = parts.fraction, s = f / (f + 2.0), u = s * s, p = 0x1.21ad23db025b1p-2;

    p = p * u + 0x1.47959d3c06f22p-2;
    p = p * u + 0x1.a61a2cf64013dp-2;
    p = p * u + 0x1.2776c295b26e6p-1;
    p = p * u + 0x1.ec709dc53a191p-1;
    p = p * u + 0x1.71547652b8252p+1;
    return p * s + parts.exponent;
}

/* 2^x for |x| < 1000. */
static double exp2_inside(double x)
{
    double rounded = x + ROUND_D, r = x - (rounded - ROUND_D), p = 0x1.00dc4a532fb8ep-16;

    p = p * r + 0x1.4308ac85aa947p-13;
    p = p * r + 0x1.5d8745a728441p-10;
    p = p * r + 0x1.3b2ab7181b755p-7;
    p = p * r + 0x1.c6b08dd6fd234p-5;
    p = p * r + 0x1.ebfbdff823cedp-3;
    p = p * r + 0x1.62e42fef84cf0p-1;
    p = p * r + 1.0;
    return as_double(as_long(p) + (as_long(rounded) << 52));
}

static float exp2_wide(double x)
{
    double at = x < -160.0 ? -160.0 : x;

    return (float)exp2_inside(at > 160.0 ? 160.0 : at);
}

/* |x|^y, zeros and infinities included. */
static float power(float x, float y)
{
    double logarithm = log2_wide(fabs(x));

    logarithm = fabs(x) == 0.0f ? -(double)INFINITY : logarithm;
    logarithm = fabs(x) < INFINITY ? logarithm : (double)fabs(x);
    return exp2_wide(y * logarithm);
}

/* Gives x^y its sign; NaN where x^y is no real number. */
static float power_sign(float x, float magnitude, bool integral, bool odd)
{
    magnitude = x < 0.0f && x > -INFINITY && !integral ? NAN_F : magnitude;
    return odd ? copysign(magnitude, x) : magnitude;
}

PUBLIC float pow(float x, float y)
{
    float half_y = 0.5f * y;
    bool integral = trunc(y) == y, odd = integral && trunc(half_y) != half_y;
    float result = power_sign(x, power(x, y), integral, odd);

    result = fabs(x) == 1.0f && fabs(y) == INFINITY ? 1.0f : result;
    result = x != x || y != y ? NAN_F : result;
    return x == 1.0f || y == 0.0f ? 1.0f : result;
}

PUBLIC float pown(float x, int y)
{
    double logarithm = log2_wide(fabs(x));

    logarithm = fabs(x) == 0.0f ? -(double)INFINITY : logarithm;
    logarithm = fabs(x) < INFINITY ? logarithm : (double)fabs(x);
    float result = power_sign(x, exp2_wide(y * logarithm), true, (y & 1) != 0);
    return y == 0 ? 1.0f : result;
}

/* x^(1/n): of a negative number odd roots only. */
PUBLIC float rootn(float x, int n)
{
    double logarithm = log2_wide(fabs(x));
    bool odd = (n & 1) != 0;

    logarithm = fabs(x) == 0.0f ? -(double)INFINITY : logarithm;
    logarithm = fabs(x) < INFINITY ? logarithm : (double)fabs(x);
    float result = power_sign(x, exp2_wide(logarithm / n), true, odd);
    return x != x || n == 0 || (x < 0.0f && !odd) ? NAN_F : result;
}

PUBLIC float powr(float x, float y)
{
    float result = power(x, y);

    return x < 0.0f || x != x || y != y ? NAN_F : result;
}

/* --- erf -------------------------------------------------------------------------------------------------------- */

/* 1 - erf(a), as exp(a * P(a)). */
static float erf_complement(float a)
{
    float p = 0x1.319ac2p-20f;

    p = p * a + -0x1.2eb0d4p-15f;
    p = p * a + 0x1.0c55eep-11f;
    p = p * a + -0x1.1d927ep-8f;
    p = p * a + 0x1.9e005cp-6f;
    p = p * a + -0x1.ba8370p-4f;
    p = p * a + -0x1.449d80p-1f;
    p = p * a + -0x1.210278p+0f;
    return exp(p * a);
}

PUBLIC float erf(float x)
{
    float a = fabs(x), u = x * x, p = 0x1.4a5690p-14f;

    p = p * u + -0x1.a45088p-11f;
    p = p * u + 0x1.541270p-8f;
    p = p * u + -0x1.b7fabap-6f;
    p = p * u + 0x1.ce2d10p-4f;
    p = p * u + -0x1.81273ep-2f;
    p = p * u + 0x1.06eba8p-3f;
    return a < 1.0f ? p * x + x : copysign(1.0f - erf_complement(a > 4.0f ? 4.0f : a), x);
}

/* --- tgamma ----------------------------------------------------------------------------------------------------- */

/* Lanczos' approximation, for x in [0.5, 50]. */
static double gamma_wide(double x)
{
    double y = x - 1.0, t = y + 7.5, sum = 0.99999999999980993;
    double logarithm = log2_wide((float)t) + (t / (double)(float)t - 1.0) * M_LOG2E; /* corrects the rounding of t */

    sum += 676.5203681218851 / (y + 1.0) - 1259.1392167224028 / (y + 2.0) + 771.32342877765313 / (y + 3.0);
    sum += -176.61502916214059 / (y + 4.0) + 12.507343278686905 / (y + 5.0) - 0.13857109526572012 / (y + 6.0);
    sum += 9.9843695780195716e-6 / (y + 7.0) + 1.5056327351493116e-7 / (y + 8.0);
    return 2.5066282746310002 * sum * exp2_inside((y + 0.5) * logarithm - t * M_LOG2E);
}

/* pi / sin(pi * x): the quarter gives the sign, the distance to the nearest integer the value. */
static double reflection(float x)
{
    float n = rint(x), half_n = 0.5f * n;
    double r = ((double)x - n) * M_PI, u = r * r, p = -1.0 / 39916800.0;

    p = p * u + 1.0 / 362880.0;
    p = p * u - 1.0 / 5040.0;
    p = p * u + 1.0 / 120.0;
    p = p * u - 1.0 / 6.0;
    p = M_PI / (p * u * r + r);
    return trunc(half_n) == half_n ? p : -p;
}

PUBLIC float tgamma(float x)
{
    float at = limit(x, -48.5f, 40.0f);
    bool reflect = at < 0.5f;
    double value = gamma_wide(reflect ? 1.0 - at : (double)at), reflected = reflection(at) / value;
    float result = (float)(reflect ? reflected : value);

    result = x < 0.0f && rint(x) == x ? NAN_F : result;
    result = x == 0.0f ? copysign(INFINITY, x) : result;
    return x != x ? x : result;
}

VECTORS1(tgamma, float)
VECTORS1(exp, float)
VECTORS1(exp2, float)
VECTORS1(exp10, float)
VECTORS1(log, float)
VECTORS1(log2, float)
VECTORS1(log10, float)
VECTORS1(erf, float)
VECTORS2(pow, float, float)
VECTORS2(powr, float, float)
VECTORS2(pown, float, int)
VECTORS2(rootn, float, int)
