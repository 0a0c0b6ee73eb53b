/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that a process killed while it reports is charged once: by itself or by the process that clears its
 * slot. Never: asserts how long anything takes. A process is stopped behind each instruction in turn, and killed there.
 */
#include "segment_fixture.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#define CANNOT_BE_TRACED 77
#define STEPS_MAX        100000

/* The report: how long launches have been in flight, the device time that is reported, and the number of launches, of
 * which one is reported as complete. */
struct report {
    uint64_t in_flight_ns, busy_ns;
    uint32_t launches;
};

static struct shared {
    _Atomic uint32_t ended;
} * shared;

/* Runs in the child, whose launches began long ago: it stops before the report, which the parent runs step by step. */
static void work_until_killed(const struct fixture *fixture, const struct report *report)
{
    struct facet_tenant tenant;

    alarm(60);
    if (facet_tenant_attach(fixture->dir, &tenant, NULL) != FACET_OK)
        _exit(1);
    for (uint32_t i = 0; i < report->launches; i++)
        facet_tenant_launch(&tenant, 0);
    uint64_t now_ns = facet_clock_now_ns();
    facet_tenant_supervise(&tenant, now_ns);
    atomic_store(&tenant.slot->shards[0].begun_ns, now_ns - report->in_flight_ns);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
        _exit(CANNOT_BE_TRACED);
    raise(SIGSTOP);
    facet_tenant_complete(&tenant, 1, 0, report->busy_ns, now_ns);
    atomic_store(&shared->ended, 1);
    for (;;)
        raise(SIGSTOP); /* the parent sees it if it missed its breakpoint */
}

/*
 * The instructions of the report that earlier processes executed, in order. Each process executes the same ones. So it
 * runs at full speed to the first occurrence of the newest address, and from there step by step: with steps alone,
 * their number would grow with the square of the instructions.
 */
struct trace {
    uint64_t addresses[STEPS_MAX]; /* of the next instruction after each step */
    int count, last_new;           /* last_new: index of the last address that occurred for the first time */
};

#ifdef __x86_64__
static uint64_t next_address(pid_t child)
{
    return (uint64_t)ptrace(PTRACE_PEEKUSER, child, offsetof(struct user, regs.rip), NULL);
}

static void record_address(struct trace *trace, pid_t child)
{
    uint64_t address = next_address(child);

    for (int i = 0; i < trace->count; i++)
        if (trace->addresses[i] == address) {
            trace->addresses[trace->count++] = address;
            return;
        }
    trace->last_new = trace->count;
    trace->addresses[trace->count++] = address;
}

/* Runs the process to a breakpoint at the last new address. Returns the number of steps that this makes. */
static int run_to_last_new(const struct trace *trace, pid_t child)
{
    uint64_t address = trace->last_new ? trace->addresses[trace->last_new] : 0;
    int status = 0;

    if (!address)
        return 0;
    long code = ptrace(PTRACE_PEEKTEXT, child, address, NULL);
    assert_int_equal(ptrace(PTRACE_POKETEXT, child, address, (code & ~0xffL) | 0xcc), 0); /* int3 */
    assert_int_equal(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
    assert_int_equal(next_address(child), address + 1);
    assert_int_equal(ptrace(PTRACE_POKETEXT, child, address, code), 0);
    assert_int_equal(ptrace(PTRACE_POKEUSER, child, offsetof(struct user, regs.rip), address), 0);
    return trace->last_new;
}
#else
static void record_address(struct trace *trace, pid_t child)
{
}

static int run_to_last_new(const struct trace *trace, pid_t child)
{
    return 0;
}
#endif

/* Kills the process after `steps` instructions. Returns false where it may not be traced. */
static bool run_until_killed(const struct fixture *fixture, const struct report *report, struct trace *trace, int steps)
{
    int status = 0;

    atomic_store(&shared->ended, 0);
    pid_t child = fork();
    if (child == 0)
        work_until_killed(fixture, report);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_BE_TRACED)
        return false;
    assert_true(WIFSTOPPED(status));
    for (int i = run_to_last_new(trace, child); i < steps && !atomic_load(&shared->ended); i++) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSTOPPED(status));
    }
    record_address(trace, child);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(facet_owner_reap(fixture->owner), 1);
    return true;
}

static void check_charge(const struct fixture *fixture, const struct report *report)
{
    static struct trace trace;

    trace.count = trace.last_new = 0;
    for (int steps = 0; steps < STEPS_MAX; steps++) {
        struct facet_usage_totals before = fixture_totals(fixture);

        if (!run_until_killed(fixture, report, &trace, steps))
            skip();
        struct facet_usage_totals after = fixture_totals(fixture);
        uint64_t charged_ns = after.busy_ns - before.busy_ns;
        assert_true(after.launches - before.launches <= 1);
        /* The process may have lived for a moment after its last sign of life. */
        assert_true(charged_ns < report->in_flight_ns + report->in_flight_ns / 100);
        assert_true(charged_ns >= report->in_flight_ns - report->busy_ns);
        if (atomic_load(&shared->ended)) {
            assert_true(steps > 10); /* the report takes more instructions than these */
            assert_true(charged_ns >= report->busy_ns);
            return;
        }
    }
    fail_msg("the report did not end within %d instructions", STEPS_MAX);
}

static void test_a_launch_is_charged_once_wherever_its_process_is_killed(void **state)
{
    const struct fixture *fixture = *state;
    uint64_t long_ns = facet_clock_now_ns() / 2;

    facet_owner_set_gate(fixture->owner, FACET_GATE_OPEN);
    check_charge(fixture, &(struct report){.in_flight_ns = long_ns, .busy_ns = long_ns, .launches = 1});
}

/* The reported time of one launch of two is not charged for the other one. */
static void test_a_launch_left_in_flight_is_charged_unreported_time(void **state)
{
    const struct fixture *fixture = *state;
    uint64_t long_ns = facet_clock_now_ns() / 2;

    facet_owner_set_gate(fixture->owner, FACET_GATE_OPEN);
    check_charge(fixture, &(struct report){.in_flight_ns = long_ns, .busy_ns = long_ns / 2, .launches = 2});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_launch_is_charged_once_wherever_its_process_is_killed, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_launch_left_in_flight_is_charged_unreported_time, fixture_setup,
                                        fixture_teardown),
    };

    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests_name("killed", tests, NULL, NULL);
}
