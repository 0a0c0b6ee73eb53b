/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MIOpen, as far as convolution, activation, softmax and normalization need it.
 *
 * Owns: declarations, as vendor/hip/runtime.h says; of versions 3.1 (ROCm 6.1) to 3.5 (ROCm 7). Enumerations are int
 * here.
 *
 * Source: miopen/miopen.h.
 */
#ifndef VENDOR_HIP_MIOPEN_H
#define VENDOR_HIP_MIOPEN_H

#include "vendor/hip/runtime.h"

typedef int miopenStatus_t;
enum {
    miopenStatusSuccess = 0,
    miopenStatusBadParm = 3,
    miopenStatusAllocFailed = 4,
    miopenStatusInternalError = 5,
    miopenStatusNotImplemented = 6,
    miopenStatusUnsupportedOp = 8,
};

typedef int miopenDataType_t;
enum { miopenFloat = 1 };

enum {
    miopenTensorOpAdd = 0,
    miopenTensorOpMul = 1,
};
enum { miopenConvolution = 0 }; /* cross-correlation */

/* With alpha, beta and gamma of the descriptor. */
enum {
    miopenActivationLOGISTIC = 1,
    miopenActivationTANH = 2, /* beta * tanh(alpha * x) */
    miopenActivationRELU = 3,
    miopenActivationABS = 5,
    miopenActivationPOWER = 6,     /* (alpha + beta * x) ^ gamma; 0 where the base is not above 0 */
    miopenActivationLEAKYRELU = 8, /* alpha * x, below 0 */
    miopenActivationELU = 9,       /* alpha * (exp(x) - 1), below 0 */
};

enum { miopenBNSpatial = 1 }; /* a mean and a variance for each channel */
enum { MIOPEN_REDUCE_TENSOR_AVG = 5 };
enum { MIOPEN_PROPAGATE_NAN = 1 };
enum { MIOPEN_REDUCE_TENSOR_NO_INDICES = 0 };
enum { MIOPEN_32BIT_INDICES = 0 };

enum { MIOPEN_SOFTMAX_ACCURATE = 1 };
enum { MIOPEN_SOFTMAX_MODE_CHANNEL = 1 }; /* over C, for each N, H and W */

typedef struct miopenHandle *miopenHandle_t;
typedef struct miopenTensorDescriptor *miopenTensorDescriptor_t;
typedef struct miopenConvolutionDescriptor *miopenConvolutionDescriptor_t;
typedef struct miopenActivationDescriptor *miopenActivationDescriptor_t;
typedef struct miopenReduceTensorDescriptor *miopenReduceTensorDescriptor_t;

typedef struct {
    float time;
    size_t workspace_size;
    uint64_t solution_id;
    int algorithm;
} miopenConvSolution_t;

miopenStatus_t miopenGetVersion(size_t *major, size_t *minor, size_t *patch);
miopenStatus_t miopenCreate(miopenHandle_t *handle); /* of the device that is current */
miopenStatus_t miopenDestroy(miopenHandle_t handle);
miopenStatus_t miopenSetStream(miopenHandle_t handle, hipStream_t stream);

miopenStatus_t miopenCreateTensorDescriptor(miopenTensorDescriptor_t *tensor);
miopenStatus_t miopenDestroyTensorDescriptor(miopenTensorDescriptor_t tensor);
miopenStatus_t miopenSet4dTensorDescriptor(miopenTensorDescriptor_t tensor, miopenDataType_t type, int n, int c, int h,
                                           int w); /* NCHW, without gaps */
/* C = op(alpha1 * A, alpha2 * B) + beta * C; where B has one element in a dimension it is that of all. */
miopenStatus_t miopenOpTensor(miopenHandle_t handle, int operation, const void *alpha1,
                              miopenTensorDescriptor_t a_tensor, const void *a, const void *alpha2,
                              miopenTensorDescriptor_t b_tensor, const void *b, const void *beta,
                              miopenTensorDescriptor_t c_tensor, void *c);
miopenStatus_t miopenSetTensor(miopenHandle_t handle, miopenTensorDescriptor_t tensor, void *to, const void *value);
miopenStatus_t miopenSoftmaxForward_V2(miopenHandle_t handle, const void *alpha, miopenTensorDescriptor_t x_tensor,
                                       const void *x, const void *beta, miopenTensorDescriptor_t y_tensor, void *y,
                                       int algorithm, int mode);

miopenStatus_t miopenCreateActivationDescriptor(miopenActivationDescriptor_t *activation);
miopenStatus_t miopenDestroyActivationDescriptor(miopenActivationDescriptor_t activation);
miopenStatus_t miopenSetActivationDescriptor(miopenActivationDescriptor_t activation, int mode, double alpha,
                                             double beta, double gamma);
miopenStatus_t miopenActivationForward(miopenHandle_t handle, miopenActivationDescriptor_t activation,
                                       const void *alpha, miopenTensorDescriptor_t x_tensor, const void *x,
                                       const void *beta, miopenTensorDescriptor_t y_tensor, void *y);

/* C = alpha * the reduction of A over the dimensions where C has one element, + beta * C. */
miopenStatus_t miopenCreateReduceTensorDescriptor(miopenReduceTensorDescriptor_t *reduction);
miopenStatus_t miopenDestroyReduceTensorDescriptor(miopenReduceTensorDescriptor_t reduction);
miopenStatus_t miopenSetReduceTensorDescriptor(miopenReduceTensorDescriptor_t reduction, int operation,
                                               miopenDataType_t compute, int nan, int indices, int indices_type);
miopenStatus_t miopenGetReductionWorkspaceSize(miopenHandle_t handle, miopenReduceTensorDescriptor_t reduction,
                                               miopenTensorDescriptor_t a_tensor, miopenTensorDescriptor_t c_tensor,
                                               size_t *bytes);
miopenStatus_t miopenReduceTensor(miopenHandle_t handle, miopenReduceTensorDescriptor_t reduction, void *indices,
                                  size_t indices_bytes, void *workspace, size_t workspace_bytes, const void *alpha,
                                  miopenTensorDescriptor_t a_tensor, const void *a, const void *beta,
                                  miopenTensorDescriptor_t c_tensor, void *c);
miopenStatus_t miopenBatchNormalizationForwardInference(miopenHandle_t handle, int mode, void *alpha, void *beta,
                                                        miopenTensorDescriptor_t x_tensor, const void *x,
                                                        miopenTensorDescriptor_t y_tensor, void *y,
                                                        miopenTensorDescriptor_t vector, void *scale, void *bias,
                                                        void *mean, void *variance, double epsilon);

miopenStatus_t miopenCreateConvolutionDescriptor(miopenConvolutionDescriptor_t *convolution);
miopenStatus_t miopenDestroyConvolutionDescriptor(miopenConvolutionDescriptor_t convolution);
miopenStatus_t miopenInitConvolutionDescriptor(miopenConvolutionDescriptor_t convolution, int mode, int pad_h,
                                               int pad_w, int stride_h, int stride_w, int dilation_h, int dilation_w);
miopenStatus_t miopenSetConvolutionGroupCount(miopenConvolutionDescriptor_t convolution, int groups);
/* The solutions known to work, best first; and running one. */
miopenStatus_t miopenConvolutionForwardGetSolution(miopenHandle_t handle, miopenTensorDescriptor_t w_tensor,
                                                   miopenTensorDescriptor_t x_tensor,
                                                   miopenConvolutionDescriptor_t convolution,
                                                   miopenTensorDescriptor_t y_tensor, size_t most, size_t *count,
                                                   miopenConvSolution_t *solutions);
miopenStatus_t miopenConvolutionForwardImmediate(miopenHandle_t handle, miopenTensorDescriptor_t w_tensor,
                                                 const void *w, miopenTensorDescriptor_t x_tensor, const void *x,
                                                 miopenConvolutionDescriptor_t convolution,
                                                 miopenTensorDescriptor_t y_tensor, void *y, void *workspace,
                                                 size_t workspace_bytes, uint64_t solution);

#endif
