/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: memory of the host that the driver allocated, or that a program registered. Never: takes device memory. */
#include <stdlib.h>

#include "memory.h"

struct registered {
    struct registered *next;
    uintptr_t address;
    size_t bytes;
};

static struct registered *registrations;

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    struct fake_block *block;

    if (!pointer || !bytes || flags > (CU_MEMHOSTALLOC_WRITECOMBINED << 1) - 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_pin(fake_round_up(bytes, FAKE_PAGE)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = fake_memory_make_block(FAKE_BLOCK_HOST, FAKE_PLAIN, bytes, 0, &block);
    if (result != CUDA_SUCCESS)
        fake_unpin(fake_round_up(bytes, FAKE_PAGE));
    if (result == CUDA_SUCCESS)
        *pointer = (void *)(uintptr_t)block->address;
    return result;
}

CUresult cuMemAllocHost_v2(void **pointer, size_t bytes)
{
    return cuMemHostAlloc(pointer, bytes, 0);
}

CUresult cuMemFreeHost(void *pointer)
{
    CUresult result = fake_ready();

    if (result != CUDA_SUCCESS)
        return result;
    fake_memory_lock();
    struct fake_block *block = fake_block_at((uintptr_t)pointer);
    bool ours = block && block->type == FAKE_BLOCK_HOST && block->address == (uintptr_t)pointer;
    if (ours) {
        fake_unpin(block->span);
        fake_block_free(block);
    }
    fake_memory_unlock();
    return ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags)
{
    CUcontext context;
    CUresult result = pointer && bytes ? fake_enter(&context) : CUDA_ERROR_INVALID_VALUE;
    struct registered *entry = result == CUDA_SUCCESS ? malloc(sizeof *entry) : NULL;

    (void)flags;
    if (!entry)
        return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
    fake_memory_lock();
    *entry = (struct registered){.next = registrations, .address = (uintptr_t)pointer, .bytes = bytes};
    registrations = entry;
    fake_memory_unlock();
    return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *pointer)
{
    fake_memory_lock();
    struct registered **at = &registrations, *found;
    while (*at && (*at)->address != (uintptr_t)pointer)
        at = &(*at)->next;
    found = *at;
    if (found)
        *at = found->next;
    fake_memory_unlock();
    free(found);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool is_host_memory(uintptr_t address)
{
    struct fake_block *block = fake_block_at(address);

    for (struct registered *at = registrations; at; at = at->next)
        if (address - at->address < at->bytes)
            return true;
    return block && block->type == FAKE_BLOCK_HOST;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *pointer, unsigned flags)
{
    fake_memory_lock();
    bool known = device && !flags && is_host_memory((uintptr_t)pointer);
    fake_memory_unlock();
    if (known)
        *device = (uintptr_t)pointer;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *pointer)
{
    fake_memory_lock();
    bool known = flags && is_host_memory((uintptr_t)pointer);
    fake_memory_unlock();
    if (known)
        *flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
