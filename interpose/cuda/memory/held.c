/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of holds, and the calls that map into arrays and bind to multicast objects. Never: reads an argument
 * list before the driver has accepted it.
 */
#include "held.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "charge.h"
#include "interpose/kit/memory/virtual.h"

struct facet_cuda_hold {
    struct facet_cuda_hold *next;
    uint64_t by;     /* an array, or a multicast object */
    uint64_t offset; /* in that object */
    bool is_array;
    struct facet_virtual *memory;
};

/* Protected by the lock of virtual memory, as that memory's reference counts are. */
static struct facet_cuda_hold *holds;
static _Atomic bool any;

/* Held during the driver's call, which is pending. */
static void lock_holds(void)
{
    facet_pending_enter(FACET_PENDING_ANY_DEVICE, 0);
    facet_virtual_lock();
}

static void unlock_holds(void)
{
    facet_virtual_unlock();
    facet_pending_leave();
}

static struct facet_cuda_hold *find_hold(uint64_t array, const struct facet_virtual *memory)
{
    struct facet_cuda_hold *hold = holds;

    while (hold && !(hold->is_array && hold->by == array && hold->memory == memory))
        hold = hold->next;
    return hold;
}

/* Memory of another process has no charge here. If the hold cannot be recorded, the memory stays charged for good. */
static void add_hold(uint64_t by, uint64_t offset, bool is_array, struct facet_virtual *memory)
{
    if (!memory || (is_array && find_hold(by, memory)))
        return;
    struct facet_cuda_hold *hold = malloc(sizeof *hold);
    facet_virtual_hold(memory);
    if (!hold)
        return;
    *hold = (struct facet_cuda_hold){.next = holds, .by = by, .offset = offset, .is_array = is_array, .memory = memory};
    holds = hold;
    atomic_store(&any, true);
}

/* ---- sparse arrays ---- */

/* The union gives both kinds of arrays at the same place. */
static void array_mapped(const CUarrayMapInfo *list, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP)
            add_hold((uintptr_t)list[i].resource.array, 0, true, facet_virtual_find(list[i].memHandle.memHandle));
}

static CUresult map_array(CUarrayMapInfo *list, unsigned count, CUstream stream,
                          CUresult (*driver)(CUarrayMapInfo *, unsigned, CUstream))
{
    lock_holds();
    CUresult result = driver(list, count, stream);
    if (result == CUDA_SUCCESS)
        array_mapped(list, count);
    unlock_holds();
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

static struct facet_cuda_hold *take_holds(uint64_t array)
{
    struct facet_cuda_hold **at = &holds, *taken = NULL;

    while (*at) {
        struct facet_cuda_hold *hold = *at;

        if (!hold->is_array || hold->by != array) {
            at = &hold->next;
            continue;
        }
        *at = hold->next;
        hold->next = taken;
        taken = hold;
    }
    return taken;
}

static void end_holds(struct facet_cuda_hold *list, bool gone)
{
    while (list) {
        struct facet_cuda_hold *hold = list;

        list = hold->next;
        if (gone) {
            facet_virtual_let_go(hold->memory);
            free(hold);
        } else {
            hold->next = holds;
            holds = hold;
        }
    }
}

struct facet_cuda_hold *facet_cuda_held_take(uint64_t array)
{
    struct facet_cuda_hold *taken;

    if (!atomic_load_explicit(&any, memory_order_relaxed))
        return NULL;
    lock_holds();
    taken = take_holds(array);
    unlock_holds();
    return taken;
}

void facet_cuda_held_end(struct facet_cuda_hold *list, bool gone)
{
    if (!list)
        return;
    lock_holds();
    end_holds(list, gone);
    unlock_holds();
}

/* The caller has shut the pending gate, so it must not add pending bytes. */
void facet_cuda_held_gone(uint64_t array)
{
    if (!atomic_load_explicit(&any, memory_order_relaxed))
        return;
    facet_virtual_lock();
    end_holds(take_holds(array), true);
    facet_virtual_unlock();
}

/* ---- multicast objects ---- */

CUresult facet_cuMulticastBindMem(CUmemGenericAllocationHandle object, size_t offset,
                                  CUmemGenericAllocationHandle handle, size_t from, size_t size,
                                  unsigned long long flags)
{
    lock_holds();
    CUresult result = facet_cuda_driver.cuMulticastBindMem(object, offset, handle, from, size, flags);
    if (result == CUDA_SUCCESS)
        add_hold(object, offset, false, facet_virtual_find(handle));
    unlock_holds();
    return result;
}

/* Memory of a pool belongs to the pool, which stays charged for it. */
CUresult facet_cuMulticastBindAddr(CUmemGenericAllocationHandle object, size_t offset, CUdeviceptr pointer, size_t size,
                                   unsigned long long flags)
{
    lock_holds();
    CUresult result = facet_cuda_driver.cuMulticastBindAddr(object, offset, pointer, size, flags);
    if (result == CUDA_SUCCESS)
        add_hold(object, offset, false, facet_virtual_at(pointer));
    unlock_holds();
    return result;
}

/* Only one device's memory: an object may have memory of several devices at one offset. */
static void object_unbound(uint64_t object, CUdevice device, uint64_t offset, uint64_t size)
{
    for (struct facet_cuda_hold **at = &holds; *at;) {
        struct facet_cuda_hold *hold = *at;

        if (hold->is_array || hold->by != object || hold->offset < offset || hold->offset - offset >= size ||
            facet_virtual_device(hold->memory) != (uint32_t)device) {
            at = &hold->next;
            continue;
        }
        *at = hold->next;
        facet_virtual_let_go(hold->memory);
        free(hold);
    }
}

CUresult facet_cuMulticastUnbind(CUmemGenericAllocationHandle object, CUdevice device, size_t offset, size_t size)
{
    lock_holds();
    CUresult result = facet_cuda_driver.cuMulticastUnbind(object, device, offset, size);
    if (result == CUDA_SUCCESS)
        object_unbound(object, device, offset, size);
    unlock_holds();
    return result;
}

/* The holds were the parent's. */
void facet_cuda_held_forked(void)
{
    while (holds) {
        struct facet_cuda_hold *hold = holds;

        holds = hold->next;
        free(hold);
    }
}
