/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a million random steps over all kinds, strategies, affinities, rules and sizes. No place grants more than it
 * has, a grant equals its request, and a release returns exactly the grant's amounts.
 * Never: takes different steps for the same seed.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../../../effort.h"
#include "node.h"

#define STEPS  effort(1000000, 40000)
#define NODES  200u /* different nodes */
#define LIVE   48u  /* grants at a time */
#define SLOTS  5u
#define PLACES 40u

static uint64_t draw_below(uint64_t *seed, uint64_t below)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed % below;
}

static const char *const slots[SLOTS] = {"cuda.shares", "cuda.device:1g-mig", "npu", "cpu", "mem"};
static const uint32_t slot_maps[SLOTS] = {0, 0, 1, 2, 3};
static const uint32_t slot_types[SLOTS] = {FACET_SLOT_COUNT, FACET_SLOT_UNIQUE, FACET_SLOT_COUNT, FACET_SLOT_COUNT,
                                           FACET_SLOT_BYTES};

/* A node, and a plain account of its grants. */
struct world {
    struct facet_maps *maps;
    uint32_t places;
    uint32_t slot[PLACES];
    int64_t capacity[PLACES], account[PLACES];
    bool unhealthy[PLACES];
    uint64_t grants[LIVE];
    struct facet_maps_part parts[LIVE][PLACES];
    uint32_t counts[LIVE];
    uint64_t granted, refused, rounded;
};

static int64_t random_capacity(uint64_t *seed, uint32_t slot)
{
    if (slot_types[slot] == FACET_SLOT_UNIQUE)
        return ONE;
    if (slot == 0)
        return (int64_t)draw_below(seed, 500) * 10000 / (draw_below(seed, 3) ? 1 : 7);
    return (int64_t)draw_below(seed, slot == 4 ? 100000 : 9) * ONE;
}

static void open_world(struct world *world, uint64_t *seed)
{
    static const int64_t quanta[] = {0, 10000, 100000, 250000, 300000, 1, 10};
    static const char *const exclusive[] = {"cuda.device:*-mig", "cuda.shares"};
    struct facet_map_config maps[4] = {{.name = "cuda",
                                        .kind = FACET_MAP_FRACTION,
                                        .exclusive = exclusive,
                                        .exclusive_count = (uint32_t)draw_below(seed, 3)},
                                       {.name = "npu"},
                                       {.name = "cpu"},
                                       {.name = "mem"}};
    struct facet_map_device devices[PLACES];
    char ids[PLACES][12];

    memset(world, 0, sizeof *world);
    world->places = 1 + (uint32_t)draw_below(seed, PLACES);
    for (uint32_t i = 0; i < 4; i++)
        maps[i].strategy = (uint32_t)draw_below(seed, 2);
    maps[0].quantum = quanta[draw_below(seed, LENGTH(quanta))];
    for (uint32_t i = 0; i < world->places; i++) {
        world->slot[i] = (uint32_t)draw_below(seed, SLOTS);
        world->capacity[i] = random_capacity(seed, world->slot[i]);
        snprintf(ids[i], sizeof ids[i], "%u", i);
        devices[i] = (struct facet_map_device){.id = ids[i],
                                               .slot = slots[world->slot[i]],
                                               .map = slot_maps[world->slot[i]],
                                               .type = slot_types[world->slot[i]],
                                               .numa_node = (int32_t)draw_below(seed, 4) - 1,
                                               .capacity = world->capacity[i]};
    }
    assert_int_equal(facet_maps_create(&(struct facet_maps_config){.size = sizeof(struct facet_maps_config),
                                                                   .map_count = 4,
                                                                   .maps = maps,
                                                                   .devices = devices,
                                                                   .device_count = world->places},
                                       &world->maps, NULL),
                     FACET_OK);
}

static int64_t random_amount(uint64_t *seed, uint32_t slot)
{
    if (slot_types[slot] == FACET_SLOT_UNIQUE)
        return draw_below(seed, 20) ? ONE : 2 * ONE;
    if (slot == 0)
        return (int64_t)draw_below(seed, 300) * (draw_below(seed, 9) ? 10000 : 1234);
    return draw_below(seed, 30) ? (int64_t)draw_below(seed, slot == 4 ? 90000 : 12) * ONE : 1500000;
}

static struct facet_maps_request random_request(uint64_t *seed, struct facet_maps_item *items, uint32_t *near)
{
    struct facet_maps_request request = request_of(items, 1 + (uint32_t)draw_below(seed, 3));
    uint32_t first = (uint32_t)draw_below(seed, SLOTS);

    for (uint32_t i = 0; i < request.count; i++) {
        items[i].slot = slots[(first + i) % SLOTS];
        items[i].amount = random_amount(seed, (first + i) % SLOTS);
    }
    request.rules = (uint32_t)draw_below(seed, 4) == 0;
    request.affinity = (uint32_t)draw_below(seed, 3);
    request.guard = (uint32_t)draw_below(seed, 4) == 0;
    request.least = draw_below(seed, 4) ? 0 : (int64_t)draw_below(seed, 50) * 10000;
    *near = (uint32_t)draw_below(seed, PLACES);
    request.near = near;
    return request;
}

/* The parts of each item add up to its request or, where amounts are rounded down, to more than 0 and at most that. */
static void check_sums(struct world *world, const struct facet_maps_request *request,
                       const struct facet_maps_part *parts, uint32_t count)
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < request->count; i++) {
        int64_t sum = 0;

        for (uint32_t k = 0; k < count; k++) {
            if (strcmp(slots[world->slot[parts[k].place]], request->items[i].slot) != 0)
                continue;
            sum += parts[k].amount;
            used++;
            assert_true(parts[k].amount > 0);
            assert_true(slot_maps[world->slot[parts[k].place]] == 0 || parts[k].amount % ONE == 0);
        }
        if (request->rules == FACET_MAPS_EXACT || request->items[i].amount == 0)
            assert_int_equal(sum, request->items[i].amount);
        assert_true(sum <= request->items[i].amount && (sum > 0 || request->items[i].amount == 0));
        world->rounded += sum < request->items[i].amount;
    }
    assert_int_equal(used, count);
}

static void check_accounts(struct world *world)
{
    for (uint32_t i = 0; i < world->places; i++) {
        assert_true(world->account[i] >= 0 && world->account[i] <= world->capacity[i]);
        assert_int_equal(granted(world->maps, i), world->account[i]);
    }
}

static void allocate_grant(struct world *world, uint64_t *seed, uint32_t index)
{
    struct facet_maps_item items[3];
    uint32_t near;
    struct facet_maps_request request = random_request(seed, items, &near);
    struct facet_maps_part planned[PLACES];
    uint32_t planned_count = 0;

    request.near_count = near < world->places && draw_below(seed, 2);
    enum facet_status plan = facet_maps_plan(world->maps, &request, planned, PLACES, &planned_count, NULL, NULL);
    enum facet_status status = facet_maps_allocate(world->maps, &request, &world->grants[index], NULL, NULL);

    assert_int_equal(plan, status);
    if (status != FACET_OK) {
        world->refused++;
        world->grants[index] = 0;
        return;
    }
    world->granted++;
    assert_int_equal(facet_maps_get_grant(world->maps, world->grants[index], world->parts[index], PLACES,
                                          &world->counts[index], NULL),
                     FACET_OK);
    assert_int_equal(world->counts[index], planned_count);
    for (uint32_t i = 0; i < planned_count; i++) {
        assert_int_equal(world->parts[index][i].place, planned[i].place);
        assert_int_equal(world->parts[index][i].amount, planned[i].amount);
        assert_false(world->unhealthy[planned[i].place]);
        world->account[planned[i].place] += planned[i].amount;
    }
    check_sums(world, &request, planned, planned_count);
}

static void release_grant(struct world *world, uint32_t index)
{
    assert_int_equal(facet_maps_release(world->maps, world->grants[index], NULL), FACET_OK);
    assert_int_equal(facet_maps_release(world->maps, world->grants[index], NULL), FACET_BAD_STATE);
    for (uint32_t i = 0; i < world->counts[index]; i++)
        world->account[world->parts[index][i].place] -= world->parts[index][i].amount;
    world->grants[index] = 0;
}

static void change_place(struct world *world, uint64_t *seed)
{
    uint32_t place = (uint32_t)draw_below(seed, world->places), map = (uint32_t)draw_below(seed, 4);
    struct facet_maps_place info = {.size = sizeof info};

    assert_int_equal(facet_maps_get_place(world->maps, place, &info, NULL), FACET_OK);
    world->unhealthy[place] = draw_below(seed, 4) == 0;
    assert_int_equal(facet_maps_set_health(world->maps, info.map, info.id, world->unhealthy[place], NULL), FACET_OK);
    assert_int_equal(facet_maps_set_strategy(world->maps, map, (uint32_t)draw_below(seed, 2), NULL), FACET_OK);
}

static void test_a_million_steps_keep_the_maps_consistent(void **state)
{
    static struct world world;
    uint64_t seed = effort_seed(463325252), granted_in_all = 0, refused_in_all = 0, rounded_in_all = 0;

    for (uint32_t node = 0; node < NODES; node++) {
        open_world(&world, &seed);
        for (uint32_t step = 0; step < STEPS / NODES; step++) {
            uint32_t index = (uint32_t)draw_below(&seed, LIVE);

            if (world.grants[index])
                release_grant(&world, index);
            else
                allocate_grant(&world, &seed, index);
            if (draw_below(&seed, 100) == 0)
                change_place(&world, &seed);
            if (step % 8 == 0)
                check_accounts(&world);
        }
        for (uint32_t i = 0; i < LIVE; i++)
            if (world.grants[i])
                release_grant(&world, i);
        check_accounts(&world);
        for (uint32_t i = 0; i < world.places; i++)
            assert_int_equal(world.account[i], 0);
        facet_maps_destroy(world.maps);
        granted_in_all += world.granted;
        refused_in_all += world.refused;
        rounded_in_all += world.rounded;
    }
    /* Every kind of step happened. */
    assert_true(granted_in_all > STEPS / 8 && refused_in_all > STEPS / 20 && rounded_in_all > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_million_steps_keep_the_maps_consistent)};

    return cmocka_run_group_tests_name("placement/maps_properties", tests, NULL, NULL);
}
