/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that a process's spare regions never make another's request fail, nor outlive the quota that granted
 * them (ADR 24). Never: handles addresses, which are the interposer's.
 */
#include "segment_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "limiter/owner_inside.h"

#define REGION        FACET_REGION_BYTES
#define QUOTA_REGIONS 32u /* regions of the quota */

static uint64_t spare_of(const struct facet_tenant *tenant)
{
    return facet_regions_spare(atomic_load(&tenant->slot->regions));
}

/* Reserves that many regions and releases them. */
static void leave_spare(struct facet_tenant *tenant, uint32_t count)
{
    assert_true(facet_tenant_reserve_regions(tenant, count));
    facet_tenant_release_regions(tenant, count);
    assert_int_equal(spare_of(tenant), count);
}

static void set_quota(struct fixture *fixture, uint64_t bytes)
{
    fixture->spec.limits.memory_bytes = bytes;
    facet_owner_set_limits(fixture->owner, &fixture->spec.limits);
}

static void test_spare_regions_are_charged_to_no_process(void **state)
{
    struct facet_tenant tenant = fixture_attach(*state);

    assert_false(facet_tenant_take_spare(&tenant));
    leave_spare(&tenant, 1);
    assert_false(facet_tenant_has_regions(&tenant));
    assert_int_equal(facet_tenant_memory_free(&tenant), 64 * MIB);
    assert_int_equal(fixture_totals(*state).memory_bytes, 0);
    assert_true(facet_tenant_take_spare(&tenant));
    assert_true(facet_tenant_has_regions(&tenant));
    assert_int_equal(spare_of(&tenant), 0);
    assert_int_equal(fixture_totals(*state).memory_bytes, REGION);
    assert_int_equal(facet_tenant_memory_free(&tenant), 64 * MIB - REGION);
    facet_tenant_release_regions(&tenant, 1);
    facet_tenant_detach(&tenant);
    assert_int_equal(fixture_totals(*state).memory_bytes, 0);
}

static void test_few_spare_regions_are_kept_and_none_below_zero(void **state)
{
    struct facet_tenant tenant = fixture_attach(*state);

    assert_true(facet_tenant_reserve_regions(&tenant, 10));
    facet_tenant_release_regions(&tenant, 10);
    assert_int_equal(spare_of(&tenant), FACET_SPARE_REGIONS_MAX);
    facet_tenant_release_regions(&tenant, 1);
    assert_int_equal(fixture_totals(*state).memory_bytes, 0);
    assert_int_equal(spare_of(&tenant), FACET_SPARE_REGIONS_MAX);
    facet_tenant_detach(&tenant);
}

/* The peak counts memory held, not regions kept beside it. */
static void test_a_process_fills_the_quota_beside_its_spare_regions(void **state)
{
    struct facet_tenant tenant = fixture_attach(*state);

    leave_spare(&tenant, FACET_SPARE_REGIONS_MAX);
    assert_true(facet_tenant_reserve(&tenant, 40 * MIB));
    assert_int_equal(fixture_totals(*state).memory_peak_bytes, 40 * MIB);
    leave_spare(&tenant, FACET_SPARE_REGIONS_MAX);
    assert_true(facet_tenant_reserve_regions(&tenant, 12));
    assert_int_equal(fixture_totals(*state).denied, 0);
    assert_false(facet_tenant_reserve_regions(&tenant, 1));
    assert_false(facet_tenant_reserve(&tenant, 1));
    assert_int_equal(fixture_totals(*state).memory_bytes, 64 * MIB);
    facet_tenant_detach(&tenant);
}

/* Starts a child that holds some regions, leaves some spare, and does nothing more. */
static pid_t start_spare_holder(const struct fixture *fixture, uint32_t kept_regions, uint32_t spare_regions)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct facet_tenant tenant;

        if (facet_tenant_attach(fixture->dir, &tenant, NULL) != FACET_OK ||
            !facet_tenant_reserve_regions(&tenant, kept_regions + spare_regions))
            _exit(3);
        facet_tenant_release_regions(&tenant, spare_regions);
        if (spare_of(&tenant) != spare_regions || write(ready[1], "x", 1) != 1)
            _exit(3);
        pause();
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* The request does not wait for a process that is stopped. */
static void test_a_process_about_to_be_refused_takes_spare_regions_back(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    pid_t child = start_spare_holder(fixture, 2, FACET_SPARE_REGIONS_MAX);

    kill(child, SIGSTOP);
    assert_int_equal(facet_tenant_memory_free(&tenant), 64 * MIB - 2 * REGION);
    assert_true(facet_tenant_reserve(&tenant, 64 * MIB - 2 * REGION));
    assert_int_equal(fixture_totals(fixture).memory_bytes, 64 * MIB);
    assert_int_equal(fixture_totals(fixture).denied, 0);
    assert_false(facet_tenant_reserve_regions(&tenant, 1));
    end_child(child);
    facet_tenant_detach(&tenant);
}

static void test_a_process_that_lost_spare_regions_can_reserve_again(void **state)
{
    struct facet_tenant first = fixture_attach(*state), second = fixture_attach(*state);

    leave_spare(&first, 2);
    assert_true(facet_tenant_reserve_regions(&second, QUOTA_REGIONS));
    assert_false(facet_tenant_take_spare(&first));
    assert_false(facet_tenant_reserve_regions(&first, 1));
    facet_tenant_release_regions(&second, 1);
    assert_true(facet_tenant_reserve_regions(&first, 1)); /* takes the spare region of `second` back */
    assert_int_equal(spare_of(&second), 0);
    assert_false(facet_tenant_reserve_regions(&second, 1));
    facet_tenant_detach(&first);
    facet_tenant_detach(&second);
}

/* While there is room no spare region is taken back: otherwise neighbours would check each other without end. */
static void test_spare_regions_stay_while_there_is_room(void **state)
{
    struct facet_tenant first = fixture_attach(*state), second = fixture_attach(*state);

    leave_spare(&first, 2);
    assert_true(facet_tenant_reserve(&second, 64 * MIB - 2 * REGION));
    assert_int_equal(spare_of(&first), 2);
    assert_true(facet_tenant_take_spare(&first));
    assert_true(facet_tenant_take_spare(&first));
    assert_int_equal(fixture_totals(*state).memory_bytes, 64 * MIB);
    facet_tenant_detach(&first);
    facet_tenant_detach(&second);
}

static void test_a_killed_process_gives_back_held_and_spare_regions(void **state)
{
    struct fixture *fixture = *state;
    pid_t child = start_spare_holder(fixture, 3, 2);

    assert_int_equal(fixture_totals(fixture).memory_bytes, 3 * REGION);
    end_child(child);
    assert_int_equal(facet_owner_reap(fixture->owner), 1);
    assert_int_equal(fixture_totals(fixture).memory_bytes, 0);
    assert_int_equal(facet_usage_charged(fixture->owner->usage), 0);
}

static void test_a_neighbour_gets_held_and_spare_regions_of_the_dead(void **state)
{
    struct facet_tenant tenant = fixture_attach(*state);
    pid_t child = start_spare_holder(*state, 3, 2);

    end_child(child);
    assert_true(facet_tenant_reserve_regions(&tenant, QUOTA_REGIONS));
    facet_tenant_detach(&tenant);
}

static void test_a_lowered_quota_voids_spare_regions(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);

    assert_true(facet_tenant_reserve_regions(&tenant, 30));
    facet_tenant_release_regions(&tenant, 2);
    assert_int_equal(spare_of(&tenant), 2);
    set_quota(fixture, 32 * MIB);
    assert_false(facet_tenant_take_spare(&tenant));
    assert_false(facet_tenant_reserve_regions(&tenant, 1));
    facet_tenant_release_regions(&tenant, 2); /* held above the quota: no region stays spare */
    assert_false(facet_tenant_reserve_regions(&tenant, 1));
    assert_int_equal(spare_of(&tenant), 0);
    assert_int_equal(fixture_totals(fixture).memory_bytes, 26 * REGION);
    facet_tenant_release_regions(&tenant, 11);
    assert_true(facet_tenant_reserve_regions(&tenant, 1));
    assert_false(facet_tenant_reserve_regions(&tenant, 1));
    facet_tenant_release_regions(&tenant, 1); /* within the new quota: kept spare again */
    assert_true(facet_tenant_take_spare(&tenant));
    facet_tenant_detach(&tenant);
}

/* Other processes may have filled the memory meanwhile, so a quota that returns to its former size voids them, too. */
static void test_a_quota_that_went_up_and_down_voids_spare_regions(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant first = fixture_attach(fixture), second = fixture_attach(fixture);

    leave_spare(&first, 1);
    set_quota(fixture, 128 * MIB);
    assert_true(facet_tenant_reserve(&second, 100 * MIB));
    set_quota(fixture, 64 * MIB);
    assert_false(facet_tenant_take_spare(&first));
    assert_false(facet_tenant_reserve_regions(&first, 1));
    facet_tenant_detach(&first);
    facet_tenant_detach(&second);
}

/* An owner dies while it changes the quota, and the next owner adopts the segment. */
static void test_a_change_cut_short_voids_spare_regions(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);

    leave_spare(&tenant, 1);
    atomic_fetch_or(&fixture->owner->policy->memory_limit_sequence, 1);
    assert_false(facet_tenant_take_spare(&tenant));
    assert_true(facet_tenant_reserve_regions(&tenant, 1));
    facet_tenant_release_regions(&tenant, 1);
    assert_int_equal(spare_of(&tenant), 0);
    set_quota(fixture, 64 * MIB);
    leave_spare(&tenant, 1);
    facet_tenant_detach(&tenant);
}

static void test_a_destroyed_vgpu_grants_no_spare_regions(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);

    leave_spare(&tenant, 1);
    facet_owner_retire(fixture->owner);
    assert_false(facet_tenant_take_spare(&tenant));
    assert_false(facet_tenant_reserve_regions(&tenant, 1));
    facet_tenant_detach(&tenant);
}

/* ---- races: `held` rises after a reservation and falls before a release, so it is at most the regions held ---- */

struct race {
    _Atomic uint64_t held, peak, granted;
};

static void note_held(struct race *race, uint32_t count)
{
    uint64_t sum = atomic_fetch_add(&race->held, count) + count, peak = atomic_load(&race->peak);

    while (sum > peak && !atomic_compare_exchange_weak(&race->peak, &peak, sum))
        ;
    atomic_fetch_add(&race->granted, 1);
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

/* Reserves or releases one or two regions. */
static void step_race(struct facet_tenant *tenant, struct race *race, uint32_t *seed, uint32_t *own_regions)
{
    uint32_t random = next_random(seed), count = 1 + random % 2;

    if (random & 0x80 && *own_regions >= count) {
        atomic_fetch_sub(&race->held, count);
        facet_tenant_release_regions(tenant, count);
        *own_regions -= count;
    } else if (!(random & 0x80) && facet_tenant_reserve_regions(tenant, count)) {
        note_held(race, count);
        *own_regions += count;
    }
}

static pid_t start_racer(const struct fixture *fixture, uint32_t seed, struct race *race)
{
    pid_t pid = fork();

    if (pid)
        return pid;
    struct facet_tenant tenant;
    if (facet_tenant_attach(fixture->dir, &tenant, NULL) != FACET_OK)
        _exit(3);
    for (uint32_t own_regions = 0;;)
        step_race(&tenant, race, &seed, &own_regions);
}

static void test_quota_is_never_exceeded_by_racing_processes(void **state)
{
    struct fixture *fixture = *state;
    struct race *race = mmap(NULL, sizeof *race, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[4];

    set_quota(fixture, 8 * REGION);
    for (uint32_t i = 0; i < 4; i++)
        children[i] = start_racer(fixture, i * 77 + 1, race);
    for (int i = 0; i < 3000 && atomic_load(&race->granted) < 100000; i++)
        usleep(10000);
    /* The peak is read before a child is killed: others may get the memory of the dead while `held` still counts it. */
    uint64_t peak = atomic_load(&race->peak);
    for (int i = 0; i < 4; i++)
        end_child(children[i]);
    facet_owner_reap(fixture->owner);
    assert_true(peak == 8);
    assert_true(fixture_totals(fixture).memory_peak_bytes <= 8 * REGION);
    assert_int_equal(facet_usage_charged(fixture->owner->usage), 0);
    munmap(race, sizeof *race);
}

struct worker {
    struct facet_tenant *tenant;
    struct race *race;
    uint32_t seed;
};

static void *use_spares(void *argument)
{
    struct worker *worker = argument;
    uint32_t own_regions = 0;

    for (int i = 0; i < 20000; i++)
        step_race(worker->tenant, worker->race, &worker->seed, &own_regions);
    atomic_fetch_sub(&worker->race->held, own_regions);
    facet_tenant_release_regions(worker->tenant, own_regions);
    return NULL;
}

/* Three threads of one process run beside another process that takes back their spare regions. */
static void test_quota_is_never_exceeded_by_racing_threads(void **state)
{
    struct facet_tenant first = fixture_attach(*state), second = fixture_attach(*state);
    struct race race = {0};
    struct worker workers[4];
    pthread_t threads[4];

    set_quota(*state, 6 * REGION);
    for (uint32_t i = 0; i < 4; i++) {
        workers[i] = (struct worker){.tenant = i ? &first : &second, .race = &race, .seed = i * 31 + 7};
        assert_int_equal(pthread_create(&threads[i], NULL, use_spares, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_true(atomic_load(&race.peak) <= 6);
    assert_true(atomic_load(&race.granted) > 0);
    assert_int_equal(fixture_totals(*state).memory_bytes, 0);
    assert_true(spare_of(&first) <= FACET_SPARE_REGIONS_MAX);
    assert_true(facet_tenant_reserve_regions(&second, 6));
    facet_tenant_detach(&first);
    facet_tenant_detach(&second);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_spare_regions_are_charged_to_no_process),
        TEST(test_few_spare_regions_are_kept_and_none_below_zero),
        TEST(test_a_process_fills_the_quota_beside_its_spare_regions),
        TEST(test_a_process_about_to_be_refused_takes_spare_regions_back),
        TEST(test_a_process_that_lost_spare_regions_can_reserve_again),
        TEST(test_spare_regions_stay_while_there_is_room),
        TEST(test_a_killed_process_gives_back_held_and_spare_regions),
        TEST(test_a_neighbour_gets_held_and_spare_regions_of_the_dead),
        TEST(test_a_lowered_quota_voids_spare_regions),
        TEST(test_a_quota_that_went_up_and_down_voids_spare_regions),
        TEST(test_a_change_cut_short_voids_spare_regions),
        TEST(test_a_destroyed_vgpu_grants_no_spare_regions),
        TEST(test_quota_is_never_exceeded_by_racing_processes),
        TEST(test_quota_is_never_exceeded_by_racing_threads),
    };
    return cmocka_run_group_tests_name("spare", tests, NULL, NULL);
}
