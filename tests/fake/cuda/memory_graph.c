/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: allocations of graphs: the addresses of each node, and how much each device holds for all of them.
 * Never: lets two launches share memory that both use. Like a pool, a device's graph memory is only two numbers, the
 * reserved and the used bytes.
 */
#include <stdlib.h>

#include "memory.h"
#include "vendor/cuda/graph_memory.h"

struct fake_allocation {
    struct fake_block *block;
    uint32_t holders; /* graphs and executable graphs with its node */
    bool alive;       /* allocated by a launch, and not freed yet */
};

struct graph_memory {
    uint64_t reserved, reserved_high, used, used_high;
};
static struct graph_memory graph_memories[FAKE_DEVICES];

static uint64_t size_of(const struct fake_allocation *allocation)
{
    return fake_round_up(allocation->block->bytes, FAKE_SMALL_STEP);
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
        block->type_data = detail;
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
    return *(struct fake_allocation **)block->type_data;
}

struct fake_allocation *fake_allocation_at(uint64_t address)
{
    fake_memory_lock();
    struct fake_block *block = fake_block_at(address);
    bool found = block && block->type == FAKE_BLOCK_GRAPH && block->address == address;
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

void fake_allocation_reference(struct fake_allocation *allocation)
{
    fake_memory_lock();
    allocation->holders++;
    fake_memory_unlock();
}

void fake_allocation_unreference(struct fake_allocation *allocation)
{
    fake_memory_lock();
    allocation->holders--;
    free_if_unused(allocation);
    fake_memory_unlock();
}

static void end_allocation(struct fake_allocation *allocation)
{
    graph_memories[allocation->block->physical].used -= size_of(allocation);
    allocation->alive = false;
}

bool fake_allocation_free(struct fake_block *block)
{
    struct fake_allocation *allocation = allocation_of(block);

    if (!allocation->alive)
        return false;
    end_allocation(allocation);
    free_if_unused(allocation);
    return true;
}

static bool grow_memory(uint32_t physical, uint64_t needed)
{
    struct graph_memory *graph_memory = &graph_memories[physical];
    uint64_t reserved = fake_round_up(needed, FAKE_PAGE);

    if (reserved <= graph_memory->reserved)
        return true;
    if (!fake_memory_reserve(physical, FAKE_POOL, reserved - graph_memory->reserved))
        return false;
    graph_memory->reserved = reserved;
    graph_memory->reserved_high = reserved > graph_memory->reserved_high ? reserved : graph_memory->reserved_high;
    return true;
}

/*
 * Whether the node at `index` frees memory that is alive when it runs: alive before the launch, or allocated by an
 * earlier node.
 */
static bool frees_live_memory(const struct fake_work *works, size_t index)
{
    bool is_alive = works[index].frees && works[index].frees->alive;

    for (size_t i = 0; i < index && works[index].frees && !is_alive; i++)
        is_alive = works[i].allocates == works[index].frees;
    return is_alive;
}

/* Reserves the peak of the memory that is in use while the nodes run one after the other. */
static bool reserve_peak(const struct fake_work *works, size_t count)
{
    uint64_t used[FAKE_DEVICES], peak[FAKE_DEVICES];
    bool fits = true;

    for (uint32_t i = 0; i < FAKE_DEVICES; i++)
        used[i] = peak[i] = graph_memories[i].used;
    for (size_t i = 0; i < count; i++) {
        uint32_t device = 0;

        if (frees_live_memory(works, i))
            used[works[i].frees->block->physical] -= size_of(works[i].frees);
        if (!works[i].allocates)
            continue;
        device = works[i].allocates->block->physical;
        used[device] += size_of(works[i].allocates);
        peak[device] = used[device] > peak[device] ? used[device] : peak[device];
    }
    for (uint32_t i = 0; i < FAKE_DEVICES && fits; i++)
        fits = grow_memory(i, peak[i]);
    return fits;
}

/* Whether memory of the last launch is still alive. `free_it`: frees that memory instead, and returns false. */
static bool has_live_memory(const struct fake_work *works, size_t count, bool free_it)
{
    bool any = false;

    for (size_t i = 0; i < count; i++) {
        if (!works[i].allocates || !works[i].allocates->alive)
            continue;
        any = true;
        if (free_it)
            end_allocation(works[i].allocates);
    }
    return any && !free_it;
}

static void run_nodes(const struct fake_work *works, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (works[i].frees && works[i].frees->alive)
            end_allocation(works[i].frees);
        if (!works[i].allocates)
            continue;
        struct graph_memory *graph_memory = &graph_memories[works[i].allocates->block->physical];
        works[i].allocates->alive = true;
        graph_memory->used += size_of(works[i].allocates);
        graph_memory->used_high =
            graph_memory->used > graph_memory->used_high ? graph_memory->used : graph_memory->used_high;
    }
}

CUresult fake_allocations_run(const struct fake_work *works, size_t count, bool free_first)
{
    CUresult result = CUDA_SUCCESS;

    fake_memory_lock();
    if (has_live_memory(works, count, free_first))
        result = CUDA_ERROR_INVALID_VALUE;
    else if (!reserve_peak(works, count))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    else
        run_nodes(works, count);
    fake_memory_unlock();
    return result;
}

CUresult fake_allocations_upload(const struct fake_work *works, size_t count)
{
    fake_memory_lock();
    bool fits = reserve_peak(works, count);
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
    uint64_t least = fake_round_up(graph_memories[physical].used, FAKE_PAGE);
    if (graph_memories[physical].reserved > least)
        fake_device_release(physical, FAKE_POOL, graph_memories[physical].reserved - least);
    if (graph_memories[physical].reserved > least)
        graph_memories[physical].reserved = least;
    fake_memory_unlock();
    return CUDA_SUCCESS;
}

static uint64_t *attribute_number(uint32_t physical, CUgraphMem_attribute attribute)
{
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        return &graph_memories[physical].used;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        return &graph_memories[physical].used_high;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        return &graph_memories[physical].reserved;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        return &graph_memories[physical].reserved_high;
    default:
        return NULL;
    }
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    uint32_t physical;
    CUresult result =
        value && attribute_number(0, attribute) ? fake_physical(device, &physical) : CUDA_ERROR_INVALID_VALUE;

    if (result != CUDA_SUCCESS)
        return result;
    fake_memory_lock();
    *(uint64_t *)value = *attribute_number(physical, attribute);
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
    *attribute_number(physical, attribute) = *attribute_number(physical, attribute - 1);
    fake_memory_unlock();
    return CUDA_SUCCESS;
}
