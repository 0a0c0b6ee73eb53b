/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that convert between all types, saturated and in all rounding modes. */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

#define TO(from, to)                                                                                                   \
    __kernel void from##_to_##to(__global const from *x, __global to *out, __global to *saturated)                     \
    {                                                                                                                  \
        size_t i = get_global_id(0);                                                                                   \
                                                                                                                       \
        out[i] = convert_##to(x[i]);                                                                                   \
        saturated[i] = convert_##to##_sat(x[i]);                                                                       \
    }

#define FROM(from) TO(from, char) TO(from, uchar) TO(from, short) TO(from, ushort) TO(from, int) TO(from, uint)        \
    TO(from, long) TO(from, ulong)

FROM(char)
FROM(uchar)
FROM(short)
FROM(ushort)
FROM(int)
FROM(uint)
FROM(long)
FROM(ulong)
FROM(float)
FROM(double)

#define ROUNDED(from, to)                                                                                              \
    __kernel void from##_rounded_##to(__global const from *x, __global to *out)                                        \
    {                                                                                                                  \
        size_t i = get_global_id(0);                                                                                   \
                                                                                                                       \
        out[i * 5 + 0] = convert_##to##_rte(x[i]);                                                                     \
        out[i * 5 + 1] = convert_##to##_rtz(x[i]);                                                                     \
        out[i * 5 + 2] = convert_##to##_rtp(x[i]);                                                                     \
        out[i * 5 + 3] = convert_##to##_rtn(x[i]);                                                                     \
        out[i * 5 + 4] = (to)x[i];                                                                                     \
    }

ROUNDED(float, int)
ROUNDED(float, uchar)
ROUNDED(double, long)
ROUNDED(int, float)
ROUNDED(ulong, float)
ROUNDED(long, double)
ROUNDED(double, float)

__kernel void bits(__global const float4 *x, __global int4 *ints, __global ushort8 *shorts)
{
    size_t i = get_global_id(0);

    ints[i] = as_int4(x[i]);
    shorts[i] = as_ushort8(x[i]);
}

__kernel void vectors(__global const float4 *x, __global uchar4 *bytes, __global double4 *doubles)
{
    size_t i = get_global_id(0);

    bytes[i] = convert_uchar4_sat_rte(x[i]);
    doubles[i] = convert_double4(x[i]);
}
