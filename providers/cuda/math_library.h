/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mathematics by NVIDIA's libraries, opened at run time.
 *
 * Owns: the tables of cuBLASLt's and cuDNN's functions, their handles, and the functions that operations share.
 * Never: computes anything, or runs an operation in a thread other than the executor's.
 *
 * The libraries are libcublasLt.so.13 to 11 and libcudnn.so.9 or 8, or the files that FACET_CUDA_CUBLASLT and
 * FACET_CUDA_CUDNN name. Products of matrices need the first, convolution and activation the second, attention both.
 * Without both there is no mathematics.
 *
 *   - gemm: f32, bf16, f16. Not int8: cuBLASLt has it only for one layout and multiples of 4.
 *   - convolution: f32, forward. Not the 16-bit types: cuDNN adds no f32 bias to them before it rounds.
 *   - activation: f32, bf16, f16.
 *   - attention: f32, by products, a softmax and, if causal, a mask that is added. All scores are in memory at a time.
 *     Not the 16-bit types: the ABI has scores in f32, for which they need cuDNN's fused graphs.
 *   - normalization: f32, bf16, f16. In training cuDNN returns the sample's variance, from which the ABI's is computed;
 *     so channels of one element, which have none, are not supported.
 */
#ifndef FACET_CUDA_MATH_LIBRARY_H
#define FACET_CUDA_MATH_LIBRARY_H

#include <pthread.h>

#include <facet/provider.h>

#include "driver.h"
#include "gpu/machine.h"
#include "vendor/cuda/cublaslt.h"
#include "vendor/cuda/cudnn.h"

#define CUDA_BLAS(X)                                                                                                   \
    X(cublasLtCreate)                                                                                                  \
    X(cublasLtDestroy)                                                                                                 \
    X(cublasLtGetVersion)                                                                                              \
    X(cublasLtMatmulDescCreate)                                                                                        \
    X(cublasLtMatmulDescDestroy)                                                                                       \
    X(cublasLtMatmulDescSetAttribute)                                                                                  \
    X(cublasLtMatrixLayoutCreate)                                                                                      \
    X(cublasLtMatrixLayoutDestroy)                                                                                     \
    X(cublasLtMatrixLayoutSetAttribute)                                                                                \
    X(cublasLtMatmulPreferenceCreate)                                                                                  \
    X(cublasLtMatmulPreferenceDestroy)                                                                                 \
    X(cublasLtMatmulPreferenceSetAttribute)                                                                            \
    X(cublasLtMatmulAlgoGetHeuristic)                                                                                  \
    X(cublasLtMatmul)

#define CUDA_DNN(X)                                                                                                    \
    X(cudnnGetVersion)                                                                                                 \
    X(cudnnCreate)                                                                                                     \
    X(cudnnDestroy)                                                                                                    \
    X(cudnnSetStream)                                                                                                  \
    X(cudnnCreateTensorDescriptor)                                                                                     \
    X(cudnnDestroyTensorDescriptor)                                                                                    \
    X(cudnnSetTensor4dDescriptor)                                                                                      \
    X(cudnnCreateFilterDescriptor)                                                                                     \
    X(cudnnDestroyFilterDescriptor)                                                                                    \
    X(cudnnSetFilter4dDescriptor)                                                                                      \
    X(cudnnCreateConvolutionDescriptor)                                                                                \
    X(cudnnDestroyConvolutionDescriptor)                                                                               \
    X(cudnnSetConvolution2dDescriptor)                                                                                 \
    X(cudnnSetConvolutionMathType)                                                                                     \
    X(cudnnSetConvolutionGroupCount)                                                                                   \
    X(cudnnGetConvolutionForwardAlgorithm_v7)                                                                          \
    X(cudnnConvolutionForward)                                                                                         \
    X(cudnnAddTensor)                                                                                                  \
    X(cudnnSoftmaxForward)                                                                                             \
    X(cudnnBackendCreateDescriptor)                                                                                    \
    X(cudnnBackendDestroyDescriptor)                                                                                   \
    X(cudnnBackendSetAttribute)                                                                                        \
    X(cudnnBackendGetAttribute)                                                                                        \
    X(cudnnBackendFinalize)                                                                                            \
    X(cudnnBackendExecute)

/* Deprecated since cuDNN 9: a later library may lack these functions, and then normalization is not offered. */
#define CUDA_DNN_NORMALIZATION(X)                                                                                      \
    X(cudnnScaleTensor)                                                                                                \
    X(cudnnBatchNormalizationForwardInference)                                                                         \
    X(cudnnBatchNormalizationForwardTraining)

struct cuda_math {
    void *blas_library, *dnn_library; /* NULL: the library is absent, or lacks a function */
    bool normalizes;
#define CUDA_MEMBER(name) __typeof__(&name) name;
    CUDA_BLAS(CUDA_MEMBER)
    CUDA_DNN(CUDA_MEMBER)
    CUDA_DNN_NORMALIZATION(CUDA_MEMBER)
#undef CUDA_MEMBER
    cublasLtHandle_t blas[GPU_MOST]; /* made with the first operation on a device; used by the executor's thread */
    cudnnHandle_t dnn[GPU_MOST];
};

/* One operation, in the executor's thread, with the device's context current. */
struct cuda_math_call {
    const struct cuda_driver *driver;
    const struct cuda_math *math;
    cublasLtHandle_t blas;
    cudnnHandle_t dnn;
    CUstream stream;
    const struct facet_math *operation;
};

/* Opens the libraries that exist. */
void cuda_math_open(struct cuda_math *ret_math);
/* Ends the handles on a device whose context is current. */
void cuda_math_leave(struct cuda_math *math, uint32_t device);

extern const struct facet_math_ops cuda_math_ops;

/* Translates a library's result. */
enum facet_status cuda_blas_status(cublasStatus_t result);
enum facet_status cuda_dnn_status(cudnnStatus_t result);

/* Memory in stream order: allocated and freed by the stream. 0 bytes: none, address 0. */
enum facet_status cuda_scratch_take(const struct cuda_math_call *call, uint64_t bytes, CUdeviceptr *ret_address);
void cuda_scratch_give(const struct cuda_math_call *call, CUdeviceptr address);

/*
 * math_gemm.c: products in the call's type, laid out by `flags`. If `addend` is not 0, it is the address of one matrix
 * in C's layout, which is added to each product instead of beta times C.
 */
enum facet_status cuda_math_gemm(const struct cuda_math_call *call, const struct facet_gemm *gemm, uint32_t flags,
                                 CUdeviceptr addend);
/* math_convolution.c, math_activation.c, math_normalization.c, math_attention.c: run the call's operation. */
enum facet_status cuda_math_convolution(const struct cuda_math_call *call);
enum facet_status cuda_math_activation(const struct cuda_math_call *call);
enum facet_status cuda_math_normalization(const struct cuda_math_call *call);
enum facet_status cuda_math_attention(const struct cuda_math_call *call);

/* math_activation.c: softmax over the channels of a tensor of type `type`. */
enum facet_status cuda_math_softmax(const struct cuda_math_call *call, cudnnDataType_t type, CUdeviceptr input,
                                    CUdeviceptr output, const uint64_t sizes[4]);

#endif
