/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grants: planned or restored allocations, each under a handle that is valid for one release.
 *
 * Owns: the table of grants and the chunks that hold their parts; the transactions of facet/allocation.h.
 * Never: changes a place before everything that can fail has succeeded.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "placement/maps/maps.h"

#define ROOM_MIN 16u /* entries that a table has room for, at least */

/* --- the table --- */

static bool grow_array(void **array, size_t item, uint32_t *room, uint32_t needed)
{
    uint32_t larger = *room < ROOM_MIN ? ROOM_MIN : *room;
    void *moved;

    if (needed <= *room)
        return true;
    while (larger < needed)
        larger = larger > UINT32_MAX / 2 ? UINT32_MAX : larger * 2;
    if (!(moved = realloc(*array, larger * item)))
        return false;
    *array = moved;
    *room = larger;
    return true;
}

enum facet_status maps_make_room(struct facet_maps *maps, uint32_t parts, struct facet_error *error)
{
    uint32_t chunks = (parts + CHUNK_PARTS - 1) / CHUNK_PARTS;
    uint32_t fresh = chunks > maps->unused_chunks ? chunks - maps->unused_chunks : 0;
    uint32_t grants = maps->grant_count + (maps->unused_grant == MAPS_NONE);

    if (grants < MAPS_NONE && fresh < MAPS_NONE - maps->chunk_count &&
        grow_array((void **)&maps->grants, sizeof *maps->grants, &maps->grant_room, grants) &&
        grow_array((void **)&maps->chunks, sizeof *maps->chunks, &maps->chunk_room, maps->chunk_count + fresh))
        return FACET_OK;
    return facet_error_set(error, FACET_NO_MEMORY, "no memory for another grant");
}

static uint32_t take_grant(struct facet_maps *maps)
{
    uint32_t index = maps->unused_grant;

    if (index == MAPS_NONE) {
        index = maps->grant_count++;
        maps->grants[index] = (struct maps_grant){.generation = 1};
    } else {
        maps->unused_grant = maps->grants[index].first;
    }
    maps->grants[index].live = true;
    maps->grants[index].first = MAPS_NONE;
    return index;
}

static uint32_t take_chunk(struct facet_maps *maps)
{
    uint32_t index = maps->unused_chunk;

    if (index == MAPS_NONE)
        return maps->chunk_count++;
    maps->unused_chunk = maps->chunks[index].next;
    maps->unused_chunks--;
    return index;
}

/* Records the planned parts and charges their places. maps_make_room() has made room. */
static uint64_t record_grant(struct facet_maps *maps)
{
    const struct maps_scratch *scratch = &maps->scratch;
    uint32_t index = take_grant(maps), *link = &maps->grants[index].first;

    maps->grants[index].count = scratch->count;
    for (uint32_t i = 0; i < scratch->count; i++) {
        struct maps_chunk *chunk;

        if (i % CHUNK_PARTS == 0) {
            *link = take_chunk(maps);
            maps->chunks[*link].next = MAPS_NONE;
        }
        chunk = &maps->chunks[*link];
        chunk->parts[i % CHUNK_PARTS].cell = scratch->parts[i].cell;
        chunk->parts[i % CHUNK_PARTS].amount = scratch->parts[i].amount;
        maps->cells[scratch->parts[i].cell].granted += scratch->parts[i].amount;
        maps_note_change(maps, &maps->cells[scratch->parts[i].cell]);
        if (i % CHUNK_PARTS == CHUNK_PARTS - 1)
            link = &chunk->next;
    }
    return (uint64_t)maps->grants[index].generation << 32 | (index + 1);
}

static enum facet_status find_grant(const struct facet_maps *maps, uint64_t grant, uint32_t *ret_index,
                                    struct facet_error *error)
{
    uint32_t index = (uint32_t)grant - 1, generation = (uint32_t)(grant >> 32);

    if (index >= maps->grant_count || generation == 0 ||
        (maps->grants[index].generation && generation > maps->grants[index].generation) ||
        (generation == maps->grants[index].generation && !maps->grants[index].live))
        return facet_error_argument(error, FACET_NOT_FOUND, "grant",
                                    "grant %" PRIu64 ": expected a handle that was given out", grant);
    if (generation != maps->grants[index].generation)
        return facet_error_argument(error, FACET_BAD_STATE, "grant", "grant %" PRIu64 " was released already", grant);
    *ret_index = index;
    return FACET_OK;
}

/* --- transactions --- */

/* Copies a refusal to the caller, unless the caller's struct is too small for it. */
static void copy_refusal(struct facet_maps_refusal *ret_refusal, struct facet_maps_refusal refusal)
{
    if (!ret_refusal || ret_refusal->size < sizeof refusal)
        return;
    refusal.size = ret_refusal->size;
    *ret_refusal = refusal;
}

static enum facet_status give_count(uint32_t count, uint32_t capacity, const void *buffer, uint32_t *ret_count,
                                    struct facet_error *error)
{
    *ret_count = count;
    if (count <= capacity && (count == 0 || buffer))
        return FACET_OK;
    return facet_error_argument(error, FACET_TOO_SMALL, "capacity",
                                "capacity %" PRIu32 ": expected %" PRIu32 " at least", capacity, count);
}

enum facet_status facet_maps_plan(struct facet_maps *maps, const struct facet_maps_request *request,
                                  struct facet_maps_part *parts, uint32_t capacity, uint32_t *ret_count,
                                  struct facet_maps_refusal *ret_refusal, struct facet_error *error)
{
    struct facet_maps_refusal refusal = {.size = sizeof refusal};
    enum facet_status status = maps_need(maps, "maps", error);

    if (status != FACET_OK || (status = maps_need(ret_count, "ret_count", error)) != FACET_OK)
        return status;
    MAPS_LOCKED(maps);
    status = maps_plan(maps, request, &refusal, error);
    if (status != FACET_OK) {
        copy_refusal(ret_refusal, refusal);
        return status;
    }
    status = give_count(maps->scratch.count, capacity, parts, ret_count, error);
    for (uint32_t i = 0; status == FACET_OK && i < maps->scratch.count; i++)
        parts[i] = (struct facet_maps_part){.place = maps->cells[maps->scratch.parts[i].cell].place,
                                            .amount = maps->scratch.parts[i].amount};
    return status;
}

enum facet_status facet_maps_allocate(struct facet_maps *maps, const struct facet_maps_request *request,
                                      uint64_t *ret_grant, struct facet_maps_refusal *ret_refusal,
                                      struct facet_error *error)
{
    struct facet_maps_refusal refusal = {.size = sizeof refusal};
    enum facet_status status = maps_need(maps, "maps", error);

    if (status != FACET_OK || (status = maps_need(ret_grant, "ret_grant", error)) != FACET_OK)
        return status;
    MAPS_LOCKED(maps);
    status = maps_plan(maps, request, &refusal, error);
    if (status != FACET_OK) {
        copy_refusal(ret_refusal, refusal);
        return status;
    }
    status = maps_make_room(maps, maps->scratch.count, error);
    if (status == FACET_OK)
        *ret_grant = record_grant(maps);
    return status;
}

/* --- restoring --- */

static enum facet_status refuse_part(enum facet_status status, const struct maps_slot *slot,
                                     const struct maps_cell *cell, int64_t amount, const char *expected,
                                     struct facet_error *error)
{
    char asked[FACET_AMOUNT_SIZE], free_text[FACET_AMOUNT_SIZE];

    return facet_error_argument(error, status, "parts", "slot '%.60s' of device '%.60s': %s, expected %s; %s is free",
                                slot->name, cell->id, facet_amount_format(amount, asked, sizeof asked), expected,
                                facet_amount_format(maps_free(cell), free_text, sizeof free_text));
}

static enum facet_status check_part(struct facet_maps *maps, const struct facet_maps_part *part,
                                    struct facet_error *error)
{
    uint32_t number;

    if (part->place >= maps->cell_count)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "parts",
                                    "place %" PRIu32 ": expected less than %" PRIu32, part->place, maps->cell_count);
    number = maps->cell_of_place[part->place];

    const struct maps_cell *cell = &maps->cells[number];
    const struct maps_slot *slot = &maps->slots[cell->slot];
    bool discrete = maps->maps[slot->map].kind == FACET_MAP_DISCRETE;

    if (part->amount <= 0 || slot->type == FACET_SLOT_UNIFIED)
        return refuse_part(FACET_OUT_OF_RANGE, slot, cell, part->amount, "more than 0 of a slot that is granted",
                           error);
    if (discrete && part->amount % FACET_AMOUNT_ONE)
        return refuse_part(FACET_OUT_OF_RANGE, slot, cell, part->amount, "a whole number", error);
    if (slot->type == FACET_SLOT_UNIQUE && part->amount != FACET_AMOUNT_ONE)
        return refuse_part(FACET_OUT_OF_RANGE, slot, cell, part->amount, "1, as the slot is unique", error);
    if (part->amount > maps_free(cell))
        return refuse_part(FACET_NO_SPACE, slot, cell, part->amount, "no more than is free", error);
    if (maps->scratch.next[number] != MAPS_NONE)
        return refuse_part(FACET_ALREADY_EXISTS, slot, cell, part->amount, "each place once", error);
    maps->scratch.next[number] = 0;
    maps_add_part(maps, number, part->amount);
    return FACET_OK;
}

enum facet_status facet_maps_commit(struct facet_maps *maps, const struct facet_maps_part *parts, uint32_t count,
                                    uint64_t *ret_grant, struct facet_error *error)
{
    enum facet_status status = maps_need(maps, "maps", error);

    if (status != FACET_OK || (status = maps_need(ret_grant, "ret_grant", error)) != FACET_OK)
        return status;
    if (count && (status = maps_need(parts, "parts", error)) != FACET_OK)
        return status;
    MAPS_LOCKED(maps);
    maps->scratch.count = 0;
    memset(maps->scratch.next, 0xff, maps->cell_count * sizeof *maps->scratch.next);
    for (uint32_t i = 0; status == FACET_OK && i < count; i++)
        status = check_part(maps, &parts[i], error);
    if (status == FACET_OK)
        status = maps_make_room(maps, count, error);
    if (status == FACET_OK)
        *ret_grant = record_grant(maps);
    return status;
}

/* --- existing grants --- */

enum facet_status facet_maps_get_grant(struct facet_maps *maps, uint64_t grant, struct facet_maps_part *parts,
                                       uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    enum facet_status status = maps_need(maps, "maps", error);
    uint32_t index = 0;

    if (status != FACET_OK || (status = maps_need(ret_count, "ret_count", error)) != FACET_OK)
        return status;
    MAPS_LOCKED(maps);
    if ((status = find_grant(maps, grant, &index, error)) != FACET_OK)
        return status;
    status = give_count(maps->grants[index].count, capacity, parts, ret_count, error);
    if (status != FACET_OK)
        return status;
    uint32_t chunk = maps->grants[index].first;
    for (uint32_t i = 0; i < maps->grants[index].count; i++) {
        const struct maps_chunk *held = &maps->chunks[chunk];

        parts[i] = (struct facet_maps_part){.place = maps->cells[held->parts[i % CHUNK_PARTS].cell].place,
                                            .amount = held->parts[i % CHUNK_PARTS].amount};
        if (i % CHUNK_PARTS == CHUNK_PARTS - 1)
            chunk = held->next;
    }
    return FACET_OK;
}

static void free_parts(struct facet_maps *maps, struct maps_grant *grant)
{
    for (uint32_t i = 0, index = grant->first; i < grant->count; i += CHUNK_PARTS) {
        struct maps_chunk *chunk = &maps->chunks[index];
        uint32_t next = chunk->next;

        for (uint32_t k = 0; k < CHUNK_PARTS && i + k < grant->count; k++) {
            struct maps_cell *cell = &maps->cells[chunk->parts[k].cell];

            cell->granted -= chunk->parts[k].amount;
            maps_note_change(maps, cell);
        }
        chunk->next = maps->unused_chunk;
        maps->unused_chunk = index;
        maps->unused_chunks++;
        index = next;
    }
}

enum facet_status facet_maps_release(struct facet_maps *maps, uint64_t grant, struct facet_error *error)
{
    enum facet_status status = maps_need(maps, "maps", error);
    uint32_t index = 0;

    if (status != FACET_OK)
        return status;
    MAPS_LOCKED(maps);
    if ((status = find_grant(maps, grant, &index, error)) != FACET_OK)
        return status;
    struct maps_grant *found = &maps->grants[index];
    free_parts(maps, found);
    found->live = false;
    found->count = 0;
    found->first = MAPS_NONE;
    /* After its last generation the entry is not used again, so that no handle is given twice. */
    if (++found->generation != 0) {
        found->first = maps->unused_grant;
        maps->unused_grant = index;
    }
    return FACET_OK;
}

enum facet_status facet_maps_list(struct facet_maps *maps, uint64_t *grants, uint32_t capacity, uint32_t *ret_count,
                                  struct facet_error *error)
{
    enum facet_status status = maps_need(maps, "maps", error);
    uint32_t count = 0, next = 0;

    if (status != FACET_OK || (status = maps_need(ret_count, "ret_count", error)) != FACET_OK)
        return status;
    MAPS_LOCKED(maps);
    for (uint32_t i = 0; i < maps->grant_count; i++)
        count += maps->grants[i].live;
    status = give_count(count, capacity, grants, ret_count, error);
    for (uint32_t i = 0; status == FACET_OK && i < maps->grant_count; i++)
        if (maps->grants[i].live)
            grants[next++] = (uint64_t)maps->grants[i].generation << 32 | (i + 1);
    return status;
}
