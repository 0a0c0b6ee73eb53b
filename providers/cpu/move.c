/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: moving pages while they are used, and recording their new addresses.
 * Never: writes to the addresses, which kernels use meanwhile (src/base/transplant.c moves the pages), or waits for
 * launches.
 */
#include <string.h>

#include "base/transplant.h"
#include "map.h"
#include "pages.h"
#include "pool.h"
#include "provider_kit.h"

static uint64_t range_bytes(struct cpu_range range)
{
    return range.end - range.at;
}

/* Makes the first piece of the range cover all of it. This cannot fail. */
static void replace_pieces(struct cpu_space *space, struct cpu_range range, struct cpu_pages *pages, uint64_t offset,
                           struct cpu_pages_list *unused)
{
    struct cpu_piece *first = cpu_piece_at(space, range.at);

    if (first->range.end < range.end)
        cpu_pieces_drop(space, (struct cpu_range){first->range.end, range.end}, unused);
    cpu_pages_drop(space->pool, first->pages, cpu_piece_part(first), unused);
    first->range = range;
    first->pages = pages;
    first->offset = offset;
}

static enum facet_status check_move(const struct cpu_space *space, struct cpu_range range, struct facet_error *error)
{
    enum facet_status status = cpu_range_check(space, range, error);

    if (status == FACET_OK)
        status = cpu_space_check(space, range.at, range_bytes(range), error);
    if (status == FACET_OK && space->pool->userfault_fd < 0)
        status = facet_kit_fail(error, FACET_UNSUPPORTED, FACET_TRANSPLANT_LACKS);
    return status;
}

/* The pages' address in the pool's view; NULL: there is none, or they are not contiguous there. */
static char *mapped_address(const struct cpu_space *space, struct cpu_range range)
{
    const struct cpu_piece *piece = cpu_piece_at(space, range.at);

    if (!piece->pages || !piece->pages->extent->view_address || piece->range.end < range.end)
        return NULL;
    return piece->pages->extent->view_address + piece->offset + (range.at - piece->range.at);
}

static enum facet_status transplant_pages(const struct cpu_space *space, struct cpu_range range,
                                          const struct cpu_pages *pages, uint64_t offset, struct facet_error *error)
{
    const struct facet_transplant place = {
        .file = space->pool->fd,
        .offset = pages->extent->offset + offset,
        .to = pages->extent->view_address ? pages->extent->view_address + offset : NULL,
        .from = mapped_address(space, range),
    };
    const char *failed_step = NULL;
    int failed =
        facet_transplant(space->pool->userfault_fd, (void *)range.at, range_bytes(range), &place, &failed_step);

    return failed ? facet_kit_fail(error, FACET_NO_MEMORY, "%s: %s", failed_step, strerror(failed)) : FACET_OK;
}

enum facet_status cpu_space_move(struct cpu_space *space, struct cpu_range range, uint64_t number, uint64_t offset,
                                 struct cpu_pages_list *unused, struct facet_error *error)
{
    const struct cpu_part part = {offset, range_bytes(range)};
    struct cpu_pages *pages = NULL;
    enum facet_status status = check_move(space, range, error);

    if (status == FACET_OK)
        status = cpu_pages_take(space, number, part, true, &pages, error);
    if (status != FACET_OK)
        return status;
    status = cpu_pieces_split(space, range, error);
    if (status == FACET_OK)
        status = transplant_pages(space, range, pages, offset, error);
    if (status == FACET_OK)
        replace_pieces(space, range, pages, offset, unused);
    else
        cpu_pages_drop(space->pool, pages, part, unused);
    return status;
}
