/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fmod, remainder and remquo of float, for vector lanes. libclc's own are wrong for subnormal numbers.
 *
 * Owns: the long division of one float by another, 24 bits of the quotient at a time. It is done in double, in which no
 *       float is subnormal.
 * Never: rounds a result, since every step is exact.
 */
#include "vectors.h"

/* The remainder of |x|, not negative and less than |y|, and the low bits of the quotient. */
struct division {
    double rest, by;
    uint quotient;
    bool none; /* these two numbers have no quotient */
};

static int exponent(double x)
{
    return (int)(as_ulong(x) >> 52);
}

/* A step's quotient is less than 2^25, so its product with the divisor is exact, and so is the remainder. The quotient
 * of two floats is rounded to a whole number only if one is a multiple of the other. */
static struct division divide(float x, float y)
{
    bool none = !(fabs(x) < INFINITY) || !(fabs(y) > 0.0f);
    double by = none ? 1.0 : (fabs(y) == INFINITY ? 0x1p200 : (double)fabs(y));
    struct division done = {none ? 0.0 : (double)fabs(x), by, 0, none};

    for (int step = max(exponent(done.rest) - exponent(by), 0) / 24; step >= 0; step--) {
        double unit = by * as_double((long)(1023 + 24 * step) << 52), times = trunc(done.rest / unit);

        done.rest -= times * unit;
        done.quotient = (done.quotient << 24) + (uint)(int)times;
    }
    return done;
}

/* Divides to the nearest multiple, halfway to the even one, so that the remainder may be negative. */
static struct division divide_nearest(float x, float y)
{
    struct division done = divide(x, y);
    bool up = 2.0 * done.rest > done.by || (2.0 * done.rest == done.by && (done.quotient & 1));

    done.rest -= up ? done.by : 0.0;
    done.quotient += up;
    return done;
}

static float with_sign(struct division done, float x)
{
    float rest = (float)done.rest;

    return done.none ? as_float(0x7fc00000) : as_float(as_int(rest) ^ (as_int(x) & INT_MIN));
}

PUBLIC float fmod(float x, float y)
{
    return with_sign(divide(x, y), x);
}

PUBLIC float remainder(float x, float y)
{
    return with_sign(divide_nearest(x, y), x);
}

#define REMQUO(space)                                                                                                  \
    PUBLIC float remquo(float x, float y, space int *quotient)                                                         \
    {                                                                                                                  \
        struct division done = divide_nearest(x, y);                                                                   \
        int low = (int)(done.quotient & 127);                                                                          \
        *quotient = (as_int(x) ^ as_int(y)) < 0 ? -low : low;                                                          \
        return with_sign(done, x);                                                                                     \
    }                                                                                                                  \
    VECTORS2_POINTER(remquo, float, int, space)
IN_SPACES(REMQUO)

VECTORS2(fmod, float, float)
VECTORS2(remainder, float, float)
