/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saturating conversions of floating-point numbers to integers. libclc's conversions leave the result for NaN
 * undefined; OpenCL requires 0.
 *
 * Owns: convert_TYPE_sat*() of float and double.
 * Never: branches; each is one saturating conversion of LLVM.
 */
#include "vectors.h"

#define LLVM_SATURATING(T, sign, bits)                                                                                 \
    T saturate_##T(float x) __asm__("llvm.fpto" #sign "i.sat.i" #bits ".f32");                                         \
    T saturate_wide_##T(double x) __asm__("llvm.fpto" #sign "i.sat.i" #bits ".f64");
LLVM_SATURATING(char, s, 8)
LLVM_SATURATING(uchar, u, 8)
LLVM_SATURATING(short, s, 16)
LLVM_SATURATING(ushort, u, 16)
LLVM_SATURATING(int, s, 32)
LLVM_SATURATING(uint, u, 32)
LLVM_SATURATING(long, s, 64)
LLVM_SATURATING(ulong, u, 64)

#define VECTORS_TO(T, mode, F)                                                                                         \
    PUBLIC T##2 convert_##T##2_sat##mode(F##2 x)                                                                       \
    {                                                                                                                  \
        return (T##2)(convert_##T##_sat##mode(x.x), convert_##T##_sat##mode(x.y));                                     \
    }                                                                                                                  \
    PUBLIC T##3 convert_##T##3_sat##mode(F##3 x)                                                                       \
    {                                                                                                                  \
        return (T##3)(convert_##T##2_sat##mode(x.xy), convert_##T##_sat##mode(x.z));                                   \
    }                                                                                                                  \
    PUBLIC T##4 convert_##T##4_sat##mode(F##4 x)                                                                       \
    {                                                                                                                  \
        return (T##4)(convert_##T##2_sat##mode(x.lo), convert_##T##2_sat##mode(x.hi));                                 \
    }                                                                                                                  \
    PUBLIC T##8 convert_##T##8_sat##mode(F##8 x)                                                                       \
    {                                                                                                                  \
        return (T##8)(convert_##T##4_sat##mode(x.lo), convert_##T##4_sat##mode(x.hi));                                 \
    }                                                                                                                  \
    PUBLIC T##16 convert_##T##16_sat##mode(F##16 x)                                                                    \
    {                                                                                                                  \
        return (T##16)(convert_##T##8_sat##mode(x.lo), convert_##T##8_sat##mode(x.hi));                                \
    }

#define SATURATE(T, mode, round)                                                                                       \
    PUBLIC T convert_##T##_sat##mode(float x)                                                                          \
    {                                                                                                                  \
        return saturate_##T(round(x));                                                                                 \
    }                                                                                                                  \
    PUBLIC T convert_##T##_sat##mode(double x)                                                                         \
    {                                                                                                                  \
        return saturate_wide_##T(round(x));                                                                            \
    }                                                                                                                  \
    VECTORS_TO(T, mode, float)                                                                                         \
    VECTORS_TO(T, mode, double)

#define SATURATE_MODES(T)                                                                                              \
    SATURATE(T, , )                                                                                                    \
    SATURATE(T, _rte, rint)                                                                                            \
    SATURATE(T, _rtz, )                                                                                                \
    SATURATE(T, _rtp, ceil)                                                                                            \
    SATURATE(T, _rtn, floor)
SATURATE_MODES(char)
SATURATE_MODES(uchar)
SATURATE_MODES(short)
SATURATE_MODES(ushort)
SATURATE_MODES(int)
SATURATE_MODES(uint)
SATURATE_MODES(long)
SATURATE_MODES(ulong)
