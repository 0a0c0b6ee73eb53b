/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provider ABI, table `math` (since 1.4): operations that a vendor's library does better than a program's own kernel.
 *
 * Owns: the meaning of matrix multiply, convolution, activation, batch normalization and attention, with their shapes.
 * Never: allocates memory of the context.
 *
 * All operands are addresses of the context. If a part of the bytes that an operand's shape covers is not memory of the
 * context, the operation is FACET_OUT_OF_RANGE, and the message names the operand. An output must not overlap another
 * operand, which is not detected; but activation and normalization may work in place.
 *
 * An operation is queued like a launch (execution.h): in the order of its stream; shares, bounds, pausing, preemption
 * and cancelling hold as for launches. Even if the device runs it in several pieces, an operation counts as one launch
 * of its stream and leaves one record. The record's `kernel` is the operation's name ("gemm"), followed, if the library
 * tells it, by a blank and the name of the implementation.
 *
 * Numbers. f32, bf16 and f16 are accumulated in f32 and rounded once, to nearest even; int8 is signed and is
 * accumulated in 32 bits. Shapes count elements, never bytes. A size of 0 (unless its comment gives 0 a meaning), and a
 * shape whose operands exceed 2^48 bytes, are FACET_OUT_OF_RANGE, naming the field.
 */
#ifndef FACET_PROVIDER_MATH_H
#define FACET_PROVIDER_MATH_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_provider_instance;

enum facet_math_operation {
    FACET_MATH_GEMM = 0,
    FACET_MATH_CONVOLUTION = 1,
    FACET_MATH_ACTIVATION = 2,
    FACET_MATH_NORMALIZATION = 3,
    FACET_MATH_ATTENTION = 4,
};
#define FACET_MATH_KINDS 5

/* The type of all operands, with two exceptions: gemm and convolution of int8 give int32; scale, bias, mean and
 * variance are always f32. */
enum facet_math_type {
    FACET_MATH_F32 = 0,
    FACET_MATH_BF16 = 1,
    FACET_MATH_F16 = 2,
    FACET_MATH_INT8 = 3,
};
#define FACET_MATH_TYPES 4

/* For every operation. */
#define FACET_MATH_NO_TENSOR                                                                                           \
    (UINT32_C(1) << 0)                      /* no unit that multiplies in less than 32 bits (tensor cores, AMX,        \
                                               bf16 and int8 dot products) is used; the device defines these units.    \
                                               Results may differ in rounding, and take longer */
#define FACET_MATH_MIXED (UINT32_C(1) << 1) /* f32 may be rounded to bf16 before it is multiplied; added in f32 */
/* gemm */
#define FACET_MATH_TRANSPOSE_A  (UINT32_C(1) << 8)
#define FACET_MATH_TRANSPOSE_B  (UINT32_C(1) << 9)
#define FACET_MATH_COLUMN_MAJOR (UINT32_C(1) << 10) /* all three matrices are column-major; else row-major */
/* normalization */
#define FACET_MATH_TRAINING (UINT32_C(1) << 11) /* mean and variance (biased) are computed and written, not read */
/* attention */
#define FACET_MATH_CAUSAL (UINT32_C(1) << 12) /* position i sees only the positions up to i */

/*
 * C = alpha * op(A) * op(B) + beta * C, `batch` times. op(A) is m x k, op(B) is k x n, C is m x n. A leading dimension
 * is the number of elements from the start of one row (column-major: column) to the next; 0: the length of the row. A
 * stride is the number of elements from one matrix of the batch to the next; 0: the matrices are contiguous. With beta
 * 0 C is not read. int8: alpha must be 1, and beta 0 or 1.
 */
struct facet_gemm {
    uint64_t a, b, c;
    uint64_t m, n, k;
    uint64_t lead_a, lead_b, lead_c;
    uint64_t batch; /* 0: 1 */
    uint64_t stride_a, stride_b, stride_c;
    float alpha, beta;
};

/*
 * Cross-correlation, as neural networks have it. Input is batch x in_channels x height x width, filter is out_channels
 * x (in_channels / groups) x kernel[0] x kernel[1], output is batch x out_channels x rows x columns with rows = (height
 * + 2 * padding[0] - dilation[0] * (kernel[0] - 1) - 1) / stride[0] + 1, columns alike; all row-major.
 */
struct facet_convolution {
    uint64_t input, filter, output;
    uint64_t bias; /* out_channels of f32 (int8: int32); 0: none */
    uint64_t batch, in_channels, out_channels, height, width;
    uint64_t kernel[2], stride[2], padding[2]; /* vertical, horizontal */
    uint64_t dilation[2];                      /* 0: 1 */
    uint64_t groups;                           /* 0: 1. Divides in_channels and out_channels */
};

enum facet_activation_kind {
    FACET_ACTIVATION_RELU = 0,    /* max(x, 0) */
    FACET_ACTIVATION_SIGMOID = 1, /* 1 / (1 + exp(-x)) */
    FACET_ACTIVATION_TANH = 2,
    FACET_ACTIVATION_GELU = 3,       /* x / 2 * (1 + erf(x / sqrt(2))) */
    FACET_ACTIVATION_GELU_TANH = 4,  /* the approximation of GELU with tanh */
    FACET_ACTIVATION_SILU = 5,       /* x * sigmoid(x) */
    FACET_ACTIVATION_LEAKY_RELU = 6, /* x below 0: alpha * x */
    FACET_ACTIVATION_ELU = 7,        /* x below 0: alpha * (exp(x) - 1) */
    FACET_ACTIVATION_SOFTMAX = 8,    /* over the channels of each position; no int8 */
};

/* Input and output are batch x channels x height x width, row-major. int8 has relu only. */
struct facet_activation {
    uint64_t input, output;
    uint64_t batch, channels, height, width;
    uint32_t kind; /* enum facet_activation_kind */
    float alpha;
};

/* (x - mean) / sqrt(variance + epsilon) * scale + bias by channel. No int8. */
struct facet_normalization {
    uint64_t input, output;
    uint64_t scale, bias, mean, variance; /* channels of f32 each. Scale 0: 1, bias 0: 0 */
    uint64_t batch, channels, height, width;
    float epsilon; /* 0: 1e-5 */
    uint32_t reserved;
};

/*
 * softmax(Q * K^T * scale) * V for each of batch x heads. Q and output are batch x heads x queries x dimension, K and V
 * batch x heads x keys x dimension, row-major. No int8. With FACET_MATH_CAUSAL, `queries` must equal `keys`. If units
 * that multiply 16-bit numbers are used, the softmax is rounded to the operands' type before it is multiplied with V.
 */
struct facet_attention {
    uint64_t q, k, v, output;
    uint64_t batch, heads, queries, keys, dimension;
    float scale; /* 0: 1 / sqrt(dimension) */
    uint32_t reserved;
};

struct facet_math {
    uint32_t size;
    uint32_t operation; /* enum facet_math_operation: which member of `of` is used */
    uint32_t type;      /* enum facet_math_type */
    uint32_t flags;     /* FACET_MATH_* */
    union {
        struct facet_gemm gemm;
        struct facet_convolution convolution;
        struct facet_activation activation;
        struct facet_normalization normalization;
        struct facet_attention attention;
        uint64_t words[32];
    } of;
};
FACET_STATIC_ASSERT(sizeof(struct facet_gemm) == 112, "ABI: facet_gemm");
FACET_STATIC_ASSERT(sizeof(struct facet_convolution) == 144, "ABI: facet_convolution");
FACET_STATIC_ASSERT(sizeof(struct facet_activation) == 56, "ABI: facet_activation");
FACET_STATIC_ASSERT(sizeof(struct facet_normalization) == 88, "ABI: facet_normalization");
FACET_STATIC_ASSERT(sizeof(struct facet_attention) == 80, "ABI: facet_attention");
FACET_STATIC_ASSERT(sizeof(struct facet_math) == 272, "ABI: facet_math");

/* A device's support. */
struct facet_math_support {
    uint32_t size;
    uint32_t types[FACET_MATH_KINDS]; /* by operation: 1 << enum facet_math_type for each that works */
    uint32_t tensor_types;            /* the types with units that FACET_MATH_NO_TENSOR switches off */
    uint32_t mixed;                   /* 1: FACET_MATH_MIXED makes a difference */
    char library[64];                 /* "oneDNN 2.6.3"; "" when the device uses no library */
};
FACET_STATIC_ASSERT(sizeof(struct facet_math_support) == 96, "ABI: facet_math_support");

struct facet_math_ops {
    uint64_t size; /* of this table, as the provider was built */

    /* FACET_UNSUPPORTED: the library that it needs is not installed; the error names it. */
    enum facet_status (*support)(struct facet_provider_instance *instance, uint32_t device,
                                 struct facet_math_support *ret_support, struct facet_error *error);

    /* Queues one operation. Everything is checked before: FACET_UNSUPPORTED (a type that the operation does not have,
     * by name), FACET_OUT_OF_RANGE (shapes and operands), FACET_INVALID_ARGUMENT (a value or flag that this operation
     * does not have), FACET_NOT_FOUND (stream). */
    enum facet_status (*run)(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                             const struct facet_math *operation, struct facet_error *error);
};
FACET_STATIC_ASSERT(sizeof(struct facet_math_ops) == 24, "ABI: facet_math_ops");

#ifdef __cplusplus
}
#endif
#endif
