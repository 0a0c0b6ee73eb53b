/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of the choices of each policy, against the published formulas in their plain form.
 * Never: compares policies.
 */
#include <math.h>
#include <stdlib.h>

#include "fixtures.h"
#include "placement/fleet/mix.h"

#define MODELS 3u
#define SHAPES 8u

static const char *const models[MODELS] = {"T4", "G2", "P100"};

/* --- FGD (fragmentation gradient descent), computed plainly: the part of a node that each shape could not use --- */

static double fragments_of(const struct fleet_node *node, const struct fleet_shape *mix, const double *part,
                           size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++) {
        bool access = mix[i].any_model || (mix[i].models >> node->model & 1);
        uint32_t fit = 0, lost = 0;

        for (uint32_t gpu = 0; gpu < node->gpus; gpu++) {
            fit += node->left[gpu] >= mix[i].milli;
            lost += node->left[gpu] < mix[i].milli ? node->left[gpu] : 0;
        }
        if (mix[i].gpu_count == 0 || !access || node->cpu_left < mix[i].cpu || fit < mix[i].gpu_count)
            lost = node->gpu_left;
        sum += part[i] * lost;
    }
    return sum;
}

static struct fleet_node node_after(const struct fleet_node *node, const struct fleet_shape *shape, uint32_t gpus)
{
    struct fleet_node now = *node;

    now.cpu_left -= shape->cpu;
    now.gpu_left -= shape->gpu_milli_sum;
    now.free_gpus = 0;
    for (uint32_t i = 0; i < now.gpus; i++) {
        now.left[i] = (uint16_t)(now.left[i] - (gpus >> i & 1) * shape->milli);
        now.free_gpus = (uint8_t)(now.free_gpus + (now.left[i] == 1000));
    }
    return now;
}

static int published_score(double gain)
{
    return (int)(100 / (1 + exp(-gain / 1000)));
}

static uint32_t first_free_gpus(const struct fleet_node *node, uint32_t num)
{
    uint32_t gpus = 0;

    for (uint32_t i = 0; i < node->gpus && num > 0; i++) {
        if (node->left[i] == 1000) {
            gpus |= UINT32_C(1) << i;
            num--;
        }
    }
    return gpus;
}

static int plain_score(const struct fleet_node *node, const struct fleet_shape *shape, const struct fleet_shape *mix,
                       const double *part, size_t count, uint32_t *ret_gpus)
{
    double before = fragments_of(node, mix, part, count);
    int best = -1;

    if (shape->gpu_count != 1 || shape->milli == 1000) {
        *ret_gpus = first_free_gpus(node, shape->gpu_count);
        struct fleet_node now = node_after(node, shape, *ret_gpus);
        return published_score(before - fragments_of(&now, mix, part, count));
    }
    for (uint32_t i = 0; i < node->gpus; i++) {
        if (node->left[i] < shape->milli)
            continue;
        struct fleet_node now = node_after(node, shape, UINT32_C(1) << i);
        int score = published_score(before - fragments_of(&now, mix, part, count));

        if (score > best) {
            best = score;
            *ret_gpus = UINT32_C(1) << i;
        }
    }
    return best;
}

static struct facet_fleet_request any_request(uint64_t *random)
{
    static const uint32_t milli[] = {100, 250, 370, 500, 810};
    static const char *const specs[] = {NULL, NULL, NULL, "T4", "G2|P100"};
    uint32_t kind = (uint32_t)fleet_random_below(random, 5);
    const char *spec = specs[fleet_random_below(random, 5)];
    uint64_t cores = 1 + fleet_random_below(random, 12);

    if (kind == 0)
        return request_of(cores, 0, 0, NULL);
    if (kind < 3)
        return request_of(cores, 1, milli[fleet_random_below(random, 5)], spec);
    return request_of(cores, kind == 3 ? 1 : 1u << fleet_random_below(random, 3), 1000, spec);
}

/* Weights of the mix are powers of two, so that the plain form is exact in floating point. */
static void test_fgd_scores_follow_the_publication(void **state)
{
    struct facet_fleet_node nodes[24];
    struct facet_fleet_request mix[SHAPES];
    struct fleet_shape shapes[SHAPES];
    double part[SHAPES];
    uint64_t random = 11, compared = 0;

    (void)state;
    for (uint32_t i = 0; i < 24; i++)
        nodes[i] = node_of(16 + 16 * (i % 5), 1u << (i % 4), models[i % MODELS]);
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < SHAPES; i++) {
            mix[i] = any_request(&random);
            part[i] = 1.0 / SHAPES;
        }
        struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_FGD, nodes, 24, mix, SHAPES);

        for (uint32_t i = 0; i < SHAPES; i++)
            fleet_shape_make(fleet, &mix[i], &shapes[i], NULL);
        for (uint32_t step = 0; step < 120; step++) {
            struct fleet_shape shape;
            struct facet_fleet_request request = any_request(&random);
            struct facet_fleet_placement at;
            uint32_t number = shape_of(fleet, request), gpus = 0, best = UINT32_MAX;
            int highest = -1;

            fleet_shape_make(fleet, &request, &shape, NULL);
            for (uint32_t i = 0; i < 24; i++) {
                uint32_t here = 0;
                int score;

                if (!fleet_fits(&fleet->nodes[i], &shape))
                    continue;
                score = plain_score(&fleet->nodes[i], &shape, shapes, part, SHAPES, &here);
                if (score > highest) {
                    highest = score;
                    best = i;
                    gpus = here;
                }
            }
            if (best == UINT32_MAX) {
                assert_int_equal(facet_fleet_decide(fleet, number, &at, NULL), FACET_QUOTA);
                continue;
            }
            at = place_request(fleet, request, NULL);
            assert_int_equal(at.score, highest);
            assert_int_equal(at.node, best);
            assert_int_equal(at.gpus, gpus);
            compared++;
        }
        facet_fleet_destroy(fleet);
    }
    assert_true(compared > 1000);
}

static void test_best_fit_leaves_the_least_unused(void **state)
{
    struct facet_fleet_node nodes[] = {node_of(128, 8, "G2"), node_of(96, 8, "G2"), node_of(64, 2, "G2")};
    struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_BEST_FIT, nodes, 3, NULL, 0);
    struct facet_fleet_placement at = place_request(fleet, request_of(8, 1, 500, NULL), NULL);

    (void)state;
    assert_int_equal(at.node, 2);
    assert_int_equal(at.score, 68); /* 100 - 50 (56/128 + 1.5/8) */
    assert_int_equal(place_request(fleet, request_of(8, 1, 500, NULL), NULL).gpus, 1);
    facet_fleet_destroy(fleet);
}

static void test_dot_product_avoids_much_of_both(void **state)
{
    struct facet_fleet_node nodes[] = {node_of(128, 8, "G2"), node_of(64, 4, "G2")};
    struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_DOT_PRODUCT, nodes, 2, NULL, 0);
    struct facet_fleet_placement at = place_request(fleet, request_of(64, 4, 1000, NULL), NULL);

    (void)state;
    assert_int_equal(at.node, 1);
    assert_int_equal(at.score, 75); /* 1 - (1/2 1/2 + 1/2 1/2) / 2 */
    facet_fleet_destroy(fleet);
}

static void test_gpu_packing_prefers_gpus_in_use(void **state)
{
    struct facet_fleet_node nodes[] = {node_of(64, 8, "G2"), node_of(64, 2, "G2"), node_of(64, 4, "G2")};
    struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_GPU_PACKING, nodes, 3, NULL, 0);
    struct facet_fleet_placement at = place_request(fleet, request_of(1, 1, 400, NULL), NULL);

    (void)state;
    assert_int_equal(at.node, 1); /* the smallest of the free nodes: 33 - 2 */
    assert_int_equal(at.score, 31);
    at = place_request(fleet, request_of(1, 1, 400, NULL), NULL);
    assert_int_equal(at.node, 1);
    assert_int_equal(at.score, 94); /* 100 - 60/10, on the same GPU */
    assert_int_equal(at.gpus, 1);
    at = place_request(fleet, request_of(1, 1, 400, NULL), NULL);
    assert_int_equal(at.score, 49); /* a free GPU of a node in use */
    assert_int_equal(at.gpus, 2);
    at = place_request(fleet, request_of(1, 1, 1000, NULL), NULL);
    assert_int_equal(at.node, 2);
    facet_fleet_destroy(fleet);
}

static void test_gpu_clustering_keeps_kinds_together(void **state)
{
    struct facet_fleet_node nodes[] = {node_of(64, 8, "G2"), node_of(64, 8, "G2")};
    struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_GPU_CLUSTERING, nodes, 2, NULL, 0);
    uint64_t shared;

    (void)state;
    assert_int_equal(place_request(fleet, request_of(1, 1, 400, NULL), &shared).node, 0);
    assert_int_equal(place_request(fleet, request_of(1, 1, 1000, NULL), NULL).node, 1);
    assert_int_equal(place_request(fleet, request_of(1, 1, 700, NULL), NULL).node, 0);
    assert_int_equal(place_request(fleet, request_of(1, 1, 1000, NULL), NULL).score, 78); /* 25 (8-7)/8 + 75 */
    assert_int_equal(place_request(fleet, request_of(1, 2, 1000, NULL), NULL).node,
                     1); /* none is idle or alike: fuller */
    facet_fleet_destroy(fleet);
}

static void test_random_reaches_every_node_and_repeats_by_seed(void **state)
{
    struct facet_fleet_node nodes[8];
    uint32_t seen = 0, order[2][64];

    (void)state;
    for (uint32_t i = 0; i < 8; i++)
        nodes[i] = node_of(64, 8, "G2");
    for (uint32_t again = 0; again < 2; again++) {
        struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_RANDOM, nodes, 8, NULL, 0);

        for (uint32_t i = 0; i < 64; i++) {
            struct facet_fleet_placement at = place_request(fleet, request_of(1, 1, 500, NULL), NULL);

            order[again][i] = at.node << 16 | at.gpus;
            seen |= UINT32_C(1) << at.node;
        }
        facet_fleet_destroy(fleet);
    }
    assert_int_equal(seen, 0xff);
    assert_memory_equal(order[0], order[1], sizeof order[0]);
}

/* Half of the jobs can only use T4: jobs that can use any GPU are kept away from it. */
static void test_facet_keeps_gpus_that_others_need(void **state)
{
    struct facet_fleet_node nodes[] = {node_of(64, 4, "T4"), node_of(64, 4, "G2")};
    struct facet_fleet_request mix[] = {request_of(8, 1, 1000, "T4"), request_of(8, 1, 1000, NULL)};
    struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_FACET, nodes, 2, mix, 2);

    (void)state;
    assert_int_equal(place_request(fleet, request_of(8, 1, 1000, NULL), NULL).node, 1);
    assert_int_equal(place_request(fleet, request_of(8, 1, 1000, "T4"), NULL).node, 0);
    facet_fleet_destroy(fleet);
}

/* A job without GPUs goes where its CPU is not needed for free GPUs. */
static void test_facet_keeps_cpu_for_gpus(void **state)
{
    struct facet_fleet_node nodes[] = {node_of(40, 4, "G2"), node_of(60, 4, "G2")};
    struct facet_fleet_request mix[] = {request_of(10, 1, 1000, NULL)};
    struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_FACET, nodes, 2, mix, 1);

    (void)state;
    assert_int_equal(place_request(fleet, request_of(20, 0, 0, NULL), NULL).node, 1);
    facet_fleet_destroy(fleet);
}

static void test_facet_learns_the_mix_of_jobs(void **state)
{
    struct facet_fleet_node nodes[] = {node_of(640, 16, "T4"), node_of(640, 16, "G2")};
    struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_FACET, nodes, 2, NULL, 0);
    uint64_t allocation;

    (void)state;
    assert_int_equal(place_request(fleet, request_of(8, 1, 500, NULL), NULL).node, 0); /* no job is known yet */
    for (uint32_t i = 0; i < 16; i++) {
        place_request(fleet, request_of(8, 1, 1000, "T4"), &allocation);
        facet_fleet_release(fleet, allocation, NULL);
    }
    assert_true(fleet->mix_version > 1);
    assert_int_equal(place_request(fleet, request_of(8, 1, 1000, NULL), NULL).node, 1);
    facet_fleet_destroy(fleet);
}

static void test_policies_are_found_by_name(void **state)
{
    struct facet_error error = {0};
    uint32_t policy = 99;

    (void)state;
    for (uint32_t i = 0; i < FACET_PLACEMENT_POLICIES; i++) {
        assert_int_equal(facet_placement_policy_find(facet_placement_policy_name(i), &policy, NULL), FACET_OK);
        assert_int_equal(policy, i);
    }
    assert_null(facet_placement_policy_name(FACET_PLACEMENT_POLICIES));
    assert_int_equal(facet_placement_policy_find("gpu-packing", &policy, NULL), FACET_OK);
    assert_int_equal(policy, FACET_PLACEMENT_GPU_PACKING);
    policy = 99;
    assert_int_equal(facet_placement_policy_find("best", &policy, &error), FACET_NOT_FOUND);
    assert_non_null(strstr(error.message, "gpu_clustering"));
    assert_int_equal(facet_placement_policy_find(NULL, &policy, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(policy, 99);
}

/* The jobs have more than 256 different amounts of CPU. Each amount is found, within a few steps of its search. */
static void test_mixes_of_many_amounts_of_cpu(void **state)
{
    (void)state;
    struct facet_fleet_node node = node_of(64, 4, "A");
    struct facet_fleet_request mix[2000];

    for (uint32_t i = 0; i < 2000; i++) {
        mix[i] = request_of(0, 1, 500, "");
        mix[i].cpu_milli = 1 + 31 * i;
    }
    struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_FGD, &node, 1, mix, 2000);
    const struct fleet_mix *made = &fleet->mix;

    assert_true(made->levels > 1000);
    for (uint32_t cpu = 0; cpu < 64000; cpu += 7) {
        uint32_t slot = cpu / made->level_step, level = fleet_mix_level(made, cpu);

        assert_true(made->cpu[level] <= cpu && (level + 1 == made->levels || made->cpu[level + 1] > cpu));
        assert_true(level - made->level_of_slot[slot < made->level_slots ? slot : made->level_slots - 1] <= 4);
    }
    facet_fleet_destroy(fleet);
    /* A policy that does not use the mix keeps no tables of it. */
    fleet = fleet_of(FACET_PLACEMENT_BEST_FIT, &node, 1, mix, 2000);
    assert_int_equal(fleet->mix.levels, 1);
    facet_fleet_destroy(fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fgd_scores_follow_the_publication),
        cmocka_unit_test(test_best_fit_leaves_the_least_unused),
        cmocka_unit_test(test_dot_product_avoids_much_of_both),
        cmocka_unit_test(test_gpu_packing_prefers_gpus_in_use),
        cmocka_unit_test(test_gpu_clustering_keeps_kinds_together),
        cmocka_unit_test(test_random_reaches_every_node_and_repeats_by_seed),
        cmocka_unit_test(test_facet_keeps_gpus_that_others_need),
        cmocka_unit_test(test_facet_keeps_cpu_for_gpus),
        cmocka_unit_test(test_facet_learns_the_mix_of_jobs),
        cmocka_unit_test(test_mixes_of_many_amounts_of_cpu),
        cmocka_unit_test(test_policies_are_found_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
