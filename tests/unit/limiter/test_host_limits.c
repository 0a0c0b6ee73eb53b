/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of compute budgets and freezing through facet/limiter.h, also beside interposed processes. */
#include "host_fixture.h"

#include <pthread.h>

#include "base/clock.h"
#include "limiter/tenant.h"

#define BOTH (FACET_RESOURCE_MEMORY | FACET_RESOURCE_COMPUTE)

static struct facet_error error;

static struct facet_tenant attach_tenant(const struct host *host)
{
    struct facet_tenant tenant;
    char path[128];

    snprintf(path, sizeof path, "%s/w", host->dir);
    assert_ok(facet_tenant_attach(path, &tenant, &error), &error);
    return tenant;
}

static void send_heartbeat(const struct host *host)
{
    assert_ok(facet_limiter_worker_heartbeat(host->limiter, "w", &error), &error);
}

/* ---- compute ---- */

static void test_a_worker_without_a_limit_is_admitted_and_recorded(void **state)
{
    struct host *host = *state;

    host_register(host, getpid());
    for (int i = 0; i < 100; i++) {
        struct facet_limiter_verdict verdict = host_check_compute(host, getpid(), 1000 * MS);

        assert_int_equal(verdict.admitted, 1);
        assert_int_equal(verdict.wait_ns, 0);
        assert_true(verdict.available == UINT64_MAX);
    }
    assert_int_equal(host_state(host).busy_ns, 100000 * MS);
}

/* At 1 milli the budget of 10 ms hardly fills during the test, so that amounts and waits are known almost exactly. */
static void test_verdict_has_budget_and_wait(void **state)
{
    struct host *host = *state;
    pid_t other = host_start_process();

    host_set_compute(host, 0, 1);
    host_register(host, getpid());
    host_register(host, other);
    struct facet_limiter_verdict verdict = host_check_compute(host, getpid(), 7 * MS);
    assert_int_equal(verdict.admitted, 1);
    assert_true(verdict.available >= 3 * MS && verdict.available < 4 * MS);
    verdict = host_check_compute(host, other, 5 * MS);
    assert_int_equal(verdict.admitted, 0); /* all processes share the budget */
    assert_true(verdict.wait_ns > 0 && verdict.wait_ns <= 2000 * MS);
    assert_int_equal(host_check_compute(host, other, 3 * MS).admitted, 1);
    assert_int_equal(host_check_compute(host, other, 500 * MS).admitted, 0); /* more than the budget holds */
    assert_int_equal(host_state(host).busy_ns, 10 * MS);
    host_end_process(other);
}

static void test_a_large_cost_is_admitted_by_a_full_budget_and_repaid(void **state)
{
    struct host *host = *state;

    host_set_compute(host, 0, 100);
    host_register(host, getpid());
    assert_int_equal(host_check_compute(host, getpid(), 1000 * MS).admitted, 1);
    struct facet_limiter_verdict verdict = host_check_compute(host, getpid(), 0);
    assert_int_equal(verdict.admitted, 0);
    assert_int_equal(verdict.available, 0);
    /* 10 ms were saved up, so 990 ms are owed: 9900 ms at 100 milli. */
    assert_true(verdict.wait_ns <= 9900 * MS && verdict.wait_ns > 0);
    host_set_compute(host, 0, 1000);
    assert_int_equal(host_check_compute(host, getpid(), 100 * MS).admitted, 1);
}

static void test_compute_refuses_wrong_arguments(void **state)
{
    struct host *host = *state;
    struct facet_limiter_verdict verdict = {.size = sizeof verdict};

    host_register(host, getpid());
    assert_int_equal(facet_limiter_compute_check(host->limiter, "w", getpid(), UINT64_MAX, &verdict, &error),
                     FACET_OUT_OF_RANGE);
    assert_string_equal(error.argument, "busy_ns");
    assert_int_equal(facet_limiter_compute_check(host->limiter, "w", 1, 1, &verdict, &error), FACET_NOT_FOUND);
    assert_int_equal(facet_limiter_compute_check(host->limiter, "x", getpid(), 1, &verdict, &error), FACET_NOT_FOUND);
    assert_int_equal(facet_limiter_compute_check(host->limiter, "w", getpid(), 1, NULL, &error),
                     FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_limiter_compute_check(NULL, "w", getpid(), 1, &verdict, &error), FACET_INVALID_ARGUMENT);
    verdict.size = 0;
    assert_int_equal(facet_limiter_compute_check(host->limiter, "w", getpid(), 1, &verdict, &error),
                     FACET_INVALID_ARGUMENT);
    assert_int_equal(verdict.admitted, 0);
    assert_int_equal(host_state(host).busy_ns, 0);
}

/* ---- many threads, whose device time is bounded together ---- */

struct burner {
    const struct host *host;
    unsigned seed;
    uint64_t until_ns;
};

static void *burn_main(void *argument)
{
    struct burner *burner = argument;
    struct facet_limiter_verdict verdict = {.size = sizeof verdict};

    while (facet_clock_now_ns() < burner->until_ns)
        facet_limiter_compute_check(burner->host->limiter, "w", getpid(), (uint64_t)rand_r(&burner->seed) % (2 * MS),
                                    &verdict, NULL);
    return NULL;
}

static void test_threads_share_one_budget(void **state)
{
    struct host *host = *state;
    struct burner burners[8];
    pthread_t threads[8];

    host_set_compute(host, 0, 300);
    host_register(host, getpid());
    uint64_t began_ns = facet_clock_now_ns();
    for (unsigned i = 0; i < 8; i++) {
        burners[i] = (struct burner){host, i + 1, began_ns + 400 * MS};
        assert_int_equal(pthread_create(&threads[i], NULL, burn_main, &burners[i]), 0);
    }
    for (unsigned i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    uint64_t elapsed_ns = facet_clock_now_ns() - began_ns, busy_ns = host_state(host).busy_ns;
    /* At first 10 ms were saved up, and the last cost, of less than 2 ms, may exceed the budget. */
    assert_true(busy_ns <= elapsed_ns * 300 / 1000 + 1 + 10 * MS + 2 * MS);
    assert_true(busy_ns > 12 * MS); /* the budget was filled again while the threads ran */
}

/* ---- freezing by hand ---- */

static void test_frozen_memory_admits_nothing(void **state)
{
    struct host *host = *state;

    host_register(host, getpid());
    assert_int_equal(host_check_memory(host, getpid(), 100).admitted, 1);
    assert_int_equal(facet_limiter_freeze(host->limiter, "w", FACET_RESOURCE_MEMORY, NULL), FACET_OK);
    struct facet_limiter_verdict verdict = host_check_memory(host, getpid(), 1);
    assert_int_equal(verdict.admitted, 0);
    assert_true(verdict.wait_ns == UINT64_MAX);
    assert_int_equal(host_check_memory(host, getpid(), -40).admitted, 1);
    assert_int_equal(host_check_compute(host, getpid(), 5).admitted, 1); /* compute is not frozen */

    struct facet_limiter_state before = host_state(host);
    assert_int_equal(before.frozen, FACET_RESOURCE_MEMORY);
    assert_int_equal(before.memory_bytes, 60);
    assert_int_equal(before.denied, 1);
    assert_true(before.frozen_since_ns > UINT64_C(1000000000) * FACET_NS_PER_S); /* since 1970: after 2001 */
    assert_int_equal(facet_limiter_freeze(host->limiter, "w", FACET_RESOURCE_MEMORY, NULL), FACET_OK);
    assert_int_equal(host_state(host).frozen_since_ns, before.frozen_since_ns);
    assert_int_equal(facet_limiter_resume(host->limiter, "w", BOTH, NULL), FACET_OK);
    assert_int_equal(facet_limiter_resume(host->limiter, "w", BOTH, NULL), FACET_OK);
    assert_int_equal(host_state(host).frozen_since_ns, 0);
    assert_int_equal(host_check_memory(host, getpid(), 1).admitted, 1);
}

static void test_frozen_compute_admits_nothing(void **state)
{
    struct host *host = *state;

    host_register(host, getpid());
    assert_int_equal(facet_limiter_freeze(host->limiter, "w", FACET_RESOURCE_COMPUTE, NULL), FACET_OK);
    struct facet_limiter_verdict verdict = host_check_compute(host, getpid(), 5);
    assert_int_equal(verdict.admitted, 0);
    assert_true(verdict.wait_ns == UINT64_MAX);
    assert_int_equal(host_check_memory(host, getpid(), 1).admitted, 1);
    assert_int_equal(host_state(host).busy_ns, 0);
    assert_int_equal(facet_limiter_resume(host->limiter, "w", FACET_RESOURCE_COMPUTE, NULL), FACET_OK);
    assert_int_equal(host_check_compute(host, getpid(), 5).admitted, 1);
}

static void test_a_freeze_outlives_the_handle(void **state)
{
    struct host *host = *state;

    assert_int_equal(facet_limiter_freeze(host->limiter, "w", BOTH, NULL), FACET_OK);
    uint64_t since_ns = host_state(host).frozen_since_ns;
    facet_limiter_close(host->limiter);
    host_open(host);
    host_adopt_worker(host);
    assert_int_equal(host_state(host).frozen, BOTH);
    assert_int_equal(host_state(host).frozen_since_ns, since_ns);
}

static void test_freezing_refuses_wrong_arguments(void **state)
{
    struct host *host = *state;
    enum facet_status (*const calls[])(struct facet_limiter *, const char *, uint32_t, struct facet_error *) = {
        facet_limiter_freeze, facet_limiter_resume, facet_limiter_auto_resume};

    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(calls[i](host->limiter, "w", 0, &error), FACET_INVALID_ARGUMENT);
        assert_string_equal(error.argument, "resources");
        assert_int_equal(calls[i](host->limiter, "w", 7, &error), FACET_INVALID_ARGUMENT);
        assert_int_equal(calls[i](host->limiter, "x", BOTH, &error), FACET_NOT_FOUND);
        assert_int_equal(calls[i](host->limiter, NULL, BOTH, &error), FACET_INVALID_ARGUMENT);
        assert_int_equal(calls[i](NULL, "w", BOTH, &error), FACET_INVALID_ARGUMENT);
    }
    assert_int_equal(facet_limiter_auto_freeze(host->limiter, "w", 4, 1, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_limiter_auto_freeze(host->limiter, "x", BOTH, 1, &error), FACET_NOT_FOUND);
    assert_int_equal(facet_limiter_auto_freeze(NULL, "w", BOTH, 1, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(host_state(host).frozen, 0);
}

/* ---- freezing because idle ---- */

static void become_idle(const struct host *host)
{
    assert_int_equal(facet_limiter_auto_freeze(host->limiter, "w", BOTH, 20 * MS, NULL), FACET_OK);
    usleep(30000);
    send_heartbeat(host);
    assert_int_equal(host_state(host).auto_frozen, BOTH);
    assert_true(host_state(host).idle_ns >= 20 * MS);
}

/* The state that tenants see. Reading it through the host would update it first. */
static uint32_t auto_frozen(const struct facet_tenant *tenant)
{
    return atomic_load(&tenant->policy->frozen) / FACET_FROZEN_AUTO(1);
}

static void test_use_resumes_an_idle_worker(void **state)
{
    struct host *host = *state;

    struct facet_tenant tenant = attach_tenant(host);

    host_register(host, getpid());
    become_idle(host);
    assert_int_equal(host_check_memory(host, getpid(), 1).admitted, 1);
    assert_int_equal(auto_frozen(&tenant), FACET_RESOURCE_COMPUTE);
    become_idle(host);
    assert_int_equal(host_check_compute(host, getpid(), 1).admitted, 1);
    assert_int_equal(auto_frozen(&tenant), 0); /* memory of a computing process is in use */
    assert_int_equal(FACET_GATE_STATE(atomic_load(&tenant.policy->gate)), FACET_GATE_OPEN);
    become_idle(host);
    assert_int_equal(facet_limiter_auto_resume(host->limiter, "w", FACET_RESOURCE_COMPUTE, NULL), FACET_OK);
    assert_int_equal(auto_frozen(&tenant), FACET_RESOURCE_MEMORY);
    assert_int_equal(facet_limiter_auto_freeze(host->limiter, "w", BOTH, 0, NULL), FACET_OK);
    usleep(30000);
    send_heartbeat(host);
    assert_int_equal(host_state(host).auto_frozen, 0);
    facet_tenant_detach(&tenant);
}

static void test_a_freeze_by_hand_survives_auto_resume(void **state)
{
    struct host *host = *state;

    host_register(host, getpid());
    become_idle(host);
    assert_int_equal(facet_limiter_freeze(host->limiter, "w", BOTH, NULL), FACET_OK);
    assert_int_equal(facet_limiter_auto_resume(host->limiter, "w", BOTH, NULL), FACET_OK);
    assert_int_equal(host_state(host).frozen, BOTH);
    assert_int_equal(host_check_memory(host, getpid(), 1).admitted, 0);
    assert_int_equal(host_check_compute(host, getpid(), 1).admitted, 0);
}

/* ---- interposed processes ---- */

struct launch {
    struct facet_tenant *tenant;
    _Atomic bool admitted_yet;
};

static void *launch_main(void *argument)
{
    struct launch *launch = argument;
    uint64_t charged_ns = facet_tenant_launch(launch->tenant, 0);

    facet_tenant_complete(launch->tenant, 1, charged_ns, 5, facet_clock_now_ns());
    atomic_store(&launch->admitted_yet, true);
    return NULL;
}

static void test_interposed_launch_resumes_at_a_heartbeat(void **state)
{
    struct host *host = *state;
    struct facet_tenant tenant = attach_tenant(host);
    struct launch launch = {.tenant = &tenant};
    pthread_t thread;

    become_idle(host);
    assert_int_equal(pthread_create(&thread, NULL, launch_main, &launch), 0);
    for (int i = 0; i < 5000 && !atomic_load(&launch.admitted_yet); i++) {
        send_heartbeat(host);
        usleep(1000);
    }
    assert_true(atomic_load(&launch.admitted_yet));
    pthread_join(thread, NULL);
    facet_tenant_detach(&tenant);
}

static void test_interposed_launch_waits_while_frozen_by_hand(void **state)
{
    struct host *host = *state;
    struct facet_tenant tenant = attach_tenant(host);
    struct launch launch = {.tenant = &tenant};
    pthread_t thread;

    assert_int_equal(facet_limiter_freeze(host->limiter, "w", FACET_RESOURCE_COMPUTE, NULL), FACET_OK);
    assert_int_equal(pthread_create(&thread, NULL, launch_main, &launch), 0);
    for (int i = 0; i < 60; i++) {
        send_heartbeat(host);
        usleep(1000);
    }
    assert_false(atomic_load(&launch.admitted_yet));
    assert_int_equal(facet_limiter_resume(host->limiter, "w", FACET_RESOURCE_COMPUTE, NULL), FACET_OK);
    pthread_join(thread, NULL);
    assert_true(atomic_load(&launch.admitted_yet));
    facet_tenant_detach(&tenant);
}

/* Time that a registered process used is not available to an interposed one. */
static void test_registered_and_interposed_share_one_budget(void **state)
{
    struct host *host = *state;
    struct facet_tenant tenant = attach_tenant(host);

    host_register(host, getpid());
    host_set_compute(host, 0, 100);
    uint64_t started_ns = facet_clock_now_ns();
    assert_int_equal(host_check_compute(host, getpid(), 30 * MS).admitted, 1);
    uint64_t charged_ns = facet_tenant_launch(&tenant, 0); /* a debt of 20 ms takes 200 ms to fill */
    assert_true(facet_clock_now_ns() - started_ns >= 200 * MS);
    facet_tenant_complete(&tenant, 1, charged_ns, 200 * MS, facet_clock_now_ns());
    assert_int_equal(host_check_compute(host, getpid(), 1 * MS).admitted, 0);
    assert_int_equal(host_state(host).busy_ns, 230 * MS);
    facet_tenant_detach(&tenant);
}

/* Once heartbeats are missing for long enough, 10 kernels of 5 ms at a guarantee of 200 milli take 250 ms, less 50 ms
 * saved up and the pause behind the last kernel. */
static void test_guarantee_holds_when_heartbeats_stop(void **state)
{
    struct host *host = *state;
    struct facet_tenant tenant = attach_tenant(host);

    host_set_compute(host, 200, 1000);
    send_heartbeat(host);
    facet_tenant_supervise(&tenant, facet_clock_now_ns());
    assert_int_equal(atomic_load(&tenant.orphan), 0);
    usleep(500000);
    facet_tenant_supervise(&tenant, facet_clock_now_ns());
    assert_int_equal(atomic_load(&tenant.orphan), 1);
    uint64_t started_ns = facet_clock_now_ns();
    for (int i = 0; i < 10; i++) {
        uint64_t charged_ns = facet_tenant_launch(&tenant, 0);
        facet_tenant_complete(&tenant, 1, charged_ns, 5 * MS, facet_clock_now_ns());
    }
    assert_true(facet_clock_now_ns() - started_ns >= 175 * MS);
    facet_tenant_detach(&tenant);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, host_setup, host_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_worker_without_a_limit_is_admitted_and_recorded),
        TEST(test_verdict_has_budget_and_wait),
        TEST(test_a_large_cost_is_admitted_by_a_full_budget_and_repaid),
        TEST(test_compute_refuses_wrong_arguments),
        TEST(test_threads_share_one_budget),
        TEST(test_frozen_memory_admits_nothing),
        TEST(test_frozen_compute_admits_nothing),
        TEST(test_a_freeze_outlives_the_handle),
        TEST(test_freezing_refuses_wrong_arguments),
        TEST(test_use_resumes_an_idle_worker),
        TEST(test_a_freeze_by_hand_survives_auto_resume),
        TEST(test_interposed_launch_resumes_at_a_heartbeat),
        TEST(test_interposed_launch_waits_while_frozen_by_hand),
        TEST(test_registered_and_interposed_share_one_budget),
        TEST(test_guarantee_holds_when_heartbeats_stop),
    };
    return cmocka_run_group_tests_name("host_limits", tests, NULL, NULL);
}
