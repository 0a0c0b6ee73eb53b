/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of the executor's charges, with a clock that only kernels move, and of its watchdog.
 * Never: uses real time, except to compare a charged time with the time that passed.
 */
#include <stdio.h>
#include <time.h>

#include "compute/pick.h"
#include "cpu_executor_world.h"

/* A launch that occupies the only unit while a test prepares others. */
struct gate {
    struct cpu_tenant *tenant;
    struct cpu_stream *stream;
};

static struct gate gate_close(struct cpu_executor *executor)
{
    struct gate gate = {.tenant = tenant_of(executor)};

    gate.stream = stream_of(gate.tenant);
    launch(gate.stream, (struct work){.waits_for_go = 1}, 1);
    sem_wait(&world.began);
    return gate;
}

static void gate_open(struct gate *gate)
{
    sem_post(&world.may_end);
    cpu_tenant_destroy(gate->tenant);
}

static void charged_time_adds_up(void **state)
{
    struct cpu_executor *executor = executor_of(1, world_now_ns);
    struct cpu_tenant *tenants[2] = {tenant_of(executor), tenant_of(executor)};
    struct cpu_stream *streams[2] = {stream_of(tenants[0]), stream_of(tenants[1])};
    struct facet_launch_record record;
    struct facet_stream_state now;
    uint64_t unit_ns, busy_ns;

    launch(streams[0], (struct work){.advance_ns = 30 * US}, 100);
    launch(streams[1], (struct work){.advance_ns = 7 * US}, 200);
    for (int i = 0; i < 2; i++)
        assert_int_equal(cpu_tenant_wait(tenants[i], FOREVER), FACET_OK);
    assert_int_equal(cpu_tenant_busy_ns(tenants[0]), 3000 * US);
    assert_int_equal(cpu_tenant_busy_ns(tenants[1]), 1400 * US);
    cpu_executor_busy(executor, &unit_ns, &busy_ns);
    assert_int_equal(unit_ns, 4400 * US);
    assert_int_equal(busy_ns, 4400 * US);
    cpu_stream_state(streams[1], &now);
    assert_int_equal(now.busy_ns, 1400 * US);
    assert_int_equal(cpu_stream_records(streams[1], 0, &record, 1), 1);
    assert_int_equal(record.busy_ns, 1400 * US);
    assert_int_equal(record.longest_ns, 7 * US);
    assert_int_equal(record.groups, 200);
    for (int i = 0; i < 2; i++)
        cpu_tenant_destroy(tenants[i]);
    cpu_executor_destroy(executor);
}

/* The clock moves while a work-group runs. Its turn is charged before it ends. */
static void a_turn_is_charged_before_it_ends(void **state)
{
    struct cpu_executor *executor = executor_of(1, world_now_ns);
    struct gate gate = gate_close(executor);
    uint64_t unit_ns, busy_ns;

    atomic_fetch_add(&world.now_ns, 5 * MS);
    assert_int_equal(cpu_tenant_busy_ns(gate.tenant), 5 * MS);
    cpu_executor_busy(executor, &unit_ns, &busy_ns);
    assert_int_equal(unit_ns, 5 * MS);
    assert_int_equal(busy_ns, 5 * MS);
    gate_open(&gate);
    cpu_executor_destroy(executor);
}

static uint64_t real_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * S + (uint64_t)now.tv_nsec;
}

/* How much time passed, and how much of it was charged. */
struct stretch {
    uint64_t charged_ns, passed_ns;
};

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(40 * MS)}, NULL);
}

/* Measures some time in which a work-group of the tenant waits. */
static struct stretch stretch_under_way(struct cpu_tenant *tenant)
{
    uint64_t before = cpu_tenant_busy_ns(tenant), start = real_ns();

    nap();
    return (struct stretch){cpu_tenant_busy_ns(tenant) - before, real_ns() - start};
}

static struct stretch stretch_of(struct cpu_stream *stream, uint64_t sequence)
{
    struct facet_launch_record record = {0};

    cpu_stream_records(stream, sequence - 1, &record, 1);
    return (struct stretch){record.busy_ns, record.end_ns - record.start_ns};
}

/* A launch is charged processor time only, whether it is alone on the device or others wait behind it. */
static void time_without_a_processor_is_not_charged(void **state)
{
    struct cpu_executor *executor = executor_of(1, NULL);
    struct cpu_tenant *tenants[2] = {tenant_of(executor), tenant_of(executor)};
    struct cpu_stream *streams[2] = {stream_of(tenants[0]), stream_of(tenants[1])};
    struct stretch stretches[4];

    (void)state;
    launch(streams[0], (struct work){.waits_for_go = 1}, 1); /* alone on the device */
    sem_wait(&world.began);
    stretches[0] = stretch_under_way(tenants[0]);
    launch(streams[0], (struct work){.waits_for_go = 1}, 1); /* beside another launch */
    launch(streams[1], (struct work){.waits_for_go = 1}, 1);
    for (int i = 0; i < 2; i++) {
        sem_post(&world.may_end);
        sem_wait(&world.began);
        nap();
    }
    sem_post(&world.may_end);
    for (int i = 0; i < 2; i++)
        assert_int_equal(cpu_tenant_wait(tenants[i], FOREVER), FACET_OK);
    stretches[1] = stretch_of(streams[0], 1);
    stretches[2] = stretch_of(streams[0], 2);
    stretches[3] = stretch_of(streams[1], 1);
    for (int i = 0; i < 2; i++)
        cpu_tenant_destroy(tenants[i]);
    cpu_executor_destroy(executor);
    for (int i = 0; i < 4; i++)
        if (stretches[i].charged_ns >= stretches[i].passed_ns / 2)
            fail_msg("stretch %d: %llu of %llu ns charged, without a processor", i,
                     (unsigned long long)stretches[i].charged_ns, (unsigned long long)stretches[i].passed_ns);
}

static struct {
    atomic_uint ran[2];
    unsigned at_end;
} race;

static void note_end_of_second(void *owner)
{
    race.at_end = atomic_load(&race.ran[0]);
}

/* When the second tenant, with a share of 30 %, has run 3,000 work-groups, the first has run what its 70 % allow. */
static void assert_share(enum facet_pick_policy policy, uint64_t first_ns, uint64_t second_ns, unsigned expected,
                         unsigned tolerance)
{
    const struct cpu_executor_options options = {.units = 1, .now_ns = world_now_ns, .policy = policy};
    const struct facet_launch request = request_of(3000, 1, 1);
    const struct work work = {.advance_ns = second_ns, .run_total = &race.ran[1]};
    struct cpu_executor *executor;

    memset(&race, 0, sizeof race);
    assert_int_equal(cpu_executor_create(&options, &executor, NULL), FACET_OK);
    struct gate gate = gate_close(executor);
    struct cpu_tenant *tenants[2] = {tenant_of(executor), tenant_of(executor)};

    cpu_tenant_set_share(tenants[0], 700, 1000, FACET_PRIORITY_NORMAL);
    cpu_tenant_set_share(tenants[1], 300, 1000, FACET_PRIORITY_NORMAL);
    launch(stream_of(tenants[0]), (struct work){.advance_ns = first_ns, .run_total = &race.ran[0]}, 1u << 31);
    assert_int_equal(cpu_stream_launch(stream_of(tenants[1]), &work_kernel, &request, &work, NULL, NULL,
                                       note_end_of_second, NULL, NULL),
                     FACET_OK);
    gate_open(&gate);
    assert_int_equal(cpu_tenant_wait(tenants[1], FOREVER), FACET_OK);
    if (race.at_end + tolerance < expected || race.at_end > expected + tolerance)
        fail_msg("the first tenant ran %u work-groups, expected %u +- %u", race.at_end, expected, tolerance);
    for (int i = 0; i < 2; i++)
        cpu_tenant_destroy(tenants[i]);
    cpu_executor_destroy(executor);
}

static void shares_hold(void **state)
{
    assert_share(FACET_PICK_FAIR, 20 * US, 20 * US, 7000, 100);
    assert_share(FACET_PICK_FAIR, 200 * US, 20 * US, 700, 10);
    assert_share(FACET_PICK_FAIR, 20 * US, 200 * US, 70000, 1000);
    assert_share(FACET_PICK_FAIR, 100, 20 * US, 1400000, 20000); /* in batches */
}

static void round_robin_gives_turns(void **state)
{
    assert_share(FACET_PICK_ROUND_ROBIN, 100 * US, 100 * US, 3000, 10);
}

/* ---- the watchdog ---- */

#define ALLOWED_NS (20 * MS)

static struct {
    atomic_uint count;
    char kernel[64];
    uint64_t running_ns;
} report;

static uint64_t report_clock(void *owner)
{
    return world_now_ns(NULL);
}

static void note_overlong(void *owner, const char *kernel, uint64_t running_ns)
{
    snprintf(report.kernel, sizeof report.kernel, "%s", kernel);
    report.running_ns = running_ns;
    atomic_fetch_add(&report.count, 1);
}

static struct cpu_executor *watched_executor(void)
{
    const struct cpu_executor_options options = {
        .units = 1, .watchdog_ns = ALLOWED_NS, .overlong = note_overlong, .now_ns = report_clock};
    struct cpu_executor *executor = NULL;

    memset(&report, 0, sizeof report);
    assert_int_equal(cpu_executor_create(&options, &executor, NULL), FACET_OK);
    return executor;
}

static void sleep_allowed_time(void)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ALLOWED_NS}, NULL);
}

static void a_long_group_is_reported_once(void **state)
{
    struct cpu_executor *executor = watched_executor();
    struct gate gate = gate_close(executor);

    for (int i = 0; i < 5000 && report.count == 0; i++) { /* the watchdog may not have looked before the clock moved */
        atomic_fetch_add(&world.now_ns, ALLOWED_NS);
        sleep_allowed_time();
    }
    assert_int_equal(report.count, 1);
    assert_string_equal(report.kernel, "work");
    assert_true(report.running_ns >= ALLOWED_NS);
    for (int i = 0; i < 3; i++) {
        atomic_fetch_add(&world.now_ns, ALLOWED_NS);
        sleep_allowed_time();
    }
    assert_int_equal(report.count, 1);
    gate_open(&gate);
    gate = gate_close(executor); /* the next work-group is a new one */
    for (int i = 0; i < 5000 && report.count == 1; i++) {
        atomic_fetch_add(&world.now_ns, ALLOWED_NS);
        sleep_allowed_time();
    }
    assert_int_equal(report.count, 2);
    gate_open(&gate);
    cpu_executor_destroy(executor);
}

static void short_groups_of_a_long_job_are_not_reported(void **state)
{
    struct cpu_executor *executor = watched_executor();
    struct cpu_tenant *tenant = tenant_of(executor);

    launch(stream_of(tenant), (struct work){.waits_for_go = 1, .advance_ns = ALLOWED_NS / 2}, 12);
    for (int i = 0; i < 12; i++) {
        sem_wait(&world.began);
        sleep_allowed_time(); /* the watchdog sees each group */
        sem_post(&world.may_end);
    }
    assert_int_equal(cpu_tenant_wait(tenant, FOREVER), FACET_OK);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
    assert_int_equal(report.count, 0);
}

/* The tenant has used up its cap. The unit sleeps without a deadline, because no work waits, until the next launch. */
static void a_launch_under_a_used_up_cap_runs_later(void **state)
{
    struct cpu_executor *executor = executor_of(1, world_now_ns);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);

    (void)state;
    cpu_tenant_set_share(tenant, 0, 500, FACET_PRIORITY_NORMAL);
    launch(stream, (struct work){.advance_ns = 10 * MS}, 1);
    assert_int_equal(cpu_stream_wait(stream, 20 * S), FACET_OK);
    sleep_allowed_time();
    launch(stream, (struct work){0}, 1);
    sleep_allowed_time();
    assert_int_equal(atomic_load(&world.done), 1);
    atomic_fetch_add(&world.now_ns, S);
    assert_int_equal(cpu_stream_wait(stream, 20 * S), FACET_OK);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(charged_time_adds_up, world_reset),
        cmocka_unit_test_setup(a_turn_is_charged_before_it_ends, world_reset),
        cmocka_unit_test_setup(time_without_a_processor_is_not_charged, world_reset),
        cmocka_unit_test_setup(shares_hold, world_reset),
        cmocka_unit_test_setup(round_robin_gives_turns, world_reset),
        cmocka_unit_test_setup(a_launch_under_a_used_up_cap_runs_later, world_reset),
        cmocka_unit_test_setup(a_long_group_is_reported_once, world_reset),
        cmocka_unit_test_setup(short_groups_of_a_long_job_are_not_reported, world_reset),
    };
    return cmocka_run_group_tests_name("cpu executor time", tests, NULL, NULL);
}
