/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a range that is not wholly memory is written as far as it goes. Never: breaks anything else. */
#include "base.h"

static enum facet_status fill(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                              uint8_t value, uint64_t bytes, struct facet_error *error)
{
    enum facet_status status = base_memory.fill(instance, context, address, value, bytes, error);

    if (status == FACET_OUT_OF_RANGE)
        base_memory.fill(instance, context, address, value, 8, NULL);
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->memory.fill = fill;
}
