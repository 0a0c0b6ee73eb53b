/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storing numbers as half. libclc's functions round tiny numbers up or down wrongly, and call libgcc for a double.
 *
 * Owns: vstore_half*() and vstorea_half*().
 * Never: needs more of the processor than conversions between float and half.
 */
#include "vectors.h"

/* The nearest half. The result of every other rounding is this half or its neighbour; bits are a sign and a
 * magnitude. */
static ushort half_rte(float x)
{
    ushort bits;

    __builtin_store_halff(x, (half *)&bits);
    return bits;
}

static float widen(ushort bits)
{
    return __builtin_load_halff((const half *)&bits);
}

static ushort half_rtz(float x)
{
    ushort bits = half_rte(x);

    return fabs(widen(bits)) > fabs(x) ? bits - 1 : bits;
}

static ushort half_rtp(float x)
{
    ushort bits = half_rte(x);

    return widen(bits) < x ? (x < 0.0f ? bits - 1 : bits + 1) : bits;
}

static ushort half_rtn(float x)
{
    ushort bits = half_rte(x);

    return widen(bits) > x ? (x < 0.0f ? bits + 1 : bits - 1) : bits;
}

static float narrow_float(float x)
{
    return x;
}

/* Rounds to odd: the last bit is set if bits were lost, so that rounding again is as exact as rounding once. */
static float narrow_double(double x)
{
    float near = (float)x;
    int bits = as_int(near) - (fabs((double)near) > fabs(x) ? 1 : 0);

    return (double)near == x || x != x ? near : as_float(bits | 1);
}

#define STORE(space, T, mode, round)                                                                                   \
    PUBLIC void vstore_half##mode(T x, size_t i, space half *p)                                                        \
    {                                                                                                                  \
        ((space ushort *)p)[i] = round(narrow_##T(x));                                                                 \
    }                                                                                                                  \
    PUBLIC void vstorea_half##mode(T x, size_t i, space half *p)                                                       \
    {                                                                                                                  \
        vstore_half##mode(x, i, p);                                                                                    \
    }

#define STORE_VECTOR(space, T, mode, count, stride)                                                                    \
    PUBLIC void vstore_half##count##mode(T##count x, size_t i, space half *p)                                          \
    {                                                                                                                  \
        T elements[stride];                                                                                            \
        vstore##count(x, 0, elements);                                                                                 \
        for (size_t n = 0; n < count; n++)                                                                             \
            vstore_half##mode(elements[n], i *count + n, p);                                                           \
    }                                                                                                                  \
    PUBLIC void vstorea_half##count##mode(T##count x, size_t i, space half *p)                                         \
    {                                                                                                                  \
        T elements[stride];                                                                                            \
        vstore##count(x, 0, elements);                                                                                 \
        for (size_t n = 0; n < count; n++)                                                                             \
            vstore_half##mode(elements[n], i *stride + n, p);                                                          \
    }

#define STORE_ALL(space, T, mode, round)                                                                               \
    STORE(space, T, mode, round)                                                                                       \
    STORE_VECTOR(space, T, mode, 2, 2)                                                                                 \
    STORE_VECTOR(space, T, mode, 3, 4)                                                                                 \
    STORE_VECTOR(space, T, mode, 4, 4)                                                                                 \
    STORE_VECTOR(space, T, mode, 8, 8)                                                                                 \
    STORE_VECTOR(space, T, mode, 16, 16)

#define STORE_MODES(space, T)                                                                                          \
    STORE_ALL(space, T, , half_rte)                                                                                    \
    STORE_ALL(space, T, _rte, half_rte)                                                                                \
    STORE_ALL(space, T, _rtz, half_rtz)                                                                                \
    STORE_ALL(space, T, _rtp, half_rtp)                                                                                \
    STORE_ALL(space, T, _rtn, half_rtn)
STORE_MODES(private, float)
STORE_MODES(private, double)
STORE_MODES(global, float)
STORE_MODES(global, double)
STORE_MODES(local, float)
STORE_MODES(local, double)
