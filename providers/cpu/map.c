/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: pages, and mapping them into reservations.
 * Never: leaves a hole where something else of the process could come to lie: what is not mapped stays reserved.
 */
#include "map.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "pool.h"
#include "provider_kit.h"

enum facet_status cpu_space_create_pages(struct cpu_space *space, uint64_t number, uint64_t bytes,
                                         struct facet_error *error)
{
    struct cpu_pages *pages = calloc(1, sizeof *pages);

    if (!pages)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for pages");
    enum facet_status status = cpu_pool_take(space->pool, bytes, &pages->extent, error);
    if (status != FACET_OK) {
        free(pages);
        return status;
    }
    pages->number = number;
    TAILQ_INSERT_TAIL(&space->pages, pages, link);
    return FACET_OK;
}

/* Gone when neither a number nor a mapping is left; returns how much is free by that. */
static uint64_t settle(struct cpu_space *space, struct cpu_pages *pages)
{
    if (!pages->destroyed || pages->mappings > 0)
        return 0;
    uint64_t bytes = pages->extent->bytes;
    TAILQ_REMOVE(&space->pages, pages, link);
    cpu_pool_give(space->pool, pages->extent);
    free(pages);
    return bytes;
}

static enum facet_status find_pages(const struct cpu_space *space, uint64_t number, struct cpu_pages **ret_pages,
                                    struct facet_error *error)
{
    struct cpu_pages *pages;

    TAILQ_FOREACH (pages, &space->pages, link)
        if (pages->number == number && !pages->destroyed) {
            *ret_pages = pages;
            return FACET_OK;
        }
    return facet_kit_fail(error, FACET_NOT_FOUND, "pages %" PRIu64 ": expected some of this context", number);
}

enum facet_status cpu_space_destroy_pages(struct cpu_space *space, uint64_t number, uint64_t *ret_bytes,
                                          struct facet_error *error)
{
    struct cpu_pages *pages = NULL;
    enum facet_status status = find_pages(space, number, &pages, error);

    if (status != FACET_OK)
        return status;
    pages->destroyed = true;
    *ret_bytes = settle(space, pages);
    return FACET_OK;
}

static enum facet_status check_range(const struct cpu_space *space, struct cpu_range range, struct facet_error *error)
{
    if (range.end > range.at && range.at % CPU_PAGE_BYTES == 0 && range.end % CPU_PAGE_BYTES == 0 &&
        cpu_reservation_around(space, range))
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                          "address %#" PRIx64 ", bytes %" PRIu64 ": expected whole pages of %" PRIu64
                          " bytes inside one reservation",
                          range.at, range.end - range.at, CPU_PAGE_BYTES);
}

static enum facet_status check_offset(const struct cpu_pages *pages, uint64_t offset, uint64_t bytes,
                                      struct facet_error *error)
{
    if (offset % CPU_PAGE_BYTES == 0 && offset <= pages->extent->bytes && bytes <= pages->extent->bytes - offset)
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                          "offset %" PRIu64 ", bytes %" PRIu64 ": expected whole pages within %" PRIu64 " bytes",
                          offset, bytes, pages->extent->bytes);
}

static enum facet_status add_piece(struct cpu_space *space, struct cpu_range range, struct cpu_pages *pages,
                                   uint64_t offset, struct facet_error *error)
{
    struct cpu_piece *piece = calloc(1, sizeof *piece);

    if (piece)
        *piece = (struct cpu_piece){.range = range, .pages = pages, .offset = offset};
    if (!piece || !tsearch(piece, &space->pieces, cpu_range_compare)) {
        free(piece);
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a mapping");
    }
    pages->mappings++;
    return FACET_OK;
}

/* Drops a piece that a space holds, but not what it maps. */
static void drop_piece(struct cpu_space *space, struct cpu_piece *piece)
{
    tdelete(piece, &space->pieces, cpu_range_compare);
    piece->pages->mappings--;
    free(piece);
}

enum facet_status cpu_space_map(struct cpu_space *space, struct cpu_range range, uint64_t number, uint64_t offset,
                                struct facet_error *error)
{
    struct cpu_pages *pages = NULL;
    uint64_t bytes = range.end - range.at;
    enum facet_status status = find_pages(space, number, &pages, error);

    if (status == FACET_OK)
        status = check_range(space, range, error);
    if (status == FACET_OK)
        status = check_offset(pages, offset, bytes, error);
    if (status != FACET_OK)
        return status;
    if (cpu_piece_in(space, range))
        return facet_kit_fail(error, FACET_BUSY, "address %#" PRIx64 ": expected nothing to be mapped there", range.at);
    status = add_piece(space, range, pages, offset, error);
    if (status != FACET_OK)
        return status;
    if (mmap((void *)range.at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, space->pool->fd,
             (off_t)(pages->extent->offset + offset)) == MAP_FAILED) {
        drop_piece(space, cpu_piece_at(space, range.at));
        return facet_kit_fail(error, FACET_NO_MEMORY, "mapping %" PRIu64 " bytes: %s", bytes, strerror(errno));
    }
    return FACET_OK;
}

/* What is left of a piece that a range begins or ends in. A piece that is cut in two becomes the first, and a new one.
 */
static enum facet_status cut(struct cpu_space *space, struct cpu_piece *piece, struct cpu_range range,
                             struct facet_error *error)
{
    struct cpu_range rest = {range.end, piece->range.end};

    if (piece->range.at >= range.at) { /* its end is left */
        piece->offset += range.end - piece->range.at;
        piece->range.at = range.end;
        return FACET_OK;
    }
    uint64_t offset = piece->offset + (range.end - piece->range.at);
    piece->range.end = range.at;
    if (rest.end <= rest.at)
        return FACET_OK;
    enum facet_status status = add_piece(space, rest, piece->pages, offset, error);
    if (status != FACET_OK)
        piece->range.end = rest.end;
    return status;
}

/* All pieces of a range that none reaches out of at its beginning. Returns how much is free by that. */
static uint64_t drop_pieces(struct cpu_space *space, struct cpu_range range)
{
    struct cpu_piece *piece;
    uint64_t bytes = 0;

    while ((piece = cpu_piece_in(space, range))) {
        struct cpu_pages *pages = piece->pages;

        if (piece->range.end > range.end) {
            cut(space, piece, range, NULL);
            continue;
        }
        drop_piece(space, piece);
        bytes += settle(space, pages);
    }
    return bytes;
}

enum facet_status cpu_space_unmap(struct cpu_space *space, struct cpu_range range, uint64_t *ret_bytes,
                                  struct facet_error *error)
{
    struct cpu_piece *piece;
    enum facet_status status = check_range(space, range, error);

    if (status == FACET_OK)
        status = cpu_space_check(space, range.at, range.end - range.at, error);
    if (status == FACET_OK && (piece = cpu_piece_at(space, range.at)) && piece->range.at < range.at)
        status = cut(space, piece, range, error); /* the only step that can fail for want of memory comes first */
    if (status != FACET_OK)
        return status;
    /* Over what was mapped comes nothing, in one step: the addresses are never free, and nobody reads pages that the
     * next one has. */
    if (mmap((void *)range.at, range.end - range.at, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
             -1, 0) == MAP_FAILED)
        return facet_kit_fail(error, FACET_NO_MEMORY, "unmapping at %#" PRIx64 ": %s", range.at, strerror(errno));
    *ret_bytes = drop_pieces(space, range);
    return FACET_OK;
}
