/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a host's controls of the executor while it works: bounds, waiting between streams, cancelling one job, another
 * policy. Never: asserts how long anything takes.
 */
#include "cpu_executor_world.h"

static struct facet_launch_record record_of(struct cpu_stream *stream, uint32_t index)
{
    struct facet_launch_record records[16];

    assert_true(cpu_stream_records(stream, 0, records, 16) > index);
    return records[index];
}

/* ---- bounds ---- */

static void launches_at_a_time_are_bounded(void **state)
{
    struct cpu_executor *executor = executor_of(3, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *streams[3] = {stream_of(tenant), stream_of(tenant), stream_of(tenant)};

    cpu_tenant_set_bounds(tenant, 0, 1);
    for (int i = 0; i < 3; i++)
        launch(streams[i], (struct work){.waits_for_go = 1}, 1);
    for (int i = 0; i < 3; i++) {
        sem_wait(&world.began);
        assert_int_equal(sem_trywait(&world.began), -1); /* only one has begun */
        sem_post(&world.may_end);
    }
    assert_int_equal(cpu_tenant_wait(tenant, FOREVER), FACET_OK);
    assert_int_equal(world.inside_most, 1);

    world_reset(NULL);
    cpu_tenant_set_bounds(tenant, 0, 0); /* all three begin before one may end */
    for (int i = 0; i < 3; i++)
        launch(streams[i], (struct work){.waits_for_go = 1}, 1);
    for (int i = 0; i < 3; i++)
        sem_wait(&world.began);
    for (int i = 0; i < 3; i++)
        sem_post(&world.may_end);
    assert_int_equal(cpu_tenant_wait(tenant, FOREVER), FACET_OK);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

/* A launch that was cancelled, before it began or while it ran, does not count towards the bound. */
static void cancelled_launches_do_not_count_towards_the_bound(void **state)
{
    struct cpu_executor *executor = executor_of(2, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *streams[2] = {stream_of(tenant), stream_of(tenant)};

    cpu_tenant_set_bounds(tenant, 0, 1);
    for (int i = 0; i < 50; i++) {
        launch(streams[i % 2], (struct work){0}, 1u << 20);
        launch(streams[!(i % 2)], (struct work){0}, 1u << 20);
        cpu_stream_cancel(streams[0]);
        cpu_stream_cancel(streams[1]);
    }
    launch(streams[0], (struct work){.name = 'x'}, 1);
    assert_int_equal(cpu_stream_wait(streams[0], FOREVER), FACET_OK);
    assert_string_equal(world.log, "x");
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

static void both_bounds_of_units_hold(void **state)
{
    struct cpu_executor *executor = executor_of(4, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);

    cpu_tenant_set_units(tenant, 3);
    cpu_tenant_set_bounds(tenant, 2, 0);
    launch(stream, (struct work){.waits_for_go = 1}, 6);
    sem_wait(&world.began);
    sem_wait(&world.began);
    assert_int_equal(cpu_tenant_units_active(tenant), 2);
    cpu_tenant_set_bounds(tenant, 4, 0); /* the limit of 3 stays */
    sem_wait(&world.began);
    assert_int_equal(cpu_tenant_units_active(tenant), 3);
    for (int i = 0; i < 6; i++)
        sem_post(&world.may_end);
    assert_int_equal(cpu_tenant_wait(tenant, FOREVER), FACET_OK);
    assert_int_equal(world.inside_most, 3);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

/* ---- waiting ---- */

static void a_stream_waits_for_another(void **state)
{
    struct cpu_executor *executor = executor_of(2, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *first = stream_of(tenant), *second = stream_of(tenant);

    launch(first, (struct work){.name = '1', .waits_for_go = 1}, 1);
    assert_int_equal(cpu_stream_await(second, first, NULL), FACET_OK);
    launch(second, (struct work){.name = '2'}, 1);
    launch(first, (struct work){.name = '3', .waits_for_go = 1}, 1); /* launched later, so not waited for */
    sem_wait(&world.began);
    assert_int_equal(cpu_stream_wait(second, 2 * MS), FACET_TIMEOUT);
    sem_post(&world.may_end);
    assert_int_equal(cpu_stream_wait(second, FOREVER), FACET_OK);
    sem_wait(&world.began);
    sem_post(&world.may_end);
    assert_int_equal(cpu_tenant_wait(tenant, FOREVER), FACET_OK);
    assert_int_equal(world.log[0], '1');

    struct facet_launch_record waited = record_of(second, 0), later = record_of(second, 1);
    struct facet_stream_state all;

    assert_int_equal(waited.status, FACET_OK);
    assert_string_equal(waited.kernel, "");
    assert_true(waited.start_ns >= record_of(first, 0).end_ns && later.start_ns >= waited.end_ns);
    cpu_stream_state(second, &all);
    assert_int_equal(all.launched, 2);
    assert_int_equal(all.completed, 2);
    assert_int_equal(all.begun, 2);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

/* Waits form a chain over eight streams or a circle, or are for launches that are done already. */
static void waits_of_many_streams_end(void **state)
{
    struct cpu_executor *executor = executor_of(2, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *streams[8];

    for (int i = 0; i < 8; i++)
        streams[i] = stream_of(tenant);
    launch(streams[0], (struct work){.name = '0', .waits_for_go = 1}, 1);
    for (int i = 1; i < 8; i++) {
        assert_int_equal(cpu_stream_await(streams[i], streams[i - 1], NULL), FACET_OK);
        launch(streams[i], (struct work){.name = (char)('0' + i)}, 1);
    }
    assert_int_equal(cpu_stream_await(streams[0], streams[7], NULL), FACET_OK);
    assert_int_equal(cpu_stream_await(streams[3], streams[3], NULL), FACET_OK);
    sem_wait(&world.began);
    sem_post(&world.may_end);
    assert_int_equal(cpu_tenant_wait(tenant, FOREVER), FACET_OK);
    assert_string_equal(world.log, "01234567");
    assert_int_equal(cpu_stream_await(streams[5], streams[6], NULL), FACET_OK);
    assert_int_equal(cpu_stream_wait(streams[5], 0), FACET_OK);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

static void a_wait_for_a_stream_ends_with_the_stream(void **state)
{
    struct cpu_executor *executor = executor_of(1, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *first = stream_of(tenant), *second = stream_of(tenant), *third = stream_of(tenant);

    launch(third, (struct work){.waits_for_go = 1}, 1);
    sem_wait(&world.began);
    launch(first, (struct work){.name = '1'}, 1);
    launch(second, (struct work){.name = '2'}, 1);
    assert_int_equal(cpu_stream_await(second, first, NULL), FACET_OK); /* the wait is not at its stream's head yet */
    launch(second, (struct work){.name = '3'}, 1);
    cpu_stream_destroy(first);
    sem_post(&world.may_end);
    assert_int_equal(cpu_stream_wait(second, FOREVER), FACET_OK);
    assert_string_equal(world.log, "23");
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

/* ---- cancelling one ---- */

static void one_of_several_launches_is_cancelled(void **state)
{
    struct cpu_executor *executor = executor_of(1, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);

    launch(stream, (struct work){.name = '1', .waits_for_go = 1}, 1000);
    launch(stream, (struct work){.name = '2'}, 1);
    launch(stream, (struct work){.name = '3'}, 1);
    sem_wait(&world.began);
    assert_true(cpu_stream_cancel_one(stream, 2));
    assert_true(cpu_stream_cancel_one(stream, 1)); /* while the launch runs */
    sem_post(&world.may_end);
    assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
    assert_string_equal(world.log, "13");
    assert_int_equal(record_of(stream, 0).status, FACET_BAD_STATE);
    assert_int_equal(record_of(stream, 0).groups, 1);
    assert_int_equal(record_of(stream, 1).status, FACET_BAD_STATE);
    assert_int_equal(record_of(stream, 1).start_ns, 0);
    assert_int_equal(record_of(stream, 2).status, FACET_OK);
    assert_int_equal(world.done, 3);
    for (uint64_t sequence = 0; sequence < 5; sequence++)
        assert_false(cpu_stream_cancel_one(stream, sequence));
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

static void a_wait_is_cancelled_like_a_launch(void **state)
{
    struct cpu_executor *executor = executor_of(1, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *first = stream_of(tenant), *second = stream_of(tenant);

    launch(first, (struct work){.name = '1', .waits_for_go = 1}, 1);
    sem_wait(&world.began);
    assert_int_equal(cpu_stream_await(second, first, NULL), FACET_OK);
    assert_true(cpu_stream_cancel_one(second, 1));
    assert_int_equal(cpu_stream_wait(second, 0), FACET_OK);
    assert_int_equal(record_of(second, 0).status, FACET_BAD_STATE);
    sem_post(&world.may_end);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

/* ---- policy ---- */

/*
 * Two tenants share one unit. Each work-group moves the clock by `group_ns`, which may end a turn. A third tenant holds
 * the unit until both have launched.
 */
static void two_take_turns(bool preempt, uint64_t slice_ns, uint64_t group_ns)
{
    struct cpu_executor *executor = executor_of(1, world_now_ns);
    struct cpu_tenant *holder = tenant_of(executor), *tenants[2] = {tenant_of(executor), tenant_of(executor)};
    struct cpu_stream *held = stream_of(holder), *streams[2] = {stream_of(tenants[0]), stream_of(tenants[1])};

    cpu_executor_set_policy(executor, FACET_SCHEDULE_ROUND_ROBIN, preempt, slice_ns);
    launch(held, (struct work){.waits_for_go = 1}, 1);
    sem_wait(&world.began);
    launch(streams[0], (struct work){.name = 'a', .advance_ns = group_ns}, 6);
    launch(streams[1], (struct work){.name = 'b', .advance_ns = group_ns}, 6);
    sem_post(&world.may_end);
    for (int i = 0; i < 2; i++)
        assert_int_equal(cpu_tenant_wait(tenants[i], FOREVER), FACET_OK);
    cpu_tenant_destroy(holder);
    cpu_tenant_destroy(tenants[0]);
    cpu_tenant_destroy(tenants[1]);
    cpu_executor_destroy(executor);
}

static void without_preemption_a_launch_keeps_its_unit(void **state)
{
    two_take_turns(true, 0, 10 * MS);
    assert_string_equal(world.log, "abababababab");
    world_reset(NULL);
    two_take_turns(false, 0, 10 * MS);
    assert_string_equal(world.log, "aaaaaabbbbbb");
}

static void a_slice_is_as_long_as_requested(void **state)
{
    two_take_turns(true, 20 * MS, 10 * MS);
    assert_string_equal(world.log, "aabbaabbaabb");
    world_reset(NULL);
    two_take_turns(true, 30 * MS, 10 * MS);
    assert_string_equal(world.log, "aaabbbaaabbb");
}

static void a_policy_holds_from_the_next_decision_on(void **state)
{
    struct cpu_executor *executor = executor_of(1, world_now_ns);
    struct cpu_tenant *tenants[2] = {tenant_of(executor), tenant_of(executor)};
    struct cpu_stream *streams[2] = {stream_of(tenants[0]), stream_of(tenants[1])};

    cpu_tenant_set_share(tenants[1], 0, 1000, FACET_PRIORITY_HIGH);
    cpu_executor_set_policy(executor, FACET_SCHEDULE_FIFO, true, 0);
    launch(streams[0], (struct work){.name = 'a', .waits_for_go = 1, .advance_ns = 10 * MS}, 4);
    sem_wait(&world.began);
    launch(streams[1], (struct work){.name = 'b', .advance_ns = 10 * MS}, 2);
    sem_post(&world.may_end);
    sem_wait(&world.began);
    assert_string_equal(world.log, "aa"); /* in order of arrival, at any priority */
    cpu_executor_set_policy(executor, FACET_SCHEDULE_PRIORITY, true, 0);
    sem_post(&world.may_end);
    assert_int_equal(cpu_tenant_wait(tenants[1], FOREVER), FACET_OK);
    sem_post(&world.may_end);
    sem_post(&world.may_end);
    assert_int_equal(cpu_tenant_wait(tenants[0], FOREVER), FACET_OK);
    assert_string_equal(world.log, "aabbaa");
    cpu_tenant_destroy(tenants[0]);
    cpu_tenant_destroy(tenants[1]);
    cpu_executor_destroy(executor);
}

/* A pause waits for a running work-group only until its time limit, and no further group begins. */
static void pausing_is_bounded_in_time(void **state)
{
    struct cpu_executor *executor = executor_of(1, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);

    launch(stream, (struct work){.name = 'x', .waits_for_go = 1}, 2);
    sem_wait(&world.began);
    assert_int_equal(cpu_tenant_pause(tenant, true, 1 * MS), FACET_TIMEOUT);
    sem_post(&world.may_end);
    assert_int_equal(cpu_tenant_pause(tenant, true, FOREVER), FACET_OK);
    assert_int_equal(cpu_tenant_wait(tenant, FOREVER), FACET_TIMEOUT); /* a paused job does not complete */
    assert_string_equal(world.log, "x");
    sem_post(&world.may_end);
    assert_int_equal(cpu_tenant_pause(tenant, false, 0), FACET_OK);
    assert_int_equal(cpu_tenant_wait(tenant, FOREVER), FACET_OK);
    assert_string_equal(world.log, "xx");
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(launches_at_a_time_are_bounded, world_reset),
        cmocka_unit_test_setup(cancelled_launches_do_not_count_towards_the_bound, world_reset),
        cmocka_unit_test_setup(both_bounds_of_units_hold, world_reset),
        cmocka_unit_test_setup(a_stream_waits_for_another, world_reset),
        cmocka_unit_test_setup(waits_of_many_streams_end, world_reset),
        cmocka_unit_test_setup(a_wait_for_a_stream_ends_with_the_stream, world_reset),
        cmocka_unit_test_setup(one_of_several_launches_is_cancelled, world_reset),
        cmocka_unit_test_setup(a_wait_is_cancelled_like_a_launch, world_reset),
        cmocka_unit_test_setup(without_preemption_a_launch_keeps_its_unit, world_reset),
        cmocka_unit_test_setup(a_slice_is_as_long_as_requested, world_reset),
        cmocka_unit_test_setup(a_policy_holds_from_the_next_decision_on, world_reset),
        cmocka_unit_test_setup(pausing_is_bounded_in_time, world_reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
