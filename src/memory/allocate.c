/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the public calls about allocations: checking requests, blocks or runs, and finding the allocation of an
 * address.
 * Never: follows an address before it is found in the page table.
 */
#include <inttypes.h>

#include "base/need.h"
#include "base/sized.h"
#include "memory/allocate.h"
#include "memory/unmap_queue.h"

#define ALIGN_DEFAULT 256u

enum facet_status facet_space_check_bytes(const struct facet_space *space, uint64_t bytes, struct facet_error *error)
{
    uint64_t max = facet_memory_max_bytes(space->memory);

    if (bytes && bytes <= max)
        return FACET_OK;
    return facet_error_argument(error, FACET_OUT_OF_RANGE, "bytes",
                                "bytes: %" PRIu64 ", expected 1 to all memory of the device%s, %" PRIu64, bytes,
                                space->memory->swap ? " and its swap" : "", max);
}

static enum facet_status check_request(const struct facet_space *space, uint64_t bytes, uint64_t align,
                                       struct facet_error *error)
{
    enum facet_status status = facet_space_check_bytes(space, bytes, error);

    if (status != FACET_OK)
        return status;
    if (align == 0 || (align & (align - 1)) || align > FACET_ALIGN_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "align",
                                    "align: %" PRIu64 ", expected a power of two from 1 to %" PRIu64, align,
                                    FACET_ALIGN_MAX);
    return FACET_OK;
}

static enum facet_status allocate_bytes(struct facet_space *space, uint64_t bytes, uint64_t align, uint32_t tag,
                                        uint64_t *ret_address, struct facet_error *error)
{
    uint32_t class = facet_classes_find(&space->memory->classes, bytes, align);

    if (class != FACET_NO_CLASS)
        return facet_pools_take(space, class, (uint32_t)bytes, tag, ret_address, error);
    enum facet_status status = facet_runs_take(space, bytes, align, tag, ret_address, error);
    if ((status != FACET_QUOTA && status != FACET_NO_SPACE) || !facet_pools_trim(space))
        return status;
    return facet_runs_take(space, bytes, align, tag, ret_address, error);
}

/* The request is above the whole limit of the space: freeing memory would not help. */
static enum facet_status refuse_above_limit(const struct facet_space *space, uint64_t bytes, uint64_t limit_pages,
                                            struct facet_error *error)
{
    return facet_error_argument(error, FACET_QUOTA, "bytes",
                                "bytes: %" PRIu64 " is more than all that vGPU %u ('%s') may have, %" PRIu64
                                ": raise its limit, or ask for less",
                                bytes, space->id, space->name, limit_pages << space->page_shift);
}

/* Makes the error of a request refused for lack of memory: FACET_BUSY if pages that await unmapping would be enough. */
static enum facet_status explain_refusal(struct facet_space *space, uint64_t bytes, enum facet_status refused,
                                         struct facet_error *error)
{
    uint64_t page = space->memory->page_bytes, wanted = (bytes >> space->page_shift) + ((bytes & (page - 1)) != 0);

    pthread_mutex_lock(&space->lock);
    uint64_t awaited = atomic_load(&space->unmap_queue.pages);
    uint64_t limit = space->limit_pages, left = refused == FACET_QUOTA ? limit - (space->pages - awaited) : awaited;
    pthread_mutex_unlock(&space->lock);
    if (wanted > limit)
        return refuse_above_limit(space, bytes, limit, error);
    if (!awaited || wanted > left)
        return refused;
    return facet_error_set(error, FACET_BUSY,
                           "vGPU %u ('%s') has freed %" PRIu64
                           " bytes that launches queued before may still use: synchronize first, or cancel them",
                           space->id, space->name, awaited * page);
}

enum facet_status facet_space_allocate(struct facet_space *space, uint64_t bytes,
                                       const struct facet_allocation_options *options, uint64_t *ret_address,
                                       struct facet_error *error)
{
    uint64_t align = options && options->align ? options->align : ALIGN_DEFAULT;

    FACET_NEED(space, error);
    FACET_NEED(ret_address, error);
    enum facet_status status = check_request(space, bytes, align, error);

    if (status == FACET_OK && options && options->size < sizeof *options)
        status =
            facet_error_argument(error, FACET_INVALID_ARGUMENT, "options",
                                 "options: size %" PRIu32 ", expected that of struct facet_allocation_options, %zu",
                                 options->size, sizeof *options);
    if (status != FACET_OK)
        return status;
    FACET_NEED_KNOWN("options", options, error);
    status = allocate_bytes(space, bytes, align, options ? options->tag : 0, ret_address, error);
    if (status == FACET_OK)
        return status;
    atomic_fetch_add_explicit(&space->refused_total, 1, memory_order_relaxed);
    (void)facet_space_unmap_freed(space); /* the pages that the request took before it failed */
    return status == FACET_QUOTA || status == FACET_NO_SPACE ? explain_refusal(space, bytes, status, error) : status;
}

/* The slab of an offset in the space; NULL: the page there is of no slab. */
static struct facet_slab *slab_at(const struct facet_space *space, uint64_t offset)
{
    return atomic_load_explicit(&space->table.slabs[offset >> space->page_shift], memory_order_acquire);
}

static enum facet_status refuse_unknown_address(const struct facet_space *space, uint64_t address,
                                                struct facet_error *error)
{
    return facet_error_argument(error, FACET_NOT_FOUND, "address", "address: 0x%" PRIx64 " is no address of vGPU %u",
                                address, space->id);
}

enum facet_status facet_space_free(struct facet_space *space, uint64_t address, struct facet_error *error)
{
    FACET_NEED(space, error);
    if (!address)
        return FACET_OK;
    uint64_t offset = address - space->base;
    if (offset >= space->address_bytes)
        return refuse_unknown_address(space, address, error);
    struct facet_slab *slab = slab_at(space, offset);
    enum facet_status status =
        slab ? facet_pools_give(space, slab, address, error) : facet_runs_give(space, address, error);
    if (atomic_load_explicit(&space->unmap_queue.unasked_count, memory_order_relaxed))
        (void)facet_space_unmap_freed(space);
    return status;
}

/* --- the allocation of an address --------------------------------------------------------------------------------- */

static bool find_block(const struct facet_slab *slab, uint64_t address, struct facet_allocation *ret_allocation)
{
    uint64_t start = atomic_load_explicit(&slab->address, memory_order_relaxed);
    uint32_t block = (uint32_t)((address - start) / slab->block_bytes);

    if (address < start || !facet_slab_uses_block(slab, block))
        return false;
    *ret_allocation = (struct facet_allocation){
        .size = sizeof *ret_allocation,
        .tag = atomic_load_explicit(&slab->records[block].tag, memory_order_relaxed),
        .address = start + (uint64_t)block * slab->block_bytes,
        .bytes = atomic_load_explicit(&slab->records[block].bytes, memory_order_relaxed),
        .usable_bytes = slab->block_bytes,
        .time_ns = atomic_load_explicit(&slab->records[block].time_ns, memory_order_relaxed),
    };
    return true;
}

static bool find_run(struct facet_space *space, const struct facet_entry *entry,
                     struct facet_allocation *ret_allocation)
{
    pthread_mutex_lock(&space->lock);
    uint8_t state = atomic_load_explicit(&entry->state, memory_order_relaxed);
    bool found = state == FACET_PAGE_HEAD || state == FACET_PAGE_BODY;
    if (found) {
        const struct facet_entry *head = &space->table.entries[entry->head];

        *ret_allocation = (struct facet_allocation){
            .size = sizeof *ret_allocation,
            .tag = head->tag,
            .address = facet_space_address(space, entry->head),
            .bytes = atomic_load_explicit(&head->bytes, memory_order_relaxed),
            .usable_bytes = (uint64_t)head->length << space->page_shift,
            .time_ns = head->time_ns,
        };
    }
    pthread_mutex_unlock(&space->lock);
    return found;
}

bool facet_space_lookup(struct facet_space *space, uint64_t address, struct facet_allocation *ret_allocation)
{
    uint64_t offset = address - space->base;

    if (offset >= space->address_bytes)
        return false;
    const struct facet_slab *slab = slab_at(space, offset);
    return slab ? find_block(slab, address, ret_allocation)
                : find_run(space, &space->table.entries[offset >> space->page_shift], ret_allocation);
}

enum facet_status facet_space_find(struct facet_space *space, uint64_t address, struct facet_allocation *ret_allocation,
                                   struct facet_error *error)
{
    struct facet_allocation found;

    FACET_NEED(space, error);
    enum facet_status status = facet_sized_check("ret_allocation", ret_allocation, error);
    if (status != FACET_OK)
        return status;
    if (!facet_space_lookup(space, address, &found))
        return refuse_unknown_address(space, address, error);
    facet_sized_copy_out(ret_allocation, &found, sizeof found);
    return FACET_OK;
}
