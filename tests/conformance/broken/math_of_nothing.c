/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: sizes of 0 are taken for 1. Never: breaks anything else. */
#include "base.h"

static enum facet_status run(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                             const struct facet_math *operation, struct facet_error *error)
{
    struct facet_math changed;

    if (!operation || operation->size < sizeof *operation)
        return base_math.run(instance, context, stream, operation, error);
    changed = *operation;
    if (changed.operation == FACET_MATH_GEMM && changed.of.gemm.m == 0)
        changed.of.gemm.m = 1;
    return base_math.run(instance, context, stream, &changed, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->math.run = run;
}
