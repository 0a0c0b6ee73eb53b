/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hipBLASLt, as far as products of matrices need it.
 *
 * Owns: declarations, as vendor/hip/runtime.h says; of versions 0.7 (ROCm 6.1) to 1.x (ROCm 7). Enumerations are int
 * here, and opaque types have a struct of their own where the vendor has void and arrays of numbers.
 *
 * Source: hipblaslt/hipblaslt.h (functions, attributes, hipblasLtMatmulAlgo_t and the struct that contains it),
 * hipblas-common/hipblas-common.h (hipblasStatus_t, hipblasOperation_t, hipblasComputeType_t), hip/library_types.h
 * (hipDataType). Versions up to 0.6 number types and attributes differently; hipblasLtGetVersion() returns the version.
 */
#ifndef VENDOR_HIP_HIPBLASLT_H
#define VENDOR_HIP_HIPBLASLT_H

#include "vendor/hip/runtime.h"

typedef int hipblasStatus_t;
enum {
    HIPBLAS_STATUS_SUCCESS = 0,
    HIPBLAS_STATUS_NOT_INITIALIZED = 1,
    HIPBLAS_STATUS_ALLOC_FAILED = 2,
    HIPBLAS_STATUS_INVALID_VALUE = 3,
    HIPBLAS_STATUS_EXECUTION_FAILED = 5,
    HIPBLAS_STATUS_INTERNAL_ERROR = 6,
    HIPBLAS_STATUS_NOT_SUPPORTED = 7,
    HIPBLAS_STATUS_ARCH_MISMATCH = 8,
};

/* The type of products and sums. */
typedef int hipblasComputeType_t;
enum {
    HIPBLAS_COMPUTE_32F = 2,
    HIPBLAS_COMPUTE_32F_FAST_16BF = 5,
    HIPBLAS_COMPUTE_32I = 9,
};

typedef int hipDataType;
enum {
    HIP_R_32F = 0,
    HIP_R_16F = 2,
    HIP_R_8I = 3,
    HIP_R_32I = 10,
    HIP_R_16BF = 14,
};

/* hipblasOperation_t, as an attribute's value. */
enum {
    HIPBLAS_OP_N = 111,
    HIPBLAS_OP_T = 112,
};

enum {
    HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 0,          /* int32_t */
    HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 1, /* int64_t, in elements */
};
enum {
    HIPBLASLT_MATMUL_DESC_TRANSA = 0, /* int32_t */
    HIPBLASLT_MATMUL_DESC_TRANSB = 1, /* int32_t */
};
enum {
    HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1, /* uint64_t */
};

typedef struct hipblasLtContext *hipblasLtHandle_t;
typedef struct hipblasLtMatmulDescOpaque_st *hipblasLtMatmulDesc_t;
typedef struct hipblasLtMatrixLayoutOpaque_st *hipblasLtMatrixLayout_t;
typedef struct hipblasLtMatmulPreferenceOpaque_st *hipblasLtMatmulPreference_t;

typedef struct {
    uint8_t data[16];
    size_t max_workspace_bytes;
} hipblasLtMatmulAlgo_t;

typedef struct {
    hipblasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    hipblasStatus_t state;
    float wavesCount;
    int reserved[4];
} hipblasLtMatmulHeuristicResult_t;

/* A handle belongs to the current device. */
hipblasStatus_t hipblasLtCreate(hipblasLtHandle_t *handle);
hipblasStatus_t hipblasLtDestroy(hipblasLtHandle_t handle);
hipblasStatus_t hipblasLtGetVersion(hipblasLtHandle_t handle, int *version); /* 1201 is 0.12.1, 100100 is 1.1.0 */
hipblasStatus_t hipblasLtMatmulDescCreate(hipblasLtMatmulDesc_t *operation, hipblasComputeType_t compute,
                                          hipDataType scale);
hipblasStatus_t hipblasLtMatmulDescDestroy(hipblasLtMatmulDesc_t operation);
hipblasStatus_t hipblasLtMatmulDescSetAttribute(hipblasLtMatmulDesc_t operation, int attribute, const void *value,
                                                size_t size);
hipblasStatus_t hipblasLtMatrixLayoutCreate(hipblasLtMatrixLayout_t *layout, hipDataType type, uint64_t rows,
                                            uint64_t columns, int64_t lead);
hipblasStatus_t hipblasLtMatrixLayoutDestroy(hipblasLtMatrixLayout_t layout);
hipblasStatus_t hipblasLtMatrixLayoutSetAttribute(hipblasLtMatrixLayout_t layout, int attribute, const void *value,
                                                  size_t size);
hipblasStatus_t hipblasLtMatmulPreferenceCreate(hipblasLtMatmulPreference_t *preference);
hipblasStatus_t hipblasLtMatmulPreferenceDestroy(hipblasLtMatmulPreference_t preference);
hipblasStatus_t hipblasLtMatmulPreferenceSetAttribute(hipblasLtMatmulPreference_t preference, int attribute,
                                                      const void *value, size_t size);
hipblasStatus_t hipblasLtMatmulAlgoGetHeuristic(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t operation,
                                                hipblasLtMatrixLayout_t a, hipblasLtMatrixLayout_t b,
                                                hipblasLtMatrixLayout_t c, hipblasLtMatrixLayout_t d,
                                                hipblasLtMatmulPreference_t preference, int wanted,
                                                hipblasLtMatmulHeuristicResult_t *results, int *count);
/* D = alpha * op(A) * op(B) + beta * C; all matrices are column-major. alpha and beta are of the scale's type. */
hipblasStatus_t hipblasLtMatmul(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t operation, const void *alpha,
                                const void *a, hipblasLtMatrixLayout_t a_layout, const void *b,
                                hipblasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                                hipblasLtMatrixLayout_t c_layout, void *d, hipblasLtMatrixLayout_t d_layout,
                                const hipblasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
                                hipStream_t stream);

#endif
