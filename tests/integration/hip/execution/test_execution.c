/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests of launches in a vGPU whose gate is open. Each kind of launch is admitted, counted and measured;
 * captures, fork, and the ends of streams, devices, threads and the vGPU are handled. The roles in the vGPU are in
 * roles.c. Never: decides by this machine's time: tests compare with the device's own count.
 *
 * The test program is also the tenant: it starts itself again in a vGPU, with the name of a role.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <unistd.h>

#include "client.h"
#include "roles.h"
#include "tests/integration/cuda/world.h"

static const char *self;
static struct world world;
static int vgpu;

static pid_t start_role(const char *role)
{
    char *command[] = {(char *)(uintptr_t)self, (char *)(uintptr_t)role, NULL};

    return world_start(&world, vgpu, command);
}

static int setup(void **state)
{
    assert_true(world_open(&world));
    world.quiet = true;
    vgpu = world_add(&world, 0, FACET_MILLI_WHOLE);
    assert_true(vgpu >= 0);
    return 0;
}

static int teardown(void **state)
{
    world_close(&world);
    return 0;
}

/* Waits until `holds` is true of the vGPU's counts. Returns false after ten seconds. */
static bool wait_for_totals(bool (*holds)(const struct facet_usage_totals *totals))
{
    for (int i = 0; i < 2000; i++) {
        struct facet_usage_totals totals = world_totals(&world, vgpu);

        if (holds(&totals))
            return true;
        usleep(5000);
    }
    return false;
}

static bool is_idle(const struct facet_usage_totals *totals)
{
    return !totals->inflight && !totals->inflight_ns && !totals->waiting && !totals->processes;
}

static bool five_in_flight(const struct facet_usage_totals *totals)
{
    return totals->inflight == 5;
}

static bool one_launch_waits(const struct facet_usage_totals *totals)
{
    return totals->waiting == 1;
}

static bool has_launched(const struct facet_usage_totals *totals)
{
    return totals->launches > 0;
}

static void run_role(const char *role)
{
    assert_int_equal(world_wait(start_role(role)), 0);
    assert_true(wait_for_totals(is_idle));
}

#define TEST(role)                                                                                                     \
    static void test_##role(void **state)                                                                              \
    {                                                                                                                  \
        run_role(#role);                                                                                               \
    }
ROLES(TEST)
#undef TEST

static void test_work_in_flight_at_exit_is_given_up(void **state)
{
    run_role("exit");
}

static void test_work_in_flight_of_a_killed_process_is_given_up(void **state)
{
    pid_t pid = start_role("hang");

    assert_true(wait_for_totals(five_in_flight));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(world_wait(pid), 1000 + SIGKILL);
    assert_true(wait_for_totals(is_idle));
}

static void test_a_launch_into_a_frozen_vgpu_waits(void **state)
{
    struct facet_error error = {0};

    assert_int_equal(scheduler_set_frozen(world.scheduler, world.ids[vgpu], true, &error), FACET_OK);
    pid_t pid = start_role("waits");
    assert_true(wait_for_totals(one_launch_waits));
    usleep(50000); /* the role checks meanwhile that the launch did not reach the runtime */
    assert_int_equal(scheduler_set_frozen(world.scheduler, world.ids[vgpu], false, &error), FACET_OK);
    assert_int_equal(world_wait(pid), 0);
    assert_true(wait_for_totals(is_idle));
    assert_true(world_totals(&world, vgpu).throttled_ns > 0);
}

static void test_a_launch_into_a_destroyed_vgpu_fails(void **state)
{
    struct facet_error error = {0};
    pid_t pid = start_role("outlives");

    assert_true(wait_for_totals(has_launched));
    assert_int_equal(scheduler_remove(world.scheduler, world.ids[vgpu], &error), FACET_OK);
    assert_int_equal(world_wait(pid), 0);
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc > 1) {
        alarm(60);
        return client_open() ? execution_role(argv[1]) : 3;
    }
#define TEST(role) cmocka_unit_test_setup_teardown(test_##role, setup, teardown),
    const struct CMUnitTest tests[] = {
        ROLES(TEST) TEST(work_in_flight_at_exit_is_given_up) TEST(work_in_flight_of_a_killed_process_is_given_up)
            TEST(a_launch_into_a_frozen_vgpu_waits) TEST(a_launch_into_a_destroyed_vgpu_fails)};
#undef TEST
    return cmocka_run_group_tests_name("HIP launches", tests, NULL, NULL);
}
