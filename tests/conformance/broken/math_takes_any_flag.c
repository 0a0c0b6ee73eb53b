/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: flags that no operation has are ignored. Never: breaks anything else. */
#include "base.h"

static enum facet_status run(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                             const struct facet_math *operation, struct facet_error *error)
{
    struct facet_math changed;

    if (!operation || operation->size < sizeof *operation)
        return base_math.run(instance, context, stream, operation, error);
    changed = *operation;
    changed.flags &= 0x1f03; /* the flags that some operation has */
    return base_math.run(instance, context, stream, &changed, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->math.run = run;
}
