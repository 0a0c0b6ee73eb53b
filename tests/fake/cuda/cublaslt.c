/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: products of matrices as cuBLASLt makes them. Never: takes a layout that is too small for its lead, or a
 * workspace that it did not ask for. */
#include "vendor/cuda/cublaslt.h"

#include <stdbool.h>
#include <stdlib.h>

#include "math_fake.h"

#define VERSION   130100u
#define WORKSPACE 4096u

struct cublasLtContext {
    int alive;
};
struct cublasLtMatmulDescOpaque_st {
    cublasComputeType_t compute;
    int32_t transposed[2];
};
struct cublasLtMatrixLayoutOpaque_st {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t lead, stride;
    int32_t batch;
};
struct cublasLtMatmulPreferenceOpaque_st {
    uint64_t workspace;
};

static _Atomic int last_compute = -1, living;

int fake_cublas_compute(void)
{
    return last_compute;
}

int fake_cublas_living(void)
{
    return living;
}

static void *make(size_t size)
{
    void *made = calloc(1, size);

    if (!made)
        abort();
    living++;
    return made;
}

static cublasStatus_t drop(void *object)
{
    living -= object != NULL;
    free(object);
    return object ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = make(sizeof **handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return drop(handle);
}

size_t cublasLtGetVersion(void)
{
    return VERSION;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    if (scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *operation = make(sizeof **operation);
    (*operation)->compute = compute;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation)
{
    return drop(operation);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, int attribute, const void *value,
                                              size_t size)
{
    if (size != sizeof(int32_t) || attribute < CUBLASLT_MATMUL_DESC_TRANSA || attribute > CUBLASLT_MATMUL_DESC_TRANSB)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&operation->transposed[attribute - CUBLASLT_MATMUL_DESC_TRANSA], value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t lead)
{
    if (!rows || !columns || lead < (int64_t)rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    *layout = make(sizeof **layout);
    **layout = (struct cublasLtMatrixLayoutOpaque_st){type, rows, columns, lead, 0, 1};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return drop(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, int attribute, const void *value,
                                                size_t size)
{
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && size == sizeof layout->batch)
        memcpy(&layout->batch, value, size);
    else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && size == sizeof layout->stride)
        memcpy(&layout->stride, value, size);
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = make(sizeof **preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return drop(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, int attribute,
                                                    const void *value, size_t size)
{
    if (attribute != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES || size != sizeof preference->workspace)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&preference->workspace, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- multiplying ---- */

static bool type_of(cudaDataType_t type, enum fake_type *ret_type)
{
    *ret_type = type == CUDA_R_32F ? FAKE_F32 : type == CUDA_R_16BF ? FAKE_BF16 : FAKE_F16;
    return type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F;
}

/* Rows and columns as they are multiplied. */
static uint64_t side(cublasLtMatrixLayout_t layout, bool transposed, bool columns)
{
    return transposed != columns ? layout->columns : layout->rows;
}

static bool fits(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                 cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d)
{
    bool ta = operation->transposed[0], tb = operation->transposed[1];

    return side(a, ta, false) == d->rows && side(b, tb, true) == d->columns &&
           side(a, ta, true) == side(b, tb, false) && c->rows == d->rows && c->columns == d->columns &&
           a->type == b->type && c->type == d->type && a->batch == d->batch && b->batch == d->batch &&
           c->batch == d->batch;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *count)
{
    if (!handle || wanted < 1 || !fits(operation, a, b, c, d))
        return CUBLAS_STATUS_INVALID_VALUE;
    *results = (cublasLtMatmulHeuristicResult_t){.algo = {{WORKSPACE}},
                                                 .workspaceSize = preference->workspace < WORKSPACE ? 0 : WORKSPACE};
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

static float factor(enum fake_type type, const void *matrix, uint64_t index, cublasComputeType_t compute)
{
    float value = fake_get(type, matrix, index);

    return compute == CUBLAS_COMPUTE_32F_FAST_16BF ? fake_of_bf16(fake_to_bf16(value)) : value;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t al, const void *b, cublasLtMatrixLayout_t bl, const void *beta,
                              const void *c, cublasLtMatrixLayout_t cl, void *d, cublasLtMatrixLayout_t dl,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
                              CUstream stream)
{
    bool ta = operation->transposed[0], tb = operation->transposed[1];
    uint64_t depth = side(al, ta, true);
    enum fake_type type, out;

    if (!handle || !fits(operation, al, bl, cl, dl) || workspace_bytes < algorithm->data[0] || !workspace)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!type_of(al->type, &type) || !type_of(dl->type, &out))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    last_compute = operation->compute;
    for (int32_t n = 0; n < dl->batch; n++)
        for (uint64_t j = 0; j < dl->columns; j++)
            for (uint64_t i = 0; i < dl->rows; i++) {
                float sum = 0, scale = *(const float *)beta;

                for (uint64_t l = 0; l < depth; l++) {
                    uint64_t at = ta ? l + i * (uint64_t)al->lead : i + l * (uint64_t)al->lead;
                    uint64_t bt = tb ? j + l * (uint64_t)bl->lead : l + j * (uint64_t)bl->lead;

                    sum += factor(type, a, (uint64_t)(n * al->stride) + at, operation->compute) *
                           factor(type, b, (uint64_t)(n * bl->stride) + bt, operation->compute);
                }
                sum *= *(const float *)alpha;
                if (scale < 0 || scale > 0)
                    sum += scale * fake_get(out, c, (uint64_t)(n * cl->stride) + i + j * (uint64_t)cl->lead);
                fake_put(out, d, (uint64_t)(n * dl->stride) + i + j * (uint64_t)dl->lead, sum);
            }
    return CUBLAS_STATUS_SUCCESS;
}
