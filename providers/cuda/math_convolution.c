/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: forward convolution through cuDNN. Never: lets it multiply f32 as TF32, unless mixed precision is allowed. */
#include "math_library.h"

#include "math_check.h"

#define ALGORITHMS     8
#define WORKSPACE_MOST (UINT64_C(1) << 30)

struct plan {
    cudnnTensorDescriptor_t input, output, bias;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t convolution;
};

static void drop_plan(const struct cuda_math *math, struct plan *plan)
{
    cudnnTensorDescriptor_t tensors[] = {plan->input, plan->output, plan->bias};

    for (int i = 0; i < 3; i++)
        if (tensors[i])
            math->cudnnDestroyTensorDescriptor(tensors[i]);
    if (plan->filter)
        math->cudnnDestroyFilterDescriptor(plan->filter);
    if (plan->convolution)
        math->cudnnDestroyConvolutionDescriptor(plan->convolution);
}

static cudnnStatus_t make_tensor(const struct cuda_math *math, uint64_t batch, uint64_t channels, uint64_t height,
                                 uint64_t width, cudnnTensorDescriptor_t *ret_tensor)
{
    cudnnStatus_t result = math->cudnnCreateTensorDescriptor(ret_tensor);

    if (result == CUDNN_STATUS_SUCCESS)
        result = math->cudnnSetTensor4dDescriptor(*ret_tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, (int)batch,
                                                  (int)channels, (int)height, (int)width);
    return result;
}

static cudnnStatus_t make_tensors(const struct cuda_math *math, const struct facet_convolution *convolution,
                                  struct plan *plan)
{
    cudnnStatus_t result = make_tensor(math, convolution->batch, convolution->in_channels, convolution->height,
                                       convolution->width, &plan->input);

    if (result == CUDNN_STATUS_SUCCESS)
        result = make_tensor(math, convolution->batch, convolution->out_channels, kit_math_outputs(convolution, 0),
                             kit_math_outputs(convolution, 1), &plan->output);
    if (result == CUDNN_STATUS_SUCCESS)
        result = make_tensor(math, 1, convolution->out_channels, 1, 1, &plan->bias);
    if (result == CUDNN_STATUS_SUCCESS)
        result = math->cudnnCreateFilterDescriptor(&plan->filter);
    if (result == CUDNN_STATUS_SUCCESS)
        result = math->cudnnSetFilter4dDescriptor(plan->filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                                  (int)convolution->out_channels,
                                                  (int)(convolution->in_channels / convolution->groups),
                                                  (int)convolution->kernel[0], (int)convolution->kernel[1]);
    return result;
}

static cudnnStatus_t make_convolution(const struct cuda_math *math, const struct facet_math *operation,
                                      struct plan *plan)
{
    const struct facet_convolution *convolution = &operation->of.convolution;
    bool mixed = operation->flags & FACET_MATH_MIXED && !(operation->flags & FACET_MATH_NO_TENSOR);
    cudnnStatus_t result = math->cudnnCreateConvolutionDescriptor(&plan->convolution);

    if (result == CUDNN_STATUS_SUCCESS)
        result = math->cudnnSetConvolution2dDescriptor(
            plan->convolution, (int)convolution->padding[0], (int)convolution->padding[1], (int)convolution->stride[0],
            (int)convolution->stride[1], (int)convolution->dilation[0], (int)convolution->dilation[1],
            CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
    if (result == CUDNN_STATUS_SUCCESS)
        result = math->cudnnSetConvolutionMathType(plan->convolution, mixed ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH);
    if (result == CUDNN_STATUS_SUCCESS)
        result = math->cudnnSetConvolutionGroupCount(plan->convolution, (int)convolution->groups);
    return result;
}

/* The library's best algorithm that multiplies in the required precision and needs at most WORKSPACE_MOST. */
static const cudnnConvolutionFwdAlgoPerf_t *choose_algorithm(const cudnnConvolutionFwdAlgoPerf_t *found, int count,
                                                             bool mixed)
{
    for (int i = 0; i < count; i++)
        if (found[i].status == CUDNN_STATUS_SUCCESS && found[i].memory <= WORKSPACE_MOST &&
            (mixed || found[i].mathType == CUDNN_FMA_MATH))
            return &found[i];
    return NULL;
}

static enum facet_status run_convolution(const struct cuda_math_call *call, const struct plan *plan)
{
    const struct facet_convolution *convolution = &call->operation->of.convolution;
    const struct cuda_math *math = call->math;
    cudnnConvolutionFwdAlgoPerf_t found[ALGORITHMS];
    const float one = 1, zero = 0;
    CUdeviceptr workspace;
    int count = 0;
    cudnnStatus_t result = math->cudnnGetConvolutionForwardAlgorithm_v7(
        call->dnn, plan->input, plan->filter, plan->convolution, plan->output, ALGORITHMS, &count, found);

    if (result != CUDNN_STATUS_SUCCESS)
        return cuda_dnn_status(result);
    const cudnnConvolutionFwdAlgoPerf_t *chosen = choose_algorithm(
        found, count, call->operation->flags & FACET_MATH_MIXED && !(call->operation->flags & FACET_MATH_NO_TENSOR));
    if (!chosen)
        return FACET_UNSUPPORTED;
    enum facet_status status = cuda_scratch_take(call, chosen->memory, &workspace);
    if (status != FACET_OK)
        return status;
    /* NOLINTBEGIN: the device's addresses are pointers to the library */
    result = math->cudnnConvolutionForward(call->dnn, &one, plan->input, (const void *)convolution->input, plan->filter,
                                           (const void *)convolution->filter, plan->convolution, chosen->algo,
                                           (void *)workspace, chosen->memory, &zero, plan->output,
                                           (void *)convolution->output);
    cuda_scratch_give(call, workspace);
    if (result == CUDNN_STATUS_SUCCESS && convolution->bias)
        result = math->cudnnAddTensor(call->dnn, &one, plan->bias, (const void *)convolution->bias, &one, plan->output,
                                      (void *)convolution->output);
    /* NOLINTEND */
    return cuda_dnn_status(result);
}

enum facet_status cuda_math_convolution(const struct cuda_math_call *call)
{
    struct plan plan = {0};
    cudnnStatus_t result = make_tensors(call->math, &call->operation->of.convolution, &plan);

    if (result == CUDNN_STATUS_SUCCESS)
        result = make_convolution(call->math, call->operation, &plan);
    enum facet_status status = result == CUDNN_STATUS_SUCCESS ? run_convolution(call, &plan) : cuda_dnn_status(result);
    drop_plan(call->math, &plan);
    return status;
}
