/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake libraries of mathematics: numbers of 16 bits, and functions by which a test reads data of the last call.
 *
 * Owns: reading and writing elements, rounded to nearest even. The libraries compute on the processor in plain loops,
 * during the call, which is earlier than on a device; no program may rely on that. They link to no driver: the fake
 * driver's addresses are addresses of the process.
 * Never: is linked by anything that ships.
 */
#ifndef FAKE_CUDA_MATH_FAKE_H
#define FAKE_CUDA_MATH_FAKE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum fake_type { FAKE_F32, FAKE_BF16, FAKE_F16, FAKE_INT8, FAKE_INT32 };

static inline float fake_of_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &wide, sizeof value);
    return value;
}

static inline uint16_t fake_to_bf16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float fake_of_f16(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float value = exponent == 31 ? fraction ? NAN : INFINITY
                  : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
                                 : ldexpf((float)fraction, -24);

    return bits & 0x8000 ? -value : value;
}

static inline uint16_t fake_to_f16(float value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    float size = fabsf(value);

    if (isnan(value))
        return 0x7e00;
    if (size >= 65520)
        return sign | 0x7c00;
    int exponent = size < 0x1p-14F ? -14 : ilogbf(size);
    int fraction = (int)nearbyintf(ldexpf(size, 10 - exponent)); /* 2048 carries into the exponent */
    return (uint16_t)(sign | (fraction < 1024 ? fraction : ((exponent + 15) << 10) + fraction - 1024));
}

/* For floating-point types only. */
static inline float fake_get(enum fake_type type, const void *at, uint64_t index)
{
    if (type == FAKE_F32)
        return ((const float *)at)[index];
    return type == FAKE_BF16 ? fake_of_bf16(((const uint16_t *)at)[index]) : fake_of_f16(((const uint16_t *)at)[index]);
}

static inline void fake_put(enum fake_type type, void *at, uint64_t index, float value)
{
    if (type == FAKE_F32)
        ((float *)at)[index] = value;
    else
        ((uint16_t *)at)[index] = type == FAKE_BF16 ? fake_to_bf16(value) : fake_to_f16(value);
}

/*
 * The compute type of the last product (cublasComputeType_t), and the math type of the last convolution
 * (cudnnMathType_t); -1: there was none.
 */
int fake_cublas_compute(void);
int fake_hipblas_compute(void); /* hipblasComputeType_t */
int fake_cudnn_math(void);
/* The stream of the last product, and of the last convolution or, with MIOpen, softmax; NULL: there was none. */
void *fake_cublas_stream(void);
void *fake_hipblas_stream(void);
void *fake_cudnn_stream(void);
void *fake_miopen_stream(void);
/* The number of live handles and descriptors: 0 at the end of a program. */
int fake_cublas_living(void);
int fake_hipblas_living(void);
int fake_miopen_living(void);
int fake_cudnn_living(void);

#endif
