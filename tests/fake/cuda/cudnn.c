/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: convolution, adding, and softmax as cuDNN makes them. Never: takes tensors that do not fit each other. */
#include "vendor/cuda/cudnn.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "cudnn_fake.h"

#define VERSION   91900u
#define WORKSPACE 8192u

struct cudnnContext {
    CUstream stream;
};
struct cudnnTensorStruct {
    cudnnDataType_t type;
    int sizes[4];
};
struct cudnnFilterStruct {
    cudnnDataType_t type;
    int sizes[4];
};
struct cudnnConvolutionStruct {
    int pad[2], stride[2], dilation[2], groups;
    cudnnMathType_t math;
};

static _Atomic int last_math = -1, living;

int fake_cudnn_math(void)
{
    return last_math;
}

int fake_cudnn_living(void)
{
    return living;
}

void *fake_cudnn_make(size_t size)
{
    void *made = calloc(1, size);

    if (!made)
        abort();
    living++;
    return made;
}

cudnnStatus_t fake_cudnn_drop(void *object)
{
    living -= object != NULL;
    free(object);
    return object ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

enum fake_type fake_cudnn_type(cudnnDataType_t type)
{
    return type == CUDNN_DATA_FLOAT ? FAKE_F32 : type == CUDNN_DATA_BFLOAT16 ? FAKE_BF16 : FAKE_F16;
}

size_t cudnnGetVersion(void)
{
    return VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_BAD_PARAM";
}

#define MAKE(name, type)                                                                                               \
    cudnnStatus_t cudnnCreate##name(type *object)                                                                      \
    {                                                                                                                  \
        *object = fake_cudnn_make(sizeof **object);                                                                    \
        return CUDNN_STATUS_SUCCESS;                                                                                   \
    }                                                                                                                  \
    cudnnStatus_t cudnnDestroy##name(type object)                                                                      \
    {                                                                                                                  \
        return fake_cudnn_drop(object);                                                                                \
    }
MAKE(, cudnnHandle_t)
MAKE(TensorDescriptor, cudnnTensorDescriptor_t)
MAKE(FilterDescriptor, cudnnFilterDescriptor_t)
MAKE(ConvolutionDescriptor, cudnnConvolutionDescriptor_t)

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, CUstream stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, int format, cudnnDataType_t type, int n, int c,
                                         int h, int w)
{
    if (format != CUDNN_TENSOR_NCHW || n <= 0 || c <= 0 || h <= 0 || w <= 0)
        return CUDNN_STATUS_BAD_PARAM;
    *tensor = (struct cudnnTensorStruct){type, {n, c, h, w}};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type, int format, int k, int c,
                                         int h, int w)
{
    if (format != CUDNN_TENSOR_NCHW || k <= 0 || c <= 0 || h <= 0 || w <= 0)
        return CUDNN_STATUS_BAD_PARAM;
    *filter = (struct cudnnFilterStruct){type, {k, c, h, w}};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h, int pad_w,
                                              int stride_h, int stride_w, int dilation_h, int dilation_w, int mode,
                                              cudnnDataType_t compute)
{
    if (pad_h < 0 || pad_w < 0 || stride_h <= 0 || stride_w <= 0 || dilation_h <= 0 || dilation_w <= 0 ||
        mode != CUDNN_CROSS_CORRELATION || compute != CUDNN_DATA_FLOAT)
        return CUDNN_STATUS_BAD_PARAM;
    *convolution = (struct cudnnConvolutionStruct){
        {pad_h, pad_w}, {stride_h, stride_w}, {dilation_h, dilation_w}, 1, CUDNN_DEFAULT_MATH};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution, cudnnMathType_t type)
{
    convolution->math = type;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups)
{
    convolution->groups = groups;
    return groups > 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

/* ---- convolution ---- */

static int outputs(const struct cudnnConvolutionStruct *it, int in, int kernel, int i)
{
    return (in + 2 * it->pad[i] - it->dilation[i] * (kernel - 1) - 1) / it->stride[i] + 1;
}

static bool fits(const struct cudnnConvolutionStruct *it, const struct cudnnTensorStruct *x,
                 const struct cudnnFilterStruct *w, const struct cudnnTensorStruct *y)
{
    return x->type == CUDNN_DATA_FLOAT && w->type == x->type && y->type == x->type &&
           w->sizes[1] * it->groups == x->sizes[1] && w->sizes[0] == y->sizes[1] && x->sizes[0] == y->sizes[0] &&
           outputs(it, x->sizes[2], w->sizes[2], 0) == y->sizes[2] &&
           outputs(it, x->sizes[3], w->sizes[3], 1) == y->sizes[3];
}

/* The first is one that a caller with no workspace must not take. */
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t convolution,
                                                     cudnnTensorDescriptor_t y, int wanted, int *count,
                                                     cudnnConvolutionFwdAlgoPerf_t *results)
{
    if (!handle || wanted < 2 || !fits(convolution, x, w, y))
        return CUDNN_STATUS_BAD_PARAM;
    results[0] = (cudnnConvolutionFwdAlgoPerf_t){.algo = 6, .status = CUDNN_STATUS_NOT_SUPPORTED};
    results[1] = (cudnnConvolutionFwdAlgoPerf_t){.algo = 1, .memory = WORKSPACE, .mathType = convolution->math};
    *count = 2;
    return CUDNN_STATUS_SUCCESS;
}

struct convolving {
    const struct cudnnConvolutionStruct *it;
    const struct cudnnTensorStruct *xt, *yt;
    const struct cudnnFilterStruct *wt;
    const float *x, *w;
};

static float output_at(const struct convolving *of, int n, int k, int row, int column)
{
    const int *filter = of->wt->sizes, *input = of->xt->sizes;
    int first = k / (filter[0] / of->it->groups) * filter[1];
    float sum = 0;

    for (int c = 0; c < filter[1]; c++)
        for (int i = 0; i < filter[2]; i++)
            for (int j = 0; j < filter[3]; j++) {
                int y = row * of->it->stride[0] - of->it->pad[0] + i * of->it->dilation[0];
                int x = column * of->it->stride[1] - of->it->pad[1] + j * of->it->dilation[1];

                if (y < 0 || x < 0 || y >= input[2] || x >= input[3])
                    continue;
                sum += of->x[((n * input[1] + first + c) * input[2] + y) * input[3] + x] *
                       of->w[((k * filter[1] + c) * filter[2] + i) * filter[3] + j];
            }
    return sum;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x_tensor,
                                      const void *x, cudnnFilterDescriptor_t w_filter, const void *w,
                                      cudnnConvolutionDescriptor_t convolution, int algorithm, void *workspace,
                                      size_t workspace_bytes, const void *beta, cudnnTensorDescriptor_t y_tensor,
                                      void *y)
{
    const struct convolving of = {convolution, x_tensor, y_tensor, w_filter, x, w};
    const int *sizes = y_tensor->sizes;
    float *to = y;

    if (!handle || !handle->stream || algorithm != 1 || !workspace || workspace_bytes < WORKSPACE ||
        *(const float *)alpha != 1 || *(const float *)beta != 0 || !fits(convolution, x_tensor, w_filter, y_tensor))
        return CUDNN_STATUS_BAD_PARAM;
    last_math = convolution->math;
    for (int n = 0; n < sizes[0]; n++)
        for (int k = 0; k < sizes[1]; k++)
            for (int i = 0; i < sizes[2]; i++)
                for (int j = 0; j < sizes[3]; j++)
                    *to++ = output_at(&of, n, k, i, j);
    return CUDNN_STATUS_SUCCESS;
}

/* ---- tensors ---- */

/* As far as biases need it: one number for each channel. */
cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t a_tensor, const void *a,
                             const void *beta, cudnnTensorDescriptor_t c_tensor, void *c)
{
    const int *sizes = c_tensor->sizes, *from = a_tensor->sizes;
    float *to = c;

    if (!handle || from[0] != 1 || from[2] != 1 || from[3] != 1 || from[1] != sizes[1] ||
        a_tensor->type != CUDNN_DATA_FLOAT || c_tensor->type != CUDNN_DATA_FLOAT || *(const float *)beta != 1)
        return CUDNN_STATUS_BAD_PARAM;
    for (int n = 0; n < sizes[0]; n++)
        for (int k = 0; k < sizes[1]; k++)
            for (int i = 0; i < sizes[2] * sizes[3]; i++)
                *to++ += *(const float *)alpha * ((const float *)a)[k];
    return CUDNN_STATUS_SUCCESS;
}

static void softmax_of(enum fake_type type, const void *x, void *y, uint64_t at, uint64_t step, int count)
{
    float most = -INFINITY, sum = 0;

    for (int i = 0; i < count; i++)
        most = fmaxf(most, fake_get(type, x, at + (uint64_t)i * step));
    for (int i = 0; i < count; i++)
        sum += expf(fake_get(type, x, at + (uint64_t)i * step) - most);
    for (int i = 0; i < count; i++)
        fake_put(type, y, at + (uint64_t)i * step, expf(fake_get(type, x, at + (uint64_t)i * step) - most) / sum);
}

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, int algorithm, int mode, const void *alpha,
                                  cudnnTensorDescriptor_t x_tensor, const void *x, const void *beta,
                                  cudnnTensorDescriptor_t y_tensor, void *y)
{
    const int *sizes = x_tensor->sizes;
    uint64_t step = (uint64_t)sizes[2] * (uint64_t)sizes[3];

    if (!handle || algorithm != CUDNN_SOFTMAX_ACCURATE || mode != CUDNN_SOFTMAX_MODE_CHANNEL ||
        memcmp(x_tensor, y_tensor, sizeof *x_tensor) != 0 || *(const float *)alpha != 1 || *(const float *)beta != 0)
        return CUDNN_STATUS_BAD_PARAM;
    for (uint64_t n = 0; n < (uint64_t)sizes[0]; n++)
        for (uint64_t i = 0; i < step; i++)
            softmax_of(fake_cudnn_type(x_tensor->type), x, y, n * (uint64_t)sizes[1] * step + i, step, sizes[1]);
    return CUDNN_STATUS_SUCCESS;
}
