/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that quotas hold, and that held memory comes back, when managers and processes are killed at any moment.
 */
#include "host_fixture.h"

#include <sys/mman.h>

#include "limiter/tenant.h"

/*
 * State shared by the processes of a race: a lower bound of the bytes that they hold together, and the peak of that
 * bound.
 */
struct race {
    _Atomic uint64_t held, peak;
};

static struct race *race_new(void)
{
    return mmap(NULL, sizeof(struct race), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void note_held(struct race *race, uint64_t bytes)
{
    uint64_t sum = atomic_fetch_add(&race->held, bytes) + bytes, peak = atomic_load(&race->peak);

    while (sum > peak && !atomic_compare_exchange_weak(&race->peak, &peak, sum))
        ;
}

static int64_t next_bytes(unsigned *seed)
{
    return rand_r(seed) % (16 * (int64_t)MIB) + 1;
}

/* Starts an interposed process that reserves and releases until it is killed. */
static pid_t start_tenant(const struct host *host, unsigned seed, struct race *race)
{
    struct facet_tenant tenant;
    uint64_t own_bytes = 0;
    char path[128];

    pid_t pid = fork();
    if (pid)
        return pid;
    close_range(3, ~0u, 0);
    alarm(120);
    snprintf(path, sizeof path, "%s/w", host->dir);
    if (facet_tenant_attach(path, &tenant, NULL) != FACET_OK)
        _exit(3);
    for (;;) {
        uint64_t bytes = (uint64_t)next_bytes(&seed);

        if (facet_tenant_reserve(&tenant, bytes)) {
            own_bytes += bytes;
            note_held(race, bytes);
        }
        if (own_bytes > 20 * MIB) {
            atomic_fetch_sub(&race->held, own_bytes);
            facet_tenant_release(&tenant, own_bytes);
            own_bytes = 0;
        }
    }
}

static void check_once(const struct host *host, pid_t pid, int64_t *own_bytes, unsigned *seed, struct race *race)
{
    int64_t bytes = next_bytes(seed);

    if (host_check_memory(host, pid, bytes).admitted) {
        *own_bytes += bytes;
        note_held(race, (uint64_t)bytes);
    }
    if (*own_bytes > 20 * (int64_t)MIB) {
        atomic_fetch_sub(&race->held, (uint64_t)*own_bytes);
        host_check_memory(host, pid, -*own_bytes);
        *own_bytes = 0;
    }
}

static void test_registered_and_interposed_share_one_quota(void **state)
{
    struct host *host = *state;
    struct race *race = race_new();
    pid_t registered = host_start_process(), tenants[2];
    unsigned seed = 9;
    int64_t own_bytes = 0;

    host_register(host, registered);
    for (unsigned i = 0; i < 2; i++)
        tenants[i] = start_tenant(host, i + 1, race);
    for (int i = 0; i < 200000; i++)
        check_once(host, registered, &own_bytes, &seed, race);
    /* The peak is read before a process is killed: others may get its memory while `held` still counts it. */
    uint64_t peak = atomic_load(&race->peak);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(waitpid(tenants[i], NULL, WNOHANG), 0); /* still running */
        host_end_process(tenants[i]);
    }
    assert_true(peak <= 64 * MIB);
    assert_true(peak > 20 * MIB); /* a single process never holds so much */
    assert_int_equal(host_state(host).memory_bytes, own_bytes);
    host_end_process(registered);
    assert_int_equal(host_state(host).memory_bytes, 0);
    munmap(race, sizeof *race);
}

static void test_killed_processes_give_everything_back(void **state)
{
    struct host *host = *state;

    for (int round = 0; round < 50; round++) {
        pid_t pids[4];

        for (int i = 0; i < 4; i++) {
            pids[i] = host_start_process();
            host_register(host, pids[i]);
            assert_int_equal(host_check_memory(host, pids[i], 16 * (int64_t)MIB).admitted, 1);
        }
        for (int i = 0; i < 4; i++)
            host_end_process(pids[i]);
        struct facet_limiter_state after = host_state(host);
        assert_int_equal(after.memory_bytes, 0);
        assert_int_equal(after.processes, 0);
    }
}

/* Starts a manager that calls one function after the other until it is killed, and writes to `ready` when it begins. */
static pid_t start_manager(struct host *host, pid_t registered, unsigned seed, int ready)
{
    struct facet_limiter_verdict verdict = {.size = sizeof verdict};

    pid_t pid = fork();
    if (pid)
        return pid;
    alarm(120);
    host->worker.limits.compute_limit_milli = 300;
    if (facet_limiter_open(host->dir, &host->limiter, NULL) != FACET_OK ||
        facet_limiter_worker_adopt(host->limiter, &host->worker, NULL) != FACET_OK ||
        facet_limiter_process_register(host->limiter, "w", registered, NULL) != FACET_OK || write(ready, "x", 1) != 1)
        _exit(3);
    host->worker.id = "second";
    for (;;) {
        facet_limiter_memory_check(host->limiter, "w", registered, next_bytes(&seed), &verdict, NULL);
        facet_limiter_compute_check(host->limiter, "w", registered, 1000, &verdict, NULL);
        facet_limiter_freeze(host->limiter, "w", FACET_RESOURCE_COMPUTE, NULL);
        facet_limiter_resume(host->limiter, "w", FACET_RESOURCE_COMPUTE, NULL);
        facet_limiter_worker_heartbeat(host->limiter, "w", NULL);
        facet_limiter_worker_create(host->limiter, &host->worker, NULL);
        facet_limiter_process_register(host->limiter, "second", registered, NULL);
        facet_limiter_worker_remove(host->limiter, "second", true, NULL);
    }
}

/* The second worker exists completely or not at all, whichever call the manager was killed in. */
static void assert_second_is_whole(struct host *host)
{
    struct facet_limiter_worker second = host->worker;
    struct facet_error error;

    second.id = "second";
    enum facet_status status = facet_limiter_worker_adopt(host->limiter, &second, &error);
    if (status == FACET_NOT_FOUND)
        status = facet_limiter_worker_create(host->limiter, &second, &error);
    /* If the worker's removal had begun, files are missing, and the worker is removed by force. */
    if (status == FACET_CORRUPT) {
        assert_ok(facet_limiter_worker_remove(host->limiter, "second", true, &error), &error);
        status = facet_limiter_worker_create(host->limiter, &second, &error);
    }
    assert_ok(status, &error);
    assert_ok(facet_limiter_worker_remove(host->limiter, "second", false, &error), &error);
}

static void test_killed_managers_leave_workers_that_can_be_adopted(void **state)
{
    struct host *host = *state;
    pid_t registered = host_start_process();
    struct facet_tenant tenant;
    char path[128];

    snprintf(path, sizeof path, "%s/w", host->dir);
    assert_int_equal(facet_tenant_attach(path, &tenant, NULL), FACET_OK);
    assert_true(facet_tenant_reserve(&tenant, 3 * MIB));
    for (unsigned round = 0; round < 60; round++) {
        int ready[2];
        char byte;

        facet_limiter_close(host->limiter);
        host->limiter = NULL;
        assert_int_equal(pipe(ready), 0);
        pid_t manager = start_manager(host, registered, round + 1, ready[1]);
        close(ready[1]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        usleep(round * 97 % 4000);
        host_end_process(manager);

        host_open(host);
        host_adopt_worker(host);
        assert_int_equal(host_state(host).memory_bytes, 3 * MIB);
        assert_int_equal(host_state(host).processes, 1);
        assert_second_is_whole(host);
        host_register(host, registered);
        assert_int_equal(host_check_memory(host, registered, 61 * (int64_t)MIB).admitted, 1);
        assert_int_equal(host_check_memory(host, registered, 1).admitted, 0);
    }
    facet_tenant_detach(&tenant);
    host_end_process(registered);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, host_setup, host_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_registered_and_interposed_share_one_quota),
        TEST(test_killed_processes_give_everything_back),
        TEST(test_killed_managers_leave_workers_that_can_be_adopted),
    };
    return cmocka_run_group_tests_name("host_crash", tests, NULL, NULL);
}
