/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: sums are rounded at each step. Never: breaks anything else. */
#include "base.h"

/* Runs the product in pieces of one element of k, each of which is added to c, and so rounded. */
static enum facet_status run(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                             const struct facet_math *operation, struct facet_error *error)
{
    enum facet_status status = base_math.run(instance, context, stream, operation, error);

    if (status != FACET_OK || operation->operation != FACET_MATH_GEMM || operation->type != FACET_MATH_BF16 ||
        operation->flags || operation->of.gemm.batch || operation->of.gemm.beta > 0)
        return status;
    BASE_LOCK(instance);
    struct base_stream *one = base_find_stream(instance, context, stream);
    struct facet_math step = *operation;
    base_finish(one, one->queued - 1, FACET_OK, 1);
    step.of.gemm.lead_a = operation->of.gemm.k;
    step.of.gemm.k = 1;
    for (uint64_t i = 0; i < operation->of.gemm.k; i++) {
        step.of.gemm.a = operation->of.gemm.a + 2 * i;
        step.of.gemm.b = operation->of.gemm.b + 2 * i * operation->of.gemm.n;
        step.of.gemm.beta = i > 0;
        base_math_perform(instance, context, &step);
    }
    return FACET_OK;
}

void base_install_fault(struct base_tables *tables)
{
    tables->math.run = run;
}
