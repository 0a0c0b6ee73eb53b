/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the requests that a fleet takes, gives back and refuses. Never: judges which policy is better. */
#include "fixtures.h"

static void test_requests_are_taken_and_released(void **state)
{
    struct facet_fleet_node nodes[] = {node_of(8, 2, "T4"), node_of(8, 2, "P100")};
    struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_FIRST_FIT, nodes, 2, NULL, 0);
    struct facet_fleet_free before, now;
    struct facet_fleet_placement at;
    uint64_t allocation;

    (void)state;
    facet_fleet_node_free(fleet, 0, &before, NULL);
    at = place_request(fleet, request_of(2, 1, 400, NULL), &allocation);
    assert_int_equal(at.node, 0);
    assert_int_equal(at.gpus, 1);
    facet_fleet_node_free(fleet, 0, &now, NULL);
    assert_int_equal(now.gpu_milli[0], 600);
    assert_int_equal(now.cpu_milli, 6000);
    assert_int_equal(now.memory_bytes, 255 * GIB);
    assert_int_equal(facet_fleet_find(fleet, allocation, &at, NULL), FACET_OK);
    assert_int_equal(at.node, 0);
    assert_int_equal(facet_fleet_release(fleet, allocation, NULL), FACET_OK);
    facet_fleet_node_free(fleet, 0, &now, NULL);
    assert_memory_equal(&before, &now, sizeof now);
    assert_int_equal(facet_fleet_release(fleet, allocation, NULL), FACET_NOT_FOUND);
    assert_int_equal(facet_fleet_find(fleet, allocation, &at, NULL), FACET_NOT_FOUND);
    facet_fleet_destroy(fleet);
}

static void test_models_are_alternatives(void **state)
{
    struct facet_fleet_node nodes[] = {node_of(64, 8, "T4"), node_of(64, 8, "P100"), node_of(64, 8, "A10")};
    struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_FIRST_FIT, nodes, 3, NULL, 0);
    struct facet_fleet_placement at;

    (void)state;
    assert_int_equal(place_request(fleet, request_of(1, 1, 1000, "A10"), NULL).node, 2);
    assert_int_equal(place_request(fleet, request_of(1, 1, 1000, "P100|A10"), NULL).node, 1);
    assert_int_equal(place_request(fleet, request_of(1, 1, 1000, "|"), NULL).node, 0);
    assert_int_equal(place_request(fleet, request_of(1, 0, 0, "A10"), NULL).node, 0); /* no GPU: any model fits */
    assert_int_equal(facet_fleet_decide(fleet, shape_of(fleet, request_of(1, 1, 1000, "H100")), &at, NULL),
                     FACET_QUOTA);
    assert_int_equal(shape_of(fleet, request_of(1, 1, 1000, "A10")), 0);
    assert_int_equal(shape_of(fleet, request_of(1, 1, 1000, "A10|P100")), 1); /* in either order */
    facet_fleet_destroy(fleet);
}

static void test_each_resource_can_be_short(void **state)
{
    struct facet_fleet_node nodes[] = {node_of(8, 2, "T4")};
    struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_BEST_FIT, nodes, 1, NULL, 0);
    struct facet_fleet_request large = request_of(1, 1, 100, NULL);
    struct facet_fleet_placement at = {.node = 77};

    (void)state;
    large.memory_bytes = 257 * GIB;
    assert_int_equal(facet_fleet_decide(fleet, shape_of(fleet, large), &at, NULL), FACET_QUOTA);
    assert_int_equal(facet_fleet_decide(fleet, shape_of(fleet, request_of(9, 0, 0, NULL)), &at, NULL), FACET_QUOTA);
    assert_int_equal(facet_fleet_decide(fleet, shape_of(fleet, request_of(1, 3, 1000, NULL)), &at, NULL), FACET_QUOTA);
    place_request(fleet, request_of(1, 1, 600, NULL), NULL);
    place_request(fleet, request_of(1, 1, 600, NULL), NULL);
    /* 800 milli are free, on two GPUs. */
    assert_int_equal(facet_fleet_decide(fleet, shape_of(fleet, request_of(1, 1, 500, NULL)), &at, NULL), FACET_QUOTA);
    assert_int_equal(place_request(fleet, request_of(1, 2, 400, NULL), NULL).gpus, 3);
    assert_int_equal(at.node, 77);
    facet_fleet_destroy(fleet);
}

static void test_commit_checks_the_decision(void **state)
{
    struct facet_fleet_node nodes[] = {node_of(8, 2, "T4")};
    struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_FGD, nodes, 1, NULL, 0);
    uint32_t shape = shape_of(fleet, request_of(1, 1, 600, NULL));
    struct facet_fleet_placement at;
    uint64_t allocation = 5;

    (void)state;
    assert_int_equal(facet_fleet_decide(fleet, shape, &at, NULL), FACET_OK);
    assert_int_equal(facet_fleet_commit(fleet, shape, &at, &allocation, NULL), FACET_OK);
    allocation = 5;
    assert_int_equal(facet_fleet_commit(fleet, shape, &at, &allocation, NULL), FACET_QUOTA);
    at.gpus = 4;
    assert_int_equal(facet_fleet_commit(fleet, shape, &at, &allocation, NULL), FACET_OUT_OF_RANGE);
    at.gpus = 3;
    assert_int_equal(facet_fleet_commit(fleet, shape, &at, &allocation, NULL), FACET_OUT_OF_RANGE);
    at.node = 1;
    assert_int_equal(facet_fleet_commit(fleet, shape, &at, &allocation, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_fleet_commit(fleet, 9, &at, &allocation, NULL), FACET_NOT_FOUND);
    assert_int_equal(facet_fleet_decide(fleet, 9, &at, NULL), FACET_NOT_FOUND);
    assert_int_equal(allocation, 5);
    assert_int_equal(used_of(fleet), 600);
    facet_fleet_destroy(fleet);
}

static void test_migration_makes_room_or_moves_nothing(void **state)
{
    struct facet_fleet_node nodes[] = {node_of(32, 2, "T4"), node_of(32, 1, "T4")};
    struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_FIRST_FIT, nodes, 2, NULL, 0);
    uint32_t pair = shape_of(fleet, request_of(1, 2, 1000, NULL)), count = 9;
    struct facet_fleet_move moves[4];
    struct facet_fleet_placement at;
    uint64_t small, third, allocation = 0;

    (void)state;
    place_request(fleet, request_of(1, 1, 700, NULL), &small);
    assert_int_equal(facet_fleet_decide(fleet, pair, &at, NULL), FACET_QUOTA);
    assert_int_equal(facet_fleet_migrate(fleet, pair, 1, moves, &count, &at, &allocation, NULL), FACET_OK);
    assert_int_equal(count, 1);
    assert_true(moves[0].allocation == small);
    assert_int_equal(moves[0].from.node, 0);
    assert_int_equal(moves[0].to.node, 1);
    assert_int_equal(at.node, 0);
    assert_int_equal(at.gpus, 3);
    assert_int_equal(facet_fleet_find(fleet, small, &at, NULL), FACET_OK);
    assert_int_equal(at.node, 1);
    /* No move can make room for a second pair, so nothing has moved. */
    place_request(fleet, request_of(1, 1, 300, NULL), &third);
    count = 9;
    assert_int_equal(facet_fleet_migrate(fleet, pair, 4, moves, &count, &at, &allocation, NULL), FACET_QUOTA);
    assert_int_equal(count, 9);
    assert_int_equal(used_of(fleet), 3000);
    assert_int_equal(facet_fleet_find(fleet, third, &at, NULL), FACET_OK);
    assert_int_equal(at.node, 1);
    facet_fleet_destroy(fleet);
}

static void commit_at(struct facet_fleet *fleet, uint32_t shape, uint32_t node, uint32_t gpus)
{
    struct facet_fleet_placement at = {.node = node, .gpus = gpus};
    uint64_t allocation = 0;

    assert_int_equal(facet_fleet_commit(fleet, shape, &at, &allocation, NULL), FACET_OK);
}

/* The first node would need two moves, and the second node one. Jobs of the first node keep their order. */
static void test_migration_moves_as_few_as_it_can(void **state)
{
    struct facet_fleet_node nodes[] = {node_of(32, 2, "T4"), node_of(32, 2, "T4"), node_of(32, 4, "T4")};
    struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_FIRST_FIT, nodes, 3, NULL, 0);
    uint32_t pair = shape_of(fleet, request_of(1, 2, 1000, NULL)), part = shape_of(fleet, request_of(1, 1, 600, NULL));
    uint32_t rest = shape_of(fleet, request_of(1, 1, 400, NULL)), count = 9;
    struct facet_fleet_move moves[4];
    struct facet_fleet_placement at;
    uint64_t allocation = 0;

    (void)state;
    commit_at(fleet, part, 0, 1);
    commit_at(fleet, part, 0, 2);
    commit_at(fleet, part, 1, 1);
    for (uint32_t gpu = 0; gpu < 4; gpu++)
        commit_at(fleet, rest, 2, UINT32_C(1) << gpu);
    assert_int_equal(facet_fleet_migrate(fleet, pair, 4, moves, &count, &at, &allocation, NULL), FACET_OK);
    assert_int_equal(count, 1);
    assert_int_equal(at.node, 1);
    assert_int_equal(moves[0].from.node, 1);
    assert_int_equal(fleet->details[0].first_alloc, 1);
    assert_int_equal(fleet->allocs[1].next, 0);
    assert_int_equal(fleet->allocs[0].previous, 1);
    assert_int_equal(fleet->allocs[0].next, FLEET_NONE);
    facet_fleet_destroy(fleet);
}

static enum facet_status create_fleet(struct facet_fleet_node *node, uint32_t policy, size_t count)
{
    struct facet_fleet_config config = {.size = sizeof config, .policy = policy, .nodes = node, .node_count = count};
    struct facet_fleet *fleet = NULL;
    struct facet_error error = {0};
    enum facet_status status = facet_fleet_create(&config, &fleet, &error);

    assert_true((status == FACET_OK) == (fleet != NULL));
    if (status != FACET_OK)
        assert_non_null(strstr(error.message, "expected"));
    facet_fleet_destroy(fleet);
    return status;
}

static void test_wrong_configurations_are_refused(void **state)
{
    struct facet_node_topology topology = {.size = sizeof topology, .devices = 3};
    struct facet_fleet_node node = node_of(8, 2, "T4");
    struct facet_fleet_request request = request_of(1, 1, 1001, NULL);
    struct facet_fleet *fleet;
    uint32_t shape = 9;

    (void)state;
    assert_int_equal(create_fleet(&node, FACET_PLACEMENT_FACET, 1), FACET_OK);
    assert_int_equal(create_fleet(&node, FACET_PLACEMENT_POLICIES, 1), FACET_INVALID_ARGUMENT);
    assert_int_equal(create_fleet(&node, 0, 0), FACET_OUT_OF_RANGE);
    node.gpus = FACET_FLEET_GPUS + 1;
    assert_int_equal(create_fleet(&node, 0, 1), FACET_OUT_OF_RANGE);
    node = node_of(8, 2, "T4");
    node.cpu_milli = FACET_FLEET_CPU + UINT64_C(1);
    assert_int_equal(create_fleet(&node, 0, 1), FACET_OUT_OF_RANGE);
    node = node_of(8, 2, "T4");
    node.topology = &topology;
    assert_int_equal(create_fleet(&node, 0, 1), FACET_INVALID_ARGUMENT);
    node.topology = NULL;
    fleet = fleet_of(0, &node, 1, NULL, 0);
    assert_int_equal(facet_fleet_shape(fleet, &request, &shape, NULL), FACET_OUT_OF_RANGE);
    request.gpu_milli = 0;
    assert_int_equal(facet_fleet_shape(fleet, &request, &shape, NULL), FACET_OUT_OF_RANGE);
    request = request_of(1, FACET_FLEET_GPUS + 1, 100, NULL);
    assert_int_equal(facet_fleet_shape(fleet, &request, &shape, NULL), FACET_OUT_OF_RANGE);
    request.size = 4;
    assert_int_equal(facet_fleet_shape(fleet, &request, &shape, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(shape, 9);
    facet_fleet_destroy(fleet);
    facet_fleet_destroy(NULL);
}

static void test_links_decide_among_free_gpus(void **state)
{
    struct facet_node_topology topology = {.size = sizeof topology, .devices = 4};
    struct facet_fleet_node node = node_of(64, 4, "G2");

    (void)state;
    topology.link[1][3] = topology.link[3][1] = 300;
    topology.link[0][2] = topology.link[2][0] = 300;
    topology.link[0][1] = topology.link[1][0] = 50;
    node.topology = &topology;
    struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_BEST_FIT, &node, 1, NULL, 0);

    place_request(fleet, request_of(1, 1, 500, NULL), NULL);                              /* GPU 0 is no longer whole */
    assert_int_equal(place_request(fleet, request_of(1, 2, 1000, NULL), NULL).gpus, 0xa); /* GPUs 1 and 3 */
    facet_fleet_destroy(fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_are_taken_and_released),
        cmocka_unit_test(test_models_are_alternatives),
        cmocka_unit_test(test_each_resource_can_be_short),
        cmocka_unit_test(test_commit_checks_the_decision),
        cmocka_unit_test(test_migration_makes_room_or_moves_nothing),
        cmocka_unit_test(test_migration_moves_as_few_as_it_can),
        cmocka_unit_test(test_wrong_configurations_are_refused),
        cmocka_unit_test(test_links_decide_among_free_gpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
