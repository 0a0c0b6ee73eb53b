/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: making the maps that a vector describes. Never: runs a step. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "placement/maps/replay_inside.h"

static const char *const strategies[] = {"evenly", "fill", NULL};
static const char *const kinds[] = {"discrete", "fraction", NULL};
static const char *const types[] = {"count", "bytes", "unique", "unified", NULL};
static const char *const policies[] = {"none", "interleaved", "prefer_single_node", NULL};

/* The maps under construction. */
struct parts {
    struct facet_map_config maps[FACET_MAPS_MOST];
    const char **exclusive;
    struct facet_map_device *devices;
    uint32_t map_count, device_count, device_room;
};

static void read_map(const struct replay_value *at, struct facet_map_config *map)
{
    struct replay_value kind = replay_member(at, "map"), strategy = replay_member(at, "strategy");
    struct replay_value quantum = replay_member(at, "quantum");

    if (!replay_present(&kind))
        replay_refuse(&kind, "discrete or fraction");
    map->kind = replay_choice(&kind, kinds, 0);
    map->strategy = replay_choice(&strategy, strategies, FACET_MAP_EVENLY);
    if (replay_present(&quantum) && (!replay_amount(&quantum, &map->quantum, NULL) || map->quantum <= 0))
        replay_refuse(&quantum, "an amount above 0 of at most 6 decimals");
    if (map->kind == FACET_MAP_DISCRETE)
        map->quantum = 0; /* a discrete map has no quantum */
}

static const char **read_exclusive(const struct replay_value *at, uint32_t *ret_count)
{
    size_t count = replay_present(at) ? replay_count(at, REPLAY_ITEMS_MAX) : 0;
    const char **names = calloc(count + 1, sizeof *names);

    for (size_t i = 0; names && i < count; i++) {
        struct replay_value item = replay_item(at, i);

        names[i] = replay_string(&item);
    }
    *ret_count = names ? (uint32_t)count : 0;
    return names;
}

static int32_t read_node(const struct replay_value *at)
{
    json_int_t node = json_integer_value(at->value);

    if (!replay_present(at))
        return INT32_MAX; /* devices without a node count as one node behind all numbered nodes */
    if (json_is_integer(at->value) && node >= -1 && node < INT32_MAX)
        return (int32_t)node;
    replay_refuse(at, "a NUMA node or null");
    return FACET_NUMA_UNKNOWN;
}

static bool read_device(const struct replay_value *at, uint32_t map, struct parts *parts)
{
    struct replay_value id = replay_member(at, "id"), slot = replay_member(at, "slot"),
                        node = replay_member(at, "numa_node");
    struct replay_value type = replay_member(at, "slot_type"), capacity = replay_member(at, "capacity");
    struct facet_map_device *device;

    if (parts->device_count == parts->device_room) {
        uint32_t room = parts->device_room ? 2 * parts->device_room : 64;
        struct facet_map_device *moved = realloc(parts->devices, room * sizeof *moved);

        if (!moved)
            return false;
        parts->devices = moved;
        parts->device_room = room;
    }
    device = &parts->devices[parts->device_count++];
    *device = (struct facet_map_device){.id = replay_string(&id),
                                        .slot = replay_string(&slot),
                                        .map = map,
                                        .type = replay_choice(&type, types, 0),
                                        .numa_node = read_node(&node)};
    if (!replay_amount(&capacity, &device->capacity, NULL) || device->capacity < 0)
        replay_refuse(&capacity, "an amount of 0 or more, of at most 6 decimals");
    return true;
}

static bool read_devices(const struct replay_value *at, uint32_t map, struct parts *parts)
{
    size_t count = replay_count(at, FACET_PLACES_MOST);

    for (size_t i = 0; i < count && !at->fault->length; i++) {
        struct replay_value item = replay_item(at, i);

        if (!read_device(&item, map, parts))
            return false;
    }
    return true;
}

/* Reads one map of a kernel vector, unless it has been read; maps that `alloc_order` names come first. */
static bool read_named(const struct replay_value *vector, const char *name, struct parts *parts)
{
    struct replay_value maps = replay_member(vector, "maps"), devices = replay_member(vector, "devices");
    struct replay_value map = replay_member(&maps, name), list = replay_member(&devices, name);
    struct facet_map_config *config = &parts->maps[parts->map_count];

    for (uint32_t i = 0; i < parts->map_count; i++)
        if (strcmp(parts->maps[i].name, name) == 0)
            return true;
    if (!replay_present(&map))
        return true;
    if (parts->map_count == FACET_MAPS_MOST) {
        replay_refuse(&maps, "at most 64 maps");
        return true;
    }
    parts->map_count++;
    config->name = name;
    read_map(&map, config);
    return read_devices(&list, parts->map_count - 1, parts);
}

static bool read_kernel(const struct replay_value *vector, struct parts *parts)
{
    struct replay_value maps = replay_member(vector, "maps"), order = replay_member(vector, "alloc_order");
    size_t count = replay_present(&order) ? replay_count(&order, REPLAY_ITEMS_MAX) : 0;
    bool done = replay_expect_object(&maps);
    const char *name;
    json_t *value;

    for (size_t i = 0; done && i < count; i++) {
        struct replay_value item = replay_item(&order, i);

        done = read_named(vector, replay_string(&item), parts);
    }
    json_object_foreach (maps.value, name, value)
        done = done && read_named(vector, name, parts);
    return done;
}

static bool read_single(const struct replay_value *vector, struct parts *parts)
{
    struct replay_value devices = replay_member(vector, "devices");

    parts->map_count = 1;
    parts->maps[0].name = "map";
    read_map(vector, &parts->maps[0]);
    return read_devices(&devices, 0, parts);
}

#define ALLOCATE(array, count) ((array) = calloc((count) + 1, sizeof *(array)))

static bool make_room(struct replay_run *run)
{
    return ALLOCATE(run->before, run->places) && ALLOCATE(run->after, run->places) &&
           ALLOCATE(run->recorded, run->places) && ALLOCATE(run->recorded_after, run->places) &&
           ALLOCATE(run->result, run->places) && ALLOCATE(run->own_result, run->places) &&
           ALLOCATE(run->hint, run->places) && ALLOCATE(run->effects, run->steps) &&
           ALLOCATE(run->items, REPLAY_ITEMS_MAX);
}

static void create_maps(struct replay_run *run, const struct replay_value *vector, struct parts *parts)
{
    struct replay_value exclusive = replay_member(vector, "exclusive_slot_types");
    struct facet_error error = {0};
    uint32_t count = 0;

    parts->exclusive = read_exclusive(&exclusive, &count);
    for (uint32_t i = 0; i < parts->map_count; i++) {
        parts->maps[i].exclusive = parts->exclusive;
        parts->maps[i].exclusive_count = count;
        run->discrete[i] = parts->maps[i].kind == FACET_MAP_DISCRETE;
    }
    if (run->fault.length)
        return;
    if (facet_maps_create(&(struct facet_maps_config){.size = sizeof(struct facet_maps_config),
                                                      .maps = parts->maps,
                                                      .map_count = parts->map_count,
                                                      .devices = parts->devices,
                                                      .device_count = parts->device_count},
                          &run->maps, &error) != FACET_OK)
        replay_append(&run->fault, "%s: %s", vector->path, error.message);
    run->places = parts->device_count;
}

void replay_build(struct replay_run *run, const struct replay_value *vector)
{
    struct replay_value policy = replay_member(vector, "affinity_policy"), steps = replay_member(vector, "steps");
    struct parts parts = {0};

    run->affinity = replay_choice(&policy, policies, FACET_AFFINITY_NONE);
    run->steps = (uint32_t)replay_count(&steps, REPLAY_STEPS_MAX);
    if (!(run->has_several_maps ? read_kernel(vector, &parts) : read_single(vector, &parts)))
        replay_append(&run->fault, "%s: no memory", vector->path);
    if (!run->fault.length)
        create_maps(run, vector, &parts);
    if (!run->fault.length && !make_room(run))
        replay_append(&run->fault, "%s: no memory", vector->path);
    free(parts.exclusive);
    free(parts.devices);
}

void replay_clear(struct replay_run *run)
{
    for (uint32_t i = 0; run->effects && i < run->steps; i++)
        free(run->effects[i].parts);
    free(run->before);
    free(run->after);
    free(run->recorded);
    free(run->recorded_after);
    free(run->result);
    free(run->own_result);
    free(run->hint);
    free(run->effects);
    free(run->items);
    facet_maps_destroy(run->maps);
}
