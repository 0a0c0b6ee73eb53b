/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of launches that several threads count in shards. Never: asserts how long anything takes. */
#include "segment_fixture.h"

#include <pthread.h>
#include <signal.h>

#define THREADS       (FACET_SLOT_SHARDS + 4) /* more than there are shards */
#define LAUNCHES_EACH 20000u
#define AHEAD         64u /* launches that a thread makes at most before they are reported */
#define DEPTH         UINT64_C(6400)

static void test_work_in_flight_is_the_sum_of_the_shards(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct facet_slot_shard *first = facet_tenant_shard(&tenant, 0), *last = facet_tenant_shard(&tenant, 7);

    facet_owner_set_gate(fixture->owner, FACET_GATE_LEASED);
    assert_ptr_not_equal(first, last);
    assert_ptr_equal(facet_tenant_shard(&tenant, FACET_SLOT_SHARDS), first);
    assert_int_equal(facet_tenant_launch_in(&tenant, first, 5), 5);
    assert_int_equal(facet_tenant_launch_in(&tenant, last, 7), 7);
    assert_int_equal(fixture_totals(fixture).inflight, 2);
    assert_int_equal(fixture_totals(fixture).inflight_ns, 12);
    facet_tenant_complete_in(&tenant, last, 1, 7, 0, facet_clock_now_ns());
    assert_int_equal(fixture_totals(fixture).inflight_ns, 5);
    facet_tenant_complete_in(&tenant, first, 1, 5, 0, facet_clock_now_ns());
    assert_int_equal(fixture_totals(fixture).inflight, 0);
    facet_tenant_detach(&tenant);
}

/* The scheduler is woken when the process has nothing in flight, not when one of its threads has nothing in flight. */
static void test_the_last_completion_of_a_process_rings(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct facet_slot_shard *first = facet_tenant_shard(&tenant, 0), *second = facet_tenant_shard(&tenant, 1);

    facet_owner_set_gate(fixture->owner, FACET_GATE_LEASED);
    facet_tenant_launch_in(&tenant, first, 5);
    facet_tenant_launch_in(&tenant, second, 5);
    uint32_t rings = atomic_load(facet_owner_rings(fixture->owner));
    facet_tenant_complete_in(&tenant, first, 1, 5, 0, facet_clock_now_ns());
    assert_int_equal(atomic_load(facet_owner_rings(fixture->owner)), rings);
    facet_tenant_complete_in(&tenant, second, 1, 5, 0, facet_clock_now_ns());
    assert_int_equal(atomic_load(facet_owner_rings(fixture->owner)), rings + 1);
    facet_tenant_detach(&tenant);
}

struct launcher {
    struct facet_tenant *tenant;
    struct facet_slot_shard *shard;
    _Atomic bool admitted_yet;
};

static void *launch_main(void *argument)
{
    struct launcher *launcher = argument;

    facet_tenant_launch_in(launcher->tenant, launcher->shard, DEPTH / 2);
    atomic_store(&launcher->admitted_yet, true);
    return NULL;
}

/* The depth bounds the whole process, whichever threads fill it. */
static void test_the_depth_is_shared_by_all_shards(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct launcher launcher = {.tenant = &tenant, .shard = facet_tenant_shard(&tenant, 1)};
    struct facet_slot_shard *first = facet_tenant_shard(&tenant, 0);
    pthread_t thread;

    facet_owner_set_depth(fixture->owner, DEPTH);
    facet_owner_set_gate(fixture->owner, FACET_GATE_LEASED);
    facet_tenant_launch_in(&tenant, first, DEPTH / 2);
    facet_tenant_launch_in(&tenant, first, DEPTH / 4);
    assert_int_equal(pthread_create(&thread, NULL, launch_main, &launcher), 0);
    usleep(20000);
    assert_false(atomic_load(&launcher.admitted_yet));
    assert_int_equal(fixture_totals(fixture).inflight, 2);
    facet_tenant_complete_in(&tenant, first, 1, DEPTH / 2, 0, facet_clock_now_ns());
    pthread_join(thread, NULL);
    assert_int_equal(fixture_totals(fixture).inflight, 2);
    facet_tenant_complete_in(&tenant, first, 1, DEPTH / 4, 0, facet_clock_now_ns());
    facet_tenant_complete_in(&tenant, launcher.shard, 1, DEPTH / 2, 0, facet_clock_now_ns());
    facet_tenant_detach(&tenant);
}

/* Launches that shards admit without reading each other exceed the depth by at most an eighth. */
static void test_shards_together_stay_near_the_depth(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct facet_slot_shard *shards[FACET_SLOT_SHARDS];

    for (uint32_t i = 0; i < FACET_SLOT_SHARDS; i++)
        shards[i] = facet_tenant_shard(&tenant, i);
    facet_owner_set_depth(fixture->owner, DEPTH);
    facet_owner_set_gate(fixture->owner, FACET_GATE_LEASED);
    for (bool fits = true; fits;) {
        fits = false;
        for (uint32_t i = 0; i < FACET_SLOT_SHARDS; i++) {
            uint64_t before = atomic_fetch_add(&shards[i]->inflight, facet_inflight(1, 10));

            if (facet_tenant_fits_in(&tenant, shards[i], before, 10))
                fits = true;
            else
                atomic_fetch_sub(&shards[i]->inflight, facet_inflight(1, 10));
        }
    }
    assert_in_range(fixture_totals(fixture).inflight_ns, DEPTH - 10, DEPTH + DEPTH / 8);
    facet_tenant_detach(&tenant);
    assert_int_equal(fixture_totals(fixture).inflight, 0);
}

/* ---- more threads than shards, and one thread that reports for all ---- */

struct worker {
    struct facet_tenant *tenant;
    struct facet_slot_shard *shard;
    _Atomic uint64_t submitted;
    _Atomic uint64_t reported;
};

static _Atomic bool all_launched;

static void *work_main(void *argument)
{
    struct worker *worker = argument;

    for (uint32_t i = 0; i < LAUNCHES_EACH; i++) {
        while (i - atomic_load(&worker->reported) >= AHEAD)
            sched_yield();
        facet_tenant_launch_in(worker->tenant, worker->shard, 3);
        atomic_fetch_add(&worker->submitted, 1);
    }
    return NULL;
}

/* Reports for all threads, as an interposer's helper does. */
static void *report_main(void *argument)
{
    struct worker *workers = argument;
    uint64_t left = (uint64_t)THREADS * LAUNCHES_EACH;

    while (left)
        for (uint32_t i = 0; i < THREADS; i++) {
            uint64_t reported = atomic_load(&workers[i].reported), done = atomic_load(&workers[i].submitted) - reported;

            if (done)
                facet_tenant_complete_in(workers[i].tenant, workers[i].shard, (uint32_t)done, 0, done,
                                         facet_clock_now_ns());
            atomic_store(&workers[i].reported, reported + done);
            left -= done;
        }
    atomic_store(&all_launched, true);
    return NULL;
}

/* No reader sees a shard below zero, because a launch leaves the shard in which its thread counted it. */
static void test_no_reader_sees_a_shard_below_zero(void **state)
{
    static struct worker workers[THREADS];
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    pthread_t threads[THREADS], reporter;

    facet_owner_set_gate(fixture->owner, FACET_GATE_OPEN);
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.tenant = &tenant, .shard = facet_tenant_shard(&tenant, i)};
        assert_int_equal(pthread_create(&threads[i], NULL, work_main, &workers[i]), 0);
    }
    assert_int_equal(pthread_create(&reporter, NULL, report_main, workers), 0);
    while (!atomic_load(&all_launched)) {
        assert_in_range(fixture_totals(fixture).inflight, 0, THREADS * (AHEAD + 1));
        assert_int_equal(fixture_totals(fixture).inflight_ns, 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(reporter, NULL);
    assert_int_equal(fixture_totals(fixture).inflight, 0);
    assert_int_equal(fixture_totals(fixture).launches, THREADS * LAUNCHES_EACH);
    assert_int_equal(fixture_totals(fixture).busy_ns, THREADS * LAUNCHES_EACH);
    facet_tenant_detach(&tenant);
}

/* ---- killed processes ---- */

/* Has an old launch in flight in one shard and a new launch in another shard, and kills itself. */
static void work_until_killed(const struct fixture *fixture, uint64_t unsettled_since_ns)
{
    struct facet_tenant tenant;

    if (facet_tenant_attach(fixture->dir, &tenant, NULL) != FACET_OK)
        _exit(1);
    facet_tenant_launch_in(&tenant, facet_tenant_shard(&tenant, 3), 0);
    usleep(50000);
    facet_tenant_launch_in(&tenant, facet_tenant_shard(&tenant, 5), 0);
    facet_tenant_set_unsettled_since(&tenant, unsettled_since_ns);
    facet_tenant_supervise(&tenant, facet_clock_now_ns());
    raise(SIGKILL);
}

static uint64_t charge_for(const struct fixture *fixture, uint64_t unsettled_since_ns)
{
    uint64_t before_ns = fixture_totals(fixture).busy_ns;
    pid_t child = fork();

    if (child == 0)
        work_until_killed(fixture, unsettled_since_ns);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(fixture_totals(fixture).inflight, 2);
    assert_int_equal(facet_owner_reap(fixture->owner), 1);
    assert_int_equal(facet_owner_reap(fixture->owner), 0);
    assert_int_equal(fixture_totals(fixture).inflight, 0);
    return fixture_totals(fixture).busy_ns - before_ns;
}

static void test_the_dead_are_charged_since_the_oldest_shard_began(void **state)
{
    struct fixture *fixture = *state;

    facet_owner_set_gate(fixture->owner, FACET_GATE_OPEN);
    assert_true(charge_for(fixture, 0) >= 50 * FACET_NS_PER_MS);
    assert_int_equal(charge_for(fixture, UINT64_MAX), 0);
}

/* Tenants can write any number of shards into the page. */
static void test_no_loop_runs_past_the_shards(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);

    atomic_store(&tenant.slot->shards_used, UINT32_MAX);
    assert_int_equal(facet_slot_shards(tenant.slot), FACET_SLOT_SHARDS);
    assert_int_equal(fixture_totals(fixture).inflight, 0);
    facet_tenant_detach(&tenant);
    tenant = fixture_attach(fixture);
    assert_int_equal(facet_slot_shards(tenant.slot), 1);
    facet_tenant_detach(&tenant);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_work_in_flight_is_the_sum_of_the_shards),
        TEST(test_the_last_completion_of_a_process_rings),
        TEST(test_the_depth_is_shared_by_all_shards),
        TEST(test_shards_together_stay_near_the_depth),
        TEST(test_no_reader_sees_a_shard_below_zero),
        TEST(test_the_dead_are_charged_since_the_oldest_shard_began),
        TEST(test_no_loop_runs_past_the_shards),
    };
    return cmocka_run_group_tests_name("shards", tests, NULL, NULL);
}
