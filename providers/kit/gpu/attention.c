/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the arithmetic of attention. Never: touches a device. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "attention.h"

#define SCORES_MOST (UINT64_C(1) << 32) /* bytes */

bool gpu_attention_score_bytes(const struct facet_attention *it, uint64_t *ret_bytes)
{
    uint64_t count;

    if (__builtin_mul_overflow(it->batch * it->heads, it->queries * it->keys, &count) ||
        count > SCORES_MOST / sizeof(float))
        return false;
    *ret_bytes = count * sizeof(float);
    return true;
}

struct facet_gemm gpu_attention_first(const struct facet_attention *it, uint64_t scores)
{
    return (struct facet_gemm){
        .a = it->q,
        .b = it->k,
        .c = scores,
        .m = it->queries,
        .n = it->keys,
        .k = it->dimension,
        .lead_a = it->dimension,
        .lead_b = it->dimension,
        .lead_c = it->keys,
        .batch = it->batch * it->heads,
        .stride_a = it->queries * it->dimension,
        .stride_b = it->keys * it->dimension,
        .stride_c = it->queries * it->keys,
        .alpha = it->scale,
        .beta = 0,
    };
}

struct facet_gemm gpu_attention_second(const struct facet_attention *it, uint64_t weights)
{
    return (struct facet_gemm){
        .a = weights,
        .b = it->v,
        .c = it->output,
        .m = it->queries,
        .n = it->dimension,
        .k = it->keys,
        .lead_a = it->keys,
        .lead_b = it->dimension,
        .lead_c = it->dimension,
        .batch = it->batch * it->heads,
        .stride_a = it->queries * it->keys,
        .stride_b = it->keys * it->dimension,
        .stride_c = it->queries * it->dimension,
        .alpha = 1,
        .beta = 0,
    };
}

float *gpu_attention_mask(uint64_t size, uint64_t *ret_bytes)
{
    uint64_t bytes = size * size * sizeof(float);
    float *values = malloc(bytes);

    if (!values)
        return NULL;
    for (uint64_t i = 0; i < size; i++)
        for (uint64_t j = 0; j < size; j++)
            values[i * size + j] = j > i ? -INFINITY : 0;
    *ret_bytes = bytes;
    return values;
}
