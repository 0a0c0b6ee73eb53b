/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a launch with an offset is always answered FACET_BUSY, not FACET_UNSUPPORTED. Never: breaks anything else. */
#include "base.h"

static enum facet_status launch(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                const struct facet_launch *launch, const void *arguments, struct facet_error *error)
{
    if (launch && launch->size >= sizeof *launch && launch->offset[0])
        return facet_kit_fail(error, FACET_BUSY, "offset: not now");
    return base_execution.launch(instance, context, stream, launch, arguments, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.launch = launch;
}
