/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of grants by strategies, quantum, least memory, guard and affinity, in small cases computed by hand. */
#include "node.h"

#define LARGE 4000u /* places of a large slot */

/* Allocates the request, checks the amount that each place grants, and releases the grant. */
static void check_grant(struct facet_maps *maps, struct facet_maps_request request, const int64_t *expected,
                        uint32_t count)
{
    uint64_t grant = 0;
    struct facet_error error = {0};

    assert_int_equal(facet_maps_allocate(maps, &request, &grant, NULL, &error), FACET_OK);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(granted(maps, i), expected[i]);
    assert_int_equal(facet_maps_release(maps, grant, NULL), FACET_OK);
}

/* Opens a map, asks for an amount with these members, checks, closes. */
#define GIVES(maps_, amount, members, ...)                                                                             \
    do {                                                                                                               \
        struct facet_maps *opened = (maps_);                                                                           \
        const struct facet_maps_item item = {"x", (amount)};                                                           \
        struct facet_maps_request request = request_of(&item, 1);                                                      \
        const int64_t expected[] = {__VA_ARGS__};                                                                      \
        members;                                                                                                       \
        check_grant(opened, request, expected, (uint32_t)LENGTH(expected));                                            \
        facet_maps_destroy(opened);                                                                                    \
    } while (0)

#define REFUSES(maps_, amount, members, why, most)                                                                     \
    do {                                                                                                               \
        struct facet_maps *opened = (maps_);                                                                           \
        const struct facet_maps_item item = {"x", (amount)};                                                           \
        struct facet_maps_request request = request_of(&item, 1);                                                      \
        struct facet_maps_refusal refusal = {.size = sizeof refusal};                                                  \
        uint64_t grant = 5;                                                                                            \
        members;                                                                                                       \
        assert_int_not_equal(facet_maps_allocate(opened, &request, &grant, &refusal, NULL), FACET_OK);                 \
        assert_int_equal(grant, 5);                                                                                    \
        assert_int_equal(refusal.reason, (why));                                                                       \
        assert_int_equal(refusal.asked, (amount));                                                                     \
        assert_int_equal(refusal.could, (most));                                                                       \
        facet_maps_destroy(opened);                                                                                    \
    } while (0)

#define DISCRETE(strategy, ...) OPEN(FACET_MAP_DISCRETE, FACET_MAP_##strategy, 0, __VA_ARGS__)
#define FRACTION(strategy, quantum, ...)                                                                               \
    OPEN(FACET_MAP_FRACTION, FACET_MAP_##strategy, (int64_t)((quantum)*1000000 + 0.5), __VA_ARGS__)
#define UNITS(amount) ((int64_t)((amount)*1000000 + 0.5))
#define NO_CHANGE     (void)request

static void test_discrete_amounts_are_split(void **state)
{
    GIVES(DISCRETE(FILL, 100 * ONE, 100 * ONE), 130 * ONE, NO_CHANGE, 100 * ONE, 30 * ONE);
    GIVES(DISCRETE(EVENLY, 100 * ONE, 100 * ONE), 131 * ONE, NO_CHANGE, 66 * ONE, 65 * ONE);
    GIVES(DISCRETE(EVENLY, 10 * ONE, 10 * ONE, 10 * ONE), 7 * ONE, NO_CHANGE, 3 * ONE, 2 * ONE, 2 * ONE);
    GIVES(DISCRETE(EVENLY, ONE, 9 * ONE, 2 * ONE), 10 * ONE, NO_CHANGE, ONE, 7 * ONE, 2 * ONE);
    GIVES(DISCRETE(EVENLY, UNITS(1.5), UNITS(1.5)), 2 * ONE, NO_CHANGE, ONE, ONE);
    REFUSES(DISCRETE(EVENLY, ONE, ONE), 3 * ONE, NO_CHANGE, FACET_REFUSED_SHORT, 2 * ONE);
    REFUSES(DISCRETE(FILL, UNITS(1.5), UNITS(1.5)), 3 * ONE, NO_CHANGE, FACET_REFUSED_SHORT, 2 * ONE);
    REFUSES(DISCRETE(FILL, ONE, ONE), UNITS(1.5), NO_CHANGE, FACET_REFUSED_QUANTUM, ONE);
    REFUSES(DISCRETE(EVENLY, ONE, ONE), UNITS(1.5), request.rules = FACET_MAPS_ROUND_DOWN, FACET_REFUSED_QUANTUM, ONE);
    REFUSES(DISCRETE(EVENLY, ONE, ONE), -ONE, NO_CHANGE, FACET_REFUSED_AMOUNT, 0);
}

static void test_a_fraction_comes_from_the_place_that_fits_best(void **state)
{
    GIVES(FRACTION(EVENLY, .01, UNITS(.05), UNITS(.1), UNITS(.2), UNITS(.3), 0), UNITS(.2), NO_CHANGE, 0, 0, UNITS(.2),
          0, 0);
    GIVES(FRACTION(EVENLY, .01, UNITS(.05), UNITS(.1), UNITS(.2), UNITS(.3), 0), UNITS(.2), request.least = UNITS(.25),
          0, 0, 0, UNITS(.2), 0);
    GIVES(FRACTION(EVENLY, .01, ONE, ONE, ONE), ONE, NO_CHANGE, 0, 0, ONE);
    REFUSES(FRACTION(EVENLY, .01, UNITS(.05), UNITS(.3)), UNITS(.06), request.least = UNITS(.6), FACET_REFUSED_SHORT,
            0);
}

/* Checks a refusal, which names the amount that is free and the reason. */
static void check_refusal(struct facet_maps *maps, int64_t amount, int64_t least, const char *says)
{
    const struct facet_maps_item item = {"x", amount};
    struct facet_maps_request request = request_of(&item, 1);
    struct facet_error error = {0};
    uint64_t grant = 0;

    request.least = least;
    assert_int_equal(facet_maps_allocate(maps, &request, &grant, NULL, &error), FACET_NO_SPACE);
    assert_string_equal(error.message, says);
    facet_maps_destroy(maps);
}

static void test_places_passed_over_are_named(void **state)
{
    struct facet_maps *maps = DISCRETE(EVENLY, 2 * ONE, 2 * ONE, 0);

    check_refusal(FRACTION(EVENLY, .001, UNITS(.005)), UNITS(.005), 0,
                  "slot 'x': 0.005 asked for, 0 can be had on 0 places: 0.005 short; 1 with less than 0.01 free, the "
                  "minimum, is passed over");
    check_refusal(FRACTION(EVENLY, .01, UNITS(.2), UNITS(.3), ONE, 0), UNITS(1.25), UNITS(.5),
                  "slot 'x': 1.25 asked for, 1 can be had on 1 places: 0.25 short; 2 with less than 0.5 free, the "
                  "minimum, are passed over");
    assert_int_equal(facet_maps_set_health(maps, 0, "d1", 1, NULL), FACET_OK);
    assert_int_equal(facet_maps_set_health(maps, 0, "d2", 1, NULL), FACET_OK); /* d2 has nothing free */
    check_refusal(maps, 3 * ONE, 0, "slot 'x': 3 asked for, 2 can be had on 1 places: 1 short; 1 is not healthy");
}

static void test_fractions_are_split_evenly(void **state)
{
    GIVES(FRACTION(EVENLY, .01, UNITS(.3), UNITS(.3), UNITS(.9)), ONE, NO_CHANGE, UNITS(.3), UNITS(.3), UNITS(.4));
    GIVES(FRACTION(EVENLY, .01, UNITS(.8), UNITS(.75), UNITS(.7), UNITS(.3), 0), UNITS(2.31), NO_CHANGE, UNITS(.67),
          UNITS(.67), UNITS(.67), UNITS(.3), 0);
    GIVES(FRACTION(EVENLY, .01, UNITS(.8), UNITS(.75), UNITS(.7), UNITS(.3), 0), 2 * ONE, NO_CHANGE, UNITS(.67),
          UNITS(.67), UNITS(.66), 0, 0);
    GIVES(FRACTION(EVENLY, .01, 2 * ONE, 3 * ONE, 3 * ONE, 5 * ONE), 6 * ONE, NO_CHANGE, 0, 3 * ONE, 3 * ONE, 0);
    GIVES(FRACTION(EVENLY, .01, ONE, UNITS(1.5), 2 * ONE, 3 * ONE, 3 * ONE, 4 * ONE, UNITS(4.5), 5 * ONE, 5 * ONE),
          11 * ONE, request.least = UNITS(.84), 0, 0, 0, UNITS(2.75), UNITS(2.75), UNITS(2.75), UNITS(2.75), 0, 0);
    GIVES(FRACTION(FILL, .01, ONE, ONE), UNITS(1.5), NO_CHANGE, ONE, UNITS(.5));
}

static void test_amounts_are_whole_quanta(void **state)
{
    /* An exact request is divided in quanta, or refused. */
    GIVES(FRACTION(EVENLY, .1, ONE, ONE), UNITS(1.5), NO_CHANGE, UNITS(.8), UNITS(.7));
    GIVES(FRACTION(EVENLY, .25, ONE, ONE), UNITS(1.75), NO_CHANGE, ONE, UNITS(.75));
    GIVES(FRACTION(EVENLY, .00001, ONE), UNITS(.01234), NO_CHANGE, UNITS(.01234));
    REFUSES(FRACTION(EVENLY, .01, ONE), 15000, NO_CHANGE, FACET_REFUSED_QUANTUM, 10000);
    REFUSES(FRACTION(EVENLY, .01, ONE), 996000, NO_CHANGE, FACET_REFUSED_QUANTUM, 990000);
    REFUSES(FRACTION(EVENLY, .01, 0), 4000, NO_CHANGE, FACET_REFUSED_QUANTUM, 0);
    REFUSES(FRACTION(FILL, .3, ONE, ONE), UNITS(.5), NO_CHANGE, FACET_REFUSED_QUANTUM, UNITS(.3));
    REFUSES(FRACTION(FILL, .3, ONE, ONE), UNITS(2.1), NO_CHANGE, FACET_REFUSED_SHORT, UNITS(1.8));
    /* With the rule to round down, a request gets fewer whole quanta. */
    GIVES(FRACTION(FILL, .3, ONE, ONE), UNITS(.5), request.rules = FACET_MAPS_ROUND_DOWN, UNITS(.3), 0);
    GIVES(FRACTION(EVENLY, .1, ONE, ONE), UNITS(1.5), request.rules = FACET_MAPS_ROUND_DOWN, UNITS(.7), UNITS(.7));
    GIVES(FRACTION(EVENLY, .01, ONE), 15000, request.rules = FACET_MAPS_ROUND_DOWN, 10000);
    REFUSES(FRACTION(EVENLY, .25, ONE), UNITS(.24), request.rules = FACET_MAPS_ROUND_DOWN, FACET_REFUSED_QUANTUM, 0);
    REFUSES(FRACTION(EVENLY, .01, 0), 4000, request.rules = FACET_MAPS_ROUND_DOWN, FACET_REFUSED_QUANTUM, 0);
}

static void test_guard_refuses_fragments(void **state)
{
    GIVES(FRACTION(EVENLY, .1, UNITS(.9), ONE), UNITS(1.4), request.guard = 1, UNITS(.7), UNITS(.7));
    GIVES(FRACTION(FILL, .1, ONE, ONE, ONE), UNITS(2.5), request.guard = 1, ONE, ONE, UNITS(.5));
    REFUSES(FRACTION(FILL, .1, ONE), UNITS(1.1), request.guard = 1, FACET_REFUSED_FRAGMENTED, 0);
    REFUSES(FRACTION(EVENLY, .1, ONE, ONE), 3 * ONE, request.guard = 1, FACET_REFUSED_FRAGMENTED, 0);
    /* Devices that could never share the amount evenly do not count as fragmented. With the rule to round down they do.
     */
    GIVES(FRACTION(EVENLY, .1, UNITS(.5), ONE), UNITS(1.2), request.guard = 1, UNITS(.5), UNITS(.7));
    REFUSES(FRACTION(EVENLY, .1, UNITS(.5), ONE), UNITS(1.2), request.guard = 1;
            request.rules = FACET_MAPS_ROUND_DOWN, FACET_REFUSED_FRAGMENTED, 0);
}

static void test_guard_compares_with_the_free_amounts(void **state)
{
    struct facet_maps *maps = FRACTION(EVENLY, .1, ONE, ONE, ONE, ONE);
    const struct facet_maps_item item = {"x", UNITS(2.8)};
    struct facet_maps_request request = request_of(&item, 1);
    struct facet_maps_refusal refusal = {.size = sizeof refusal};
    uint64_t grant;

    assert_int_equal(facet_maps_reserve(maps, 0, UNITS(.5), NULL), FACET_OK);
    assert_int_equal(facet_maps_reserve(maps, 1, UNITS(.5), NULL), FACET_OK);
    request.guard = 1;
    assert_int_equal(facet_maps_allocate(maps, &request, &grant, &refusal, NULL), FACET_NO_SPACE);
    assert_int_equal(refusal.reason, FACET_REFUSED_FRAGMENTED);
    request.guard = 0;
    assert_int_equal(facet_maps_allocate(maps, &request, &grant, NULL, NULL), FACET_OK);
    facet_maps_destroy(maps);
}

/* --- NUMA --- */

/* Two types on two nodes: gpus 0 and 1 on node 0, 2 and 3 on node 1; then cpus 4 to 7 likewise. */
static struct facet_maps *open_sockets(uint32_t cpu_kind, uint32_t strategy)
{
    const struct facet_map_config maps[] = {{.name = "gpu", .strategy = FACET_MAP_FILL},
                                            {.name = "cpu", .kind = cpu_kind, .strategy = strategy}};
    static const char *const ids[] = {"0", "1", "2", "3"};
    struct facet_map_device devices[8];
    struct facet_maps *opened = NULL;

    for (uint32_t i = 0; i < 8; i++)
        devices[i] = (struct facet_map_device){.map = i / 4,
                                               .id = ids[i % 4],
                                               .slot = i < 4 ? "gpu" : "cpu",
                                               .numa_node = (int32_t)(i % 4 / 2),
                                               .capacity = i < 4 ? ONE : 2 * ONE};
    assert_int_equal(facet_maps_create(&(struct facet_maps_config){.size = sizeof(struct facet_maps_config),
                                                                   .maps = maps,
                                                                   .map_count = 2,
                                                                   .devices = devices,
                                                                   .device_count = 8},
                                       &opened, NULL),
                     FACET_OK);
    return opened;
}

/* Bit i of `taken`: one unit of place i is reserved. `expected`: the amount that each place grants. */
static void check_sockets(uint32_t strategy, uint32_t affinity, int64_t gpus, int64_t cpus, uint32_t taken,
                          const int64_t *expected)
{
    const struct facet_maps_item items[] = {{"cpu", cpus * ONE}, {"gpu", gpus * ONE}};
    struct facet_maps *maps = open_sockets(FACET_MAP_DISCRETE, strategy);
    struct facet_maps_request request = request_of(items, 2);
    int64_t amounts[8];

    for (uint32_t i = 0; i < 8; i++) {
        if (taken >> i & 1)
            assert_int_equal(facet_maps_reserve(maps, i, ONE, NULL), FACET_OK);
        amounts[i] = expected[i] * ONE;
    }
    request.affinity = affinity;
    check_grant(maps, request, amounts, 8);
    facet_maps_destroy(maps);
}

static void test_affinity_chooses_the_socket(void **state)
{
    /* The first slot takes one node, or one device of each. Later slots follow it, whatever their order. */
    check_sockets(FACET_MAP_FILL, FACET_AFFINITY_PREFER_SINGLE_NODE, 2, 3, 0, (int64_t[]){1, 1, 0, 0, 2, 1, 0, 0});
    check_sockets(FACET_MAP_FILL, FACET_AFFINITY_INTERLEAVED, 2, 4, 0, (int64_t[]){1, 0, 1, 0, 2, 0, 2, 0});
    /* The node where less is taken is chosen. */
    check_sockets(FACET_MAP_FILL, FACET_AFFINITY_PREFER_SINGLE_NODE, 2, 3, 1, (int64_t[]){0, 0, 1, 1, 0, 0, 2, 1});
    /* The part that does not fit on the node goes to the other node. */
    check_sockets(FACET_MAP_FILL, FACET_AFFINITY_PREFER_SINGLE_NODE, 1, 6, 0, (int64_t[]){1, 0, 0, 0, 2, 2, 2, 0});
    check_sockets(FACET_MAP_FILL, FACET_AFFINITY_NONE, 1, 2, 1, (int64_t[]){0, 1, 0, 0, 2, 0, 0, 0});
    /* The strategy "evenly" spreads over all places with a free amount, near ones first. */
    check_sockets(FACET_MAP_EVENLY, FACET_AFFINITY_PREFER_SINGLE_NODE, 2, 2, 1, (int64_t[]){0, 0, 1, 1, 0, 0, 1, 1});
}

static void test_affinity_of_the_caller_is_followed(void **state)
{
    const struct facet_maps_item item = {"cpu", ONE};
    struct facet_maps *maps = open_sockets(FACET_MAP_FRACTION, FACET_MAP_EVENLY);
    struct facet_maps_request request = request_of(&item, 1);
    uint32_t near = 1, beyond = 8;
    uint64_t grant;

    request.affinity = FACET_AFFINITY_PREFER_SINGLE_NODE;
    request.near = &near;
    request.near_count = 1;
    check_grant(maps, request, (int64_t[]){0, 0, 0, 0, 0, ONE, 0, 0}, 8);
    near = 3;
    check_grant(maps, request, (int64_t[]){0, 0, 0, 0, 0, 0, 0, ONE}, 8);
    request.near = &beyond;
    assert_int_equal(facet_maps_allocate(maps, &request, &grant, NULL, NULL), FACET_OUT_OF_RANGE);
    facet_maps_destroy(maps);
}

/* --- many places --- */

static void test_many_devices_are_filled(void **state)
{
    static struct facet_map_device devices[LARGE];
    static char ids[LARGE][12];
    const struct facet_map_config map = {.name = "x", .strategy = FACET_MAP_FILL};
    const struct facet_maps_item item = {"x", (LARGE / 2) * ONE};
    struct facet_maps_request request = request_of(&item, 1);
    struct facet_maps *maps = NULL;
    uint64_t grant;

    /* Capacities grow from 1 to 4 with each thousand places, so that the last thousand are taken first. */
    for (uint32_t i = 0; i < LARGE; i++) {
        snprintf(ids[i], sizeof ids[i], "%u", i);
        devices[i] = (struct facet_map_device){.id = ids[i], .slot = "x", .capacity = (1 + i / 1000) * ONE};
    }
    assert_int_equal(facet_maps_create(&(struct facet_maps_config){.size = sizeof(struct facet_maps_config),
                                                                   .maps = &map,
                                                                   .map_count = 1,
                                                                   .devices = devices,
                                                                   .device_count = LARGE},
                                       &maps, NULL),
                     FACET_OK);
    for (uint32_t round = 0; round < 3; round++) {
        assert_int_equal(facet_maps_allocate(maps, &request, &grant, NULL, NULL), FACET_OK);
        /* 2000 units are taken from 500 of the places with 4, in the order of their configuration. */
        for (uint32_t i = 0; i < LARGE; i++)
            assert_int_equal(granted(maps, i), i >= 3000 && i < 3500 ? 4 * ONE : 0);
        assert_int_equal(facet_maps_release(maps, grant, NULL), FACET_OK);
    }
    facet_maps_destroy(maps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_discrete_amounts_are_split),
        cmocka_unit_test(test_a_fraction_comes_from_the_place_that_fits_best),
        cmocka_unit_test(test_fractions_are_split_evenly),
        cmocka_unit_test(test_amounts_are_whole_quanta),
        cmocka_unit_test(test_places_passed_over_are_named),
        cmocka_unit_test(test_guard_refuses_fragments),
        cmocka_unit_test(test_guard_compares_with_the_free_amounts),
        cmocka_unit_test(test_affinity_chooses_the_socket),
        cmocka_unit_test(test_affinity_of_the_caller_is_followed),
        cmocka_unit_test(test_many_devices_are_filled),
    };

    return cmocka_run_group_tests_name("placement/maps_strategies", tests, NULL, NULL);
}
