/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the two products that attention consists of, and its mask. Never: touches a device. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "attention.h"

#define SCORES_MOST (UINT64_C(1) << 32) /* the most bytes that the scores of one operation may need */

bool gpu_attention_score_bytes(const struct facet_attention *attention, uint64_t *ret_bytes)
{
    uint64_t count;

    if (__builtin_mul_overflow(attention->batch * attention->heads, attention->queries * attention->keys, &count) ||
        count > SCORES_MOST / sizeof(float))
        return false;
    *ret_bytes = count * sizeof(float);
    return true;
}

struct facet_gemm gpu_attention_score_gemm(const struct facet_attention *attention, uint64_t scores)
{
    return (struct facet_gemm){
        .a = attention->q,
        .b = attention->k,
        .c = scores,
        .m = attention->queries,
        .n = attention->keys,
        .k = attention->dimension,
        .lead_a = attention->dimension,
        .lead_b = attention->dimension,
        .lead_c = attention->keys,
        .batch = attention->batch * attention->heads,
        .stride_a = attention->queries * attention->dimension,
        .stride_b = attention->keys * attention->dimension,
        .stride_c = attention->queries * attention->keys,
        .alpha = attention->scale,
        .beta = 0,
    };
}

struct facet_gemm gpu_attention_value_gemm(const struct facet_attention *attention, uint64_t weights)
{
    return (struct facet_gemm){
        .a = weights,
        .b = attention->v,
        .c = attention->output,
        .m = attention->queries,
        .n = attention->dimension,
        .k = attention->keys,
        .lead_a = attention->keys,
        .lead_b = attention->dimension,
        .lead_c = attention->dimension,
        .batch = attention->batch * attention->heads,
        .stride_a = attention->queries * attention->keys,
        .stride_b = attention->keys * attention->dimension,
        .stride_c = attention->queries * attention->dimension,
        .alpha = 1,
        .beta = 0,
    };
}

float *gpu_attention_mask(uint64_t positions, uint64_t *ret_bytes)
{
    uint64_t bytes = positions * positions * sizeof(float);
    float *values = malloc(bytes);

    if (!values)
        return NULL;
    for (uint64_t i = 0; i < positions; i++)
        for (uint64_t j = 0; j < positions; j++)
            values[i * positions + j] = j > i ? -INFINITY : 0;
    *ret_bytes = bytes;
    return values;
}
