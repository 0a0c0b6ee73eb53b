/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: functions that are wrong in libclc: mad_sat() of long, and ldexp() for subnormal results and for NaN.
 * Never: replaces a function that is right.
 */
#include "vectors.h"

/* a * b + c in 128 bits, so that only the sum is clamped. */
PUBLIC long mad_sat(long a, long b, long c)
{
    ulong low = (ulong)a * (ulong)b, sum = low + (ulong)c;
    long high = mul_hi(a, b) + (c >> 63) + (sum < low ? 1 : 0);

    return high == (long)sum >> 63 ? (long)sum : (high < 0 ? LONG_MIN : LONG_MAX);
}

/* Computes in double, which holds every result, so that the result is rounded once. */
PUBLIC float ldexp(float x, int n)
{
    long exponent = clamp(n, -400, 400);

    return (float)((double)x * as_double((exponent + 1023) << 52));
}

/* Multiplies by powers of two. Only the last one can make a subnormal result, so that it is rounded once. libclc's own
 * function turns NaN into an infinity. */
PUBLIC double ldexp(double x, int n)
{
    for (int i = 0; i < 2; i++) {
        int step = n > 1023 ? 1023 : n < -1022 ? -969 : 0;

        x *= as_double((long)(1023 + step) << 52);
        n -= step;
    }
    return x * as_double((long)(1023 + clamp(n, -1022, 1023)) << 52);
}

#define MAD_SAT(count)                                                                                                 \
    PUBLIC long##count mad_sat(long##count a, long##count b, long##count c)                                            \
    {                                                                                                                  \
        return (long##count)(mad_sat(a.lo, b.lo, c.lo), mad_sat(a.hi, b.hi, c.hi));                                    \
    }
MAD_SAT(2)
MAD_SAT(4)
MAD_SAT(8)
MAD_SAT(16)

PUBLIC long3 mad_sat(long3 a, long3 b, long3 c)
{
    return (long3)(mad_sat(a.xy, b.xy, c.xy), mad_sat(a.z, b.z, c.z));
}

#define LDEXP(type, count)                                                                                             \
    PUBLIC type##count ldexp(type##count x, int n)                                                                     \
    {                                                                                                                  \
        return ldexp(x, (int##count)(n));                                                                              \
    }
#define LDEXPS(type)                                                                                                   \
    VECTORS2(ldexp, type, int)                                                                                         \
    LDEXP(type, 2)                                                                                                     \
    LDEXP(type, 3)                                                                                                     \
    LDEXP(type, 4)                                                                                                     \
    LDEXP(type, 8)                                                                                                     \
    LDEXP(type, 16)
LDEXPS(float)
LDEXPS(double)
