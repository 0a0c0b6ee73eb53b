/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a random walk of arrivals, departures and moves. No amount is ever over-granted, cached scores equal scores
 * that are computed again, and after all jobs have left the fleet is as it was at first. Never: compares policies.
 */
#include <stdlib.h>

#include "../../../effort.h"
#include "fixtures.h"

#define NODES  150u
#define LIVE   400u /* jobs at a time */
#define STEPS  effort(130000, 5000)
#define CHECKS 6500u

static struct facet_fleet_request any_request(uint64_t *random)
{
    static const char *const specs[] = {"", "A", "B", "A|C"};
    uint32_t num = (uint32_t)fleet_random_below(random, 4);
    uint32_t milli = num < 2 ? 100 * (1 + (uint32_t)fleet_random_below(random, 10)) : 1000;

    if (fleet_random_below(random, 16) == 0)
        milli = 300; /* so that some jobs take parts of several GPUs */
    return request_of(1 + fleet_random_below(random, 8), num, milli, specs[fleet_random_below(random, 4)]);
}

static void check_nodes(const struct facet_fleet *fleet)
{
    uint64_t used = 0;

    for (uint32_t i = 0; i < fleet->node_count; i++) {
        const struct fleet_node *node = &fleet->nodes[i];
        uint32_t sum = 0;

        assert_true(node->cpu_left <= fleet->details[i].cpu && node->memory_left <= fleet->details[i].memory);
        for (uint32_t gpu = 0; gpu < node->gpus; gpu++) {
            assert_true(node->left[gpu] <= 1000);
            sum += node->left[gpu];
        }
        assert_int_equal(sum, node->gpu_left);
        used += node->gpus * 1000u - sum;
    }
    assert_int_equal(used, fleet->gpu_used);
}

/* The grants of each GPU add up to the amount missing there. */
static void check_grants(const struct facet_fleet *fleet)
{
    static uint32_t granted[NODES][FACET_FLEET_GPUS];

    memset(granted, 0, sizeof granted);
    for (uint32_t node = 0; node < fleet->node_count; node++)
        for (uint32_t i = fleet->details[node].first_alloc; i != FLEET_NONE; i = fleet->allocs[i].next)
            for (uint32_t gpu = 0; gpu < FACET_FLEET_GPUS; gpu++)
                granted[node][gpu] +=
                    (fleet->allocs[i].gpu_mask >> gpu & 1) * fleet->shapes[fleet->allocs[i].shape].milli;
    for (uint32_t node = 0; node < fleet->node_count; node++)
        for (uint32_t gpu = 0; gpu < fleet->nodes[node].gpus; gpu++)
            assert_int_equal(granted[node][gpu], 1000u - fleet->nodes[node].left[gpu]);
}

static void check_index(struct facet_fleet *fleet, uint32_t shape)
{
    struct fleet_shape *wanted = &fleet->shapes[shape];

    assert_int_equal(fleet_index_refresh(fleet, wanted, NULL), FACET_OK);
    for (uint32_t i = 0; i < fleet->node_count; i++)
        assert_int_equal(wanted->scores[i], fleet_score(fleet, i, wanted));
    for (uint32_t block = 0; block < fleet->block_count; block++) {
        int32_t best = FLEET_SCORE_NO_FIT;

        for (uint32_t i = 0; i < FLEET_BLOCK; i++)
            best = wanted->scores[block * FLEET_BLOCK + i] > best ? wanted->scores[block * FLEET_BLOCK + i] : best;
        assert_int_equal(wanted->blocks[block], best);
    }
}

static uint64_t place_job(struct facet_fleet *fleet, uint32_t shape, uint64_t *random)
{
    struct facet_fleet_move moves[2];
    struct facet_fleet_placement at;
    uint64_t allocation = 0, before = fleet->gpu_used;
    uint32_t count = 0;

    if (facet_fleet_decide(fleet, shape, &at, NULL) == FACET_OK)
        assert_int_equal(facet_fleet_commit(fleet, shape, &at, &allocation, NULL), FACET_OK);
    else if (fleet_random_below(random, 8) == 0)
        facet_fleet_migrate(fleet, shape, 2, moves, &count, &at, &allocation, NULL);
    assert_int_equal(fleet->gpu_used, before + (allocation ? fleet->shapes[shape].gpu_milli_sum : 0));
    return allocation;
}

static void random_walk(uint32_t policy)
{
    static const char *const models[] = {"A", "B", "C"};
    static uint64_t live[LIVE];
    struct facet_fleet_node nodes[NODES];
    struct facet_fleet_request mix[40];
    struct facet_fleet_usage usage;
    uint64_t random = policy + 1;

    memset(live, 0, sizeof live);
    for (uint32_t i = 0; i < NODES; i++)
        nodes[i] = node_of(8 + i % 32, i % 5, models[i % 3]);
    for (uint32_t i = 0; i < 40; i++)
        mix[i] = any_request(&random);
    struct facet_fleet *fleet = fleet_of(policy, nodes, NODES, mix, policy % 2 ? 40 : 0);
    struct fleet_node *before = malloc(NODES * sizeof *before);

    memcpy(before, fleet->nodes, NODES * sizeof *before);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint64_t *slot = &live[fleet_random_below(&random, LIVE)];

        if (*slot) {
            assert_int_equal(facet_fleet_release(fleet, *slot, NULL), FACET_OK);
            assert_int_equal(facet_fleet_release(fleet, *slot, NULL), FACET_NOT_FOUND);
            *slot = 0;
        } else {
            uint32_t shape = shape_of(fleet, any_request(&random));

            *slot = place_job(fleet, shape, &random);
            if (step % CHECKS == 0)
                check_index(fleet, shape);
        }
        if (step % CHECKS == 0) {
            check_nodes(fleet);
            check_grants(fleet);
        }
    }
    for (uint32_t i = 0; i < LIVE; i++)
        if (live[i])
            assert_int_equal(facet_fleet_release(fleet, live[i], NULL), FACET_OK);
    facet_fleet_get_usage(fleet, &usage);
    assert_int_equal(usage.allocations, 0);
    assert_int_equal(usage.gpu_milli_used, 0);
    assert_int_equal(usage.cpu_milli_used, 0);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_memory_equal(&before[i], &fleet->nodes[i], sizeof before[i]);
    }
    free(before);
    facet_fleet_destroy(fleet);
}

static void test_a_million_steps_keep_the_fleet_consistent(void **state)
{
    (void)state;
    for (uint32_t policy = 0; policy < FACET_PLACEMENT_POLICIES; policy++)
        random_walk(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_million_steps_keep_the_fleet_consistent)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
