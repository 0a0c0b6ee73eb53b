/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: the caller's bytes are read after the write has returned. Never: breaks anything else. */
#include "base.h"

/* The one write that is pending until the next copy. */
static struct {
    uint64_t context, stream, address, bytes;
    const void *data;
} pending;

static enum facet_status do_pending_write(struct facet_provider_instance *instance)
{
    const void *data = pending.data;

    pending.data = NULL;
    return data ? base_execution.write(instance, pending.context, pending.stream, pending.address, data, pending.bytes,
                                       NULL)
                : FACET_OK;
}

static enum facet_status write_later(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                     uint64_t address, const void *data, uint64_t bytes, struct facet_error *error)
{
    enum facet_status status = base_execution.write(instance, context, stream, address, data, bytes, error);

    if (status != FACET_OK)
        return status;
    pending.context = context;
    pending.stream = stream;
    pending.address = address;
    pending.bytes = bytes;
    pending.data = data;
    return FACET_OK;
}

static enum facet_status copy(struct facet_provider_instance *instance, uint64_t context, uint64_t stream, uint64_t to,
                              uint64_t from, uint64_t bytes, struct facet_error *error)
{
    do_pending_write(instance);
    return base_execution.copy(instance, context, stream, to, from, bytes, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->execution.write = write_later;
    tables->execution.copy = copy;
}
