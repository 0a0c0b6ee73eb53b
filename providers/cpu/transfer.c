/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: writing, copying and filling, at once or in the order of a stream.
 * Never: touches a byte of a range that is not wholly memory.
 */
#include <stdlib.h>

#include "cpu.h"

/* One that is queued, with the bytes that it writes. */
struct queued {
    struct cpu_context *context;
    struct cpu_transfer transfer;
    unsigned char data[];
};

static enum facet_status check(const struct cpu_context *context, const struct cpu_transfer *transfer,
                               struct facet_error *error)
{
    enum facet_status status = cpu_space_check(&context->space, transfer->to, transfer->bytes, error);

    if (status == FACET_OK && !transfer->data && transfer->fill == CPU_NO_FILL)
        status = cpu_space_check(&context->space, transfer->from, transfer->bytes, error);
    return status;
}

static void run(const struct cpu_transfer *transfer)
{
    void *to = (void *)transfer->to;

    if (transfer->bytes == 0)
        return;
    if (transfer->data)
        memcpy(to, transfer->data, transfer->bytes);
    else if (transfer->fill != CPU_NO_FILL)
        memset(to, (int)transfer->fill, transfer->bytes);
    else
        memmove(to, (const void *)transfer->from, transfer->bytes);
}

enum facet_status cpu_transfer_run(struct cpu_context *context, const struct cpu_transfer *transfer,
                                   struct facet_error *error)
{
    pthread_rwlock_rdlock(&context->space.lock);
    enum facet_status status = check(context, transfer, error);
    if (status == FACET_OK)
        run(transfer);
    pthread_rwlock_unlock(&context->space.lock);
    return status;
}

static enum facet_status work(void *owner)
{
    const struct queued *queued = owner;

    return cpu_transfer_run(queued->context, &queued->transfer, NULL);
}

enum facet_status cpu_transfer_queue(struct cpu_queue *queue, const struct cpu_transfer *transfer,
                                     struct facet_error *error)
{
    struct cpu_context *context = queue->context;

    pthread_rwlock_rdlock(&context->space.lock);
    enum facet_status status = check(context, transfer, error);
    pthread_rwlock_unlock(&context->space.lock);
    if (status != FACET_OK)
        return status;
    struct queued *queued = malloc(sizeof *queued + (transfer->data ? transfer->bytes : 0));
    if (!queued)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory to keep %" PRIu64 " bytes", transfer->bytes);
    queued->context = context;
    queued->transfer = *transfer;
    if (transfer->data) {
        memcpy(queued->data, transfer->data, transfer->bytes);
        queued->transfer.data = queued->data;
    }
    status = cpu_stream_call(queue->stream, work, free, queued, error);
    if (status != FACET_OK)
        free(queued);
    return status;
}
