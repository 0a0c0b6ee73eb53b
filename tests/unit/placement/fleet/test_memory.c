/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: making the Nth allocation fail, for every N. The call reports it, leaves its outputs and the fleet as they
 * were, and succeeds when it is made again. Never: lets cmocka's own allocations fail.
 */
#include <stdlib.h>

#include "fixtures.h"

static unsigned calls, fail_at;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *pointer, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
char *__wrap_strdup(const char *text);

static int allocation_fails(void)
{
    return ++calls == fail_at;
}

void *__wrap_malloc(size_t size)
{
    return allocation_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return allocation_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *pointer, size_t size)
{
    return allocation_fails() ? NULL : __real_realloc(pointer, size);
}

char *__wrap_strdup(const char *text)
{
    return allocation_fails() ? NULL : __real_strdup(text);
}

static void arm_failure(unsigned n)
{
    calls = 0;
    fail_at = n;
}

static const char node_text[] = "sn,cpu_milli,gpu,model\na,64000,2,T4\nb,64000,4,P100\n";
static const char job_text[] = "cpu_milli,num_gpu,gpu_milli\n1000,1,500\n2000,2,1000\n";

static enum facet_status parse_lists(struct facet_node_list **ret_nodes, struct facet_job_list **ret_jobs)
{
    enum facet_status status = facet_node_list_parse(node_text, sizeof node_text - 1, "n", ret_nodes, NULL);

    return status == FACET_OK ? facet_job_list_parse(job_text, sizeof job_text - 1, "j", ret_jobs, NULL) : status;
}

static void test_lists_survive_any_failed_allocation(void **state)
{
    enum facet_status status = FACET_NO_MEMORY;
    unsigned n = 0;

    (void)state;
    while (status != FACET_OK) {
        struct facet_node_list *nodes = NULL;
        struct facet_job_list *jobs = NULL;

        arm_failure(++n);
        status = parse_lists(&nodes, &jobs);
        arm_failure(0);
        assert_true(status == FACET_OK || status == FACET_NO_MEMORY);
        assert_true(status != FACET_OK || (nodes && jobs));
        assert_true(status == FACET_OK || !jobs);
        facet_node_list_free(nodes);
        facet_job_list_free(jobs);
    }
    assert_true(n > 6);
}

static enum facet_status decide_and_commit(struct facet_fleet *fleet, uint64_t *ret_allocation)
{
    struct facet_fleet_request request = request_of(2, 1, 400, "T4");
    struct facet_fleet_placement at;
    uint32_t shape = 0;
    enum facet_status status = facet_fleet_shape(fleet, &request, &shape, NULL);

    if (status == FACET_OK)
        status = facet_fleet_decide(fleet, shape, &at, NULL);
    return status == FACET_OK ? facet_fleet_commit(fleet, shape, &at, ret_allocation, NULL) : status;
}

static void test_a_decision_survives_any_failed_allocation(void **state)
{
    struct facet_fleet_node nodes[] = {node_of(8, 2, "T4"), node_of(8, 2, "P100")};
    unsigned n = 0;

    (void)state;
    for (enum facet_status status = FACET_NO_MEMORY; status != FACET_OK;) {
        struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_FACET, nodes, 2, NULL, 0);
        uint64_t allocation = 5;

        arm_failure(++n);
        status = decide_and_commit(fleet, &allocation);
        arm_failure(0);
        assert_true(status == FACET_OK || (status == FACET_NO_MEMORY && allocation == 5 && used_of(fleet) == 0));
        if (status != FACET_OK)
            assert_int_equal(decide_and_commit(fleet, &allocation), FACET_OK);
        assert_int_equal(used_of(fleet), 400);
        facet_fleet_destroy(fleet);
    }
    assert_int_equal(n, 4); /* shape, scores and allocation may fail; the fourth attempt succeeds */
}

/* If there is no memory to learn a job's shape, decisions use the mix known so far. */
static void test_learning_the_mix_may_fail_without_memory(void **state)
{
    struct facet_fleet_node nodes[] = {node_of(640, 16, "T4"), node_of(640, 16, "G2")};

    (void)state;
    for (unsigned n = 1; n < 12; n++) {
        struct facet_fleet *fleet = fleet_of(FACET_PLACEMENT_FACET, nodes, 2, NULL, 0);
        struct facet_fleet_placement at;
        uint32_t shape = shape_of(fleet, request_of(1, 1, 500, "T4"));

        for (uint32_t i = 0; i < 15; i++)
            assert_int_equal(facet_fleet_decide(fleet, shape, &at, NULL), FACET_OK);
        int64_t price = fleet->prices.model[0];
        uint32_t version_before = fleet->mix_version;

        arm_failure(n);
        assert_int_equal(facet_fleet_decide(fleet, shape, &at, NULL), FACET_OK);
        arm_failure(0);
        assert_true(fleet->mix_version == version_before ? fleet->prices.model[0] == price
                                                         : fleet->prices.model[0] > price);
        facet_fleet_destroy(fleet);
    }
}

static void test_a_simulation_survives_any_failed_allocation(void **state)
{
    static const uint32_t loads[] = {1000};
    struct facet_node_list *nodes = NULL;
    struct facet_job_list *jobs = NULL;
    enum facet_status status = FACET_NO_MEMORY;
    unsigned n = 0;

    (void)state;
    assert_int_equal(parse_lists(&nodes, &jobs), FACET_OK);
    while (status != FACET_OK) {
        struct facet_simulate_config config = {.size = sizeof config,
                                               .policy = FACET_PLACEMENT_FACET,
                                               .nodes = nodes,
                                               .jobs = jobs,
                                               .loads_permille = loads,
                                               .load_count = 1};
        struct facet_simulate_result result = {.requests = 77};

        arm_failure(++n);
        status = facet_simulate(&config, &result, NULL);
        arm_failure(0);
        assert_true(status == FACET_OK || (status == FACET_NO_MEMORY && result.requests == 77));
    }
    assert_true(n > 15);
    facet_node_list_free(nodes);
    facet_job_list_free(jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_survive_any_failed_allocation),
        cmocka_unit_test(test_a_decision_survives_any_failed_allocation),
        cmocka_unit_test(test_learning_the_mix_may_fail_without_memory),
        cmocka_unit_test(test_a_simulation_survives_any_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
