/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: products of matrices through hipBLASLt: its names and types (gpu/blaslt.h has the calls). Never: lets f32 be
 * multiplied in a lower precision.
 */
#include "math_library.h"

#define BLASLT(name)          hipblasLt##name
#define BLASLT_NUMBER(name)   HIPBLASLT_##name
#define BLAS_NUMBER(name)     HIPBLAS_##name
#define BLASLT_TABLE          struct rocm_math
#define BLASLT_CALL           struct rocm_math_call
#define BLASLT_RESULT         hipblasStatus_t
#define BLASLT_TYPE           hipDataType
#define BLASLT_STATUS(result) rocm_blas_status(result)
#define BLASLT_ADDRESS        void *
#define BLASLT_TAKE           rocm_scratch_take
#define BLASLT_GIVE           rocm_scratch_give
#include "gpu/blaslt.h"

static const struct blaslt_types types[FACET_MATH_TYPES] = {
    [FACET_MATH_F32] = {HIP_R_32F, HIP_R_32F, HIP_R_32F, HIPBLAS_COMPUTE_32F, false},
    [FACET_MATH_BF16] = {HIP_R_16BF, HIP_R_16BF, HIP_R_32F, HIPBLAS_COMPUTE_32F, false},
    [FACET_MATH_F16] = {HIP_R_16F, HIP_R_16F, HIP_R_32F, HIPBLAS_COMPUTE_32F, false},
    [FACET_MATH_INT8] = {HIP_R_8I, HIP_R_32I, HIP_R_32I, HIPBLAS_COMPUTE_32I, true},
};

enum facet_status rocm_math_gemm(const struct rocm_math_call *call, const struct facet_gemm *gemm, uint32_t flags,
                                 void *addend)
{
    return blaslt_gemm(call, gemm, flags, &types[call->operation->type], (uintptr_t)addend);
}
