/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: native_*() by PTX's approximate instructions. libclc's generic functions use LLVM's exp and log, which PTX
 * lacks.
 * Never: guarantees an error bound, as OpenCL does not for native functions either.
 */
#include "vectors.h"

float exp2_approximate(float x) __asm__("llvm.nvvm.ex2.approx.f");
float log2_approximate(float x) __asm__("llvm.nvvm.lg2.approx.f");
float sin_approximate(float x) __asm__("llvm.nvvm.sin.approx.f");
float cos_approximate(float x) __asm__("llvm.nvvm.cos.approx.f");
float sqrt_approximate(float x) __asm__("llvm.nvvm.sqrt.approx.f");
float rsqrt_approximate(float x) __asm__("llvm.nvvm.rsqrt.approx.f");
float divide_approximate(float x, float y) __asm__("llvm.nvvm.div.approx.f");

#define NATIVE(name, value)                                                                                            \
    PUBLIC float name(float x)                                                                                         \
    {                                                                                                                  \
        return value;                                                                                                  \
    }                                                                                                                  \
    VECTORS1(name, float)

NATIVE(native_exp2, exp2_approximate(x))
NATIVE(native_exp, exp2_approximate(x *M_LOG2E_F))
NATIVE(native_exp10, exp2_approximate(x * 3.321928094887362f))
NATIVE(native_log2, log2_approximate(x))
NATIVE(native_log, log2_approximate(x) * M_LN2_F)
NATIVE(native_log10, log2_approximate(x) * 0.3010299956639812f)
NATIVE(native_sin, sin_approximate(x))
NATIVE(native_cos, cos_approximate(x))
NATIVE(native_tan, divide_approximate(sin_approximate(x), cos_approximate(x)))
NATIVE(native_sqrt, sqrt_approximate(x))
NATIVE(native_rsqrt, rsqrt_approximate(x))
NATIVE(native_recip, divide_approximate(1.0f, x))

PUBLIC float native_divide(float x, float y)
{
    return divide_approximate(x, y);
}
VECTORS2(native_divide, float, float)

PUBLIC float native_powr(float x, float y)
{
    return exp2_approximate(y * log2_approximate(x));
}
VECTORS2(native_powr, float, float)
