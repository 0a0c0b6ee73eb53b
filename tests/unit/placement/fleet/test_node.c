/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of choosing devices and partition starts inside one node. Never: needs a fleet. */
#include "fixtures.h"

/* Two boards of four devices each; links within a board have 300, and between boards 20. */
static struct facet_node_topology two_boards(void)
{
    struct facet_node_topology topology = {.size = sizeof topology, .devices = 8};

    for (uint32_t i = 0; i < 8; i++) {
        topology.numa[i] = (int32_t)(i / 4);
        for (uint32_t j = 0; j < 8; j++)
            topology.link[i][j] = i == j ? 0 : i / 4 == j / 4 ? 300 : 20;
    }
    return topology;
}

static uint32_t choose_devices(const struct facet_node_topology *topology, uint32_t allowed, uint32_t count)
{
    uint32_t devices = 0;

    assert_int_equal(facet_node_choose(topology, allowed, count, &devices, NULL), FACET_OK);
    return devices;
}

static void test_chosen_devices_are_on_one_board(void **state)
{
    struct facet_node_topology topology = two_boards();

    (void)state;
    assert_int_equal(choose_devices(&topology, 0xff, 4), 0x0f);
    assert_int_equal(choose_devices(&topology, 0xfe, 4), 0xf0);
    assert_int_equal(choose_devices(&topology, 0xfe, 2), 0x06); /* the board that is partly taken already */
    assert_int_equal(choose_devices(&topology, 0xff, 8), 0xff);
    assert_int_equal(choose_devices(&topology, 0x11, 2), 0x11);
}

static void test_without_links_devices_are_chosen_by_numa_node(void **state)
{
    struct facet_node_topology topology = {.size = sizeof topology, .devices = 4, .numa = {0, 1, 0, 1}};

    (void)state;
    assert_int_equal(choose_devices(&topology, 0xf, 2), 0x5);
    assert_int_equal(choose_devices(&topology, 0xe, 2), 0xa);
    topology.numa[0] = topology.numa[2] = FACET_NODE_NO_NUMA;
    assert_int_equal(choose_devices(&topology, 0xf, 2), 0xa); /* an unknown NUMA node equals no other */
    assert_int_equal(choose_devices(NULL, 0xe, 2), 0x6);
}

/* Compares with all sets of devices, over many random topologies. */
static void test_chosen_devices_have_the_most_links(void **state)
{
    uint64_t random = 3;

    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        struct facet_node_topology topology = {.size = sizeof topology, .devices = 6};
        uint32_t count = 1 + (uint32_t)fleet_random_below(&random, 5), best = 0, ours = 0;

        for (uint32_t i = 0; i < 6; i++)
            for (uint32_t j = 0; j < i; j++)
                topology.link[i][j] = topology.link[j][i] = (uint32_t)fleet_random_below(&random, 4);
        uint32_t devices = choose_devices(&topology, 0x3f, count);

        assert_int_equal(__builtin_popcount(devices), count);
        for (uint32_t set = 0; set < 64; set++) {
            uint32_t sum = 0;

            for (uint32_t i = 0; i < 6; i++)
                for (uint32_t j = 0; j < i; j++)
                    sum += (set >> i & set >> j & 1) * topology.link[i][j];
            if ((uint32_t)__builtin_popcount(set) == count && sum > best)
                best = sum;
            if (set == devices)
                ours = sum;
        }
        assert_int_equal(ours, best);
    }
}

static void test_wrong_choices_are_refused(void **state)
{
    struct facet_node_topology topology = two_boards();
    uint32_t devices = 5;

    (void)state;
    assert_int_equal(facet_node_choose(&topology, 0x3, 3, &devices, NULL), FACET_QUOTA);
    assert_int_equal(facet_node_choose(&topology, 0x100, 1, &devices, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_node_choose(&topology, 0xff, 0, &devices, NULL), FACET_INVALID_ARGUMENT);
    topology.devices = 17;
    assert_int_equal(facet_node_choose(&topology, 0xff, 1, &devices, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(devices, 5);
}

/* The kinds of a device with seven compute and eight memory slices: 1, 2, 3 (of four) and 7 (of eight). */
static const struct facet_partition_profile mig[] = {{.slices = 1, .starts = 0x7f},
                                                     {.slices = 2, .starts = 0x15},
                                                     {.slices = 4, .starts = 0x11},
                                                     {.slices = 8, .starts = 0x01}};

static void test_partitions_leave_the_most_placements(void **state)
{
    uint32_t start = 99;

    (void)state;
    assert_int_equal(facet_partition_place(mig, 4, 0, 0, &start, NULL), FACET_OK);
    assert_int_equal(start, 6); /* the only start that splits no pair of slices */
    assert_int_equal(facet_partition_place(mig, 4, 1, UINT64_C(1) << 6, &start, NULL), FACET_OK);
    assert_int_equal(start, 4); /* beside the taken slices, so that the lower half stays free */
    assert_int_equal(facet_partition_place(mig, 4, 2, 0xf0, &start, NULL), FACET_OK);
    assert_int_equal(start, 0);
    assert_int_equal(facet_partition_place(mig, 4, 3, 0, &start, NULL), FACET_OK);
    assert_int_equal(start, 0);
}

static void test_wrong_partitions_are_refused(void **state)
{
    static const struct facet_partition_profile wrong = {.slices = 65, .starts = 1};
    static const struct facet_partition_profile all = {.slices = 64, .starts = UINT64_MAX};
    uint32_t start = 99;

    (void)state;
    assert_int_equal(facet_partition_place(mig, 4, 3, 1, &start, NULL), FACET_QUOTA);
    assert_int_equal(facet_partition_place(mig, 4, 2, 0x22, &start, NULL), FACET_QUOTA);
    assert_int_equal(facet_partition_place(mig, 4, 4, 0, &start, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_partition_place(&wrong, 1, 0, 0, &start, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(start, 99);
    assert_int_equal(facet_partition_place(&all, 1, 0, 0, &start, NULL), FACET_OK);
    assert_int_equal(start, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chosen_devices_are_on_one_board),
        cmocka_unit_test(test_without_links_devices_are_chosen_by_numa_node),
        cmocka_unit_test(test_chosen_devices_have_the_most_links),
        cmocka_unit_test(test_wrong_choices_are_refused),
        cmocka_unit_test(test_partitions_leave_the_most_placements),
        cmocka_unit_test(test_wrong_partitions_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
