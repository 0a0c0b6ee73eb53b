/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for comparisons, the classes of floats, select(), any() and all(). */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

#define KIND(type, itype)                                                                                              \
    __kernel void compare_##type(__global const type *x, __global const type *y, __global int *out)                    \
    {                                                                                                                  \
        size_t i = get_global_id(0);                                                                                   \
        type a = x[i], b = y[i];                                                                                       \
                                                                                                                       \
        out[i * 15 + 0] = isequal(a, b);                                                                               \
        out[i * 15 + 1] = isnotequal(a, b);                                                                            \
        out[i * 15 + 2] = isgreater(a, b);                                                                             \
        out[i * 15 + 3] = isgreaterequal(a, b);                                                                        \
        out[i * 15 + 4] = isless(a, b);                                                                                \
        out[i * 15 + 5] = islessequal(a, b);                                                                           \
        out[i * 15 + 6] = islessgreater(a, b);                                                                         \
        out[i * 15 + 7] = isfinite(a);                                                                                 \
        out[i * 15 + 8] = isinf(a);                                                                                    \
        out[i * 15 + 9] = isnan(a);                                                                                    \
        out[i * 15 + 10] = isnormal(a);                                                                                \
        out[i * 15 + 11] = isordered(a, b);                                                                            \
        out[i * 15 + 12] = isunordered(a, b);                                                                          \
        out[i * 15 + 13] = signbit(a);                                                                                 \
        out[i * 15 + 14] = (a < b) + (a == b) * 2 + (a != b) * 4 + (a >= b) * 8 + (!a) * 16;                           \
    }                                                                                                                  \
                                                                                                                       \
    __kernel void vectors_##type(__global const type##4 * x, __global const type##4 * y, __global itype##4 * out,      \
                                 __global type##4 * picked)                                                            \
    {                                                                                                                  \
        size_t i = get_global_id(0);                                                                                   \
        itype##4 less = x[i] < y[i];                                                                                   \
                                                                                                                       \
        out[i * 3 + 0] = less;                                                                                         \
        out[i * 3 + 1] = isequal(x[i], y[i]) | isnan(x[i]);                                                            \
        out[i * 3 + 2] = (itype##4)(any(less), all(less), any(isnan(x[i])), all(signbit(x[i])));                       \
        picked[i * 3 + 0] = select(x[i], y[i], less);                                                                  \
        picked[i * 3 + 1] = less ? x[i] : y[i];                                                                        \
        picked[i * 3 + 2] = bitselect(x[i], y[i], (type##4)(-0.0f));                                                   \
    }

KIND(float, int)
KIND(double, long)
