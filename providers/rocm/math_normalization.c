/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: batch normalization of f32 through MIOpen.
 * Never: uses MIOpen's training: that returns 1 / sqrt(variance + epsilon), and a variance over one element fewer.
 *
 * Training first computes the mean of each channel, the input minus the mean, and the mean of the squares of these
 * differences. Then it normalizes with this mean and variance, like inference with the given ones.
 */
#include "math_library.h"

static const float one = 1, zero = 0;

/* Memory that is allocated for the operation; NULL: none is needed. */
struct scratch {
    void *input;   /* a copy, if the operation is in place */
    void *centred; /* the input minus the mean of its channel */
    void *workspace, *scale, *bias;
};

struct work {
    const struct rocm_math_call *call;
    miopenTensorDescriptor_t input_tensor, channel_tensor; /* channel_tensor: one number for each channel */
    miopenReduceTensorDescriptor_t average;
    uint64_t bytes, vector_bytes;
    size_t workspace_bytes;
    const void *input;
    void *output, *mean, *variance;
    void *scale, *bias;
    struct scratch scratch;
};

static enum facet_status describe_tensors(struct work *work, const struct facet_normalization *normalization)
{
    const struct rocm_math *math = work->call->math;
    miopenStatus_t result = rocm_math_tensor(math, normalization->batch, normalization->channels, normalization->height,
                                             normalization->width, &work->input_tensor);

    if (result == miopenStatusSuccess)
        result = rocm_math_tensor(math, 1, normalization->channels, 1, 1, &work->channel_tensor);
    if (result == miopenStatusSuccess)
        result = math->miopenCreateReduceTensorDescriptor(&work->average);
    if (result == miopenStatusSuccess)
        result = math->miopenSetReduceTensorDescriptor(work->average, MIOPEN_REDUCE_TENSOR_AVG, miopenFloat,
                                                       MIOPEN_PROPAGATE_NAN, MIOPEN_REDUCE_TENSOR_NO_INDICES,
                                                       MIOPEN_32BIT_INDICES);
    return rocm_dnn_status(result);
}

static enum facet_status hip_status(const struct work *work, hipError_t result)
{
    return result == hipSuccess ? FACET_OK : rocm_runtime_fail(work->call->runtime, NULL, "", result);
}

static miopenStatus_t average_channels(const struct work *work, const void *from, void *to)
{
    return work->call->math->miopenReduceTensor(work->call->dnn, work->average, NULL, 0, work->scratch.workspace,
                                                work->workspace_bytes, &one, work->input_tensor, from, &zero,
                                                work->channel_tensor, to);
}

/* For channels of one element, which MIOpen does not reduce: the mean is the element. */
static enum facet_status compute_moments_of_one(const struct work *work)
{
    const struct rocm_math_call *call = work->call;
    enum facet_status status =
        hip_status(work, call->runtime->hipMemcpyDtoDAsync(work->mean, (void *)(uintptr_t)work->input,
                                                           work->vector_bytes, call->stream));

    if (status != FACET_OK)
        return status;
    return hip_status(work, call->runtime->hipMemsetD8Async(work->variance, 0, work->vector_bytes, call->stream));
}

static enum facet_status compute_moments(struct work *work)
{
    const struct rocm_math_call *call = work->call;
    const struct rocm_math *math = call->math;
    const float minus = -1;

    if (work->bytes == work->vector_bytes)
        return compute_moments_of_one(work);
    miopenStatus_t result = math->miopenGetReductionWorkspaceSize(call->dnn, work->average, work->input_tensor,
                                                                  work->channel_tensor, &work->workspace_bytes);
    enum facet_status status = rocm_dnn_status(result);
    if (status == FACET_OK)
        status = rocm_scratch_take(call, work->workspace_bytes, &work->scratch.workspace);
    if (status == FACET_OK)
        status = rocm_scratch_take(call, work->bytes, &work->scratch.centred);
    if (status != FACET_OK)
        return status;
    result = average_channels(work, work->input, work->mean);
    if (result == miopenStatusSuccess)
        result =
            math->miopenOpTensor(call->dnn, miopenTensorOpAdd, &one, work->input_tensor, work->input, &minus,
                                 work->channel_tensor, work->mean, &zero, work->input_tensor, work->scratch.centred);
    if (result == miopenStatusSuccess)
        result = math->miopenOpTensor(call->dnn, miopenTensorOpMul, &one, work->input_tensor, work->scratch.centred,
                                      &one, work->input_tensor, work->scratch.centred, &zero, work->input_tensor,
                                      work->scratch.centred);
    if (result == miopenStatusSuccess)
        result = average_channels(work, work->scratch.centred, work->variance);
    return rocm_dnn_status(result);
}

/* A missing scale is 1, a missing bias is 0. An operation in place reads a copy of its input. */
static enum facet_status complete_operands(struct work *work)
{
    const struct rocm_math_call *call = work->call;
    enum facet_status status = FACET_OK;

    if (!work->scale)
        status = rocm_scratch_take(call, work->vector_bytes, &work->scratch.scale);
    if (status == FACET_OK && !work->bias)
        status = rocm_scratch_take(call, work->vector_bytes, &work->scratch.bias);
    if (status == FACET_OK && work->input == work->output)
        status = rocm_scratch_take(call, work->bytes, &work->scratch.input);
    if (status == FACET_OK && work->scratch.scale)
        status =
            rocm_dnn_status(call->math->miopenSetTensor(call->dnn, work->channel_tensor, work->scratch.scale, &one));
    if (status == FACET_OK && work->scratch.bias)
        status =
            rocm_dnn_status(call->math->miopenSetTensor(call->dnn, work->channel_tensor, work->scratch.bias, &zero));
    if (status == FACET_OK && work->scratch.input)
        status = hip_status(
            work, call->runtime->hipMemcpyDtoDAsync(work->scratch.input, work->output, work->bytes, call->stream));
    work->scale = work->scratch.scale ? work->scratch.scale : work->scale;
    work->bias = work->scratch.bias ? work->scratch.bias : work->bias;
    work->input = work->scratch.input ? work->scratch.input : work->input;
    return status;
}

static void release_work(struct work *work)
{
    const struct rocm_math *math = work->call->math;
    void *memory[] = {work->scratch.input, work->scratch.centred, work->scratch.workspace, work->scratch.scale,
                      work->scratch.bias};

    for (int i = 0; i < 5; i++)
        rocm_scratch_give(work->call, memory[i]);
    if (work->input_tensor)
        math->miopenDestroyTensorDescriptor(work->input_tensor);
    if (work->channel_tensor)
        math->miopenDestroyTensorDescriptor(work->channel_tensor);
    if (work->average)
        math->miopenDestroyReduceTensorDescriptor(work->average);
}

enum facet_status rocm_math_normalization(const struct rocm_math_call *call)
{
    const struct facet_normalization *normalization = &call->operation->of.normalization;
    uint64_t vector_bytes = normalization->channels * sizeof(float);
    /* NOLINTBEGIN: the device's addresses are pointers to the library */
    struct work work = {.call = call,
                        .bytes = normalization->batch * normalization->height * normalization->width * vector_bytes,
                        .vector_bytes = vector_bytes,
                        .input = (const void *)normalization->input,
                        .output = (void *)normalization->output,
                        .mean = (void *)normalization->mean,
                        .variance = (void *)normalization->variance,
                        .scale = (void *)normalization->scale,
                        .bias = (void *)normalization->bias};
    /* NOLINTEND */
    float alpha = 1, beta = 0;
    enum facet_status status = describe_tensors(&work, normalization);

    if (status == FACET_OK)
        status = complete_operands(&work);
    if (status == FACET_OK && call->operation->flags & FACET_MATH_TRAINING)
        status = compute_moments(&work);
    if (status == FACET_OK)
        status = rocm_dnn_status(call->math->miopenBatchNormalizationForwardInference(
            call->dnn, miopenBNSpatial, &alpha, &beta, work.input_tensor, work.input, work.input_tensor, work.output,
            work.channel_tensor, work.scale, work.bias, work.mean, work.variance, (double)normalization->epsilon));
    release_work(&work);
    return status;
}
