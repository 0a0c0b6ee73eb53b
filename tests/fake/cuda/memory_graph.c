/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: allocations of graphs: the addresses of each node, and how much each device holds for all of them.
 * Never: lets two launches share memory that both use. A device's graph memory is only two numbers, the reserved and
 * the used bytes, as a pool is.
 */
#include <stdlib.h>

#include "memory.h"
#include "vendor/cuda/graph_memory.h"

struct fake_allocation {
    struct fake_block *block;
    uint32_t holders; /* graphs and executable graphs with its node */
    bool alive;       /* allocated by a launch, and not freed yet */
};

struct held {
    uint64_t reserved, reserved_high, used, used_high;
};
static struct held all[FAKE_DEVICES];

static uint64_t size_of(const struct fake_allocation *allocation)
{
    return fake_round(allocation->block->bytes, FAKE_SMALL_STEP);
}

struct fake_allocation *fake_allocation_make(uint32_t physical, uint64_t bytes, uint64_t *ret_address)
{
    struct fake_allocation *made = calloc(1, sizeof *made);

    fake_memory_lock();
    struct fake_block *block = made ? fake_block_make(FAKE_BLOCK_GRAPH, bytes) : NULL;
    if (block) {
        struct fake_allocation **detail = malloc(sizeof *detail);
        if (!detail)
            abort();
        *detail = made;
        block->detail = detail;
        block->physical = physical;
        *made = (struct fake_allocation){.block = block, .holders = 1};
        *ret_address = block->address;
    }
    fake_memory_unlock();
    if (!block) {
        free(made);
        return NULL;
    }
    return made;
}

static struct fake_allocation *allocation_of(const struct fake_block *block)
{
    return *(struct fake_allocation **)block->detail;
}

struct fake_allocation *fake_allocation_at(uint64_t address)
{
    fake_memory_lock();
    struct fake_block *block = fake_block_at(address);
    bool found = block && block->sort == FAKE_BLOCK_GRAPH && block->address == address;
    fake_memory_unlock();
    return found ? allocation_of(block) : NULL;
}

uint64_t fake_allocation_address(const struct fake_allocation *allocation)
{
    return allocation->block->address;
}

uint64_t fake_allocation_bytes(const struct fake_allocation *allocation)
{
    return allocation->block->bytes;
}

uint32_t fake_allocation_device(const struct fake_allocation *allocation)
{
    return allocation->block->physical;
}

/* An allocation keeps its addresses while a node may use them, or a launch's memory is not freed yet. */
static void free_if_unused(struct fake_allocation *allocation)
{
    if (allocation->holders || allocation->alive)
        return;
    fake_block_free(allocation->block);
    free(allocation);
}

void fake_allocation_hold(struct fake_allocation *allocation)
{
    fake_memory_lock();
    allocation->holders++;
    fake_memory_unlock();
}

void fake_allocation_let_go(struct fake_allocation *allocation)
{
    fake_memory_lock();
    allocation->holders--;
    free_if_unused(allocation);
    fake_memory_unlock();
}

static void end_life(struct fake_allocation *allocation)
{
    all[allocation->block->physical].used -= size_of(allocation);
    allocation->alive = false;
}

bool fake_allocation_give(struct fake_block *block)
{
    struct fake_allocation *allocation = allocation_of(block);

    if (!allocation->alive)
        return false;
    end_life(allocation);
    free_if_unused(allocation);
    return true;
}

static bool grow_memory(uint32_t physical, uint64_t needed)
{
    struct held *held = &all[physical];
    uint64_t reserved = fake_round(needed, FAKE_PAGE);

    if (reserved <= held->reserved)
        return true;
    if (!fake_memory_take(physical, FAKE_POOL, reserved - held->reserved))
        return false;
    held->reserved = reserved;
    held->reserved_high = reserved > held->reserved_high ? reserved : held->reserved_high;
    return true;
}

/*
 * Whether the node at `at` frees memory that is alive when it runs: alive before the launch, or allocated by an earlier
 * node.
 */
static bool frees_living(const struct fake_work *works, size_t at)
{
    bool there = works[at].gives && works[at].gives->alive;

    for (size_t i = 0; i < at && works[at].gives && !there; i++)
        there = works[i].takes == works[at].gives;
    return there;
}

/* Reserves the most memory that is in use at a time while the nodes run one after the other. */
static bool make_room(const struct fake_work *works, size_t count)
{
    uint64_t used[FAKE_DEVICES], most[FAKE_DEVICES];
    bool fits = true;

    for (uint32_t i = 0; i < FAKE_DEVICES; i++)
        used[i] = most[i] = all[i].used;
    for (size_t i = 0; i < count; i++) {
        uint32_t device = 0;

        if (frees_living(works, i))
            used[works[i].gives->block->physical] -= size_of(works[i].gives);
        if (!works[i].takes)
            continue;
        device = works[i].takes->block->physical;
        used[device] += size_of(works[i].takes);
        most[device] = used[device] > most[device] ? used[device] : most[device];
    }
    for (uint32_t i = 0; i < FAKE_DEVICES && fits; i++)
        fits = grow_memory(i, most[i]);
    return fits;
}

/* Whether memory of the last launch is still alive. `free_it`: frees that memory instead, and returns false. */
static bool is_left(const struct fake_work *works, size_t count, bool free_it)
{
    bool any = false;

    for (size_t i = 0; i < count; i++) {
        if (!works[i].takes || !works[i].takes->alive)
            continue;
        any = true;
        if (free_it)
            end_life(works[i].takes);
    }
    return any && !free_it;
}

static void run_nodes(const struct fake_work *works, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (works[i].gives && works[i].gives->alive)
            end_life(works[i].gives);
        if (!works[i].takes)
            continue;
        struct held *held = &all[works[i].takes->block->physical];
        works[i].takes->alive = true;
        held->used += size_of(works[i].takes);
        held->used_high = held->used > held->used_high ? held->used : held->used_high;
    }
}

CUresult fake_allocations_run(const struct fake_work *works, size_t count, bool free_first)
{
    CUresult result = CUDA_SUCCESS;

    fake_memory_lock();
    if (is_left(works, count, free_first))
        result = CUDA_ERROR_INVALID_VALUE;
    else if (!make_room(works, count))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    else
        run_nodes(works, count);
    fake_memory_unlock();
    return result;
}

CUresult fake_allocations_upload(const struct fake_work *works, size_t count)
{
    fake_memory_lock();
    bool fits = make_room(works, count);
    fake_memory_unlock();
    return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- the functions ---- */

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    uint32_t physical;
    CUresult result = fake_physical(device, &physical);

    if (result != CUDA_SUCCESS)
        return result;
    fake_memory_lock();
    uint64_t least = fake_round(all[physical].used, FAKE_PAGE);
    if (all[physical].reserved > least)
        fake_give(physical, FAKE_POOL, all[physical].reserved - least);
    if (all[physical].reserved > least)
        all[physical].reserved = least;
    fake_memory_unlock();
    return CUDA_SUCCESS;
}

static uint64_t *number_of(uint32_t physical, CUgraphMem_attribute attribute)
{
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        return &all[physical].used;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        return &all[physical].used_high;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        return &all[physical].reserved;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        return &all[physical].reserved_high;
    default:
        return NULL;
    }
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    uint32_t physical;
    CUresult result = value && number_of(0, attribute) ? fake_physical(device, &physical) : CUDA_ERROR_INVALID_VALUE;

    if (result != CUDA_SUCCESS)
        return result;
    fake_memory_lock();
    *(uint64_t *)value = *number_of(physical, attribute);
    fake_memory_unlock();
    return CUDA_SUCCESS;
}

/* Only a high-water mark can be set, and only to 0, which resets it to the current amount. */
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    uint32_t physical;
    bool is_high = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    CUresult result =
        value && is_high && !*(uint64_t *)value ? fake_physical(device, &physical) : CUDA_ERROR_INVALID_VALUE;

    if (result != CUDA_SUCCESS)
        return result;
    fake_memory_lock();
    *number_of(physical, attribute) = *number_of(physical, attribute - 1);
    fake_memory_unlock();
    return CUDA_SUCCESS;
}
