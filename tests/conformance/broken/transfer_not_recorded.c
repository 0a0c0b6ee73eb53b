/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: transfers have no records. Never: breaks anything else. */
#include "base.h"

static enum facet_status fill(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                              uint64_t address, uint8_t value, uint64_t bytes, struct facet_error *error)
{
    enum facet_status status = base_execution.fill(instance, context, stream, address, value, bytes, error);
    struct base_stream *one = NULL;
    BASE_LOCK(instance);

    if (status == FACET_OK && base_require_stream(instance, context, stream, &one, error) == FACET_OK)
        one->recorded--;
    return status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.fill = fill;
}
