/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about configurations, requests for several slots, handles, restoring, health, reserving, and copies. */
#include <string.h>

#include "node.h"

/* A node of two types: cuda with shares, two MIG profiles and a unified display; cpu. */
enum { SHARES_0, SHARES_1, MIG_0, MIG_1, MIG_LARGE, DISPLAY, CPU_0, CPU_1, PLACES };

static struct facet_maps *open_node(void)
{
    static const char *const exclusive[] = {"cuda.device:*-mig", "cuda.shares"};
    const struct facet_map_config maps[] = {
        {.name = "cuda", .kind = FACET_MAP_FRACTION, .quantum = 100000, .exclusive = exclusive, .exclusive_count = 2},
        {.name = "cpu", .kind = FACET_MAP_DISCRETE}};
    const struct facet_map_device devices[PLACES] = {
        {.id = "a0", .slot = "cuda.shares", .capacity = ONE},
        {.id = "a1", .slot = "cuda.shares", .capacity = ONE},
        {.id = "a2", .slot = "cuda.device:1g-mig", .type = FACET_SLOT_UNIQUE, .capacity = ONE},
        {.id = "a3", .slot = "cuda.device:1g-mig", .type = FACET_SLOT_UNIQUE, .capacity = ONE},
        {.id = "a4", .slot = "cuda.device:3g-mig", .type = FACET_SLOT_UNIQUE, .capacity = ONE},
        {.id = "a0", .slot = "cuda.display", .type = FACET_SLOT_UNIFIED, .capacity = ONE},
        {.map = 1, .id = "0", .slot = "cpu", .capacity = 4 * ONE},
        {.map = 1, .id = "1", .slot = "cpu", .capacity = 4 * ONE}};
    struct facet_maps *opened = NULL;

    assert_int_equal(facet_maps_create(&(struct facet_maps_config){.size = sizeof(struct facet_maps_config),
                                                                   .maps = maps,
                                                                   .map_count = 2,
                                                                   .devices = devices,
                                                                   .device_count = PLACES},
                                       &opened, NULL),
                     FACET_OK);
    return opened;
}

static void check_untouched(struct facet_maps *maps)
{
    uint32_t count = 7;

    for (uint32_t i = 0; i < PLACES; i++)
        assert_int_equal(granted(maps, i), 0);
    assert_int_equal(facet_maps_list(maps, NULL, 0, &count, NULL), FACET_OK);
    assert_int_equal(count, 0);
}

/* --- configurations --- */

static enum facet_status create_maps(const struct facet_map_config *maps, uint32_t map_count,
                                     const struct facet_map_device *devices, uint32_t device_count,
                                     const char *argument)
{
    struct facet_error error = {0};
    struct facet_maps *opened = NULL;
    enum facet_status status = facet_maps_create(&(struct facet_maps_config){.size = sizeof(struct facet_maps_config),
                                                                             .maps = maps,
                                                                             .map_count = map_count,
                                                                             .devices = devices,
                                                                             .device_count = device_count},
                                                 &opened, &error);

    assert_null(opened);
    assert_string_equal(error.argument, argument);
    return status;
}

static void test_wrong_configurations_are_refused(void **state)
{
    const struct facet_map_config good = {.name = "x"}, no_name = {0}, kind = {.name = "x", .kind = 2};
    const struct facet_map_config strategy = {.name = "x", .strategy = 2}, fraction = {.name = "x", .quantum = 500000};
    const struct facet_map_config negative = {.name = "x", .kind = FACET_MAP_FRACTION, .quantum = -1};
    const struct facet_map_config missing = {.name = "x", .exclusive_count = 1}, two[] = {good, good};
    const struct facet_map_device valid = {.id = "a", .slot = "x", .capacity = ONE};
    const struct facet_map_device no_id = {.slot = "x"}, no_slot = {.id = "a"},
                                  map = {.id = "a", .slot = "x", .map = 1};
    const struct facet_map_device type = {.id = "a", .slot = "x", .type = 4};
    const struct facet_map_device capacity = {.id = "a", .slot = "x", .capacity = -1};
    const struct facet_map_device twice[] = {valid, valid};
    const struct facet_map_device overflowing[] = {{.id = "a", .slot = "x", .capacity = INT64_MAX},
                                                   {.id = "b", .slot = "x", .capacity = 1}};
    const struct facet_map_device mixed[] = {valid, {.id = "b", .slot = "x", .type = FACET_SLOT_BYTES}};
    const struct facet_map_device across[] = {valid, {.id = "b", .slot = "x", .map = 1}};
    const struct facet_map_config pair[] = {good, {.name = "y"}};

    assert_int_equal(create_maps(NULL, 1, NULL, 0, "config"), FACET_INVALID_ARGUMENT);
    assert_int_equal(create_maps(&good, 0, NULL, 0, "map_count"), FACET_OUT_OF_RANGE);
    assert_int_equal(create_maps(&good, 1, &valid, FACET_PLACES_MOST + 1, "device_count"), FACET_OUT_OF_RANGE);
    assert_int_equal(create_maps(&no_name, 1, NULL, 0, "name"), FACET_INVALID_ARGUMENT);
    assert_int_equal(create_maps(two, 2, NULL, 0, "name"), FACET_ALREADY_EXISTS);
    assert_int_equal(create_maps(&kind, 1, NULL, 0, "kind"), FACET_INVALID_ARGUMENT);
    assert_int_equal(create_maps(&strategy, 1, NULL, 0, "strategy"), FACET_INVALID_ARGUMENT);
    assert_int_equal(create_maps(&fraction, 1, NULL, 0, "quantum"), FACET_OUT_OF_RANGE);
    assert_int_equal(create_maps(&negative, 1, NULL, 0, "quantum"), FACET_OUT_OF_RANGE);
    assert_int_equal(create_maps(&missing, 1, NULL, 0, "exclusive"), FACET_INVALID_ARGUMENT);
    assert_int_equal(create_maps(&good, 1, &no_id, 1, "id"), FACET_INVALID_ARGUMENT);
    assert_int_equal(create_maps(&good, 1, &no_slot, 1, "slot"), FACET_INVALID_ARGUMENT);
    assert_int_equal(create_maps(&good, 1, &map, 1, "map"), FACET_OUT_OF_RANGE);
    assert_int_equal(create_maps(&good, 1, &type, 1, "type"), FACET_INVALID_ARGUMENT);
    assert_int_equal(create_maps(&good, 1, &capacity, 1, "capacity"), FACET_OUT_OF_RANGE);
    assert_int_equal(create_maps(&good, 1, twice, 2, "id"), FACET_ALREADY_EXISTS);
    assert_int_equal(create_maps(&good, 1, overflowing, 2, "capacity"), FACET_OUT_OF_RANGE);
    assert_int_equal(create_maps(&good, 1, mixed, 2, "type"), FACET_INVALID_ARGUMENT);
    assert_int_equal(create_maps(pair, 2, across, 2, "map"), FACET_INVALID_ARGUMENT);
}

/* --- requests --- */

static void test_a_request_gets_all_of_its_slots_or_none(void **state)
{
    const struct facet_maps_item items[] = {{"cpu", 9 * ONE}, {"cuda.shares", 500000}};
    struct facet_maps_request request = request_of(items, 2);
    struct facet_maps_refusal refusal = {.size = sizeof refusal};
    struct facet_maps *maps = open_node();
    struct facet_error error = {0};
    uint64_t grant = 0;

    assert_int_equal(facet_maps_allocate(maps, &request, &grant, &refusal, &error), FACET_NO_SPACE);
    assert_true(grant == 0 && refusal.reason == FACET_REFUSED_SHORT && refusal.item == 0);
    assert_true(refusal.asked == 9 * ONE && refusal.could == 8 * ONE);
    assert_string_equal(error.message, "slot 'cpu': 9 asked for, 8 can be had on 2 places: 1 short");
    check_untouched(maps);
    request.items = (const struct facet_maps_item[]){{"cpu", 5 * ONE}, {"cuda.shares", 500000}};
    assert_int_equal(facet_maps_allocate(maps, &request, &grant, NULL, NULL), FACET_OK);
    assert_true(granted(maps, CPU_0) == 3 * ONE && granted(maps, CPU_1) == 2 * ONE);
    assert_int_equal(granted(maps, SHARES_1), 500000);
    facet_maps_destroy(maps);
}

static void expect_refused(struct facet_maps *maps, const struct facet_maps_item *items, uint32_t count,
                           enum facet_status status, uint32_t reason, const char *fragment)
{
    const struct facet_maps_request request = request_of(items, count);
    struct facet_maps_refusal refusal = {.size = sizeof refusal};
    struct facet_error error = {0};
    uint64_t grant = 9;

    assert_int_equal(facet_maps_allocate(maps, &request, &grant, &refusal, &error), status);
    assert_true(grant == 9 && refusal.reason == reason);
    assert_non_null(strstr(error.message, fragment));
    check_untouched(maps);
}

#define REFUSED(maps, status, reason, fragment, ...)                                                                   \
    expect_refused(maps, (const struct facet_maps_item[]){__VA_ARGS__},                                                \
                   (uint32_t)LENGTH(((const struct facet_maps_item[]){__VA_ARGS__})), status, reason, fragment)

static void test_refusals_name_their_reason(void **state)
{
    struct facet_maps *maps = open_node();

    REFUSED(maps, FACET_NOT_FOUND, FACET_REFUSED_SLOT, "no device of this node has it", {"cpu", ONE}, {"npu", ONE});
    REFUSED(maps, FACET_NOT_FOUND, FACET_REFUSED_SLOT, "unified", {"cuda.display", ONE});
    REFUSED(maps, FACET_NOT_FOUND, FACET_REFUSED_SLOT, "name", {NULL, ONE});
    REFUSED(maps, FACET_OUT_OF_RANGE, FACET_REFUSED_AMOUNT, "-1 asked for", {"cpu", -ONE});
    REFUSED(maps, FACET_OUT_OF_RANGE, FACET_REFUSED_AMOUNT, "unique", {"cuda.device:1g-mig", 2 * ONE});
    REFUSED(maps, FACET_OUT_OF_RANGE, FACET_REFUSED_AMOUNT, "unique", {"cuda.device:1g-mig", 300000});
    REFUSED(maps, FACET_OUT_OF_RANGE, FACET_REFUSED_QUANTUM, "a multiple of 0.1; 0.1 would be one",
            {"cuda.shares", 150000});
    REFUSED(maps, FACET_OUT_OF_RANGE, FACET_REFUSED_QUANTUM, "a multiple of 1", {"cpu", 1500000});
    REFUSED(maps, FACET_INVALID_ARGUMENT, FACET_REFUSED_EXCLUSIVE, "exclude each other", {"cuda.shares", ONE},
            {"cpu", ONE}, {"cuda.device:1g-mig", ONE});
    REFUSED(maps, FACET_INVALID_ARGUMENT, FACET_REFUSED_EXCLUSIVE, "exclude each other", {"cuda.device:3g-mig", ONE},
            {"cuda.device:1g-mig", ONE});
    REFUSED(maps, FACET_INVALID_ARGUMENT, FACET_REFUSED_EXCLUSIVE, "twice", {"cpu", ONE}, {"cpu", ONE});
    facet_maps_destroy(maps);
}

static void test_malformed_requests_are_refused(void **state)
{
    const struct facet_maps_item item = {"cpu", ONE};
    const struct facet_maps_request good = request_of(&item, 1);
    struct facet_maps_request bad[7];
    struct facet_maps *maps = open_node();
    uint64_t grant = 9;

    for (size_t i = 0; i < LENGTH(bad); i++)
        bad[i] = good;
    bad[0].size = 8;
    bad[1].items = NULL;
    bad[2].rules = 2;
    bad[3].affinity = 3;
    bad[4].least = -1;
    bad[5].near_count = 1;
    bad[6].near = &(const uint32_t){PLACES};
    bad[6].near_count = 1;
    for (size_t i = 0; i < LENGTH(bad); i++)
        assert_int_not_equal(facet_maps_allocate(maps, &bad[i], &grant, NULL, NULL), FACET_OK);
    assert_int_equal(facet_maps_allocate(maps, NULL, &grant, NULL, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_maps_allocate(NULL, &good, &grant, NULL, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_maps_allocate(maps, &good, NULL, NULL, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(grant, 9);
    check_untouched(maps);
    facet_maps_destroy(maps);
}

static void test_an_empty_request_is_granted(void **state)
{
    const struct facet_maps_item items[] = {{"cpu", 0}, {"nosuch", 0}};
    const struct facet_maps_request request = request_of(items, 2);
    struct facet_maps *maps = open_node();
    uint64_t grant = 0;

    assert_int_equal(facet_maps_allocate(maps, &request, &grant, NULL, NULL), FACET_OK);
    assert_int_not_equal(grant, 0);
    assert_int_equal(facet_maps_release(maps, grant, NULL), FACET_OK);
    assert_int_equal(facet_maps_release(maps, grant, NULL), FACET_BAD_STATE);
    facet_maps_destroy(maps);
}

/* --- handles --- */

static void test_a_grant_is_released_once(void **state)
{
    const struct facet_maps_item item = {"cpu", 3 * ONE};
    const struct facet_maps_request request = request_of(&item, 1);
    struct facet_maps *maps = open_node();
    struct facet_error error = {0};
    uint64_t first = 0, second = 0;

    assert_int_equal(facet_maps_allocate(maps, &request, &first, NULL, NULL), FACET_OK);
    assert_int_equal(facet_maps_release(maps, first, NULL), FACET_OK);
    assert_int_equal(facet_maps_allocate(maps, &request, &second, NULL, NULL), FACET_OK);
    assert_true(first != second);
    assert_int_equal(facet_maps_release(maps, first, &error), FACET_BAD_STATE);
    assert_non_null(strstr(error.message, "released already"));
    assert_int_equal(granted(maps, CPU_0) + granted(maps, CPU_1), 3 * ONE);
    for (uint64_t wrong = 0; wrong < 3; wrong++)
        assert_int_equal(facet_maps_release(maps, wrong, NULL), FACET_NOT_FOUND);
    assert_int_equal(facet_maps_release(maps, UINT64_MAX, NULL), FACET_NOT_FOUND);
    assert_int_equal(facet_maps_release(maps, second + (UINT64_C(1) << 32), NULL), FACET_NOT_FOUND);
    assert_int_equal(facet_maps_release(maps, second, NULL), FACET_OK);
    check_untouched(maps);
    facet_maps_destroy(maps);
}

static void test_a_plan_is_committed_as_planned(void **state)
{
    const struct facet_maps_item items[] = {{"cuda.shares", 1500000}, {"cpu", 3 * ONE}};
    const struct facet_maps_request request = request_of(items, 2);
    struct facet_maps *maps = open_node();
    struct facet_maps_part parts[4], again[4];
    uint32_t count = 0, least = 0;
    uint64_t grant = 0, second = 0;

    assert_int_equal(facet_maps_plan(maps, &request, parts, 3, &least, NULL, NULL), FACET_TOO_SMALL);
    assert_int_equal(facet_maps_plan(maps, &request, parts, 4, &count, NULL, NULL), FACET_OK);
    assert_true(least == 4 && count == 4);
    check_untouched(maps);
    assert_int_equal(facet_maps_commit(maps, parts, count, &grant, NULL), FACET_OK);
    assert_true(granted(maps, SHARES_0) == 800000 && granted(maps, SHARES_1) == 700000);
    assert_int_equal(facet_maps_get_grant(maps, grant, again, 4, &count, NULL), FACET_OK);
    assert_memory_equal(parts, again, sizeof parts);
    assert_int_equal(facet_maps_get_grant(maps, grant, again, 1, &count, NULL), FACET_TOO_SMALL);
    /* The plan is granted already, and is not granted a second time. */
    assert_int_equal(facet_maps_commit(maps, parts, 4, &second, NULL), FACET_NO_SPACE);
    assert_int_equal(second, 0);
    assert_int_equal(facet_maps_release(maps, grant, NULL), FACET_OK);
    assert_int_equal(facet_maps_get_grant(maps, grant, again, 4, &count, NULL), FACET_BAD_STATE);
    facet_maps_destroy(maps);
}

static void test_bad_parts_are_not_restored(void **state)
{
    static const struct {
        struct facet_maps_part parts[2];
        enum facet_status status;
    } cases[] = {
        {{{.place = CPU_0, .amount = ONE}, {.place = PLACES, .amount = ONE}}, FACET_OUT_OF_RANGE},
        {{{.place = CPU_0, .amount = ONE}, {.place = CPU_1, .amount = 5 * ONE}}, FACET_NO_SPACE},
        {{{.place = CPU_0, .amount = ONE}, {.place = CPU_0, .amount = ONE}}, FACET_ALREADY_EXISTS},
        {{{.place = CPU_0, .amount = ONE}, {.place = CPU_1, .amount = 0}}, FACET_OUT_OF_RANGE},
        {{{.place = CPU_0, .amount = ONE}, {.place = CPU_1, .amount = -ONE}}, FACET_OUT_OF_RANGE},
        {{{.place = CPU_0, .amount = ONE}, {.place = CPU_1, .amount = 1500000}}, FACET_OUT_OF_RANGE},
        {{{.place = CPU_0, .amount = ONE}, {.place = MIG_0, .amount = 500000}}, FACET_OUT_OF_RANGE},
        {{{.place = CPU_0, .amount = ONE}, {.place = DISPLAY, .amount = ONE}}, FACET_OUT_OF_RANGE},
    };
    struct facet_maps *maps = open_node();
    uint64_t grant = 9;

    for (size_t i = 0; i < LENGTH(cases); i++) {
        assert_int_equal(facet_maps_commit(maps, cases[i].parts, 2, &grant, NULL), cases[i].status);
        assert_int_equal(grant, 9);
        check_untouched(maps);
    }
    assert_int_equal(facet_maps_commit(maps, NULL, 1, &grant, NULL), FACET_INVALID_ARGUMENT);
    facet_maps_destroy(maps);
}

/* --- places --- */

static void test_unhealthy_devices_get_no_new_grants(void **state)
{
    const struct facet_maps_item item = {"cpu", 4 * ONE};
    const struct facet_maps_request request = request_of(&item, 1);
    const struct facet_maps_part saved = {.place = CPU_0, .amount = ONE};
    struct facet_maps *maps = open_node();
    uint64_t first = 0, second = 0, third = 0;

    assert_int_equal(facet_maps_allocate(maps, &request, &first, NULL, NULL), FACET_OK);
    assert_int_equal(facet_maps_set_health(maps, 1, "0", 1, NULL), FACET_OK);
    assert_int_equal(granted(maps, CPU_0), 2 * ONE); /* the grant stays */
    assert_int_equal(facet_maps_allocate(maps, &request, &second, NULL, NULL), FACET_NO_SPACE);
    assert_int_equal(facet_maps_release(maps, first, NULL), FACET_OK);
    assert_int_equal(facet_maps_allocate(maps, &request, &second, NULL, NULL), FACET_OK);
    assert_true(granted(maps, CPU_0) == 0 && granted(maps, CPU_1) == 4 * ONE);
    assert_int_equal(facet_maps_commit(maps, &saved, 1, &third, NULL), FACET_OK);
    assert_int_equal(facet_maps_set_health(maps, 1, "2", 1, NULL), FACET_NOT_FOUND);
    assert_int_equal(facet_maps_set_health(maps, 0, "0", 1, NULL), FACET_NOT_FOUND);
    assert_int_equal(facet_maps_set_health(maps, 1, "0", 0, NULL), FACET_OK);
    facet_maps_destroy(maps);
}

static void test_reserved_slots_are_granted_to_none(void **state)
{
    const struct facet_maps_item item = {"cpu", 6 * ONE};
    const struct facet_maps_request request = request_of(&item, 1);
    struct facet_maps *maps = open_node();
    struct facet_maps_place place = {.size = sizeof place};
    uint64_t grant = 0;

    assert_int_equal(facet_maps_reserve(maps, CPU_0, 3 * ONE, NULL), FACET_OK);
    assert_int_equal(facet_maps_allocate(maps, &request, &grant, NULL, NULL), FACET_NO_SPACE);
    assert_int_equal(facet_maps_reserve(maps, CPU_0, ONE, NULL), FACET_OK);
    assert_int_equal(facet_maps_allocate(maps, &request, &grant, NULL, NULL), FACET_OK);
    assert_int_equal(facet_maps_reserve(maps, CPU_1, 2 * ONE, NULL), FACET_NO_SPACE);
    assert_int_equal(facet_maps_reserve(maps, CPU_1, -1, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_maps_reserve(maps, PLACES, 0, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_maps_get_place(maps, CPU_0, &place, NULL), FACET_OK);
    assert_true(place.reserved == ONE && place.granted == 3 * ONE && place.capacity == 4 * ONE && place.map == 1);
    assert_string_equal(place.slot, "cpu");
    assert_string_equal(place.id, "0");
    facet_maps_destroy(maps);
}

static void test_places_are_found(void **state)
{
    struct facet_maps *maps = open_node();
    struct facet_maps_place place = {.size = 4};
    uint32_t found = 99;

    assert_int_equal(facet_maps_place_count(maps), PLACES);
    assert_int_equal(facet_maps_find_place(maps, "cuda.device:1g-mig", "a3", &found, NULL), FACET_OK);
    assert_int_equal(found, MIG_1);
    assert_int_equal(facet_maps_find_place(maps, "cuda.display", "a0", &found, NULL), FACET_OK);
    assert_int_equal(found, DISPLAY);
    assert_int_equal(facet_maps_find_place(maps, "cuda.device:1g-mig", "a0", &found, NULL), FACET_NOT_FOUND);
    assert_int_equal(facet_maps_find_place(maps, "nosuch", "a0", &found, NULL), FACET_NOT_FOUND);
    assert_int_equal(found, DISPLAY);
    assert_int_equal(facet_maps_get_place(maps, 0, &place, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_maps_set_strategy(maps, 2, 0, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_maps_set_strategy(maps, 1, 2, NULL), FACET_INVALID_ARGUMENT);
    facet_maps_destroy(maps);
}

/* --- copies --- */

static void test_a_copy_changes_alone_and_can_be_copied_back(void **state)
{
    const struct facet_maps_item item = {"cpu", 3 * ONE};
    const struct facet_maps_request request = request_of(&item, 1);
    struct facet_maps *maps = open_node(), *saved = NULL, *other = OPEN(FACET_MAP_DISCRETE, 0, 0, ONE);
    uint64_t first = 0, second = 0;

    assert_int_equal(facet_maps_allocate(maps, &request, &first, NULL, NULL), FACET_OK);
    assert_int_equal(facet_maps_set_health(maps, 0, "a1", 1, NULL), FACET_OK);
    assert_int_equal(facet_maps_copy(maps, &saved, NULL), FACET_OK);
    assert_int_equal(facet_maps_allocate(maps, &request, &second, NULL, NULL), FACET_OK);
    assert_int_equal(facet_maps_release(maps, first, NULL), FACET_OK);
    assert_int_equal(granted(saved, CPU_0) + granted(saved, CPU_1), 3 * ONE);
    assert_int_equal(facet_maps_reset(maps, saved, NULL), FACET_OK);
    assert_int_equal(facet_maps_release(maps, second, NULL), FACET_NOT_FOUND);
    assert_int_equal(facet_maps_release(maps, first, NULL), FACET_OK);
    assert_int_equal(facet_maps_release(saved, first, NULL), FACET_OK);
    check_untouched(maps);
    assert_int_equal(facet_maps_reset(maps, other, NULL), FACET_BAD_STATE);
    facet_maps_destroy(maps);
    facet_maps_destroy(saved);
    facet_maps_destroy(other);
    facet_maps_destroy(NULL);
}

static void test_handles_are_listed(void **state)
{
    const struct facet_maps_item item = {"cpu", ONE};
    const struct facet_maps_request request = request_of(&item, 1);
    struct facet_maps *maps = open_node();
    uint64_t grants[3], listed[3];
    uint32_t count = 0;

    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(facet_maps_allocate(maps, &request, &grants[i], NULL, NULL), FACET_OK);
    assert_int_equal(facet_maps_release(maps, grants[1], NULL), FACET_OK);
    assert_int_equal(facet_maps_list(maps, listed, 1, &count, NULL), FACET_TOO_SMALL);
    assert_int_equal(facet_maps_list(maps, listed, 3, &count, NULL), FACET_OK);
    assert_true(count == 2 && listed[0] == grants[0] && listed[1] == grants[2]);
    facet_maps_destroy(maps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_configurations_are_refused),
        cmocka_unit_test(test_a_request_gets_all_of_its_slots_or_none),
        cmocka_unit_test(test_refusals_name_their_reason),
        cmocka_unit_test(test_malformed_requests_are_refused),
        cmocka_unit_test(test_an_empty_request_is_granted),
        cmocka_unit_test(test_a_grant_is_released_once),
        cmocka_unit_test(test_a_plan_is_committed_as_planned),
        cmocka_unit_test(test_bad_parts_are_not_restored),
        cmocka_unit_test(test_unhealthy_devices_get_no_new_grants),
        cmocka_unit_test(test_reserved_slots_are_granted_to_none),
        cmocka_unit_test(test_places_are_found),
        cmocka_unit_test(test_a_copy_changes_alone_and_can_be_copied_back),
        cmocka_unit_test(test_handles_are_listed),
    };

    return cmocka_run_group_tests_name("placement/maps", tests, NULL, NULL);
}
