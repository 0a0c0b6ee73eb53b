/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the reports of simulated runs. Never: reads a list from a file. */
#include <stdio.h>

#include "fixtures.h"

struct lists {
    struct facet_node_list *nodes;
    struct facet_job_list *jobs;
};

static int make_lists(void **state)
{
    static struct lists lists;
    char text[8192];
    size_t length = (size_t)snprintf(text, sizeof text, "sn,cpu_milli,memory_mib,gpu,model\n");

    for (int i = 0; i < 40; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "n%d,64000,262144,%d,%s\n", i, 1 << i % 4,
                                   i % 2 ? "A" : "B");
    assert_int_equal(facet_node_list_parse(text, length, "n", &lists.nodes, NULL), FACET_OK);
    length = (size_t)snprintf(text, sizeof text,
                              "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n");
    for (int i = 0; i < 60; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "j%d,%d,1024,%d,%d,%s,%d,%d\n", i,
                                   1000 + 500 * (i % 9), i % 7 ? 1 : 0, i % 3 ? 1000 : 370, i % 11 ? "" : "A", i * 10,
                                   i * 10 + 100);
    assert_int_equal(facet_job_list_parse(text, length, "j", &lists.jobs, NULL), FACET_OK);
    *state = &lists;
    return 0;
}

static int free_lists(void **state)
{
    struct lists *lists = *state;

    facet_node_list_free(lists->nodes);
    facet_job_list_free(lists->jobs);
    return 0;
}

static const uint32_t loads[] = {500, 1000, 1300};

static struct facet_simulate_config config_of(const struct lists *lists, uint32_t policy, uint64_t seed)
{
    return (struct facet_simulate_config){.size = sizeof(struct facet_simulate_config),
                                          .policy = policy,
                                          .seed = seed,
                                          .nodes = lists->nodes,
                                          .jobs = lists->jobs,
                                          .loads_permille = loads,
                                          .load_count = 3};
}

static void test_loads_are_reached_in_order(void **state)
{
    for (uint32_t policy = 0; policy < FACET_PLACEMENT_POLICIES; policy++) {
        struct facet_simulate_config config = config_of(*state, policy, 3);
        struct facet_simulate_result result = {0};

        assert_int_equal(facet_simulate(&config, &result, NULL), FACET_OK);
        assert_int_equal(result.load_count, 3);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(result.loads[i].load_permille, loads[i]);
            assert_true(result.loads[i].reached);
            assert_true(result.loads[i].gpu_milli_used <= result.gpu_milli);
            assert_true(i == 0 || result.loads[i].gpu_milli_used >= result.loads[i - 1].gpu_milli_used);
        }
        assert_int_equal(result.gpu_milli, 150000);
        assert_true(result.gpu_milli_used * 10 > result.gpu_milli * 8);
        assert_true(result.refused > 0);
    }
}

static void test_runs_with_one_seed_are_equal(void **state)
{
    struct facet_simulate_config config = config_of(*state, FACET_PLACEMENT_RANDOM, 3);
    struct facet_simulate_result first, again, other;

    assert_int_equal(facet_simulate(&config, &first, NULL), FACET_OK);
    assert_int_equal(facet_simulate(&config, &again, NULL), FACET_OK);
    assert_memory_equal(&first, &again, sizeof first);
    config.seed = 4;
    assert_int_equal(facet_simulate(&config, &other, NULL), FACET_OK);
    assert_true(first.node_order != other.node_order);
}

static void test_ended_jobs_free_their_devices(void **state)
{
    struct facet_simulate_config config = config_of(*state, FACET_PLACEMENT_FACET, 3);
    struct facet_simulate_result result;

    config.departures = 1;
    assert_int_equal(facet_simulate(&config, &result, NULL), FACET_OK);
    assert_int_equal(result.requests, 60);
    assert_int_equal(result.refused, 0);
    /* Ten jobs run at a time, so that at most ten GPUs are in use. */
    assert_true(result.gpu_milli_used > 4000 && result.gpu_milli_used <= 10000);
    assert_true(result.gpu_milli_mean > 0 && result.gpu_milli_mean <= result.gpu_milli_used);
    config.stretch = 100;
    assert_int_equal(facet_simulate(&config, &result, NULL), FACET_OK);
    assert_true(result.gpu_milli_used > 30000);
}

static uint64_t ticks;

static uint64_t next_tick(void *data)
{
    (void)data;
    return ticks += 5;
}

static void test_time_is_read_from_the_callers_clock(void **state)
{
    struct facet_simulate_config config = config_of(*state, FACET_PLACEMENT_FGD, 3);
    struct facet_simulate_result result;

    config.clock = next_tick;
    assert_int_equal(facet_simulate(&config, &result, NULL), FACET_OK);
    assert_int_equal(result.decision_p50_ns, 5);
    assert_int_equal(result.decision_p99_ns, 5);
}

static int stop_simulation(void *data, uint64_t done, uint64_t total)
{
    (void)data;
    return done > total / 2;
}

static void test_wrong_configurations_are_refused(void **state)
{
    static const uint32_t not_rising[] = {1000, 1000};
    struct facet_simulate_config config = config_of(*state, 0, 0);
    struct facet_simulate_result result = {.requests = 77};
    struct facet_job_list *jobs = NULL;
    static const char text[] = "cpu_milli,num_gpu,gpu_milli\n1,0,0\n";

    config.loads_permille = not_rising;
    config.load_count = 2;
    assert_int_equal(facet_simulate(&config, &result, NULL), FACET_INVALID_ARGUMENT);
    config.load_count = 0;
    assert_int_equal(facet_simulate(&config, &result, NULL), FACET_OUT_OF_RANGE);
    config = config_of(*state, FACET_PLACEMENT_POLICIES, 0);
    assert_int_equal(facet_simulate(&config, &result, NULL), FACET_INVALID_ARGUMENT);
    config = config_of(*state, 0, 0);
    assert_int_equal(facet_job_list_parse(text, strlen(text), "j", &jobs, NULL), FACET_OK);
    config.jobs = jobs;
    assert_int_equal(facet_simulate(&config, &result, NULL), FACET_INVALID_ARGUMENT); /* the load is never reached */
    config.departures = 1;
    assert_int_equal(facet_simulate(&config, &result, NULL), FACET_INVALID_ARGUMENT); /* the lists have no times */
    facet_job_list_free(jobs);
    config = config_of(*state, 0, 0);
    config.progress = stop_simulation;
    static const uint32_t far[] = {20000};
    config.loads_permille = far;
    config.load_count = 1;
    assert_int_equal(facet_simulate(&config, &result, NULL), FACET_BAD_STATE);
    assert_int_equal(result.requests, 77);
}

/* The n-th decision takes n nanoseconds. */
static uint64_t rising_clock(void *data)
{
    uint64_t *calls = data;

    ++*calls;
    return *calls % 2 ? 0 : *calls / 2;
}

/* A long run keeps only the times of some decisions, whose percentiles still represent all decisions. */
static void test_kept_times_represent_a_long_run(void **state)
{
    static const char text[] = "cpu_milli,num_gpu,gpu_milli\n1,0,0\n1,0,0\n1,0,0\n1,0,0\n1,0,0\n1,0,0\n1,0,0\n1,1,1\n";
    struct lists lists = *(struct lists *)*state;
    struct facet_simulate_result result = {0};
    uint64_t calls = 0;

    lists.jobs = NULL;
    assert_int_equal(facet_job_list_parse(text, sizeof text - 1, "j", &lists.jobs, NULL), FACET_OK);
    struct facet_simulate_config config = config_of(&lists, FACET_PLACEMENT_FIRST_FIT, 3);

    config.clock = rising_clock;
    config.data = &calls;
    assert_int_equal(facet_simulate(&config, &result, NULL), FACET_OK);
    assert_true(result.requests > UINT64_C(1) << 20);
    assert_true(result.decision_max_ns == result.requests);
    assert_in_range(result.decision_p50_ns, result.requests / 100 * 49, result.requests / 100 * 51);
    assert_in_range(result.decision_p99_ns, result.requests / 100 * 98, result.requests);
    facet_job_list_free(lists.jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loads_are_reached_in_order),
        cmocka_unit_test(test_runs_with_one_seed_are_equal),
        cmocka_unit_test(test_ended_jobs_free_their_devices),
        cmocka_unit_test(test_time_is_read_from_the_callers_clock),
        cmocka_unit_test(test_kept_times_represent_a_long_run),
        cmocka_unit_test(test_wrong_configurations_are_refused),
    };

    return cmocka_run_group_tests(tests, make_lists, free_lists);
}
