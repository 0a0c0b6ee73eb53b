/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that the daemon's scheduler, the policy and the tenants' side work together, with threads as tenants and
 * sleeping as kernels.
 * Never: needs a device or a socket, or asserts how long a step takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../apps/facetd/scheduler.h"
#include "base/clock.h"
#include "limiter/tenant.h"

#define TENANTS      3
#define MEASUREMENTS 4 /* a bound must hold in one of them, as other programs may load the machine */
#define MIB          UINT64_C(1048576)
#define WAIT_MS      60000u /* the longest wait for an event that must come */
#define QUIET_MS     300u   /* no kernel ends for so long: then kernels have stopped */

struct worker {
    const char *dir;
    _Atomic bool stop;
    _Atomic uint64_t kernels;
    _Atomic int *on_device, *overlaps;
    pthread_t thread;
    bool running;
};

struct world {
    char root[48];
    struct scheduler *scheduler;
    char ids[TENANTS][8], dirs[TENANTS][96];
    struct worker workers[TENANTS]; /* not on a test's stack, which a failed test leaves while its threads run */
    _Atomic int on_device, overlaps;
};

static void add_tenant(struct world *world, int index, uint32_t request_milli, uint32_t limit_milli)
{
    struct facet_owner_spec spec = {.vgpu_id = world->ids[index], .vgpu_name = "t"};
    struct facet_owner *owner;
    struct facet_error error = {0};
    char lock[128], root[sizeof world->root];

    memcpy(root, world->root, sizeof root);
    snprintf(world->ids[index], sizeof world->ids[index], "v%d", index);
    snprintf(world->dirs[index], sizeof world->dirs[index], "%s/v%d", root, index);
    facet_limits_init(&spec.limits);
    spec.limits.memory_bytes = 64 * MIB;
    spec.limits.compute_request_milli = request_milli;
    spec.limits.compute_limit_milli = limit_milli;
    assert_int_equal(scheduler_device_lock(world->scheduler, "test:0", lock, sizeof lock, &error), FACET_OK);
    if (facet_owner_create(world->dirs[index], &spec, lock, &owner, &error) != FACET_OK ||
        scheduler_add(world->scheduler, "test:0", world->ids[index], owner, &spec.limits, false, &error) != FACET_OK)
        fail_msg("%s", error.message);
}

/* Sleeps as long as a kernel takes, and notes whether another kernel is on the device. */
static void run_kernel(struct worker *worker)
{
    const struct timespec length = facet_ns_timespec(300 * FACET_NS_PER_US);

    if (atomic_fetch_add(worker->on_device, 1) > 0)
        atomic_fetch_add(worker->overlaps, 1);
    nanosleep(&length, NULL);
    atomic_fetch_sub(worker->on_device, 1);
}

/* When a kernel ended: a device continues while a process is stopped, so the kernel ends on time. */
static uint64_t ended_ns(uint64_t started_ns, uint64_t now_ns)
{
    return now_ns - started_ns < 100 * FACET_NS_PER_MS ? now_ns : started_ns + 300 * FACET_NS_PER_US;
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct facet_tenant tenant;

    struct facet_error error;

    if (facet_tenant_attach(worker->dir, &tenant, &error) != FACET_OK) {
        print_error("attach: %s\n", error.message);
        return NULL;
    }
    while (!atomic_load(&worker->stop)) {
        uint64_t charged_ns = facet_tenant_launch(&tenant, 300 * FACET_NS_PER_US);
        uint64_t started = facet_clock_now_ns();
        run_kernel(worker);
        uint64_t now = facet_clock_now_ns(), ended = ended_ns(started, now);
        facet_tenant_complete(&tenant, 1, charged_ns, ended - started, ended);
        facet_tenant_supervise(&tenant, now);
        atomic_fetch_add(&worker->kernels, 1);
    }
    facet_tenant_detach(&tenant);
    return NULL;
}

static struct worker *start_worker(struct world *world, int index)
{
    struct worker *worker = &world->workers[index];

    *worker = (struct worker){.dir = world->dirs[index], .on_device = &world->on_device, .overlaps = &world->overlaps};
    assert_int_equal(pthread_create(&worker->thread, NULL, worker_main, worker), 0);
    worker->running = true;
    return worker;
}

static void stop_worker(struct worker *worker)
{
    atomic_store(&worker->stop, true);
    if (worker->running)
        pthread_join(worker->thread, NULL);
    worker->running = false;
}

static int setup(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    struct facet_error error = {0};

    snprintf(world->root, sizeof world->root, "/tmp/facet-scheduler-XXXXXX");
    assert_non_null(mkdtemp(world->root));
    if (scheduler_start(world->root, &world->scheduler, &error) != FACET_OK)
        fail_msg("%s", error.message);
    *state = world;
    return 0;
}

static int teardown(void **state)
{
    struct world *world = *state;
    char command[128];

    for (int i = 0; i < TENANTS; i++) {
        (void)scheduler_set_frozen(world->scheduler, world->ids[i], false, NULL);
        stop_worker(&world->workers[i]);
    }
    scheduler_stop(world->scheduler);
    snprintf(command, sizeof command, "rm -rf '%s'", world->root);
    assert_int_equal(system(command), 0);
    free(world);
    return 0;
}

static uint64_t count_all_kernels(const struct world *world)
{
    uint64_t all = 0;

    for (int i = 0; i < TENANTS; i++)
        all += atomic_load(&world->workers[i].kernels);
    return all;
}

/* Whether the tenants' shares over three seconds are as requested. Other programs may load this machine, so callers
 * measure more than once. */
static bool shares_hold(const struct world *world, const uint32_t *requests)
{
    uint64_t before[TENANTS], all = count_all_kernels(world);
    bool held = true;

    for (int i = 0; i < TENANTS; i++)
        before[i] = atomic_load(&world->workers[i].kernels);
    sleep(3);
    all = count_all_kernels(world) - all;
    assert_true(all > 0);
    for (int i = 0; i < TENANTS && all > 0; i++) {
        uint64_t milli = (atomic_load(&world->workers[i].kernels) - before[i]) * 1000 / all;

        print_message("# tenant %d: got %llu milli, requested %u\n", i, (unsigned long long)milli, requests[i]);
        held = held && milli + 40 > requests[i] && milli < requests[i] + 40;
    }
    return held;
}

static void test_shares_hold_and_leases_seldom_overlap(void **state)
{
    static const uint32_t requests[TENANTS] = {500, 300, 200};
    struct world *world = *state;

    for (int i = 0; i < TENANTS; i++)
        add_tenant(world, i, requests[i], 1000);
    for (int i = 0; i < TENANTS; i++)
        start_worker(world, i);
    bool held = false;
    for (int i = 0; i < MEASUREMENTS && !held; i++)
        held = shares_hold(world, requests);
    assert_true(held);
    /* A lease is passed on just before its tenant's last kernel ends; until then no other tenant is on the device. */
    uint64_t all = count_all_kernels(world);
    print_message("# %d of %llu kernels overlapped another tenant's\n", world->overlaps, (unsigned long long)all);
    assert_true((uint64_t)world->overlaps * 3 < all);
}

/* Reads the view of vGPU v0 once a second until its share is above `least_milli`, at most MEASUREMENTS times: a busy
 * machine lets its threads run less, and never more. */
static void view_share_above(struct world *world, uint32_t least_milli, struct scheduler_view *ret_view)
{
    for (int i = 0; i < MEASUREMENTS && (i == 0 || ret_view->share_milli <= least_milli); i++) {
        sleep(1);
        assert_int_equal(scheduler_view(world->scheduler, "v0", ret_view, NULL), FACET_OK);
        assert_true(ret_view->share_valid);
        print_message("# measured %u milli\n", ret_view->share_milli);
    }
    assert_true(ret_view->share_milli > least_milli);
}

static void test_a_capped_tenant_waits_and_an_open_one_runs(void **state)
{
    struct world *world = *state;
    struct scheduler_view view;

    add_tenant(world, 0, 200, 250);
    struct worker *worker = start_worker(world, 0);
    sleep(1);
    view_share_above(world, 150, &view);
    assert_true(view.share_milli < 290);
    assert_true(view.totals.throttled_ns > 0);

    struct facet_limits open;
    facet_limits_init(&open);
    open.memory_bytes = 64 * MIB;
    assert_int_equal(scheduler_set_limits(world->scheduler, "v0", &open, NULL), FACET_OK);
    usleep(200000);
    uint64_t before = atomic_load(&worker->kernels);
    view_share_above(world, 600, &view);
    assert_true(atomic_load(&worker->kernels) > before);
}

static void expect_more_kernels(const struct worker *worker, uint64_t than)
{
    for (unsigned i = 0; i < WAIT_MS && atomic_load(&worker->kernels) <= than; i++)
        usleep(1000);
    assert_true(atomic_load(&worker->kernels) > than);
}

/* Expects that kernels stop: none ends for QUIET_MS, a thousand times a kernel's length. A kernel that had passed the
 * gate may end late on a busy machine. Returns how many ended. */
static uint64_t expect_no_more_kernels(const struct worker *worker)
{
    uint64_t kernels = 0;

    for (unsigned waited_ms = 0; waited_ms < WAIT_MS; waited_ms += QUIET_MS) {
        kernels = atomic_load(&worker->kernels);
        usleep(QUIET_MS * 1000);
        if (atomic_load(&worker->kernels) == kernels)
            return kernels;
    }
    fail_msg("kernels go on: %llu", (unsigned long long)kernels);
    return kernels;
}

static void test_freeze_stops_and_resume_continues(void **state)
{
    struct world *world = *state;

    add_tenant(world, 0, 0, 1000);
    struct worker *worker = start_worker(world, 0);
    expect_more_kernels(worker, 0);
    assert_int_equal(scheduler_set_frozen(world->scheduler, "v0", true, NULL), FACET_OK);
    uint64_t frozen_at = expect_no_more_kernels(worker);
    assert_int_equal(scheduler_set_frozen(world->scheduler, "v0", false, NULL), FACET_OK);
    expect_more_kernels(worker, frozen_at);
}

/* Whether a tenant sees exactly `resources` (0: none) frozen because they are idle, within WAIT_MS. */
static bool becomes_idle(const struct facet_tenant *tenant, uint32_t resources)
{
    for (unsigned i = 0; i < WAIT_MS; i++) {
        if (atomic_load(&tenant->policy->frozen) == FACET_FROZEN_AUTO(resources))
            return true;
        usleep(1000);
    }
    return false;
}

static void test_idle_freezes_and_use_resumes(void **state)
{
    struct world *world = *state;
    struct facet_tenant tenant;
    struct facet_error error;

    add_tenant(world, 0, 0, 1000);
    assert_int_equal(facet_tenant_attach(world->dirs[0], &tenant, &error), FACET_OK);
    assert_int_equal(
        scheduler_set_idle_freeze(world->scheduler, "v0", FACET_FROZEN_RESOURCES, 200 * FACET_NS_PER_MS, &error),
        FACET_OK);
    for (int round = 0; round < 3; round++) {
        assert_true(becomes_idle(&tenant, FACET_FROZEN_RESOURCES));
        assert_int_equal(FACET_GATE_STATE(atomic_load(&tenant.policy->gate)), FACET_GATE_CLOSED);
        uint64_t charged_ns = facet_tenant_launch(&tenant, 0);
        facet_tenant_complete(&tenant, 1, charged_ns, 1000, facet_clock_now_ns());
        assert_true(becomes_idle(&tenant, FACET_FROZEN_RESOURCES));
        assert_true(facet_tenant_reserve(&tenant, 1));
    }
    assert_int_equal(scheduler_set_idle_freeze(world->scheduler, "v0", FACET_FROZEN_RESOURCES, 0, &error), FACET_OK);
    assert_true(becomes_idle(&tenant, 0));
    assert_int_equal(scheduler_set_idle_freeze(world->scheduler, "nobody", FACET_FROZEN_RESOURCES, 1, &error),
                     FACET_NOT_FOUND);
    facet_tenant_detach(&tenant);
}

/* A child that holds 9 MiB until it is killed. */
static pid_t start_holder(const struct world *world)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct facet_tenant tenant;

        if (facet_tenant_attach(world->dirs[0], &tenant, NULL) != FACET_OK || !facet_tenant_reserve(&tenant, 9 * MIB) ||
            write(ready[1], "x", 1) != 1)
            _exit(1);
        pause();
    }
    assert_true(child > 0);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void test_killed_tenant_gives_memory_back(void **state)
{
    struct world *world = *state;
    struct facet_usage_totals totals = {.memory_bytes = 1};

    add_tenant(world, 0, 0, 1000);
    pid_t child = start_holder(world);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    uint64_t died = facet_clock_now_ns();
    for (unsigned i = 0; i < WAIT_MS && totals.memory_bytes; i++) {
        usleep(1000);
        assert_int_equal(facet_segment_read_totals(world->dirs[0], &totals, NULL), FACET_OK);
    }
    print_message("# memory given back after %llu us\n", (unsigned long long)((facet_clock_now_ns() - died) / 1000));
    assert_int_equal(totals.memory_bytes, 0);
}

/* A view does not wait for the scheduler's next step, though that sometimes comes first. */
static void test_a_reader_sees_no_memory_of_dead_processes(void **state)
{
    struct world *world = *state;
    struct scheduler_view view;

    add_tenant(world, 0, 0, 1000);
    for (int round = 0; round < 20; round++) {
        pid_t child = start_holder(world);

        assert_int_equal(scheduler_view(world->scheduler, "v0", &view, NULL), FACET_OK);
        assert_int_equal(view.totals.memory_bytes, 9 * MIB);
        assert_true(view.in_use);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        assert_int_equal(scheduler_view(world->scheduler, "v0", &view, NULL), FACET_OK);
        assert_int_equal(view.totals.memory_bytes, 0);
        assert_int_equal(view.totals.processes, 0);
        assert_false(view.in_use);
    }
}

/* A tenant that is a process of its own, and the memory that it and the test share. */
struct stoppable {
    struct worker worker;
    _Atomic int counters[2];
};

static pid_t start_process(struct stoppable *stoppable, const char *dir)
{
    stoppable->worker =
        (struct worker){.dir = dir, .on_device = &stoppable->counters[0], .overlaps = &stoppable->counters[1]};
    pid_t child = fork();

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* no process outlives a test that failed */
        worker_main(&stoppable->worker);
        _exit(1);
    }
    assert_true(child > 0);
    return child;
}

static uint64_t count_kernels(struct worker *worker, useconds_t duration_us)
{
    uint64_t before = atomic_load(&worker->kernels);

    usleep(duration_us);
    return atomic_load(&worker->kernels) - before;
}

/* The number of the neighbour's kernels while both tenants run. The neighbour is guaranteed 200 milli. */
static uint64_t kernels_with_neighbour(struct worker *neighbour, struct worker *other)
{
    uint64_t kernels = 0, milli = 0;

    for (int i = 0; i < MEASUREMENTS && !(milli > 120 && milli < 320); i++) {
        uint64_t before = atomic_load(&other->kernels);

        kernels = count_kernels(neighbour, 700000);
        uint64_t all = kernels + atomic_load(&other->kernels) - before;
        milli = all ? kernels * 1000 / all : 0;
        print_message("# beside the other tenant: got %llu milli, guaranteed 200\n", (unsigned long long)milli);
    }
    assert_true(milli > 120 && milli < 320);
    return kernels;
}

/* The tenant is stopped several times, as it may be at the gate or have work in flight, and long enough that the
 * scheduler gives its work up. */
static void test_stopped_tenant_takes_nothing(void **state)
{
    struct world *world = *state;
    struct stoppable *other = mmap(NULL, sizeof *other, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(other, MAP_FAILED);
    add_tenant(world, 0, 200, 1000);
    add_tenant(world, 1, 800, 1000);
    pid_t child = start_process(other, world->dirs[1]);
    struct worker *neighbour = start_worker(world, 0);
    usleep(300000);
    for (int i = 0; i < 4; i++) {
        uint64_t with_neighbour = kernels_with_neighbour(neighbour, &other->worker);
        assert_int_equal(kill(child, SIGSTOP), 0);
        usleep(300000);
        uint64_t alone = 0;
        for (int k = 0; k < MEASUREMENTS && alone <= 2 * with_neighbour; k++) {
            alone = count_kernels(neighbour, 700000);
            print_message("# while the other tenant is stopped: %llu kernels, %llu before\n", (unsigned long long)alone,
                          (unsigned long long)with_neighbour);
        }
        assert_true(alone > 2 * with_neighbour);
        usleep(1300000);
        assert_int_equal(kill(child, SIGCONT), 0);
        usleep(100000);
    }
    kernels_with_neighbour(neighbour, &other->worker);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    munmap(other, sizeof *other);
}

static void test_stopped_scheduler_leaves_tenants_running(void **state)
{
    struct world *world = *state;
    struct facet_error error;

    add_tenant(world, 0, 300, 1000);
    struct worker *worker = start_worker(world, 0);
    expect_more_kernels(worker, 0);
    scheduler_stop(world->scheduler);
    world->scheduler = NULL;
    sleep(1); /* its last lease is used up */
    expect_more_kernels(worker, atomic_load(&worker->kernels));
    assert_int_equal(scheduler_start(world->root, &world->scheduler, &error), FACET_OK);
}

static void test_an_unknown_vgpu_or_device_is_refused(void **state)
{
    struct world *world = *state;
    struct scheduler_view view;
    struct facet_error error;
    char path[64];

    assert_int_equal(scheduler_view(world->scheduler, "nobody", &view, &error), FACET_NOT_FOUND);
    assert_non_null(strstr(error.message, "nobody"));
    assert_int_equal(scheduler_remove(world->scheduler, "nobody", &error), FACET_NOT_FOUND);
    assert_int_equal(scheduler_set_frozen(world->scheduler, "nobody", true, &error), FACET_NOT_FOUND);
    assert_int_equal(scheduler_device_lock(world->scheduler, "a/b", path, sizeof path, &error), FACET_INVALID_ARGUMENT);
}

static void test_a_vgpu_can_be_removed_and_added_again(void **state)
{
    struct world *world = *state;

    for (int i = 0; i < 20; i++) {
        add_tenant(world, 0, 100, 1000);
        assert_int_equal(scheduler_remove(world->scheduler, "v0", NULL), FACET_OK);
        assert_int_equal(facet_owner_remove(world->dirs[0], NULL), FACET_OK);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_shares_hold_and_leases_seldom_overlap),    TEST(test_a_capped_tenant_waits_and_an_open_one_runs),
        TEST(test_freeze_stops_and_resume_continues),        TEST(test_idle_freezes_and_use_resumes),
        TEST(test_killed_tenant_gives_memory_back),          TEST(test_a_reader_sees_no_memory_of_dead_processes),
        TEST(test_stopped_scheduler_leaves_tenants_running), TEST(test_stopped_tenant_takes_nothing),
        TEST(test_an_unknown_vgpu_or_device_is_refused),     TEST(test_a_vgpu_can_be_removed_and_added_again),
    };
    return cmocka_run_group_tests_name("scheduler", tests, NULL, NULL);
}
