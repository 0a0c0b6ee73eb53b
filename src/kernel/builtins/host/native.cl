/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: native_* and half_* of float, which are the exact functions: these are fast already, and libclc's own would
 * become calls of a C library.
 * Never: is less exact than OpenCL requires of half_*.
 */
#include "vectors.h"

#define SAME1(name)                                                                                                    \
    PUBLIC float native_##name(float x)                                                                                \
    {                                                                                                                  \
        return name(x);                                                                                                \
    }                                                                                                                  \
    PUBLIC float half_##name(float x)                                                                                  \
    {                                                                                                                  \
        return name(x);                                                                                                \
    }                                                                                                                  \
    VECTORS1(native_##name, float)                                                                                     \
    VECTORS1(half_##name, float)
SAME1(exp)
SAME1(exp2)
SAME1(exp10)
SAME1(log)
SAME1(log2)
SAME1(log10)
SAME1(sqrt)
SAME1(rsqrt)

PUBLIC float native_powr(float x, float y)
{
    return exp2(y * log2(x));
}
VECTORS2(native_powr, float, float)

PUBLIC float half_powr(float x, float y)
{
    return powr(x, y);
}
VECTORS2(half_powr, float, float)
