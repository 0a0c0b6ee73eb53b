/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops over numbers, in rows, compiled for several levels of the processor.
 *
 * Owns: conversions, storing of products, activations, sums. Numbers are worked with as f32, and rounded once.
 * Never: allocates, or knows shapes.
 */
#ifndef CPU_MATH_LOOPS_H
#define CPU_MATH_LOOPS_H

#include <stdint.h>

#include <facet/provider.h>

/* How a row of products becomes a row of C. */
struct cpu_math_store {
    uint32_t type;      /* of C: enum facet_math_type; INT8: C is int32, the result of int8 */
    uint32_t integers;  /* whether the products are int32; else f32 */
    uint32_t streams_c; /* writes past the caches where possible: other threads see C after cpu_math_streamed() */
    float alpha, beta;
    const void *bias; /* the one number of this row; NULL: none */
};

static inline void cpu_math_streamed(void)
{
#ifdef __x86_64__
    __builtin_ia32_sfence();
#endif
}

struct cpu_math_loops {
    const char *name;
    void (*load)(float *to, const void *from, uint64_t count, uint32_t type);
    void (*save)(void *to, const float *from, uint64_t count, uint32_t type);
    void (*store)(void *c, const void *products, uint64_t count, const struct cpu_math_store *store);
    void (*add)(float *to, const float *from, uint64_t count);
    /* to[i][j] = from[j][i], of elements of 1, 2 or 4 bytes; strides in elements. */
    void (*transpose)(void *to, uint64_t to_row, const void *from, uint64_t from_row, uint64_t rows, uint64_t columns,
                      uint64_t bytes);
    /* to[2 i] = even[i], to[2 i + 1] = odd[i] */
    void (*pair)(uint16_t *to, const uint16_t *even, const uint16_t *odd, uint64_t count);
    float (*exponential)(float x);
    void (*activate)(void *to, const void *from, uint64_t count, uint32_t type, uint32_t kind, float alpha);
    /* (x - subtract) * factor + add */
    void (*linear)(void *to, const void *from, uint64_t count, uint32_t type, float subtract, float factor, float add);
    /* Adds the sum, and the sum of squares, of (x - shift). */
    void (*moments)(const void *from, uint64_t count, uint32_t type, float shift, double *add_sum, double *add_squares);
    void (*scale)(float *values, uint64_t count, float factor);
    float (*largest)(const float *values, uint64_t count);
    /* values = exp(values * scale - largest); returns their sum. */
    float (*exponentials)(float *values, uint64_t count, float scale, float largest);
    /* Lane by lane: largest = max(largest, values); values = exp(values - largest), sums += values; values /= sums. */
    void (*lanes_largest)(float *largest, const float *values, uint64_t count);
    void (*lanes_exponentials)(float *values, const float *largest, float *sums, uint64_t count);
    void (*lanes_divide)(float *values, const float *sums, uint64_t count);
};

extern const struct cpu_math_loops cpu_math_loops_v2, cpu_math_loops_v3, cpu_math_loops_v4;

#endif
