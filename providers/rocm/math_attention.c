/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: attention, as two products with a softmax between them (gpu/attention.h).
 * Never: keeps the scores and their softmax after the operation.
 */
#include <stdlib.h>

#include "gpu/attention.h"
#include "math_library.h"

/* Memory of the operation besides its operands; NULL if not allocated. */
struct scratch {
    void *scores, *weights, *mask;
};

static enum facet_status write_mask(const struct rocm_math_call *call, uint64_t size, void **ret_mask)
{
    uint64_t bytes = 0;
    float *values = gpu_attention_mask(size, &bytes);

    if (!values)
        return FACET_NO_MEMORY;
    enum facet_status status = rocm_scratch_take(call, bytes, ret_mask);
    if (status == FACET_OK) {
        /* The source is not pinned, so the call returns only after it was read. */
        hipError_t result = call->runtime->hipMemcpyHtoDAsync(*ret_mask, values, bytes, call->stream);

        if (result != hipSuccess)
            status = rocm_runtime_fail(call->runtime, NULL, "", result);
    }
    free(values);
    return status;
}

static enum facet_status run_softmax(const struct rocm_math_call *call, const struct scratch *scratch)
{
    const struct facet_attention *attention = &call->operation->of.attention;
    const struct rocm_math *math = call->math;
    miopenTensorDescriptor_t tensor = NULL;
    miopenStatus_t result = rocm_math_tensor(math, attention->batch * attention->heads * attention->queries,
                                             attention->keys, 1, 1, &tensor);

    if (result == miopenStatusSuccess)
        result = rocm_math_softmax(call, tensor, scratch->scores, scratch->weights);
    if (tensor)
        math->miopenDestroyTensorDescriptor(tensor);
    return rocm_dnn_status(result);
}

static enum facet_status run_attention(const struct rocm_math_call *call, const struct scratch *scratch)
{
    const struct facet_attention *attention = &call->operation->of.attention;
    const struct facet_gemm first = gpu_attention_score_gemm(attention, (uintptr_t)scratch->scores);
    const struct facet_gemm second = gpu_attention_value_gemm(attention, (uintptr_t)scratch->weights);
    enum facet_status status = rocm_math_gemm(call, &first, FACET_MATH_TRANSPOSE_B, scratch->mask);

    if (status == FACET_OK)
        status = run_softmax(call, scratch);
    return status == FACET_OK ? rocm_math_gemm(call, &second, 0, NULL) : status;
}

enum facet_status rocm_math_attention(const struct rocm_math_call *call)
{
    const struct facet_attention *attention = &call->operation->of.attention;
    struct scratch scratch = {0};
    uint64_t bytes;

    if (!gpu_attention_score_bytes(attention, &bytes))
        return FACET_UNSUPPORTED;
    enum facet_status status = rocm_scratch_take(call, bytes, &scratch.scores);
    if (status == FACET_OK)
        status = rocm_scratch_take(call, bytes, &scratch.weights);
    if (status == FACET_OK && call->operation->flags & FACET_MATH_CAUSAL)
        status = write_mask(call, attention->queries, &scratch.mask);
    if (status == FACET_OK)
        status = run_attention(call, &scratch);
    rocm_scratch_give(call, scratch.mask);
    rocm_scratch_give(call, scratch.weights);
    rocm_scratch_give(call, scratch.scores);
    return status;
}
