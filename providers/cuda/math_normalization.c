/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: batch normalization through cuDNN. Never: returns cuDNN's variance where the ABI has another definition. */
#include "math_library.h"

#include <string.h>

#define EPSILON 1e-5

struct plan {
    cudnnTensorDescriptor_t elements, channels;
    CUdeviceptr defaults;    /* scratch memory with ones and zeros */
    CUdeviceptr scale, bias; /* the operation's, or in `defaults` */
};

static cudnnDataType_t type_of(uint32_t type)
{
    return type == FACET_MATH_F32 ? CUDNN_DATA_FLOAT : type == FACET_MATH_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

static cudnnStatus_t make_tensors(const struct cuda_math_call *call, struct plan *plan)
{
    const struct facet_normalization *normalization = &call->operation->of.normalization;
    const struct cuda_math *math = call->math;
    cudnnStatus_t result = math->cudnnCreateTensorDescriptor(&plan->elements);

    if (result == CUDNN_STATUS_SUCCESS)
        result = math->cudnnCreateTensorDescriptor(&plan->channels);
    if (result == CUDNN_STATUS_SUCCESS)
        result = math->cudnnSetTensor4dDescriptor(plan->elements, CUDNN_TENSOR_NCHW, type_of(call->operation->type),
                                                  (int)normalization->batch, (int)normalization->channels,
                                                  (int)normalization->height, (int)normalization->width);
    if (result == CUDNN_STATUS_SUCCESS)
        result = math->cudnnSetTensor4dDescriptor(plan->channels, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1,
                                                  (int)normalization->channels, 1, 1);
    return result;
}

/* cuDNN always needs a scale and a bias: an operation without them gets ones and zeros. */
static enum facet_status complete_operands(const struct cuda_math_call *call, struct plan *plan)
{
    const struct facet_normalization *normalization = &call->operation->of.normalization;
    const float one = 1;
    uint32_t bits;

    plan->scale = normalization->scale;
    plan->bias = normalization->bias;
    if (normalization->scale && normalization->bias)
        return FACET_OK;
    enum facet_status status = cuda_scratch_take(call, 2 * normalization->channels * sizeof one, &plan->defaults);
    if (status != FACET_OK)
        return status;
    if (!normalization->scale)
        plan->scale = plan->defaults;
    if (!normalization->bias)
        plan->bias = plan->defaults + normalization->channels * sizeof one;
    memcpy(&bits, &one, sizeof bits);
    CUresult result = call->driver->cuMemsetD32Async(plan->defaults, bits, normalization->channels, call->stream);
    if (result == CUDA_SUCCESS)
        result = call->driver->cuMemsetD32Async(plan->defaults + normalization->channels * sizeof one, 0,
                                                normalization->channels, call->stream);
    return result == CUDA_SUCCESS ? FACET_OK : cuda_driver_fail(call->driver, NULL, "", result);
}

/* NOLINTBEGIN: the device's addresses are pointers to the library */

static cudnnStatus_t run_inference(const struct cuda_math_call *call, const struct plan *plan, double epsilon)
{
    const struct facet_normalization *normalization = &call->operation->of.normalization;
    const float one = 1, zero = 0;

    return call->math->cudnnBatchNormalizationForwardInference(
        call->dnn, CUDNN_BATCHNORM_SPATIAL, &one, &zero, plan->elements, (const void *)normalization->input,
        plan->elements, (void *)normalization->output, plan->channels, (const void *)plan->scale,
        (const void *)plan->bias, (const void *)normalization->mean, (const void *)normalization->variance, epsilon);
}

/*
 * With a factor of 1 the running values become the computed ones. They are cleared first, because 0 times their old
 * content may be NaN. The sample's variance times (n - 1) / n is that of the elements.
 */
static cudnnStatus_t run_training(const struct cuda_math_call *call, const struct plan *plan, double epsilon)
{
    const struct facet_normalization *normalization = &call->operation->of.normalization;
    const float one = 1, zero = 0;
    double count = (double)(normalization->batch * normalization->height * normalization->width);
    const float biased = (float)((count - 1) / count);
    cudnnStatus_t result = call->math->cudnnBatchNormalizationForwardTraining(
        call->dnn, CUDNN_BATCHNORM_SPATIAL, &one, &zero, plan->elements, (const void *)normalization->input,
        plan->elements, (void *)normalization->output, plan->channels, (const void *)plan->scale,
        (const void *)plan->bias, 1.0, (void *)normalization->mean, (void *)normalization->variance, epsilon, NULL,
        NULL);

    return result == CUDNN_STATUS_SUCCESS
               ? call->math->cudnnScaleTensor(call->dnn, plan->channels, (void *)normalization->variance, &biased)
               : result;
}

/* NOLINTEND */

static enum facet_status clear_channels(const struct cuda_math_call *call, CUdeviceptr address)
{
    CUresult result =
        call->driver->cuMemsetD32Async(address, 0, call->operation->of.normalization.channels, call->stream);

    return result == CUDA_SUCCESS ? FACET_OK : cuda_driver_fail(call->driver, NULL, "", result);
}

static enum facet_status run_normalization(const struct cuda_math_call *call, const struct plan *plan)
{
    const struct facet_normalization *normalization = &call->operation->of.normalization;
    double epsilon = normalization->epsilon > 0 ? (double)normalization->epsilon : EPSILON;

    if (!(call->operation->flags & FACET_MATH_TRAINING))
        return cuda_dnn_status(run_inference(call, plan, epsilon));
    enum facet_status status = clear_channels(call, normalization->mean);
    if (status == FACET_OK)
        status = clear_channels(call, normalization->variance);
    return status == FACET_OK ? cuda_dnn_status(run_training(call, plan, epsilon)) : status;
}

enum facet_status cuda_math_normalization(const struct cuda_math_call *call)
{
    struct plan plan = {0};
    enum facet_status status = cuda_dnn_status(make_tensors(call, &plan));

    if (status == FACET_OK)
        status = complete_operands(call, &plan);
    if (status == FACET_OK)
        status = run_normalization(call, &plan);
    cuda_scratch_give(call, plan.defaults);
    if (plan.elements)
        call->math->cudnnDestroyTensorDescriptor(plan.elements);
    if (plan.channels)
        call->math->cudnnDestroyTensorDescriptor(plan.channels);
    return status;
}
