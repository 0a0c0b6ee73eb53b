/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the entry to swapping for the other files, and the hooks that differ in a process that swaps. Never: moves
 * memory itself (move.h).
 */
#include "swap.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "block.h"
#include "guard.h"
#include "move.h"
#include "quiesce.h"

#define MIN_SWAPPABLE_BYTES                                                                                            \
    (UINT64_C(1) << 20) /* smaller allocations come from the driver's slabs, and are not swapped */
#define DRAIN_TRIES 8   /* attempts to drain the device for an allocation that it has no memory for */

_Atomic bool facet_cuda_swap_used;

static pthread_once_t read_once = PTHREAD_ONCE_INIT;
static bool swaps;

static bool is_oversubscribed(const char *dir)
{
    FACET_CLEANUP_FD int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
    void *policy;
    size_t size;

    if (dir_fd < 0 ||
        facet_segment_map(dir_fd, "policy", false, sizeof(struct facet_policy), &policy, &size, &fd, NULL) != FACET_OK)
        return false;
    bool oversubscribed = facet_policy_check(policy, size, "policy", NULL) == FACET_OK &&
                          atomic_load(&((const struct facet_policy *)policy)->oversubscribed);
    munmap(policy, size);
    return oversubscribed;
}

/* Called before attaching: the program may fetch every function before cuInit. */
static void read_segments(void)
{
    const char *given = getenv(FACET_ENV_VGPU_DIR);
    char *dirs = given ? strdup(given) : NULL, *rest = dirs, *dir;

    while (dirs && (dir = strsep(&rest, ":")))
        swaps = swaps || is_oversubscribed(dir);
    free(dirs);
}

bool facet_cuda_swaps(void)
{
    pthread_once(&read_once, read_segments);
    return swaps;
}

void facet_cuda_swap_attached(void)
{
    for (uint32_t i = 0; facet_cuda_swaps() && i < facet_cuda_process.count; i++) {
        facet_cuda_process.tenants[i].release_lock = facet_cuda_quiesce_step_out;
        facet_cuda_process.tenants[i].retake_lock = facet_cuda_quiesce_enter_again;
    }
}

/* ---- replacements of driver functions ---- */

/* The driver would answer for one mapping; an allocation has several mappings, or none while it is away. */
static CUresult address_range(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
    CUdeviceptr first;
    size_t bytes;

    if (!facet_cuda_blocks_range(pointer, &first, &bytes))
        return facet_cuda_unhooked.cuMemGetAddressRange_v2(base, size, pointer);
    if (base)
        *base = first;
    if (size)
        *size = bytes;
    return CUDA_SUCCESS;
}

/* Answers a query for the beginning or the size of an allocation; false for other attributes. */
static bool answers_range(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    bool wants_start = attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;
    CUdeviceptr first;
    size_t bytes;

    if (!data || (!wants_start && attribute != CU_POINTER_ATTRIBUTE_RANGE_SIZE) ||
        !facet_cuda_blocks_range(pointer, &first, &bytes))
        return false;
    memcpy(data, wants_start ? (const void *)&first : &bytes, wants_start ? sizeof first : sizeof bytes);
    return true;
}

static CUresult pointer_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    if (answers_range(data, attribute, pointer))
        return CUDA_SUCCESS;
    CUresult result = facet_cuda_swap_enter();
    if (result != CUDA_SUCCESS)
        return result;
    return facet_cuda_swap_leave(facet_cuda_unhooked.cuPointerGetAttribute(data, attribute, pointer));
}

static CUresult pointer_attributes(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)
{
    CUresult result = facet_cuda_swap_enter();

    if (result != CUDA_SUCCESS)
        return result;
    result = facet_cuda_swap_leave(facet_cuda_unhooked.cuPointerGetAttributes(count, attributes, data, pointer));
    for (unsigned i = 0; result == CUDA_SUCCESS && i < count; i++)
        answers_range(data[i], attributes[i], pointer);
    return result;
}

/* Refuses swappable memory: after it has left the device, its handle could lead to another allocation. */
static CUresult handle_for_range(void *handle, CUdeviceptr pointer, size_t bytes, int type, unsigned long long flags)
{
    CUdeviceptr first;
    size_t size;

    if (facet_cuda_blocks_range(pointer, &first, &size))
        return CUDA_ERROR_NOT_SUPPORTED;
    return facet_cuda_unhooked.cuMemGetHandleForAddressRange(handle, pointer, bytes, type, flags);
}

void *facet_cuda_swap_target(const char *name, void *target)
{
    if (!target || !facet_cuda_swaps())
        return target;
    if (target == (void *)facet_cuda_unhooked.cuMemGetAddressRange_v2)
        return (void *)address_range;
    if (target == (void *)facet_cuda_unhooked.cuPointerGetAttribute)
        return (void *)pointer_attribute;
    if (target == (void *)facet_cuda_unhooked.cuPointerGetAttributes)
        return (void *)pointer_attributes;
    if (target == (void *)facet_cuda_unhooked.cuMemGetHandleForAddressRange)
        return (void *)handle_for_range;
    return facet_cuda_guard_is_for(name) ? facet_cuda_guard(target) : target;
}

/* ---- allocating and freeing ---- */

static bool driver_can_map(void)
{
    return facet_cuda_driver.cuMemCreate && facet_cuda_driver.cuMemRelease && facet_cuda_driver.cuMemMap &&
           facet_cuda_driver.cuMemUnmap && facet_cuda_unhooked.cuMemAddressReserve &&
           facet_cuda_unhooked.cuMemAddressFree && facet_cuda_unhooked.cuMemSetAccess &&
           facet_cuda_unhooked.cuMemHostAlloc;
}

bool facet_cuda_swap_applies(uint32_t device, uint64_t bytes)
{
    if (bytes < MIN_SWAPPABLE_BYTES || !facet_cuda_swaps() || !driver_can_map() || !facet_cuda_owner())
        return false;
    struct facet_tenant *tenant = facet_cuda_tenant(device);
    if (!tenant || !atomic_load(&tenant->policy->oversubscribed) || !facet_cuda_move_start())
        return false;
    atomic_store_explicit(&facet_cuda_swap_used, true, memory_order_relaxed);
    return true;
}

static bool is_resident(const struct facet_cuda_block *block)
{
    for (uint32_t i = 0; i < block->chunk_count; i++)
        if (!block->chunks[i].handle)
            return false;
    return true;
}

/*
 * Called when the device has no memory for the block now. The process's memory is marked as away; this thread, or a
 * thread that is moving memory already, then brings all of it in, with the block. A thread that is inside the gate
 * finds all memory on the device.
 */
static CUresult wait_for_memory(const struct facet_cuda_block *block)
{
    CUresult result = CUDA_SUCCESS;
    bool resident = false;

    for (int i = 0; i < DRAIN_TRIES && result == CUDA_SUCCESS && !resident; i++) {
        facet_cuda_move_away();
        result = facet_cuda_swap_enter();
        resident = result == CUDA_SUCCESS && is_resident(block);
        if (result == CUDA_SUCCESS)
            facet_cuda_swap_leave(result);
    }
    return result == CUDA_SUCCESS && !resident ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

CUresult facet_cuda_swap_allocate(CUdeviceptr *pointer, uint32_t device, uint64_t bytes)
{
    struct facet_cuda_block *block;
    CUresult result = facet_cuda_swap_enter();

    if (result != CUDA_SUCCESS)
        return result;
    result = facet_cuda_block_make(device, bytes, &block);
    if (result != CUDA_SUCCESS)
        return facet_cuda_swap_leave(result);
    result = facet_cuda_block_bring_in(block);
    CUdeviceptr address = block->address;
    bool resident = is_resident(block);
    facet_cuda_blocks_add(block);
    facet_cuda_swap_leave(CUDA_SUCCESS);
    if (!resident && result == CUDA_ERROR_OUT_OF_MEMORY)
        result = wait_for_memory(block);
    if (result == CUDA_SUCCESS)
        *pointer = address;
    else
        facet_cuda_swap_free(address, &(CUresult){0});
    return result;
}

/* Like the driver's own cuMemFree, waits for all work of the context. */
static void wait_and_free(struct facet_cuda_block *block)
{
    CUcontext popped;

    if (facet_cuda_unhooked.cuCtxPushCurrent_v2(block->context) != CUDA_SUCCESS) {
        facet_cuda_block_free(block, true);
        return;
    }
    facet_cuda_driver.cuCtxSynchronize();
    facet_cuda_block_free(block, false);
    facet_cuda_unhooked.cuCtxPopCurrent_v2(&popped);
}

bool facet_cuda_swap_free_slow(CUdeviceptr pointer, CUresult *ret_result)
{
    bool held = facet_cuda_swap_hold();
    struct facet_cuda_block *block = facet_cuda_blocks_take(pointer);
    if (block)
        wait_and_free(block);
    facet_cuda_swap_release(held);
    if (block)
        *ret_result = CUDA_SUCCESS;
    return block;
}

/* ---- contexts ---- */

bool facet_cuda_swap_hold(void)
{
    bool holds = atomic_load_explicit(&facet_cuda_swap_used, memory_order_relaxed);

    if (holds)
        facet_cuda_quiesce_hold();
    return holds;
}

void facet_cuda_swap_release(bool held)
{
    if (held)
        facet_cuda_quiesce_release();
}

bool facet_cuda_swap_has(CUdeviceptr pointer)
{
    CUdeviceptr base;
    size_t bytes;

    return atomic_load_explicit(&facet_cuda_swap_used, memory_order_relaxed) &&
           facet_cuda_blocks_range(pointer, &base, &bytes);
}

void facet_cuda_swap_context_ended(CUcontext context)
{
    struct facet_cuda_block *block;

    while (atomic_load_explicit(&facet_cuda_swap_used, memory_order_relaxed) &&
           (block = facet_cuda_blocks_take_of_context(context)))
        facet_cuda_block_free(block, true);
}

/* ---- fork ---- */

void facet_cuda_swap_before_fork(void)
{
    facet_cuda_blocks_before_fork();
}

void facet_cuda_swap_after_fork(void)
{
    facet_cuda_blocks_after_fork();
}

void facet_cuda_swap_forked(void)
{
    facet_cuda_blocks_forked();
    facet_cuda_quiesce_forked();
    facet_cuda_move_forked();
}
