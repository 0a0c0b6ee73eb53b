/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: small nodes for tests of the allocation maps, and short forms of requests and checks. Never: checks the
 * subject of a test. */
#ifndef FACET_TESTS_MAPS_NODE_H
#define FACET_TESTS_MAPS_NODE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <facet/allocation.h>

#define ONE          FACET_AMOUNT_ONE
#define LENGTH(list) (sizeof(list) / sizeof(list)[0])
#define MOST_PARTS   64u

/* Opens maps of one map, with the slot "x" of type count on devices d0, d1, ... without NUMA nodes. */
static inline struct facet_maps *open_map(uint32_t kind, uint32_t strategy, int64_t quantum, const int64_t *capacities,
                                          uint32_t count)
{
    struct facet_map_config map = {.name = "x", .kind = kind, .strategy = strategy, .quantum = quantum};
    struct facet_map_device devices[MOST_PARTS];
    char ids[MOST_PARTS][12];
    struct facet_maps *maps = NULL;

    for (uint32_t i = 0; i < count; i++) {
        snprintf(ids[i], sizeof ids[i], "d%u", i);
        devices[i] = (struct facet_map_device){
            .id = ids[i], .slot = "x", .numa_node = FACET_NUMA_UNKNOWN, .capacity = capacities[i]};
    }
    assert_int_equal(facet_maps_create(&(struct facet_maps_config){.size = sizeof(struct facet_maps_config),
                                                                   .map_count = 1,
                                                                   .maps = &map,
                                                                   .devices = devices,
                                                                   .device_count = count},
                                       &maps, NULL),
                     FACET_OK);
    return maps;
}

#define OPEN(kind, strategy, quantum, ...)                                                                             \
    open_map(kind, strategy, quantum, (const int64_t[]){__VA_ARGS__},                                                  \
             (uint32_t)LENGTH(((const int64_t[]){__VA_ARGS__})))

static inline struct facet_maps_request request_of(const struct facet_maps_item *items, uint32_t count)
{
    return (struct facet_maps_request){.size = sizeof(struct facet_maps_request), .items = items, .count = count};
}

/* The amount of a place that is granted. */
static inline int64_t granted(struct facet_maps *maps, uint32_t place)
{
    struct facet_maps_place info = {.size = sizeof info};

    assert_int_equal(facet_maps_get_place(maps, place, &info, NULL), FACET_OK);
    return info.granted;
}

#endif
