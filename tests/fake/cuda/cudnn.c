/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: convolution, adding, softmax and normalization as cuDNN makes them. Never: takes tensors whose sizes or types
 * do not fit together.
 */
#include "vendor/cuda/cudnn.h"

#include "cudnn_fake.h"
#include "dnn_fake.h"
#include "living_fake.h"

#define VERSION   91900u
#define WORKSPACE 8192u /* bytes that a convolution asks for */

/* Numbers of two algorithms for convolutions: the first is not supported. */
enum { UNSUPPORTED_ALGORITHM = 6, ALGORITHM = 1 };

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
    struct fake_window window;
    cudnnMathType_t math;
};

static _Atomic int last_math = -1;
static _Atomic(void *) last_stream;

int fake_cudnn_math(void)
{
    return last_math;
}

void *fake_cudnn_stream(void)
{
    return last_stream;
}

int fake_cudnn_living(void)
{
    return live_objects;
}

void *fake_cudnn_make(size_t size)
{
    return make_object(size);
}

cudnnStatus_t fake_cudnn_drop(void *object)
{
    return free_object(object) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
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
    *convolution = (struct cudnnConvolutionStruct){{{pad_h, pad_w}, {stride_h, stride_w}, {dilation_h, dilation_w}, 1},
                                                   CUDNN_DEFAULT_MATH};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution, cudnnMathType_t type)
{
    convolution->math = type;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups)
{
    convolution->window.groups = groups;
    return groups > 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

/* ---- convolution ---- */

static struct fake_convolution fake_convolution_of(const struct cudnnConvolutionStruct *convolution,
                                                   const struct cudnnTensorStruct *x, const struct cudnnFilterStruct *w,
                                                   const struct cudnnTensorStruct *y)
{
    return (struct fake_convolution){&convolution->window, x->sizes, w->sizes, y->sizes};
}

static bool shapes_fit(const struct cudnnConvolutionStruct *convolution, const struct cudnnTensorStruct *x,
                       const struct cudnnFilterStruct *w, const struct cudnnTensorStruct *y)
{
    const struct fake_convolution computation = fake_convolution_of(convolution, x, w, y);

    return x->type == CUDNN_DATA_FLOAT && w->type == x->type && y->type == x->type &&
           fake_convolution_fits(&computation);
}

/* The first of the results has the status NOT_SUPPORTED, so the caller must take the second. */
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t convolution,
                                                     cudnnTensorDescriptor_t y, int wanted, int *count,
                                                     cudnnConvolutionFwdAlgoPerf_t *results)
{
    if (!handle || wanted < 2 || !shapes_fit(convolution, x, w, y))
        return CUDNN_STATUS_BAD_PARAM;
    results[0] = (cudnnConvolutionFwdAlgoPerf_t){.algo = UNSUPPORTED_ALGORITHM, .status = CUDNN_STATUS_NOT_SUPPORTED};
    results[1] = (cudnnConvolutionFwdAlgoPerf_t){.algo = ALGORITHM, .memory = WORKSPACE, .mathType = convolution->math};
    *count = 2;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x_tensor,
                                      const void *x, cudnnFilterDescriptor_t w_filter, const void *w,
                                      cudnnConvolutionDescriptor_t convolution, int algorithm, void *workspace,
                                      size_t workspace_bytes, const void *beta, cudnnTensorDescriptor_t y_tensor,
                                      void *y)
{
    const struct fake_convolution computation = fake_convolution_of(convolution, x_tensor, w_filter, y_tensor);

    if (!handle || !handle->stream || algorithm != ALGORITHM || !workspace || workspace_bytes < WORKSPACE ||
        *(const float *)alpha != 1 || *(const float *)beta != 0 ||
        !shapes_fit(convolution, x_tensor, w_filter, y_tensor))
        return CUDNN_STATUS_BAD_PARAM;
    last_math = convolution->math;
    last_stream = handle->stream;
    fake_convolve(&computation, x, w, y);
    return CUDNN_STATUS_SUCCESS;
}

/* ---- tensors ---- */

/* Supports only biases: one number for each channel is added. */
cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t a_tensor, const void *a,
                             const void *beta, cudnnTensorDescriptor_t c_tensor, void *c)
{
    const int *sizes = c_tensor->sizes, *from = a_tensor->sizes;

    if (!handle || from[0] != 1 || from[2] != 1 || from[3] != 1 || from[1] != sizes[1] ||
        a_tensor->type != CUDNN_DATA_FLOAT || c_tensor->type != CUDNN_DATA_FLOAT || *(const float *)beta != 1)
        return CUDNN_STATUS_BAD_PARAM;
    fake_add_channels(sizes, a, *(const float *)alpha, c);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, int algorithm, int mode, const void *alpha,
                                  cudnnTensorDescriptor_t x_tensor, const void *x, const void *beta,
                                  cudnnTensorDescriptor_t y_tensor, void *y)
{
    if (!handle || algorithm != CUDNN_SOFTMAX_ACCURATE || mode != CUDNN_SOFTMAX_MODE_CHANNEL ||
        memcmp(x_tensor, y_tensor, sizeof *x_tensor) != 0 || *(const float *)alpha != 1 || *(const float *)beta != 0)
        return CUDNN_STATUS_BAD_PARAM;
    fake_softmax(fake_cudnn_type(x_tensor->type), x_tensor->sizes, x, y);
    return CUDNN_STATUS_SUCCESS;
}

/* ---- normalization ---- */

cudnnStatus_t cudnnScaleTensor(cudnnHandle_t handle, cudnnTensorDescriptor_t y_tensor, void *y, const void *alpha)
{
    const int *sizes = y_tensor->sizes;

    if (!handle || y_tensor->type != CUDNN_DATA_FLOAT)
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < sizes[0] * sizes[1] * sizes[2] * sizes[3]; i++)
        ((float *)y)[i] *= *(const float *)alpha;
    return CUDNN_STATUS_SUCCESS;
}

/* The arguments of one normalization. */
struct normalization {
    enum fake_type type;
    const int *sizes;
    const void *x;
    void *y;
    const float *scale, *bias;
    double epsilon;
};

static bool check_normalization(cudnnHandle_t handle, int mode, const void *alpha, const void *beta,
                                const struct cudnnTensorStruct *x, const struct cudnnTensorStruct *y,
                                const struct cudnnTensorStruct *channels)
{
    const int *sizes = channels->sizes;

    return handle && mode == CUDNN_BATCHNORM_SPATIAL && *(const float *)alpha == 1 && *(const float *)beta == 0 &&
           memcmp(x, y, sizeof *x) == 0 && channels->type == CUDNN_DATA_FLOAT && sizes[0] == 1 &&
           sizes[1] == x->sizes[1] && sizes[2] == 1 && sizes[3] == 1;
}

/* The index of element `i` of a channel, counted over all images. */
static uint64_t place_of(const struct normalization *normalization, int channel, int i)
{
    uint64_t positions = (uint64_t)normalization->sizes[2] * (uint64_t)normalization->sizes[3], at = (uint64_t)i;

    return (at / positions * (uint64_t)normalization->sizes[1] + (uint64_t)channel) * positions + at % positions;
}

static void normalize_channel(const struct normalization *normalization, int channel, double mean, double variance)
{
    int count = normalization->sizes[0] * normalization->sizes[2] * normalization->sizes[3];

    for (int i = 0; i < count; i++) {
        uint64_t at = place_of(normalization, channel, i);
        double value =
            (fake_get(normalization->type, normalization->x, at) - mean) / sqrt(variance + normalization->epsilon);

        fake_put(normalization->type, normalization->y, at,
                 (float)(value * normalization->scale[channel] + normalization->bias[channel]));
    }
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t handle, int mode, const void *alpha,
                                                      const void *beta, cudnnTensorDescriptor_t x_tensor, const void *x,
                                                      cudnnTensorDescriptor_t y_tensor, void *y,
                                                      cudnnTensorDescriptor_t channels, const void *scale,
                                                      const void *bias, const void *mean, const void *variance,
                                                      double epsilon)
{
    const struct normalization normalization = {
        fake_cudnn_type(x_tensor->type), x_tensor->sizes, x, y, scale, bias, epsilon};

    if (!check_normalization(handle, mode, alpha, beta, x_tensor, y_tensor, channels) || !scale || !bias || !mean ||
        !variance)
        return CUDNN_STATUS_BAD_PARAM;
    for (int channel = 0; channel < normalization.sizes[1]; channel++)
        normalize_channel(&normalization, channel, (double)((const float *)mean)[channel],
                          (double)((const float *)variance)[channel]);
    return CUDNN_STATUS_SUCCESS;
}

static void measure_channel(const struct normalization *normalization, int channel, double *ret_mean,
                            double *ret_variance)
{
    int count = normalization->sizes[0] * normalization->sizes[2] * normalization->sizes[3];
    double sum = 0, squares = 0;

    for (int i = 0; i < count; i++) {
        double value = (double)fake_get(normalization->type, normalization->x, place_of(normalization, channel, i));

        sum += value;
        squares += value * value;
    }
    *ret_mean = sum / count;
    *ret_variance = squares / count - *ret_mean * *ret_mean;
}

/* The earlier value is multiplied too, as in the real library: a NaN stays one. */
static void update_running(void *running, int channel, double factor, double value)
{
    float *to = (float *)running + channel;

    *to = (float)((double)*to * (1 - factor) + value * factor);
}

cudnnStatus_t cudnnBatchNormalizationForwardTraining(cudnnHandle_t handle, int mode, const void *alpha,
                                                     const void *beta, cudnnTensorDescriptor_t x_tensor, const void *x,
                                                     cudnnTensorDescriptor_t y_tensor, void *y,
                                                     cudnnTensorDescriptor_t channels, const void *scale,
                                                     const void *bias, double factor, void *running_mean,
                                                     void *running_variance, double epsilon, void *saved_mean,
                                                     void *saved_inverse_deviation)
{
    const struct normalization normalization = {
        fake_cudnn_type(x_tensor->type), x_tensor->sizes, x, y, scale, bias, epsilon};
    int count = normalization.sizes[0] * normalization.sizes[2] * normalization.sizes[3];
    double mean, variance;

    if (!check_normalization(handle, mode, alpha, beta, x_tensor, y_tensor, channels) || !scale || !bias ||
        !running_mean || !running_variance || !saved_mean != !saved_inverse_deviation)
        return CUDNN_STATUS_BAD_PARAM;
    for (int channel = 0; channel < normalization.sizes[1]; channel++) {
        measure_channel(&normalization, channel, &mean, &variance);
        update_running(running_mean, channel, factor, mean);
        update_running(running_variance, channel, factor, variance * count / (count - 1));
        normalize_channel(&normalization, channel, mean, variance);
    }
    return CUDNN_STATUS_SUCCESS;
}
