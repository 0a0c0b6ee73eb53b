/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of matrices as cuBLASLt and hipBLASLt make them: the functions that both have, under the library's prefix.
 *
 * Owns: descriptors and layouts, the checks that they fit together, and multiplying. Never: accepts a layout whose
 * leading dimension is too small, or a workspace smaller than the algorithm's; is linked by anything that ships.
 *
 * Included by one file of a fake library, which defines before:
 *
 *     BLASLT(name), BLASLT_NUMBER(name), BLAS_NUMBER(name)  as providers/kit/gpu/blaslt.h says
 *     BLASLT_RESULT, BLASLT_COMPUTE, BLASLT_TYPE, BLASLT_STREAM  types that the two libraries name differently
 *     BLASLT_ALGORITHM  the initializer of the algorithm that is chosen
 *     blaslt_type_of(type, &fake_type)  false: the library has no such elements
 *     blaslt_has(compute, factor, result, scale)  whether the library multiplies these types
 */
#ifndef FAKE_CUDA_BLASLT_FAKE_H
#define FAKE_CUDA_BLASLT_FAKE_H

#include "living_fake.h"
#include "math_fake.h"

#define WORKSPACE 4096u /* bytes that the algorithm asks for */

struct BLASLT(Context) {
    int alive;
};
struct BLASLT(MatmulDescOpaque_st) {
    BLASLT_COMPUTE compute;
    BLASLT_TYPE scale;
    int32_t operations[2];
};
struct BLASLT(MatrixLayoutOpaque_st) {
    BLASLT_TYPE type;
    uint64_t rows, columns;
    int64_t lead, stride;
    int32_t batch;
};
struct BLASLT(MatmulPreferenceOpaque_st) {
    uint64_t workspace;
};

static _Atomic int last_compute = -1;
static _Atomic(void *) last_stream;

static BLASLT_RESULT end_object(void *object)
{
    return free_object(object) ? BLAS_NUMBER(STATUS_SUCCESS) : BLAS_NUMBER(STATUS_INVALID_VALUE);
}

BLASLT_RESULT BLASLT(Create)(BLASLT(Handle_t) * handle)
{
    *handle = make_object(sizeof **handle);
    return BLAS_NUMBER(STATUS_SUCCESS);
}

BLASLT_RESULT BLASLT(Destroy)(BLASLT(Handle_t) handle)
{
    return end_object(handle);
}

BLASLT_RESULT BLASLT(MatmulDescCreate)(BLASLT(MatmulDesc_t) * operation, BLASLT_COMPUTE compute, BLASLT_TYPE scale)
{
    *operation = make_object(sizeof **operation);
    **operation = (struct BLASLT(MatmulDescOpaque_st)){compute, scale, {BLAS_NUMBER(OP_N), BLAS_NUMBER(OP_N)}};
    return BLAS_NUMBER(STATUS_SUCCESS);
}

BLASLT_RESULT BLASLT(MatmulDescDestroy)(BLASLT(MatmulDesc_t) operation)
{
    return end_object(operation);
}

BLASLT_RESULT BLASLT(MatmulDescSetAttribute)(BLASLT(MatmulDesc_t) operation, int attribute, const void *value,
                                             size_t size)
{
    int32_t transpose;

    if (size != sizeof transpose ||
        (attribute != BLASLT_NUMBER(MATMUL_DESC_TRANSA) && attribute != BLASLT_NUMBER(MATMUL_DESC_TRANSB)))
        return BLAS_NUMBER(STATUS_INVALID_VALUE);
    memcpy(&transpose, value, size);
    if (transpose != BLAS_NUMBER(OP_N) && transpose != BLAS_NUMBER(OP_T))
        return BLAS_NUMBER(STATUS_INVALID_VALUE);
    operation->operations[attribute - BLASLT_NUMBER(MATMUL_DESC_TRANSA)] = transpose;
    return BLAS_NUMBER(STATUS_SUCCESS);
}

BLASLT_RESULT BLASLT(MatrixLayoutCreate)(BLASLT(MatrixLayout_t) * layout, BLASLT_TYPE type, uint64_t rows,
                                         uint64_t columns, int64_t lead)
{
    if (!rows || !columns || lead < (int64_t)rows)
        return BLAS_NUMBER(STATUS_INVALID_VALUE);
    *layout = make_object(sizeof **layout);
    **layout = (struct BLASLT(MatrixLayoutOpaque_st)){type, rows, columns, lead, 0, 1};
    return BLAS_NUMBER(STATUS_SUCCESS);
}

BLASLT_RESULT BLASLT(MatrixLayoutDestroy)(BLASLT(MatrixLayout_t) layout)
{
    return end_object(layout);
}

BLASLT_RESULT BLASLT(MatrixLayoutSetAttribute)(BLASLT(MatrixLayout_t) layout, int attribute, const void *value,
                                               size_t size)
{
    if (attribute == BLASLT_NUMBER(MATRIX_LAYOUT_BATCH_COUNT) && size == sizeof layout->batch)
        memcpy(&layout->batch, value, size);
    else if (attribute == BLASLT_NUMBER(MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) && size == sizeof layout->stride)
        memcpy(&layout->stride, value, size);
    else
        return BLAS_NUMBER(STATUS_INVALID_VALUE);
    return BLAS_NUMBER(STATUS_SUCCESS);
}

BLASLT_RESULT BLASLT(MatmulPreferenceCreate)(BLASLT(MatmulPreference_t) * preference)
{
    *preference = make_object(sizeof **preference);
    return BLAS_NUMBER(STATUS_SUCCESS);
}

BLASLT_RESULT BLASLT(MatmulPreferenceDestroy)(BLASLT(MatmulPreference_t) preference)
{
    return end_object(preference);
}

BLASLT_RESULT BLASLT(MatmulPreferenceSetAttribute)(BLASLT(MatmulPreference_t) preference, int attribute,
                                                   const void *value, size_t size)
{
    if (attribute != BLASLT_NUMBER(MATMUL_PREF_MAX_WORKSPACE_BYTES) || size != sizeof preference->workspace)
        return BLAS_NUMBER(STATUS_INVALID_VALUE);
    memcpy(&preference->workspace, value, size);
    return BLAS_NUMBER(STATUS_SUCCESS);
}

/* ---- multiplying ---- */

static bool is_transposed(BLASLT(MatmulDesc_t) operation, int which)
{
    return operation->operations[which] == BLAS_NUMBER(OP_T);
}

/* The number of rows, or of columns, of op(matrix). */
static uint64_t matrix_side(BLASLT(MatrixLayout_t) layout, bool transposed, bool columns)
{
    return transposed != columns ? layout->columns : layout->rows;
}

static bool shapes_fit(BLASLT(MatmulDesc_t) operation, BLASLT(MatrixLayout_t) a, BLASLT(MatrixLayout_t) b,
                       BLASLT(MatrixLayout_t) c, BLASLT(MatrixLayout_t) d)
{
    bool ta = is_transposed(operation, 0), tb = is_transposed(operation, 1);

    return matrix_side(a, ta, false) == d->rows && matrix_side(b, tb, true) == d->columns &&
           matrix_side(a, ta, true) == matrix_side(b, tb, false) && c->rows == d->rows && c->columns == d->columns &&
           a->type == b->type && c->type == d->type && a->batch == d->batch && b->batch == d->batch &&
           c->batch == d->batch;
}

BLASLT_RESULT BLASLT(MatmulAlgoGetHeuristic)(BLASLT(Handle_t) handle, BLASLT(MatmulDesc_t) operation,
                                             BLASLT(MatrixLayout_t) a, BLASLT(MatrixLayout_t) b,
                                             BLASLT(MatrixLayout_t) c, BLASLT(MatrixLayout_t) d,
                                             BLASLT(MatmulPreference_t) preference, int wanted,
                                             BLASLT(MatmulHeuristicResult_t) * results, int *count)
{
    if (!handle || wanted < 1 || !shapes_fit(operation, a, b, c, d))
        return BLAS_NUMBER(STATUS_INVALID_VALUE);
    *count = blaslt_has(operation->compute, a->type, d->type, operation->scale);
    if (*count)
        *results = (BLASLT(MatmulHeuristicResult_t)){
            .algo = BLASLT_ALGORITHM, .workspaceSize = preference->workspace < WORKSPACE ? 0 : WORKSPACE};
    return BLAS_NUMBER(STATUS_SUCCESS);
}

/* One product of a batch: where each matrix begins, and how op(A)'s rows and op(B)'s columns are walked. */
struct product {
    enum fake_type factor, result;
    const void *a, *b, *c;
    void *d;
    uint64_t a_at, b_at, c_at, d_at, a_step, b_step, depth;
    bool round_factors; /* factors are rounded to bf16 */
};

static float factor_of(const struct product *product, const void *matrix, uint64_t index)
{
    float value = fake_get(product->factor, matrix, index);

    return product->round_factors ? fake_of_bf16(fake_to_bf16(value)) : value;
}

static void store_float(const struct product *product, float alpha, float beta)
{
    float sum = 0;

    for (uint64_t l = 0; l < product->depth; l++)
        sum += factor_of(product, product->a, product->a_at + l * product->a_step) *
               factor_of(product, product->b, product->b_at + l * product->b_step);
    sum *= alpha;
    if (beta < 0 || beta > 0)
        sum += beta * fake_get(product->result, product->c, product->c_at);
    fake_put(product->result, product->d, product->d_at, sum);
}

static void store_integers(const struct product *product, int32_t alpha, int32_t beta)
{
    const int8_t *a = product->a, *b = product->b;
    uint32_t sum = 0;

    for (uint64_t l = 0; l < product->depth; l++)
        sum += (uint32_t)(a[product->a_at + l * product->a_step] * b[product->b_at + l * product->b_step]);
    sum *= (uint32_t)alpha;
    if (beta)
        sum += (uint32_t)beta * (uint32_t)((const int32_t *)product->c)[product->c_at];
    ((int32_t *)product->d)[product->d_at] = (int32_t)sum;
}

BLASLT_RESULT BLASLT(Matmul)(BLASLT(Handle_t) handle, BLASLT(MatmulDesc_t) operation, const void *alpha, const void *a,
                             BLASLT(MatrixLayout_t) al, const void *b, BLASLT(MatrixLayout_t) bl, const void *beta,
                             const void *c, BLASLT(MatrixLayout_t) cl, void *d, BLASLT(MatrixLayout_t) dl,
                             const BLASLT(MatmulAlgo_t) * algorithm, void *workspace, size_t workspace_bytes,
                             BLASLT_STREAM stream)
{
    static const BLASLT(MatmulAlgo_t) chosen = BLASLT_ALGORITHM;
    bool ta = is_transposed(operation, 0), tb = is_transposed(operation, 1);
    struct product product = {.a = a, .b = b, .c = c, .d = d, .depth = matrix_side(al, ta, true)};

    if (!handle || !shapes_fit(operation, al, bl, cl, dl) || memcmp(&chosen, algorithm, sizeof chosen) != 0 ||
        workspace_bytes < WORKSPACE || !workspace)
        return BLAS_NUMBER(STATUS_INVALID_VALUE);
    if (!blaslt_type_of(al->type, &product.factor) || !blaslt_type_of(dl->type, &product.result) ||
        !blaslt_has(operation->compute, al->type, dl->type, operation->scale))
        return BLAS_NUMBER(STATUS_NOT_SUPPORTED);
    last_compute = operation->compute;
    last_stream = stream;
    product.round_factors = operation->compute == BLAS_NUMBER(COMPUTE_32F_FAST_16BF);
    product.a_step = ta ? 1 : (uint64_t)al->lead;
    product.b_step = tb ? (uint64_t)bl->lead : 1;
    for (int32_t n = 0; n < dl->batch; n++)
        for (uint64_t j = 0; j < dl->columns; j++)
            for (uint64_t i = 0; i < dl->rows; i++) {
                product.a_at = (uint64_t)(n * al->stride) + (ta ? i * (uint64_t)al->lead : i);
                product.b_at = (uint64_t)(n * bl->stride) + (tb ? j : j * (uint64_t)bl->lead);
                product.c_at = (uint64_t)(n * cl->stride) + i + j * (uint64_t)cl->lead;
                product.d_at = (uint64_t)(n * dl->stride) + i + j * (uint64_t)dl->lead;
                if (product.result == FAKE_INT32)
                    store_integers(&product, *(const int32_t *)alpha, *(const int32_t *)beta);
                else
                    store_float(&product, *(const float *)alpha, *(const float *)beta);
            }
    return BLAS_NUMBER(STATUS_SUCCESS);
}

#endif
