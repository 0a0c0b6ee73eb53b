/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the executor's work, its order, and its reports. Never: asserts how long anything takes. */
#include "compute/pick.h"
#include "cpu_executor_world.h"

#include <sched.h>

/* ---- work-groups ---- */

#define LOCAL_BYTES   1000u
#define SCRATCH_FIXED 100u
#define SCRATCH_ITEM  16u

static atomic_uint cube[7 * 5 * 3], wrong;

static bool is_misaligned(const void *pointer, uint64_t align)
{
    return (uintptr_t)pointer % align != 0;
}

/* Writes all memory that the group may use, and checks the arguments. */
static void run_cube(const void *arguments, const struct facet_host_group *group)
{
    const struct facet_host_group expected = {
        .grid = {7, 5, 3}, .group_size = {8, 4, 2}, .offset = {1, 2, 3}, .dimensions = 2};

    if (is_misaligned(arguments, FACET_HOST_LOCAL_ALIGN) || is_misaligned(group->local, FACET_HOST_VARIABLE_ALIGN) ||
        is_misaligned(group->scratch, FACET_HOST_VARIABLE_ALIGN) ||
        memcmp(group->grid, expected.grid, sizeof expected.grid) != 0 ||
        memcmp(group->group_size, expected.group_size, sizeof expected.group_size) != 0 ||
        memcmp(group->offset, expected.offset, sizeof expected.offset) != 0 ||
        group->dimensions != expected.dimensions || group->check != &wrong)
        atomic_fetch_add(&wrong, 1);
    memset(group->local, 1, LOCAL_BYTES + 24);
    memset(group->scratch, 2, SCRATCH_FIXED + 64 * SCRATCH_ITEM);
    run_work(arguments, group);
}

static void each_group_runs_once_with_its_index_and_memory(void **state)
{
    const struct facet_host_kernel kernel = {.name = "cube",
                                             .run = run_cube,
                                             .local_bytes = LOCAL_BYTES,
                                             .scratch_fixed_bytes = SCRATCH_FIXED,
                                             .scratch_item_bytes = SCRATCH_ITEM};
    struct facet_launch request = request_of(7, 5, 3);
    const struct work work = {.run_counts = cube};
    struct facet_launch_record record;

    memcpy(request.group, (uint32_t[]){8, 4, 2}, sizeof request.group);
    memcpy(request.offset, (uint32_t[]){1, 2, 3}, sizeof request.offset);
    request.dimensions = 2;
    request.local_bytes = 24;
    for (uint32_t units = 1; units <= 4; units++) {
        struct cpu_executor *executor = executor_of(units, NULL);
        struct cpu_tenant *tenant = tenant_of(executor);
        struct cpu_stream *stream = stream_of(tenant);

        memset(cube, 0, sizeof cube);
        assert_int_equal(cpu_stream_launch(stream, &kernel, &request, &work, NULL, &wrong, NULL, NULL, NULL), FACET_OK);
        assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
        for (size_t i = 0; i < sizeof cube / sizeof cube[0]; i++)
            assert_int_equal(cube[i], 1);
        assert_int_equal(wrong, 0);
        assert_int_equal(cpu_stream_records(stream, 0, &record, 1), 1);
        assert_int_equal(record.groups, 7 * 5 * 3);
        assert_int_equal(record.status, FACET_OK);
        assert_in_range(record.units, 1, units);
        cpu_tenant_destroy(tenant);
        cpu_executor_destroy(executor);
    }
}

/* Two tenants take turns on each unit. Groups that a unit had claimed when it turned away run on another unit. */
static void preempted_groups_run_once(void **state)
{
    enum { GROUPS = 60000 };
    static atomic_uint ran[2][GROUPS];
    struct cpu_executor *executor = executor_of(3, NULL);
    struct cpu_tenant *tenants[2] = {tenant_of(executor), tenant_of(executor)};
    struct cpu_stream *streams[2] = {stream_of(tenants[0]), stream_of(tenants[1])};

    for (int i = 0; i < 2; i++)
        launch(streams[i], (struct work){.run_counts = ran[i]}, GROUPS);
    for (int i = 0; cpu_tenant_wait(tenants[0], 20 * US) == FACET_TIMEOUT && i < 10000; i++)
        cpu_stream_set_priority(streams[i % 2], (uint32_t)i % 3); /* each unit decides again */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cpu_tenant_wait(tenants[i], FOREVER), FACET_OK);
        for (size_t group = 0; group < GROUPS; group++)
            assert_int_equal(ran[i][group], 1);
        cpu_tenant_destroy(tenants[i]);
    }
    cpu_executor_destroy(executor);
}

/* Each of the job's work-groups waits until the other has begun, so that both must run at once. */
static void one_job_runs_on_several_units(void **state)
{
    struct cpu_executor *executor = executor_of(2, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);
    struct facet_launch_record record;

    launch(stream, (struct work){.waits_for_go = 1}, 2);
    sem_wait(&world.began);
    sem_wait(&world.began);
    assert_int_equal(cpu_tenant_units_active(tenant), 2);
    sem_post(&world.may_end);
    sem_post(&world.may_end);
    assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
    assert_int_equal(cpu_stream_records(stream, 0, &record, 1), 1);
    assert_int_equal(record.units, 2);
    assert_int_equal(cpu_tenant_units_active(tenant), 0);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

static void units_of_a_tenant_are_a_hard_limit(void **state)
{
    struct cpu_executor *executor = executor_of(4, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *streams[3] = {stream_of(tenant), stream_of(tenant), stream_of(tenant)};

    cpu_tenant_set_units(tenant, 2);
    for (int i = 0; i < 3; i++)
        launch(streams[i], (struct work){.waits_for_go = 1}, 4);
    sem_wait(&world.began);
    sem_wait(&world.began);
    assert_int_equal(cpu_tenant_units_active(tenant), 2);
    for (int i = 0; i < 12; i++)
        sem_post(&world.may_end);
    assert_int_equal(cpu_tenant_wait(tenant, FOREVER), FACET_OK);
    assert_int_equal(world.inside_most, 2);
    cpu_tenant_set_units(tenant, 4); /* all four begin before one may end */
    world_reset(NULL);
    launch(streams[0], (struct work){.waits_for_go = 1}, 4);
    for (int i = 0; i < 4; i++)
        sem_wait(&world.began);
    for (int i = 0; i < 4; i++)
        sem_post(&world.may_end);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

/* ---- order ---- */

static enum facet_status run_transfer(void *owner)
{
    world_log(*(const char *)owner);
    return *(const char *)owner == 'x' ? FACET_OUT_OF_RANGE : FACET_OK;
}

static void transfer_done(void *owner)
{
    world_log((char)(*(const char *)owner - 'a' + 'A'));
}

static void call_stream(struct cpu_stream *stream, const char *name)
{
    assert_int_equal(cpu_stream_call(stream, run_transfer, transfer_done, (void *)name, NULL), FACET_OK);
}

static void a_stream_runs_in_order(void **state)
{
    struct cpu_executor *executor = executor_of(4, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);

    launch(stream, (struct work){.name = '1'}, 3);
    call_stream(stream, "a");
    launch(stream, (struct work){.name = '2'}, 2);
    call_stream(stream, "b");
    call_stream(stream, "c");
    assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
    assert_string_equal(world.log, "111aA22bBcC");
    assert_int_equal(world.done, 2);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

static void the_first_failure_is_kept_and_later_launches_run(void **state)
{
    struct cpu_executor *executor = executor_of(2, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);
    struct facet_launch_record records[4];
    struct facet_stream_state now;

    call_stream(stream, "a");
    call_stream(stream, "x");
    launch(stream, (struct work){.name = '1'}, 1);
    call_stream(stream, "x");
    assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
    assert_string_equal(world.log, "aAxX1xX");
    cpu_stream_state(stream, &now);
    assert_int_equal(now.failed, (uint32_t)-FACET_OUT_OF_RANGE);
    assert_int_equal(now.launched, 4);
    assert_int_equal(now.completed, 4);
    assert_int_equal(cpu_stream_records(stream, 0, records, 4), 4);
    assert_int_equal(records[0].status, FACET_OK);
    assert_int_equal(records[1].status, FACET_OUT_OF_RANGE);
    assert_int_equal(records[2].status, FACET_OK);
    assert_string_equal(records[2].kernel, "work");
    assert_string_equal(records[3].kernel, "");
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

/*
 * A unit runs a work-group ('l') of the first stream when work of the second ('h') arrives. `expected`: the order. In
 * "lhl" the second has the better claim, and preempts the first between its two groups.
 */
static void assert_preempts(struct cpu_stream *first, struct cpu_stream *second, const char *expected)
{
    struct facet_launch_record record;

    launch(first, (struct work){.name = 'l', .waits_for_go = 1}, 2);
    sem_wait(&world.began);
    launch(second, (struct work){.name = 'h'}, 1);
    sem_post(&world.may_end);
    sem_post(&world.may_end);
    assert_int_equal(cpu_stream_wait(first, FOREVER), FACET_OK);
    assert_int_equal(cpu_stream_wait(second, FOREVER), FACET_OK);
    assert_string_equal(world.log, expected);
    assert_int_equal(cpu_stream_records(first, 0, &record, 1), 1);
    assert_int_equal(record.preemptions, strcmp(expected, "lhl") == 0);
    assert_int_equal(record.groups, 2);
}

static void a_tenant_of_high_priority_goes_first(void **state)
{
    struct cpu_executor *executor = executor_of(1, NULL);
    struct cpu_tenant *low = tenant_of(executor), *high = tenant_of(executor);

    cpu_tenant_set_share(high, 0, 1000, FACET_PRIORITY_HIGH);
    assert_preempts(stream_of(low), stream_of(high), "lhl");
    cpu_tenant_destroy(low);
    cpu_tenant_destroy(high);
    cpu_executor_destroy(executor);
}

static void a_stream_of_high_priority_goes_first(void **state)
{
    struct cpu_executor *executor = executor_of(1, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *low = stream_of(tenant), *high = stream_of(tenant);

    cpu_stream_set_priority(high, FACET_PRIORITY_HIGH);
    assert_preempts(low, high, "lhl");
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

static void a_stream_of_low_priority_waits(void **state)
{
    struct cpu_executor *executor = executor_of(1, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *first = stream_of(tenant), *low = stream_of(tenant);

    cpu_stream_set_priority(low, FACET_PRIORITY_LOW);
    assert_preempts(first, low, "llh");
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

/* ---- cancelling, pausing, waiting ---- */

static void cancelling_stops_between_groups_and_drops_the_rest(void **state)
{
    struct cpu_executor *executor = executor_of(1, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);
    struct facet_launch_record records[4];
    struct facet_stream_state now;

    launch(stream, (struct work){.name = '1', .waits_for_go = 1}, 100);
    launch(stream, (struct work){.name = '2'}, 1);
    call_stream(stream, "a");
    sem_wait(&world.began);
    cpu_stream_cancel(stream);
    launch(stream, (struct work){.name = '3'}, 1);
    sem_post(&world.may_end);
    assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
    assert_string_equal(world.log, "1A3");
    assert_int_equal(world.done, 3);
    cpu_stream_state(stream, &now);
    assert_int_equal(now.failed, 0);
    assert_int_equal(now.completed, 4);
    assert_int_equal(cpu_stream_records(stream, 0, records, 4), 4);
    assert_int_equal(records[0].status, FACET_BAD_STATE);
    assert_int_equal(records[0].groups, 1);
    assert_int_equal(records[1].status, FACET_BAD_STATE);
    assert_int_equal(records[1].start_ns, 0);
    assert_true(records[1].end_ns >= records[1].queued_ns);
    assert_int_equal(records[2].status, FACET_BAD_STATE);
    assert_int_equal(records[3].status, FACET_OK);
    assert_int_equal(records[3].sequence, 4);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

/* The thread that cancels a job which never began reports it before cancelling returns. */
static void a_job_that_never_began_is_reported_by_the_canceller(void **state)
{
    struct cpu_executor *executor = executor_of(1, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);

    assert_int_equal(cpu_tenant_pause(tenant, true, FOREVER), FACET_OK);
    launch(stream, (struct work){.name = '1'}, 1);
    launch(stream, (struct work){.name = '2'}, 1);
    cpu_stream_cancel(stream);
    assert_int_equal(world.done, 2);
    assert_int_equal(cpu_stream_wait(stream, 0), FACET_OK);
    assert_string_equal(world.log, "");
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

static void pausing_returns_when_no_unit_is_inside(void **state)
{
    atomic_uint ran = 0;
    struct cpu_executor *executor = executor_of(2, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);
    struct facet_launch_record record;

    launch(stream, (struct work){.run_total = &ran}, 1u << 22);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cpu_tenant_pause(tenant, true, FOREVER), FACET_OK);
        unsigned before = ran;

        assert_int_equal(cpu_tenant_units_active(tenant), 0);
        assert_int_equal(cpu_stream_wait(stream, 2 * MS), before == 1u << 22 ? FACET_OK : FACET_TIMEOUT);
        assert_int_equal(ran, before);
        assert_int_equal(cpu_tenant_pause(tenant, false, FOREVER), FACET_OK);
    }
    assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
    assert_int_equal(ran, 1u << 22);
    assert_int_equal(cpu_stream_records(stream, 0, &record, 1), 1);
    assert_int_equal(record.groups, 1u << 22);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

static void waits_end_when_the_work_has_run(void **state)
{
    struct cpu_executor *executor = executor_of(1, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);

    assert_int_equal(cpu_stream_wait(stream, 0), FACET_OK);
    assert_int_equal(cpu_tenant_wait(tenant, 0), FACET_OK);
    launch(stream, (struct work){.waits_for_go = 1}, 1);
    sem_wait(&world.began);
    assert_int_equal(cpu_stream_wait(stream, 0), FACET_TIMEOUT);
    assert_int_equal(cpu_stream_wait(stream, MS), FACET_TIMEOUT);
    assert_int_equal(cpu_tenant_wait(tenant, MS), FACET_TIMEOUT);
    assert_int_equal(world.done, 0);
    sem_post(&world.may_end);
    assert_int_equal(cpu_tenant_wait(tenant, FOREVER), FACET_OK);
    assert_int_equal(world.done, 1);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

static void destroying_a_stream_ends_running_launches(void **state)
{
    atomic_uint ran = 0;
    struct cpu_executor *executor = executor_of(2, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);

    launch(stream, (struct work){.run_total = &ran}, 1u << 31);
    launch(stream, (struct work){.run_total = &ran}, 1u << 31);
    while (ran == 0)
        sched_yield();
    cpu_stream_destroy(stream);
    assert_int_equal(world.inside, 0);
    assert_int_equal(world.done, 2);
    assert_in_range(ran, 1, (1u << 31) - 1);
    assert_int_equal(cpu_tenant_units_active(tenant), 0);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

/* ---- records, refusals ---- */

static enum facet_status no_work(void *owner)
{
    (void)owner;
    return FACET_OK;
}

static void the_last_records_are_kept(void **state)
{
    static struct facet_launch_record records[2000];
    struct cpu_executor *executor = executor_of(1, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);

    for (int i = 0; i < 1500; i++)
        assert_int_equal(cpu_stream_call(stream, no_work, NULL, NULL, NULL), FACET_OK);
    assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
    assert_int_equal(cpu_stream_records(stream, 0, NULL, 0), 1024);
    assert_int_equal(cpu_stream_records(stream, 1490, records, 3), 10);
    assert_int_equal(records[2].sequence, 1493);
    assert_int_equal(records[3].sequence, 0);
    assert_int_equal(cpu_stream_records(stream, 0, records, 2000), 1024);
    for (size_t i = 0; i < 1024; i++) {
        assert_int_equal(records[i].sequence, 477 + i);
        assert_int_equal(records[i].size, sizeof records[i]);
        assert_true(records[i].queued_ns <= records[i].start_ns && records[i].start_ns <= records[i].end_ns);
    }
    assert_int_equal(cpu_stream_records(stream, 1500, records, 1), 0);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

static void impossible_options_are_refused(void **state)
{
    static struct cpu_tenant *tenants[FACET_PICK_ENTITIES];
    static const struct cpu_executor_options refused[] = {{.units = 0}, {.units = 257}, {.units = 1, .policy = 4}};
    struct cpu_executor *executor = NULL;
    struct cpu_tenant *tenant = NULL;
    struct facet_error error;

    for (size_t i = 0; i < 3; i++)
        assert_int_equal(cpu_executor_create(&refused[i], &executor, &error), FACET_OUT_OF_RANGE);
    assert_null(executor);
    assert_non_null(strstr(error.message, "policy 4"));
    executor = executor_of(256, NULL);
    for (size_t i = 0; i < FACET_PICK_ENTITIES; i++)
        tenants[i] = tenant_of(executor);
    assert_int_equal(cpu_tenant_create(executor, &tenant, &error), FACET_NO_MEMORY);
    assert_null(tenant);
    for (size_t i = 0; i < FACET_PICK_ENTITIES; i++)
        cpu_tenant_destroy(tenants[i]);
    cpu_executor_destroy(executor);
    cpu_tenant_destroy(NULL);
    cpu_stream_destroy(NULL);
    cpu_executor_destroy(NULL);
}

/* ---- checked images ---- */

static void log_barrier(void *check)
{
    world_log(*(const char *)check);
}

static void checked_groups_run_one_at_a_time(void **state)
{
    const struct facet_host_check check = {.size = sizeof check, .barrier = log_barrier};
    const struct facet_launch request = request_of(5, 1, 1);
    const struct work work = {.name = 'g', .waits_for_go = 1};
    struct cpu_executor *executor = executor_of(4, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);

    assert_int_equal(cpu_stream_launch(stream, &work_kernel, &request, &work, &check, (void *)"|", NULL, NULL, NULL),
                     FACET_OK);
    sem_wait(&world.began);
    assert_int_equal(cpu_stream_wait(stream, 20 * MS), FACET_TIMEOUT); /* time in which other groups could begin */
    assert_int_equal(cpu_tenant_units_active(tenant), 1);
    for (int i = 0; i < 5; i++)
        sem_post(&world.may_end);
    assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
    assert_int_equal(world.inside_most, 1);
    assert_string_equal(world.log, "|g|g|g|g|g");
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_group_runs_once_with_its_index_and_memory, world_reset),
        cmocka_unit_test_setup(preempted_groups_run_once, world_reset),
        cmocka_unit_test_setup(one_job_runs_on_several_units, world_reset),
        cmocka_unit_test_setup(units_of_a_tenant_are_a_hard_limit, world_reset),
        cmocka_unit_test_setup(a_stream_runs_in_order, world_reset),
        cmocka_unit_test_setup(the_first_failure_is_kept_and_later_launches_run, world_reset),
        cmocka_unit_test_setup(a_tenant_of_high_priority_goes_first, world_reset),
        cmocka_unit_test_setup(a_stream_of_high_priority_goes_first, world_reset),
        cmocka_unit_test_setup(a_stream_of_low_priority_waits, world_reset),
        cmocka_unit_test_setup(cancelling_stops_between_groups_and_drops_the_rest, world_reset),
        cmocka_unit_test_setup(a_job_that_never_began_is_reported_by_the_canceller, world_reset),
        cmocka_unit_test_setup(pausing_returns_when_no_unit_is_inside, world_reset),
        cmocka_unit_test_setup(waits_end_when_the_work_has_run, world_reset),
        cmocka_unit_test_setup(destroying_a_stream_ends_running_launches, world_reset),
        cmocka_unit_test_setup(the_last_records_are_kept, world_reset),
        cmocka_unit_test_setup(impossible_options_are_refused, world_reset),
        cmocka_unit_test_setup(checked_groups_run_one_at_a_time, world_reset),
    };
    return cmocka_run_group_tests_name("cpu executor", tests, NULL, NULL);
}
