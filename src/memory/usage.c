/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: numbers about spaces and memories, counted when a caller asks. Never: keeps a second count that could differ.
 */
#include <inttypes.h>
#include <string.h>

#include "base/need.h"
#include "base/sized.h"
#include "memory/allocate.h"
#include "memory/unmap_queue.h"

/* --- free pieces -------------------------------------------------------------------------------------------------- */

/* The free bytes in a space's slabs, and how many of them lie in pieces smaller than `request` bytes (useless_bytes).
 */
struct free_pieces {
    uint64_t request;
    uint64_t free_bytes, largest_bytes, useless_bytes;
    uint32_t pools;
};

static void count_slab(const struct facet_slab *slab, struct free_pieces *free_pieces)
{
    uint32_t live = atomic_load_explicit(&slab->used_blocks, memory_order_relaxed);
    uint64_t room = slab->blocks > live ? slab->blocks - live : 0;
    uint64_t piece = live ? slab->block_bytes : (uint64_t)slab->blocks * slab->block_bytes;
    uint64_t bytes = room * slab->block_bytes;

    free_pieces->free_bytes += bytes;
    if (room && piece > free_pieces->largest_bytes)
        free_pieces->largest_bytes = piece;
    if (piece < free_pieces->request)
        free_pieces->useless_bytes += bytes;
}

/* Full slabs, which are on no list, have no free blocks to count. */
static void count_arena(struct facet_pool_arena *arena, bool *pools_in_use, struct free_pieces *free_pieces)
{
    const struct facet_slab *slab;

    pthread_mutex_lock(&arena->lock);
    for (uint32_t class = 0; class < arena->space->memory->classes.count; class ++) {
        const struct facet_pool *pool = &arena->pools[class];

        pools_in_use[class] = pools_in_use[class] || pool->pages;
        if (pool->current)
            count_slab(pool->current, free_pieces);
        LIST_FOREACH (slab, &pool->listed, in_pool)
            count_slab(slab, free_pieces);
    }
    pthread_mutex_unlock(&arena->lock);
}

static void count_pieces(struct facet_space *space, struct free_pieces *free_pieces)
{
    bool pools_in_use[FACET_MEMORY_POOLS] = {false};

    for (uint32_t i = 0; i < space->arena_count; i++)
        count_arena(space->arenas[i], pools_in_use, free_pieces);
    for (uint32_t class = 0; class < FACET_MEMORY_POOLS; class ++)
        free_pieces->pools += pools_in_use[class];
}

enum facet_status facet_space_unusable(struct facet_space *space, uint64_t bytes, uint32_t *ret_milli,
                                       struct facet_error *error)
{
    struct free_pieces free_pieces = {.request = bytes};

    FACET_NEED(space, error);
    FACET_NEED(ret_milli, error);
    count_pieces(space, &free_pieces);
    *ret_milli = free_pieces.free_bytes ? (uint32_t)(free_pieces.useless_bytes * 1000 / free_pieces.free_bytes) : 0;
    return FACET_OK;
}

/* --- a space ------------------------------------------------------------------------------------------------------ */

/*
 * The requested bytes of all blocks. The slabs, which have `pages` in all, are found by the page table, because full
 * slabs are on no list.
 */
static uint64_t count_requested(const struct facet_space *space, uint64_t pages)
{
    uint64_t bytes = 0;

    for (uint32_t page = 0; page < space->table.count && pages;) {
        const struct facet_slab *slab = atomic_load_explicit(&space->table.slabs[page], memory_order_acquire);

        page += slab ? slab->pages : 1;
        pages -= slab && slab->pages < pages ? slab->pages : slab ? pages : 0;
        bytes += slab ? facet_slab_requested_bytes(slab) : 0;
    }
    return bytes;
}

static void count_blocks(struct facet_space *space, struct facet_space_usage *usage)
{
    uint64_t pages = 0;

    for (uint32_t i = 0; i < space->arena_count; i++) {
        struct facet_pool_arena *arena = space->arenas[i];

        pthread_mutex_lock(&arena->lock);
        usage->allocated_total += arena->blocks_taken;
        usage->allocations += arena->blocks_taken - atomic_load_explicit(&arena->blocks_given, memory_order_relaxed);
        for (uint32_t class = 0; class < space->memory->classes.count; class ++)
            pages += arena->pools[class].pages;
        pthread_mutex_unlock(&arena->lock);
    }
    usage->allocated_bytes += count_requested(space, pages);
}

static void count_pages(struct facet_space *space, struct facet_space_usage *usage)
{
    uint64_t page = space->memory->page_bytes;

    pthread_mutex_lock(&space->lock);
    usage->limit_bytes = space->limit_pages * page;
    usage->reserved_bytes = space->pages * page;
    usage->leaving_bytes = atomic_load(&space->unmap_queue.pages) * page;
    usage->peak_bytes = space->peak_pages * page;
    usage->pages_total = space->table.count;
    usage->pages_valid = space->pages - space->absent_pages;
    usage->pages_absent = space->absent_pages;
    usage->swapped_in_total = space->swapped_in;
    usage->swapped_out_total = space->swapped_out;
    usage->swap_ns = space->swap_ns;
    usage->waited_ns = space->waited_ns;
    usage->pages_moved_total = space->moved_pages;
    usage->allocations += space->run_count;
    usage->allocated_bytes += space->run_bytes;
    usage->allocated_total += space->run_total;
    pthread_mutex_unlock(&space->lock);
}

enum facet_status facet_space_get_usage(struct facet_space *space, struct facet_space_usage *ret_usage,
                                        struct facet_error *error)
{
    FACET_NEED(space, error);
    struct facet_space_usage usage = {.size = sizeof usage, .id = space->id};
    struct free_pieces free_pieces = {0};
    enum facet_status status = facet_sized_check("ret_usage", ret_usage, error);

    if (status != FACET_OK)
        return status;
    memcpy(usage.name, space->name, sizeof usage.name);
    facet_space_try_unmap_freed(space);
    count_blocks(space, &usage);
    count_pages(space, &usage);
    count_pieces(space, &free_pieces);
    usage.refused_total = atomic_load_explicit(&space->refused_total, memory_order_relaxed);
    usage.pools = free_pieces.pools;
    usage.free_bytes = free_pieces.free_bytes;
    usage.largest_free_bytes = free_pieces.largest_bytes;
    if (free_pieces.free_bytes)
        usage.fragmentation_milli = (uint32_t)(1000 - free_pieces.largest_bytes * 1000 / free_pieces.free_bytes);
    facet_sized_copy_out(ret_usage, &usage, sizeof usage);
    return FACET_OK;
}

uint64_t facet_space_reserved_bytes(struct facet_space *space)
{
    if (!space)
        return 0;
    pthread_mutex_lock(&space->lock);
    uint64_t bytes = space->pages * space->memory->page_bytes;
    pthread_mutex_unlock(&space->lock);
    return bytes;
}

/* --- a memory ----------------------------------------------------------------------------------------------------- */

/* Chunks may come and go while they are counted. */
static uint32_t huge_milli(const struct facet_memory *memory, uint64_t allocated_bytes)
{
    const struct facet_page_backend *backend = &memory->backend;
    uint64_t huge = backend->ops->huge_bytes ? backend->ops->huge_bytes(backend->data) : 0;

    return huge < allocated_bytes ? (uint32_t)(huge * 1000 / allocated_bytes) : huge ? 1000 : 0;
}

enum facet_status facet_memory_get_usage(struct facet_memory *memory, struct facet_memory_usage *ret_usage,
                                         struct facet_error *error)
{
    FACET_NEED(memory, error);
    struct facet_memory_usage usage = {
        .size = sizeof usage,
        .total_bytes = memory->frames.frames_max * memory->page_bytes,
        .page_bytes = memory->page_bytes,
        .chunk_bytes = memory->chunk_bytes,
    };
    enum facet_status status = facet_sized_check("ret_usage", ret_usage, error);
    struct facet_frames_count count;
    struct facet_space *space;

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&memory->lock);
    usage.spaces = memory->space_count;
    usage.limits_bytes = memory->limits_bytes;
    LIST_FOREACH (space, &memory->spaces, in_memory) {
        pthread_mutex_lock(&space->lock);
        usage.pages_moved_total += space->moved_pages;
        pthread_mutex_unlock(&space->lock);
    }
    pthread_mutex_unlock(&memory->lock);
    facet_frames_count(&memory->frames, &count);
    if (memory->swap) {
        usage.swap_bytes = facet_swap_bytes(memory->swap);
        usage.swap_used_bytes = facet_swap_used_bytes(memory->swap);
    }
    usage.chunk_count = count.chunk_count;
    usage.reserved_bytes = count.allocated_bytes;
    usage.used_bytes = count.used_bytes;
    usage.free_bytes = usage.total_bytes - count.used_bytes;
    usage.largest_free_bytes = count.largest_free_bytes;
    usage.fragmentation_milli = count.fragmentation_milli;
    usage.huge_milli = huge_milli(memory, count.allocated_bytes);
    facet_sized_copy_out(ret_usage, &usage, sizeof usage);
    return FACET_OK;
}

enum facet_status facet_space_page(struct facet_space *space, uint64_t address, struct facet_page *ret_page,
                                   struct facet_error *error)
{
    FACET_NEED(space, error);
    uint64_t offset = address - space->base;
    enum facet_status status = facet_sized_check("ret_page", ret_page, error);

    if (status != FACET_OK)
        return status;
    if (offset >= space->address_bytes)
        return facet_error_argument(error, FACET_NOT_FOUND, "address",
                                    "address: 0x%" PRIx64 " is no address of vGPU %u", address, space->id);
    uint32_t number = (uint32_t)(offset >> space->page_shift);
    const struct facet_entry *entry = &space->table.entries[number];
    struct facet_page page = {.size = sizeof page, .address = facet_space_address(space, number)};
    pthread_mutex_lock(&space->lock);
    uint32_t frame = facet_entry_frame(entry);
    page.flags = entry->swap_slot ? FACET_PAGE_SWAPPED : 0;
    if (frame != FACET_FRAME_NONE) {
        page.flags = FACET_PAGE_VALID | (entry->pins || space->whole_pins ? FACET_PAGE_PINNED : 0) |
                     (atomic_load_explicit(&entry->marks, memory_order_relaxed) & ~FACET_MARK_RECENT);
        if (atomic_load_explicit(&entry->state, memory_order_relaxed) == FACET_PAGE_SLAB)
            page.flags |= FACET_PAGE_BLOCKS;
        page.physical_bytes = (uint64_t)frame << space->page_shift;
        page.access_ns = atomic_load_explicit(&entry->access_ns, memory_order_relaxed);
    }
    pthread_mutex_unlock(&space->lock);
    facet_sized_copy_out(ret_page, &page, sizeof page);
    return FACET_OK;
}
