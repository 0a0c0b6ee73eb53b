/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory without an address, and mappings of it.
 *
 * Owns: how many handles and mappings each such memory has: it is charged until the last of them goes.
 * Never: charges what is the host's, or another process's.
 *
 * Handles and mappings are counted under a lock that is held while the driver is called: it may give a handle or an
 * address again as soon as it has taken it back.
 *
 * Whoever has what was exported of it, a file descriptor, can hold it, and nobody learns when the last one is
 * closed: so what was exported stays charged until this process ends.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "charge.h"
#include "held.h"
#include "interpose/cuda/swap/swap.h"
#include "virtual.h"

struct facet_cuda_virtual {
    struct facet_cuda_charge charge;
    CUmemGenericAllocationHandle handle;
    uint64_t handles, mappings; /* what else holds it counts as a mapping */
    bool exported;
};

/* In the order of addresses; no two overlap. */
struct mapping {
    CUdeviceptr address;
    uint64_t bytes;
    struct facet_cuda_virtual *memory;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping *mappings;
static size_t mapping_count, mapping_room;

static struct facet_cuda_virtual *find(CUmemGenericAllocationHandle handle)
{
    struct facet_ledger_entry entry;

    if (!facet_cuda_process.ledger || !handle ||
        !facet_ledger_find(facet_cuda_process.ledger, facet_cuda_key(FACET_CUDA_VIRTUAL, handle), &entry))
        return NULL;
    return (struct facet_cuda_virtual *)(uintptr_t)entry.owner;
}

static void forget_handle(const struct facet_cuda_virtual *memory)
{
    struct facet_ledger_entry entry;

    facet_ledger_take(facet_cuda_process.ledger, facet_cuda_key(FACET_CUDA_VIRTUAL, memory->handle), &entry);
}

static void let_go(struct facet_cuda_virtual *memory)
{
    if (memory->handles || memory->mappings)
        return;
    if (!memory->exported)
        facet_cuda_charge_drop(&memory->charge);
    free(memory);
}

/* The first mapping that ends behind `address`. */
static size_t from(CUdeviceptr address)
{
    size_t low = 0, high = mapping_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (mappings[middle].address + mappings[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool make_place(void)
{
    size_t room = mapping_room ? mapping_room * 2 : 64;
    struct mapping *larger;

    if (mapping_count < mapping_room)
        return true;
    larger = realloc(mappings, room * sizeof *mappings);
    if (!larger)
        return false;
    mappings = larger;
    mapping_room = room;
    return true;
}

static CUresult create(struct facet_cuda_virtual *memory, CUmemGenericAllocationHandle *handle, size_t bytes,
                       const CUmemAllocationProp *properties, unsigned long long flags)
{
    CUresult result = facet_cuda_charge_begin((uint32_t)properties->location.id, bytes, &memory->charge);

    if (result != CUDA_SUCCESS)
        return result;
    result = facet_cuda_driver.cuMemCreate(handle, bytes, properties, flags);
    if (result == CUDA_SUCCESS) {
        memory->handle = *handle;
        memory->handles = 1;
        if (facet_cuda_charge_keep(&memory->charge, FACET_CUDA_VIRTUAL, *handle, (uintptr_t)memory))
            return CUDA_SUCCESS;
        facet_cuda_driver.cuMemRelease(*handle);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    facet_cuda_charge_drop(&memory->charge);
    return result;
}

/* Of anything but a device the id is none: it is not ours to read. What is wrong is the driver's to refuse. */
CUresult facet_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                           unsigned long long flags)
{
    if (!properties || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->location.id < 0 ||
        (uint32_t)properties->location.id >= facet_cuda_process.count)
        return facet_cuda_driver.cuMemCreate(handle, bytes, properties, flags);
    struct facet_cuda_virtual *memory = calloc(1, sizeof *memory);
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = create(memory, handle, bytes, properties, flags);
    facet_transit_leave();
    if (result != CUDA_SUCCESS)
        free(memory);
    return result;
}

CUresult facet_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    facet_transit_enter(FACET_TRANSIT_ANY_DEVICE, 0);
    pthread_mutex_lock(&lock);
    CUresult result = facet_cuda_driver.cuMemRelease(handle);
    struct facet_cuda_virtual *memory = result == CUDA_SUCCESS ? find(handle) : NULL;
    if (memory && !--memory->handles) {
        forget_handle(memory);
        let_go(memory);
    }
    pthread_mutex_unlock(&lock);
    facet_transit_leave();
    return result;
}

CUresult facet_cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                        unsigned long long flags)
{
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    pthread_mutex_lock(&lock);
    struct facet_cuda_virtual *memory = find(handle);
    if (!memory || make_place())
        result = facet_cuda_driver.cuMemMap(pointer, bytes, offset, handle, flags);
    if (result == CUDA_SUCCESS && memory) {
        size_t at = from(pointer);

        memmove(&mappings[at + 1], &mappings[at], (mapping_count++ - at) * sizeof *mappings);
        mappings[at] = (struct mapping){.address = pointer, .bytes = bytes, .memory = memory};
        memory->mappings++;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* One call may end several mappings. */
CUresult facet_cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
    if (facet_cuda_swap_has(pointer))
        return CUDA_ERROR_INVALID_VALUE;
    facet_transit_enter(FACET_TRANSIT_ANY_DEVICE, 0);
    pthread_mutex_lock(&lock);
    CUresult result = facet_cuda_driver.cuMemUnmap(pointer, bytes);
    size_t first = from(pointer), end = first;
    while (result == CUDA_SUCCESS && end < mapping_count && mappings[end].address < pointer + bytes) {
        mappings[end].memory->mappings--;
        let_go(mappings[end].memory);
        end++;
    }
    if (end > first)
        memmove(&mappings[first], &mappings[end], (mapping_count - end) * sizeof *mappings);
    mapping_count -= end - first;
    pthread_mutex_unlock(&lock);
    facet_transit_leave();
    return result;
}

static struct facet_cuda_virtual *mapped_at(CUdeviceptr address)
{
    size_t at = from(address);

    return at < mapping_count && mappings[at].address <= address ? mappings[at].memory : NULL;
}

/* A handle more of memory that is ours: the one that it has, or a new one of memory of which only a mapping was left.
 */
static void count_handle(struct facet_cuda_virtual *memory, CUmemGenericAllocationHandle handle)
{
    if (memory->handles && memory->handle != handle)
        return; /* another name for the same; it is let go by the one that we know */
    memory->handle = handle;
    if (memory->handles || facet_cuda_charge_keep(&memory->charge, FACET_CUDA_VIRTUAL, handle, (uintptr_t)memory))
        memory->handles++;
}

CUresult facet_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    if (facet_cuda_swap_has((uintptr_t)address))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    CUresult result = facet_cuda_driver.cuMemRetainAllocationHandle(handle, address);
    struct facet_cuda_virtual *memory = result == CUDA_SUCCESS ? mapped_at((uintptr_t)address) : NULL;
    if (memory)
        count_handle(memory, *handle);
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult facet_cuMemExportToShareableHandle(void *shared, CUmemGenericAllocationHandle handle,
                                            CUmemAllocationHandleType type, unsigned long long flags)
{
    pthread_mutex_lock(&lock);
    CUresult result = facet_cuda_driver.cuMemExportToShareableHandle(shared, handle, type, flags);
    struct facet_cuda_virtual *memory = result == CUDA_SUCCESS ? find(handle) : NULL;
    if (memory)
        memory->exported = true;
    pthread_mutex_unlock(&lock);
    return result;
}

/* Only where it is this process's own that comes back is it counted; of what it has released, the charge stayed. */
CUresult facet_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
                                              CUmemAllocationHandleType type)
{
    pthread_mutex_lock(&lock);
    CUresult result = facet_cuda_driver.cuMemImportFromShareableHandle(handle, shared, type);
    struct facet_cuda_virtual *memory = result == CUDA_SUCCESS ? find(*handle) : NULL;
    if (memory)
        memory->handles++;
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- what else holds it (held.h) ---- */

void facet_cuda_virtual_lock(void)
{
    facet_transit_enter(FACET_TRANSIT_ANY_DEVICE, 0);
    pthread_mutex_lock(&lock);
}

void facet_cuda_virtual_unlock(void)
{
    pthread_mutex_unlock(&lock);
    facet_transit_leave();
}

struct facet_cuda_virtual *facet_cuda_virtual_find(CUmemGenericAllocationHandle handle)
{
    return find(handle);
}

struct facet_cuda_virtual *facet_cuda_virtual_at(CUdeviceptr pointer)
{
    return mapped_at(pointer);
}

uint32_t facet_cuda_virtual_device(const struct facet_cuda_virtual *memory)
{
    return memory->charge.device;
}

void facet_cuda_virtual_hold(struct facet_cuda_virtual *memory)
{
    memory->mappings++;
}

void facet_cuda_virtual_let_go(struct facet_cuda_virtual *memory)
{
    memory->mappings--;
    let_go(memory);
}

void facet_cuda_virtual_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void facet_cuda_virtual_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* What the parent mapped is not the child's; of what has no mapping the ledger alone knew. */
void facet_cuda_virtual_forked(void)
{
    mapping_count = 0;
    facet_cuda_held_forked();
    pthread_mutex_unlock(&lock);
}
