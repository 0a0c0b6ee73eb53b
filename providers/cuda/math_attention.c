/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: attention, as two products with a softmax between them.
 * Never: keeps the scores after the operation.
 *
 * For causal attention, minus infinity is added to the scores of later positions. One mask for all heads is written
 * from the host.
 */
#include <stdlib.h>

#include "gpu/attention.h"
#include "math_library.h"

static enum facet_status write_mask(const struct cuda_math_call *call, uint64_t size, CUdeviceptr *ret_mask)
{
    uint64_t bytes = 0;
    float *values = gpu_attention_mask(size, &bytes);
    CUdeviceptr mask = 0;

    if (!values)
        return FACET_NO_MEMORY;
    enum facet_status status = cuda_scratch_take(call, bytes, &mask);
    if (status == FACET_OK) {
        /* The source is not pinned, so the call returns only after it was read. */
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

static enum facet_status run_attention(const struct cuda_math_call *call, CUdeviceptr scores, CUdeviceptr mask)
{
    const struct facet_attention *attention = &call->operation->of.attention;
    const struct facet_gemm first = gpu_attention_score_gemm(attention, scores),
                            second = gpu_attention_value_gemm(attention, scores);
    const uint64_t sizes[4] = {first.batch * attention->queries, attention->keys, 1, 1};
    enum facet_status status = cuda_math_gemm(call, &first, FACET_MATH_TRANSPOSE_B, mask);

    if (status == FACET_OK)
        status = cuda_math_softmax(call, CUDNN_DATA_FLOAT, scores, scores, sizes);
    return status == FACET_OK ? cuda_math_gemm(call, &second, 0, 0) : status;
}

enum facet_status cuda_math_attention(const struct cuda_math_call *call)
{
    const struct facet_attention *attention = &call->operation->of.attention;
    CUdeviceptr scores = 0, mask = 0;
    uint64_t bytes;

    if (!gpu_attention_score_bytes(attention, &bytes))
        return FACET_UNSUPPORTED;
    enum facet_status status = cuda_scratch_take(call, bytes, &scores);
    if (status == FACET_OK && call->operation->flags & FACET_MATH_CAUSAL)
        status = write_mask(call, attention->queries, &mask);
    if (status == FACET_OK)
        status = run_attention(call, scores, mask);
    cuda_scratch_give(call, mask);
    cuda_scratch_give(call, scores);
    return status;
}
