/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of how work-groups that never end are ended. Never: asserts how long this takes. */
#include "cpu_executor_world.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GROUPS = 64, STOP_LIMIT_MS = 400 };

static atomic_bool keeps_running;
static atomic_uint ran[GROUPS], ended;
static int begun_pipe[2];

/* Stands for the code of an image, which holds no lock. */
static void run_endless(const void *arguments, const struct facet_host_group *group)
{
    (void)arguments;
    (void)group;
    sem_post(&world.began);
    while (atomic_load_explicit(&keeps_running, memory_order_relaxed))
        ;
    atomic_fetch_add(&ended, 1);
}

static const struct facet_host_kernel endless = {.name = "endless", .run = run_endless};

static void launch_endless(struct cpu_stream *stream, uint32_t groups)
{
    struct facet_launch request = request_of(groups, 1, 1);

    request.argument_bytes = 0;
    assert_int_equal(cpu_stream_launch(stream, &endless, &request, NULL, NULL, NULL, count_done, NULL, NULL), FACET_OK);
}

static struct cpu_executor *executor_that_ends_groups(uint32_t units, uint64_t end_after_ns, uint64_t group_most_ns)
{
    const struct cpu_executor_options options = {
        .units = units, .processors = units + 1, .end_after_ns = end_after_ns, .group_most_ns = group_most_ns};
    struct cpu_executor *executor = NULL;

    assert_int_equal(cpu_executor_create(&options, &executor, NULL), FACET_OK);
    return executor;
}

static void wait_until_begun(uint32_t groups)
{
    for (uint32_t i = 0; i < groups; i++)
        sem_wait(&world.began);
}

static void expect_work_runs(struct cpu_stream *stream)
{
    memset(ran, 0, sizeof ran);
    launch(stream, (struct work){.run_counts = ran}, GROUPS);
    assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
    for (uint32_t i = 0; i < GROUPS; i++)
        assert_int_equal(atomic_load(&ran[i]), 1);
}

static uint32_t failed_code(struct cpu_stream *stream)
{
    struct facet_stream_state state = {.size = sizeof state};

    cpu_stream_state(stream, &state);
    return state.failed;
}

/* The thread sanitizer delivers no signal to code that spins. */
static bool is_thread_sanitizer(void)
{
#ifdef __SANITIZE_THREAD__
    return true;
#else
    return false;
#endif
}

static int set_up(void **state)
{
    world_reset(state);
    atomic_store(&keeps_running, true);
    atomic_store(&ended, 0);
    return 0;
}

/* Groups on all units are ended at once, and the units then run other work. */
static void cancelled_groups_are_ended(void **state)
{
    (void)state;
    if (is_thread_sanitizer())
        skip();
    struct cpu_executor *executor = executor_that_ends_groups(3, MS, 0);
    struct cpu_tenant *one = tenant_of(executor), *other = tenant_of(executor);
    struct cpu_stream *stuck = stream_of(one), *stream = stream_of(other);

    for (int i = 0; i < 5; i++) {
        launch_endless(stuck, 7);
        wait_until_begun(3);
        cpu_stream_cancel(stuck);
        assert_int_equal(cpu_stream_wait(stuck, FOREVER), FACET_OK);
        expect_work_runs(stream);
        expect_work_runs(stuck);
    }
    assert_int_equal(failed_code(stuck), 0);
    assert_int_equal(atomic_load(&ended), 0);
    assert_int_equal(atomic_load(&world.done), 15); /* in each of 5 rounds an endless launch and two others */
    cpu_tenant_destroy(one);
    cpu_tenant_destroy(other);
    cpu_executor_destroy(executor);
}

static void groups_of_a_destroyed_tenant_are_ended(void **state)
{
    (void)state;
    if (is_thread_sanitizer())
        skip();
    struct cpu_executor *executor = executor_that_ends_groups(2, MS, 0);
    struct cpu_tenant *one = tenant_of(executor), *other = tenant_of(executor);

    launch_endless(stream_of(one), 2);
    wait_until_begun(2);
    cpu_tenant_destroy(one);
    expect_work_runs(stream_of(other));
    assert_int_equal(atomic_load(&ended), 0);
    cpu_tenant_destroy(other);
    cpu_executor_destroy(executor);
}

/* No caller cancels the group: it is ended because it exceeds the time that any group may take. */
static void a_group_that_exceeds_its_time_is_ended(void **state)
{
    (void)state;
    if (is_thread_sanitizer())
        skip();
    struct cpu_executor *executor =
        executor_that_ends_groups(1, 0, 300 * MS) /* longer than a busy machine keeps a thread waiting */;
    struct cpu_tenant *one = tenant_of(executor), *other = tenant_of(executor);
    struct cpu_stream *stuck = stream_of(one), *stream = stream_of(other);
    struct facet_launch_record record;

    launch_endless(stuck, 2);
    wait_until_begun(1);
    expect_work_runs(stream);
    assert_int_equal(cpu_stream_wait(stuck, FOREVER), FACET_OK);
    assert_int_equal(failed_code(stuck), -FACET_TIMEOUT);
    assert_int_equal(cpu_stream_records(stuck, 0, &record, 1), 1);
    assert_int_equal(record.status, FACET_TIMEOUT);
    assert_int_equal(record.groups, 0);
    assert_true(record.busy_ns > 0);
    cpu_tenant_destroy(one);
    cpu_tenant_destroy(other);
    cpu_executor_destroy(executor);
}

static void use_processor(uint64_t until_ns)
{
    struct timespec used;

    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    while ((uint64_t)used.tv_sec * 1000 * MS + (uint64_t)used.tv_nsec < until_ns);
}

/* Stands for the code of an image. It uses half of its allowed time, and reports when the watchdog has seen it. */
static void run_some_time(const void *arguments, const struct facet_host_group *group)
{
    (void)arguments;
    (void)group;
    use_processor(STOP_LIMIT_MS * 3 / 8 * MS);
    if (write(begun_pipe[1], "x", 1) == 1)
        use_processor(STOP_LIMIT_MS / 2 * MS);
}

/* Runs in a child that the test stops meanwhile. Returns the child's exit status. */
static int launch_within_limit(void)
{
    static const struct facet_host_kernel some_time = {.name = "some_time", .run = run_some_time};
    struct cpu_executor *executor = executor_that_ends_groups(1, 0, STOP_LIMIT_MS * MS);
    struct cpu_stream *stream = stream_of(tenant_of(executor));
    struct facet_launch request = request_of(1, 1, 1);

    request.argument_bytes = 0;
    if (cpu_stream_launch(stream, &some_time, &request, NULL, NULL, NULL, count_done, NULL, NULL) != FACET_OK ||
        cpu_stream_wait(stream, FOREVER) != FACET_OK)
        return 2;
    return failed_code(stream) == 0 ? 0 : 1;
}

static void time_in_which_the_process_is_stopped_does_not_count(void **state)
{
    int status;
    char byte;

    (void)state;
    if (is_thread_sanitizer())
        skip();
    assert_int_equal(pipe(begun_pipe), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(launch_within_limit());
    close(begun_pipe[1]);
    assert_int_equal(read(begun_pipe[0], &byte, 1), 1);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    usleep(2 * STOP_LIMIT_MS * 1000);
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(begun_pipe[0]);
}

/* The kernel returns by itself at about the time when it is cancelled. It ends once, and other work is not affected. */
static void a_group_may_return_while_it_is_ended(void **state)
{
    (void)state;
    if (is_thread_sanitizer())
        skip();
    struct cpu_executor *executor = executor_that_ends_groups(2, MS, 0);
    struct cpu_tenant *one = tenant_of(executor), *other = tenant_of(executor);
    struct cpu_stream *stuck = stream_of(one), *stream = stream_of(other);

    for (unsigned i = 0; i < 200; i++) {
        atomic_store(&keeps_running, true);
        launch_endless(stuck, 1);
        wait_until_begun(1);
        cpu_stream_cancel(stuck);
        cpu_stream_wait(stuck, (500 + 5 * i) * US); /* the wait may end or time out */
        atomic_store(&keeps_running, false);
        assert_int_equal(cpu_stream_wait(stuck, FOREVER), FACET_OK);
        expect_work_runs(stream);
    }
    cpu_tenant_destroy(one);
    cpu_tenant_destroy(other);
    cpu_executor_destroy(executor);
}

static int allow_access(void *check, const void *address, uint64_t bytes, uint32_t flags, uint32_t item, uint32_t site)
{
    (void)check;
    (void)address;
    (void)bytes;
    (void)flags;
    (void)item;
    (void)site;
    return 1;
}

static void pass_barrier(void *check)
{
    (void)check;
}

/* A checked launch calls Facet's functions, which hold locks that other threads need. */
static void a_launch_that_may_hold_a_lock_is_not_ended(void **state)
{
    static const struct facet_host_check check = {
        .size = sizeof check, .access = allow_access, .barrier = pass_barrier};
    struct cpu_executor *executor = executor_that_ends_groups(1, MS, 2 * MS);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);
    struct facet_launch request = request_of(1, 1, 1);

    (void)state;
    request.argument_bytes = 0;
    assert_int_equal(cpu_stream_launch(stream, &endless, &request, NULL, &check, NULL, count_done, NULL, NULL),
                     FACET_OK);
    wait_until_begun(1);
    cpu_stream_cancel(stream);
    assert_int_equal(cpu_stream_wait(stream, 50 * MS), FACET_TIMEOUT);
    atomic_store(&keeps_running, false);
    assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
    assert_int_equal(atomic_load(&ended), 1);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(cancelled_groups_are_ended, set_up),
        cmocka_unit_test_setup(groups_of_a_destroyed_tenant_are_ended, set_up),
        cmocka_unit_test_setup(a_group_that_exceeds_its_time_is_ended, set_up),
        cmocka_unit_test_setup(time_in_which_the_process_is_stopped_does_not_count, set_up),
        cmocka_unit_test_setup(a_group_may_return_while_it_is_ended, set_up),
        cmocka_unit_test_setup(a_launch_that_may_hold_a_lock_is_not_ended, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
