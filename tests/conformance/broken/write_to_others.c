/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a write to another worker's memory is queued. Never: breaks anything else. */
#include "base.h"

static enum facet_status write_anywhere(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                        uint64_t address, const void *data, uint64_t bytes, struct facet_error *error)
{
    enum facet_status status = base_execution.write(instance, context, stream, address, data, bytes, error);

    if (status != FACET_OUT_OF_RANGE || address > UINT64_MAX / 2)
        return status;
    for (int i = 0; i < BASE_CONTEXTS; i++)
        base_memory.write(instance, instance->contexts[i].number, address, data, bytes, NULL);
    return FACET_OK;
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.write = write_anywhere;
}
