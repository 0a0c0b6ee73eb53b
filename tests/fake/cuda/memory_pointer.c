/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the attributes of a pointer. Never: answers for memory that the driver has neither allocated nor registered. */
#include <string.h>

#include "memory.h"

bool fake_memory_range(uint64_t address, struct fake_block **ret_block, uint64_t *ret_base, uint64_t *ret_bytes)
{
    struct fake_block *block = fake_block_at(address);

    if (!block || block->type == FAKE_BLOCK_ARRAY)
        return false;
    *ret_block = block;
    if (block->type == FAKE_BLOCK_SLAB)
        return fake_slab_range(block, address, ret_base, ret_bytes);
    if (block->type == FAKE_BLOCK_RESERVED)
        return fake_virtual_range(block, address, ret_base, ret_bytes);
    *ret_base = block->address;
    *ret_bytes = block->bytes;
    return address - block->address < block->bytes;
}

bool fake_memory_usable(uint64_t address, uint64_t bytes)
{
    struct fake_block *block;
    uint64_t base, size;

    fake_memory_lock();
    bool ours = fake_block_at(address);
    bool usable = ours && fake_memory_range(address, &block, &base, &size) &&
                  (block->type == FAKE_BLOCK_RESERVED ? fake_virtual_usable(block, address, bytes)
                                                      : bytes <= base + size - address);
    fake_memory_unlock();
    return usable;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
    struct fake_block *block;
    uint64_t first, bytes;
    CUcontext context;
    CUresult result = fake_enter(&context);

    if (result != CUDA_SUCCESS)
        return result;
    fake_memory_lock();
    bool found = fake_memory_range(pointer, &block, &first, &bytes);
    fake_memory_unlock();
    if (found && base)
        *base = first;
    if (found && size)
        *size = bytes;
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#define ANSWER(type, expression)                                                                                       \
    do {                                                                                                               \
        type answer = (expression);                                                                                    \
        memcpy(data, &answer, sizeof answer);                                                                          \
        return CUDA_SUCCESS;                                                                                           \
    } while (0)

static CUresult answer_attribute(void *data, CUpointer_attribute attribute, const struct fake_block *block,
                                 uint64_t base, uint64_t bytes, CUdeviceptr pointer)
{
    bool on_host = block->type == FAKE_BLOCK_HOST;

    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        ANSWER(CUcontext, block->context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        ANSWER(unsigned, on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        ANSWER(CUdeviceptr, pointer);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!on_host && block->type != FAKE_BLOCK_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        ANSWER(CUdeviceptr, pointer);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        ANSWER(unsigned, block->type == FAKE_BLOCK_MANAGED);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        ANSWER(int, block->context ? block->context->device : (int)block->physical);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        ANSWER(CUdeviceptr, base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        ANSWER(size_t, bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        ANSWER(unsigned, 1);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        ANSWER(CUmemoryPool, block->type == FAKE_BLOCK_POOLED ? fake_pool_of(block) : NULL);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    struct fake_block *block;
    uint64_t base, bytes;
    CUresult result = data ? fake_ready() : CUDA_ERROR_INVALID_VALUE;

    if (result != CUDA_SUCCESS)
        return result;
    fake_memory_lock();
    result = fake_memory_range(pointer, &block, &base, &bytes)
                 ? answer_attribute(data, attribute, block, base, bytes, pointer)
                 : CUDA_ERROR_INVALID_VALUE;
    fake_memory_unlock();
    return result;
}

/* For an unknown pointer the values are 0, and the call succeeds. */
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)
{
    if (!count || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if (cuPointerGetAttribute(data[i], attributes[i], pointer) != CUDA_SUCCESS)
            memset(data[i], 0, sizeof(unsigned));
    return CUDA_SUCCESS;
}
