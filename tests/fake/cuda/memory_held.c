/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: memory that sparse arrays and multicast objects hold.
 * Never: tracks tiles (an unmapping removes every mapping of the array), or frees a multicast object.
 */
#include <stdlib.h>

#include "memory.h"

/* Handles of multicast objects are above this number, handles of memory below. */
#define MULTICAST_BASE UINT64_C(0x4d000000)

struct held {
    struct held *next;
    uint64_t holder, offset;
    void *memory;
};
static struct held *held_list;
static uint64_t object_count;

static bool add_held(uint64_t holder, uint64_t offset, void *memory)
{
    struct held *held = memory ? malloc(sizeof *held) : NULL;

    if (held) {
        *held = (struct held){.next = held_list, .holder = holder, .offset = offset, .memory = memory};
        held_list = held;
    }
    return held;
}

/* Returns whether anything was dropped. `device`: UINT32_MAX means any. */
static bool drop_held(uint64_t holder, uint64_t offset, uint64_t size, uint32_t device)
{
    bool found = false;

    for (struct held **at = &held_list; *at;) {
        struct held *held = *at;

        if (held->holder != holder || held->offset < offset || held->offset - offset >= size ||
            (device != UINT32_MAX && fake_virtual_device(held->memory) != device)) {
            at = &held->next;
            continue;
        }
        *at = held->next;
        fake_virtual_unreference(held->memory);
        free(held);
        found = true;
    }
    return found;
}

void fake_held_drop_array(uint64_t array)
{
    drop_held(array, 0, UINT64_MAX, UINT32_MAX);
}

static bool apply_tile_map(const CUarrayMapInfo *tile_map)
{
    uint64_t array = (uintptr_t)tile_map->resource.array;
    struct fake_block *block = fake_block_at(array);

    if (!block || block->type != FAKE_BLOCK_ARRAY || block->address != array)
        return false;
    if (tile_map->memOperationType == CU_MEM_OPERATION_TYPE_MAP)
        return add_held(array, 0, fake_virtual_reference(tile_map->memHandle.memHandle));
    return drop_held(array, 0, UINT64_MAX, UINT32_MAX);
}

static CUresult do_cuMemMapArrayAsync(bool per_thread, const CUarrayMapInfo *list, unsigned count, CUstream handle)
{
    CUstream stream;
    CUresult result = list && count ? fake_stream(handle, per_thread, &stream) : CUDA_ERROR_INVALID_VALUE;

    fake_memory_lock();
    for (unsigned i = 0; result == CUDA_SUCCESS && i < count; i++)
        result = apply_tile_map(&list[i]) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    fake_memory_unlock();
    return result;
}
FAKE_BOTH_FORMS(cuMemMapArrayAsync, (CUarrayMapInfo * list, unsigned count, CUstream stream), list, count, stream)

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *object, const CUmulticastObjectProp *properties)
{
    if (!object || !properties || !properties->numDevices || !properties->size || properties->flags)
        return CUDA_ERROR_INVALID_VALUE;
    fake_memory_lock();
    *object = MULTICAST_BASE + ++object_count;
    fake_memory_unlock();
    return CUDA_SUCCESS;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle object, CUdevice device)
{
    uint32_t physical;

    return object > MULTICAST_BASE ? fake_physical(device, &physical) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult bind_held(CUmemGenericAllocationHandle object, size_t offset, void *memory)
{
    return object > MULTICAST_BASE && add_held(object, offset, memory) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle object, size_t offset, CUmemGenericAllocationHandle handle,
                            size_t from, size_t size, unsigned long long flags)
{
    fake_memory_lock();
    CUresult result =
        size && !flags ? bind_held(object, offset, fake_virtual_reference(handle)) : CUDA_ERROR_INVALID_VALUE;
    fake_memory_unlock();
    (void)from;
    return result;
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle object, size_t offset, CUdeviceptr pointer, size_t size,
                             unsigned long long flags)
{
    fake_memory_lock();
    CUresult result =
        size && !flags ? bind_held(object, offset, fake_virtual_reference_at(pointer)) : CUDA_ERROR_INVALID_VALUE;
    fake_memory_unlock();
    return result;
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle object, CUdevice device, size_t offset, size_t size)
{
    uint32_t physical;

    if (fake_physical(device, &physical) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    fake_memory_lock();
    bool found = drop_held(object, offset, size, physical);
    fake_memory_unlock();
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
