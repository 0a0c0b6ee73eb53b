/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests of launches in a vGPU whose gate is open. Each kind of launch is admitted, counted and measured;
 * captures, fork, and the ends of streams, contexts and threads are handled. The roles in the vGPU are in
 * execution_roles.c. Never: decides by this machine's time: tests compare with the driver's own count.
 *
 * The test program is also the tenant: it starts itself again in a vGPU, with the name of a role.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "execution_roles.h"
#include "world.h"

static const char *self;
static struct world world;
static int vgpu;

/* ---- outside the vGPU ---- */

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

/* Waits up to 10 s until the vGPU has no process and nothing in flight. */
static bool becomes_idle(void)
{
    for (int i = 0; i < 2000; i++) {
        struct facet_usage_totals totals = world_totals(&world, vgpu);

        if (totals.inflight == 0 && totals.inflight_ns == 0 && totals.waiting == 0 && totals.processes == 0)
            return true;
        usleep(5000);
    }
    return false;
}

static void run_role(const char *role)
{
    assert_int_equal(world_wait(start_role(role)), 0);
    assert_true(becomes_idle());
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

    for (int i = 0; i < 2000 && world_totals(&world, vgpu).inflight < 5; i++)
        usleep(5000);
    assert_int_equal(world_totals(&world, vgpu).inflight, 5);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(world_wait(pid), 1000 + SIGKILL);
    assert_true(becomes_idle());
}

static void test_a_launch_into_a_frozen_vgpu_waits(void **state)
{
    struct facet_error error = {0};

    assert_int_equal(scheduler_set_frozen(world.scheduler, world.ids[vgpu], true, &error), FACET_OK);
    pid_t pid = start_role("waits");
    for (int i = 0; i < 2000 && !world_totals(&world, vgpu).waiting; i++)
        usleep(5000);
    assert_int_equal(world_totals(&world, vgpu).waiting, 1);
    usleep(50000); /* the role checks meanwhile that the launch did not reach the driver */
    assert_int_equal(scheduler_set_frozen(world.scheduler, world.ids[vgpu], false, &error), FACET_OK);
    assert_int_equal(world_wait(pid), 0);
    assert_true(becomes_idle());
    assert_true(world_totals(&world, vgpu).throttled_ns > 0);
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc > 1) {
        alarm(60);
        return client_open() ? execution_role(argv[1]) : 3;
    }
#define TEST(role) cmocka_unit_test_setup_teardown(test_##role, setup, teardown),
    const struct CMUnitTest tests[] = {ROLES(TEST) TEST(work_in_flight_at_exit_is_given_up) TEST(
        work_in_flight_of_a_killed_process_is_given_up) TEST(a_launch_into_a_frozen_vgpu_waits)};
#undef TEST
    return cmocka_run_group_tests_name("CUDA launches", tests, NULL, NULL);
}
