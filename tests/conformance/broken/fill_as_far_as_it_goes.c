/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a fill that is refused has written the part that fits. Never: breaks anything else. */
#include "base.h"

static enum facet_status fill(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                              uint64_t address, uint8_t value, uint64_t bytes, struct facet_error *error)
{
    enum facet_status status = base_execution.fill(instance, context, stream, address, value, bytes, error);

    if (status == FACET_OUT_OF_RANGE && bytes > 8)
        base_execution.fill(instance, context, stream, address, value, 8, NULL);
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.fill = fill;
}
