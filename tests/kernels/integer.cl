/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels with every operator and with every function of integers, for each type. The order of results is that of
 * test_integer.py. */
#define OPERATORS(type, item)                                                                                          \
    out[item * 12 + 0] = a + b;                                                                                        \
    out[item * 12 + 1] = a - b;                                                                                        \
    out[item * 12 + 2] = a * b;                                                                                        \
    out[item * 12 + 3] = c == 0 ? 0 : a / c;                                                                           \
    out[item * 12 + 4] = c == 0 ? 0 : a % c;                                                                           \
    out[item * 12 + 5] = a & b;                                                                                        \
    out[item * 12 + 6] = a | b;                                                                                        \
    out[item * 12 + 7] = a ^ b;                                                                                        \
    out[item * 12 + 8] = ~a;                                                                                           \
    out[item * 12 + 9] = a << (type)(b & (sizeof(type) * 8 - 1));                                                      \
    out[item * 12 + 10] = a >> (type)(b & (sizeof(type) * 8 - 1));                                                     \
    out[item * 12 + 11] = a < b ? -a : a;

#define WIDTH(type, utype)                                                                                             \
    __kernel void operators_##type(__global const type *as, __global const type *bs, __global const type *cs,          \
                                   __global type *out)                                                                 \
    {                                                                                                                  \
        size_t i = get_global_id(0);                                                                                   \
        type a = as[i], b = bs[i], c = cs[i];                                                                          \
                                                                                                                       \
        OPERATORS(type, i)                                                                                             \
    }                                                                                                                  \
                                                                                                                       \
    __kernel void functions_##type(__global const type *as, __global const type *bs, __global const type *cs,          \
                                   __global type *out)                                                                 \
    {                                                                                                                  \
        size_t i = get_global_id(0);                                                                                   \
        type a = as[i], b = bs[i], c = cs[i];                                                                          \
                                                                                                                       \
        out[i * 17 + 0] = mul_hi(a, b);                                                                                \
        out[i * 17 + 1] = mad_hi(a, b, c);                                                                             \
        out[i * 17 + 2] = mad_sat(a, b, c);                                                                            \
        out[i * 17 + 3] = add_sat(a, b);                                                                               \
        out[i * 17 + 4] = sub_sat(a, b);                                                                               \
        out[i * 17 + 5] = hadd(a, b);                                                                                  \
        out[i * 17 + 6] = rhadd(a, b);                                                                                 \
        out[i * 17 + 7] = rotate(a, b);                                                                                \
        out[i * 17 + 8] = clz(a);                                                                                      \
        out[i * 17 + 9] = popcount(a);                                                                                 \
        out[i * 17 + 10] = (type)abs(a);                                                                               \
        out[i * 17 + 11] = (type)abs_diff(a, b);                                                                       \
        out[i * 17 + 12] = min(a, b);                                                                                  \
        out[i * 17 + 13] = max(a, b);                                                                                  \
        out[i * 17 + 14] = clamp(a, min(b, c), max(b, c));                                                             \
        out[i * 17 + 15] = bitselect(a, b, c);                                                                         \
        out[i * 17 + 16] = select(a, b, (utype)(c & 1));                                                               \
    }

WIDTH(char, uchar)
WIDTH(uchar, uchar)
WIDTH(short, ushort)
WIDTH(ushort, ushort)
WIDTH(int, uint)
WIDTH(uint, uint)
WIDTH(long, ulong)
WIDTH(ulong, ulong)

__kernel void wider(__global const int *as, __global const uint *bs, __global long *longs, __global int *ints)
{
    size_t i = get_global_id(0);
    int a = as[i];
    uint b = bs[i];

    longs[i * 3 + 0] = upsample(a, b);
    longs[i * 3 + 1] = upsample((short)a, (ushort)b);
    longs[i * 3 + 2] = upsample((char)a, (uchar)b);
    ints[i * 4 + 0] = mul24(a << 8 >> 8, (int)(b << 8) >> 8);
    ints[i * 4 + 1] = mad24(a << 8 >> 8, (int)(b << 8) >> 8, a);
    ints[i * 4 + 2] = (int)mul24((uint)a & 0xffffff, b & 0xffffff);
    ints[i * 4 + 3] = (int)mad24((uint)a & 0xffffff, b & 0xffffff, b);
}
