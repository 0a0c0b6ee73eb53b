/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of gates, depth and pacing. Never: asserts exact times: all bounds leave room for a slow machine. */
#include "segment_fixture.h"

#include <pthread.h>
#include <signal.h>

#include "limiter/pace.h"

#define LIVED_US      60000u                  /* how long a child works at least before it is killed */
#define DEPTH_WAIT_NS (100 * FACET_NS_PER_MS) /* the longest that a thread waits for the depth */

struct launcher {
    struct facet_tenant *tenant;
    uint64_t estimate_ns, charged_ns, admitted_ns;
    _Atomic bool admitted_yet;
    pthread_t thread;
};

static void *launch_main(void *argument)
{
    struct launcher *launcher = argument;

    launcher->charged_ns = facet_tenant_launch(launcher->tenant, launcher->estimate_ns);
    launcher->admitted_ns = facet_clock_now_ns();
    atomic_store(&launcher->admitted_yet, true);
    return NULL;
}

static void start_launcher(struct launcher *launcher, struct facet_tenant *tenant, uint64_t estimate_ns)
{
    *launcher = (struct launcher){.tenant = tenant, .estimate_ns = estimate_ns};
    assert_int_equal(pthread_create(&launcher->thread, NULL, launch_main, launcher), 0);
}

static void finish_launcher(struct launcher *launcher)
{
    pthread_join(launcher->thread, NULL);
    facet_tenant_complete(launcher->tenant, 1, launcher->charged_ns, 0, facet_clock_now_ns());
}

/* Waits for some milliseconds; returns early when `admitted_yet`. */
static bool is_admitted_within(unsigned ms, const _Atomic bool *admitted_yet)
{
    for (unsigned i = 0; i < ms && !atomic_load(admitted_yet); i++)
        usleep(1000);
    return atomic_load(admitted_yet);
}

static void test_open_gate_costs_no_wait(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);

    facet_owner_set_gate(fixture->owner, FACET_GATE_OPEN);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(facet_tenant_launch(&tenant, 10), 0);
    assert_int_equal(fixture_totals(fixture).inflight, 1000);
    facet_tenant_complete(&tenant, 1000, 0, 77, facet_clock_now_ns());

    struct facet_usage_totals totals = fixture_totals(fixture);
    assert_int_equal(totals.inflight, 0);
    assert_int_equal(totals.launches, 1000);
    assert_int_equal(totals.busy_ns, 77);
    assert_int_equal(totals.throttled_ns, 0);
    facet_tenant_detach(&tenant);
}

/* The charge of a refused launch is returned, and the program's other launches stay in flight. */
static void test_a_refused_launch_is_not_counted(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);

    facet_owner_set_gate(fixture->owner, FACET_GATE_LEASED);
    assert_int_equal(facet_tenant_launch(&tenant, 1000), 1000);
    assert_int_equal(facet_tenant_launch(&tenant, 500), 500);
    facet_tenant_refused(&tenant, 500);
    assert_int_equal(fixture_totals(fixture).inflight, 1);
    assert_int_equal(fixture_totals(fixture).inflight_ns, 1000);
    assert_int_equal(fixture_totals(fixture).launches, 0);
    facet_tenant_complete(&tenant, 1, 1000, 900, facet_clock_now_ns());
    assert_int_equal(fixture_totals(fixture).inflight, 0);
    assert_int_equal(fixture_totals(fixture).launches, 1);
    facet_tenant_detach(&tenant);
}

static void test_closed_gate_waits_until_opened(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct launcher launcher;

    start_launcher(&launcher, &tenant, 0);
    assert_false(is_admitted_within(60, &launcher.admitted_yet));
    assert_int_equal(fixture_totals(fixture).waiting, 1);
    assert_int_equal(fixture_totals(fixture).inflight, 0);
    facet_owner_set_gate(fixture->owner, FACET_GATE_LEASED);
    assert_true(is_admitted_within(5000, &launcher.admitted_yet));
    finish_launcher(&launcher);
    assert_int_equal(fixture_totals(fixture).waiting, 0);
    assert_true(fixture_totals(fixture).throttled_ns > 0);
    facet_tenant_detach(&tenant);
}

static struct facet_owner_slot first_slot(const struct fixture *fixture)
{
    struct facet_owner_slot slot;

    assert_true(facet_owner_read_slot(fixture->owner, 0, &slot));
    assert_false(facet_owner_read_slot(fixture->owner, 1, &slot));
    assert_false(facet_owner_read_slot(fixture->owner, UINT32_MAX, &slot));
    assert_true(facet_owner_read_slot(fixture->owner, 0, &slot));
    return slot;
}

/*
 * A scheduler takes a waiting process without a recent sign of life for a stopped one. So the first launch after a
 * pause must give a sign of life.
 */
static void test_a_process_that_waits_or_launches_after_a_rest_gives_a_sign_of_life(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct launcher launcher;

    atomic_store(&tenant.slot->alive_ns, 1);
    atomic_store(&tenant.slot->unsettled_since_ns, 0);
    uint64_t before_ns = facet_clock_now_ns();
    start_launcher(&launcher, &tenant, 500);
    for (int i = 0; i < 5000 && (!first_slot(fixture).waiting || first_slot(fixture).inflight); i++)
        is_admitted_within(1, &launcher.admitted_yet);
    assert_int_equal(first_slot(fixture).waiting, 1);
    assert_true(first_slot(fixture).alive_ns >= before_ns);
    facet_owner_set_gate(fixture->owner, FACET_GATE_LEASED);
    finish_launcher(&launcher);
    assert_int_equal(first_slot(fixture).waiting, 0);

    atomic_store(&tenant.slot->alive_ns, 1);
    before_ns = facet_clock_now_ns();
    uint64_t charged_ns = facet_tenant_launch(&tenant, 500);
    assert_true(first_slot(fixture).alive_ns >= before_ns);
    assert_int_equal(first_slot(fixture).inflight, 1);
    assert_int_equal(first_slot(fixture).inflight_ns, 500);
    facet_tenant_complete(&tenant, 1, charged_ns, 300, before_ns);
    assert_int_equal(first_slot(fixture).idle_since_ns, before_ns);
    assert_int_equal(first_slot(fixture).busy_ns, 300);
    facet_tenant_detach(&tenant);
}

static void test_waiting_and_draining_wake_the_scheduler(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct launcher launcher;
    uint32_t rings = atomic_load(facet_owner_rings(fixture->owner));

    start_launcher(&launcher, &tenant, 0);
    is_admitted_within(30, &launcher.admitted_yet);
    assert_true(atomic_load(facet_owner_rings(fixture->owner)) > rings);
    facet_owner_set_gate(fixture->owner, FACET_GATE_LEASED);
    pthread_join(launcher.thread, NULL);
    rings = atomic_load(facet_owner_rings(fixture->owner));
    facet_tenant_complete(&tenant, 1, 0, 0, facet_clock_now_ns());
    assert_true(atomic_load(facet_owner_rings(fixture->owner)) > rings);
    facet_tenant_detach(&tenant);
}

static void test_depth_is_bounded_while_leased(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct launcher third;

    facet_owner_set_depth(fixture->owner, 1000);
    facet_owner_set_gate(fixture->owner, FACET_GATE_LEASED);
    facet_tenant_launch(&tenant, 400);
    facet_tenant_launch(&tenant, 400);
    uint64_t begun_ns = facet_clock_now_ns();
    start_launcher(&third, &tenant, 400);
    /* A busy machine may stretch these 20 ms until the wait for the depth is over. */
    if (is_admitted_within(20, &third.admitted_yet)) {
        assert_true(third.admitted_ns >= begun_ns + DEPTH_WAIT_NS);
    } else if (facet_clock_now_ns() < begun_ns + DEPTH_WAIT_NS / 2) {
        assert_int_equal(fixture_totals(fixture).inflight, 2);
        assert_int_equal(fixture_totals(fixture).inflight_ns, 800);
    }
    facet_tenant_complete(&tenant, 1, 400, 0, facet_clock_now_ns());
    assert_true(is_admitted_within(5000, &third.admitted_yet));
    finish_launcher(&third);
    facet_tenant_complete(&tenant, 1, 400, 0, facet_clock_now_ns());
    facet_tenant_detach(&tenant);
}

static void test_one_kernel_longer_than_the_depth_is_admitted(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);

    facet_owner_set_depth(fixture->owner, 1000);
    facet_owner_set_gate(fixture->owner, FACET_GATE_LEASED);
    facet_tenant_launch(&tenant, 5000000);
    facet_tenant_complete(&tenant, 1, 5000000, 0, facet_clock_now_ns());
    facet_tenant_detach(&tenant);
}

/* The work in flight may depend on a later call of this thread. If the thread waited for the work, both would hang. */
static void test_waiting_for_the_depth_is_no_deadlock(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct launcher second;

    facet_owner_set_depth(fixture->owner, 1000);
    facet_owner_set_gate(fixture->owner, FACET_GATE_LEASED);
    facet_tenant_launch(&tenant, 900);
    start_launcher(&second, &tenant, 900);
    assert_true(is_admitted_within(10000, &second.admitted_yet));
    finish_launcher(&second);
    facet_tenant_complete(&tenant, 1, 900, 0, facet_clock_now_ns());
    facet_tenant_detach(&tenant);
}

/* Makes two launches, each of three quarters of the depth. Returns whether the second is admitted before the first is
 * reported. */
static bool is_second_admitted_before_a_report(const struct fixture *fixture, uint64_t others_ended_ns)
{
    const uint64_t depth_ns = 20 * FACET_NS_PER_MS, estimate_ns = depth_ns * 3 / 4;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct launcher second;

    facet_owner_set_depth(fixture->owner, depth_ns);
    facet_owner_set_others_ended(fixture->owner, others_ended_ns);
    facet_owner_set_gate(fixture->owner, FACET_GATE_LEASED);
    facet_tenant_launch(&tenant, estimate_ns);
    uint64_t begun_ns = facet_clock_now_ns();
    start_launcher(&second, &tenant, estimate_ns);
    /* A busy machine may stretch these 60 ms until the thread is admitted because its wait for the depth is over. */
    bool admitted_yet = is_admitted_within(60, &second.admitted_yet) && second.admitted_ns < begun_ns + DEPTH_WAIT_NS;
    assert_true(!admitted_yet || second.admitted_ns >= begun_ns + depth_ns / 2 - FACET_NS_PER_MS);
    facet_tenant_complete(&tenant, 1, estimate_ns, 0, facet_clock_now_ns());
    finish_launcher(&second);
    facet_tenant_detach(&tenant);
    return admitted_yet;
}

/* Completions may be reported late. On an idle device the next launch is admitted when, by the clock, it should fit. */
static void test_the_depth_frees_by_the_clock_before_reports(void **state)
{
    struct fixture *fixture = *state;

    assert_true(is_second_admitted_before_a_report(fixture, 2)); /* the others' work ended long ago */
    assert_false(is_second_admitted_before_a_report(fixture, 0));
    assert_false(is_second_admitted_before_a_report(fixture, FACET_OTHERS_RUNNING));
}

/* A cap counts reported time, so the clock alone admits nothing. */
static void test_under_a_cap_only_reports_free_the_depth(void **state)
{
    struct fixture *fixture = *state;

    fixture->spec.limits.compute_limit_milli = 500;
    facet_owner_set_limits(fixture->owner, &fixture->spec.limits);
    assert_false(is_second_admitted_before_a_report(fixture, 2));
}

static void test_a_frozen_launch_waits_even_without_a_daemon(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct launcher launcher;

    facet_owner_set_gate(fixture->owner, FACET_GATE_CLOSED);
    facet_owner_set_frozen(fixture->owner, FACET_RESOURCE_COMPUTE);
    facet_owner_set_heartbeat(fixture->owner, 1);
    start_launcher(&launcher, &tenant, 0);
    usleep(600000);
    assert_false(atomic_load(&launcher.admitted_yet));
    facet_owner_set_frozen(fixture->owner, 0);
    facet_owner_set_gate(fixture->owner, FACET_GATE_OPEN);
    fixture_owner_lives(fixture);
    assert_true(is_admitted_within(5000, &launcher.admitted_yet));
    finish_launcher(&launcher);
    facet_tenant_detach(&tenant);
}

/* Without a daemon a closed gate opens by itself, and the vGPU keeps to its share of 250 milli. */
static void test_a_tenant_without_a_daemon_paces_itself(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    const uint64_t kernel_ns = 5 * FACET_NS_PER_MS;

    facet_owner_set_fallback(fixture->owner, 250);
    facet_owner_set_gate(fixture->owner, FACET_GATE_CLOSED);
    facet_owner_set_heartbeat(fixture->owner, 1);
    facet_tenant_supervise(&tenant, facet_clock_now_ns());

    uint64_t started = facet_clock_now_ns();
    for (int i = 0; i < 20; i++) {
        uint64_t charged_ns = facet_tenant_launch(&tenant, kernel_ns);
        facet_tenant_complete(&tenant, 1, charged_ns, kernel_ns, facet_clock_now_ns());
    }
    uint64_t elapsed = facet_clock_now_ns() - started;
    /* 20 kernels of 5 ms at a quarter take 400 ms, less the burst and the pause behind the last kernel. */
    assert_true(elapsed >= 320 * FACET_NS_PER_MS);
    facet_tenant_detach(&tenant);
}

static void test_a_destroyed_vgpu_refuses_launches_and_memory(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct launcher waiting;

    start_launcher(&waiting, &tenant, 0);
    is_admitted_within(20, &waiting.admitted_yet);
    facet_owner_retire(fixture->owner);
    assert_true(is_admitted_within(5000, &waiting.admitted_yet));
    pthread_join(waiting.thread, NULL);
    assert_true(waiting.charged_ns == FACET_TENANT_LOST);
    assert_true(facet_tenant_launch(&tenant, 0) == FACET_TENANT_LOST);
    assert_int_equal(fixture_totals(fixture).inflight, 0);
    assert_int_equal(fixture_totals(fixture).waiting, 0);
    assert_false(facet_tenant_reserve(&tenant, 1));
    facet_tenant_detach(&tenant);
}

static void test_a_tenant_returns_to_a_daemon_that_is_back(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);

    facet_owner_set_heartbeat(fixture->owner, 1);
    facet_tenant_supervise(&tenant, facet_clock_now_ns());
    assert_int_equal(atomic_load(&tenant.orphan), 1);
    fixture_owner_lives(fixture);
    facet_tenant_supervise(&tenant, facet_clock_now_ns());
    assert_int_equal(atomic_load(&tenant.orphan), 0);
    facet_tenant_detach(&tenant);
}

/* A process that found no daemon, and then launched nothing, waits at a closed gate when the daemon is back. */
static void test_the_first_launch_after_a_rest_sees_the_daemon(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct launcher launcher;

    facet_owner_set_heartbeat(fixture->owner, 1);
    facet_tenant_supervise(&tenant, facet_clock_now_ns());
    fixture_owner_lives(fixture);
    start_launcher(&launcher, &tenant, 0);
    assert_false(is_admitted_within(60, &launcher.admitted_yet));
    facet_owner_set_gate(fixture->owner, FACET_GATE_OPEN);
    assert_true(is_admitted_within(5000, &launcher.admitted_yet));
    finish_launcher(&launcher);
    facet_tenant_detach(&tenant);
}

/* ---- device time of the dead ---- */

/* Runs in the child until it is killed. The child launches, calls `report`, and writes a byte; it writes a second byte
 * after LIVED_US. With `gives_signs` it gives signs of life all the time. */
static void launch_until_killed(const struct fixture *fixture, void (*report)(struct facet_tenant *tenant),
                                bool gives_signs, int done_fd)
{
    struct facet_tenant tenant;
    bool signalled = false;

    alarm(60);
    if (facet_tenant_attach(fixture->dir, &tenant, NULL) != FACET_OK)
        _exit(1);
    facet_tenant_launch(&tenant, 0);
    uint64_t enough_ns = facet_clock_now_ns() + LIVED_US * FACET_NS_PER_US;
    if (report)
        report(&tenant);
    if (write(done_fd, "", 1) != 1)
        _exit(2);
    for (;; usleep(1000)) {
        uint64_t now_ns = facet_clock_now_ns();

        if (gives_signs)
            facet_tenant_supervise(&tenant, now_ns);
        if (now_ns >= enough_ns && !signalled)
            signalled = write(done_fd, "", 1) == 1;
    }
}

static void run_until_killed(const struct fixture *fixture, void (*report)(struct facet_tenant *tenant),
                             bool gives_signs)
{
    int done_pipe[2];
    char byte;

    assert_int_equal(pipe(done_pipe), 0);
    pid_t child = fork();
    if (child == 0)
        launch_until_killed(fixture, report, gives_signs, done_pipe[1]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(read(done_pipe[0], &byte, 1), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(done_pipe[0]);
    close(done_pipe[1]);
}

static void report_all(struct facet_tenant *tenant)
{
    facet_tenant_complete(tenant, 1, 0, 77, facet_clock_now_ns());
}

static void report_up_to_now(struct facet_tenant *tenant)
{
    facet_tenant_launch(tenant, 0);
    facet_tenant_complete(tenant, 1, 0, 77, facet_clock_now_ns());
    facet_tenant_set_unsettled_since(tenant, UINT64_MAX);
}

/* Returns the charge when the slot of a process of launch_until_killed() is cleared. *ret_took_ns is how long all of
 * this took. */
static uint64_t charge_for(const struct fixture *fixture, void (*report)(struct facet_tenant *tenant), bool gives_signs,
                           uint64_t *ret_took_ns)
{
    uint64_t begun_ns = facet_clock_now_ns(), before_ns = fixture_totals(fixture).busy_ns;

    facet_owner_set_gate(fixture->owner, FACET_GATE_OPEN);
    run_until_killed(fixture, report, gives_signs);
    assert_int_equal(facet_owner_reap(fixture->owner), 1);
    assert_int_equal(facet_owner_reap(fixture->owner), 0);
    *ret_took_ns = facet_clock_now_ns() - begun_ns;
    assert_int_equal(fixture_totals(fixture).inflight, 0);
    return fixture_totals(fixture).busy_ns - before_ns;
}

static void test_the_dead_are_charged_for_the_time_that_they_lived(void **state)
{
    uint64_t took_ns, charged_ns = charge_for(*state, NULL, true, &took_ns);

    assert_true(charged_ns >= LIVED_US * FACET_NS_PER_US);
    assert_true(charged_ns <= took_ns);
}

/* When a process gave no sign of life, its time of death is unknown. It is not charged for the time until now. */
static void test_a_dead_process_is_not_charged_for_later_time(void **state)
{
    uint64_t took_ns, charged_ns = charge_for(*state, NULL, false, &took_ns);

    assert_true(charged_ns > 0);
    assert_true(charged_ns < LIVED_US * FACET_NS_PER_US / 2);
}

static void test_the_dead_are_not_charged_twice(void **state)
{
    uint64_t took_ns;

    assert_int_equal(charge_for(*state, report_all, true, &took_ns), 77);
    assert_int_equal(charge_for(*state, report_up_to_now, true, &took_ns), 77);
}

/* Without a daemon, the process that takes over the slot charges the shared budget. */
static void test_the_dead_are_charged_without_a_daemon(void **state)
{
    struct fixture *fixture = *state;

    facet_owner_set_fallback(fixture->owner, 100);
    facet_owner_set_heartbeat(fixture->owner, 1);
    run_until_killed(fixture, NULL, true);
    struct facet_tenant tenant = fixture_attach(fixture);
    assert_true(fixture_totals(fixture).busy_ns >= LIVED_US * FACET_NS_PER_US);
    assert_true(facet_pace_owed_ns(&tenant.usage->pace_ns, facet_clock_now_ns()) > 0);
    facet_tenant_detach(&tenant);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_open_gate_costs_no_wait),
        TEST(test_a_refused_launch_is_not_counted),
        TEST(test_closed_gate_waits_until_opened),
        TEST(test_a_process_that_waits_or_launches_after_a_rest_gives_a_sign_of_life),
        TEST(test_waiting_and_draining_wake_the_scheduler),
        TEST(test_depth_is_bounded_while_leased),
        TEST(test_one_kernel_longer_than_the_depth_is_admitted),
        TEST(test_waiting_for_the_depth_is_no_deadlock),
        TEST(test_the_depth_frees_by_the_clock_before_reports),
        TEST(test_under_a_cap_only_reports_free_the_depth),
        TEST(test_a_frozen_launch_waits_even_without_a_daemon),
        TEST(test_a_tenant_without_a_daemon_paces_itself),
        TEST(test_the_dead_are_charged_for_the_time_that_they_lived),
        TEST(test_a_dead_process_is_not_charged_for_later_time),
        TEST(test_the_dead_are_not_charged_twice),
        TEST(test_the_dead_are_charged_without_a_daemon),
        TEST(test_a_destroyed_vgpu_refuses_launches_and_memory),
        TEST(test_a_tenant_returns_to_a_daemon_that_is_back),
        TEST(test_the_first_launch_after_a_rest_sees_the_daemon),
    };
    return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
