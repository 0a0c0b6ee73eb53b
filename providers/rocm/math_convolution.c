/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: forward convolution through MIOpen. Never: runs solutions to find the fastest: it uses MIOpen's own ranking. */
#include "math_library.h"

#include "math_check.h"

#define SOLUTIONS      8
#define WORKSPACE_MOST (UINT64_C(1) << 30)

struct plan {
    miopenTensorDescriptor_t input, filter, output, bias;
    miopenConvolutionDescriptor_t convolution;
};

static void drop_plan(const struct rocm_math *math, struct plan *plan)
{
    miopenTensorDescriptor_t tensors[] = {plan->input, plan->filter, plan->output, plan->bias};

    for (int i = 0; i < 4; i++)
        if (tensors[i])
            math->miopenDestroyTensorDescriptor(tensors[i]);
    if (plan->convolution)
        math->miopenDestroyConvolutionDescriptor(plan->convolution);
}

miopenStatus_t rocm_math_tensor(const struct rocm_math *math, uint64_t n, uint64_t c, uint64_t h, uint64_t w,
                                miopenTensorDescriptor_t *ret_tensor)
{
    miopenStatus_t result = math->miopenCreateTensorDescriptor(ret_tensor);

    if (result == miopenStatusSuccess)
        result = math->miopenSet4dTensorDescriptor(*ret_tensor, miopenFloat, (int)n, (int)c, (int)h, (int)w);
    return result;
}

static miopenStatus_t make_plan(const struct rocm_math *math, const struct facet_convolution *convolution,
                                struct plan *plan)
{
    miopenStatus_t result = rocm_math_tensor(math, convolution->batch, convolution->in_channels, convolution->height,
                                             convolution->width, &plan->input);

    if (result == miopenStatusSuccess)
        result = rocm_math_tensor(math, convolution->out_channels, convolution->in_channels / convolution->groups,
                                  convolution->kernel[0], convolution->kernel[1], &plan->filter);
    if (result == miopenStatusSuccess)
        result = rocm_math_tensor(math, convolution->batch, convolution->out_channels, kit_math_outputs(convolution, 0),
                                  kit_math_outputs(convolution, 1), &plan->output);
    if (result == miopenStatusSuccess)
        result = rocm_math_tensor(math, 1, convolution->out_channels, 1, 1, &plan->bias);
    if (result == miopenStatusSuccess)
        result = math->miopenCreateConvolutionDescriptor(&plan->convolution);
    if (result == miopenStatusSuccess)
        result = math->miopenInitConvolutionDescriptor(plan->convolution, miopenConvolution,
                                                       (int)convolution->padding[0], (int)convolution->padding[1],
                                                       (int)convolution->stride[0], (int)convolution->stride[1],
                                                       (int)convolution->dilation[0], (int)convolution->dilation[1]);
    if (result == miopenStatusSuccess)
        result = math->miopenSetConvolutionGroupCount(plan->convolution, (int)convolution->groups);
    return result;
}

/* The best solution that needs at most WORKSPACE_MOST. */
static enum facet_status choose_solution(const struct rocm_math_call *call, const struct plan *plan,
                                         miopenConvSolution_t *ret_chosen)
{
    miopenConvSolution_t found[SOLUTIONS];
    size_t count = 0;
    miopenStatus_t result = call->math->miopenConvolutionForwardGetSolution(
        call->dnn, plan->filter, plan->input, plan->convolution, plan->output, SOLUTIONS, &count, found);

    if (result != miopenStatusSuccess)
        return rocm_dnn_status(result);
    for (size_t i = 0; i < count && i < SOLUTIONS; i++)
        if (found[i].workspace_size <= WORKSPACE_MOST) {
            *ret_chosen = found[i];
            return FACET_OK;
        }
    return FACET_UNSUPPORTED;
}

static enum facet_status run_convolution(const struct rocm_math_call *call, const struct plan *plan)
{
    const struct facet_convolution *convolution = &call->operation->of.convolution;
    const struct rocm_math *math = call->math;
    const float one = 1, zero = 0;
    miopenConvSolution_t chosen = {0};
    void *workspace = NULL;
    enum facet_status status = choose_solution(call, plan, &chosen);

    if (status == FACET_OK)
        status = rocm_scratch_take(call, chosen.workspace_size, &workspace);
    if (status != FACET_OK)
        return status;
    /* NOLINTBEGIN: the device's addresses are pointers to the library */
    miopenStatus_t result = math->miopenConvolutionForwardImmediate(
        call->dnn, plan->filter, (const void *)convolution->filter, plan->input, (const void *)convolution->input,
        plan->convolution, plan->output, (void *)convolution->output, workspace, chosen.workspace_size,
        chosen.solution_id);
    rocm_scratch_give(call, workspace);
    if (result == miopenStatusSuccess && convolution->bias)
        result = math->miopenOpTensor(
            call->dnn, miopenTensorOpAdd, &one, plan->output, (const void *)convolution->output, &one, plan->bias,
            (const void *)convolution->bias, &zero, plan->output, (void *)convolution->output);
    /* NOLINTEND */
    return rocm_dnn_status(result);
}

enum facet_status rocm_math_convolution(const struct rocm_math_call *call)
{
    struct plan plan = {0};
    miopenStatus_t result = make_plan(call->math, &call->operation->of.convolution, &plan);
    enum facet_status status = result == miopenStatusSuccess ? run_convolution(call, &plan) : rocm_dnn_status(result);

    drop_plan(call->math, &plan);
    return status;
}
