/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: an operation counts as two launches. Never: breaks anything else. */
#include "base.h"

static enum facet_status run(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                             const struct facet_math *operation, struct facet_error *error)
{
    enum facet_status status = base_math.run(instance, context, stream, operation, error);

    return status == FACET_OK ? base_math.run(instance, context, stream, operation, error) : status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->math.run = run;
}
