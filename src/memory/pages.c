/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: giving pages of a space their memory (quota, frames, clearing, mapping; all or nothing), and sending pages out
 * to the swap. All functions are called with the space's lock held.
 * Never: chooses addresses, or decides from which space memory is taken.
 */
#include <inttypes.h>

#include "memory/space.h"

static struct facet_entry *entry_of(const struct facet_space *space, uint32_t page)
{
    return &space->table.entries[page];
}

static bool has_frame(const struct facet_space *space, uint32_t page)
{
    return facet_entry_frame(entry_of(space, page)) != FACET_FRAME_NONE;
}

/* How many pages from `first` on have a frame (or, with `has_memory` false, have none). */
static uint32_t row_length(const struct facet_space *space, uint32_t first, uint32_t count, bool has_memory)
{
    uint32_t row = 0;

    while (row < count && has_frame(space, first + row) == has_memory)
        row++;
    return row;
}

/* --- taking memory away ------------------------------------------------------------------------------------------- */

/* Unmaps the page if no work uses it; otherwise the page stays as it is. */
static enum facet_status unmap_and_give_frame(struct facet_space *space, uint32_t page)
{
    struct facet_memory *memory = space->memory;
    const struct facet_page_backend *backend = &memory->backend;
    uint64_t address = facet_space_address(space, page);
    uint32_t frame = facet_entry_frame(entry_of(space, page));
    enum facet_status status = backend->ops->unmap(backend->data, space->context, address, memory->page_bytes);

    if (status != FACET_OK) {
        const struct facet_page_place place = facet_frames_place(&memory->frames, frame);

        (void)backend->ops->map(backend->data, space->context, address, &place, memory->page_bytes, NULL);
        return status;
    }
    facet_entry_set_frame(entry_of(space, page), FACET_FRAME_NONE);
    facet_frames_give(&memory->frames, frame, 1);
    return FACET_OK;
}

enum facet_status facet_space_send_out(struct facet_space *space, uint32_t page, struct facet_error *error)
{
    const struct facet_memory *memory = space->memory;
    uint32_t swap_slot = facet_swap_take(memory->swap);

    if (swap_slot == FACET_SWAP_SLOT_NONE)
        return facet_error_set(error, FACET_NO_SPACE, "the swap's %" PRIu64 " bytes are in use",
                               facet_swap_bytes(memory->swap));
    enum facet_status status =
        memory->backend.ops->read(memory->backend.data, space->context, facet_space_address(space, page),
                                  facet_swap_memory(memory->swap, swap_slot), memory->page_bytes, error);
    if (status == FACET_OK)
        status = unmap_and_give_frame(space, page);
    if (status != FACET_OK) {
        facet_swap_give(memory->swap, swap_slot);
        return status;
    }
    entry_of(space, page)->swap_slot = swap_slot + 1;
    space->absent_pages++;
    space->swapped_out++;
    return FACET_OK;
}

/* --- giving memory ------------------------------------------------------------------------------------------------ */

static enum facet_status check_quota(struct facet_space *space, uint32_t count, struct facet_error *error)
{
    uint64_t page = space->memory->page_bytes;

    if (count <= space->limit_pages - space->pages)
        return FACET_OK;
    return facet_error_set(error, FACET_QUOTA,
                           "vGPU %u ('%s') holds %" PRIu64 " of its %" PRIu64 " bytes, and %" PRIu64
                           " more were wanted (pages of %" PRIu64 ")",
                           space->id, space->name, space->pages * page, space->limit_pages * page, count * page, page);
}

/*
 * Restores the contents that the pages had when they were sent out, or clears them, so that the contents of other
 * spaces cannot be read.
 */
static enum facet_status fill_mapped(struct facet_space *space, uint32_t first, uint32_t count, bool clear,
                                     struct facet_error *error)
{
    const struct facet_memory *memory = space->memory;
    const struct facet_page_backend *backend = &memory->backend;
    uint64_t page_bytes = memory->page_bytes;
    uint32_t piece = memory->swap ? 1 : count;
    enum facet_status status = FACET_OK;

    for (uint32_t page = first; page < first + count && status == FACET_OK; page += piece) {
        uint32_t swap_slot = entry_of(space, page)->swap_slot;
        uint64_t address = facet_space_address(space, page);

        if (swap_slot)
            status = backend->ops->write(backend->data, space->context, address,
                                         facet_swap_memory(memory->swap, swap_slot - 1), page_bytes, error);
        else if (!clear)
            status = backend->ops->fill(backend->data, space->context, address, 0, piece * page_bytes, error);
    }
    return status;
}

static void enter_frames(struct facet_space *space, uint32_t first, const struct facet_extent *extent)
{
    for (uint32_t i = 0; i < extent->count; i++) {
        struct facet_entry *entry = entry_of(space, first + i);

        facet_entry_set_frame(entry, extent->frame + i);
        if (entry->swap_slot) {
            facet_swap_give(space->memory->swap, entry->swap_slot - 1);
            entry->swap_slot = 0;
            space->swapped_in++;
            continue;
        }
        atomic_store_explicit(&entry->marks, 0, memory_order_relaxed);
        atomic_store_explicit(&entry->access_ns, 0, memory_order_relaxed);
    }
}

/*
 * Like fill_mapped(), for a device that can write to pages before they are mapped, and so does not wait for the space's
 * kernels.
 */
static enum facet_status fill_unmapped(struct facet_space *space, uint32_t first, const struct facet_extent *extent,
                                       bool clear, struct facet_error *error)
{
    const struct facet_memory *memory = space->memory;
    const struct facet_page_backend *backend = &memory->backend;
    uint32_t piece = memory->swap ? 1 : extent->count;
    enum facet_status status = FACET_OK;

    for (uint32_t done = 0; done < extent->count && status == FACET_OK; done += piece) {
        uint32_t swap_slot = entry_of(space, first + done)->swap_slot;
        const struct facet_page_place place = {extent->place.pages, extent->place.offset + done * memory->page_bytes};

        if (swap_slot || !clear)
            status = backend->ops->put(backend->data, &place, 0,
                                       swap_slot ? facet_swap_memory(memory->swap, swap_slot - 1) : NULL,
                                       piece * memory->page_bytes, error);
    }
    return status;
}

static enum facet_status map_extent(struct facet_space *space, uint32_t first, const struct facet_extent *extent,
                                    bool clear, struct facet_error *error)
{
    const struct facet_memory *memory = space->memory;
    const struct facet_page_backend *backend = &memory->backend;
    uint64_t address = facet_space_address(space, first), bytes = extent->count * memory->page_bytes;
    enum facet_status status = backend->ops->put ? fill_unmapped(space, first, extent, clear, error) : FACET_OK;

    if (status == FACET_OK)
        status = backend->ops->map(backend->data, space->context, address, &extent->place, bytes, error);
    return status;
}

/* Takes frames in a row and gives them to as many pages. */
static enum facet_status back_row(struct facet_space *space, uint32_t first, uint32_t count, uint32_t *ret_count,
                                  struct facet_error *error)
{
    struct facet_memory *memory = space->memory;
    const struct facet_page_backend *backend = &memory->backend;
    uint64_t address = facet_space_address(space, first);
    struct facet_extent extent;
    bool clear;
    enum facet_status status = facet_frames_take(&memory->frames, space->serial, first, count, &extent, &clear, error);

    if (status != FACET_OK)
        return status;
    status = map_extent(space, first, &extent, clear, error);
    if (status != FACET_OK) {
        facet_frames_give(&memory->frames, extent.frame, extent.count);
        return status;
    }
    if (!backend->ops->put)
        status = fill_mapped(space, first, extent.count, clear, error);
    if (status != FACET_OK) {
        enum facet_status unmapped =
            backend->ops->unmap(backend->data, space->context, address, extent.count * memory->page_bytes);

        (unmapped == FACET_OK ? facet_frames_give : facet_frames_hold)(&memory->frames, extent.frame, extent.count);
        return status;
    }
    enter_frames(space, first, &extent);
    *ret_count = extent.count;
    return FACET_OK;
}

enum facet_status facet_space_bring_in(struct facet_space *space, uint32_t first, uint32_t count, uint32_t *ret_count,
                                       struct facet_error *error)
{
    uint32_t with_memory = row_length(space, first, count, true);

    if (with_memory) {
        *ret_count = with_memory;
        return FACET_OK;
    }
    enum facet_status status = back_row(space, first, row_length(space, first, count, false), ret_count, error);
    if (status == FACET_OK)
        space->absent_pages -= *ret_count;
    return status;
}

/*
 * Refuses a request that cannot be met before anything is mapped for it: while launches run, a new mapping might not be
 * undone before they are over.
 */
static enum facet_status check_room(struct facet_memory *memory, uint32_t count, struct facet_error *error)
{
    uint64_t left = facet_frames_free_count(&memory->frames);

    if (memory->swap || count <= left)
        return FACET_OK;
    return facet_error_set(error, FACET_NO_SPACE,
                           "the device has %" PRIu64 " bytes of memory left, and %" PRIu64 " were wanted",
                           left * memory->page_bytes, count * memory->page_bytes);
}

/* With a swap, pages without memory now get it when they are pinned. */
static enum facet_status back_rows(struct facet_space *space, uint32_t first, uint32_t count, uint32_t *ret_done,
                                   struct facet_error *error)
{
    for (uint32_t advanced = 0; *ret_done < count; *ret_done += advanced) {
        enum facet_status status = back_row(space, first + *ret_done, count - *ret_done, &advanced, error);

        if (status == FACET_NO_SPACE && space->memory->swap) {
            space->absent_pages += count - *ret_done;
            return FACET_OK;
        }
        if (status != FACET_OK)
            return status;
    }
    return FACET_OK;
}

/* Undoes facet_space_back() after only the first `done` pages got memory. */
static void undo_back(struct facet_space *space, uint32_t first, uint32_t count, uint32_t done)
{
    if (space->memory->swap)
        facet_swap_release(space->memory->swap, count - done);
    facet_table_give(&space->table, first + done, count - done);
    space->pages += done;
    facet_space_unback(space, first, done);
}

enum facet_status facet_space_back(struct facet_space *space, uint32_t first, uint32_t count, struct facet_error *error)
{
    struct facet_swap *swap = space->memory->swap;
    enum facet_status status = check_quota(space, count, error);
    uint32_t done = 0;

    if (status == FACET_OK)
        status = check_room(space->memory, count, error);
    if (status == FACET_OK && swap)
        status = facet_swap_reserve(swap, count, error);
    if (status != FACET_OK) {
        facet_table_give(&space->table, first, count);
        return status;
    }
    status = back_rows(space, first, count, &done, error);
    if (status != FACET_OK) {
        undo_back(space, first, count, done);
        return status;
    }
    space->pages += count;
    if (space->pages > space->peak_pages)
        space->peak_pages = space->pages;
    return FACET_OK;
}
