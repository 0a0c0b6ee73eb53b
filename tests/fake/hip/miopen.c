/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake MIOpen, which computes on the processor: convolution, activation, tensors and softmax
 * (tests/fake/cuda/dnn_fake.h).
 *
 * Owns: MIOpen's own part, and the function by which a test reads the number of live objects. Never: accepts tensors
 * that do not fit together, a softmax in place, or less workspace than a solution asked for; is packaged.
 */
#include "vendor/hip/miopen.h"

#include "dnn_fake.h"
#include "living_fake.h"

#define WORKSPACE 8192u /* bytes that a reduction, and the usable solution of a convolution, need */
#define SOLUTION  85u   /* the id of the usable solution */

struct miopenHandle {
    hipStream_t stream;
};
struct miopenTensorDescriptor {
    int sizes[4];
};
struct miopenConvolutionDescriptor {
    struct fake_window window;
};

struct miopenReduceTensorDescriptor {
    int operation;
};
struct miopenActivationDescriptor {
    int mode;
    double alpha, beta, gamma;
};

static _Atomic(void *) last_stream;

void *fake_miopen_stream(void)
{
    return last_stream;
}

int fake_miopen_living(void)
{
    return live_objects;
}

#define MAKE(name, type)                                                                                               \
    miopenStatus_t miopenCreate##name(type *object)                                                                    \
    {                                                                                                                  \
        *object = make_object(sizeof **object);                                                                        \
        return miopenStatusSuccess;                                                                                    \
    }                                                                                                                  \
    miopenStatus_t miopenDestroy##name(type object)                                                                    \
    {                                                                                                                  \
        return free_object(object) ? miopenStatusSuccess : miopenStatusBadParm;                                        \
    }
MAKE(, miopenHandle_t)
MAKE(TensorDescriptor, miopenTensorDescriptor_t)
MAKE(ConvolutionDescriptor, miopenConvolutionDescriptor_t)
MAKE(ActivationDescriptor, miopenActivationDescriptor_t)
MAKE(ReduceTensorDescriptor, miopenReduceTensorDescriptor_t)

miopenStatus_t miopenGetVersion(size_t *major, size_t *minor, size_t *patch)
{
    *major = 3;
    *minor = 5;
    *patch = 0;
    return miopenStatusSuccess;
}

miopenStatus_t miopenSetStream(miopenHandle_t handle, hipStream_t stream)
{
    handle->stream = stream;
    return miopenStatusSuccess;
}

miopenStatus_t miopenSet4dTensorDescriptor(miopenTensorDescriptor_t tensor, miopenDataType_t type, int n, int c, int h,
                                           int w)
{
    if (type != miopenFloat || n <= 0 || c <= 0 || h <= 0 || w <= 0)
        return miopenStatusBadParm;
    *tensor = (struct miopenTensorDescriptor){{n, c, h, w}};
    return miopenStatusSuccess;
}

static size_t element_count(miopenTensorDescriptor_t tensor)
{
    const int *sizes = tensor->sizes;

    return (size_t)sizes[0] * (size_t)sizes[1] * (size_t)sizes[2] * (size_t)sizes[3];
}

static bool same_shape(miopenTensorDescriptor_t first, miopenTensorDescriptor_t second)
{
    return memcmp(first, second, sizeof *first) == 0;
}

static void combine_tensors(int operation, float a_factor, const float *a, float b_factor, const float *b, float *c,
                            size_t count)
{
    for (size_t i = 0; i < count; i++)
        c[i] = operation == miopenTensorOpMul ? a_factor * a[i] * (b_factor * b[i]) : a_factor * a[i] + b_factor * b[i];
}

/* Combines tensors of one shape, or adds a bias: one number for each channel. */
miopenStatus_t miopenOpTensor(miopenHandle_t handle, int operation, const void *alpha1,
                              miopenTensorDescriptor_t a_tensor, const void *a, const void *alpha2,
                              miopenTensorDescriptor_t b_tensor, const void *b, const void *beta,
                              miopenTensorDescriptor_t c_tensor, void *c)
{
    const int *from = b_tensor->sizes;

    if (!handle || !handle->stream || operation < miopenTensorOpAdd || operation > miopenTensorOpMul ||
        !same_shape(a_tensor, c_tensor) || *(const float *)beta != 0)
        return miopenStatusBadParm;
    if (same_shape(b_tensor, c_tensor)) {
        combine_tensors(operation, *(const float *)alpha1, a, *(const float *)alpha2, b, c, element_count(c_tensor));
        return miopenStatusSuccess;
    }
    if (operation != miopenTensorOpAdd || *(const float *)alpha1 != 1 || from[0] != 1 || from[2] != 1 || from[3] != 1 ||
        from[1] != c_tensor->sizes[1])
        return miopenStatusBadParm;
    if (a != c)
        memcpy(c, a, element_count(c_tensor) * sizeof(float));
    fake_add_channels(c_tensor->sizes, b, *(const float *)alpha2, c);
    return miopenStatusSuccess;
}

/* ---- activation ---- */

miopenStatus_t miopenSetActivationDescriptor(miopenActivationDescriptor_t activation, int mode, double alpha,
                                             double beta, double gamma)
{
    *activation = (struct miopenActivationDescriptor){mode, alpha, beta, gamma};
    return miopenStatusSuccess;
}

static float apply_activation(const struct miopenActivationDescriptor *activation, float x)
{
    float alpha = (float)activation->alpha, beta = (float)activation->beta, base = alpha + beta * x;

    switch (activation->mode) {
    case miopenActivationLOGISTIC:
        return 1 / (1 + expf(-x));
    case miopenActivationTANH:
        return beta * tanhf(alpha * x);
    case miopenActivationRELU:
        return x > 0 ? x : 0;
    case miopenActivationABS:
        return fabsf(x);
    case miopenActivationPOWER:
        return base <= 0 ? 0 : powf(base, (float)activation->gamma);
    case miopenActivationLEAKYRELU:
        return x > 0 ? x : alpha * x;
    case miopenActivationELU:
        return x > 0 ? x : alpha * (expf(x) - 1);
    default:
        return NAN;
    }
}

miopenStatus_t miopenActivationForward(miopenHandle_t handle, miopenActivationDescriptor_t activation,
                                       const void *alpha, miopenTensorDescriptor_t x_tensor, const void *x,
                                       const void *beta, miopenTensorDescriptor_t y_tensor, void *y)
{
    if (!handle || !handle->stream || !same_shape(x_tensor, y_tensor) || *(const float *)alpha != 1 ||
        *(const float *)beta != 0)
        return miopenStatusBadParm;
    for (size_t i = 0; i < element_count(x_tensor); i++)
        ((float *)y)[i] = apply_activation(activation, ((const float *)x)[i]);
    return miopenStatusSuccess;
}

/* ---- normalization ---- */

miopenStatus_t miopenSetTensor(miopenHandle_t handle, miopenTensorDescriptor_t tensor, void *to, const void *value)
{
    if (!handle || !handle->stream)
        return miopenStatusBadParm;
    for (size_t i = 0; i < element_count(tensor); i++)
        ((float *)to)[i] = *(const float *)value;
    return miopenStatusSuccess;
}

miopenStatus_t miopenSetReduceTensorDescriptor(miopenReduceTensorDescriptor_t reduction, int operation,
                                               miopenDataType_t compute, int nan, int indices, int indices_type)
{
    reduction->operation = operation;
    return operation == MIOPEN_REDUCE_TENSOR_AVG && compute == miopenFloat && nan == MIOPEN_PROPAGATE_NAN &&
                   indices == MIOPEN_REDUCE_TENSOR_NO_INDICES && indices_type == MIOPEN_32BIT_INDICES
               ? miopenStatusSuccess
               : miopenStatusBadParm;
}

/* Whether `vector` has one number for each channel of `tensor`. */
static bool is_vector_of(miopenTensorDescriptor_t vector, miopenTensorDescriptor_t tensor)
{
    const int *sizes = vector->sizes;

    return sizes[0] == 1 && sizes[1] == tensor->sizes[1] && sizes[2] == 1 && sizes[3] == 1;
}

miopenStatus_t miopenGetReductionWorkspaceSize(miopenHandle_t handle, miopenReduceTensorDescriptor_t reduction,
                                               miopenTensorDescriptor_t a_tensor, miopenTensorDescriptor_t c_tensor,
                                               size_t *bytes)
{
    if (!handle || !reduction || !is_vector_of(c_tensor, a_tensor))
        return miopenStatusBadParm;
    *bytes = WORKSPACE;
    return miopenStatusSuccess;
}

/* Reduces a tensor to one number for each channel; refuses if there is nothing to reduce. */
miopenStatus_t miopenReduceTensor(miopenHandle_t handle, miopenReduceTensorDescriptor_t reduction, void *indices,
                                  size_t indices_bytes, void *workspace, size_t workspace_bytes, const void *alpha,
                                  miopenTensorDescriptor_t a_tensor, const void *a, const void *beta,
                                  miopenTensorDescriptor_t c_tensor, void *c)
{
    size_t channels = (size_t)a_tensor->sizes[1], positions = (size_t)a_tensor->sizes[2] * (size_t)a_tensor->sizes[3];
    size_t count = element_count(a_tensor) / channels;

    if (!handle || !handle->stream || reduction->operation != MIOPEN_REDUCE_TENSOR_AVG || indices || indices_bytes ||
        !workspace || workspace_bytes < WORKSPACE || !is_vector_of(c_tensor, a_tensor) || count < 2 ||
        *(const float *)alpha != 1 || *(const float *)beta != 0)
        return miopenStatusBadParm;
    for (size_t channel = 0; channel < channels; channel++) {
        float sum = 0;

        for (size_t i = 0; i < count; i++)
            sum += ((const float *)a)[(i / positions * channels + channel) * positions + i % positions];
        ((float *)c)[channel] = sum / (float)count;
    }
    return miopenStatusSuccess;
}

miopenStatus_t miopenBatchNormalizationForwardInference(miopenHandle_t handle, int mode, void *alpha, void *beta,
                                                        miopenTensorDescriptor_t x_tensor, const void *x,
                                                        miopenTensorDescriptor_t y_tensor, void *y,
                                                        miopenTensorDescriptor_t vector, void *scale, void *bias,
                                                        void *mean, void *variance, double epsilon)
{
    const float *scales = scale, *biases = bias, *means = mean, *variances = variance;
    size_t channels = (size_t)x_tensor->sizes[1], positions = (size_t)x_tensor->sizes[2] * (size_t)x_tensor->sizes[3];

    if (!handle || !handle->stream || mode != miopenBNSpatial || *(float *)alpha != 1 || *(float *)beta != 0 ||
        !same_shape(x_tensor, y_tensor) || x == y || !is_vector_of(vector, x_tensor) || !scale || !bias)
        return miopenStatusBadParm;
    for (size_t i = 0; i < element_count(x_tensor); i++) {
        size_t channel = i / positions % channels;
        float factor = scales[channel] / sqrtf(variances[channel] + (float)epsilon);

        ((float *)y)[i] = (((const float *)x)[i] - means[channel]) * factor + biases[channel];
    }
    return miopenStatusSuccess;
}

/* ---- softmax ---- */

miopenStatus_t miopenSoftmaxForward_V2(miopenHandle_t handle, const void *alpha, miopenTensorDescriptor_t x_tensor,
                                       const void *x, const void *beta, miopenTensorDescriptor_t y_tensor, void *y,
                                       int algorithm, int mode)
{
    if (!handle || !handle->stream || algorithm != MIOPEN_SOFTMAX_ACCURATE || mode != MIOPEN_SOFTMAX_MODE_CHANNEL ||
        !same_shape(x_tensor, y_tensor) || x == y || *(const float *)alpha != 1 || *(const float *)beta != 0)
        return miopenStatusBadParm;
    last_stream = handle->stream;
    fake_softmax(FAKE_F32, x_tensor->sizes, x, y);
    return miopenStatusSuccess;
}

/* ---- convolution ---- */

miopenStatus_t miopenInitConvolutionDescriptor(miopenConvolutionDescriptor_t convolution, int mode, int pad_h,
                                               int pad_w, int stride_h, int stride_w, int dilation_h, int dilation_w)
{
    if (mode != miopenConvolution || pad_h < 0 || pad_w < 0 || stride_h <= 0 || stride_w <= 0 || dilation_h <= 0 ||
        dilation_w <= 0)
        return miopenStatusBadParm;
    convolution->window = (struct fake_window){{pad_h, pad_w}, {stride_h, stride_w}, {dilation_h, dilation_w}, 1};
    return miopenStatusSuccess;
}

miopenStatus_t miopenSetConvolutionGroupCount(miopenConvolutionDescriptor_t convolution, int groups)
{
    convolution->window.groups = groups;
    return groups > 0 ? miopenStatusSuccess : miopenStatusBadParm;
}

/* The first of the solutions needs more workspace than any device has. */
miopenStatus_t miopenConvolutionForwardGetSolution(miopenHandle_t handle, miopenTensorDescriptor_t w_tensor,
                                                   miopenTensorDescriptor_t x_tensor,
                                                   miopenConvolutionDescriptor_t convolution,
                                                   miopenTensorDescriptor_t y_tensor, size_t most, size_t *count,
                                                   miopenConvSolution_t *solutions)
{
    const struct fake_convolution computation = {&convolution->window, x_tensor->sizes, w_tensor->sizes,
                                                 y_tensor->sizes};

    if (!handle || most < 2 || !fake_convolution_fits(&computation))
        return miopenStatusBadParm;
    solutions[0] = (miopenConvSolution_t){.workspace_size = SIZE_MAX / 2, .solution_id = 1};
    solutions[1] = (miopenConvSolution_t){.workspace_size = WORKSPACE, .solution_id = SOLUTION};
    *count = 2;
    return miopenStatusSuccess;
}

miopenStatus_t miopenConvolutionForwardImmediate(miopenHandle_t handle, miopenTensorDescriptor_t w_tensor,
                                                 const void *w, miopenTensorDescriptor_t x_tensor, const void *x,
                                                 miopenConvolutionDescriptor_t convolution,
                                                 miopenTensorDescriptor_t y_tensor, void *y, void *workspace,
                                                 size_t workspace_bytes, uint64_t solution)
{
    const struct fake_convolution computation = {&convolution->window, x_tensor->sizes, w_tensor->sizes,
                                                 y_tensor->sizes};

    if (!handle || !handle->stream || solution != SOLUTION || !workspace || workspace_bytes < WORKSPACE ||
        !fake_convolution_fits(&computation))
        return miopenStatusBadParm;
    fake_convolve(&computation, x, w, y);
    return miopenStatusSuccess;
}
