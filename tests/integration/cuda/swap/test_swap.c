/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device has 64 MiB; a context costs 1 MiB of it.
 *
 * Owns: proofs that vGPUs whose memory together exceeds the device's keep their data and their addresses.
 * Never: asserts a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/integration/cuda/world.h"

#define MIB             (UINT64_C(1) << 20)
#define LIMIT           (512 * MIB) /* ample: a context may be charged for neighbours' memory (memory/context.h) */
#define WORKING_SET_MIB "48"
#define LAUNCHES        "4000"
#define KERNEL          "add_words_200us"
#define WAIT_NS         (60 * FACET_NS_PER_S)
#define CALL_REFUSED    3 /* a tenant's exit status when the driver refuses a call */

static struct world world;

static int open_world(void **state)
{
    setenv("FAKE_CUDA_MEMORY", "64M", 1);
    setenv("FAKE_CUDA_CONTEXT", "1M", 1);
    setenv("FAKE_CUDA_COPY", "2G", 1);
    setenv("FACET_SWAP_FACTOR", "4", 1); /* the scheduler gives short turns */
    if (!getenv("FAKE_CUDA_HOST"))
        setenv("FAKE_CUDA_HOST", "64G", 1);
    if (!world_open(&world))
        return -1;
    world.quiet = true;
    return 0;
}

static int close_world(void **state)
{
    world_clear(&world);
    world_close(&world);
    unsetenv("FAKE_CUDA_HOST");
    return 0;
}

static pid_t start_tenant(int vgpu, const char *set_mib, const char *launches, const char *kernel)
{
    char *command[] = {getenv("FACET_TEST_CUDA_SWAP_TENANT"), (char *)(uintptr_t)set_mib, (char *)(uintptr_t)launches,
                       (char *)(uintptr_t)kernel, NULL};

    return world_start(&world, vgpu, command);
}

static pid_t start_usual_tenant(int vgpu)
{
    return start_tenant(vgpu, WORKING_SET_MIB, LAUNCHES, KERNEL);
}

static void sleep_ms(unsigned milliseconds)
{
    usleep(milliseconds * 1000);
}

static bool is_partly_swapped_out(int vgpu)
{
    struct facet_usage_totals totals = world_totals(&world, vgpu);

    return totals.resident_bytes < totals.swappable_bytes;
}

static bool is_wholly_resident(int vgpu)
{
    struct facet_usage_totals totals = world_totals(&world, vgpu);

    return totals.swappable_bytes == 48 * MIB && totals.resident_bytes == totals.swappable_bytes;
}

static bool has_half_a_working_set(int vgpu)
{
    return world_totals(&world, vgpu).resident_bytes == 24 * MIB;
}

/* The test fails if `holds` does not return true within WAIT_NS. */
static void wait_until(bool (*holds)(int vgpu), int vgpu)
{
    for (uint64_t end_ns = facet_clock_now_ns() + WAIT_NS; !holds(vgpu); sleep_ms(1))
        assert_true(facet_clock_now_ns() < end_ns);
}

static void assert_no_memory_is_left(int vgpu)
{
    struct facet_usage_totals totals = world_totals(&world, vgpu);

    assert_int_equal(totals.memory_bytes, 0);
    assert_int_equal(totals.swappable_bytes, 0);
    assert_int_equal(totals.resident_bytes, 0);
    assert_int_equal(totals.waiting_resident, 0);
}

static bool has_no_memory(int vgpu)
{
    return world_totals(&world, vgpu).memory_bytes == 0;
}

static bool has_its_working_set(int vgpu)
{
    return world_totals(&world, vgpu).memory_bytes >= 48 * MIB;
}

static bool has_launched_thousands(int vgpu)
{
    return world_totals(&world, vgpu).launches >= 3000;
}

static bool has_launched_twice(int vgpu)
{
    return world_totals(&world, vgpu).launches >= 2;
}

static bool has_launched_thrice(int vgpu)
{
    return world_totals(&world, vgpu).launches >= 3;
}

static void end_tenant(pid_t pid)
{
    kill(pid, SIGTERM);
    assert_int_equal(world_wait(pid), 0);
}

static void test_two_processes_that_each_need_three_quarters_keep_every_word(void **state)
{
    int one = world_add_oversubscribed(&world, LIMIT, 0), other = world_add_oversubscribed(&world, LIMIT, 0);
    pid_t pids[] = {start_tenant(one, WORKING_SET_MIB, "1000000", KERNEL),
                    start_tenant(other, WORKING_SET_MIB, "1000000", KERNEL)};

    for (int i = 0; i < 2; i++) { /* the device has room for one working set, so they must alternate */
        wait_until(is_wholly_resident, one);
        wait_until(is_wholly_resident, other);
    }
    wait_until(has_launched_thousands, one);
    wait_until(has_launched_thousands, other);
    end_tenant(pids[0]);
    end_tenant(pids[1]);
    wait_until(has_no_memory, one);
    wait_until(has_no_memory, other);
    assert_no_memory_is_left(one);
    assert_no_memory_is_left(other);
}

/* Any three working sets of 18 MiB leave room for a context, whose memory is never swapped and does not wait for room
 * (ADR 21). */
static void test_four_processes_in_two_vgpus_keep_every_word(void **state)
{
    int one = world_add_oversubscribed(&world, LIMIT, 700), other = world_add_oversubscribed(&world, LIMIT, 100);
    pid_t pids[4];

    for (int i = 0; i < 4; i++)
        pids[i] = start_tenant(i % 2 ? one : other, "18", "2000", KERNEL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(world_wait(pids[i]), 0);
}

static void test_programs_that_fit_are_never_swapped(void **state)
{
    int one = world_add_oversubscribed(&world, LIMIT, 0), other = world_add_oversubscribed(&world, LIMIT, 0);
    pid_t pids[] = {start_tenant(one, "24", "1000000", KERNEL), start_tenant(other, "24", "1000000", KERNEL)};

    wait_until(has_half_a_working_set, one);
    wait_until(has_half_a_working_set, other);
    for (uint64_t end_ns = facet_clock_now_ns() + WAIT_NS;
         !has_launched_thousands(one) || !has_launched_thousands(other); sleep_ms(5)) {
        assert_true(facet_clock_now_ns() < end_ns);
        assert_false(is_partly_swapped_out(one) || is_partly_swapped_out(other));
    }
    end_tenant(pids[0]);
    end_tenant(pids[1]);
}

/* The kill comes at different moments, to hit different steps of a move. */
static void test_a_program_killed_while_it_is_swapped_blocks_no_other(void **state)
{
    int victim = world_add_oversubscribed(&world, LIMIT, 0), other = world_add_oversubscribed(&world, LIMIT, 0);
    pid_t survivor = start_tenant(other, WORKING_SET_MIB, "1000000", KERNEL);

    for (unsigned i = 0; i < 12; i++) {
        pid_t pid = start_usual_tenant(victim);

        wait_until(is_partly_swapped_out, i % 2 ? victim : other);
        usleep(i * 3700);
        kill(pid, SIGKILL);
        assert_int_equal(world_wait(pid), 1000 + SIGKILL);
        wait_until(has_no_memory, victim);
        assert_no_memory_is_left(victim);
    }
    end_tenant(survivor);
}

/* No process can be swapped out, so the second program is refused memory, and the first keeps all its words. */
static void test_without_host_memory_a_program_is_refused_and_nothing_is_lost(void **state)
{
    int one = world_add_oversubscribed(&world, LIMIT, 0), other = world_add_oversubscribed(&world, LIMIT, 0);
    pid_t first = start_tenant(one, WORKING_SET_MIB, "1000000", KERNEL);

    wait_until(is_wholly_resident, one);
    assert_int_equal(world_wait(start_usual_tenant(other)), CALL_REFUSED);
    end_tenant(first);
    wait_until(has_no_memory, other);
    assert_no_memory_is_left(other);
}

static int open_world_without_host_memory(void **state)
{
    setenv("FAKE_CUDA_HOST", "8M", 1);
    return open_world(state);
}

/* Memory of a vGPU that is not oversubscribed is never moved out: the second program gets an error, and does not wait
 * forever. */
static void test_a_program_is_refused_while_memory_that_never_moves_fills_the_device(void **state)
{
    int plain = world_add(&world, 0, 1000), other = world_add_oversubscribed(&world, LIMIT, 0);
    pid_t holder = start_tenant(plain, WORKING_SET_MIB, "1000000", KERNEL);

    wait_until(has_its_working_set, plain);
    assert_int_equal(world_wait(start_usual_tenant(other)), CALL_REFUSED);
    end_tenant(holder);
}

static void test_frozen_processes_are_swapped_out_and_go_on_when_resumed(void **state)
{
    int one = world_add_oversubscribed(&world, LIMIT, 0), other = world_add_oversubscribed(&world, LIMIT, 0);
    pid_t pid = start_usual_tenant(one);

    wait_until(is_wholly_resident, one);
    assert_int_equal(scheduler_set_frozen(world.scheduler, world.ids[one], true, NULL), FACET_OK);
    assert_int_equal(world_wait(start_usual_tenant(other)), 0);
    assert_true(is_partly_swapped_out(one));
    assert_int_equal(scheduler_set_frozen(world.scheduler, world.ids[one], false, NULL), FACET_OK);
    assert_int_equal(world_wait(pid), 0);
}

static pid_t start_role(int vgpu, const char *role)
{
    char *command[] = {getenv("FACET_TEST_CUDA_SWAP_ROLES"), (char *)(uintptr_t)role, NULL};

    return world_start(&world, vgpu, command);
}

static void test_queries_report_an_allocation_of_parts_as_one(void **state)
{
    int vgpu = world_add_oversubscribed(&world, LIMIT, 0);

    assert_int_equal(world_wait(start_role(vgpu, "facts")), 0);
    wait_until(has_no_memory, vgpu);
    assert_no_memory_is_left(vgpu);
}

/* Starts a role, lets another program take its memory, and tells the role to go on. */
static pid_t start_and_swap_out(int vgpu, const char *role, int other, pid_t *ret_other)
{
    pid_t pid = start_role(vgpu, role);

    wait_until(is_wholly_resident, vgpu);
    *ret_other = start_tenant(other, WORKING_SET_MIB, "1000000", KERNEL);
    wait_until(is_partly_swapped_out, vgpu);
    wait_until(is_wholly_resident, other);
    kill(pid, SIGTERM);
    return pid;
}

static void test_a_context_is_reset_and_memory_freed_while_swapped_out(void **state)
{
    static const char *const roles[] = {"reset", "free"};
    int vgpu = world_add_oversubscribed(&world, LIMIT, 0), other = world_add_oversubscribed(&world, LIMIT, 0);

    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        pid_t neighbour, pid = start_and_swap_out(vgpu, roles[i], other, &neighbour);

        assert_int_equal(world_wait(pid), 0);
        wait_until(has_no_memory, vgpu);
        assert_no_memory_is_left(vgpu);
        end_tenant(neighbour);
        wait_until(has_no_memory, other);
    }
}

/* The device waits for a callback of the first program, the neighbour waits for that program's memory to leave, and the
 * callback waits for a call of the program. */
static void test_a_call_that_the_device_waits_for_is_not_held_up(void **state)
{
    int vgpu = world_add_oversubscribed(&world, LIMIT, 0), other = world_add_oversubscribed(&world, LIMIT, 0);
    pid_t pid = start_role(vgpu, "callback");

    wait_until(is_wholly_resident, vgpu);
    pid_t neighbour = start_tenant(other, WORKING_SET_MIB, "1000000", KERNEL);
    wait_until(has_its_working_set, other);
    sleep_ms(300); /* the swap-out waits for the device by now */
    kill(pid, SIGTERM);
    assert_int_equal(world_wait(pid), 0);
    end_tenant(neighbour);
}

static void test_a_graph_finds_its_memory_on_the_device(void **state)
{
    int vgpu = world_add_oversubscribed(&world, LIMIT, 0), other = world_add_oversubscribed(&world, LIMIT, 0);
    pid_t neighbour, pid = start_and_swap_out(vgpu, "graph", other, &neighbour);

    wait_until(is_wholly_resident, vgpu);
    wait_until(has_launched_thrice, vgpu); /* two signals at once would merge into one */
    end_tenant(pid);
    end_tenant(neighbour);
}

static void test_functions_from_a_lookup_pass_the_quiesce_gate(void **state)
{
    int vgpu = world_add_oversubscribed(&world, LIMIT, 0), other = world_add_oversubscribed(&world, LIMIT, 0);
    pid_t neighbour, pid = start_and_swap_out(vgpu, "lookup", other, &neighbour);

    assert_int_equal(world_wait(pid), 0);
    end_tenant(neighbour);
}

static void test_a_program_that_forks_goes_on(void **state)
{
    int vgpu = world_add_oversubscribed(&world, LIMIT, 0), other = world_add_oversubscribed(&world, LIMIT, 0);
    pid_t neighbour = start_tenant(other, WORKING_SET_MIB, "1000000", KERNEL);

    wait_until(is_wholly_resident, other);
    pid_t pid = start_role(vgpu, "fork");
    assert_int_equal(world_wait(pid), 0);
    end_tenant(neighbour);
}

static bool is_stuck(int vgpu)
{
    struct scheduler_view view;

    assert_int_equal(scheduler_view(world.scheduler, world.ids[vgpu], &view, NULL), FACET_OK);
    return view.stuck;
}

static bool is_swapped_out_again(int vgpu)
{
    return !is_stuck(vgpu) && is_partly_swapped_out(vgpu);
}

/* The holder does not give up the device's memory, so its neighbour is refused and does not wait forever. */
static void expect_refusal(int holder, int other)
{
    assert_int_equal(world_wait(start_usual_tenant(other)), CALL_REFUSED);
    assert_true(is_stuck(holder));
    wait_until(has_no_memory, other);
    assert_no_memory_is_left(other);
}

static void test_a_stopped_process_is_not_waited_for_forever(void **state)
{
    int one = world_add_oversubscribed(&world, LIMIT, 0), other = world_add_oversubscribed(&world, LIMIT, 0);
    pid_t stopped = start_tenant(one, WORKING_SET_MIB, "1000000", KERNEL);

    wait_until(is_wholly_resident, one);
    kill(stopped, SIGSTOP);
    expect_refusal(one, other);
    kill(stopped, SIGCONT);
    pid_t neighbour = start_tenant(other, WORKING_SET_MIB, "1000000", KERNEL);
    wait_until(is_swapped_out_again, one);
    wait_until(is_wholly_resident, other);
    wait_until(is_wholly_resident, one);
    end_tenant(neighbour);
    end_tenant(stopped);
}

static void test_an_open_capture_is_not_waited_for_forever(void **state)
{
    int one = world_add_oversubscribed(&world, LIMIT, 0), other = world_add_oversubscribed(&world, LIMIT, 0);
    pid_t pid = start_role(one, "capture");

    wait_until(has_launched_twice, one);
    expect_refusal(one, other);
    kill(pid, SIGTERM);
    pid_t neighbour = start_tenant(other, WORKING_SET_MIB, "1000000", KERNEL);
    wait_until(is_wholly_resident, other);
    assert_false(is_stuck(one));
    end_tenant(pid);
    end_tenant(neighbour);
}

/* The scheduler waits 1 s for memory that does not leave, instead of 30 s. */
static int open_world_with_short_patience(void **state)
{
    setenv("FACET_SWAP_PATIENCE_S", "1", 1);
    int failed = open_world(state);
    unsetenv("FACET_SWAP_PATIENCE_S");
    return failed;
}

#define IN_WORLD(test)            cmocka_unit_test_setup_teardown(test, open_world, close_world)
#define WITH_SHORT_PATIENCE(test) cmocka_unit_test_setup_teardown(test, open_world_with_short_patience, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_two_processes_that_each_need_three_quarters_keep_every_word),
        IN_WORLD(test_four_processes_in_two_vgpus_keep_every_word),
        IN_WORLD(test_programs_that_fit_are_never_swapped),
        IN_WORLD(test_a_program_killed_while_it_is_swapped_blocks_no_other),
        cmocka_unit_test_setup_teardown(test_without_host_memory_a_program_is_refused_and_nothing_is_lost,
                                        open_world_without_host_memory, close_world),
        IN_WORLD(test_a_program_is_refused_while_memory_that_never_moves_fills_the_device),
        IN_WORLD(test_frozen_processes_are_swapped_out_and_go_on_when_resumed),
        IN_WORLD(test_queries_report_an_allocation_of_parts_as_one),
        IN_WORLD(test_a_context_is_reset_and_memory_freed_while_swapped_out),
        IN_WORLD(test_a_call_that_the_device_waits_for_is_not_held_up),
        IN_WORLD(test_a_graph_finds_its_memory_on_the_device),
        IN_WORLD(test_functions_from_a_lookup_pass_the_quiesce_gate),
        IN_WORLD(test_a_program_that_forks_goes_on),
        WITH_SHORT_PATIENCE(test_a_stopped_process_is_not_waited_for_forever),
        WITH_SHORT_PATIENCE(test_an_open_capture_is_not_waited_for_forever),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
