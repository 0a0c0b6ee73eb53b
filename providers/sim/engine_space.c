/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: address ranges, mappings, and the places of page objects in the store. Never: moves bytes (engine_store.c). */
#include "engine_space.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"

static uint64_t align_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) / align * align;
}

static uint64_t range_end(struct sim_range range)
{
    return range.at + range.bytes;
}

/*
 * Finds a place for `bytes` within `bounds`, at least `guard` from the ranges of `reserved`: after the last range, or,
 * when the addresses there are used up, in the first gap that is large enough.
 */
static bool find_place(const struct sim_table *reserved, struct sim_range bounds, uint64_t bytes, uint64_t align,
                       uint64_t guard, uint64_t *ret_at)
{
    const struct sim_range *last = reserved->count ? reserved->entries[reserved->count - 1].value : NULL;
    uint64_t high = range_end(bounds);
    uint64_t at = align_up(last ? range_end(*last) + guard : bounds.at, align);

    if (at <= high && bytes <= high - at) {
        *ret_at = at;
        return true;
    }
    at = align_up(bounds.at, align);
    for (size_t i = 0; i < reserved->count; i++) {
        const struct sim_range *range = reserved->entries[i].value;

        if (at + guard <= range->at && bytes <= range->at - at - guard) {
            *ret_at = at;
            return true;
        }
        at = align_up(range_end(*range) + guard, align);
    }
    return false;
}

enum facet_status sim_space_open(struct sim_space *space, uint32_t page_bytes, struct facet_error *error)
{
    int store = memfd_create("facet-sim", MFD_CLOEXEC);

    if (store < 0)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory file for a context: %s", strerror(errno));
    *space = (struct sim_space){.store = store, .page_bytes = page_bytes};
    return FACET_OK;
}

static void clear_values(struct sim_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->entries[i].value);
    sim_table_clear(table);
}

void sim_space_close(struct sim_space *space)
{
    clear_values(&space->mappings);
    clear_values(&space->reservations);
    clear_values(&space->extents);
    if (space->store >= 0)
        close(space->store);
    space->store = -1;
}

/* Adds a struct of `size` bytes that begins with `range` to a table. NULL: no memory. */
static void *insert_range(struct sim_table *table, struct sim_range range, size_t size)
{
    struct sim_range *value = sim_table_reserve(table, 1) ? calloc(1, size) : NULL;

    if (!value)
        return NULL;
    *value = range;
    sim_table_insert(table, range.at, value);
    return value;
}

static void remove_range(struct sim_table *table, struct sim_range *range)
{
    sim_table_remove(table, range->at);
    free(range);
}

static enum facet_status insert_reservation(struct sim_space *space, struct sim_range range,
                                            struct sim_reservation **ret_reservation, struct facet_error *error)
{
    struct sim_reservation *reservation = insert_range(&space->reservations, range, sizeof *reservation);

    if (!reservation)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a reservation");
    *ret_reservation = reservation;
    return FACET_OK;
}

enum facet_status sim_space_reserve(struct sim_space *space, uint64_t bytes, uint64_t align,
                                    struct sim_reservation **ret_reservation, struct facet_error *error)
{
    const struct sim_range bounds = {SIM_ADDRESS_LOW, SIM_ADDRESS_HIGH - SIM_ADDRESS_LOW};
    struct sim_range range = {.bytes = bytes};

    if (bytes == 0 || bytes > SIM_BYTES_MAX || align > SIM_BYTES_MAX)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "bytes %" PRIu64 ", align %" PRIu64 ": expected 1 to %" PRIu64,
                              bytes, align, SIM_BYTES_MAX);
    if (!find_place(&space->reservations, bounds, bytes, align, SIM_ADDRESS_GUARD, &range.at))
        return facet_kit_fail(error, FACET_NO_SPACE, "no free addresses for %" PRIu64 " bytes", bytes);
    return insert_reservation(space, range, ret_reservation, error);
}

static bool overlaps_any(const struct sim_table *table, struct sim_range range)
{
    size_t above = sim_table_above(table, range_end(range) - 1);

    return above > 0 && range_end(*(const struct sim_range *)table->entries[above - 1].value) > range.at;
}

enum facet_status sim_space_reserve_at(struct sim_space *space, struct sim_range range,
                                       struct sim_reservation **ret_reservation, struct facet_error *error)
{
    if (range.bytes == 0 || range.bytes > SIM_BYTES_MAX || range.at < SIM_ADDRESS_LOW ||
        range.at > SIM_ADDRESS_HIGH - range.bytes)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "address %#" PRIx64 ", bytes %" PRIu64 ": expected addresses "
                              "of this device",
                              range.at, range.bytes);
    if (overlaps_any(&space->reservations, range))
        return facet_kit_fail(error, FACET_BUSY, "address %#" PRIx64 ": expected it to be free", range.at);
    return insert_reservation(space, range, ret_reservation, error);
}

void sim_space_release(struct sim_space *space, struct sim_reservation *reservation)
{
    remove_range(&space->reservations, &reservation->range);
}

struct sim_reservation *sim_space_find(const struct sim_space *space, uint64_t address)
{
    return sim_table_find(&space->reservations, address);
}

struct sim_reservation *sim_space_around(const struct sim_space *space, uint64_t address)
{
    size_t above = sim_table_above(&space->reservations, address);
    struct sim_reservation *reservation = above ? space->reservations.entries[above - 1].value : NULL;

    return reservation && address - reservation->range.at < reservation->range.bytes ? reservation : NULL;
}

bool sim_space_is_mapped(const struct sim_space *space, struct sim_range range)
{
    return overlaps_any(&space->mappings, range);
}

enum facet_status sim_space_alloc_extent(struct sim_space *space, uint64_t bytes, struct sim_extent **ret_extent,
                                         struct facet_error *error)
{
    const struct sim_range bounds = {0, UINT64_C(1) << 62};
    struct sim_range range = {.bytes = align_up(bytes, SIM_STORE_BLOCK)};
    struct sim_extent *extent = NULL;

    if (find_place(&space->extents, bounds, range.bytes, SIM_STORE_BLOCK, 0, &range.at))
        extent = insert_range(&space->extents, range, sizeof *extent);
    if (!extent)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no host memory for %" PRIu64 " bytes", bytes);
    *ret_extent = extent;
    return FACET_OK;
}

void sim_space_free_extent(struct sim_space *space, struct sim_extent *extent)
{
    /* A place that could not be zeroed must not be reused: it stays taken until the space is closed. */
    if (sim_store_forget(space->store, extent->range))
        remove_range(&space->extents, &extent->range);
}

enum facet_status sim_space_map(struct sim_space *space, struct sim_range range, struct sim_pages *pages,
                                uint64_t offset, struct facet_error *error)
{
    struct sim_mapping *mapping = insert_range(&space->mappings, range, sizeof *mapping);

    if (!mapping)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a mapping");
    mapping->pages = pages;
    mapping->offset = offset;
    pages->mappings++;
    return FACET_OK;
}

/* Splits the mapping around `at`, if there is one, so that a mapping begins there. The table has room for one more. */
static bool split_mapping(struct sim_space *space, uint64_t at)
{
    size_t above = sim_table_above(&space->mappings, at);
    struct sim_mapping *low = above ? space->mappings.entries[above - 1].value : NULL;

    if (!low || low->range.at == at || range_end(low->range) <= at)
        return true;
    uint64_t kept_bytes = at - low->range.at;
    struct sim_mapping *high =
        insert_range(&space->mappings, (struct sim_range){at, low->range.bytes - kept_bytes}, sizeof *high);
    if (!high)
        return false;
    high->pages = low->pages;
    high->offset = low->offset + kept_bytes;
    low->range.bytes = kept_bytes;
    low->pages->mappings++;
    return true;
}

enum facet_status sim_space_unmap(struct sim_space *space, struct sim_range range,
                                  struct facet_provider_instance *instance, struct facet_error *error)
{
    if (!sim_space_is_memory(space, range.at, range.bytes))
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "address %#" PRIx64 ", bytes %" PRIu64 ": expected all of it to be mapped", range.at,
                              range.bytes);
    /* A split has no visible effect, so a failure after the first one leaves everything as it was. */
    if (!split_mapping(space, range.at) || !split_mapping(space, range_end(range)))
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory to split a mapping");
    for (uint64_t at = range.at; at < range_end(range);) {
        struct sim_mapping *mapping = sim_table_find(&space->mappings, at);
        struct sim_pages *pages = mapping->pages;

        at = range_end(mapping->range);
        remove_range(&space->mappings, &mapping->range);
        if (--pages->mappings == 0 && pages->destroyed)
            sim_object_drop(instance, &pages->object);
    }
    return FACET_OK;
}
