/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: allocations of whole pages.
 * Never: serves a size for which a pool has blocks.
 */
#include <inttypes.h>

#include "memory/space.h"

static void mark_run(struct facet_space *space, uint32_t first, uint32_t count, uint64_t bytes, uint32_t tag)
{
    struct facet_entry *entries = space->table.entries;

    for (uint32_t page = first; page < first + count; page++) {
        entries[page].head = first;
        atomic_store_explicit(&entries[page].state, page == first ? FACET_PAGE_HEAD : FACET_PAGE_BODY,
                              memory_order_relaxed);
    }
    entries[first].length = count;
    entries[first].tag = tag;
    entries[first].time_ns = space->memory->backend.tick_ns(space->memory->backend.data);
    atomic_store_explicit(&entries[first].bytes, bytes, memory_order_relaxed);
    space->run_count++;
    space->run_total++;
    space->run_bytes += bytes;
}

static enum facet_status refuse_no_addresses(const struct facet_space *space, uint64_t bytes, struct facet_error *error)
{
    return facet_error_set(error, FACET_NO_SPACE, "vGPU %u has no %" PRIu64 " bytes of addresses left", space->id,
                           bytes);
}

static enum facet_status take_run(struct facet_space *space, uint64_t bytes, uint32_t pages, uint32_t align,
                                  uint32_t tag, uint64_t *ret_address, struct facet_error *error)
{
    uint32_t first = facet_table_take(&space->table, pages, align);

    if (first == FACET_PAGE_NONE)
        return refuse_no_addresses(space, bytes, error);
    enum facet_status status = facet_space_back(space, first, pages, error);
    if (status != FACET_OK)
        return status;
    mark_run(space, first, pages, bytes, tag);
    *ret_address = facet_space_address(space, first);
    return FACET_OK;
}

enum facet_status facet_runs_take(struct facet_space *space, uint64_t bytes, uint64_t align, uint32_t tag,
                                  uint64_t *ret_address, struct facet_error *error)
{
    uint64_t page = space->memory->page_bytes;
    uint64_t align_pages = align > page ? align >> space->page_shift : 1;
    uint64_t pages = (bytes >> space->page_shift) + ((bytes & (page - 1)) != 0);

    if (pages > space->table.count)
        return refuse_no_addresses(space, bytes, error);
    pthread_mutex_lock(&space->lock);
    enum facet_status status = take_run(space, bytes, (uint32_t)pages, (uint32_t)align_pages, tag, ret_address, error);
    pthread_mutex_unlock(&space->lock);
    return status;
}

static void give_run(struct facet_space *space, uint32_t first)
{
    struct facet_entry *entry = &space->table.entries[first];
    uint32_t count = entry->length;

    space->run_count--;
    space->run_bytes -= atomic_load_explicit(&entry->bytes, memory_order_relaxed);
    facet_space_unback(space, first, count);
}

enum facet_status facet_runs_give(struct facet_space *space, uint64_t address, struct facet_error *error)
{
    uint32_t page = (uint32_t)((address - space->base) >> space->page_shift);
    bool begins = (address & (space->memory->page_bytes - 1)) == 0;

    pthread_mutex_lock(&space->lock);
    uint8_t state = atomic_load_explicit(&space->table.entries[page].state, memory_order_relaxed);
    bool found = begins && state == FACET_PAGE_HEAD, pinned = found && space->table.entries[page].pins;
    if (found && !pinned)
        give_run(space, page);
    pthread_mutex_unlock(&space->lock);
    if (pinned)
        return facet_error_argument(error, FACET_BUSY, "address", "address: 0x%" PRIx64 " of vGPU %u is pinned",
                                    address, space->id);
    if (found)
        return FACET_OK;
    return facet_error_argument(error, FACET_NOT_FOUND, "address", "address: 0x%" PRIx64 " %s of vGPU %u", address,
                                state == FACET_PAGE_HEAD || state == FACET_PAGE_BODY ? "is inside an allocation"
                                                                                     : "is no allocation",
                                space->id);
}

static enum facet_status grow_run(struct facet_space *space, uint32_t first, uint32_t pages, struct facet_error *error)
{
    struct facet_entry *entries = space->table.entries;
    uint32_t length = entries[first].length, more = pages - length;

    if (first + length >= space->table.count || !facet_table_take_at(&space->table, first + length, more))
        return FACET_TOO_SMALL;
    enum facet_status status = facet_space_back(space, first + length, more, error);
    if (status != FACET_OK)
        return status;
    for (uint32_t page = first + length; page < first + pages; page++) {
        entries[page].head = first;
        atomic_store_explicit(&entries[page].state, FACET_PAGE_BODY, memory_order_relaxed);
    }
    return FACET_OK;
}

static void shrink_run(struct facet_space *space, uint32_t first, uint32_t pages)
{
    uint32_t less = space->table.entries[first].length - pages;

    facet_space_unback(space, first + pages, less);
}

enum facet_status facet_runs_resize(struct facet_space *space, uint64_t address, uint64_t bytes,
                                    struct facet_error *error)
{
    uint32_t first = (uint32_t)((address - space->base) >> space->page_shift);
    uint64_t wanted = (bytes + space->memory->page_bytes - 1) >> space->page_shift;
    uint32_t pages = (uint32_t)wanted;
    struct facet_entry *head = &space->table.entries[first];
    enum facet_status status = FACET_OK;

    if (wanted > space->table.count)
        return FACET_TOO_SMALL;
    pthread_mutex_lock(&space->lock);
    if (pages > head->length)
        status = grow_run(space, first, pages, error);
    else if (pages < head->length && head->pins)
        status = facet_error_argument(error, FACET_BUSY, "address", "address: 0x%" PRIx64 " of vGPU %u is pinned",
                                      address, space->id);
    else if (pages < head->length)
        shrink_run(space, first, pages);
    if (status == FACET_OK) {
        space->run_bytes += bytes - atomic_load_explicit(&head->bytes, memory_order_relaxed);
        atomic_store_explicit(&head->bytes, bytes, memory_order_relaxed);
        head->length = pages;
    }
    pthread_mutex_unlock(&space->lock);
    return status;
}

void facet_runs_clear(struct facet_space *space)
{
    pthread_mutex_lock(&space->lock);
    for (uint32_t page = 0; page < space->table.count && space->run_count; page++)
        if (atomic_load_explicit(&space->table.entries[page].state, memory_order_relaxed) == FACET_PAGE_HEAD)
            give_run(space, page);
    pthread_mutex_unlock(&space->lock);
}
