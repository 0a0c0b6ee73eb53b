/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of references, and the calls that map into arrays and bind to multicast objects. Never: reads an
 * argument list before the driver has accepted it.
 */
#include "reference.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "charge.h"
#include "interpose/kit/memory/virtual.h"

struct facet_cuda_reference {
    struct facet_cuda_reference *next;
    uint64_t holder; /* an array, or a multicast object */
    uint64_t offset; /* in that object */
    bool is_array;
    struct facet_virtual *memory;
};

/* Protected by the lock of virtual memory, as that memory's reference counts are. */
static struct facet_cuda_reference *references;
static _Atomic bool ever_added;

/* Held during the driver's call, which is pending. */
static void lock_references(void)
{
    facet_pending_enter(FACET_PENDING_ANY_DEVICE, 0);
    facet_virtual_lock();
}

static void unlock_references(void)
{
    facet_virtual_unlock();
    facet_pending_leave();
}

static struct facet_cuda_reference *find_reference(uint64_t array, const struct facet_virtual *memory)
{
    struct facet_cuda_reference *reference = references;

    while (reference && !(reference->is_array && reference->holder == array && reference->memory == memory))
        reference = reference->next;
    return reference;
}

/*
 * Memory of another process has no charge here. If the reference cannot be recorded, the memory stays charged
 * for good.
 */
static void add_reference(uint64_t holder, uint64_t offset, bool is_array, struct facet_virtual *memory)
{
    if (!memory || (is_array && find_reference(holder, memory)))
        return;
    struct facet_cuda_reference *reference = malloc(sizeof *reference);
    facet_virtual_add_reference(memory);
    if (!reference)
        return;
    *reference = (struct facet_cuda_reference){
        .next = references, .holder = holder, .offset = offset, .is_array = is_array, .memory = memory};
    references = reference;
    atomic_store(&ever_added, true);
}

/* ---- sparse arrays ---- */

/* `resource` is a union: it has the handle of an array or of a mipmapped array at the same place. */
static void add_array_references(const CUarrayMapInfo *list, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP)
            add_reference((uintptr_t)list[i].resource.array, 0, true, facet_virtual_find(list[i].memHandle.memHandle));
}

static CUresult map_array(CUarrayMapInfo *list, unsigned count, CUstream stream,
                          CUresult (*driver)(CUarrayMapInfo *, unsigned, CUstream))
{
    lock_references();
    CUresult result = driver(list, count, stream);
    if (result == CUDA_SUCCESS)
        add_array_references(list, count);
    unlock_references();
    return result;
}

CUresult facet_cuMemMapArrayAsync(CUarrayMapInfo *list, unsigned count, CUstream stream)
{
    return map_array(list, count, stream, facet_cuda_driver.cuMemMapArrayAsync);
}

CUresult facet_cuMemMapArrayAsync_ptsz(CUarrayMapInfo *list, unsigned count, CUstream stream)
{
    return map_array(list, count, stream, facet_cuda_driver.cuMemMapArrayAsync_ptsz);
}

static struct facet_cuda_reference *detach_references(uint64_t array)
{
    struct facet_cuda_reference **at = &references, *detached = NULL;

    while (*at) {
        struct facet_cuda_reference *reference = *at;

        if (!reference->is_array || reference->holder != array) {
            at = &reference->next;
            continue;
        }
        *at = reference->next;
        reference->next = detached;
        detached = reference;
    }
    return detached;
}

static void finish_references(struct facet_cuda_reference *list, bool array_destroyed)
{
    while (list) {
        struct facet_cuda_reference *reference = list;

        list = reference->next;
        if (array_destroyed) {
            facet_virtual_drop_reference(reference->memory);
            free(reference);
        } else {
            reference->next = references;
            references = reference;
        }
    }
}

struct facet_cuda_reference *facet_cuda_references_detach(uint64_t array)
{
    struct facet_cuda_reference *detached;

    if (!atomic_load_explicit(&ever_added, memory_order_relaxed))
        return NULL;
    lock_references();
    detached = detach_references(array);
    unlock_references();
    return detached;
}

void facet_cuda_references_finish(struct facet_cuda_reference *list, bool array_destroyed)
{
    if (!list)
        return;
    lock_references();
    finish_references(list, array_destroyed);
    unlock_references();
}

/* The caller has shut the pending gate, so it must not add pending bytes. */
void facet_cuda_references_drop(uint64_t array)
{
    if (!atomic_load_explicit(&ever_added, memory_order_relaxed))
        return;
    facet_virtual_lock();
    finish_references(detach_references(array), true);
    facet_virtual_unlock();
}

/* ---- multicast objects ---- */

CUresult facet_cuMulticastBindMem(CUmemGenericAllocationHandle object, size_t offset,
                                  CUmemGenericAllocationHandle handle, size_t memory_offset, size_t size,
                                  unsigned long long flags)
{
    lock_references();
    CUresult result = facet_cuda_driver.cuMulticastBindMem(object, offset, handle, memory_offset, size, flags);
    if (result == CUDA_SUCCESS)
        add_reference(object, offset, false, facet_virtual_find(handle));
    unlock_references();
    return result;
}

/* Memory of a pool belongs to the pool, which stays charged for it. */
CUresult facet_cuMulticastBindAddr(CUmemGenericAllocationHandle object, size_t offset, CUdeviceptr pointer, size_t size,
                                   unsigned long long flags)
{
    lock_references();
    CUresult result = facet_cuda_driver.cuMulticastBindAddr(object, offset, pointer, size, flags);
    if (result == CUDA_SUCCESS)
        add_reference(object, offset, false, facet_virtual_at(pointer));
    unlock_references();
    return result;
}

/* Drops references to one device's memory only: an object may have memory of several devices at one offset. */
static void drop_bound_references(uint64_t object, CUdevice device, uint64_t offset, uint64_t size)
{
    for (struct facet_cuda_reference **at = &references; *at;) {
        struct facet_cuda_reference *reference = *at;

        if (reference->is_array || reference->holder != object || reference->offset < offset ||
            reference->offset - offset >= size || facet_virtual_device(reference->memory) != (uint32_t)device) {
            at = &reference->next;
            continue;
        }
        *at = reference->next;
        facet_virtual_drop_reference(reference->memory);
        free(reference);
    }
}

CUresult facet_cuMulticastUnbind(CUmemGenericAllocationHandle object, CUdevice device, size_t offset, size_t size)
{
    lock_references();
    CUresult result = facet_cuda_driver.cuMulticastUnbind(object, device, offset, size);
    if (result == CUDA_SUCCESS)
        drop_bound_references(object, device, offset, size);
    unlock_references();
    return result;
}

/* The references were the parent's. */
void facet_cuda_references_forked(void)
{
    while (references) {
        struct facet_cuda_reference *reference = references;

        references = reference->next;
        free(reference);
    }
}
