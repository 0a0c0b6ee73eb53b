/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of matrices through cuBLASLt or hipBLASLt, which have the same functions with different prefixes and
 * constants.
 *
 * Owns: the layouts of operands, and the calls that multiply them. Never: names a vendor.
 *
 * One file of a provider includes this header, after these definitions:
 *
 *   - BLASLT(name): a function, member or type of the library: cublasLt##name
 *   - BLASLT_NUMBER(name): CUBLASLT_##name
 *   - BLAS_NUMBER(name): CUBLAS_##name
 *   - BLASLT_TABLE: the struct whose members are the library's functions, by their names
 *   - BLASLT_CALL: the struct of one operation, with the members `math` (the table), `blas` (the handle) and `stream`
 *   - BLASLT_RESULT, BLASLT_TYPE: the types of results and of element types
 *   - BLASLT_STATUS(result): the translation of a result
 *   - BLASLT_ADDRESS, BLASLT_TAKE, BLASLT_GIVE: memory in stream order (math_library.h)
 *
 * The library's matrices are column-major. A row-major matrix read as column-major is its transpose, so a row-major
 * product is C^T = op(B)^T * op(A)^T: only the factors change places.
 */
#ifndef FACET_KIT_GPU_BLASLT_H
#define FACET_KIT_GPU_BLASLT_H

#include <stdbool.h>

#include <facet/provider.h>

#define BLASLT_WORKSPACE_MOST (UINT64_C(32) << 20)

/* The library's constants for the element types of the factors and of C, and for the type of the computation. */
struct blaslt_types {
    BLASLT_TYPE factor, result, scale;
    int compute;
    bool integer_scales; /* alpha and beta are int32_t; else float */
};

/* The product in the library's terms: result(m x n) = left(m x k) * right(k x n). */
struct blaslt_product {
    struct blaslt_side {
        uint64_t address, rows, columns, lead, stride; /* as stored, column by column */
        int32_t operation;
    } left, right;
    uint64_t m, n;
};

static struct blaslt_product blaslt_product_of(const struct facet_gemm *gemm, uint32_t flags)
{
    bool column_major = flags & FACET_MATH_COLUMN_MAJOR;
    bool turn_a = flags & FACET_MATH_TRANSPOSE_A, turn_b = flags & FACET_MATH_TRANSPOSE_B;
    struct blaslt_side a = {gemm->a, gemm->m, gemm->k, gemm->lead_a, gemm->stride_a, BLAS_NUMBER(OP_N)};
    struct blaslt_side b = {gemm->b, gemm->k, gemm->n, gemm->lead_b, gemm->stride_b, BLAS_NUMBER(OP_N)};

    if (turn_a)
        a.operation = BLAS_NUMBER(OP_T);
    if (turn_b)
        b.operation = BLAS_NUMBER(OP_T);
    struct blaslt_product product = {.left = column_major ? a : b,
                                     .right = column_major ? b : a,
                                     .m = column_major ? gemm->m : gemm->n,
                                     .n = column_major ? gemm->n : gemm->m};
    bool turn_left = column_major ? turn_a : turn_b, turn_right = column_major ? turn_b : turn_a;

    /* op(left) is m x k, op(right) k x n. */
    product.left.rows = turn_left ? gemm->k : product.m;
    product.left.columns = turn_left ? product.m : gemm->k;
    product.right.rows = turn_right ? product.n : gemm->k;
    product.right.columns = turn_right ? gemm->k : product.n;
    return product;
}

/* The descriptors for a call of the library; NULL: not made yet. */
struct blaslt_plan {
    BLASLT(MatmulDesc_t) operation;
    BLASLT(MatrixLayout_t) left, right, addend, result;
    BLASLT(MatmulPreference_t) preference;
};

static void blaslt_drop_plan(const BLASLT_TABLE *math, struct blaslt_plan *plan)
{
    BLASLT(MatrixLayout_t) layouts[] = {plan->left, plan->right, plan->addend, plan->result};

    for (int i = 0; i < 4; i++)
        if (layouts[i])
            math->BLASLT(MatrixLayoutDestroy)(layouts[i]);
    if (plan->operation)
        math->BLASLT(MatmulDescDestroy)(plan->operation);
    if (plan->preference)
        math->BLASLT(MatmulPreferenceDestroy)(plan->preference);
}

static BLASLT_RESULT blaslt_make_layout(const BLASLT_TABLE *math, const struct blaslt_side *side, BLASLT_TYPE type,
                                        uint64_t batch, BLASLT(MatrixLayout_t) * ret_layout)
{
    int32_t count = (int32_t)batch;
    int64_t stride = (int64_t)side->stride;
    BLASLT_RESULT result =
        math->BLASLT(MatrixLayoutCreate)(ret_layout, type, side->rows, side->columns, (int64_t)side->lead);

    if (result == BLAS_NUMBER(STATUS_SUCCESS))
        result = math->BLASLT(MatrixLayoutSetAttribute)(*ret_layout, BLASLT_NUMBER(MATRIX_LAYOUT_BATCH_COUNT), &count,
                                                        sizeof count);
    if (result == BLAS_NUMBER(STATUS_SUCCESS))
        result = math->BLASLT(MatrixLayoutSetAttribute)(*ret_layout, BLASLT_NUMBER(MATRIX_LAYOUT_STRIDED_BATCH_OFFSET),
                                                        &stride, sizeof stride);
    return result;
}

static BLASLT_RESULT blaslt_make_operation(const BLASLT_TABLE *math, const struct blaslt_product *product,
                                           const struct blaslt_types *types, struct blaslt_plan *plan)
{
    uint64_t workspace = BLASLT_WORKSPACE_MOST;
    BLASLT_RESULT result = math->BLASLT(MatmulDescCreate)(&plan->operation, types->compute, types->scale);

    if (result == BLAS_NUMBER(STATUS_SUCCESS))
        result = math->BLASLT(MatmulDescSetAttribute)(plan->operation, BLASLT_NUMBER(MATMUL_DESC_TRANSA),
                                                      &product->left.operation, sizeof product->left.operation);
    if (result == BLAS_NUMBER(STATUS_SUCCESS))
        result = math->BLASLT(MatmulDescSetAttribute)(plan->operation, BLASLT_NUMBER(MATMUL_DESC_TRANSB),
                                                      &product->right.operation, sizeof product->right.operation);
    if (result == BLAS_NUMBER(STATUS_SUCCESS))
        result = math->BLASLT(MatmulPreferenceCreate)(&plan->preference);
    if (result == BLAS_NUMBER(STATUS_SUCCESS))
        result = math->BLASLT(MatmulPreferenceSetAttribute)(
            plan->preference, BLASLT_NUMBER(MATMUL_PREF_MAX_WORKSPACE_BYTES), &workspace, sizeof workspace);
    return result;
}

static BLASLT_RESULT blaslt_make_plan(const BLASLT_TABLE *math, const struct facet_gemm *gemm,
                                      const struct blaslt_product *product, const struct blaslt_types *types, bool adds,
                                      struct blaslt_plan *plan)
{
    const struct blaslt_side result_side = {
        gemm->c, product->m, product->n, gemm->lead_c, gemm->stride_c, BLAS_NUMBER(OP_N),
    };
    struct blaslt_side addend_side = result_side;
    BLASLT_RESULT result = blaslt_make_operation(math, product, types, plan);

    if (adds) /* one matrix for all products */
        addend_side.stride = 0;
    if (result == BLAS_NUMBER(STATUS_SUCCESS))
        result = blaslt_make_layout(math, &product->left, types->factor, gemm->batch, &plan->left);
    if (result == BLAS_NUMBER(STATUS_SUCCESS))
        result = blaslt_make_layout(math, &product->right, types->factor, gemm->batch, &plan->right);
    if (result == BLAS_NUMBER(STATUS_SUCCESS))
        result = blaslt_make_layout(math, &addend_side, types->result, gemm->batch, &plan->addend);
    if (result == BLAS_NUMBER(STATUS_SUCCESS))
        result = blaslt_make_layout(math, &result_side, types->result, gemm->batch, &plan->result);
    return result;
}

static enum facet_status blaslt_multiply(const BLASLT_CALL *call, const struct facet_gemm *gemm,
                                         const struct blaslt_product *product, uint64_t addend, bool integer_scales,
                                         const struct blaslt_plan *plan)
{
    BLASLT(MatmulHeuristicResult_t) choice = {0};
    float alpha = gemm->alpha, beta = addend ? 1 : gemm->beta;
    int32_t integer_alpha = (int32_t)alpha, integer_beta = (int32_t)beta;
    BLASLT_ADDRESS workspace = 0;
    int found = 0;
    BLASLT_RESULT result =
        call->math->BLASLT(MatmulAlgoGetHeuristic)(call->blas, plan->operation, plan->left, plan->right, plan->addend,
                                                   plan->result, plan->preference, 1, &choice, &found);

    if (result != BLAS_NUMBER(STATUS_SUCCESS) || !found)
        return found ? BLASLT_STATUS(result) : FACET_UNSUPPORTED;
    enum facet_status status = BLASLT_TAKE(call, choice.workspaceSize, &workspace);
    if (status != FACET_OK)
        return status;
    /* NOLINTBEGIN: the device's addresses are pointers to the library */
    result = call->math->BLASLT(Matmul)(
        call->blas, plan->operation, integer_scales ? (const void *)&integer_alpha : &alpha,
        (const void *)product->left.address, plan->left, (const void *)product->right.address, plan->right,
        integer_scales ? (const void *)&integer_beta : &beta, (const void *)(addend ? addend : gemm->c), plan->addend,
        (void *)gemm->c, plan->result, &choice.algo, (void *)workspace, choice.workspaceSize, call->stream);
    /* NOLINTEND */
    BLASLT_GIVE(call, workspace);
    return BLASLT_STATUS(result);
}

/*
 * The product, laid out by `flags`. If `addend` is not 0, it is the address of one matrix in C's layout, which is added
 * to each product instead of beta times C.
 */
static enum facet_status blaslt_gemm(const BLASLT_CALL *call, const struct facet_gemm *gemm, uint32_t flags,
                                     const struct blaslt_types *types, uint64_t addend)
{
    struct blaslt_product product = blaslt_product_of(gemm, flags);
    struct blaslt_plan plan = {0};

    if (gemm->batch > INT32_MAX)
        return FACET_UNSUPPORTED;
    BLASLT_RESULT result = blaslt_make_plan(call->math, gemm, &product, types, addend != 0, &plan);
    enum facet_status status = result == BLAS_NUMBER(STATUS_SUCCESS)
                                   ? blaslt_multiply(call, gemm, &product, addend, types->integer_scales, &plan)
                                   : BLASLT_STATUS(result);
    blaslt_drop_plan(call->math, &plan);
    return status;
}

#endif
