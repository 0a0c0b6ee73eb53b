/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: functions of OpenCL C 1.2 that are missing or wrong in libclc 19, and right in libclc 22. Never: is built with
 * libclc 22. Other functions of these names are only declared, which replaces clang's own declarations.
 */
#include "vectors.h"

/* --- missing: mad_hi(), smoothstep() with edges of double, copies of vectors of three ----------------------------- */

#define MAD_HI_OF(T)                                                                                                   \
    PUBLIC T mad_hi(T a, T b, T c)                                                                                     \
    {                                                                                                                  \
        return mul_hi(a, b) + c;                                                                                       \
    }
#define MAD_HI(T) MAD_HI_OF(T) MAD_HI_OF(T##2) MAD_HI_OF(T##3) MAD_HI_OF(T##4) MAD_HI_OF(T##8) MAD_HI_OF(T##16)
MAD_HI(char)
MAD_HI(uchar)
MAD_HI(short)
MAD_HI(ushort)
MAD_HI(int)
MAD_HI(uint)
MAD_HI(long)
MAD_HI(ulong)

#define SMOOTHSTEP(T)                                                                                                  \
    PUBLIC T smoothstep(T low, T high, T x);                                                                           \
    PUBLIC T smoothstep(double low, double high, T x)                                                                  \
    {                                                                                                                  \
        return smoothstep((T)low, (T)high, x);                                                                         \
    }
SMOOTHSTEP(double2)
SMOOTHSTEP(double3)
SMOOTHSTEP(double4)
SMOOTHSTEP(double8)
SMOOTHSTEP(double16)

/* Vectors of three lie in memory as vectors of four. */
#define COPIES_BETWEEN(T, to, from)                                                                                    \
    PUBLIC event_t async_work_group_copy(to T##4 *, const from T##4 *, size_t, event_t);                               \
    PUBLIC event_t async_work_group_copy(to T##3 * target, const from T##3 * source, size_t count, event_t event)      \
    {                                                                                                                  \
        return async_work_group_copy((to T##4 *)target, (const from T##4 *)source, count, event);                      \
    }                                                                                                                  \
    PUBLIC event_t async_work_group_strided_copy(to T##4 *, const from T##4 *, size_t, size_t, event_t);               \
    PUBLIC event_t async_work_group_strided_copy(to T##3 * target, const from T##3 * source, size_t count,             \
                                                 size_t stride, event_t event)                                         \
    {                                                                                                                  \
        return async_work_group_strided_copy((to T##4 *)target, (const from T##4 *)source, count, stride, event);      \
    }
#define COPIES(T)                                                                                                      \
    COPIES_BETWEEN(T, __local, __global)                                                                               \
    COPIES_BETWEEN(T, __global, __local)                                                                               \
    PUBLIC void prefetch(const __global T##3 * source, size_t count)                                                   \
    {                                                                                                                  \
    }
COPIES(char)
COPIES(uchar)
COPIES(short)
COPIES(ushort)
COPIES(int)
COPIES(uint)
COPIES(long)
COPIES(ulong)
COPIES(float)
COPIES(double)

#ifdef __AMDGCN__
/* wait_group_events() with the mangled name and the type that clang 19 uses: events are in no address space. */
void wait_group_events_anywhere(int count, __attribute__((address_space(0))) void *events) __asm__(
    "_Z17wait_group_eventsiPU3AS09ocl_event");

void wait_group_events_anywhere(int count, __attribute__((address_space(0))) void *events)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}
#endif

/* --- wrong: sub_sat() of 0 and the least integer; erfc() of float, by 16 ULP and more; rounding of large integers - */

#define SUB_SAT_OF(T)                                                                                                  \
    PUBLIC T sub_sat(T a, T b)                                                                                         \
    {                                                                                                                  \
        return __builtin_elementwise_sub_sat(a, b);                                                                    \
    }
#define SUB_SAT(T) SUB_SAT_OF(T) SUB_SAT_OF(T##2) SUB_SAT_OF(T##3) SUB_SAT_OF(T##4) SUB_SAT_OF(T##8) SUB_SAT_OF(T##16)
SUB_SAT(int)
SUB_SAT(long)

PUBLIC double erfc(double x);
PUBLIC float erfc(float x)
{
    return (float)erfc((double)x);
}
VECTORS1(erfc, float)

/* x rounded to a float's 24 bits (53 for double), towards zero or `away` from it. The bits that are kept and the power
 * of two are exact, so is their product. */
static float leading_float(ulong x, bool away)
{
    int shift = max(40 - (int)clz(x), 0);
    ulong kept = x >> shift, more = kept << shift != x;

    return (float)(kept + (away ? more : 0)) * as_float((127 + shift) << 23);
}

static double leading_double(ulong x, bool away)
{
    int shift = max(11 - (int)clz(x), 0);
    ulong kept = x >> shift, more = kept << shift != x;

    return (double)(kept + (away ? more : 0)) * as_double((long)(1023 + shift) << 52);
}

#define ROUNDED_BY(F, I, mode, away, sign, magnitude)                                                                  \
    PUBLIC F convert_##F##mode(I x)                                                                                    \
    {                                                                                                                  \
        return sign leading_##F(magnitude, away);                                                                      \
    }                                                                                                                  \
    PUBLIC F##2 convert_##F##2##mode(I##2 x)                                                                           \
    {                                                                                                                  \
        return (F##2)(convert_##F##mode(x.x), convert_##F##mode(x.y));                                                 \
    }                                                                                                                  \
    PUBLIC F##3 convert_##F##3##mode(I##3 x)                                                                           \
    {                                                                                                                  \
        return (F##3)(convert_##F##2##mode(x.xy), convert_##F##mode(x.z));                                             \
    }                                                                                                                  \
    PUBLIC F##4 convert_##F##4##mode(I##4 x)                                                                           \
    {                                                                                                                  \
        return (F##4)(convert_##F##2##mode(x.lo), convert_##F##2##mode(x.hi));                                         \
    }                                                                                                                  \
    PUBLIC F##8 convert_##F##8##mode(I##8 x)                                                                           \
    {                                                                                                                  \
        return (F##8)(convert_##F##4##mode(x.lo), convert_##F##4##mode(x.hi));                                         \
    }                                                                                                                  \
    PUBLIC F##16 convert_##F##16##mode(I##16 x)                                                                        \
    {                                                                                                                  \
        return (F##16)(convert_##F##8##mode(x.lo), convert_##F##8##mode(x.hi));                                        \
    }
#define ROUNDED_SIGNED(F, I)                                                                                           \
    ROUNDED_BY(F, I, _rtz, false, (x < 0 ? -1 : 1) *, abs((long)x))                                                    \
    ROUNDED_BY(F, I, _rtp, x > 0, (x < 0 ? -1 : 1) *, abs((long)x))                                                    \
    ROUNDED_BY(F, I, _rtn, x < 0, (x < 0 ? -1 : 1) *, abs((long)x))
#define ROUNDED_UNSIGNED(F, I)                                                                                         \
    ROUNDED_BY(F, I, _rtz, false, , x)                                                                                 \
    ROUNDED_BY(F, I, _rtp, true, , x)                                                                                  \
    ROUNDED_BY(F, I, _rtn, false, , x)
ROUNDED_SIGNED(float, int)
ROUNDED_UNSIGNED(float, uint)
ROUNDED_SIGNED(float, long)
ROUNDED_UNSIGNED(float, ulong)
ROUNDED_SIGNED(double, long)
ROUNDED_UNSIGNED(double, ulong)
