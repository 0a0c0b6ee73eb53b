/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: cuBLASLt's own part of the fake: types and version; blaslt_fake.h has the rest. Never: multiplies int8. */
#include "vendor/cuda/cublaslt.h"

#include "math_fake.h"

#define VERSION 130100u

#define BLASLT(name)        cublasLt##name
#define BLASLT_NUMBER(name) CUBLASLT_##name
#define BLAS_NUMBER(name)   CUBLAS_##name
#define BLASLT_RESULT       cublasStatus_t
#define BLASLT_COMPUTE      cublasComputeType_t
#define BLASLT_TYPE         cudaDataType_t
#define BLASLT_STREAM       CUstream
#define BLASLT_ALGORITHM                                                                                               \
    {                                                                                                                  \
        .data = { 77 }                                                                                                 \
    }

static int blaslt_type_of(cudaDataType_t type, enum fake_type *ret_type)
{
    *ret_type = type == CUDA_R_32F ? FAKE_F32 : type == CUDA_R_16BF ? FAKE_BF16 : FAKE_F16;
    return type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F;
}

static int blaslt_has(cublasComputeType_t compute, cudaDataType_t factor, cudaDataType_t result, cudaDataType_t scale)
{
    return scale == CUDA_R_32F && factor == result &&
           (compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_PEDANTIC ||
            compute == CUBLAS_COMPUTE_32F_FAST_16BF);
}

#include "blaslt_fake.h"

size_t cublasLtGetVersion(void)
{
    return VERSION;
}

int fake_cublas_compute(void)
{
    return last_compute;
}

void *fake_cublas_stream(void)
{
    return last_stream;
}

int fake_cublas_living(void)
{
    return live_objects;
}
