/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: changing an allocation's size: in place if possible, else by a copy.
 * Never: frees the old allocation before its contents are in the new one.
 */
#include <inttypes.h>

#include "base/need.h"
#include "memory/allocate.h"
#include "memory/unmap_queue.h"

static enum facet_status move_to_new(struct facet_space *space, const struct facet_allocation *old, uint64_t bytes,
                                     uint64_t *ret_address, struct facet_error *error)
{
    const struct facet_allocation_options options = {.size = sizeof options, .tag = old->tag};
    uint64_t address = 0;
    enum facet_status status = facet_space_allocate(space, bytes, &options, &address, error);

    if (status != FACET_OK)
        return status;
    status = facet_space_copy(space, address, old->address, bytes < old->bytes ? bytes : old->bytes,
                              FACET_COPY_ON_DEVICE, error);
    if (status == FACET_OK)
        status = facet_space_free(space, old->address, error);
    if (status != FACET_OK) {
        (void)facet_space_free(space, address, NULL);
        return status;
    }
    *ret_address = address;
    return FACET_OK;
}

/* Whether a run remains a run: if a class has blocks of the new size, it becomes a block. */
static bool remains_run(const struct facet_space *space, const struct facet_allocation *old, uint64_t bytes)
{
    return old->usable_bytes % space->memory->page_bytes == 0 &&
           facet_classes_find(&space->memory->classes, old->bytes, 1) == FACET_NO_CLASS &&
           facet_classes_find(&space->memory->classes, bytes, 1) == FACET_NO_CLASS;
}

enum facet_status facet_space_resize(struct facet_space *space, uint64_t address, uint64_t bytes, uint64_t *ret_address,
                                     struct facet_error *error)
{
    struct facet_allocation old = {.size = sizeof old};

    FACET_NEED(ret_address, error);
    enum facet_status status = facet_space_find(space, address, &old, error);

    if (status != FACET_OK)
        return status;
    if (old.address != address)
        return facet_error_argument(error, FACET_NOT_FOUND, "address",
                                    "address: 0x%" PRIx64 " is inside an allocation of vGPU %u", address, space->id);
    status = facet_space_check_bytes(space, bytes, error);
    if (status != FACET_OK)
        return status;
    status = remains_run(space, &old, bytes) ? facet_runs_resize(space, address, bytes, error)
                                             : facet_pools_resize(space, address, bytes);
    if (atomic_load_explicit(&space->unmap_queue.unasked_count, memory_order_relaxed))
        (void)facet_space_unmap_freed(space); /* the pages that the allocation lost, or that a failed try had taken */
    if (status == FACET_OK)
        *ret_address = address;
    return status == FACET_TOO_SMALL ? move_to_new(space, &old, bytes, ret_address, error) : status;
}
