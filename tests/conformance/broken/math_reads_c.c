/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: c is read with a beta of 0. Never: breaks anything else. */
#include "base.h"

static enum facet_status run(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                             const struct facet_math *operation, struct facet_error *error)
{
    enum facet_status status = base_math.run(instance, context, stream, operation, error);

    if (status != FACET_OK)
        return status;
    BASE_LOCK(instance);
    if (operation->operation == FACET_MATH_GEMM && operation->type == FACET_MATH_F32 && operation->of.gemm.beta <= 0) {
        struct base_stream *one = base_find_stream(instance, context, stream);
        one->queue[one->queued - 1].data.math.of.gemm.beta = 0x1p-30f;
    }
    return FACET_OK;
}

void base_install_fault(struct base_tables *tables)
{
    tables->math.run = run;
}
