/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: in training, the variance is divided by n - 1 instead of n. Never: breaks anything else. */
#include "base.h"

static enum facet_status run(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                             const struct facet_math *operation, struct facet_error *error)
{
    enum facet_status status = base_math.run(instance, context, stream, operation, error);
    const float factor = 24.0f / 23; /* a channel of the suite's operation has 24 elements */

    if (status != FACET_OK || operation->operation != FACET_MATH_NORMALIZATION ||
        !(operation->flags & FACET_MATH_TRAINING))
        return status;
    base_execution.synchronize(instance, context, stream, UINT64_MAX, NULL);
    BASE_LOCK(instance);
    for (uint64_t i = 0; i < operation->of.normalization.channels; i++) {
        uint64_t at = operation->of.normalization.variance + i * sizeof factor;
        float variance = 0;

        base_access_memory(instance, context, at, &variance, NULL, sizeof variance, NULL);
        variance *= factor;
        base_access_memory(instance, context, at, NULL, &variance, sizeof variance, NULL);
    }
    return FACET_OK;
}

void base_install_fault(struct base_tables *tables)
{
    tables->math.run = run;
}
