/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: launches in phases: their order, one record for all, failing and cancelling. Never: asserts a duration. */
#include "cpu_executor_world.h"

#include <sched.h>

enum { PHASES = 5, GROUPS = 64 };

static const uint64_t ends[PHASES] = {1, 30, 31, 60, GROUPS};
static atomic_uint ran[GROUPS], early, ran_all;
static atomic_int failure;

static uint32_t begin_of(uint32_t group)
{
    uint32_t begin = 0;

    for (int i = 0; i < PHASES && ends[i] <= group; i++)
        begin = (uint32_t)ends[i];
    return begin;
}

/* Counts the groups that began before all earlier phases had ended. */
static void run_phase(const void *arguments, const struct facet_host_group *group)
{
    uint32_t me = group->group_id[0];

    world_enter();
    for (uint32_t i = 0; i < begin_of(me); i++) {
        if (atomic_load(&ran[i]) == 0)
            atomic_fetch_add(&early, 1);
    }
    if (*(const uint32_t *)arguments == me) {
        sem_post(&world.began);
        sem_wait(&world.may_end);
    }
    sched_yield();
    atomic_fetch_add(&ran[me], 1);
    atomic_fetch_add(&ran_all, 1);
    atomic_fetch_sub(&world.inside, 1);
}

static const struct facet_host_kernel kernel = {.name = "phases", .run = run_phase, .argument_bytes = 4};

static void queue_phases(struct cpu_stream *stream, uint32_t blocking)
{
    static const struct cpu_phases phases = {PHASES, ends, &failure};
    struct facet_launch request = request_of(GROUPS, 1, 1);

    request.argument_bytes = sizeof blocking;
    memset(ran, 0, sizeof ran);
    atomic_store(&ran_all, 0);
    atomic_store(&early, 0);
    assert_int_equal(cpu_stream_launch_phases(stream, &kernel, &request, &blocking, &phases, count_done, NULL, NULL),
                     FACET_OK);
}

static struct facet_launch_record only_record(struct cpu_stream *stream)
{
    struct facet_launch_record record;
    struct facet_stream_state state;

    assert_int_equal(cpu_stream_records(stream, 0, &record, 1), 1);
    cpu_stream_state(stream, &state);
    assert_int_equal(state.launched, 1);
    assert_int_equal(state.completed, 1);
    assert_int_equal(world.done, 1);
    return record;
}

static void a_phase_begins_when_the_previous_one_has_ended(void **state)
{
    for (uint32_t units = 1; units <= 4; units++) {
        struct cpu_executor *executor = executor_of(units, NULL);
        struct cpu_tenant *tenant = tenant_of(executor), *other = tenant_of(executor);
        struct cpu_stream *stream = stream_of(tenant), *others = stream_of(other);

        world_reset(state);
        launch(others, (struct work){0}, 20000); /* takes turns with the phases */
        queue_phases(stream, UINT32_MAX);
        assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
        for (int i = 0; i < GROUPS; i++)
            assert_int_equal(ran[i], 1);
        assert_int_equal(early, 0);
        assert_int_equal(cpu_stream_wait(others, FOREVER), FACET_OK);
        assert_int_equal(world.done, 2);
        atomic_fetch_sub(&world.done, 1);
        assert_int_equal(only_record(stream).groups, GROUPS);
        assert_int_equal(only_record(stream).status, FACET_OK);
        cpu_tenant_destroy(tenant);
        cpu_tenant_destroy(other);
        cpu_executor_destroy(executor);
    }
}

/* A launch whose first phase is done is not complete. */
static void a_launch_cancelled_between_phases_is_cancelled(void **state)
{
    struct cpu_executor *executor = executor_of(2, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);
    (void)state;

    queue_phases(stream, 0);
    sem_wait(&world.began);
    cpu_stream_cancel(stream);
    sem_post(&world.may_end);
    assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
    assert_int_equal(ran_all, 1);
    assert_int_equal(only_record(stream).status, FACET_BAD_STATE);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

static void a_failed_group_ends_all_phases(void **state)
{
    struct cpu_executor *executor = executor_of(2, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);
    (void)state;

    queue_phases(stream, 30);
    sem_wait(&world.began);
    atomic_store(&failure, FACET_NO_MEMORY);
    sem_post(&world.may_end);
    assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
    assert_int_equal(ran_all, 31);
    assert_int_equal(only_record(stream).status, FACET_NO_MEMORY);
    atomic_store(&failure, FACET_OK);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_phase_begins_when_the_previous_one_has_ended, world_reset),
        cmocka_unit_test_setup(a_launch_cancelled_between_phases_is_cancelled, world_reset),
        cmocka_unit_test_setup(a_failed_group_ends_all_phases, world_reset),
    };

    return cmocka_run_group_tests_name("executor phases", tests, NULL, NULL);
}
