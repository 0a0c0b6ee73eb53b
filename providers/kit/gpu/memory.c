/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: plain memory, transfers, and the table `memory`.
 * Never: passes an address outside of the context to the driver: every range is checked first.
 */
#include <search.h>
#include <stdlib.h>

#include "machine.h"
#include "provider_kit.h"

#define CHUNK_BYTES (UINT64_C(4) << 20)

/* Ranges that overlap compare equal, so that a tree of disjoint ranges finds the one that contains an address. */
static int compare_blocks(const void *left, const void *right)
{
    const struct gpu_block *a = left, *b = right;

    if (a->address + a->bytes <= b->address)
        return -1;
    return b->address + b->bytes <= a->address;
}

static struct gpu_block *block_at(const struct gpu_context *context, uint64_t address)
{
    const struct gpu_block key = {.address = address, .bytes = 1};
    void *const *found = tfind(&key, &context->blocks, compare_blocks);

    return found ? *found : NULL;
}

bool gpu_blocks_hold(const struct gpu_context *context, uint64_t address, uint64_t bytes)
{
    const struct gpu_block *block = block_at(context, address);

    return block && bytes <= block->bytes - (address - block->address);
}

void gpu_blocks_free(struct gpu_machine *machine, struct gpu_context *context)
{
    while (context->blocks) {
        struct gpu_block *block = *(struct gpu_block **)context->blocks;

        machine->driver->free(machine, block->address, NULL);
        gpu_worker_refund(machine, context->worker, block->bytes);
        tdelete(block, &context->blocks, compare_blocks);
        free(block);
    }
}

/* Returns the memory limit of a context's worker (0: no limit), and the bytes that the worker uses. */
static uint64_t limit_of(struct gpu_machine *machine, const struct gpu_context *context, uint64_t *ret_used)
{
    const struct gpu_worker *worker = context->worker;

    pthread_mutex_lock(&machine->context_lock);
    uint64_t limit = worker->valid & FACET_WORKER_HAS_MEMORY ? worker->memory_bytes : 0;
    *ret_used = worker->used_bytes;
    pthread_mutex_unlock(&machine->context_lock);
    return limit;
}

static enum facet_status memory_info(struct facet_provider_instance *instance, uint64_t number,
                                     struct facet_memory_info *ret_info, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    size_t available = 0, total = 0;
    uint64_t used = 0;
    enum facet_status status = gpu_context_enter(machine, number, GPU_USE_READ, &context, error);

    if (status != FACET_OK)
        return status;
    size_t granule = machine->devices[context->device].granule;
    uint64_t limit = limit_of(machine, context, &used);
    status = machine->driver->info(machine, &available, &total, error);
    gpu_context_leave(machine, context);
    if (status != FACET_OK)
        return status;
    if (available > total)
        return facet_kit_fail(error, FACET_CORRUPT, "the driver reports %zu of %zu bytes as free: expected at most all",
                              available, total);
    struct facet_memory_info info = {
        .size = sizeof info,
        .page_bytes = granule ? (uint32_t)granule : GPU_ALIGNMENT,
        .total_bytes = limit ? limit : total,
        .used_bytes = limit ? used : total - available,
    };
    return facet_kit_struct(&info, sizeof info, ret_info, error);
}

static enum facet_status allocate_block(struct gpu_machine *machine, struct gpu_context *context, uint64_t bytes,
                                        uint64_t *ret_address, struct facet_error *error)
{
    struct gpu_block *block = calloc(1, sizeof *block);
    uint64_t address = 0;

    if (!block)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an allocation");
    enum facet_status status = gpu_worker_charge(machine, context, bytes, error);
    if (status == FACET_OK) {
        status = machine->driver->allocate(machine, bytes, &address, error);
        if (status != FACET_OK)
            gpu_worker_refund(machine, context->worker, bytes);
    }
    if (status != FACET_OK) {
        free(block);
        return status;
    }
    *block = (struct gpu_block){.address = address, .bytes = bytes};
    if (!tsearch(block, &context->blocks, compare_blocks)) {
        machine->driver->free(machine, address, NULL);
        gpu_worker_refund(machine, context->worker, bytes);
        free(block);
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an allocation");
    }
    *ret_address = address;
    return FACET_OK;
}

static enum facet_status memory_alloc(struct facet_provider_instance *instance, uint64_t number, uint64_t bytes,
                                      uint64_t *ret_address, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;

    if (!ret_address)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_address: expected an address, not NULL");
    enum facet_status status = gpu_context_enter(machine, number, GPU_USE_CHANGE, &context, error);
    if (status != FACET_OK)
        return status;
    if (bytes == 0)
        status = facet_kit_fail(error, FACET_OUT_OF_RANGE, "0 bytes: expected at least 1");
    else
        status = allocate_block(machine, context, bytes, ret_address, error);
    gpu_context_leave(machine, context);
    return status;
}

static enum facet_status release_block(struct gpu_machine *machine, struct gpu_context *context, uint64_t address,
                                       struct facet_error *error)
{
    struct gpu_block *block = block_at(context, address);

    if (!block || block->address != address)
        return facet_kit_fail(error, FACET_NOT_FOUND, "nothing was allocated at 0x%" PRIx64, address);
    enum facet_status status = machine->driver->free(machine, address, error);
    if (status != FACET_OK)
        return status;
    gpu_worker_refund(machine, context->worker, block->bytes);
    tdelete(block, &context->blocks, compare_blocks);
    free(block);
    return FACET_OK;
}

static enum facet_status memory_free(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                     struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    enum facet_status status = gpu_context_enter(machine, number, GPU_USE_REMOVE, &context, error);

    if (status != FACET_OK)
        return status;
    status = release_block(machine, context, address, error);
    gpu_context_leave(machine, context);
    return status;
}

/* --- transfers --- */

bool gpu_context_holds(const struct gpu_machine *machine, const struct gpu_context *context, uint64_t address,
                       uint64_t bytes)
{
    return gpu_blocks_hold(context, address, bytes) || gpu_reservations_hold(machine, context, address, bytes);
}

static enum facet_status check_range(const struct gpu_machine *machine, const struct gpu_context *context,
                                     uint64_t address, uint64_t bytes, struct facet_error *error)
{
    if (gpu_context_holds(machine, context, address, bytes))
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                          "%" PRIu64 " bytes at 0x%" PRIx64 ": expected memory of the context", bytes, address);
}

/* Enters a context for a transfer at `address`, and checks the range. */
static enum facet_status enter_range(struct gpu_machine *machine, uint64_t number, uint64_t address, uint64_t bytes,
                                     struct gpu_context **ret_context, struct facet_error *error)
{
    enum facet_status status = gpu_context_enter(machine, number, GPU_USE_TRANSFER, ret_context, error);

    if (status != FACET_OK)
        return status;
    status = check_range(machine, *ret_context, address, bytes, error);
    if (status != FACET_OK)
        gpu_context_leave(machine, *ret_context);
    return status;
}

static enum facet_status memory_write(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                      const void *data, uint64_t bytes, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;

    if (!data)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "data: expected bytes, not NULL");
    enum facet_status status = enter_range(machine, number, address, bytes, &context, error);
    if (status != FACET_OK)
        return status;
    if (bytes)
        status = machine->driver->write(machine, address, data, bytes, error);
    gpu_context_leave(machine, context);
    return status;
}

static enum facet_status memory_read(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                     uint64_t bytes, void *ret_data, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;

    if (!ret_data)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_data: expected room, not NULL");
    enum facet_status status = enter_range(machine, number, address, bytes, &context, error);
    if (status != FACET_OK)
        return status;
    if (bytes)
        status = machine->driver->read(machine, ret_data, address, bytes, error);
    gpu_context_leave(machine, context);
    return status;
}

/*
 * The driver does not define copies between overlapping ranges. So overlapping ranges are copied in pieces that do not
 * overlap, from the end at which no piece overwrites bytes that are still to be read.
 */
static enum facet_status copy_pieces(struct gpu_machine *machine, uint64_t to, uint64_t from, uint64_t bytes,
                                     struct facet_error *error)
{
    uint64_t distance = to > from ? to - from : from - to;
    enum facet_status status = FACET_OK;

    for (uint64_t done = 0, length; status == FACET_OK && done < bytes; done += length) {
        length = bytes - done < distance ? bytes - done : distance;
        uint64_t offset = to > from ? bytes - done - length : done;

        status = machine->driver->copy(machine, to + offset, from + offset, length, error);
    }
    return status;
}

/* Ranges that are close together would need many pieces, so they are copied through the host. */
static enum facet_status copy_by_host(struct gpu_machine *machine, uint64_t to, uint64_t from, uint64_t bytes,
                                      struct facet_error *error)
{
    void *piece = malloc(CHUNK_BYTES);
    enum facet_status status = FACET_OK;

    if (!piece)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a piece of a copy");
    for (uint64_t done = 0, length; status == FACET_OK && done < bytes; done += length) {
        length = bytes - done < CHUNK_BYTES ? bytes - done : CHUNK_BYTES;
        uint64_t offset = to > from ? bytes - done - length : done;

        status = machine->driver->read(machine, piece, from + offset, length, error);
        if (status == FACET_OK)
            status = machine->driver->write(machine, to + offset, piece, length, error);
    }
    free(piece);
    return status;
}

/* A copy on the device returns before it is complete; operations after this one must see its result. */
static enum facet_status copy_memory(struct gpu_machine *machine, uint64_t to, uint64_t from, uint64_t bytes,
                                     struct facet_error *error)
{
    uint64_t distance = to > from ? to - from : from - to;

    if (distance == 0 || bytes == 0)
        return FACET_OK;
    enum facet_status status = distance >= bytes || distance >= CHUNK_BYTES
                                   ? copy_pieces(machine, to, from, bytes, error)
                                   : copy_by_host(machine, to, from, bytes, error);
    return status == FACET_OK ? machine->driver->synchronize(machine, error) : status;
}

static enum facet_status memory_copy(struct facet_provider_instance *instance, uint64_t number, uint64_t to,
                                     uint64_t from, uint64_t bytes, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    enum facet_status status = enter_range(machine, number, to, bytes, &context, error);

    if (status != FACET_OK)
        return status;
    status = check_range(machine, context, from, bytes, error);
    if (status == FACET_OK)
        status = copy_memory(machine, to, from, bytes, error);
    gpu_context_leave(machine, context);
    return status;
}

static enum facet_status memory_fill(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                     uint8_t value, uint64_t bytes, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;
    enum facet_status status = enter_range(machine, number, address, bytes, &context, error);

    if (status != FACET_OK)
        return status;
    if (bytes)
        status = machine->driver->fill(machine, address, value, bytes, error);
    if (status == FACET_OK && bytes)
        status = machine->driver->synchronize(machine, error);
    gpu_context_leave(machine, context);
    return status;
}

const struct facet_memory_ops gpu_memory_ops = {
    .size = sizeof gpu_memory_ops,
    .create_context = gpu_context_create,
    .destroy_context = gpu_context_destroy,
    .info = memory_info,
    .alloc = memory_alloc,
    .free = memory_free,
    .reserve = gpu_pages_reserve,
    .release = gpu_pages_release,
    .create_pages = gpu_pages_create,
    .destroy_pages = gpu_pages_destroy,
    .map = gpu_pages_map,
    .unmap = gpu_pages_unmap,
    .write = memory_write,
    .read = memory_read,
    .copy = memory_copy,
    .fill = memory_fill,
    .share_pages = gpu_pages_share,
};
