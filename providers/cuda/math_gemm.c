/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: products of matrices through cuBLASLt. Never: lets f32 be multiplied in less, unless it was asked to.
 *
 * cuBLASLt's matrices are column-major. A row-major one is a column-major one transposed, so a row-major product is
 * C^T = op(B)^T * op(A)^T: the factors change places, and nothing else.
 */
#include "math_library.h"

#define WORKSPACE_MOST (UINT64_C(32) << 20)

/* As the library sees it: D(m x n) = left(m x k) * right(k x n). */
struct product {
    struct side {
        uint64_t address, rows, columns, lead, stride; /* as it lies in memory, column by column */
        int32_t transposed;
    } left, right;
    uint64_t m, n;
};

static struct product product_of(const struct facet_gemm *it, uint32_t flags)
{
    bool column_major = flags & FACET_MATH_COLUMN_MAJOR;
    struct side a = {it->a, it->m, it->k, it->lead_a, it->stride_a, (flags & FACET_MATH_TRANSPOSE_A) != 0};
    struct side b = {it->b, it->k, it->n, it->lead_b, it->stride_b, (flags & FACET_MATH_TRANSPOSE_B) != 0};
    struct product product = {.left = column_major ? a : b,
                              .right = column_major ? b : a,
                              .m = column_major ? it->m : it->n,
                              .n = column_major ? it->n : it->m};

    /* op(left) is m x k, op(right) k x n. */
    product.left.rows = product.left.transposed ? it->k : product.m;
    product.left.columns = product.left.transposed ? product.m : it->k;
    product.right.rows = product.right.transposed ? product.n : it->k;
    product.right.columns = product.right.transposed ? it->k : product.n;
    return product;
}

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

/* What a call of the library needs; what is NULL was not made. */
struct plan {
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t left, right, addend, result;
    cublasLtMatmulPreference_t preference;
};

static void drop_plan(const struct cuda_math *math, struct plan *plan)
{
    cublasLtMatrixLayout_t layouts[] = {plan->left, plan->right, plan->addend, plan->result};

    for (int i = 0; i < 4; i++)
        if (layouts[i])
            math->cublasLtMatrixLayoutDestroy(layouts[i]);
    if (plan->operation)
        math->cublasLtMatmulDescDestroy(plan->operation);
    if (plan->preference)
        math->cublasLtMatmulPreferenceDestroy(plan->preference);
}

static cublasStatus_t make_layout(const struct cuda_math *math, const struct side *side, cudaDataType_t type,
                                  uint64_t batch, cublasLtMatrixLayout_t *ret_layout)
{
    int32_t count = (int32_t)batch;
    int64_t stride = (int64_t)side->stride;
    cublasStatus_t result =
        math->cublasLtMatrixLayoutCreate(ret_layout, type, side->rows, side->columns, (int64_t)side->lead);

    if (result == CUBLAS_STATUS_SUCCESS)
        result = math->cublasLtMatrixLayoutSetAttribute(*ret_layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                        sizeof count);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = math->cublasLtMatrixLayoutSetAttribute(*ret_layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                        &stride, sizeof stride);
    return result;
}

static cublasStatus_t make_operation(const struct cuda_math_call *call, const struct product *product,
                                     struct plan *plan)
{
    const struct cuda_math *math = call->math;
    uint64_t workspace = WORKSPACE_MOST;
    cublasStatus_t result = math->cublasLtMatmulDescCreate(&plan->operation, compute_of(call->operation), CUDA_R_32F);

    if (result == CUBLAS_STATUS_SUCCESS)
        result = math->cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                                      &product->left.transposed, sizeof product->left.transposed);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = math->cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB,
                                                      &product->right.transposed, sizeof product->right.transposed);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = math->cublasLtMatmulPreferenceCreate(&plan->preference);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = math->cublasLtMatmulPreferenceSetAttribute(plan->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                            &workspace, sizeof workspace);
    return result;
}

static cublasStatus_t make_plan(const struct cuda_math_call *call, const struct facet_gemm *gemm,
                                const struct product *product, bool adds, struct plan *plan)
{
    const struct side result_side = {gemm->c, product->m, product->n, gemm->lead_c, gemm->stride_c, 0};
    struct side addend_side = result_side;
    cudaDataType_t type = type_of(call->operation->type);
    cublasStatus_t result = make_operation(call, product, plan);

    if (adds) /* one for all */
        addend_side.stride = 0;
    if (result == CUBLAS_STATUS_SUCCESS)
        result = make_layout(call->math, &product->left, type, gemm->batch, &plan->left);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = make_layout(call->math, &product->right, type, gemm->batch, &plan->right);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = make_layout(call->math, &addend_side, type, gemm->batch, &plan->addend);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = make_layout(call->math, &result_side, type, gemm->batch, &plan->result);
    return result;
}

static enum facet_status multiply(const struct cuda_math_call *call, const struct facet_gemm *gemm,
                                  const struct product *product, CUdeviceptr addend, const struct plan *plan)
{
    const struct cuda_math *math = call->math;
    cublasLtMatmulHeuristicResult_t choice = {0};
    float beta = addend ? 1 : gemm->beta;
    CUdeviceptr workspace;
    int found = 0;
    cublasStatus_t result =
        math->cublasLtMatmulAlgoGetHeuristic(call->blas, plan->operation, plan->left, plan->right, plan->addend,
                                             plan->result, plan->preference, 1, &choice, &found);

    if (result != CUBLAS_STATUS_SUCCESS || !found)
        return found ? cuda_blas_status(result) : FACET_UNSUPPORTED;
    enum facet_status status = cuda_scratch_take(call, choice.workspaceSize, &workspace);
    if (status != FACET_OK)
        return status;
    /* NOLINTBEGIN: the device's addresses are pointers to the library */
    result = math->cublasLtMatmul(call->blas, plan->operation, &gemm->alpha, (const void *)product->left.address,
                                  plan->left, (const void *)product->right.address, plan->right, &beta,
                                  (const void *)(addend ? addend : gemm->c), plan->addend, (void *)gemm->c,
                                  plan->result, &choice.algo, (void *)workspace, choice.workspaceSize, call->stream);
    /* NOLINTEND */
    cuda_scratch_give(call, workspace);
    return cuda_blas_status(result);
}

enum facet_status cuda_math_gemm(const struct cuda_math_call *call, const struct facet_gemm *gemm, uint32_t flags,
                                 CUdeviceptr addend)
{
    struct product product = product_of(gemm, flags);
    struct plan plan = {0};

    if (gemm->batch > INT32_MAX)
        return FACET_UNSUPPORTED;
    cublasStatus_t result = make_plan(call, gemm, &product, addend != 0, &plan);
    enum facet_status status =
        result == CUBLAS_STATUS_SUCCESS ? multiply(call, gemm, &product, addend, &plan) : cuda_blas_status(result);
    drop_plan(call->math, &plan);
    return status;
}
