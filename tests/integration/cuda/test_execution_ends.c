/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests that a cap on compute time holds for programs that end a context, a device or themselves before their
 * launches are measured.
 * The driver's own count of device time is compared with the elapsed time. Never: names a vendor (ends_role.h).
 *
 * The test program is also the tenant: it starts itself again in a vGPU, with the name of a role and a count.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "client.h"
#include "ends_role.h"
#include "world.h"

#define LIMIT_MILLI  200u
#define LAUNCH_COUNT 20u /* of each role */

static const char *self;
static struct world world;
static int vgpu;

/* All tests use one machine, because a process can join only one. */
static int open_world(void **state)
{
    assert_true(world_open(&world));
    world.quiet = true;
    return 0;
}

static int close_world(void **state)
{
    world_close(&world);
    return 0;
}

static int setup(void **state)
{
    vgpu = world_add(&world, LIMIT_MILLI, LIMIT_MILLI);
    assert_true(vgpu >= 0);
    return 0;
}

static int teardown(void **state)
{
    world_clear(&world);
    return 0;
}

static uint64_t driver_ns(void)
{
    return atomic_load(&fake_state()->devices[0].engine.busy_ns);
}

/* Waits up to 10 s until all launches are reported, or given up if their process did not report them. */
static bool becomes_idle(int other_vgpu)
{
    for (int i = 0; i < 2000; i++) {
        struct facet_usage_totals totals = world_totals(&world, other_vgpu);

        if (totals.inflight == 0 && totals.processes == 0)
            return true;
        usleep(5000);
    }
    return false;
}

/* Runs `processes` processes, one after the other, which make LAUNCH_COUNT launches together. The driver may have spent
 * up to half more than the limit. */
static void run_processes(const char *role, unsigned processes, int status)
{
    char count[16];
    char *command[] = {(char *)(uintptr_t)self, (char *)(uintptr_t)role, count, NULL};
    uint64_t begun_ns = facet_clock_now_ns(), before_ns = driver_ns();

    snprintf(count, sizeof count, "%u", LAUNCH_COUNT / processes);
    for (unsigned i = 0; i < processes; i++)
        assert_int_equal(world_wait(world_start(&world, vgpu, command)), status);
    uint64_t took_ns = facet_clock_now_ns() - begun_ns, used_ns = driver_ns() - before_ns;
    assert_true(becomes_idle(vgpu));
    uint64_t reported_ns = world_totals(&world, vgpu).busy_ns;
    printf("# %s: used %llu milli, limit %u milli; device time by the driver %.1f ms, reported %.1f ms\n", role,
           (unsigned long long)(used_ns * FACET_MILLI_WHOLE / took_ns), LIMIT_MILLI, (double)used_ns / 1e6,
           (double)reported_ns / 1e6);
    assert_true(used_ns >= (uint64_t)LAUNCH_COUNT * ENDS_KERNEL_US * FACET_NS_PER_US);
    assert_true(reported_ns >= used_ns * 9 / 10);
    assert_true(reported_ns <= facet_clock_now_ns() - begun_ns);
    assert_true(used_ns * FACET_MILLI_WHOLE <= took_ns * LIMIT_MILLI * 3 / 2);
}

/*
 * A process that waited for its launches reports them before it ends, and the process that reaps its slot does not
 * report them again.
 */
static void run_waiting_role(const char *role, uint32_t limit_milli, int status)
{
    int other_vgpu = world_add(&world, 0, limit_milli);
    char *command[] = {(char *)(uintptr_t)self, (char *)(uintptr_t)role, (char *)(uintptr_t) "20" /* LAUNCH_COUNT */,
                       NULL};

    assert_true(other_vgpu >= 0);
    struct facet_usage_totals before = world_totals(&world, other_vgpu);
    uint64_t begun_ns = facet_clock_now_ns(), driver_before_ns = driver_ns();
    assert_int_equal(world_wait(world_start(&world, other_vgpu, command)), status);
    uint64_t took_ns = facet_clock_now_ns() - begun_ns, used_ns = driver_ns() - driver_before_ns;
    struct facet_usage_totals after = world_totals(&world, other_vgpu);
    uint64_t reported_ns = after.busy_ns - before.busy_ns;
    bool one_unfinished =
        strstr(role, "event"); /* each wait is for the first of two launches: the very last launch has not ended */
    printf("# %s, limit %u milli: %llu launches, device time by the driver %.1f ms, reported %.1f ms\n", role,
           limit_milli, (unsigned long long)(after.launches - before.launches), (double)used_ns / 1e6,
           (double)reported_ns / 1e6);
    assert_in_range(after.launches - before.launches,
                    one_unfinished ? LAUNCH_COUNT + LAUNCH_COUNT / 4 - 1 : LAUNCH_COUNT,
                    one_unfinished ? LAUNCH_COUNT + LAUNCH_COUNT / 4 : LAUNCH_COUNT);
    assert_true(reported_ns >= (uint64_t)LAUNCH_COUNT * ENDS_SHORT_US * FACET_NS_PER_US * 9 / 10 &&
                reported_ns <= took_ns);
    assert_true(becomes_idle(other_vgpu));
    assert_int_equal(world_totals(&world, other_vgpu).launches, after.launches);
    if (!one_unfinished)
        assert_int_equal(world_totals(&world, other_vgpu).busy_ns, after.busy_ns);
}

#define WAITED(way)                                                                                                    \
    static void test_launches_are_reported_by_a_process_that_waits_by_##way(void **state)                              \
    {                                                                                                                  \
        int status = strcmp(#way, "killed") == 0 ? 1000 + SIGKILL : 0;                                                 \
                                                                                                                       \
        run_waiting_role("waited_" #way, FACET_MILLI_WHOLE, status);                                                   \
        run_waiting_role("waited_" #way, 900, status);                                                                 \
    }
ENDS_WAYS(WAITED)
#undef WAITED

#define TEST(role, processes, status)                                                                                  \
    static void test_the_limit_holds_for_##role(void **state)                                                          \
    {                                                                                                                  \
        run_processes(#role, processes, status);                                                                       \
    }
TEST(contexts, 1, 0)
TEST(resets, 1, 0)
TEST(unwaited, 1, 0)
TEST(worker, LAUNCH_COUNT, 0)
TEST(killed, LAUNCH_COUNT, 1000 + SIGKILL)
#undef TEST

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc > 2) {
        alarm(60);
        return client_open() ? ends_role(argv[1], (unsigned)atoi(argv[2])) : 3;
    }
#define TEST(role)  cmocka_unit_test_setup_teardown(test_the_limit_holds_for_##role, setup, teardown)
#define WAITED(way) cmocka_unit_test_teardown(test_launches_are_reported_by_a_process_that_waits_by_##way, teardown),
    const struct CMUnitTest tests[] = {ENDS_WAYS(WAITED) TEST(contexts), TEST(resets), TEST(unwaited), TEST(worker),
                                       TEST(killed)};
#undef TEST
#undef WAITED
    return cmocka_run_group_tests_name("programs that end before their launches are measured", tests, open_world,
                                       close_world);
}
