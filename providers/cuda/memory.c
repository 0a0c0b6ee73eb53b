/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: plain memory, transfers, and the table `memory`.
 * Never: lets the driver see an address that the context does not have: every range is looked up first.
 */
#include <search.h>
#include <stdlib.h>

#include "cuda.h"

#define ALIGNMENT   256u /* what the driver promises of plain memory, and the ABI of ours */
#define CHUNK_BYTES (UINT64_C(4) << 20)

/* Ranges that overlap are taken for equal: so a tree of ranges that do not overlap finds what holds an address. */
static int compare_blocks(const void *left, const void *right)
{
    const struct cuda_block *a = left, *b = right;

    if (a->address + a->bytes <= b->address)
        return -1;
    return b->address + b->bytes <= a->address;
}

static struct cuda_block *block_at(const struct cuda_context *context, uint64_t address)
{
    const struct cuda_block key = {.address = address, .bytes = 1};
    void *const *found = tfind(&key, &context->blocks, compare_blocks);

    return found ? *found : NULL;
}

bool cuda_blocks_hold(const struct cuda_context *context, uint64_t address, uint64_t bytes)
{
    const struct cuda_block *block = block_at(context, address);

    return block && bytes <= block->bytes - (address - block->address);
}

void cuda_blocks_free(struct facet_provider_instance *instance, struct cuda_context *context)
{
    while (context->blocks) {
        struct cuda_block *block = *(struct cuda_block **)context->blocks;

        instance->driver.cuMemFree_v2(block->address);
        cuda_worker_refund(instance, context->worker, block->bytes);
        tdelete(block, &context->blocks, compare_blocks);
        free(block);
    }
}

static enum facet_status memory_info(struct facet_provider_instance *instance, uint64_t number,
                                     struct facet_memory_info *ret_info, struct facet_error *error)
{
    struct cuda_context *context;
    size_t available = 0, total = 0;
    enum facet_status status = cuda_context_enter(instance, number, CUDA_USE_READ, &context, error);

    if (status != FACET_OK)
        return status;
    size_t granule = instance->devices[context->device].granule;
    CUresult result = instance->driver.cuMemGetInfo_v2(&available, &total);
    cuda_context_leave(instance, context);
    if (result != CUDA_SUCCESS)
        return cuda_driver_fail(&instance->driver, error, "cuMemGetInfo", result);
    if (available > total)
        return facet_kit_fail(error, FACET_CORRUPT, "cuMemGetInfo: %zu of %zu bytes are free", available, total);
    struct facet_memory_info info = {
        .size = sizeof info,
        .page_bytes = granule ? (uint32_t)granule : ALIGNMENT,
        .total_bytes = total,
        .used_bytes = total - available,
    };
    return facet_kit_struct(&info, sizeof info, ret_info, error);
}

static enum facet_status allocate(struct facet_provider_instance *instance, struct cuda_context *context,
                                  uint64_t bytes, uint64_t *ret_address, struct facet_error *error)
{
    struct cuda_block *block = calloc(1, sizeof *block);
    CUdeviceptr address = 0;

    if (!block)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an allocation");
    CUresult result = instance->driver.cuMemAlloc_v2(&address, bytes);
    if (result != CUDA_SUCCESS) {
        free(block);
        return cuda_driver_fail(&instance->driver, error, "cuMemAlloc", result);
    }
    *block = (struct cuda_block){.address = address, .bytes = bytes};
    if (!tsearch(block, &context->blocks, compare_blocks)) {
        instance->driver.cuMemFree_v2(address);
        free(block);
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an allocation");
    }
    cuda_worker_charge(instance, context->worker, bytes);
    *ret_address = address;
    return FACET_OK;
}

static enum facet_status memory_alloc(struct facet_provider_instance *instance, uint64_t number, uint64_t bytes,
                                      uint64_t *ret_address, struct facet_error *error)
{
    struct cuda_context *context;

    if (!ret_address)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_address: expected a place for it, not NULL");
    enum facet_status status = cuda_context_enter(instance, number, CUDA_USE_CHANGE, &context, error);
    if (status != FACET_OK)
        return status;
    if (bytes == 0)
        status = facet_kit_fail(error, FACET_OUT_OF_RANGE, "0 bytes: expected at least 1");
    else
        status = allocate(instance, context, bytes, ret_address, error);
    cuda_context_leave(instance, context);
    return status;
}

static enum facet_status release(struct facet_provider_instance *instance, struct cuda_context *context,
                                 uint64_t address, struct facet_error *error)
{
    struct cuda_block *block = block_at(context, address);

    if (!block || block->address != address)
        return facet_kit_fail(error, FACET_NOT_FOUND, "nothing was allocated at 0x%" PRIx64, address);
    CUresult result = instance->driver.cuMemFree_v2(address);
    if (result != CUDA_SUCCESS)
        return cuda_driver_fail(&instance->driver, error, "cuMemFree", result);
    cuda_worker_refund(instance, context->worker, block->bytes);
    tdelete(block, &context->blocks, compare_blocks);
    free(block);
    return FACET_OK;
}

static enum facet_status memory_free(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                     struct facet_error *error)
{
    struct cuda_context *context;
    enum facet_status status = cuda_context_enter(instance, number, CUDA_USE_TAKE, &context, error);

    if (status != FACET_OK)
        return status;
    status = release(instance, context, address, error);
    cuda_context_leave(instance, context);
    return status;
}

/* --- transfers --- */

bool cuda_context_holds(const struct facet_provider_instance *instance, const struct cuda_context *context,
                        uint64_t address, uint64_t bytes)
{
    return cuda_blocks_hold(context, address, bytes) || cuda_reservations_hold(instance, context, address, bytes);
}

static enum facet_status check_range(const struct facet_provider_instance *instance, const struct cuda_context *context,
                                     uint64_t address, uint64_t bytes, struct facet_error *error)
{
    if (cuda_context_holds(instance, context, address, bytes))
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                          "%" PRIu64 " bytes at 0x%" PRIx64 ": expected memory of the context", bytes, address);
}

/* Enters a context for a transfer at `address`, and checks the range. */
static enum facet_status enter_range(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                     uint64_t bytes, struct cuda_context **ret_context, struct facet_error *error)
{
    enum facet_status status = cuda_context_enter(instance, number, CUDA_USE_TRANSFER, ret_context, error);

    if (status != FACET_OK)
        return status;
    status = check_range(instance, *ret_context, address, bytes, error);
    if (status != FACET_OK)
        cuda_context_leave(instance, *ret_context);
    return status;
}

static enum facet_status leave_after(struct facet_provider_instance *instance, struct cuda_context *context,
                                     const char *call, CUresult result, struct facet_error *error)
{
    cuda_context_leave(instance, context);
    return result == CUDA_SUCCESS ? FACET_OK : cuda_driver_fail(&instance->driver, error, call, result);
}

static enum facet_status memory_write(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                      const void *data, uint64_t bytes, struct facet_error *error)
{
    struct cuda_context *context;

    if (!data)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "data: expected bytes, not NULL");
    enum facet_status status = enter_range(instance, number, address, bytes, &context, error);
    if (status != FACET_OK)
        return status;
    CUresult result = bytes ? instance->driver.cuMemcpyHtoD_v2(address, data, bytes) : CUDA_SUCCESS;
    return leave_after(instance, context, "cuMemcpyHtoD", result, error);
}

static enum facet_status memory_read(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                     uint64_t bytes, void *ret_data, struct facet_error *error)
{
    struct cuda_context *context;

    if (!ret_data)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_data: expected room, not NULL");
    enum facet_status status = enter_range(instance, number, address, bytes, &context, error);
    if (status != FACET_OK)
        return status;
    CUresult result = bytes ? instance->driver.cuMemcpyDtoH_v2(ret_data, address, bytes) : CUDA_SUCCESS;
    return leave_after(instance, context, "cuMemcpyDtoH", result, error);
}

/* The driver says nothing about ranges that overlap: they go in pieces that do not, from the end that is safe. */
static CUresult copy_pieces(const struct cuda_driver *driver, uint64_t to, uint64_t from, uint64_t bytes)
{
    uint64_t apart = to > from ? to - from : from - to;
    CUresult result = CUDA_SUCCESS;

    for (uint64_t done = 0, length; result == CUDA_SUCCESS && done < bytes; done += length) {
        length = bytes - done < apart ? bytes - done : apart;
        uint64_t at = to > from ? bytes - done - length : done;

        result = driver->cuMemcpyDtoD_v2(to + at, from + at, length);
    }
    return result;
}

/* Ranges that are almost the same would be many pieces: those go through the host. */
static CUresult copy_by_host(const struct cuda_driver *driver, uint64_t to, uint64_t from, uint64_t bytes, void *piece)
{
    CUresult result = CUDA_SUCCESS;

    for (uint64_t done = 0, length; result == CUDA_SUCCESS && done < bytes; done += length) {
        length = bytes - done < CHUNK_BYTES ? bytes - done : CHUNK_BYTES;
        uint64_t at = to > from ? bytes - done - length : done;

        result = driver->cuMemcpyDtoH_v2(piece, from + at, length);
        if (result == CUDA_SUCCESS)
            result = driver->cuMemcpyHtoD_v2(to + at, piece, length);
    }
    return result;
}

/* A copy on the device returns before it is done; what comes after it here must not. */
static CUresult copy(const struct cuda_driver *driver, uint64_t to, uint64_t from, uint64_t bytes)
{
    uint64_t apart = to > from ? to - from : from - to;
    CUresult result;

    if (apart == 0 || bytes == 0)
        return CUDA_SUCCESS;
    if (apart >= bytes || apart >= CHUNK_BYTES) {
        result = copy_pieces(driver, to, from, bytes);
    } else {
        void *piece = malloc(CHUNK_BYTES);

        result = piece ? copy_by_host(driver, to, from, bytes, piece) : CUDA_ERROR_OUT_OF_MEMORY;
        free(piece);
    }
    return result == CUDA_SUCCESS ? driver->cuCtxSynchronize() : result;
}

static enum facet_status memory_copy(struct facet_provider_instance *instance, uint64_t number, uint64_t to,
                                     uint64_t from, uint64_t bytes, struct facet_error *error)
{
    struct cuda_context *context;
    enum facet_status status = enter_range(instance, number, to, bytes, &context, error);

    if (status != FACET_OK)
        return status;
    status = check_range(instance, context, from, bytes, error);
    if (status != FACET_OK) {
        cuda_context_leave(instance, context);
        return status;
    }
    return leave_after(instance, context, "cuMemcpyDtoD", copy(&instance->driver, to, from, bytes), error);
}

static enum facet_status memory_fill(struct facet_provider_instance *instance, uint64_t number, uint64_t address,
                                     uint8_t value, uint64_t bytes, struct facet_error *error)
{
    struct cuda_context *context;
    enum facet_status status = enter_range(instance, number, address, bytes, &context, error);

    if (status != FACET_OK)
        return status;
    CUresult result = bytes ? instance->driver.cuMemsetD8_v2(address, value, bytes) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && bytes)
        result = instance->driver.cuCtxSynchronize();
    return leave_after(instance, context, "cuMemsetD8", result, error);
}

const struct facet_memory_ops cuda_memory_ops = {
    .size = sizeof cuda_memory_ops,
    .create_context = cuda_context_create,
    .destroy_context = cuda_context_destroy,
    .info = memory_info,
    .alloc = memory_alloc,
    .free = memory_free,
    .reserve = cuda_pages_reserve,
    .release = cuda_pages_release,
    .create_pages = cuda_pages_create,
    .destroy_pages = cuda_pages_destroy,
    .map = cuda_pages_map,
    .unmap = cuda_pages_unmap,
    .write = memory_write,
    .read = memory_read,
    .copy = memory_copy,
    .fill = memory_fill,
    .share_pages = cuda_pages_share,
};
