/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for functions of float and double. Most of them call one function, and are named "FUNCTION_TYPE". */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

#define ONE(type, name, kernel_name)                                                                                   \
    __kernel void kernel_name##type(__global const type *x, __global type *out)                                        \
    {                                                                                                                  \
        size_t i = get_global_id(0);                                                                                   \
                                                                                                                       \
        out[i] = name(x[i]);                                                                                           \
    }

#define TWO(type, name, kernel_name)                                                                                   \
    __kernel void kernel_name##type(__global const type *x, __global const type *y, __global type *out)                \
    {                                                                                                                  \
        size_t i = get_global_id(0);                                                                                   \
                                                                                                                       \
        out[i] = name(x[i], y[i]);                                                                                     \
    }

/* The kernel's name is an argument of its own, since a function that is a macro would be expanded in a pasted name. */
#define BOTH(how, name, kernel_name) how(float, name, kernel_name) how(double, name, kernel_name)

BOTH(ONE, acos, acos_)
BOTH(ONE, acosh, acosh_)
BOTH(ONE, acospi, acospi_)
BOTH(ONE, asin, asin_)
BOTH(ONE, asinh, asinh_)
BOTH(ONE, asinpi, asinpi_)
BOTH(ONE, atan, atan_)
BOTH(ONE, atanh, atanh_)
BOTH(ONE, atanpi, atanpi_)
BOTH(ONE, cbrt, cbrt_)
BOTH(ONE, ceil, ceil_)
BOTH(ONE, cos, cos_)
BOTH(ONE, cosh, cosh_)
BOTH(ONE, cospi, cospi_)
BOTH(ONE, exp, exp_)
BOTH(ONE, exp2, exp2_)
BOTH(ONE, exp10, exp10_)
BOTH(ONE, expm1, expm1_)
BOTH(ONE, fabs, fabs_)
BOTH(ONE, floor, floor_)
BOTH(ONE, log, log_)
BOTH(ONE, log2, log2_)
BOTH(ONE, log10, log10_)
BOTH(ONE, log1p, log1p_)
BOTH(ONE, rint, rint_)
BOTH(ONE, round, round_)
BOTH(ONE, rsqrt, rsqrt_)
BOTH(ONE, sin, sin_)
BOTH(ONE, sinh, sinh_)
BOTH(ONE, sinpi, sinpi_)
BOTH(ONE, sqrt, sqrt_)
BOTH(ONE, tan, tan_)
BOTH(ONE, tanh, tanh_)
BOTH(ONE, tanpi, tanpi_)
BOTH(ONE, trunc, trunc_)
BOTH(ONE, erf, erf_)
BOTH(ONE, erfc, erfc_)
BOTH(ONE, tgamma, tgamma_)
BOTH(ONE, lgamma, lgamma_)
BOTH(ONE, logb, logb_)

BOTH(TWO, atan2, atan2_)
BOTH(TWO, atan2pi, atan2pi_)
BOTH(TWO, copysign, copysign_)
BOTH(TWO, fdim, fdim_)
BOTH(TWO, fmax, fmax_)
BOTH(TWO, fmin, fmin_)
BOTH(TWO, fmod, fmod_)
BOTH(TWO, hypot, hypot_)
BOTH(TWO, maxmag, maxmag_)
BOTH(TWO, minmag, minmag_)
BOTH(TWO, nextafter, nextafter_)
BOTH(TWO, pow, pow_)
BOTH(TWO, powr, powr_)
BOTH(TWO, remainder, remainder_)

#define MORE(type)                                                                                                     \
    __kernel void parts_##type(__global const type *x, __global const type *y, __global type *out, __global int *ints) \
    {                                                                                                                  \
        size_t i = get_global_id(0);                                                                                   \
        type whole, cosine, sine, fraction;                                                                            \
        int exponent, quotient;                                                                                        \
                                                                                                                       \
        out[i * 10 + 0] = modf(x[i], &whole);                                                                          \
        out[i * 10 + 1] = whole;                                                                                       \
        out[i * 10 + 2] = frexp(x[i], &exponent);                                                                      \
        ints[i * 3 + 0] = x[i] == x[i] && fabs(x[i]) < INFINITY ? exponent : 0;                                        \
        out[i * 10 + 3] = ldexp(x[i], 3);                                                                              \
        sine = sincos(x[i], &cosine);                                                                                  \
        out[i * 10 + 4] = sine;                                                                                        \
        out[i * 10 + 5] = cosine;                                                                                      \
        out[i * 10 + 6] = fract(x[i], &fraction);                                                                      \
        out[i * 10 + 7] = fma(x[i], y[i], x[i]);                                                                       \
        out[i * 10 + 8] = pown(x[i], 3);                                                                               \
        out[i * 10 + 9] = rootn(fabs(x[i]), 3);                                                                        \
        ints[i * 3 + 1] = ilogb(x[i]);                                                                                 \
        (void)remquo(x[i], y[i], &quotient);                                                                           \
        ints[i * 3 + 2] = isfinite(x[i]) && isfinite(y[i]) && y[i] != 0 ? (int)(abs(quotient) & 7) : 0;                \
    }                                                                                                                  \
                                                                                                                       \
    __kernel void arithmetic_##type(__global const type *x, __global const type *y, __global type *out)                \
    {                                                                                                                  \
        size_t i = get_global_id(0);                                                                                   \
                                                                                                                       \
        out[i * 8 + 0] = x[i] + y[i];                                                                                  \
        out[i * 8 + 1] = x[i] - y[i];                                                                                  \
        out[i * 8 + 2] = x[i] * y[i];                                                                                  \
        out[i * 8 + 3] = x[i] / y[i];                                                                                  \
        out[i * 8 + 4] = clamp(x[i], (type)-1, (type)1);                                                               \
        out[i * 8 + 5] = sign(x[i]);                                                                                   \
        out[i * 8 + 6] = step(x[i], y[i]);                                                                             \
        out[i * 8 + 7] = degrees(x[i]);                                                                                \
    }

MORE(float)
MORE(double)

/* smoothstep() of a vector, with edges that are single numbers. */
#define SMOOTHSTEP(type)                                                                                               \
    __kernel void smoothstep_##type(__global const type *x, __global type *out)                                        \
    {                                                                                                                  \
        size_t i = get_global_id(0);                                                                                   \
                                                                                                                       \
        vstore4(smoothstep((type)-1, (type)3, vload4(i, x)), i, out);                                                  \
    }
SMOOTHSTEP(float)
SMOOTHSTEP(double)

#ifdef LOOSE
__kernel void loose(__global const float *x, __global float *out)
{
    size_t i = get_global_id(0);

    out[i * 8 + 0] = native_sin(x[i]);
    out[i * 8 + 1] = native_exp(x[i]);
    out[i * 8 + 2] = native_log(x[i]);
    out[i * 8 + 3] = native_sqrt(x[i]);
    out[i * 8 + 4] = half_cos(x[i]);
    out[i * 8 + 5] = half_recip(x[i]);
    out[i * 8 + 6] = half_rsqrt(x[i]);
    out[i * 8 + 7] = native_divide(1.0f, x[i]);
}
#endif
