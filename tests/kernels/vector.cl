/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for vectors of all lengths: their arithmetic, parts, shuffles, loads and stores. */
#define LENGTH(n)                                                                                                      \
    __kernel void arithmetic##n(__global const float##n *x, __global const int##n *y, __global float##n *floats,       \
                                __global int##n *ints)                                                                 \
    {                                                                                                                  \
        size_t i = get_global_id(0);                                                                                   \
                                                                                                                       \
        floats[i] = (x[i] + 1.0f) * x[i] - convert_float##n(y[i]);                                                     \
        ints[i] = (y[i] << 1) + (x[i] > 0.5f) + min(y[i], 3);                                                          \
    }                                                                                                                  \
                                                                                                                       \
    __kernel void moved##n(__global const short *x, __global short *out, int from)                                     \
    {                                                                                                                  \
        size_t i = get_global_id(0);                                                                                   \
                                                                                                                       \
        vstore##n(vload##n(i, x + from) + (short)1, i, out);                                                           \
    }                                                                                                                  \
                                                                                                                       \
    __kernel void halves##n(__global const half *x, __global half *out, __global float *floats)                        \
    {                                                                                                                  \
        size_t i = get_global_id(0);                                                                                   \
        float##n loaded = vload_half##n(i, x);                                                                         \
                                                                                                                       \
        vstore##n(loaded, i, floats);                                                                                  \
        vstore_half##n(loaded * 1.3f, i, out);                                                                         \
    }

LENGTH(2)
LENGTH(3)
LENGTH(4)
LENGTH(8)
LENGTH(16)

__kernel void half_roundings(__global const float *x, __global half *out)
{
    size_t i = get_global_id(0), n = get_global_size(0);

    vstore_half(x[i], i, out);
    vstore_half_rte(x[i], i + n, out);
    vstore_half_rtz(x[i], i + 2 * n, out);
    vstore_half_rtp(x[i], i + 3 * n, out);
    vstore_half_rtn(x[i], i + 4 * n, out);
}

__kernel void parts(__global const int4 *x, __global const int8 *y, __global int4 *out)
{
    size_t i = get_global_id(0);
    int4 a = x[i], b = (int4)(7);
    int8 c = y[i];

    out[i * 8 + 0] = a.wzyx;
    out[i * 8 + 1] = (int4)(a.lo, a.hi.yx);
    out[i * 8 + 2] = c.even;
    out[i * 8 + 3] = c.s7531;
    b.xz = a.yw;
    out[i * 8 + 4] = b;
    b.s3 = c.s6;
    b.odd += a.even;
    out[i * 8 + 5] = b;
    out[i * 8 + 6] = shuffle(c, (uint4)(7, 0, 5, 2));
    out[i * 8 + 7] = shuffle2(a, a.xxyy, (uint4)(0, 4, 3, 7));
}

__kernel void indexed(__global const float4 *x, __global const int *which, __global float *out)
{
    size_t i = get_global_id(0);
    union {
        float4 whole;
        float each[4];
    } value;

    value.whole = x[i];
    out[i] = value.each[which[i] & 3];
}

__kernel void geometric(__global const float4 *x, __global const float4 *y, __global float *out)
{
    size_t i = get_global_id(0);
    float4 a = x[i], b = y[i], c = cross(a, b), unit = normalize(a);

    out[i * 12 + 0] = dot(a, b);
    out[i * 12 + 1] = dot(a.xyz, b.xyz);
    out[i * 12 + 2] = length(a);
    out[i * 12 + 3] = distance(a.xy, b.xy);
    vstore4(c, 0, out + i * 12 + 4);
    vstore4(unit, 0, out + i * 12 + 8);
}
