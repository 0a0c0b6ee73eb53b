/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: giving pages of a space their memory: quota, frames, clearing, mapping; all of it or none.
 * Never: chooses addresses.
 */
#include <inttypes.h>

#include "memory/space.h"

static struct facet_entry *entry_of(const struct facet_space *space, uint32_t page)
{
    return &space->table.entries[page];
}

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

static enum facet_status map_extent(struct facet_space *space, uint32_t first, const struct facet_extent *extent,
                                    bool clear, struct facet_error *error)
{
    const struct facet_page_backend *backend = &space->memory->backend;
    uint64_t address = facet_space_address(space, first);
    uint64_t bytes = extent->count * space->memory->page_bytes;
    enum facet_status status = backend->ops->map(backend->data, address, extent->pages, extent->offset, bytes, error);

    if (status != FACET_OK || clear)
        return status;
    status = backend->ops->fill(backend->data, address, 0, bytes, error);
    if (status != FACET_OK)
        backend->ops->unmap(backend->data, address, bytes);
    return status;
}

/* As many pages as the next frames in a row are. */
static enum facet_status back_some(struct facet_space *space, uint32_t first, uint32_t count, uint32_t *ret_count,
                                   struct facet_error *error)
{
    struct facet_frames *frames = &space->memory->frames;
    struct facet_extent extent;
    bool clear;
    enum facet_status status = facet_frames_take(frames, space->serial, first, count, &extent, &clear, error);

    if (status != FACET_OK)
        return status;
    status = map_extent(space, first, &extent, clear, error);
    if (status != FACET_OK) {
        facet_frames_give(frames, extent.frame, extent.count);
        return status;
    }
    for (uint32_t i = 0; i < extent.count; i++) {
        struct facet_entry *entry = entry_of(space, first + i);

        facet_entry_set_frame(entry, extent.frame + i);
        atomic_store_explicit(&entry->marks, 0, memory_order_relaxed);
        atomic_store_explicit(&entry->access_ns, 0, memory_order_relaxed);
    }
    space->pages += extent.count;
    *ret_count = extent.count;
    return FACET_OK;
}

enum facet_status facet_space_back(struct facet_space *space, uint32_t first, uint32_t count, struct facet_error *error)
{
    enum facet_status status = check_quota(space, count, error);

    for (uint32_t done = 0, some = 0; status == FACET_OK && done < count; done += some) {
        status = back_some(space, first + done, count - done, &some, error);
        if (status != FACET_OK && done)
            facet_space_unback(space, first, done);
    }
    if (status == FACET_OK && space->pages > space->peak_pages)
        space->peak_pages = space->pages;
    return status;
}

/* Frames that lie in a row in one chunk are given back at once. */
static uint32_t row_of_frames(const struct facet_space *space, uint32_t first, uint32_t count)
{
    uint32_t chunk = space->memory->frames.chunk_frames, row = 1;
    uint32_t frame = facet_entry_frame(entry_of(space, first));

    while (row < count && (frame + row) % chunk && facet_entry_frame(entry_of(space, first + row)) == frame + row)
        row++;
    return row;
}

void facet_space_unback(struct facet_space *space, uint32_t first, uint32_t count)
{
    const struct facet_page_backend *backend = &space->memory->backend;

    backend->ops->unmap(backend->data, facet_space_address(space, first), count * space->memory->page_bytes);
    for (uint32_t done = 0, row; done < count; done += row) {
        uint32_t frame = facet_entry_frame(entry_of(space, first + done));

        row = row_of_frames(space, first + done, count - done);
        for (uint32_t i = 0; i < row; i++)
            facet_entry_set_frame(entry_of(space, first + done + i), FACET_FRAME_NONE);
        facet_frames_give(&space->memory->frames, frame, row);
    }
    space->pages -= count;
}
