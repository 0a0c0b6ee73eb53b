/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: mapping pages into reservations, and the pieces that record the mappings.
 * Never: leaves a hole into which the process could map something else: addresses without pages stay reserved.
 */
#include "map.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "pages.h"
#include "provider_kit.h"

enum facet_status cpu_range_check(const struct cpu_space *space, struct cpu_range range, struct facet_error *error)
{
    if (range.end > range.at && range.at % CPU_PAGE_BYTES == 0 && range.end % CPU_PAGE_BYTES == 0 &&
        cpu_reservation_around(space, range))
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                          "address %#" PRIx64 ", bytes %" PRIu64 ": expected whole pages of %" PRIu64
                          " bytes inside one reservation",
                          range.at, range.end - range.at, CPU_PAGE_BYTES);
}

/* --- pieces --- */

static enum facet_status add_piece(struct cpu_space *space, struct cpu_range range, struct cpu_pages *pages,
                                   uint64_t offset, uint64_t retired, struct facet_error *error)
{
    struct cpu_piece *piece = calloc(1, sizeof *piece);

    if (piece)
        *piece = (struct cpu_piece){.range = range, .pages = pages, .offset = offset, .retired_from = retired};
    if (piece && tsearch(piece, &space->pieces, cpu_range_compare))
        return FACET_OK;
    free(piece);
    return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a mapping");
}

static enum facet_status split_piece(struct cpu_space *space, uint64_t at, struct facet_error *error)
{
    struct cpu_piece *piece = cpu_piece_at(space, at);

    if (!piece || piece->range.at == at)
        return FACET_OK;
    uint64_t end = piece->range.end;
    piece->range.end = at;
    enum facet_status status = add_piece(space, (struct cpu_range){at, end}, piece->pages,
                                         piece->offset + (at - piece->range.at), piece->retired_from, error);
    if (status != FACET_OK)
        piece->range.end = end;
    return status;
}

enum facet_status cpu_pieces_split(struct cpu_space *space, struct cpu_range range, struct facet_error *error)
{
    enum facet_status status = split_piece(space, range.at, error);

    return status == FACET_OK ? split_piece(space, range.end, error) : status;
}

void cpu_pieces_drop(struct cpu_space *space, struct cpu_range range, struct cpu_pages_list *unused)
{
    struct cpu_piece *piece;

    while ((piece = cpu_piece_in(space, range))) {
        tdelete(piece, &space->pieces, cpu_range_compare);
        cpu_pages_drop(space->pool, piece->pages, cpu_piece_part(piece), unused);
        free(piece);
    }
}

/* --- mapping --- */

static enum facet_status map_range(struct cpu_space *space, struct cpu_range range, struct cpu_pages *pages,
                                   uint64_t offset, struct facet_error *error)
{
    uint64_t bytes = range.end - range.at;
    enum facet_status status = add_piece(space, range, pages, offset, 0, error);

    if (status != FACET_OK)
        return status;
    if (mmap((void *)range.at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, space->pool->fd,
             (off_t)(pages->extent->offset + offset)) != MAP_FAILED)
        return FACET_OK;
    struct cpu_piece *piece = cpu_piece_at(space, range.at);
    tdelete(piece, &space->pieces, cpu_range_compare);
    free(piece);
    return facet_kit_fail(error, FACET_NO_MEMORY, "mapping %" PRIu64 " bytes: %s", bytes, strerror(errno));
}

/* Whether exactly these pages are mapped there, and retired. */
static bool is_retired(const struct cpu_space *space, struct cpu_range range, uint64_t number, uint64_t offset)
{
    const struct cpu_piece *piece;

    for (uint64_t at = range.at; at < range.end; at = piece->range.end) {
        piece = cpu_piece_at(space, at);
        if (!piece || !piece->retired_from || piece->range.end > range.end || piece->pages->number != number ||
            piece->offset - offset != piece->range.at - range.at)
            return false;
    }
    return true;
}

static void reactivate_range(struct cpu_space *space, struct cpu_range range)
{
    for (uint64_t at = range.at; at < range.end;) {
        struct cpu_piece *piece = cpu_piece_at(space, at);

        piece->retired_from = 0;
        at = piece->range.end;
    }
}

enum facet_status cpu_space_map(struct cpu_space *space, struct cpu_range range, uint64_t number, uint64_t offset,
                                struct cpu_pages_list *unused, struct facet_error *error)
{
    const struct cpu_part part = {offset, range.end - range.at};
    struct cpu_pages *pages = NULL;
    enum facet_status status = cpu_range_check(space, range, error);

    if (status != FACET_OK)
        return status;
    if (is_retired(space, range, number, offset)) {
        reactivate_range(space, range);
        return FACET_OK;
    }
    if (cpu_piece_in(space, range))
        return facet_kit_fail(error, FACET_BUSY, "address %#" PRIx64 ": expected nothing to be mapped there", range.at);
    status = cpu_pages_take(space, number, part, false, &pages, error);
    if (status != FACET_OK)
        return status;
    status = map_range(space, range, pages, offset, error);
    if (status != FACET_OK)
        cpu_pages_drop(space->pool, pages, part, unused);
    return status;
}

/* Splits pieces at the ends of the range: steps that can fail for want of memory come first. */
static enum facet_status prepare_range(struct cpu_space *space, struct cpu_range range, struct facet_error *error)
{
    enum facet_status status = cpu_range_check(space, range, error);

    if (status == FACET_OK && !cpu_space_has_with_retired(space, range.at, range.end - range.at))
        status = cpu_space_check(space, range.at, range.end - range.at, error);
    return status == FACET_OK ? cpu_pieces_split(space, range, error) : status;
}

enum facet_status cpu_space_retire(struct cpu_space *space, struct cpu_range range, uint64_t sequence,
                                   uint64_t *ret_last, struct facet_error *error)
{
    enum facet_status status = prepare_range(space, range, error);

    if (status != FACET_OK)
        return status;
    *ret_last = 0;
    for (uint64_t at = range.at; at < range.end;) {
        struct cpu_piece *piece = cpu_piece_at(space, at);

        if (!piece->retired_from)
            piece->retired_from = sequence;
        if (piece->retired_from > *ret_last)
            *ret_last = piece->retired_from;
        at = piece->range.end;
    }
    return FACET_OK;
}

enum facet_status cpu_space_unmap(struct cpu_space *space, struct cpu_range range, struct cpu_pages_list *unused,
                                  struct facet_error *error)
{
    enum facet_status status = prepare_range(space, range, error);

    if (status != FACET_OK)
        return status;
    /*
     * One call replaces the pages by an inaccessible mapping. So the addresses are never free, and no thread reads
     * pages that have another owner by then.
     */
    if (mmap((void *)range.at, range.end - range.at, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
             -1, 0) == MAP_FAILED)
        return facet_kit_fail(error, FACET_NO_MEMORY, "unmapping at %#" PRIx64 ": %s", range.at, strerror(errno));
    cpu_pieces_drop(space, range, unused);
    return FACET_OK;
}
