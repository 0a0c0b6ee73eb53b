/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a launch may have 4 dimensions. Never: breaks anything else. */
#include "base.h"

static enum facet_status launch(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                const struct facet_launch *launch, const void *arguments, struct facet_error *error)
{
    struct facet_launch other;

    if (launch && launch->size >= sizeof other) {
        other = *launch;
        other.dimensions %= 4;
        launch = &other;
    }
    return base_execution.launch(instance, context, stream, launch, arguments, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.launch = launch;
}
