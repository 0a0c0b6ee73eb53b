/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the unmap queue of unmap_queue.h: extents that await unmapping form a FIFO, linked through their first page's
 * entry; extents that the device was already asked to unmap come first.
 * Never: allocates memory, so that queueing cannot fail.
 */
#include "memory/unmap_queue.h"

#include "memory/space.h"

static struct facet_entry *entry_of(const struct facet_space *space, uint32_t page)
{
    return &space->table.entries[page];
}

/* --- the list; with the space's lock held ------------------------------------------------------------------------- */

static void hold_frames(struct facet_space *space, uint32_t first, uint32_t count)
{
    for (uint32_t done = 0, row; done < count; done += row) {
        row = facet_space_row_of_frames(space, first + done, count - done);
        facet_frames_hold(&space->memory->frames, facet_entry_frame(entry_of(space, first + done)), row);
    }
}

static void append_extent(struct facet_space *space, uint32_t first, uint32_t count)
{
    struct facet_unmap_queue *unmaps = &space->unmap_queue;
    struct facet_entry *entry = entry_of(space, first);

    hold_frames(space, first, count);
    for (uint32_t page = first; page < first + count; page++)
        atomic_store_explicit(&entry_of(space, page)->state, FACET_PAGE_AWAITS_UNMAP, memory_order_relaxed);
    entry->length = count;
    entry->next = FACET_PAGE_NONE;
    entry->prev = unmaps->last;
    if (unmaps->last == FACET_PAGE_NONE)
        unmaps->first = first;
    else
        entry_of(space, unmaps->last)->next = first;
    unmaps->last = first;
    if (unmaps->first_unasked == FACET_PAGE_NONE)
        unmaps->first_unasked = first;
    atomic_fetch_add(&unmaps->pages, count);
    atomic_fetch_add(&unmaps->unasked_count, 1);
}

static void unlink_extent(struct facet_space *space, uint32_t first)
{
    struct facet_unmap_queue *unmaps = &space->unmap_queue;
    const struct facet_entry *entry = entry_of(space, first);

    if (entry->prev == FACET_PAGE_NONE)
        unmaps->first = entry->next;
    else
        entry_of(space, entry->prev)->next = entry->next;
    if (entry->next == FACET_PAGE_NONE)
        unmaps->last = entry->prev;
    else
        entry_of(space, entry->next)->prev = entry->prev;
}

/* Frees the addresses of pages, and ends their charge. */
static void release_pages(struct facet_space *space, uint32_t first, uint32_t count)
{
    facet_table_give(&space->table, first, count);
    space->pages -= count;
    if (!space->memory->swap)
        return;
    facet_swap_release(space->memory->swap, count);
    facet_queue_wake(&space->memory->queue);
}

static void give_swap_slots(struct facet_space *space, uint32_t first, uint32_t count)
{
    for (uint32_t page = first; page < first + count; page++) {
        struct facet_entry *entry = entry_of(space, page);

        if (entry->swap_slot)
            facet_swap_give(space->memory->swap, entry->swap_slot - 1);
        entry->swap_slot = 0;
    }
    space->absent_pages -= count;
}

/* Pages without a frame are released at once: no launch can use them. */
void facet_space_unback(struct facet_space *space, uint32_t first, uint32_t count)
{
    for (uint32_t done = 0, row; done < count; done += row) {
        bool has_frames = facet_entry_frame(entry_of(space, first + done)) != FACET_FRAME_NONE;

        for (row = 1; done + row < count; row++)
            if ((facet_entry_frame(entry_of(space, first + done + row)) != FACET_FRAME_NONE) != has_frames)
                break;
        if (has_frames) {
            append_extent(space, first + done, row);
            continue;
        }
        give_swap_slots(space, first + done, row);
        release_pages(space, first + done, row);
    }
}

/* --- asking the device; with the unmap lock held ------------------------------------------------------------------ */

/* Only the list leads to the entries of queued pages, so no lock of the space is needed. */
static void give_frames(struct facet_space *space, uint32_t first, uint32_t count)
{
    for (uint32_t done = 0, row; done < count; done += row) {
        uint32_t frame = facet_entry_frame(entry_of(space, first + done));

        row = facet_space_row_of_frames(space, first + done, count - done);
        for (uint32_t i = 0; i < row; i++)
            facet_entry_set_frame(entry_of(space, first + done + i), FACET_FRAME_NONE);
        facet_frames_give(&space->memory->frames, frame, row);
    }
}

static enum facet_status unmap_extent(struct facet_space *space, uint32_t first, uint32_t count)
{
    const struct facet_page_backend *backend = &space->memory->backend;

    /* A copy that was admitted before the pages were queued may still use them; later copies are refused. */
    if (backend->host_memory)
        pthread_rwlock_wrlock(&space->transfer_lock);
    enum facet_status status = backend->ops->unmap(backend->data, space->context, facet_space_address(space, first),
                                                   count * space->memory->page_bytes);
    if (backend->host_memory)
        pthread_rwlock_unlock(&space->transfer_lock);
    if (status == FACET_OK)
        give_frames(space, first, count);
    return status;
}

/*
 * The oldest extents are tried first. After FACET_BUSY only extents follow that the device was not asked to unmap yet.
 * After a timeout the device is not asked again before the next call.
 */
static uint32_t next_extent_to_try(struct facet_space *space, uint32_t page, enum facet_status status)
{
    struct facet_unmap_queue *unmaps = &space->unmap_queue;
    uint32_t next = entry_of(space, page)->next;

    if (status == FACET_TIMEOUT) {
        unmaps->first_unasked = FACET_PAGE_NONE;
        atomic_store(&unmaps->unasked_count, 0);
    } else if (page == unmaps->first_unasked) {
        unmaps->first_unasked = next;
        atomic_fetch_sub(&unmaps->unasked_count, 1);
    }
    if (status == FACET_TIMEOUT)
        status = FACET_BUSY;
    if (status != FACET_OK && unmaps->last_refusal != FACET_BUSY)
        unmaps->last_refusal = status;
    return unmaps->last_refusal == FACET_BUSY ? unmaps->first_unasked : next;
}

static uint64_t unmap_queued(struct facet_space *space)
{
    struct facet_unmap_queue *unmaps = &space->unmap_queue;
    uint64_t unmapped_pages = 0;

    pthread_mutex_lock(&space->lock);
    unmaps->last_refusal = FACET_OK;
    for (uint32_t page = unmaps->first, next; page != FACET_PAGE_NONE; page = next) {
        uint32_t count = entry_of(space, page)->length;

        pthread_mutex_unlock(&space->lock);
        enum facet_status status = unmap_extent(space, page, count);
        pthread_mutex_lock(&space->lock);
        next = next_extent_to_try(space, page, status);
        if (status != FACET_OK)
            continue;
        unlink_extent(space, page);
        release_pages(space, page, count);
        atomic_fetch_sub(&unmaps->pages, count);
        unmapped_pages += count;
    }
    pthread_mutex_unlock(&space->lock);
    return unmapped_pages;
}

bool facet_space_awaits_unmap(const struct facet_space *space)
{
    return atomic_load(&space->unmap_queue.pages) > 0;
}

uint64_t facet_space_unmap_freed(struct facet_space *space)
{
    if (!facet_space_awaits_unmap(space))
        return 0;
    pthread_mutex_lock(&space->unmap_lock);
    uint64_t unmapped_pages = unmap_queued(space);
    pthread_mutex_unlock(&space->unmap_lock);
    return unmapped_pages;
}

void facet_space_try_unmap_freed(struct facet_space *space)
{
    if (!facet_space_awaits_unmap(space) || pthread_mutex_trylock(&space->unmap_lock) != 0)
        return;
    (void)unmap_queued(space);
    pthread_mutex_unlock(&space->unmap_lock);
}

/* --- init and clear ---------------------------------------------------------------------------------------- */

void facet_unmap_queue_init(struct facet_unmap_queue *queue)
{
    queue->first = queue->last = queue->first_unasked = FACET_PAGE_NONE;
}

void facet_unmap_queue_clear(struct facet_space *space)
{
    uint32_t next;

    for (uint32_t page = space->unmap_queue.first; page != FACET_PAGE_NONE; page = next) {
        next = entry_of(space, page)->next;
        give_frames(space, page, entry_of(space, page)->length);
    }
}
