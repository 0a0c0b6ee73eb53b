/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the copies of idle.h, made piece by piece. Each piece is copied under the space's lock: its pages do not move
 * meanwhile, and other users of the space wait for one piece at most.
 * Never: touches memory that is not wholly inside one allocation of the space.
 */
#include "memory/idle.h"

#include "base/need.h"
#include "memory/space.h"
#include "memory/transfer.h"

struct access {
    uint64_t address, bytes;
    bool writes;
    const unsigned char *data; /* NULL: zeros */
    unsigned char *ret_data;
};

/*
 * Transfers one contiguous piece, of pass_bytes or one page at most, and returns its size in *ret_bytes. The caller
 * holds the space's lock.
 */
static enum facet_status access_piece(struct facet_space *space, const struct access *access, uint64_t done,
                                      uint64_t *ret_bytes, struct facet_error *error)
{
    struct facet_memory *memory = space->memory;
    const struct facet_page_backend *backend = &memory->backend;
    uint64_t page_bytes = memory->page_bytes, offset = access->address + done - space->base,
             left = access->bytes - done;
    uint64_t offset_in_page = offset & (page_bytes - 1),
             wanted = (offset_in_page + left + page_bytes - 1) >> space->page_shift;
    uint64_t pages_max = memory->pass_bytes > page_bytes ? memory->pass_bytes >> space->page_shift : 1;
    uint32_t first = (uint32_t)(offset >> space->page_shift);
    uint32_t pages = facet_space_row_of_frames(space, first, (uint32_t)(wanted < pages_max ? wanted : pages_max));
    const struct facet_page_place place =
        facet_frames_place(&memory->frames, facet_entry_frame(&space->table.entries[first]));
    uint64_t contiguous_bytes = pages * page_bytes - offset_in_page;

    *ret_bytes = contiguous_bytes < left ? contiguous_bytes : left;
    if (!access->writes)
        return backend->ops->get(backend->data, &place, offset_in_page, access->ret_data + done, *ret_bytes, error);
    return backend->ops->put(backend->data, &place, offset_in_page, access->data ? access->data + done : NULL,
                             *ret_bytes, error);
}

static enum facet_status access_pinned(struct facet_space *space, const struct access *access,
                                       struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint64_t done = 0, piece = 0; done < access->bytes && status == FACET_OK; done += piece) {
        pthread_mutex_lock(&space->lock);
        status = access_piece(space, access, done, &piece, error);
        pthread_mutex_unlock(&space->lock);
    }
    return status;
}

static enum facet_status access_range(struct facet_space *space, const struct access *access, struct facet_error *error)
{
    enum facet_status status = facet_space_check_range(space, "address", access->address, access->bytes, error);

    if (status != FACET_OK || access->bytes == 0)
        return status;
    status = facet_space_pin_range(space, access->address, access->bytes, error);
    if (status != FACET_OK)
        return status;
    status = access_pinned(space, access, error);
    facet_space_unpin_range(space, access->address, access->bytes);
    if (status == FACET_OK)
        facet_space_mark(space, access->address, access->bytes,
                         FACET_PAGE_ACCESSED | (access->writes ? FACET_PAGE_DIRTY : 0));
    return status;
}

enum facet_status facet_space_read_idle(struct facet_space *space, uint64_t address, void *ret_data, uint64_t bytes,
                                        struct facet_error *error)
{
    const struct access access = {.address = address, .bytes = bytes, .ret_data = ret_data};

    FACET_NEED(space, error);
    if (space->memory->backend.ops->get)
        return access_range(space, &access, error);
    return facet_space_copy(space, (uintptr_t)ret_data, address, bytes, FACET_COPY_TO_HOST, error);
}

enum facet_status facet_space_write_idle(struct facet_space *space, uint64_t address, const void *data, uint64_t bytes,
                                         struct facet_error *error)
{
    const struct access access = {.address = address, .bytes = bytes, .writes = true, .data = data};

    FACET_NEED(space, error);
    if (space->memory->backend.ops->put)
        return access_range(space, &access, error);
    if (!data)
        return facet_space_fill(space, address, 0, bytes, error);
    return facet_space_copy(space, address, (uintptr_t)data, bytes, FACET_COPY_TO_DEVICE, error);
}
