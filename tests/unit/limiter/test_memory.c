/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that a quota is exact to the byte, and that memory of a dead process comes back. Never: tests compute
 * limits. */
#include "../../effort.h"
#include "segment_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static void test_quota_is_exact_to_the_byte(void **state)
{
    struct facet_tenant tenant = fixture_attach(*state);

    assert_true(facet_tenant_reserve(&tenant, 64 * MIB - 1));
    assert_false(facet_tenant_reserve(&tenant, 2));
    assert_true(facet_tenant_reserve(&tenant, 1));
    assert_false(facet_tenant_reserve(&tenant, 1));
    assert_int_equal(facet_tenant_memory_free(&tenant), 0);
    facet_tenant_release(&tenant, 64 * MIB);
    assert_int_equal(facet_tenant_memory_free(&tenant), 64 * MIB);

    struct facet_usage_totals totals = fixture_totals(*state);
    assert_int_equal(totals.memory_bytes, 0);
    assert_int_equal(totals.memory_peak_bytes, 64 * MIB);
    assert_int_equal(totals.denied, 2);
    facet_tenant_detach(&tenant);
}

static void test_absurd_sizes_are_refused(void **state)
{
    struct facet_tenant tenant = fixture_attach(*state);

    assert_false(facet_tenant_reserve(&tenant, UINT64_MAX));
    assert_false(facet_tenant_reserve(&tenant, UINT64_MAX / 2));
    assert_true(facet_tenant_reserve(&tenant, 0));
    assert_int_equal(fixture_totals(*state).memory_bytes, 0);
    facet_tenant_detach(&tenant);
}

static void test_quota_is_shared_between_processes(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant first = fixture_attach(fixture), second = fixture_attach(fixture);

    assert_true(facet_tenant_reserve(&first, 40 * MIB));
    assert_false(facet_tenant_reserve(&second, 25 * MIB));
    assert_true(facet_tenant_reserve(&second, 24 * MIB));
    assert_int_equal(fixture_totals(fixture).processes, 2);
    facet_tenant_detach(&first);
    assert_int_equal(fixture_totals(fixture).memory_bytes, 24 * MIB);
    facet_tenant_detach(&second);
}

static void test_quota_changes_live(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct facet_limits limits = fixture->spec.limits;

    assert_true(facet_tenant_reserve(&tenant, 60 * MIB));
    limits.memory_bytes = 32 * MIB;
    facet_owner_set_limits(fixture->owner, &limits);
    assert_int_equal(facet_tenant_memory_free(&tenant), 0);
    assert_false(facet_tenant_reserve(&tenant, 1));
    limits.memory_bytes = 128 * MIB;
    facet_owner_set_limits(fixture->owner, &limits);
    assert_true(facet_tenant_reserve(&tenant, 68 * MIB));
    facet_tenant_detach(&tenant);
}

/*
 * State shared by the children of a race: a lower bound of the bytes that they hold together, and the peak of that
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

/* Starts a child that reserves and releases until it is killed. */
static pid_t start_racer(const struct fixture *fixture, unsigned seed, struct race *race)
{
    pid_t pid = fork();

    if (pid)
        return pid;
    struct facet_tenant tenant;
    if (facet_tenant_attach(fixture->dir, &tenant, NULL) != FACET_OK)
        _exit(3);
    for (uint64_t own_bytes = 0;; seed = seed * 1664525u + 1013904223u) {
        uint64_t bytes = ((seed >> 8) % 16 + 1) * MIB;

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

static void test_quota_is_never_exceeded_by_racing_processes(void **state)
{
    struct race *race = race_new();
    pid_t children[4];

    for (unsigned i = 0; i < 4; i++)
        children[i] = start_racer(*state, i * 77 + 1, race);
    usleep(400000);
    /* The peak is read before a child is killed: others may get the memory of the dead while `held` still counts it. */
    uint64_t peak = atomic_load(&race->peak);
    for (int i = 0; i < 4; i++) {
        int status;

        kill(children[i], SIGKILL);
        waitpid(children[i], &status, 0);
        assert_true(WIFSIGNALED(status));
    }
    assert_true(peak <= 64 * MIB);
    assert_true(peak > 40 * MIB); /* one child never holds more than 36 MiB */
    munmap(race, sizeof *race);
}

static void test_kill_storm_gives_everything_back(void **state)
{
    struct fixture *fixture = *state;
    struct race *race = race_new();

    for (unsigned round = 0; round < 60; round++) {
        pid_t child = start_racer(fixture, round + 1, race);

        usleep(500 + round * 37 % 3000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        facet_owner_reap(fixture->owner);
        assert_int_equal(fixture_totals(fixture).memory_bytes, 0);
        assert_int_equal(fixture_totals(fixture).processes, 0);
    }
    munmap(race, sizeof *race);
}

static pid_t start_holder(const struct fixture *fixture, uint64_t bytes)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct facet_tenant tenant;

        if (facet_tenant_attach(fixture->dir, &tenant, NULL) != FACET_OK || !facet_tenant_reserve(&tenant, bytes))
            _exit(3);
        if (write(ready[1], "x", 1) != 1)
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

static void test_neighbour_gets_memory_of_the_dead_without_a_daemon(void **state)
{
    struct facet_tenant tenant = fixture_attach(*state);
    pid_t child = start_holder(*state, 60 * MIB);

    assert_false(facet_tenant_reserve(&tenant, 32 * MIB));
    end_child(child);
    assert_true(facet_tenant_reserve(&tenant, 32 * MIB));
    facet_tenant_detach(&tenant);
}

/* A process that reaped a child sees the child's memory as free at once, and a living neighbour's as held. */
static void test_free_memory_includes_that_of_the_dead(void **state)
{
    struct facet_tenant tenant = fixture_attach(*state);

    assert_true(facet_tenant_reserve(&tenant, MIB));
    for (int round = 0; round < 20; round++) {
        pid_t child = start_holder(*state, 60 * MIB);

        assert_int_equal(facet_tenant_memory_free_now(&tenant), 3 * MIB);
        end_child(child);
        assert_int_equal(facet_tenant_memory_free_now(&tenant), 63 * MIB);
        assert_int_equal(facet_tenant_memory_free(&tenant), 63 * MIB); /* the slot is cleared */
    }
    facet_tenant_detach(&tenant);
}

/* When a process dies, the device's free memory may rise before or after the process's lock is released. In both cases
 * the result must be the vGPU's free memory. */
static void test_free_memory_beside_the_devices_own_figure(void **state)
{
    struct facet_tenant tenant = fixture_attach(*state);
    const uint64_t device = 1000 * MIB;
    uint64_t steady = facet_usage_memory(tenant.usage) + device + 1;

    for (int round = 0; round < 4; round++) {
        pid_t child = start_holder(*state, 60 * MIB);

        /* Asks until the sum is steady, so that no slot is checked any more. */
        while (steady != device + 60 * MIB) {
            assert_int_equal(facet_tenant_memory_free_cached(&tenant, device), 4 * MIB);
            steady = atomic_load(&tenant.steady_bytes);
        }
        assert_int_equal(facet_tenant_memory_free_cached(&tenant, device), 4 * MIB);
        assert_int_equal(facet_tenant_memory_free_cached(&tenant, device + 60 * MIB), 4 * MIB); /* lock still held */
        end_child(child);
        assert_int_equal(facet_tenant_memory_free_cached(&tenant, device + 60 * MIB), 64 * MIB);
        steady = 0;
        atomic_store(&tenant.steady_bytes, 0);
    }
    facet_tenant_detach(&tenant);
}

/* A program may close the tenant's descriptor and reuse its number. No live process is then taken for dead. */
static void test_free_memory_when_the_program_reuses_the_descriptor(void **state)
{
    struct facet_tenant first = fixture_attach(*state), second = fixture_attach(*state);
    int number = first.usage_fd;

    assert_true(facet_tenant_reserve(&second, 24 * MIB));
    assert_int_equal(dup2(fileno(stdout), number), number);
    assert_int_equal(facet_tenant_memory_free_now(&first), 40 * MIB);
    facet_tenant_detach(&first);
    facet_tenant_detach(&second);
    close(number);
}

static void test_living_slots_are_not_reaped(void **state)
{
    struct fixture *fixture = *state;
    pid_t child = start_holder(fixture, 10 * MIB);

    assert_int_equal(facet_owner_reap(fixture->owner), 0);
    assert_int_equal(fixture_totals(fixture).memory_bytes, 10 * MIB);
    assert_true(facet_owner_in_use(fixture->owner));
    end_child(child);
    assert_int_equal(facet_owner_reap(fixture->owner), 1);
    assert_false(facet_owner_in_use(fixture->owner));
}

static void test_forked_child_leaves_the_parent_alone(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);

    assert_true(facet_tenant_reserve(&tenant, 30 * MIB));
    pid_t child = fork();
    if (child == 0) {
        facet_tenant_forked(&tenant);
        if (facet_tenant_attach(fixture->dir, &tenant, NULL) != FACET_OK)
            _exit(1);
        _exit(facet_tenant_reserve(&tenant, 34 * MIB) && !facet_tenant_reserve(&tenant, 1) ? 0 : 2);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(WEXITSTATUS(status), 0);
    facet_owner_reap(fixture->owner);
    assert_int_equal(fixture_totals(fixture).memory_bytes, 30 * MIB);
    facet_tenant_detach(&tenant);
}

/* Programs close descriptors they did not open (closefrom), and then open files of their own under the same numbers. */
static void test_descriptor_taken_over_by_the_program(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant first = fixture_attach(fixture), second = fixture_attach(fixture);
    int number = first.usage_fd;

    assert_true(facet_tenant_reserve(&first, 40 * MIB));
    assert_true(facet_tenant_reserve(&second, 24 * MIB));
    assert_int_equal(dup2(fileno(stdout), number), number);
    assert_false(facet_tenant_reserve(&first, 1 * MIB));
    assert_int_equal(fixture_totals(fixture).memory_bytes, 64 * MIB);
    assert_int_equal(facet_owner_reap(fixture->owner), 0);
    facet_tenant_detach(&first);
    assert_true(fcntl(number, F_GETFD) >= 0); /* the program's own descriptor is still open */
    assert_int_equal(fixture_totals(fixture).memory_bytes, 24 * MIB);
    facet_tenant_detach(&second);
    close(number);
}

/* A process without standard streams opens its first files as 0 to 2. If the segment were one of these, the program's
 * messages would go into it. */
static void test_the_segment_is_never_a_standard_stream(void **state)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        struct facet_tenant tenant;

        close(0);
        close(1);
        close(2);
        _exit(facet_tenant_attach(((struct fixture *)*state)->dir, &tenant, NULL) == FACET_OK && tenant.usage_fd > 2
                  ? 0
                  : 1);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

/* A request that can never fit does not make the requests of other processes fail. */
static void test_refused_requests_do_not_disturb_others(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant greedy = fixture_attach(fixture), modest = fixture_attach(fixture);

    assert_true(facet_tenant_reserve(&modest, 1 * MIB));
    pid_t child = fork();
    if (child == 0) {
        facet_tenant_forked(&greedy);
        if (facet_tenant_attach(fixture->dir, &greedy, NULL) != FACET_OK)
            _exit(1);
        for (;;)
            facet_tenant_reserve(&greedy, 64 * MIB);
    }
    unsigned refused = 0;
    for (int i = 0; i < (int)effort(200000, 10000); i++) {
        if (facet_tenant_reserve(&modest, 1 * MIB))
            facet_tenant_release(&modest, 1 * MIB);
        else
            refused++;
    }
    end_child(child);
    assert_int_equal(refused, 0);
    facet_tenant_detach(&greedy);
    facet_tenant_detach(&modest);
}

/* Locks all slots but the last `free`, as if other processes held them; closing the descriptor frees them. */
static int occupy_slots(const struct fixture *fixture, uint32_t free)
{
    struct flock range = {.l_type = F_WRLCK,
                          .l_whence = SEEK_SET,
                          .l_start = FACET_SLOT_LOCK_OFFSET(0),
                          .l_len = FACET_SEGMENT_SLOTS - free};
    char path[sizeof fixture->dir + 8];

    snprintf(path, sizeof path, "%s/usage", fixture->dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &range), 0);
    return fd;
}

static void test_slots_run_out_and_come_back(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenants[8], extra;
    struct facet_error error;
    int fd = occupy_slots(fixture, 8);

    for (uint32_t i = 0; i < 8; i++)
        tenants[i] = fixture_attach(fixture);
    assert_ptr_equal(tenants[7].slot, &tenants[7].usage->slots[FACET_SEGMENT_SLOTS - 1]);
    assert_int_equal(facet_tenant_attach(fixture->dir, &extra, &error), FACET_BUSY);
    assert_non_null(strstr(error.message, "4096 processes"));
    facet_tenant_detach(&tenants[3]);
    extra = fixture_attach(fixture);
    assert_ptr_equal((char *)extra.slot - (char *)extra.usage,
                     (char *)tenants[2].slot - (char *)tenants[2].usage + (ptrdiff_t)sizeof(struct facet_slot));
    facet_tenant_detach(&extra);
    for (uint32_t i = 0; i < 8; i++)
        if (i != 3)
            facet_tenant_detach(&tenants[i]);
    close(fd);
    assert_int_equal(fixture_totals(fixture).processes, 0);
}

/* Each of a thousand processes enters, is counted, and is found when it dies. */
static void test_a_thousand_processes_are_counted(void **state)
{
    struct fixture *fixture = *state;
    static pid_t pids[1000];
    int ready[2], go[2];
    char byte;

    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    for (int i = 0; i < 1000; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            struct facet_tenant tenant;

            close(go[1]);
            bool entered =
                facet_tenant_attach(fixture->dir, &tenant, NULL) == FACET_OK && facet_tenant_reserve(&tenant, 1000);
            (void)!write(ready[1], entered ? "y" : "n", 1);
            (void)!read(go[0], &byte, 1);
            _exit(0);
        }
    }
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(read(ready[0], &byte, 1), 1);
        assert_int_equal(byte, 'y');
    }
    assert_int_equal(fixture_totals(fixture).processes, 1000);
    assert_int_equal(fixture_totals(fixture).memory_bytes, 1000000);
    for (int i = 0; i < 1000; i += 2)
        kill(pids[i], SIGKILL);
    for (int i = 0; i < 1000; i += 2)
        waitpid(pids[i], NULL, 0);
    for (int i = 0; i < 4; i++) /* 256 at a time */
        facet_owner_reap_some(fixture->owner);
    assert_int_equal(fixture_totals(fixture).processes, 500);
    assert_int_equal(fixture_totals(fixture).memory_bytes, 500000);
    /* A new process takes a slot that became free, instead of a slot behind all used ones. */
    struct facet_tenant tenant = fixture_attach(fixture);
    assert_true(tenant.slot < &tenant.usage->slots[1000]);
    facet_tenant_detach(&tenant);
    close(go[1]);
    for (int i = 1; i < 1000; i += 2)
        waitpid(pids[i], NULL, 0);
    close(go[0]);
    close(ready[0]);
    close(ready[1]);
}

static void test_hostile_usage_page_does_no_harm(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);

    atomic_store(&tenant.usage->slots_used, UINT32_MAX);
    atomic_store(&tenant.usage->slots[200].memory_bytes, UINT64_MAX);
    atomic_store(&tenant.usage->slots[201].memory_bytes, UINT64_MAX);
    assert_false(facet_tenant_reserve(&tenant, 1) && fixture_totals(fixture).memory_bytes > 64 * MIB);
    facet_owner_reap(fixture->owner);
    assert_true(facet_tenant_reserve(&tenant, 1));
    facet_tenant_detach(&tenant);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_quota_is_exact_to_the_byte),
        TEST(test_absurd_sizes_are_refused),
        TEST(test_quota_is_shared_between_processes),
        TEST(test_quota_changes_live),
        TEST(test_quota_is_never_exceeded_by_racing_processes),
        TEST(test_kill_storm_gives_everything_back),
        TEST(test_neighbour_gets_memory_of_the_dead_without_a_daemon),
        TEST(test_free_memory_includes_that_of_the_dead),
        TEST(test_free_memory_beside_the_devices_own_figure),
        TEST(test_free_memory_when_the_program_reuses_the_descriptor),
        TEST(test_living_slots_are_not_reaped),
        TEST(test_forked_child_leaves_the_parent_alone),
        TEST(test_descriptor_taken_over_by_the_program),
        TEST(test_the_segment_is_never_a_standard_stream),
        TEST(test_refused_requests_do_not_disturb_others),
        TEST(test_slots_run_out_and_come_back),
        TEST(test_a_thousand_processes_are_counted),
        TEST(test_hostile_usage_page_does_no_harm),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
