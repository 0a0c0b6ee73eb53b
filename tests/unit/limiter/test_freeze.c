/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of freezing between owner and tenant: by hand, because of idleness, and while the owner is gone. Never:
 * calls the public API. */
#include "segment_fixture.h"

#include <pthread.h>

#define MS FACET_NS_PER_MS

/* A tick of the owner at `now_ns`, and the gate that a scheduler would set. */
static uint32_t tick_owner(const struct fixture *fixture, uint64_t now_ns)
{
    struct facet_usage_totals totals = fixture_totals(fixture);
    uint32_t frozen = facet_owner_update_idle_freeze(fixture->owner, &totals, now_ns);

    facet_owner_set_gate(fixture->owner, frozen & FACET_RESOURCE_COMPUTE ? FACET_GATE_CLOSED : FACET_GATE_OPEN);
    return frozen;
}

static void freeze_when_idle(const struct fixture *fixture)
{
    facet_owner_set_idle_freeze(fixture->owner, FACET_FROZEN_RESOURCES, 100 * MS);
    assert_int_equal(tick_owner(fixture, 1000 * MS), 0);
    assert_int_equal(tick_owner(fixture, 1100 * MS), FACET_FROZEN_RESOURCES);
}

/* A thread that allocates or launches once. */
struct user {
    struct facet_tenant *tenant;
    uint64_t bytes;
    bool granted;
    _Atomic bool admitted_yet;
    pthread_t thread;
};

static void *allocate_main(void *argument)
{
    struct user *user = argument;

    user->granted = facet_tenant_reserve(user->tenant, user->bytes);
    atomic_store(&user->admitted_yet, true);
    return NULL;
}

static void *launch_main(void *argument)
{
    struct user *user = argument;
    uint64_t charged_ns = facet_tenant_launch(user->tenant, 0);

    user->granted = charged_ns != FACET_TENANT_LOST;
    if (user->granted)
        facet_tenant_complete(user->tenant, 1, charged_ns, 5, facet_clock_now_ns());
    atomic_store(&user->admitted_yet, true);
    return NULL;
}

static void start_user(struct user *user, struct facet_tenant *tenant, void *(*use)(void *))
{
    *user = (struct user){.tenant = tenant, .bytes = 1 * MIB};
    assert_int_equal(pthread_create(&user->thread, NULL, use, user), 0);
}

/* True if the thread is admitted within `ms`, while the owner does nothing. */
static bool is_admitted_within(const struct user *user, unsigned ms)
{
    for (unsigned i = 0; i < ms && !atomic_load(&user->admitted_yet); i++)
        usleep(1000);
    return atomic_load(&user->admitted_yet);
}

static void wait_until_waiting(const struct fixture *fixture)
{
    for (int i = 0; i < 5000; i++) {
        struct facet_usage_totals totals = fixture_totals(fixture);

        if (totals.waiting || totals.allocating)
            return;
        usleep(1000);
    }
    fail_msg("no thread waits after 5 s, expected one");
}

static void test_a_vgpu_freezes_once_it_is_idle_for_long_enough(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);

    assert_int_equal(tick_owner(fixture, 1000 * MS), 0);
    assert_int_equal(tick_owner(fixture, 900000 * MS), 0); /* idle freezing is off by default */
    facet_owner_set_idle_freeze(fixture->owner, FACET_RESOURCE_COMPUTE, 100 * MS);
    facet_tenant_complete(&tenant, 1, facet_tenant_launch(&tenant, 0), 5, 1);
    assert_int_equal(tick_owner(fixture, 1000000 * MS), 0);
    assert_int_equal(tick_owner(fixture, 1000100 * MS - 1), 0);
    assert_int_equal(facet_owner_idle_ns(fixture->owner, 1000100 * MS - 1), 100 * MS - 1);
    assert_int_equal(facet_owner_frozen_since_ns(fixture->owner), 0);
    assert_int_equal(tick_owner(fixture, 1000100 * MS), FACET_RESOURCE_COMPUTE);
    assert_true(facet_owner_frozen_since_ns(fixture->owner) > 0);
    assert_int_equal(facet_owner_frozen(fixture->owner), 0);
    facet_owner_set_idle_freeze(fixture->owner, FACET_RESOURCE_COMPUTE, 0);
    assert_int_equal(tick_owner(fixture, 1000101 * MS), 0);
    facet_tenant_detach(&tenant);
}

static void test_allocations_and_launches_count_as_use_and_releases_do_not(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);

    freeze_when_idle(fixture);
    facet_tenant_release(&tenant, 0);
    assert_int_equal(tick_owner(fixture, 1101 * MS), FACET_FROZEN_RESOURCES);
    /* An allocation uses memory alone; a launch uses both resources. */
    facet_owner_note_use(fixture->owner, FACET_RESOURCE_MEMORY, 1101 * MS);
    assert_true(facet_tenant_reserve(&tenant, 1));
    assert_int_equal(tick_owner(fixture, 1150 * MS), FACET_RESOURCE_COMPUTE);
    assert_int_equal(tick_owner(fixture, 1249 * MS), FACET_RESOURCE_COMPUTE);
    facet_owner_note_use(fixture->owner, FACET_RESOURCE_COMPUTE, 1249 * MS);
    facet_owner_set_gate(fixture->owner, FACET_GATE_OPEN);
    facet_tenant_launch(&tenant, 0);
    assert_int_equal(tick_owner(fixture, 5000 * MS), 0); /* work in flight is a use, however long it takes */
    assert_int_equal(tick_owner(fixture, 9000 * MS), 0);
    facet_tenant_complete(&tenant, 1, 0, 5, 1);
    assert_int_equal(tick_owner(fixture, 9001 * MS), 0);
    assert_int_equal(tick_owner(fixture, 9101 * MS), FACET_FROZEN_RESOURCES);
    facet_tenant_detach(&tenant);
}

/* A call of a frozen tenant waits. The owner sees the wait at its next tick, and resumes the tenant. */
static void check_use_resumes(const struct fixture *fixture, void *(*use)(void *), uint32_t still_frozen)
{
    struct facet_tenant tenant = fixture_attach(fixture);
    struct user user;

    freeze_when_idle(fixture);
    uint32_t rings = atomic_load(facet_owner_rings(fixture->owner));
    start_user(&user, &tenant, use);
    wait_until_waiting(fixture);
    assert_false(is_admitted_within(&user, 60));
    assert_true(atomic_load(facet_owner_rings(fixture->owner)) > rings);
    assert_int_equal(tick_owner(fixture, 1150 * MS), still_frozen);
    assert_true(is_admitted_within(&user, 5000));
    pthread_join(user.thread, NULL);
    assert_true(user.granted);
    assert_int_equal(fixture_totals(fixture).allocating, 0);
    assert_int_equal(fixture_totals(fixture).waiting, 0);
    facet_tenant_detach(&tenant);
}

static void test_launch_resumes_a_frozen_tenant(void **state)
{
    check_use_resumes(*state, launch_main, 0);
}

static void test_allocation_resumes_a_frozen_tenant(void **state)
{
    check_use_resumes(*state, allocate_main, FACET_RESOURCE_COMPUTE);
}

static void test_an_idle_freeze_ends_without_an_owner(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    void *(*const uses[])(void *) = {launch_main, allocate_main};
    struct user user;

    freeze_when_idle(fixture);
    for (int i = 0; i < 2; i++) {
        facet_owner_set_heartbeat(fixture->owner, facet_clock_now_ns());
        facet_tenant_supervise(&tenant, facet_clock_now_ns());
        start_user(&user, &tenant, uses[i]);
        pthread_join(user.thread, NULL); /* the heartbeat becomes too old, so the call ends */
        assert_true(user.granted);
        assert_int_equal(atomic_load(&tenant.orphan), 1);
    }
    facet_tenant_detach(&tenant);
}

static void test_memory_frozen_by_hand_waits_even_without_an_owner(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct user user;

    assert_true(facet_tenant_reserve(&tenant, 2 * MIB));
    facet_owner_set_frozen(fixture->owner, FACET_RESOURCE_MEMORY);
    facet_owner_set_heartbeat(fixture->owner, 1);
    facet_tenant_release(&tenant, 1 * MIB); /* releasing memory is always allowed */
    assert_int_equal(fixture_totals(fixture).memory_bytes, 1 * MIB);
    assert_false(facet_tenant_reserve(&tenant, 65 * MIB)); /* beyond the quota: refused at once */
    start_user(&user, &tenant, allocate_main);
    wait_until_waiting(fixture);
    usleep(600000);
    assert_false(atomic_load(&user.admitted_yet));
    facet_owner_set_frozen(fixture->owner, 0);
    assert_true(is_admitted_within(&user, 5000));
    pthread_join(user.thread, NULL);
    assert_true(user.granted);
    assert_int_equal(fixture_totals(fixture).memory_bytes, 2 * MIB);
    facet_tenant_detach(&tenant);
}

static void test_frozen_memory_of_a_destroyed_vgpu_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct user user;

    facet_owner_set_frozen(fixture->owner, FACET_FROZEN_RESOURCES);
    start_user(&user, &tenant, allocate_main);
    wait_until_waiting(fixture);
    facet_owner_retire(fixture->owner);
    assert_true(is_admitted_within(&user, 5000));
    pthread_join(user.thread, NULL);
    assert_false(user.granted);
    facet_tenant_detach(&tenant);
}

static void test_a_freeze_by_hand_is_not_resumed_by_use(void **state)
{
    struct fixture *fixture = *state;

    freeze_when_idle(fixture);
    uint64_t since_ns = facet_owner_frozen_since_ns(fixture->owner);
    facet_owner_set_frozen(fixture->owner, FACET_RESOURCE_COMPUTE);
    facet_owner_note_use(fixture->owner, FACET_FROZEN_RESOURCES, 1200 * MS);
    assert_int_equal(tick_owner(fixture, 1201 * MS), 0);
    assert_int_equal(facet_owner_frozen(fixture->owner), FACET_RESOURCE_COMPUTE);
    assert_int_equal(facet_owner_frozen_since_ns(fixture->owner), since_ns);
    /* Resuming by hand counts as a use, so that the vGPU does not freeze again at once. */
    tick_owner(fixture, 1400 * MS);
    facet_owner_set_frozen(fixture->owner, 0);
    assert_int_equal(facet_owner_auto_frozen(fixture->owner), FACET_RESOURCE_MEMORY);
}

/* A new owner keeps the freeze and the threshold of idleness; only a use resumes the vGPU. */
static void test_another_owner_keeps_an_idle_freeze(void **state)
{
    struct fixture *fixture = *state;

    freeze_when_idle(fixture);
    facet_owner_close(fixture->owner);
    fixture->owner = NULL;
    assert_int_equal(facet_owner_adopt(fixture->dir, &fixture->spec, &fixture->owner, NULL), FACET_OK);
    assert_int_equal(tick_owner(fixture, 5000 * MS), FACET_FROZEN_RESOURCES);
    facet_owner_note_use(fixture->owner, FACET_FROZEN_RESOURCES, 5001 * MS);
    assert_int_equal(tick_owner(fixture, 5002 * MS), 0);
    assert_int_equal(tick_owner(fixture, 5101 * MS), FACET_FROZEN_RESOURCES);
}

/* A gate without a scheduler paces the tenant by its limit. 20 kernels of 5 ms at 250 milli take 400 ms, less the 40 ms
 * saved up and the pause behind the last kernel. */
static void test_paced_gate_keeps_to_the_limit(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct facet_limits limits = fixture->spec.limits;
    const uint64_t kernel_ns = 5 * MS, started_ns = facet_clock_now_ns();

    limits.compute_limit_milli = 250;
    facet_owner_set_limits(fixture->owner, &limits);
    facet_owner_set_gate(fixture->owner, FACET_GATE_PACED);
    for (int i = 0; i < 20; i++) {
        uint64_t charged_ns = facet_tenant_launch(&tenant, kernel_ns);
        facet_tenant_complete(&tenant, 1, charged_ns, kernel_ns, facet_clock_now_ns());
    }
    assert_true(facet_clock_now_ns() - started_ns >= 340 * MS);
    assert_true(fixture_totals(fixture).throttled_ns > 0);
    facet_tenant_detach(&tenant);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_vgpu_freezes_once_it_is_idle_for_long_enough),
        TEST(test_allocations_and_launches_count_as_use_and_releases_do_not),
        TEST(test_launch_resumes_a_frozen_tenant),
        TEST(test_allocation_resumes_a_frozen_tenant),
        TEST(test_an_idle_freeze_ends_without_an_owner),
        TEST(test_memory_frozen_by_hand_waits_even_without_an_owner),
        TEST(test_frozen_memory_of_a_destroyed_vgpu_is_refused),
        TEST(test_a_freeze_by_hand_is_not_resumed_by_use),
        TEST(test_another_owner_keeps_an_idle_freeze),
        TEST(test_paced_gate_keeps_to_the_limit),
    };
    return cmocka_run_group_tests_name("freeze", tests, NULL, NULL);
}
