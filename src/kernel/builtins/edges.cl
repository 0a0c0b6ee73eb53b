/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: edge cases that libclc's functions get wrong, for the host and PTX: signs of zeros (C99 F.10, OpenCL 1.2
 *       7.5.1), lgamma() of an infinity, all of fract(). __libclc_NAME is libclc's own NAME (prepare.cc).
 * Never: replaces a function that libclc has right.
 */
#include "vectors.h"

/* --- odd functions: f(+0) is +0, and f(-0) is -0 ------------------------------------------------------------------ */

#define ZERO(name)                                                                                                     \
    PUBLIC double __libclc_##name(double x);                                                                           \
    PUBLIC double name(double x)                                                                                       \
    {                                                                                                                  \
        return x == 0.0 ? x : __libclc_##name(x);                                                                      \
    }                                                                                                                  \
    VECTORS1(name, double)
ZERO(asin)
ZERO(asinpi)
ZERO(atan)
ZERO(atanpi)
ZERO(erf)
ZERO(expm1)
ZERO(sin)
ZERO(tan)

#define SINCOS(space)                                                                                                  \
    PUBLIC double __libclc_sincos(double x, space double *cosine);                                                     \
    PUBLIC double sincos(double x, space double *cosine)                                                               \
    {                                                                                                                  \
        double sine = __libclc_sincos(x, cosine);                                                                      \
        return x == 0.0 ? x : sine;                                                                                    \
    }                                                                                                                  \
    VECTORS_POINTER(sincos, double, double, space)
IN_SPACES(SINCOS)

/* --- half turns: at whole numbers the sign alternates, or stays -------------------------------------------------- */

#define HALF_TURNS(T)                                                                                                  \
    PUBLIC T __libclc_sinpi(T x);                                                                                      \
    PUBLIC T __libclc_cospi(T x);                                                                                      \
    PUBLIC T __libclc_tanpi(T x);                                                                                      \
    PUBLIC T sinpi(T x)                                                                                                \
    {                                                                                                                  \
        T sine = __libclc_sinpi(x);                                                                                    \
        return sine == (T)0 ? copysign((T)0, x) : sine;                                                                \
    }                                                                                                                  \
    PUBLIC T cospi(T x)                                                                                                \
    {                                                                                                                  \
        return __libclc_cospi(x) + (T)0; /* no negative zero */                                                        \
    }                                                                                                                  \
    PUBLIC T tanpi(T x)                                                                                                \
    {                                                                                                                  \
        T tangent = __libclc_tanpi(x), half_x = (T)0.5 * x;                                                            \
        T zero = copysign((T)0, trunc(half_x) == half_x ? x : -x);                                                     \
        return tangent == (T)0 ? zero : tangent;                                                                       \
    }                                                                                                                  \
    VECTORS1(sinpi, T)                                                                                                 \
    VECTORS1(cospi, T)                                                                                                 \
    VECTORS1(tanpi, T)
HALF_TURNS(float)
HALF_TURNS(double)

/* --- lgamma() of float -------------------------------------------------------------------------------------------- */

PUBLIC float __libclc_lgamma(float x);
PUBLIC float lgamma(float x)
{
    return fabs(x) == INFINITY ? INFINITY : __libclc_lgamma(x);
}
VECTORS1(lgamma, float)

#define LGAMMA_R(space)                                                                                                \
    PUBLIC float __libclc_lgamma_r(float x, space int *sign);                                                          \
    PUBLIC float lgamma_r(float x, space int *sign)                                                                    \
    {                                                                                                                  \
        float logarithm = __libclc_lgamma_r(x, sign);                                                                  \
        return fabs(x) == INFINITY ? INFINITY : logarithm;                                                             \
    }                                                                                                                  \
    VECTORS_POINTER(lgamma_r, float, int, space)
IN_SPACES(LGAMMA_R)

/* --- fract() ------------------------------------------------------------------------------------------------------ */

/* `below` is the largest number below 1. fract() of an infinity or a zero is a zero of the same sign. */
#define FRACT(T, space, below)                                                                                         \
    PUBLIC T fract(T x, space T *whole)                                                                                \
    {                                                                                                                  \
        T down = floor(x), rest = x - down;                                                                            \
        *whole = down;                                                                                                 \
        rest = rest > below ? below : rest;                                                                            \
        return fabs(x) == (T)INFINITY || x == (T)0 ? copysign((T)0, x) : rest;                                         \
    }                                                                                                                  \
    VECTORS_POINTER(fract, T, T, space)
#define FRACT_FLOAT(space)  FRACT(float, space, 0x1.fffffep-1f)
#define FRACT_DOUBLE(space) FRACT(double, space, 0x1.fffffffffffffp-1)
IN_SPACES(FRACT_FLOAT)
IN_SPACES(FRACT_DOUBLE)
