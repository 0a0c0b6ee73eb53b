/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mathematics by AMD's libraries, opened at run time.
 *
 * Owns: the tables of hipBLASLt's and MIOpen's functions, their handles, and the functions that operations share.
 * Never: computes anything, or runs an operation in a thread other than the executor's. Never initialises HIP:
 * hipBLASLt needs a context to report its version, so the version is not in `support`.
 *
 * The libraries are libhipblaslt.so.1 or 0 and libMIOpen.so.1, or the files that FACET_ROCM_HIPBLASLT and
 * FACET_ROCM_MIOPEN name. Products of matrices need the first, convolution the second, attention both. Without both
 * there is no mathematics. hipBLASLt must be 0.7 (ROCm 6.1) or newer: earlier releases number types differently, so
 * operations that need hipBLASLt fail as unsupported with them.
 *
 *   - gemm: f32, bf16, f16, and int8 with an int32 result.
 *   - convolution: f32, forward. Not the 16-bit types: an f32 bias is added only after rounding.
 *   - attention: f32, by products, a softmax and, if causal, a mask that is added. All scores are in memory at a time.
 *     Not the 16-bit types, because the ABI has scores in f32.
 *   - activation: f32. gelu and silu, which MIOpen lacks, are composed of other operations (math_activation.c).
 *   - normalization: f32.
 *
 * The libraries choose the units themselves: they multiply 16-bit types and int8 by matrix cores, and f32 in f32. So
 * FACET_MATH_NO_TENSOR has no effect, which `tensor_types` reports by 0, and FACET_MATH_MIXED rounds nothing.
 */
#ifndef FACET_ROCM_MATH_LIBRARY_H
#define FACET_ROCM_MATH_LIBRARY_H

#include <facet/provider.h>

#include "gpu/machine.h"
#include "runtime.h"
#include "vendor/hip/hipblaslt.h"
#include "vendor/hip/miopen.h"

#define ROCM_BLAS(X)                                                                                                   \
    X(hipblasLtCreate)                                                                                                 \
    X(hipblasLtDestroy)                                                                                                \
    X(hipblasLtGetVersion)                                                                                             \
    X(hipblasLtMatmulDescCreate)                                                                                       \
    X(hipblasLtMatmulDescDestroy)                                                                                      \
    X(hipblasLtMatmulDescSetAttribute)                                                                                 \
    X(hipblasLtMatrixLayoutCreate)                                                                                     \
    X(hipblasLtMatrixLayoutDestroy)                                                                                    \
    X(hipblasLtMatrixLayoutSetAttribute)                                                                               \
    X(hipblasLtMatmulPreferenceCreate)                                                                                 \
    X(hipblasLtMatmulPreferenceDestroy)                                                                                \
    X(hipblasLtMatmulPreferenceSetAttribute)                                                                           \
    X(hipblasLtMatmulAlgoGetHeuristic)                                                                                 \
    X(hipblasLtMatmul)

#define ROCM_DNN(X)                                                                                                    \
    X(miopenGetVersion)                                                                                                \
    X(miopenCreate)                                                                                                    \
    X(miopenDestroy)                                                                                                   \
    X(miopenSetStream)                                                                                                 \
    X(miopenCreateTensorDescriptor)                                                                                    \
    X(miopenDestroyTensorDescriptor)                                                                                   \
    X(miopenSet4dTensorDescriptor)                                                                                     \
    X(miopenOpTensor)                                                                                                  \
    X(miopenSoftmaxForward_V2)                                                                                         \
    X(miopenCreateActivationDescriptor)                                                                                \
    X(miopenDestroyActivationDescriptor)                                                                               \
    X(miopenSetActivationDescriptor)                                                                                   \
    X(miopenActivationForward)                                                                                         \
    X(miopenSetTensor)                                                                                                 \
    X(miopenCreateReduceTensorDescriptor)                                                                              \
    X(miopenDestroyReduceTensorDescriptor)                                                                             \
    X(miopenSetReduceTensorDescriptor)                                                                                 \
    X(miopenGetReductionWorkspaceSize)                                                                                 \
    X(miopenReduceTensor)                                                                                              \
    X(miopenBatchNormalizationForwardInference)                                                                        \
    X(miopenCreateConvolutionDescriptor)                                                                               \
    X(miopenDestroyConvolutionDescriptor)                                                                              \
    X(miopenInitConvolutionDescriptor)                                                                                 \
    X(miopenSetConvolutionGroupCount)                                                                                  \
    X(miopenConvolutionForwardGetSolution)                                                                             \
    X(miopenConvolutionForwardImmediate)

struct rocm_math {
    void *blas_library, *dnn_library; /* NULL: the library is absent, or lacks a function */
#define ROCM_MATH_MEMBER(name) __typeof__(&name) name;
    ROCM_BLAS(ROCM_MATH_MEMBER)
    ROCM_DNN(ROCM_MATH_MEMBER)
#undef ROCM_MATH_MEMBER
    /* Made with the first operation on a device that needs them; used by the executor's thread. */
    hipblasLtHandle_t blas[GPU_MOST];
    miopenHandle_t dnn[GPU_MOST];
};

/* One operation, in the executor's thread, with the device entered. */
struct rocm_math_call {
    const struct rocm_runtime *runtime;
    const struct rocm_math *math;
    hipblasLtHandle_t blas; /* NULL if the operation needs no product */
    miopenHandle_t dnn;     /* NULL if the operation is only a product */
    hipStream_t stream;
    const struct facet_math *operation;
};

/* Opens the libraries that exist. */
void rocm_math_open(struct rocm_math *ret_math);
/* Ends the handles on a device that is entered. */
void rocm_math_leave(struct rocm_math *math, uint32_t device);

extern const struct facet_math_ops rocm_math_ops;

/* Translates a library's result. */
enum facet_status rocm_blas_status(hipblasStatus_t result);
enum facet_status rocm_dnn_status(miopenStatus_t result);

/* Memory in stream order: allocated and freed by the stream. 0 bytes: none, NULL. */
enum facet_status rocm_scratch_take(const struct rocm_math_call *call, uint64_t bytes, void **ret_memory);
void rocm_scratch_give(const struct rocm_math_call *call, void *memory);

/*
 * math_gemm.c: products in the call's type, laid out by `flags`. If `addend` is not NULL, it is one matrix in C's
 * layout, which is added to each product instead of beta times C.
 */
enum facet_status rocm_math_gemm(const struct rocm_math_call *call, const struct facet_gemm *gemm, uint32_t flags,
                                 void *addend);
/* math_convolution.c, math_activation.c, math_attention.c, math_normalization.c: run the call's operation. */
enum facet_status rocm_math_convolution(const struct rocm_math_call *call);
enum facet_status rocm_math_activation(const struct rocm_math_call *call);
enum facet_status rocm_math_attention(const struct rocm_math_call *call);
enum facet_status rocm_math_normalization(const struct rocm_math_call *call);

/* math_convolution.c: a tensor of f32; the caller destroys it unless it is NULL. */
miopenStatus_t rocm_math_tensor(const struct rocm_math *math, uint64_t n, uint64_t c, uint64_t h, uint64_t w,
                                miopenTensorDescriptor_t *ret_tensor);
/* math_activation.c: softmax over the channels of a tensor. `output` is not `input`. */
miopenStatus_t rocm_math_softmax(const struct rocm_math_call *call, miopenTensorDescriptor_t tensor, const void *input,
                                 void *output);

#endif
