/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading places, reserving amounts, setting health and strategies, copying all maps. Never: makes a grant. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "placement/maps/maps.h"

enum facet_status facet_maps_set_strategy(struct facet_maps *maps, uint32_t map, uint32_t strategy,
                                          struct facet_error *error)
{
    enum facet_status status = maps_need(maps, "maps", error);

    if (status != FACET_OK)
        return status;
    if (map >= maps->map_count)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "map", "map %" PRIu32 ": expected less than %" PRIu32,
                                    map, maps->map_count);
    if (!facet_map_strategy_name(strategy))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "strategy", "strategy %" PRIu32 ": expected 0 or 1",
                                    strategy);
    MAPS_LOCKED(maps);
    maps->maps[map].strategy = strategy;
    return FACET_OK;
}

enum facet_status facet_maps_set_health(struct facet_maps *maps, uint32_t map, const char *id, uint32_t unhealthy,
                                        struct facet_error *error)
{
    enum facet_status status = maps_need(maps, "maps", error);
    uint32_t found = 0;

    if (status != FACET_OK || (status = maps_need(id, "id", error)) != FACET_OK)
        return status;
    MAPS_LOCKED(maps);
    for (uint32_t i = 0; i < maps->slot_count; i++) {
        uint32_t cell = maps->slots[i].map == map ? maps_find_cell(maps, i, id) : MAPS_NONE;

        if (cell == MAPS_NONE)
            continue;
        maps->cells[cell].unhealthy = unhealthy != 0;
        found++;
    }
    if (found)
        return FACET_OK;
    return facet_error_argument(error, FACET_NOT_FOUND, "id", "map %" PRIu32 " has no device '%.60s'", map, id);
}

static enum facet_status check_place(const struct facet_maps *maps, uint32_t place, struct facet_error *error)
{
    if (place < maps->cell_count)
        return FACET_OK;
    return facet_error_argument(error, FACET_OUT_OF_RANGE, "place", "place %" PRIu32 ": expected less than %" PRIu32,
                                place, maps->cell_count);
}

enum facet_status facet_maps_reserve(struct facet_maps *maps, uint32_t place, int64_t amount, struct facet_error *error)
{
    enum facet_status status = maps_need(maps, "maps", error);
    char asked[FACET_AMOUNT_SIZE], max[FACET_AMOUNT_SIZE];
    int64_t left;

    if (status != FACET_OK || (status = check_place(maps, place, error)) != FACET_OK)
        return status;
    MAPS_LOCKED(maps);
    struct maps_cell *cell = &maps->cells[maps->cell_of_place[place]];
    left = cell->capacity - cell->granted;
    if (amount >= 0 && amount <= left) {
        cell->reserved = amount;
        maps_note_change(maps, cell);
        return FACET_OK;
    }
    return facet_error_argument(error, amount < 0 ? FACET_OUT_OF_RANGE : FACET_NO_SPACE, "amount",
                                "amount %s of slot '%.60s' of device '%.60s': expected 0 to %s",
                                facet_amount_format(amount, asked, sizeof asked), maps->slots[cell->slot].name,
                                cell->id, facet_amount_format(left, max, sizeof max));
}

uint32_t facet_maps_place_count(const struct facet_maps *maps)
{
    return maps ? maps->cell_count : 0;
}

enum facet_status facet_maps_get_place(struct facet_maps *maps, uint32_t place, struct facet_maps_place *ret_place,
                                       struct facet_error *error)
{
    enum facet_status status = maps_need(maps, "maps", error);

    if (status != FACET_OK || (status = maps_need(ret_place, "ret_place", error)) != FACET_OK ||
        (status = check_place(maps, place, error)) != FACET_OK)
        return status;
    if (ret_place->size < sizeof *ret_place)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "size", "size %" PRIu32 ": expected %zu at least",
                                    ret_place->size, sizeof *ret_place);
    MAPS_LOCKED(maps);
    const struct maps_cell *cell = &maps->cells[maps->cell_of_place[place]];
    const struct maps_slot *slot = &maps->slots[cell->slot];

    *ret_place = (struct facet_maps_place){
        .size = ret_place->size,
        .map = slot->map,
        .type = slot->type,
        .unhealthy = cell->unhealthy,
        .numa_node = maps->nodes[cell->node],
        .id = cell->id,
        .slot = slot->name,
        .capacity = cell->capacity,
        .granted = cell->granted,
        .reserved = cell->reserved,
    };
    return FACET_OK;
}

enum facet_status facet_maps_find_place(struct facet_maps *maps, const char *slot, const char *id, uint32_t *ret_place,
                                        struct facet_error *error)
{
    enum facet_status status = maps_need(maps, "maps", error);

    if (status != FACET_OK || (status = maps_need(slot, "slot", error)) != FACET_OK ||
        (status = maps_need(id, "id", error)) != FACET_OK ||
        (status = maps_need(ret_place, "ret_place", error)) != FACET_OK)
        return status;
    /* Names never change, so no lock is needed. */
    uint32_t found = maps_find_slot(maps, slot);
    uint32_t cell = found == MAPS_NONE ? MAPS_NONE : maps_find_cell(maps, found, id);

    if (found == MAPS_NONE)
        return facet_error_argument(error, FACET_NOT_FOUND, "slot", "slot '%.60s': no device of this node has it",
                                    slot);
    if (cell == MAPS_NONE)
        return facet_error_argument(error, FACET_NOT_FOUND, "id", "slot '%.60s' has no device '%.60s'", slot, id);
    *ret_place = maps->cells[cell].place;
    return FACET_OK;
}

/* --- copies --- */

/* A configuration from which `maps` could be made anew, with their present strategies and health. */
static bool describe_maps(const struct facet_maps *maps, struct facet_map_config *configs,
                          struct facet_map_device *devices)
{
    if (!configs || !devices)
        return false;
    for (uint32_t i = 0; i < maps->map_count; i++)
        configs[i] = (struct facet_map_config){
            .name = maps->maps[i].name,
            .exclusive = (const char *const *)maps->maps[i].exclusive,
            .exclusive_count = maps->maps[i].exclusive_count,
            .kind = maps->maps[i].kind,
            .strategy = maps->maps[i].strategy,
            .quantum = maps->maps[i].quantum,
        };
    for (uint32_t i = 0; i < maps->cell_count; i++) {
        const struct maps_cell *cell = &maps->cells[maps->cell_of_place[i]];

        devices[i] = (struct facet_map_device){
            .id = cell->id,
            .slot = maps->slots[cell->slot].name,
            .map = maps->slots[cell->slot].map,
            .type = maps->slots[cell->slot].type,
            .numa_node = maps->nodes[cell->node],
            .unhealthy = cell->unhealthy,
            .capacity = cell->capacity,
        };
    }
    return true;
}

/* Copies the state that changes over time. The caller keeps other threads out of both. An error leaves `to` as it was.
 */
static enum facet_status copy_state(struct facet_maps *to, const struct facet_maps *from, struct facet_error *error)
{
    struct maps_grant *grants = malloc((from->grant_count + 1) * sizeof *grants);
    struct maps_chunk *chunks = malloc((from->chunk_count + 1) * sizeof *chunks);

    if (!grants || !chunks) {
        free(grants);
        free(chunks);
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a copy of %" PRIu32 " grants", from->grant_count);
    }
    if (from->grant_count)
        memcpy(grants, from->grants, from->grant_count * sizeof *grants);
    if (from->chunk_count)
        memcpy(chunks, from->chunks, from->chunk_count * sizeof *chunks);
    free(to->grants);
    free(to->chunks);
    to->grants = grants;
    to->chunks = chunks;
    to->grant_count = from->grant_count;
    to->grant_room = from->grant_count + 1;
    to->chunk_count = from->chunk_count;
    to->chunk_room = from->chunk_count + 1;
    to->unused_grant = from->unused_grant;
    to->unused_chunk = from->unused_chunk;
    to->unused_chunks = from->unused_chunks;
    for (uint32_t i = 0; i < from->map_count; i++)
        to->maps[i].strategy = from->maps[i].strategy;
    for (uint32_t i = 0; i < from->cell_count; i++) {
        to->cells[i].granted = from->cells[i].granted;
        to->cells[i].reserved = from->cells[i].reserved;
        to->cells[i].unhealthy = from->cells[i].unhealthy;
        maps_note_change(to, &to->cells[i]);
    }
    return FACET_OK;
}

enum facet_status facet_maps_copy(struct facet_maps *maps, struct facet_maps **ret_copy, struct facet_error *error)
{
    enum facet_status status = maps_need(maps, "maps", error);

    if (status != FACET_OK || (status = maps_need(ret_copy, "ret_copy", error)) != FACET_OK)
        return status;
    FACET_CLEANUP_FREE struct facet_map_config *configs = calloc(maps->map_count, sizeof *configs);
    FACET_CLEANUP_FREE struct facet_map_device *devices = calloc(maps->cell_count + 1, sizeof *devices);
    struct facet_maps *copy = NULL;

    MAPS_LOCKED(maps);
    if (!describe_maps(maps, configs, devices))
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a copy of the maps");
    status = facet_maps_create(&(struct facet_maps_config){.size = sizeof(struct facet_maps_config),
                                                           .maps = configs,
                                                           .map_count = maps->map_count,
                                                           .devices = devices,
                                                           .device_count = maps->cell_count},
                               &copy, error);
    if (status == FACET_OK)
        status = copy_state(copy, maps, error);
    if (status != FACET_OK) {
        facet_maps_destroy(copy);
        return status;
    }
    *ret_copy = copy;
    return FACET_OK;
}

/* Whether `right` may be a copy of `left`: their maps, slots and devices agree. */
static bool are_alike(const struct facet_maps *left, const struct facet_maps *right)
{
    bool alike = left->map_count == right->map_count && left->cell_count == right->cell_count &&
                 left->slot_count == right->slot_count;

    for (uint32_t i = 0; alike && i < left->map_count; i++)
        alike = strcmp(left->maps[i].name, right->maps[i].name) == 0 && left->maps[i].kind == right->maps[i].kind;
    for (uint32_t i = 0; alike && i < left->slot_count; i++)
        alike = strcmp(left->slots[i].name, right->slots[i].name) == 0;
    for (uint32_t i = 0; alike && i < left->cell_count; i++)
        alike = left->cells[i].place == right->cells[i].place && left->cells[i].slot == right->cells[i].slot &&
                left->cells[i].capacity == right->cells[i].capacity &&
                strcmp(left->cells[i].id, right->cells[i].id) == 0;
    return alike;
}

enum facet_status facet_maps_reset(struct facet_maps *maps, const struct facet_maps *saved, struct facet_error *error)
{
    enum facet_status status = maps_need(maps, "maps", error);

    if (status != FACET_OK || (status = maps_need(saved, "saved", error)) != FACET_OK)
        return status;
    if (maps == saved)
        return FACET_OK;
    MAPS_LOCKED(maps);
    if (!are_alike(maps, saved))
        return facet_error_argument(error, FACET_BAD_STATE, "saved", "saved: expected a copy of these maps");
    return copy_state(maps, saved, error);
}
