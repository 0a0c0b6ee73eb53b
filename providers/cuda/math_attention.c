/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: attention, as two products with a softmax between them.
 * Never: keeps the scores: they are memory of this provider, for as long as the operation takes.
 *
 * Where position i sees the positions up to i alone, minus infinity is added to the scores of the others: one mask for
 * all heads, which is written from the host.
 */
#include <math.h>
#include <stdlib.h>

#include "math_library.h"

#define SCORES_MOST (UINT64_C(1) << 32) /* bytes */

static enum facet_status write_mask(const struct cuda_math_call *call, uint64_t size, CUdeviceptr *ret_mask)
{
    uint64_t bytes = size * size * sizeof(float);
    float *values = malloc(bytes);
    CUdeviceptr mask = 0;

    if (!values)
        return FACET_NO_MEMORY;
    for (uint64_t i = 0; i < size; i++)
        for (uint64_t j = 0; j < size; j++)
            values[i * size + j] = j > i ? -INFINITY : 0;
    enum facet_status status = cuda_scratch_take(call, bytes, &mask);
    if (status == FACET_OK) {
        /* From memory that is not pinned: it returns when it has read it. */
        CUresult result = call->driver->cuMemcpyHtoDAsync_v2(mask, values, bytes, call->stream);

        if (result != CUDA_SUCCESS) {
            cuda_scratch_give(call, mask);
            status = cuda_driver_fail(call->driver, NULL, "", result);
        }
    }
    free(values);
    if (status == FACET_OK)
        *ret_mask = mask;
    return status;
}

/* Scores = Q * K^T * scale, then their softmax, then that times V. */
static enum facet_status attend(const struct cuda_math_call *call, CUdeviceptr scores, CUdeviceptr mask)
{
    const struct facet_attention *it = &call->operation->of.attention;
    uint64_t heads = it->batch * it->heads;
    const struct facet_gemm first = {
        .a = it->q,
        .b = it->k,
        .c = scores,
        .m = it->queries,
        .n = it->keys,
        .k = it->dimension,
        .lead_a = it->dimension,
        .lead_b = it->dimension,
        .lead_c = it->keys,
        .batch = heads,
        .stride_a = it->queries * it->dimension,
        .stride_b = it->keys * it->dimension,
        .stride_c = it->queries * it->keys,
        .alpha = it->scale,
        .beta = 0,
    };
    const struct facet_gemm second = {
        .a = scores,
        .b = it->v,
        .c = it->output,
        .m = it->queries,
        .n = it->dimension,
        .k = it->keys,
        .lead_a = it->keys,
        .lead_b = it->dimension,
        .lead_c = it->dimension,
        .batch = heads,
        .stride_a = it->queries * it->keys,
        .stride_b = it->keys * it->dimension,
        .stride_c = it->queries * it->dimension,
        .alpha = 1,
        .beta = 0,
    };
    const uint64_t sizes[4] = {heads * it->queries, it->keys, 1, 1};
    enum facet_status status = cuda_math_gemm(call, &first, FACET_MATH_TRANSPOSE_B, mask);

    if (status == FACET_OK)
        status = cuda_math_softmax(call, CUDNN_DATA_FLOAT, scores, scores, sizes);
    return status == FACET_OK ? cuda_math_gemm(call, &second, 0, 0) : status;
}

enum facet_status cuda_math_attention(const struct cuda_math_call *call)
{
    const struct facet_attention *it = &call->operation->of.attention;
    CUdeviceptr scores = 0, mask = 0;
    uint64_t count;

    if (__builtin_mul_overflow(it->batch * it->heads, it->queries * it->keys, &count) ||
        count > SCORES_MOST / sizeof(float))
        return FACET_UNSUPPORTED;
    enum facet_status status = cuda_scratch_take(call, count * sizeof(float), &scores);
    if (status == FACET_OK && call->operation->flags & FACET_MATH_CAUSAL)
        status = write_mask(call, it->queries, &mask);
    if (status == FACET_OK)
        status = attend(call, scores, mask);
    cuda_scratch_give(call, mask);
    cuda_scratch_give(call, scores);
    return status;
}
