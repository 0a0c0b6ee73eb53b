/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of blocks, and their chunks' memory. Never: holds the list's lock while the driver moves or maps
 * memory.
 */
#include "block.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct facet_cuda_block *_Atomic blocks; /* newest first */

static struct facet_slot *slot_of(const struct facet_cuda_block *block)
{
    return block->charge.tenant->slot;
}

static uint64_t chunk_bytes(const struct facet_cuda_block *block, uint32_t index)
{
    uint64_t offset = index * FACET_CUDA_CHUNK;

    return block->bytes - offset < FACET_CUDA_CHUNK ? block->bytes - offset : FACET_CUDA_CHUNK;
}

static CUdeviceptr chunk_address(const struct facet_cuda_block *block, uint32_t index)
{
    return block->address + index * FACET_CUDA_CHUNK;
}

/* ---- one chunk; in the block's context ---- */

static CUresult map_chunk(struct facet_cuda_block *block, uint32_t index, CUmemGenericAllocationHandle handle)
{
    const CUmemAccessDesc access = {
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)block->charge.device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    CUdeviceptr address = chunk_address(block, index);
    uint64_t bytes = chunk_bytes(block, index);
    CUresult result = facet_cuda_driver.cuMemMap(address, bytes, 0, handle, 0);

    if (result != CUDA_SUCCESS)
        return result;
    result = facet_cuda_unhooked.cuMemSetAccess(address, bytes, &access, 1);
    if (result != CUDA_SUCCESS)
        facet_cuda_driver.cuMemUnmap(address, bytes);
    return result;
}

static CUresult fill_chunk(struct facet_cuda_block *block, uint32_t index)
{
    struct facet_cuda_chunk *chunk = &block->chunks[index];
    CUdeviceptr address = chunk_address(block, index);
    uint64_t bytes = chunk_bytes(block, index);

    if (!chunk->on_host)
        return CUDA_SUCCESS;
    CUresult result = facet_cuda_unhooked.cuMemcpyHtoD_v2(address, chunk->host, bytes);
    if (result != CUDA_SUCCESS)
        facet_cuda_driver.cuMemUnmap(address, bytes);
    else
        chunk->on_host = false;
    return result;
}

static CUresult bring_chunk_in(struct facet_cuda_block *block, uint32_t index)
{
    const CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)block->charge.device},
    };
    uint64_t bytes = chunk_bytes(block, index);
    CUmemGenericAllocationHandle handle;
    CUresult result = facet_cuda_driver.cuMemCreate(&handle, bytes, &properties, 0);

    if (result != CUDA_SUCCESS)
        return result;
    atomic_store(&slot_of(block)->refused_bytes, 0); /* the device had memory, so other vGPUs need not give up more */
    result = map_chunk(block, index, handle);
    if (result == CUDA_SUCCESS)
        result = fill_chunk(block, index);
    if (result != CUDA_SUCCESS) {
        facet_cuda_driver.cuMemRelease(handle);
        return result;
    }
    block->chunks[index].handle = handle;
    atomic_fetch_add(&slot_of(block)->resident_bytes, bytes);
    return CUDA_SUCCESS;
}

static void free_chunk_memory(struct facet_cuda_block *block, uint32_t index)
{
    uint64_t bytes = chunk_bytes(block, index);

    facet_cuda_driver.cuMemUnmap(chunk_address(block, index), bytes);
    facet_cuda_driver.cuMemRelease(block->chunks[index].handle);
    block->chunks[index].handle = 0;
    atomic_fetch_sub(&slot_of(block)->resident_bytes, bytes);
}

static bool pin_chunk(struct facet_cuda_block *block, uint32_t index)
{
    struct facet_cuda_chunk *chunk = &block->chunks[index];

    if (!chunk->host && facet_cuda_unhooked.cuMemHostAlloc(&chunk->host, chunk_bytes(block, index),
                                                           CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS)
        chunk->host = NULL;
    return chunk->host;
}

static bool send_chunk_out(struct facet_cuda_block *block, uint32_t index)
{
    struct facet_cuda_chunk *chunk = &block->chunks[index];

    if (!pin_chunk(block, index) || facet_cuda_unhooked.cuMemcpyDtoH_v2(chunk->host, chunk_address(block, index),
                                                                        chunk_bytes(block, index)) != CUDA_SUCCESS)
        return false;
    chunk->on_host = true;
    free_chunk_memory(block, index);
    return true;
}

/* ---- one block ---- */

static struct facet_cuda_block *new_block(uint64_t requested_bytes)
{
    uint64_t bytes = facet_cuda_round(requested_bytes, FACET_CUDA_PAGE);
    uint64_t count = bytes / FACET_CUDA_CHUNK + (bytes % FACET_CUDA_CHUNK != 0);
    struct facet_cuda_block *block = NULL;

    if (bytes < requested_bytes || count > UINT32_MAX)
        return NULL;
    block = calloc(1, sizeof *block + count * sizeof block->chunks[0]);
    if (block) {
        block->requested_bytes = requested_bytes;
        block->bytes = bytes;
        block->chunk_count = (uint32_t)count;
        block->context = (CUcontext)(uintptr_t)facet_cuda_owner(); /* NOLINT: a handle is a number */
    }
    return block;
}

CUresult facet_cuda_block_make(uint32_t device, uint64_t requested_bytes, struct facet_cuda_block **ret_block)
{
    struct facet_cuda_block *block = new_block(requested_bytes);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (block)
        result = facet_cuda_charge_take(device, block->bytes, &block->charge);
    if (result != CUDA_SUCCESS) {
        free(block);
        return result;
    }
    result = facet_cuda_unhooked.cuMemAddressReserve(&block->address, block->bytes, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        facet_cuda_charge_drop(&block->charge);
        free(block);
        return result;
    }
    atomic_fetch_add(&slot_of(block)->swappable_bytes, block->bytes);
    *ret_block = block;
    return CUDA_SUCCESS;
}

void facet_cuda_block_free(struct facet_cuda_block *block, bool context_ended)
{
    for (uint32_t i = 0; i < block->chunk_count; i++) {
        if (block->chunks[i].handle)
            free_chunk_memory(block, i);
        if (block->chunks[i].host && !context_ended)
            facet_cuda_unhooked.cuMemFreeHost(block->chunks[i].host);
    }
    facet_cuda_unhooked.cuMemAddressFree(block->address, block->bytes);
    atomic_fetch_sub(&slot_of(block)->swappable_bytes, block->bytes);
    facet_cuda_charge_drop(&block->charge);
    free(block);
}

static bool enter_context(const struct facet_cuda_block *block)
{
    return facet_cuda_unhooked.cuCtxPushCurrent_v2(block->context) == CUDA_SUCCESS;
}

static void leave_context(void)
{
    CUcontext popped;

    facet_cuda_unhooked.cuCtxPopCurrent_v2(&popped);
}

CUresult facet_cuda_block_bring_in(struct facet_cuda_block *block)
{
    CUresult result = CUDA_SUCCESS;

    if (!enter_context(block))
        return CUDA_ERROR_INVALID_CONTEXT;
    for (uint32_t i = 0; i < block->chunk_count && result == CUDA_SUCCESS; i++)
        if (!block->chunks[i].handle)
            result = bring_chunk_in(block, i);
    leave_context();
    return result;
}

/* ---- the list ---- */

void facet_cuda_blocks_add(struct facet_cuda_block *block)
{
    pthread_mutex_lock(&lock);
    block->next = atomic_load(&blocks);
    atomic_store(&blocks, block);
    pthread_mutex_unlock(&lock);
}

static bool begins_at(const struct facet_cuda_block *block, uint64_t address)
{
    return block->address == address;
}

static bool is_in_context(const struct facet_cuda_block *block, uint64_t context)
{
    return (uintptr_t)block->context == context;
}

static struct facet_cuda_block *take_block(bool (*matches)(const struct facet_cuda_block *block, uint64_t key),
                                           uint64_t key)
{
    struct facet_cuda_block *previous = NULL, *block;

    pthread_mutex_lock(&lock);
    for (block = atomic_load(&blocks); block && !matches(block, key); block = block->next)
        previous = block;
    if (block && previous)
        previous->next = block->next;
    else if (block)
        atomic_store(&blocks, block->next);
    pthread_mutex_unlock(&lock);
    return block;
}

struct facet_cuda_block *facet_cuda_blocks_take(CUdeviceptr address)
{
    return take_block(begins_at, address);
}

struct facet_cuda_block *facet_cuda_blocks_take_of_context(CUcontext context)
{
    return take_block(is_in_context, (uintptr_t)context);
}

bool facet_cuda_blocks_range(CUdeviceptr address, CUdeviceptr *ret_base, size_t *ret_bytes)
{
    struct facet_cuda_block *block;

    pthread_mutex_lock(&lock);
    for (block = atomic_load(&blocks); block && address - block->address >= block->requested_bytes; block = block->next)
        ;
    if (block) {
        *ret_base = block->address;
        *ret_bytes = block->requested_bytes;
    }
    pthread_mutex_unlock(&lock);
    return block;
}

/* ---- all blocks; called by the thread that holds the gate exclusively, so that the list does not change ---- */

static uint64_t missing_bytes(const struct facet_cuda_block *block)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < block->chunk_count; i++)
        bytes += block->chunks[i].handle ? 0 : chunk_bytes(block, i);
    return bytes;
}

CUresult facet_cuda_blocks_bring_in(uint64_t *ret_missing)
{
    CUresult first = CUDA_SUCCESS;

    *ret_missing = 0;
    for (struct facet_cuda_block *block = atomic_load(&blocks); block; block = block->next) {
        CUresult result = first == CUDA_SUCCESS ? facet_cuda_block_bring_in(block) : first;

        first = result;
        *ret_missing += missing_bytes(block);
    }
    return first;
}

uint64_t facet_cuda_blocks_send_out(uint32_t device, uint64_t bytes)
{
    uint64_t sent = 0;
    bool host_has_memory = true;

    for (struct facet_cuda_block *block = atomic_load(&blocks); block && host_has_memory && sent < bytes;
         block = block->next) {
        if (block->charge.device != device || !enter_context(block))
            continue;
        for (uint32_t i = block->chunk_count; i-- > 0 && host_has_memory && sent < bytes;) {
            if (!block->chunks[i].handle)
                continue;
            host_has_memory = send_chunk_out(block, i);
            sent += host_has_memory ? chunk_bytes(block, i) : 0;
        }
        leave_context();
    }
    return sent;
}

/* ---- fork ---- */

void facet_cuda_blocks_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void facet_cuda_blocks_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* The list describes the parent's memory. Its entries are leaked, as are the parent's contexts. */
void facet_cuda_blocks_forked(void)
{
    atomic_store(&blocks, NULL);
    pthread_mutex_unlock(&lock);
}
