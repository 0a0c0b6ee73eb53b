/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: gemm as a product: layouts and transposes become strides. Never: multiplies. */
#include "math/product.h"

static struct cpu_math_matrix matrix_of(uint64_t address, uint64_t lead, uint64_t stride, bool turned)
{
    return (struct cpu_math_matrix){address, turned ? 1 : lead, turned ? lead : 1, stride};
}

/* In column-major order C = A * B is the row-major product of the transposes: C' = B' * A'. */
enum facet_status cpu_math_prepare_gemm(struct cpu_math_engine *engine, const struct facet_math *operation,
                                        struct cpu_math_prepared **ret_prepared, struct facet_error *error)
{
    const struct facet_gemm *gemm = &operation->of.gemm;
    bool columns = operation->flags & FACET_MATH_COLUMN_MAJOR;
    bool turn_a = operation->flags & FACET_MATH_TRANSPOSE_A, turn_b = operation->flags & FACET_MATH_TRANSPOSE_B;
    const struct cpu_math_matrix a = matrix_of(gemm->a, gemm->lead_a, gemm->stride_a, turn_a),
                                 b = matrix_of(gemm->b, gemm->lead_b, gemm->stride_b, turn_b);
    const struct cpu_math_product product = {
        .operation = "gemm",
        .a = columns ? b : a,
        .b = columns ? a : b,
        .c = matrix_of(gemm->c, gemm->lead_c, gemm->stride_c, false),
        .m = columns ? gemm->n : gemm->m,
        .n = columns ? gemm->m : gemm->n,
        .k = gemm->k,
        .batch = gemm->batch,
        .type = operation->type,
        .flags = operation->flags,
        .alpha = gemm->alpha,
        .beta = gemm->beta,
    };

    return cpu_math_product_prepare(engine, &product, ret_prepared, error);
}
