/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a launch in the shorter struct of ABI 1.1 is refused. Never: breaks anything else. */
#include "base.h"

static enum facet_status launch(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                const struct facet_launch *launch, const void *arguments, struct facet_error *error)
{
    if (launch && launch->size >= offsetof(struct facet_launch, offset) && launch->size < sizeof *launch)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "launch: expected %zu bytes", sizeof *launch);
    return base_execution.launch(instance, context, stream, launch, arguments, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.launch = launch;
}
