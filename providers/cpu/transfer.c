/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: writing, copying and filling, at once or in the order of a stream. A queued transfer runs in pieces, which are
 * work-groups for the executor: so other work runs between them, and all units share a large transfer. Never: touches a
 * byte of a range that is not wholly memory.
 */
#include <stdlib.h>

#include "cpu.h"

/*
 * The most bytes that wait to be written for a context: they are copies in host memory, which no quota counts. A single
 * write may be larger.
 */
#define STAGED_BYTES (UINT64_C(256) << 20)

/* The size of a piece, which takes about a hundred microseconds. */
#define PIECE_BYTES (UINT64_C(1) << 20)

/* A queued transfer, with the bytes that it writes. */
struct queued_transfer {
    struct cpu_launch launch; /* the transfer's memory is not freed until cpu_launch_leave() */
    struct cpu_context *context;
    struct cpu_transfer transfer;
    uint64_t pieces;
    struct cpu_phases phases;
    atomic_int status;
    unsigned char data[];
};

static enum facet_status check_transfer(const struct cpu_context *context, const struct cpu_transfer *transfer,
                                        struct facet_error *error)
{
    enum facet_status status = cpu_space_check(&context->space, transfer->to, transfer->bytes, error);

    if (status == FACET_OK && !transfer->data && transfer->fill == CPU_NO_FILL)
        status = cpu_space_check(&context->space, transfer->from, transfer->bytes, error);
    return status;
}

/* Checks the ranges when the transfer runs. Memory that is retired by now was not when the transfer was queued. */
static bool is_memory_now(const struct queued_transfer *queued_transfer)
{
    const struct cpu_space *space = &queued_transfer->context->space;
    const struct cpu_transfer *transfer = &queued_transfer->transfer;
    bool copies = !transfer->data && transfer->fill == CPU_NO_FILL;

    return cpu_space_has_with_retired(space, transfer->to, transfer->bytes) &&
           (!copies || cpu_space_has_with_retired(space, transfer->from, transfer->bytes));
}

static void run_transfer(const struct cpu_transfer *transfer)
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
    enum facet_status status = check_transfer(context, transfer, error);
    if (status == FACET_OK)
        run_transfer(transfer);
    pthread_rwlock_unlock(&context->space.lock);
    return status;
}

/* A copy between overlapping ranges is one piece: only then is every byte read before it is overwritten. */
static uint64_t pieces_of(const struct cpu_transfer *transfer)
{
    bool copies = !transfer->data && transfer->fill == CPU_NO_FILL;
    uint64_t distance_forward = transfer->to - transfer->from, distance_backward = transfer->from - transfer->to;

    if (copies && (distance_forward < transfer->bytes || distance_backward < transfer->bytes))
        return 1;
    return transfer->bytes > PIECE_BYTES ? (transfer->bytes + PIECE_BYTES - 1) / PIECE_BYTES : 1;
}

static struct cpu_transfer piece_of(const struct queued_transfer *queued_transfer, uint64_t number)
{
    struct cpu_transfer piece = queued_transfer->transfer;
    uint64_t at = number * PIECE_BYTES;

    if (queued_transfer->pieces == 1)
        return piece;
    piece.to += at;
    piece.from += at;
    piece.data = piece.data ? (const char *)piece.data + at : NULL;
    piece.bytes = piece.bytes - at < PIECE_BYTES ? piece.bytes - at : PIECE_BYTES;
    return piece;
}

/* Each piece checks the whole range, so that nothing is touched of a range that is no longer wholly memory. */
static void run_piece(const void *arguments, const struct facet_host_group *group)
{
    struct queued_transfer *queued_transfer = *(struct queued_transfer *const *)arguments;
    struct cpu_transfer piece = piece_of(queued_transfer, group->group_id[0]);

    pthread_rwlock_rdlock(&queued_transfer->context->space.lock);
    bool still_memory = is_memory_now(queued_transfer);
    if (still_memory)
        run_transfer(&piece);
    pthread_rwlock_unlock(&queued_transfer->context->space.lock);
    if (!still_memory)
        atomic_store(&queued_transfer->status, FACET_OUT_OF_RANGE);
}

static const struct facet_host_kernel transfer_kernel = {
    .name = "transfer",
    .run = run_piece,
    .argument_bytes = sizeof(struct queued_transfer *),
};

static enum facet_status count_staged(struct cpu_context *context, uint64_t bytes, struct facet_error *error)
{
    if (bytes == 0)
        return FACET_OK;
    uint64_t before = atomic_fetch_add(&context->staged_bytes, bytes);
    if (before == 0 || before + bytes <= STAGED_BYTES)
        return FACET_OK;
    atomic_fetch_sub(&context->staged_bytes, bytes);
    return facet_kit_fail(error, FACET_BUSY,
                          "bytes %" PRIu64 ": %" PRIu64 " wait to be written already, expected at most %" PRIu64
                          " in all: synchronize first",
                          bytes, before, STAGED_BYTES);
}

static void free_queued(struct queued_transfer *queued_transfer)
{
    if (queued_transfer->transfer.data)
        atomic_fetch_sub(&queued_transfer->context->staged_bytes, queued_transfer->transfer.bytes);
    free(queued_transfer);
}

/* The executor calls it when the transfer is complete, failed or cancelled. */
static void finish_queued(void *owner)
{
    struct queued_transfer *queued_transfer = owner;

    cpu_launch_leave(&queued_transfer->launch);
    free_queued(queued_transfer);
}

/* Copies the transfer, with the data to be written. */
static enum facet_status copy_transfer(struct cpu_context *context, const struct cpu_transfer *transfer,
                                       struct queued_transfer **ret_queued, struct facet_error *error)
{
    uint64_t bytes = transfer->data ? transfer->bytes : 0;
    enum facet_status status = count_staged(context, bytes, error);

    if (status != FACET_OK)
        return status;
    struct queued_transfer *queued_transfer = malloc(sizeof *queued_transfer + bytes);
    if (!queued_transfer) {
        atomic_fetch_sub(&context->staged_bytes, bytes);
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory to keep %" PRIu64 " bytes", bytes);
    }
    queued_transfer->context = context;
    queued_transfer->transfer = *transfer;
    queued_transfer->pieces = pieces_of(transfer);
    queued_transfer->phases = (struct cpu_phases){1, &queued_transfer->pieces, &queued_transfer->status};
    atomic_init(&queued_transfer->status, FACET_OK);
    if (transfer->data) {
        memcpy(queued_transfer->data, transfer->data, bytes);
        queued_transfer->transfer.data = queued_transfer->data;
    }
    *ret_queued = queued_transfer;
    return FACET_OK;
}

/* A write is checked before its data is copied, and every transfer when it gets its number. */
static enum facet_status copy_checked_transfer(struct cpu_context *context, const struct cpu_transfer *transfer,
                                               struct queued_transfer **ret_queued, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    if (transfer->data) {
        pthread_rwlock_rdlock(&context->space.lock);
        status = check_transfer(context, transfer, error);
        pthread_rwlock_unlock(&context->space.lock);
    }
    if (status == FACET_OK)
        status = copy_transfer(context, transfer, ret_queued, error);
    if (status != FACET_OK)
        return status;
    pthread_rwlock_rdlock(&context->space.lock);
    status = check_transfer(context, transfer, error);
    if (status == FACET_OK)
        cpu_launch_enter(context, &(*ret_queued)->launch);
    pthread_rwlock_unlock(&context->space.lock);
    if (status != FACET_OK)
        free_queued(*ret_queued);
    return status;
}

enum facet_status cpu_transfer_queue(struct cpu_queue *queue, const struct cpu_transfer *transfer,
                                     struct facet_error *error)
{
    struct queued_transfer *queued_transfer = NULL;
    enum facet_status status = copy_checked_transfer(queue->context, transfer, &queued_transfer, error);

    if (status != FACET_OK)
        return status;
    const struct facet_launch launch = {.size = sizeof launch,
                                        .argument_bytes = sizeof queued_transfer,
                                        .grid = {(uint32_t)queued_transfer->pieces, 1, 1},
                                        .group = {1, 1, 1},
                                        .dimensions = 1};
    status = cpu_stream_launch_phases(queue->stream, &transfer_kernel, &launch, &queued_transfer,
                                      &queued_transfer->phases, finish_queued, queued_transfer, error);
    if (status != FACET_OK)
        finish_queued(queued_transfer);
    return status;
}
