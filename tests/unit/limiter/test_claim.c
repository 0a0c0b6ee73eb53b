/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that the device times of vGPUs whose scheduler has stopped never add up to more than the time that has
 * passed since it last settled them.
 * Never: needs a daemon.
 */
#include "limiter/claim.h"

#include "segment_fixture.h"

#define SETTLED_NS (2 * FACET_NS_PER_S)

/* Two vGPUs of one device, whose scheduler has just settled both for the last time. */
struct pair {
    struct fixture *first;
    struct facet_owner *owners[2];
    struct facet_tenant tenants[2];
    char dirs[2][128];
    uint64_t at_ns;
};

static void settle_both(struct pair *pair, uint64_t at_ns)
{
    pair->at_ns = at_ns;
    for (int i = 0; i < 2; i++)
        facet_owner_set_device_time(pair->owners[i], &(struct facet_device_time){.at_ns = at_ns});
}

static int set_up_pair(void **state)
{
    struct pair *pair = calloc(1, sizeof *pair);

    assert_int_equal(fixture_setup((void **)&pair->first), 0);
    snprintf(pair->dirs[0], sizeof pair->dirs[0], "%s", pair->first->dir);
    snprintf(pair->dirs[1], sizeof pair->dirs[1], "%s/other", pair->first->root);
    pair->owners[0] = pair->first->owner;
    assert_int_equal(facet_owner_create(pair->dirs[1], &pair->first->spec, pair->first->bell, &pair->owners[1], NULL),
                     FACET_OK);
    facet_owner_set_heartbeat(pair->owners[1], facet_clock_now_ns() + 3600 * FACET_NS_PER_S);
    for (int i = 0; i < 2; i++)
        facet_owner_set_gate(pair->owners[i], FACET_GATE_OPEN);
    for (int i = 0; i < 2; i++)
        assert_int_equal(facet_tenant_attach(pair->dirs[i], &pair->tenants[i], NULL), FACET_OK);
    settle_both(pair, facet_clock_now_ns() - SETTLED_NS);
    *state = pair;
    return 0;
}

static int tear_down_pair(void **state)
{
    struct pair *pair = *state;

    for (int i = 0; i < 2; i++)
        facet_tenant_detach(&pair->tenants[i]);
    facet_owner_close(pair->owners[1]);
    facet_owner_remove(pair->dirs[1], NULL);
    fixture_teardown((void **)&pair->first);
    free(pair);
    return 0;
}

static void report_busy_time(struct pair *pair, int i, uint64_t busy_ns)
{
    facet_tenant_launch(&pair->tenants[i], 0);
    facet_tenant_complete(&pair->tenants[i], 1, 0, busy_ns, facet_clock_now_ns());
}

static uint64_t read_time(const struct pair *pair, int i)
{
    uint64_t device_time_ns = 0;

    assert_int_equal(facet_segment_read_device_time(pair->dirs[i], &device_time_ns, NULL), FACET_OK);
    return device_time_ns;
}

static void reports_add_up_to_the_time_that_passed(void **state)
{
    struct pair *pair = *state;

    for (int i = 0; i < 2; i++)
        report_busy_time(pair, i, SETTLED_NS);
    uint64_t sum_ns = read_time(pair, 0) + read_time(pair, 1);
    assert_in_range(sum_ns, SETTLED_NS, facet_clock_now_ns() - pair->at_ns);
    assert_true(read_time(pair, 0) + read_time(pair, 1) >= sum_ns);
}

static void no_time_is_lost_where_nothing_overlaps(void **state)
{
    struct pair *pair = *state;

    report_busy_time(pair, 0, SETTLED_NS / 4 * 3);
    report_busy_time(pair, 1, SETTLED_NS / 4);
    assert_int_equal(read_time(pair, 0), SETTLED_NS / 4 * 3);
    assert_int_equal(read_time(pair, 1), SETTLED_NS / 4);
    facet_owner_set_device_time(pair->owners[0], &(struct facet_device_time){.at_ns = facet_clock_now_ns(),
                                                                             .measured_ns = SETTLED_NS / 4 * 3,
                                                                             .settled_ns = SETTLED_NS / 2});
    assert_int_equal(read_time(pair, 0), SETTLED_NS / 2); /* what a scheduler settles replaces earlier claims */
}

/* Both vGPUs work all of the time, and the first always claims first. */
static void vgpus_that_overlap_get_about_the_same_time(void **state)
{
    struct pair *pair = *state;
    uint64_t now_ns = pair->at_ns;

    for (int step = 0; step < 200; step++) {
        now_ns += 10 * FACET_NS_PER_MS;
        for (int i = 0; i < 2; i++) {
            report_busy_time(pair, i, 10 * FACET_NS_PER_MS);
            facet_claim(pair->tenants[i].policy, pair->tenants[i].usage, pair->tenants[i].bell, FACET_CLAIM_BY_TENANT,
                        now_ns);
        }
    }
    uint64_t times_ns[] = {read_time(pair, 0), read_time(pair, 1)};
    assert_true(times_ns[0] + times_ns[1] <= facet_clock_now_ns() - pair->at_ns);
    assert_in_range(times_ns[0] * 100 / (times_ns[0] + times_ns[1]), 40, 60);
}

/* A tenant claims every few milliseconds by itself, once its daemon's heartbeat is missing. */
static void a_tenant_without_a_daemon_claims_time_by_itself(void **state)
{
    struct pair *pair = *state;

    report_busy_time(pair, 0, SETTLED_NS / 100);
    facet_tenant_supervise(&pair->tenants[0], facet_clock_now_ns());
    assert_int_equal(atomic_load(&pair->tenants[0].usage->claimed_ns), 0); /* the fixture has set a heartbeat */
    facet_owner_set_heartbeat(pair->owners[0], pair->at_ns);
    facet_tenant_supervise(&pair->tenants[0], facet_clock_now_ns());
    assert_int_equal(atomic_load(&pair->tenants[0].usage->claimed_ns), SETTLED_NS / 100);
}

static void time_on_a_part_of_a_device_counts_as_that_part(void **state)
{
    struct pair *pair = *state;

    facet_owner_set_limits(pair->owners[0], &(struct facet_limits){.memory_bytes = MIB,
                                                                   .mode = FACET_MODE_HARD,
                                                                   .compute_request_milli = 250,
                                                                   .compute_limit_milli = 250});
    report_busy_time(pair, 0, SETTLED_NS);
    assert_int_equal(read_time(pair, 0), SETTLED_NS / 4);
}

/* `claimed_ns` and `claimed_until_ns` are in memory that tenants can write. */
static void absurd_claims_give_no_more_than_was_measured(void **state)
{
    static const uint64_t odd[] = {1, FACET_NS_PER_S, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX};
    struct pair *pair = *state;

    report_busy_time(pair, 0, 5);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        atomic_store(&pair->tenants[0].usage->claimed_ns, odd[i]);
        atomic_store(&pair->first->bell_map->claimed_until_ns, odd[i]);
        assert_in_range(read_time(pair, 0), 0, 5);
    }
    atomic_store(&pair->tenants[0].usage->claimed_ns, 0);
    assert_int_equal(read_time(pair, 0), 5);
}

static void without_a_scheduler_all_of_the_measured_time_is_published(void **state)
{
    struct pair *pair = *state;

    settle_both(pair, 0);
    report_busy_time(pair, 0, 3 * SETTLED_NS);
    assert_int_equal(read_time(pair, 0), 3 * SETTLED_NS);
    assert_int_equal(atomic_load(&pair->first->bell_map->claimed_until_ns), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reports_add_up_to_the_time_that_passed, set_up_pair, tear_down_pair),
        cmocka_unit_test_setup_teardown(no_time_is_lost_where_nothing_overlaps, set_up_pair, tear_down_pair),
        cmocka_unit_test_setup_teardown(vgpus_that_overlap_get_about_the_same_time, set_up_pair, tear_down_pair),
        cmocka_unit_test_setup_teardown(a_tenant_without_a_daemon_claims_time_by_itself, set_up_pair, tear_down_pair),
        cmocka_unit_test_setup_teardown(time_on_a_part_of_a_device_counts_as_that_part, set_up_pair, tear_down_pair),
        cmocka_unit_test_setup_teardown(absurd_claims_give_no_more_than_was_measured, set_up_pair, tear_down_pair),
        cmocka_unit_test_setup_teardown(without_a_scheduler_all_of_the_measured_time_is_published, set_up_pair,
                                        tear_down_pair),
    };

    return cmocka_run_group_tests_name("limiter/claim", tests, NULL, NULL);
}
