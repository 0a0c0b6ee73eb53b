/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: an operation is done at once, before the work that is queued before it. Never: breaks anything else. */
#include "base.h"

static enum facet_status run(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                             const struct facet_math *operation, struct facet_error *error)
{
    enum facet_status status = base_math.run(instance, context, stream, operation, error);

    BASE_LOCK(instance);
    struct base_stream *one = base_find_stream(instance, context, stream);
    if (status == FACET_OK && one->queued > 1) {
        base_math_perform(instance, context, operation);
        base_finish(one, one->queued - 1, FACET_OK, 1);
    }
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->math.run = run;
}
