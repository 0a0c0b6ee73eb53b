/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: linear memory, plain, pitched and managed; the amounts of free and total memory; freeing a context's memory.
 * Never: changes the address of an allocation.
 */
#include <string.h>
#include <time.h>

#include "memory.h"

#define LARGE_BYTES (UINT64_C(16) << 20)

/* A request for 0 bytes succeeds even while another process requests more than the device has. */
bool fake_memory_reserve(uint32_t physical, enum fake_kind kind, uint64_t bytes)
{
    return !bytes || fake_device_reserve(physical, kind, bytes) ||
           (fake_pools_trim(physical) && fake_device_reserve(physical, kind, bytes));
}

static struct fake_block *make_block_in(CUcontext context, enum fake_block_type type, enum fake_kind kind,
                                        uint64_t bytes, uint64_t device_bytes)
{
    struct fake_block *block;

    if (!fake_memory_reserve(context->physical, kind, device_bytes))
        return NULL;
    block = fake_block_make(type, bytes);
    if (!block) {
        fake_device_release(context->physical, kind, device_bytes);
        return NULL;
    }
    block->physical = context->physical;
    block->kind = kind;
    block->device_bytes = device_bytes;
    block->context = context;
    return block;
}

static void nap_ns(uint64_t ns)
{
    if (ns)
        nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)}, NULL);
}

/* Imitates the time that a real driver takes for large memory. Called with no lock held. */
static void nap_for_large(uint64_t bytes)
{
    nap_ns(bytes < LARGE_BYTES ? 0 : fake_state()->large_delay_ns);
}

/* Allocating and freeing may wait for the device, so they are not allowed during a capture. */
static CUresult enter_context(CUcontext *ret_context)
{
    CUresult result = fake_enter(ret_context);

    return result == CUDA_SUCCESS ? fake_capture_unsafe() : result;
}

CUresult fake_memory_make_block(enum fake_block_type type, enum fake_kind kind, uint64_t bytes, uint64_t device_bytes,
                                struct fake_block **ret_block)
{
    CUcontext context;
    CUresult result = enter_context(&context);

    if (result != CUDA_SUCCESS)
        return result;
    nap_for_large(bytes);
    fake_memory_lock();
    struct fake_block *block = make_block_in(context, type, kind, bytes, device_bytes);
    fake_memory_unlock();
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_block = block;
    return CUDA_SUCCESS;
}

static CUresult make_piece(CUdeviceptr *pointer, size_t bytes)
{
    CUcontext context;
    uint64_t address;
    CUresult result = enter_context(&context);

    if (result != CUDA_SUCCESS)
        return result;
    fake_memory_lock();
    struct fake_block *block = fake_slab_allocate(context, bytes, &address);
    fake_memory_unlock();
    if (block)
        *pointer = address;
    return block ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult make_block(CUdeviceptr *pointer, size_t bytes)
{
    struct fake_block *block;

    if (bytes < FAKE_SLAB_LIMIT)
        return make_piece(pointer, bytes);
    CUresult result = fake_memory_make_block(FAKE_BLOCK_PLAIN, FAKE_PLAIN, bytes, fake_device_bytes(bytes), &block);
    if (result == CUDA_SUCCESS)
        *pointer = block->address;
    return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    return pointer && bytes ? make_block(pointer, bytes) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element)
{
    size_t row = fake_round_up(width, FAKE_PITCH_STEP), bytes;

    if (!pointer || !pitch || !width || !height || (element != 4 && element != 8 && element != 16) ||
        __builtin_mul_overflow(row, height, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = make_block(pointer, bytes);
    if (result == CUDA_SUCCESS)
        *pitch = row;
    return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags)
{
    struct fake_block *block;

    if (!pointer || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = fake_memory_make_block(FAKE_BLOCK_MANAGED, FAKE_MANAGED, bytes, fake_device_bytes(bytes), &block);
    if (result == CUDA_SUCCESS)
        *pointer = block->address;
    return result;
}

void fake_managed_move(uint64_t address, CUdevice device)
{
    uint32_t physical;

    if (fake_physical(device, &physical) != CUDA_SUCCESS)
        return;
    fake_memory_lock();
    struct fake_block *block = fake_block_at(address);
    if (block && block->type == FAKE_BLOCK_MANAGED &&
        fake_device_reserve(physical, FAKE_MANAGED, block->device_bytes)) {
        fake_device_release(block->physical, FAKE_MANAGED, block->device_bytes);
        block->physical = physical;
    }
    fake_memory_unlock();
}

void fake_memory_free_block(struct fake_block *block)
{
    if (block->type == FAKE_BLOCK_HOST)
        fake_unpin(block->span);
    if (block->type == FAKE_BLOCK_ARRAY)
        fake_held_drop_array(block->address);
    fake_device_release(block->physical, block->kind, block->device_bytes);
    fake_block_free(block);
}

struct fake_block *fake_memory_make_driver_block(CUcontext context, enum fake_kind kind, uint64_t bytes)
{
    return make_block_in(context, FAKE_BLOCK_DRIVER, kind, bytes, bytes);
}

static bool free_allocation(uint64_t address)
{
    struct fake_block *block = fake_block_at(address);

    if (block && block->type == FAKE_BLOCK_SLAB)
        return fake_slab_free(block, address);
    if (block && block->type == FAKE_BLOCK_GRAPH)
        return address == block->address && fake_allocation_free(block);
    if (!block || address != block->address)
        return false;
    if (block->type == FAKE_BLOCK_POOLED)
        fake_pool_free(block);
    else if (block->type == FAKE_BLOCK_IMPORTED && !block->context)
        fake_block_free(block); /* memory from a pool of another process */
    else if (block->type == FAKE_BLOCK_PLAIN || block->type == FAKE_BLOCK_MANAGED)
        fake_memory_free_block(block);
    else
        return false;
    return true;
}

static CUresult free_pointer(CUdeviceptr pointer)
{
    fake_memory_lock();
    const struct fake_block *block = fake_block_at(pointer);
    uint64_t bytes = block && block->address == pointer ? block->device_bytes : 0;
    bool freed = free_allocation(pointer);
    fake_memory_unlock();
    nap_for_large(bytes);
    return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The memory may belong to another context than the current one. */
CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    CUcontext context;

    nap_ns(fake_state()->free_delay_ns);
    CUresult result = enter_context(&context);
    return result == CUDA_SUCCESS && pointer ? free_pointer(pointer) : result;
}

/* Adds a node to the captured graph; such a node can only free a graph's allocation. */
static CUresult capture_free(CUdeviceptr pointer, CUstream stream)
{
    struct fake_allocation *allocation = fake_allocation_at(pointer);

    return allocation ? fake_submit(stream, (struct fake_work){.frees = allocation}) : CUDA_ERROR_INVALID_VALUE;
}

/* Frees the memory at once: work that was enqueued before only takes time, and does not touch memory. */
static CUresult do_cuMemFreeAsync(bool per_thread, CUdeviceptr pointer, CUstream handle)
{
    CUstream stream;
    CUresult result = pointer ? fake_stream(handle, per_thread, &stream) : CUDA_ERROR_INVALID_VALUE;

    if (result != CUDA_SUCCESS)
        return result;
    return atomic_load(&stream->captured) ? capture_free(pointer, stream) : free_pointer(pointer);
}
FAKE_BOTH_FORMS(cuMemFreeAsync, (CUdeviceptr pointer, CUstream stream), pointer, stream)

static CUresult memory_info(uint64_t *free_bytes, uint64_t *total)
{
    CUcontext context;
    CUresult result = fake_enter(&context);

    if (result != CUDA_SUCCESS)
        return result;
    uint64_t used = fake_used(context->physical);
    const struct fake_part *part = fake_visible_part ? fake_visible_part() : NULL;
    *total = part ? part->memory_bytes : fake_state()->devices[context->physical].memory_bytes;
    *free_bytes = used < *total ? *total - used : 0;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    uint64_t available = 0, capacity = 0;
    CUresult result = memory_info(&available, &capacity);

    if (result == CUDA_SUCCESS && free_bytes)
        *free_bytes = available;
    if (result == CUDA_SUCCESS && total)
        *total = capacity;
    return result;
}

static unsigned clamp_to_32_bits(uint64_t bytes)
{
    return bytes > UINT32_MAX ? UINT32_MAX : (unsigned)bytes;
}

CUresult cuMemGetInfo(unsigned *free_bytes, unsigned *total)
{
    uint64_t available = 0, capacity = 0;
    CUresult result = memory_info(&available, &capacity);

    if (result == CUDA_SUCCESS && free_bytes)
        *free_bytes = clamp_to_32_bits(available);
    if (result == CUDA_SUCCESS && total)
        *total = clamp_to_32_bits(capacity);
    return result;
}

static void free_if_of_context(struct fake_block *block, void *context)
{
    if (block->context != context)
        return;
    if (block->type == FAKE_BLOCK_SLAB)
        fake_slab_destroy(block);
    else
        fake_memory_free_block(block);
}

void fake_memory_context_ended(CUcontext context)
{
    fake_memory_lock();
    fake_visit_blocks(free_if_of_context, context);
    fake_memory_unlock();
}
