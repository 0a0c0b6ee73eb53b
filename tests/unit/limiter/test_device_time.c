/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that the device times of vGPUs whose scheduler has stopped never add up to more than the time that has
 * passed since it last settled them.
 * Never: needs a daemon.
 */
#include <pthread.h>
#include <sched.h>

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
    for (int i = 0; i < 2; i++) {
        facet_owner_set_device_time(pair->owners[i], &(struct facet_device_time){.at_ns = at_ns});
        facet_owner_set_claim(pair->owners[i], FACET_MILLI_WHOLE / 2);
    }
}

static int set_up_pair(void **state)
{
    struct pair *pair = calloc(1, sizeof *pair);

    assert_int_equal(fixture_setup((void **)&pair->first), 0);
    snprintf(pair->dirs[0], sizeof pair->dirs[0], "%s", pair->first->dir);
    snprintf(pair->dirs[1], sizeof pair->dirs[1], "%s/other", pair->first->root);
    pair->owners[0] = pair->first->owner;
    assert_int_equal(facet_owner_create(pair->dirs[1], &pair->first->spec, pair->first->lock, &pair->owners[1], NULL),
                     FACET_OK);
    for (int i = 0; i < 2; i++)
        facet_owner_set_heartbeat(pair->owners[i], facet_clock_now_ns() - SETTLED_NS);
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

/* Two seconds have passed, of which each vGPU has one. */
static void time_up_to_its_part_is_counted_at_once(void **state)
{
    struct pair *pair = *state;

    report_busy_time(pair, 0, SETTLED_NS / 2);
    report_busy_time(pair, 1, SETTLED_NS / 4);
    assert_int_equal(read_time(pair, 0), SETTLED_NS / 2);
    assert_int_equal(read_time(pair, 1), SETTLED_NS / 4);
    facet_owner_set_device_time(pair->owners[0], &(struct facet_device_time){.at_ns = facet_clock_now_ns(),
                                                                             .measured_ns = SETTLED_NS / 2,
                                                                             .settled_ns = SETTLED_NS / 3});
    assert_int_equal(read_time(pair, 0), SETTLED_NS / 3); /* what a scheduler settles replaces the vGPU's part */
}

/* Both vGPUs work all of the time. */
static void vgpus_that_overlap_get_their_parts(void **state)
{
    struct pair *pair = *state;
    uint64_t began_ns = facet_clock_now_ns();

    facet_owner_set_claim(pair->owners[0], 700);
    facet_owner_set_claim(pair->owners[1], 300);
    for (int i = 0; i < 2; i++)
        report_busy_time(pair, i, 3600 * FACET_NS_PER_S);
    uint64_t times_ns[] = {read_time(pair, 0), read_time(pair, 1)};
    uint64_t ended_ns = facet_clock_now_ns();
    assert_in_range(times_ns[0], (began_ns - pair->at_ns) / 1000 * 700, (ended_ns - pair->at_ns) / 1000 * 701);
    assert_in_range(times_ns[1], (began_ns - pair->at_ns) / 1000 * 300, (ended_ns - pair->at_ns) / 1000 * 301);
}

/* A scheduler that lives settles what was measured soon, and the reader waits for that. */
static void *settle_after_the_ring(void *argument)
{
    struct pair *pair = argument;

    while (!atomic_load(facet_owner_rings(pair->owners[0])))
        sched_yield();
    facet_owner_set_device_time(
        pair->owners[0],
        &(struct facet_device_time){.at_ns = facet_clock_now_ns(), .measured_ns = 3 * SETTLED_NS, .settled_ns = 1234});
    return NULL;
}

static void a_reader_waits_for_a_living_scheduler(void **state)
{
    struct pair *pair = *state;
    pthread_t thread;

    report_busy_time(pair, 0, 3 * SETTLED_NS);
    facet_owner_set_heartbeat(pair->owners[0], facet_clock_now_ns() + 3600 * FACET_NS_PER_S);
    atomic_store((_Atomic uint32_t *)(uintptr_t)facet_owner_rings(pair->owners[0]), 0);
    assert_int_equal(pthread_create(&thread, NULL, settle_after_the_ring, pair), 0);
    uint64_t time_ns = read_time(pair, 0);
    pthread_join(thread, NULL);
    /* On a busy machine the reader may have stopped waiting, and counts the vGPU's part. */
    assert_true(time_ns == 1234 || time_ns >= SETTLED_NS / 2);
    assert_int_equal(read_time(pair, 0), 1234);
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

/* Programs of the daemon's user can write the page, and a time ahead is from before the machine was started again. */
static void absurd_parts_and_times_give_no_more_than_was_measured(void **state)
{
    static const uint64_t odd[] = {1, FACET_NS_PER_S, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX};
    struct pair *pair = *state;

    report_busy_time(pair, 0, 5);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        facet_owner_set_claim(pair->owners[0], (uint32_t)odd[i]);
        facet_owner_set_device_time(pair->owners[0], &(struct facet_device_time){.at_ns = odd[i]});
        assert_in_range(read_time(pair, 0), 0, 5);
    }
}

static void without_a_scheduler_all_of_the_measured_time_is_published(void **state)
{
    struct pair *pair = *state;

    settle_both(pair, 0);
    report_busy_time(pair, 0, 3 * SETTLED_NS);
    assert_int_equal(read_time(pair, 0), 3 * SETTLED_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reports_add_up_to_the_time_that_passed, set_up_pair, tear_down_pair),
        cmocka_unit_test_setup_teardown(time_up_to_its_part_is_counted_at_once, set_up_pair, tear_down_pair),
        cmocka_unit_test_setup_teardown(vgpus_that_overlap_get_their_parts, set_up_pair, tear_down_pair),
        cmocka_unit_test_setup_teardown(a_reader_waits_for_a_living_scheduler, set_up_pair, tear_down_pair),
        cmocka_unit_test_setup_teardown(time_on_a_part_of_a_device_counts_as_that_part, set_up_pair, tear_down_pair),
        cmocka_unit_test_setup_teardown(absurd_parts_and_times_give_no_more_than_was_measured, set_up_pair,
                                        tear_down_pair),
        cmocka_unit_test_setup_teardown(without_a_scheduler_all_of_the_measured_time_is_published, set_up_pair,
                                        tear_down_pair),
    };

    return cmocka_run_group_tests_name("limiter/device_time", tests, NULL, NULL);
}
