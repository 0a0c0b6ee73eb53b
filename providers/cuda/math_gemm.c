/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: products of matrices through cuBLASLt: its names and types (gpu/blaslt.h has the calls). Never: lets f32 be
 * multiplied in a lower precision, unless the operation allows that.
 */
#include "math_library.h"

#define BLASLT(name)          cublasLt##name
#define BLASLT_NUMBER(name)   CUBLASLT_##name
#define BLAS_NUMBER(name)     CUBLAS_##name
#define BLASLT_TABLE          struct cuda_math
#define BLASLT_CALL           struct cuda_math_call
#define BLASLT_RESULT         cublasStatus_t
#define BLASLT_TYPE           cudaDataType_t
#define BLASLT_STATUS(result) cuda_blas_status(result)
#define BLASLT_ADDRESS        CUdeviceptr
#define BLASLT_TAKE           cuda_scratch_take
#define BLASLT_GIVE           cuda_scratch_give
#include "gpu/blaslt.h"

static cudaDataType_t type_of(uint32_t type)
{
    return type == FACET_MATH_F32 ? CUDA_R_32F : type == FACET_MATH_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

/* CUBLAS_COMPUTE_32F multiplies f32 in f32, and 16-bit types on tensor cores. */
static cublasComputeType_t compute_of(const struct facet_math *operation)
{
    if (operation->flags & FACET_MATH_NO_TENSOR)
        return CUBLAS_COMPUTE_32F_PEDANTIC;
    if (operation->flags & FACET_MATH_MIXED && operation->type == FACET_MATH_F32)
        return CUBLAS_COMPUTE_32F_FAST_16BF;
    return CUBLAS_COMPUTE_32F;
}

enum facet_status cuda_math_gemm(const struct cuda_math_call *call, const struct facet_gemm *gemm, uint32_t flags,
                                 CUdeviceptr addend)
{
    cudaDataType_t type = type_of(call->operation->type);
    const struct blaslt_types types = {type, type, CUDA_R_32F, compute_of(call->operation), false};

    return blaslt_gemm(call, gemm, flags, &types, addend);
}
