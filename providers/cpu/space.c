/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: plain blocks, reservations, and looking things up by address.
 * Never: maps pages (map.c).
 */
#include "space.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "map.h"
#include "pages.h"
#include "provider_kit.h"

#define HUGE_BYTES UINT64_C(2097152)

/* Ranges that overlap compare as equal: ranges in a tree never overlap, and a look-up may be by any part of one. */
int cpu_range_compare(const void *left, const void *right)
{
    const struct cpu_range *one = left, *other = right;

    if (one->end <= other->at)
        return -1;
    return one->at >= other->end;
}

static void *find_range(void *const *tree, struct cpu_range range)
{
    void *const *node = tfind(&range, tree, cpu_range_compare);

    return node ? *node : NULL;
}

struct cpu_piece *cpu_piece_at(const struct cpu_space *space, uint64_t address)
{
    if (address == UINT64_MAX)
        return NULL;
    return find_range(&space->pieces, (struct cpu_range){address, address + 1});
}

struct cpu_piece *cpu_piece_in(const struct cpu_space *space, struct cpu_range range)
{
    return find_range(&space->pieces, range);
}

/*
 * The lock prefers writers: else a few threads that copy all the time would keep a writer waiting forever. No thread
 * takes the lock twice.
 */
bool cpu_space_open(struct cpu_space *space, struct cpu_pool *pool)
{
    pthread_rwlockattr_t attributes;

    space->pool = pool;
    TAILQ_INIT(&space->pages);
    if (pthread_rwlockattr_init(&attributes) != 0)
        return false;
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    bool is_initialized = pthread_rwlock_init(&space->lock, &attributes) == 0;
    pthread_rwlockattr_destroy(&attributes);
    return is_initialized;
}

static void close_reservation(void *node)
{
    struct cpu_range *range = node;

    munmap((void *)range->at, range->end - range->at);
    free(range);
}

static void close_piece(struct cpu_space *space, struct cpu_piece *piece, struct cpu_pages_list *unused)
{
    tdelete(piece, &space->pieces, cpu_range_compare);
    if (piece->pages)
        cpu_pages_drop(space->pool, piece->pages, cpu_piece_part(piece), unused);
    else
        munmap((void *)piece->range.at, piece->range.end - piece->range.at);
    free(piece);
}

/* Reservations are unmapped before their pages are freed, which may then get another owner. */
void cpu_space_close(struct cpu_space *space, struct cpu_pages_list *unused)
{
    tdestroy(space->reservations, close_reservation);
    while (space->pieces)
        close_piece(space, *(struct cpu_piece **)space->pieces, unused);
    cpu_pages_close(space, unused);
    pthread_rwlock_destroy(&space->lock);
}

static bool covers_range(const struct cpu_space *space, uint64_t address, uint64_t bytes, bool retired)
{
    if (bytes > UINT64_MAX - address)
        return false;
    for (uint64_t end = address + bytes; address < end;) {
        const struct cpu_piece *piece = cpu_piece_at(space, address);

        if (!piece || (piece->retired_from && !retired))
            return false;
        address = piece->range.end;
    }
    return true;
}

bool cpu_space_has(const struct cpu_space *space, uint64_t address, uint64_t bytes)
{
    return covers_range(space, address, bytes, false);
}

bool cpu_space_has_with_retired(const struct cpu_space *space, uint64_t address, uint64_t bytes)
{
    return covers_range(space, address, bytes, true);
}

enum facet_status cpu_space_check(const struct cpu_space *space, uint64_t address, uint64_t bytes,
                                  struct facet_error *error)
{
    if (cpu_space_has(space, address, bytes))
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                          "address %#" PRIx64 ", bytes %" PRIu64 ": expected memory of this context", address, bytes);
}

/* The range of adjoining mapped pages around a piece. */
static struct cpu_range row_of(const struct cpu_space *space, const struct cpu_piece *piece)
{
    struct cpu_range row = piece->range;

    while ((piece = cpu_piece_at(space, row.end)) && piece->pages)
        row.end = piece->range.end;
    while ((piece = cpu_piece_at(space, row.at - 1)) && piece->pages)
        row.at = piece->range.at;
    return row;
}

bool cpu_space_bounds(const struct cpu_space *space, uint64_t address, struct cpu_range *ret_range)
{
    const struct cpu_piece *piece = cpu_piece_at(space, address);

    if (!piece)
        return false;
    *ret_range = piece->pages ? row_of(space, piece)
                              : (struct cpu_range){piece->range.at, piece->range.at + piece->requested_bytes};
    return true;
}

/*
 * Takes addresses of this process, with a gap on both sides. `align` is a power of two. NULL: there are none. Gaps lie
 * between any two ranges, so that an overrun of less than a gap never leads from one block into another.
 */
static void *take_addresses(uint64_t bytes, uint64_t align, int protection)
{
    uint64_t whole = bytes + align + 2 * CPU_GAP_BYTES;

    if (whole < bytes)
        return NULL;
    void *start = mmap(NULL, whole, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    uint64_t at = (uint64_t)start, begin = (at + CPU_GAP_BYTES + align - 1) & ~(align - 1);
    munmap(start, begin - at);
    munmap((void *)(begin + bytes), at + whole - begin - bytes);
    return (void *)begin;
}

static enum facet_status no_addresses(uint64_t bytes, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NO_MEMORY, "no addresses for %" PRIu64 " bytes: %s", bytes, strerror(errno));
}

enum facet_status cpu_space_alloc(struct cpu_space *space, uint64_t bytes, uint64_t requested_bytes,
                                  uint64_t *ret_address, struct facet_error *error)
{
    struct cpu_piece *piece = calloc(1, sizeof *piece);
    void *memory = take_addresses(bytes, bytes >= HUGE_BYTES ? HUGE_BYTES : CPU_BLOCK_BYTES, PROT_READ | PROT_WRITE);

    if (!piece || !memory)
        goto fail;
    if (bytes >= HUGE_BYTES) /* memory that kernels stream through should need few entries of the translation buffer */
        madvise(memory, bytes, MADV_HUGEPAGE);
    piece->range = (struct cpu_range){(uint64_t)memory, (uint64_t)memory + bytes};
    piece->requested_bytes = requested_bytes;
    if (!tsearch(piece, &space->pieces, cpu_range_compare))
        goto fail;
    *ret_address = piece->range.at;
    return FACET_OK;

fail:
    if (memory)
        munmap(memory, bytes);
    free(piece);
    return no_addresses(bytes, error);
}

enum facet_status cpu_space_free(struct cpu_space *space, uint64_t address, struct cpu_range *ret_range,
                                 struct facet_error *error)
{
    struct cpu_piece *piece = cpu_piece_at(space, address);

    if (!piece || piece->pages || piece->range.at != address)
        return facet_kit_fail(error, FACET_NOT_FOUND, "address %#" PRIx64 ": expected one that alloc gave", address);
    tdelete(piece, &space->pieces, cpu_range_compare);
    *ret_range = piece->range;
    free(piece);
    return FACET_OK;
}

enum facet_status cpu_space_reserve(struct cpu_space *space, uint64_t bytes, uint64_t align, uint64_t *ret_address,
                                    struct facet_error *error)
{
    struct cpu_range *range = calloc(1, sizeof *range);
    void *start = take_addresses(bytes, align, PROT_NONE);

    if (!range || !start)
        goto fail;
    *range = (struct cpu_range){(uint64_t)start, (uint64_t)start + bytes};
    if (!tsearch(range, &space->reservations, cpu_range_compare))
        goto fail;
    *ret_address = range->at;
    return FACET_OK;

fail:
    if (start)
        munmap(start, bytes);
    free(range);
    return no_addresses(bytes, error);
}

const struct cpu_range *cpu_reservation_around(const struct cpu_space *space, struct cpu_range range)
{
    const struct cpu_range *reservation = find_range(&space->reservations, range);

    return reservation && range.at >= reservation->at && range.end <= reservation->end ? reservation : NULL;
}

enum facet_status cpu_space_release(struct cpu_space *space, uint64_t address, uint64_t *ret_bytes,
                                    struct facet_error *error)
{
    struct cpu_range *range =
        address < UINT64_MAX ? find_range(&space->reservations, (struct cpu_range){address, address + 1}) : NULL;

    if (!range || range->at != address)
        return facet_kit_fail(error, FACET_NOT_FOUND, "address %#" PRIx64 ": expected the start of a reservation",
                              address);
    if (cpu_piece_in(space, *range))
        return facet_kit_fail(error, FACET_BUSY, "address %#" PRIx64 ": expected nothing to be mapped in it", address);
    tdelete(range, &space->reservations, cpu_range_compare);
    *ret_bytes = range->end - range->at;
    close_reservation(range);
    return FACET_OK;
}
