/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a context whose worker is off the device is said to be unknown. Never: breaks anything else. */
#include "base.h"

static enum facet_status fill(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                              uint8_t value, uint64_t bytes, struct facet_error *error)
{
    enum facet_status status = base_memory.fill(instance, context, address, value, bytes, error);

    return status == FACET_BAD_STATE ? FACET_NOT_FOUND : status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->memory.fill = fill;
}
