/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pow, powr and tgamma of double, for vector lanes. libclc's powers are wrong where the exponent is huge, and its
 * tgamma magnifies the error of the logarithm that it uses.
 *
 * Owns: logarithms in two doubles, and the functions made of them. The exponent magnifies a logarithm's error by up to
 *       1100; in two doubles less than an ulp is left. Error bounds are proven by
 *       tests/integration/kernel/test_math.py.
 * Never: calls a C library, has a branch, or needs fma(): exact products are made of numbers with half the bits.
 *
 * Polynomials are Chebyshev fits on the interval that the reduction leaves.
 */
#include "vectors.h"

#define ROUND 0x1.8p52 /* a number plus this has its nearest integer in the low bits */

/* The unrounded sum high + low; |low| is at most about an ulp of high. */
struct two {
    double high, low;
};

/* Clamps x to [low, high]; NaN stays NaN. */
static double limit(double x, double low, double high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* The nearest integer of a >= 0. Processors without SSE 4.1 have no instruction for it. */
static double nearest(double a)
{
    double rounded = (a + 0x1p52) - 0x1p52;

    return a < 0x1p52 ? rounded : a;
}

/* The upper 26 bits of x: the product of two such numbers is exact. */
static double upper(double x)
{
    return as_double(as_long(x) & 0xfffffffff8000000L);
}

/* a + b, if |a| >= |b| or a is 0. */
static struct two add(double a, double b)
{
    double sum = a + b;

    return (struct two){sum, b - (sum - a)};
}

static struct two multiply(double a, double b)
{
    double a_high = upper(a), a_low = a - a_high, b_high = upper(b), b_low = b - b_high, product = a * b;
    double left = a_high * b_high - product;

    left += a_high * b_low + a_low * b_high;
    return (struct two){product, left + a_low * b_low};
}

static struct two multiply_two(struct two a, struct two b)
{
    struct two product = multiply(a.high, b.high);

    product.low += a.high * b.low + a.low * b.high;
    return product;
}

/* --- logarithm -------------------------------------------------------------------------------------------------- */

/* log2 of a finite x > 0. x = 2^exponent * m, m in [sqrt(1/2), sqrt(2)). With s = (m - 1) / (m + 1) the result is
 * exponent + s * (2 + 2/3 s^2 + 2/5 s^4 ...) / ln(2). From the third term on, one double is enough. */
static struct two log2_two(double x)
{
    bool small = x < 0x1p-1022;
    long bits = as_long(small ? x * 0x1p54 : x);
    ulong biased = (ulong)(bits - 0x3fe6a09e667f3bcdL + (1023L << 52)) >> 52; /* arithmetic shifts are slow in lanes */
    double m = as_double(bits - (long)(biased << 52) + (1023L << 52)), f = m - 1.0;
    double whole = as_double((long)biased + as_long(ROUND)) - (ROUND + 1023.0) - (small ? 54.0 : 0.0);
    double over = m + 1.0, over_low = m - (over - 1.0), inverse = 1.0 / over, p = 0x1.5a60ae4e0bdd7p-3;
    struct two s = {f * inverse, 0.0}, back = multiply(s.high, over), u, sum;

    s.low = (((f - back.high) - back.low) - s.high * over_low) * inverse;
    u = multiply_two(s, s);
    p = p * u.high + 0x1.59e08811ee6b3p-3;
    p = p * u.high + 0x1.89fed27be41bep-3;
    p = p * u.high + 0x1.c68f2f01d5108p-3;
    p = p * u.high + 0x1.0c9a84bf5081cp-2;
    p = p * u.high + 0x1.484b13d79c3b6p-2;
    p = p * u.high + 0x1.a61762a7adfa8p-2;
    p = p * u.high + 0x1.2776c50ef9bfep-1;
    u = multiply_two(u, (struct two){0x1.ec709dc3a03fdp-1, 0x1.d27f05548af0cp-55 + p * u.high});
    sum = add(0x1.71547652b82fep+1, u.high);
    sum.low += u.low + 0x1.777d0ffda0d24p-55;
    u = multiply_two(s, sum);
    sum = add(whole, u.high);
    return add(sum.high, sum.low + u.low);
}

/* --- exponential ------------------------------------------------------------------------------------------------ */

/* 2^x = fraction * 2^exponent, fraction in about [sqrt(1/2), sqrt(2)]. */
struct split {
    double fraction;
    long exponent;
};

/* 2^x. An x beyond 1200 gives a result that scale() makes zero or infinity; NaN gives any result. */
static struct split exp2_two(struct two x)
{
    double at = limit(x.high, -1200.0, 1200.0), rounded = at + ROUND;
    double r = (at - (rounded - ROUND)) + (at == x.high ? x.low : 0.0), p = 0x1.c4a2aaa2b01d9p-36;

    p = p * r + 0x1.e9ec3d7558475p-32;
    p = p * r + 0x1.e4cf10d1896bep-28;
    p = p * r + 0x1.b524ebc089f66p-24;
    p = p * r + 0x1.62c02242bb0bdp-20;
    p = p * r + 0x1.ffcbfc6dad6adp-17;
    p = p * r + 0x1.430912f86b7d4p-13;
    p = p * r + 0x1.5d87fe78a3f8cp-10;
    p = p * r + 0x1.3b2ab6fba4e79p-7;
    p = p * r + 0x1.c6b08d704a0c6p-5;
    p = p * r + 0x1.ebfbdff82c58fp-3;
    p = p * r + 0x1.62e42fefa39efp-1;
    return (struct split){p * r + 1.0, as_long(rounded) - as_long(ROUND)};
}

/* x * 2^n for |n| <= 2000: in two multiplications, of which only the second rounds. */
static double scale(double x, long n)
{
    long half_n = (long)((ulong)(n + 2048) >> 1) - 1024;

    return x * as_double((half_n + 1023) << 52) * as_double((n - half_n + 1023) << 52);
}

/* --- powers ----------------------------------------------------------------------------------------------------- */

/* |x|^y, zeros and infinities included. A y beyond 2^70 has the same result as 2^70. */
static double power(double x, double y)
{
    double a = fabs(x), far = limit(y, -0x1p70, 0x1p70), edge = (a == 0.0) == (y > 0.0) ? 0.0 : (double)INFINITY;
    struct two logarithm = log2_two(a);
    struct two exponent = multiply_two((struct two){far, 0.0}, logarithm);
    struct split parts = exp2_two(exponent);

    return a == 0.0 || a == INFINITY ? edge : scale(parts.fraction, parts.exponent);
}

PUBLIC double pow(double x, double y)
{
    double distance = fabs(y), half_distance = 0.5 * distance, result = power(x, y);
    bool integral = nearest(distance) == distance, odd = integral && nearest(half_distance) != half_distance;

    result = x < 0.0 && x > -INFINITY && !integral ? (double)NAN : result;
    result = odd ? copysign(result, x) : result;
    result = x != x || y != y ? (double)NAN : result;
    return x == 1.0 || y == 0.0 ? 1.0 : result;
}

/* exp(y * log(x)), as IEEE 754 defines it: 0^0, infinity^0 and 1^infinity are NaN. */
PUBLIC double powr(double x, double y)
{
    double result = power(x, y);
    bool edge = x == 0.0 || x == INFINITY, none = x < 0.0 || x != x || y != y;

    result = y == 0.0 ? 1.0 : result;
    return none || (edge && y == 0.0) || (x == 1.0 && fabs(y) == INFINITY) ? (double)NAN : result;
}

/* --- gamma ------------------------------------------------------------------------------------------------------ */

/* The factor that corrects Stirling's formula: gamma(z) * e^z / z^(z - 1/2), for z in [1, 190]. */
static double stirling(double z)
{
    double w = 1.0 / (z + 0.5), p = 0x1.57b4331497d22p-10;

    p = p * w + -0x1.136b7499e11a3p-7;
    p = p * w + 0x1.97e4a58458a5cp-6;
    p = p * w + -0x1.6d0b07306d7a2p-5;
    p = p * w + 0x1.b29d116abbdccp-5;
    p = p * w + -0x1.5d8efcd5554c1p-5;
    p = p * w + 0x1.67fd422edc2fdp-6;
    p = p * w + -0x1.38b9616676e62p-8;
    p = p * w + -0x1.22983db00fba1p-11;
    p = p * w + 0x1.f07930d8fc2dbp-11;
    p = p * w + 0x1.d5e7499c7e1eap-9;
    p = p * w + 0x1.268f42a5a70c6p-8;
    p = p * w + 0x1.0abf67e1a5dd4p-7;
    p = p * w + 0x1.68254b7fb1cc1p-6;
    p = p * w + 0x1.bc09d286c728fp-5;
    p = p * w + 0x1.cf729d8d365c9p-4;
    p = p * w + 0x1.abcc42a9d8b6dp-3;
    return p * w + 0x1.40d931ff62705p+1;
}

/* gamma(z) for z in [1, 190]. z^(z - 1/2) / e^z is computed as one power of 2, whose exponent has a low part, too. */
static struct split gamma_split(double z)
{
    struct two power = multiply_two((struct two){z - 0.5, 0.0}, log2_two(z));
    struct two decay = multiply_two((struct two){z, 0.0}, (struct two){-0x1.71547652b82fep+0, -0x1.777d0ffda0d24p-56});
    double sum = power.high + decay.high, rest = sum - power.high;
    struct split result;

    rest = (power.high - (sum - rest)) + (decay.high - rest); /* either may be the larger one */
    result = exp2_two((struct two){sum, rest + (power.low + decay.low)});
    result.fraction *= stirling(z);
    return result;
}

/* sin(pi * x) for x >= 0: the quarter gives the sign, the distance to the nearest integer the value. */
static double sin_of_pi(double x)
{
    double n = nearest(x), half_n = 0.5 * n, r = x - n, u = r * r, p = 0x1.9d462020fcc78p-21;

    p = p * u + -0x1.6f7acdb8f6580p-16;
    p = p * u + 0x1.e8f3675ee37ddp-12;
    p = p * u + -0x1.e3074dfaf87afp-8;
    p = p * u + 0x1.5078348551854p-4;
    p = p * u + -0x1.32d2cce627c86p-1;
    p = p * u + 0x1.466bc6775aa7dp+1;
    p = p * u + -0x1.4abbce625be52p+2;
    p = p * u + 0x1.921fb54442d18p+1;
    return nearest(half_n) == half_n ? p * r : -(p * r);
}

/* Rounds gamma of a whole number, a factorial, to the exact value: up to 17! as an integer, up to 21! as a multiple of
 * 2^16. */
static double whole_gamma(double x, double result)
{
    double unit = x < 19.0 ? 1.0 : 0x1p16, inverse = x < 19.0 ? 1.0 : 0x1p-16;

    return nearest(x) == x && x > 0.0 && x <= 22.0 ? nearest(result * inverse) * unit : result;
}

/* gamma(-a) = -pi / (sin(pi * a) * a * gamma(a)). Below 1, a * gamma(a) = gamma(a + 1), where the rounding of a + 1 has
 * no effect on the result. */
PUBLIC double tgamma(double x)
{
    double a = fabs(x), at = limit(a, 0.0, 190.0);
    bool small = a < 1.0, negative = x < 0.0;
    struct split value = gamma_split(small ? 1.0 + at : at);
    double factor = small ? 1.0 : at, over = negative ? -M_PI : value.fraction;
    double under = negative ? sin_of_pi(a) * factor * value.fraction : small ? 4.0 * a : 1.0;
    long exponent = small ? value.exponent + 2 : value.exponent; /* 4: avoids an infinite intermediate result */
    double result = scale(over / under, negative ? -value.exponent : exponent);

    result = whole_gamma(x, result);
    result = negative && nearest(a) == a ? (double)NAN : result;
    result = x == 0.0 ? copysign((double)INFINITY, x) : result;
    return x != x ? x : result;
}

VECTORS1(tgamma, double)
VECTORS2(pow, double, double)
VECTORS2(powr, double, double)
