/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: building maps from a configuration that was checked as a whole, and freeing them.
 * Never: keeps a pointer of the caller's.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/sized.h"
#include "placement/maps/maps.h"

#define ALLOCATE(array, count) ((array) = calloc((count) ? (count) : 1, sizeof *(array)))

static void free_names(struct facet_maps *maps)
{
    for (uint32_t i = 0; maps->maps && i < maps->map_count; i++) {
        for (uint32_t k = 0; maps->maps[i].exclusive && k < maps->maps[i].exclusive_count; k++)
            free(maps->maps[i].exclusive[k]);
        free(maps->maps[i].exclusive);
        free(maps->maps[i].name);
    }
    for (uint32_t i = 0; maps->slots && i < maps->slot_count; i++)
        free(maps->slots[i].name);
    for (uint32_t i = 0; maps->cells && i < maps->cell_count; i++)
        free(maps->cells[i].id);
}

void maps_free_all(struct facet_maps *maps)
{
    struct maps_scratch *scratch = &maps->scratch;
    void *const blocks[] = {
        scratch->parts,      scratch->cells,     scratch->units, scratch->sums, scratch->next, scratch->nodes,
        scratch->node_order, scratch->slot_item, maps->maps,     maps->slots,   maps->cells,   maps->by_id,
        maps->cell_of_place, maps->order,        maps->nodes,    maps->grants,  maps->chunks,  maps};

    free_names(maps);
    pthread_mutex_destroy(&maps->lock);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        free(blocks[i]);
}

static enum facet_status no_memory(struct facet_error *error)
{
    return facet_error_set(error, FACET_NO_MEMORY, "no memory for allocation maps");
}

/* --- checking --- */

static enum facet_status check_map(const struct facet_maps_config *config, uint32_t index, struct facet_error *error)
{
    const struct facet_map_config *map = &config->maps[index];
    int64_t whole = map->kind == FACET_MAP_DISCRETE ? FACET_AMOUNT_ONE : 1;

    if (!map->name || !map->name[0])
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "name",
                                    "name of map %u: expected a text that is not empty", index);
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(config->maps[i].name, map->name) == 0)
            return facet_error_argument(error, FACET_ALREADY_EXISTS, "name",
                                        "map '%.40s' is given twice, expected each name once", map->name);
    if (!facet_map_kind_name(map->kind))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "kind", "kind %u of map '%.40s': expected 0 or 1",
                                    map->kind, map->name);
    if (!facet_map_strategy_name(map->strategy))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "strategy",
                                    "strategy %u of map '%.40s': expected 0 or 1", map->strategy, map->name);
    if (map->quantum < 0 || map->quantum % whole)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "quantum",
                                    "quantum %" PRId64 " micro-units of map '%.40s': expected a positive%s number",
                                    map->quantum, map->name, whole > 1 ? ", whole" : "");
    for (uint32_t i = 0; i < map->exclusive_count; i++)
        if (!map->exclusive || !map->exclusive[i])
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, "exclusive",
                                        "exclusive slot %u of map '%.40s': expected a text that is not empty", i,
                                        map->name);
    return FACET_OK;
}

static enum facet_status check_device(const struct facet_maps_config *config, uint32_t index, struct facet_error *error)
{
    const struct facet_map_device *device = &config->devices[index];

    if (!device->id || !device->slot || !device->slot[0])
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, device->id ? "slot" : "id",
                                    "device %u: expected an id and a slot", index);
    if (device->map >= config->map_count)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "map", "map %u of device '%.40s': expected less than %u",
                                    device->map, device->id, config->map_count);
    if (!facet_slot_type_name(device->type))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "type", "type %u of device '%.40s': expected 0 to 3",
                                    device->type, device->id);
    if (device->capacity < 0)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "capacity",
                                    "capacity %" PRId64 " micro-units of device '%.40s': expected 0 or more",
                                    device->capacity, device->id);
    return FACET_OK;
}

static enum facet_status check_config(const struct facet_maps_config *config, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    if (!config || config->size < sizeof *config || !config->maps || (config->device_count && !config->devices))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config",
                                    "config: expected a struct of %zu bytes with maps and devices", sizeof *config);
    FACET_NEED_KNOWN("config", config, error);
    FACET_NEED_RESERVED("config", config, error);
    if (config->map_count == 0 || config->map_count > FACET_MAPS_MOST)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "map_count", "map_count %u: expected 1 to %u",
                                    config->map_count, FACET_MAPS_MOST);
    if (config->device_count > FACET_PLACES_MOST)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "device_count", "device_count %u: expected at most %u",
                                    config->device_count, FACET_PLACES_MOST);
    for (uint32_t i = 0; status == FACET_OK && i < config->map_count; i++)
        status = check_map(config, i, error);
    for (uint32_t i = 0; status == FACET_OK && i < config->device_count; i++)
        status = check_device(config, i, error);
    return status;
}

/* --- building --- */

static bool allocate_arrays(struct facet_maps *maps, const struct facet_maps_config *config)
{
    maps->map_count = config->map_count;
    maps->cell_count = config->device_count;
    return ALLOCATE(maps->maps, config->map_count) && ALLOCATE(maps->cells, config->device_count) &&
           ALLOCATE(maps->cell_of_place, config->device_count) && ALLOCATE(maps->by_id, config->device_count) &&
           ALLOCATE(maps->order, config->device_count) && ALLOCATE(maps->slots, config->device_count) &&
           ALLOCATE(maps->nodes, config->device_count);
}

static bool copy_text(const char *text, char **ret_copy)
{
    return (*ret_copy = strdup(text)) != NULL;
}

static bool build_map(struct maps_map *map, const struct facet_map_config *config)
{
    int64_t quantum = config->kind == FACET_MAP_DISCRETE ? FACET_AMOUNT_ONE : MAPS_GRID;
    bool done = copy_text(config->name, &map->name) && ALLOCATE(map->exclusive, config->exclusive_count);

    map->kind = config->kind;
    map->strategy = config->strategy;
    map->quantum = config->quantum ? config->quantum : quantum;
    map->exclusive_count = config->exclusive_count;
    for (uint32_t i = 0; done && i < config->exclusive_count; i++)
        done = copy_text(config->exclusive[i], &map->exclusive[i]);
    return done;
}

/* A device in a list to be sorted: by slot and then in the order of the configuration, or by slot and id. */
struct entry {
    const char *slot, *id;
    uint32_t number;
};

static int by_slot(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    int order = strcmp(a->slot, b->slot);

    return order ? order : (a->number > b->number) - (a->number < b->number);
}

static int by_id(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    int order = strcmp(a->slot, b->slot);

    return order ? order : strcmp(a->id, b->id);
}

static int by_label(const void *left, const void *right)
{
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;

    return (a > b) - (a < b);
}

static enum facet_status build_nodes(struct facet_maps *maps, const struct facet_maps_config *config,
                                     struct facet_error *error)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < config->device_count; i++)
        maps->nodes[i] = config->devices[i].numa_node;
    qsort(maps->nodes, config->device_count, sizeof *maps->nodes, by_label);
    for (uint32_t i = 0; i < config->device_count; i++)
        if (count == 0 || maps->nodes[count - 1] != maps->nodes[i])
            maps->nodes[count++] = maps->nodes[i];
    maps->node_count = count;
    if (count > MAPS_NODES_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "numa_node", "%u NUMA nodes: expected at most %u", count,
                                    MAPS_NODES_MAX);
    return FACET_OK;
}

static uint32_t node_of_label(const struct facet_maps *maps, int32_t label)
{
    const int32_t *found = bsearch(&label, maps->nodes, maps->node_count, sizeof *maps->nodes, by_label);

    return found ? (uint32_t)(found - maps->nodes) : 0;
}

static enum facet_status begin_slot(struct facet_maps *maps, const struct facet_map_device *device, uint32_t cell,
                                    struct facet_error *error)
{
    struct maps_slot *slot = &maps->slots[maps->slot_count];

    if (!copy_text(device->slot, &slot->name))
        return no_memory(error);
    slot->map = device->map;
    slot->type = device->type;
    slot->first = cell;
    maps->slot_count++;
    return FACET_OK;
}

/* Adds a device to the last slot. */
static enum facet_status add_cell(struct facet_maps *maps, const struct facet_map_device *device, uint32_t place,
                                  int64_t *total, struct facet_error *error)
{
    struct maps_slot *slot = &maps->slots[maps->slot_count - 1];
    uint32_t number = slot->first + slot->count;
    struct maps_cell *cell = &maps->cells[number];

    if (slot->map != device->map || slot->type != device->type)
        return facet_error_argument(
            error, FACET_INVALID_ARGUMENT, slot->map != device->map ? "map" : "type",
            "slot '%.40s' of device '%.40s': expected all its devices in one map and of one type", device->slot,
            device->id);
    if (__builtin_add_overflow(*total, device->capacity, total))
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "capacity",
                                    "slot '%.40s': expected capacities of at most 9223372036854.775807 in all",
                                    device->slot);
    if (!copy_text(device->id, &cell->id))
        return no_memory(error);
    cell->capacity = device->capacity;
    cell->place = place;
    cell->slot = maps->slot_count - 1;
    cell->node = node_of_label(maps, device->numa_node);
    cell->unhealthy = device->unhealthy != 0;
    maps->cell_of_place[place] = number;
    maps->order[number] = number;
    slot->count++;
    maps_note_change(maps, cell);
    return FACET_OK;
}

static enum facet_status build_cells(struct facet_maps *maps, const struct facet_maps_config *config,
                                     struct entry *entries, struct facet_error *error)
{
    enum facet_status status = FACET_OK;
    int64_t total = 0;

    qsort(entries, maps->cell_count, sizeof *entries, by_slot);
    for (uint32_t i = 0; status == FACET_OK && i < maps->cell_count; i++) {
        const struct facet_map_device *device = &config->devices[entries[i].number];

        if (i == 0 || strcmp(entries[i - 1].slot, entries[i].slot) != 0) {
            status = begin_slot(maps, device, i, error);
            total = 0;
        }
        if (status == FACET_OK)
            status = add_cell(maps, device, entries[i].number, &total, error);
    }
    return status;
}

static enum facet_status build_ids(struct facet_maps *maps, struct entry *entries, struct facet_error *error)
{
    qsort(entries, maps->cell_count, sizeof *entries, by_id);
    for (uint32_t i = 0; i < maps->cell_count; i++) {
        maps->by_id[i] = maps->cell_of_place[entries[i].number];
        if (i > 0 && by_id(&entries[i - 1], &entries[i]) == 0)
            return facet_error_argument(error, FACET_ALREADY_EXISTS, "id", "device '%.40s' has slot '%.40s' twice",
                                        entries[i].id, entries[i].slot);
    }
    return FACET_OK;
}

enum facet_status maps_make_scratch(struct facet_maps *maps)
{
    struct maps_scratch *scratch = &maps->scratch;
    /* One element more than there are cells, because sums and lists are read one past the end. */
    uint32_t cells = maps->cell_count + 1;
    bool done = ALLOCATE(scratch->parts, cells) && ALLOCATE(scratch->cells, cells) && ALLOCATE(scratch->units, cells) &&
                ALLOCATE(scratch->sums, cells) && ALLOCATE(scratch->next, cells) &&
                ALLOCATE(scratch->nodes, maps->node_count) && ALLOCATE(scratch->node_order, maps->node_count) &&
                ALLOCATE(scratch->slot_item, maps->slot_count);

    return done ? FACET_OK : FACET_NO_MEMORY;
}

static enum facet_status build_maps(struct facet_maps *maps, const struct facet_maps_config *config,
                                    struct facet_error *error)
{
    FACET_CLEANUP_FREE struct entry *entries = calloc(config->device_count + 1, sizeof *entries);
    bool done = entries && allocate_arrays(maps, config);
    enum facet_status status;

    for (uint32_t i = 0; done && i < config->map_count; i++)
        done = build_map(&maps->maps[i], &config->maps[i]);
    for (uint32_t i = 0; done && i < config->device_count; i++)
        entries[i] = (struct entry){config->devices[i].slot, config->devices[i].id, i};
    if (!done)
        return no_memory(error);
    status = build_nodes(maps, config, error);
    if (status == FACET_OK)
        status = build_cells(maps, config, entries, error);
    if (status == FACET_OK)
        status = build_ids(maps, entries, error);
    if (status == FACET_OK && maps_make_scratch(maps) != FACET_OK)
        status = no_memory(error);
    return status;
}

enum facet_status facet_maps_create(const struct facet_maps_config *config, struct facet_maps **ret_maps,
                                    struct facet_error *error)
{
    enum facet_status status = check_config(config, error);
    struct facet_maps *maps;

    if (status != FACET_OK)
        return status;
    if (!ret_maps)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "ret_maps",
                                    "ret_maps: expected a pointer, not NULL");
    if (!(maps = calloc(1, sizeof *maps)))
        return no_memory(error);
    if (pthread_mutex_init(&maps->lock, NULL) != 0) {
        free(maps);
        return no_memory(error);
    }
    maps->unused_grant = maps->unused_chunk = MAPS_NONE;
    status = build_maps(maps, config, error);
    if (status != FACET_OK) {
        maps_free_all(maps);
        return status;
    }
    *ret_maps = maps;
    return FACET_OK;
}

void facet_maps_destroy(struct facet_maps *maps)
{
    if (maps)
        maps_free_all(maps);
}
