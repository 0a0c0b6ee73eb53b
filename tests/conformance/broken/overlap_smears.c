/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a copy to a higher, overlapping range overwrites bytes before they are read. Never: breaks anything else. */
#include "base.h"

static enum facet_status copy(struct facet_provider_instance *instance, uint64_t context, uint64_t to, uint64_t from,
                              uint64_t bytes, struct facet_error *error)
{
    enum facet_status status = FACET_OK;
    const uint64_t step = 64;

    if (to <= from || to - from >= bytes || bytes > BASE_MEMORY)
        return base_memory.copy(instance, context, to, from, bytes, error);
    for (uint64_t at = 0; status == FACET_OK && at < bytes; at += step)
        status = base_memory.copy(instance, context, to + at, from + at, bytes - at < step ? bytes - at : step, error);
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->memory.copy = copy;
}
