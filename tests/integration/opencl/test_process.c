/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests of processes: fork, exec, exit and death, and the ways of loading the layer.
 * Never: uses OpenCL in its own process, except in the last test; the other tests run a role in a child.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "fixture.h"
#include "limiter/tenant.h"

#define READY_FD 3

static const char *self;

/* Starts this program again as a child with a role; the child loads the layer anew. A role writes to READY_FD when it
 * is ready. */
static pid_t start_role(const char *role, int ready_fd)
{
    pid_t pid = fork();

    if (pid == 0) {
        if (ready_fd >= 0)
            dup2(ready_fd, READY_FD);
        execl(self, self, role, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static int wait_status(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        test_segment_beat(&fixture.segment);
        usleep(5000);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int run_role(const char *role)
{
    return wait_status(start_role(role, -1));
}

static void check_reclaimed(void)
{
    facet_owner_reap(fixture.segment.owner);
    assert_int_equal(fixture_held(), 0);
    assert_int_equal(test_segment_totals(&fixture.segment).inflight, 0);
}

/* --- roles --- */

/* The first launch is complete when the process exits, and is reported; the later launches are not. */
static int role_exit_in_flight(void)
{
    if (fixture_launch(fixture.noop, NULL) != CL_SUCCESS || clFinish(fixture.queue) != CL_SUCCESS)
        return 1;
    fixture_set_sleep(5000);
    for (int i = 0; i < 20; i++)
        if (fixture_launch(fixture.sleep, NULL) != CL_SUCCESS)
            return 1;
    clFlush(fixture.queue);
    return 7; /* the process ends without a release or a wait */
}

static int role_hold_and_die(void)
{
    cl_mem buffer = fixture_buffer(8 * MIB, NULL);

    if (!buffer || write(READY_FD, "x", 1) != 1)
        return 1;
    pause();
    return 2;
}

static int role_hold_four(void)
{
    return fixture_buffer(4 * MIB, NULL) ? 0 : 1;
}

/* Returns 0 if a vGPU that cannot be used shows no device and gives no context. */
static int role_unusable_vgpu(void)
{
    cl_platform_id platform;
    cl_uint count = 5;
    cl_int error = CL_SUCCESS;

    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS)
        return 1;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count) != CL_DEVICE_NOT_FOUND || count != 0)
        return 2;
    if (clCreateContextFromType(NULL, CL_DEVICE_TYPE_ALL, NULL, NULL, &error) || error != CL_OUT_OF_RESOURCES)
        return 3;
    return 0;
}

static int role_count_devices(void)
{
    cl_platform_id platform;
    cl_uint count = 0;

    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS)
        return 100;
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count);
    return (int)count;
}

/* ---- work that was waited for before its process ended ---- */

#define WAITS     20u
#define WAITED_US 2000u                   /* of a kernel that is waited for */
#define LONG_US   1000000u                /* of a kernel during which the process is stopped */
#define STOP_NS   (2 * FACET_NS_PER_S)    /* for which the process is stopped */
#define OTHERS_NS (400 * FACET_NS_PER_MS) /* for which short kernels run beside a long one */

static void CL_CALLBACK raise_flag(cl_event event, cl_int status, void *flag)
{
    atomic_store((_Atomic int *)flag, status == CL_COMPLETE ? 1 : 2);
}

static bool completes_by_callback(cl_event event)
{
    static _Atomic int flag;

    atomic_store(&flag, 0);
    if (clSetEventCallback(event, CL_COMPLETE, raise_flag, &flag) != CL_SUCCESS || clFlush(fixture.queue) != CL_SUCCESS)
        return false;
    while (!atomic_load(&flag))
        usleep(50);
    return atomic_load(&flag) == 1;
}

static bool completes_by_query(cl_event event)
{
    cl_int status = CL_QUEUED;

    clFlush(fixture.queue);
    while (status > CL_COMPLETE)
        if (clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL) != CL_SUCCESS)
            return false;
    return status == CL_COMPLETE;
}

static bool completes_by_read(cl_mem buffer)
{
    char bytes[16];

    return clEnqueueReadBuffer(fixture.queue, buffer, CL_TRUE, 0, sizeof bytes, bytes, 0, NULL, NULL) == CL_SUCCESS;
}

static bool completes_by_map(cl_mem buffer)
{
    cl_int error = CL_SUCCESS;
    void *address = clEnqueueMapBuffer(fixture.queue, buffer, CL_TRUE, CL_MAP_READ, 0, 16, 0, NULL, NULL, &error);

    return error == CL_SUCCESS && clEnqueueUnmapMemObject(fixture.queue, buffer, address, 0, NULL, NULL) == CL_SUCCESS;
}

/* Another queue waits for the event, and the host waits for that queue. */
static bool completes_across_queues(cl_event event)
{
    static cl_command_queue other;

    if (!other)
        other = clCreateCommandQueueWithProperties(fixture.context, fixture.device, NULL, NULL);
    return other && clFlush(fixture.queue) == CL_SUCCESS &&
           clEnqueueMarkerWithWaitList(other, 1, &event, NULL) == CL_SUCCESS && clFinish(other) == CL_SUCCESS;
}

static bool wait_for_event_by(const char *way, cl_event event, cl_mem buffer)
{
    if (strcmp(way, "crossed") == 0)
        return completes_across_queues(event);
    if (strcmp(way, "events") == 0)
        return clWaitForEvents(1, &event) == CL_SUCCESS;
    if (strcmp(way, "status") == 0)
        return completes_by_query(event);
    if (strcmp(way, "callback") == 0)
        return completes_by_callback(event);
    if (strcmp(way, "read") == 0)
        return completes_by_read(buffer);
    if (strcmp(way, "map") == 0)
        return completes_by_map(buffer);
    return clFinish(fixture.queue) == CL_SUCCESS;
}

/* Makes launches and waits for each by `way`. Then nothing may be left to report. */
static int launch_and_wait_repeatedly(const char *way)
{
    cl_mem buffer = fixture_buffer(MIB, NULL);
    cl_event event = NULL;

    fixture_set_sleep(WAITED_US);
    for (unsigned i = 0; i < WAITS; i++)
        if (fixture_launch(fixture.sleep, &event) != CL_SUCCESS || !wait_for_event_by(way, event, buffer) ||
            clReleaseEvent(event) != CL_SUCCESS)
            return 1;
    return 0;
}

/* "role-wait-WAY" ends without running its exit handlers: by _exit(), by SIGKILL ("killed"), or by
 * execve() ("exec"). */
static int role_wait(const char *way)
{
    int status = launch_and_wait_repeatedly(way);

    if (status == 0 && strcmp(way, "killed") == 0)
        raise(SIGKILL);
    if (status == 0 && strcmp(way, "exec") == 0)
        execlp("true", "true", (char *)NULL);
    _exit(status);
}

/* The process that forks uses no device, like that of a Python process pool. */
static int role_forks(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(fixture_open() ? launch_and_wait_repeatedly("finish") : 99);
    int status = 0;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

/* Reports that a long kernel was launched, and waits for it. */
static int role_stopped(void)
{
    fixture_set_sleep(1000);
    if (fixture_launch(fixture.sleep, NULL) != CL_SUCCESS || clFinish(fixture.queue) != CL_SUCCESS)
        return 1;
    fixture_set_sleep(LONG_US);
    if (fixture_launch(fixture.sleep, NULL) != CL_SUCCESS || clFlush(fixture.queue) != CL_SUCCESS ||
        write(READY_FD, "x", 1) != 1)
        return 1;
    return clFinish(fixture.queue) == CL_SUCCESS ? 0 : 1;
}

/* Runs one long kernel beside short kernels in another queue, which are reported. Writes how long the short kernels
 * took, and waits to be killed. */
static int role_long_kernel(void)
{
    cl_command_queue other = clCreateCommandQueueWithProperties(fixture.context, fixture.device, NULL, NULL);
    const size_t size = 1;

    fixture_set_sleep(20 * LONG_US);
    if (!other || fixture_launch(fixture.sleep, NULL) != CL_SUCCESS || clFlush(fixture.queue) != CL_SUCCESS)
        return 1;
    uint64_t begun_ns = facet_clock_now_ns(), took_ns = 0;
    for (; took_ns < OTHERS_NS; took_ns = facet_clock_now_ns() - begun_ns) {
        if (clEnqueueNDRangeKernel(other, fixture.noop, 1, NULL, &size, NULL, 0, NULL, NULL) != CL_SUCCESS ||
            clFinish(other) != CL_SUCCESS)
            return 2;
        usleep(1000);
    }
    if (write(READY_FD, &took_ns, sizeof took_ns) != sizeof took_ns)
        return 3;
    pause();
    return 4;
}

static int play_role(const char *role)
{
    alarm(120);
    if (strcmp(role, "role-forks") == 0)
        return role_forks();
    if (strcmp(role, "role-closed") == 0)
        return role_unusable_vgpu();
    if (strcmp(role, "role-count") == 0)
        return role_count_devices();
    if (!fixture_open())
        return 99;
    if (strcmp(role, "role-exit") == 0)
        return role_exit_in_flight();
    if (strcmp(role, "role-die") == 0)
        return role_hold_and_die();
    if (strcmp(role, "role-beside") == 0)
        return role_long_kernel();
    if (strcmp(role, "role-stopped") == 0)
        return role_stopped();
    if (strncmp(role, "role-wait-", 10) == 0)
        return role_wait(role + 10);
    return role_hold_four(); /* role-four */
}

/* --- tests --- */

static void test_work_in_flight_at_exit_is_given_up(void **state)
{
    assert_int_equal(run_role("role-exit"), 7);
    check_reclaimed();
    assert_true(test_segment_totals(&fixture.segment).launches > 0);
}

/* The role reports each launch before it ends, and the process that reaps its slot does not report any again. */
static void check_waited(const char *role, int status)
{
    struct facet_usage_totals before = test_segment_totals(&fixture.segment);
    uint64_t begun_ns = facet_clock_now_ns();

    assert_int_equal(run_role(role), status);
    uint64_t took_ns = facet_clock_now_ns() - begun_ns;
    struct facet_usage_totals after = test_segment_totals(&fixture.segment);
    assert_int_equal(after.launches, before.launches + WAITS);
    assert_int_equal(after.inflight, 0);
    assert_true(after.busy_ns > before.busy_ns && after.busy_ns - before.busy_ns <= took_ns);
    if (fixture.fake) /* the fake driver's kernels sleep at least as long as their argument says */
        assert_true(after.busy_ns - before.busy_ns >= WAITS * WAITED_US * FACET_NS_PER_US);
    check_reclaimed();
    assert_int_equal(test_segment_totals(&fixture.segment).busy_ns, after.busy_ns);
    assert_int_equal(test_segment_totals(&fixture.segment).launches, after.launches);
}

static void test_launches_that_were_waited_for_are_reported(void **state)
{
    static const char *const ways[] = {"finish", "events", "status", "read", "callback", "crossed"};

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char role[32];

        snprintf(role, sizeof role, "role-wait-%s", ways[i]);
        check_waited(role, 0);
    }
    if (!fixture.fake) /* the fake driver cannot map buffers */
        check_waited("role-wait-map", 0);
    check_waited("role-wait-exec", 0);
    check_waited("role-wait-killed", 1000 + SIGKILL);
    check_waited("role-forks", 0);
}

static void stop_for(pid_t pid, uint64_t ns)
{
    uint64_t end_ns = facet_clock_now_ns() + ns;
    int status = 0;

    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(test_segment_totals(&fixture.segment).inflight, 1);
    while (facet_clock_now_ns() < end_ns) {
        test_segment_beat(&fixture.segment);
        usleep(5000);
    }
    kill(pid, SIGCONT);
}

/* PoCL is part of the stopped program, so an event that spans the stop does not tell how long its kernel ran. At most a
 * quarter of the stop may be charged. */
static void check_stopped(enum facet_gate gate)
{
    struct facet_usage_totals before = test_segment_totals(&fixture.segment);
    int ready[2];
    char byte;

    facet_owner_set_gate(fixture.segment.owner, gate);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = start_role("role-stopped", ready[1]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    uint64_t begun_ns = facet_clock_now_ns();
    usleep(20000);
    stop_for(pid, STOP_NS);
    assert_int_equal(wait_status(pid), 0);
    uint64_t ran_ns = facet_clock_now_ns() - begun_ns - STOP_NS;
    struct facet_usage_totals after = test_segment_totals(&fixture.segment);
    assert_int_equal(after.launches, before.launches + 2);
    assert_true(after.busy_ns > before.busy_ns);
    assert_true(after.busy_ns - before.busy_ns < ran_ns + STOP_NS / 4);
    check_reclaimed();
}

static void test_the_time_of_a_stop_is_not_charged(void **state)
{
    facet_owner_set_depth(fixture.segment.owner, 5 * FACET_NS_PER_MS);
    check_stopped(FACET_GATE_LEASED);
    check_stopped(FACET_GATE_OPEN);
}

static void test_memory_of_a_killed_process_is_released(void **state)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe(ready), 0);
    pid_t pid = start_role("role-die", ready[1]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    assert_int_equal(fixture_held(), 8 * MIB);
    kill(pid, SIGKILL);
    assert_int_equal(wait_status(pid), 1000 + SIGKILL);
    assert_int_equal(facet_owner_reap(fixture.segment.owner), 1);
    check_reclaimed();
}

/* The kernel that runs when the process is killed is charged for at least half of the time that short kernels took
 * beside it: their reports do not stand for its work. */
static void test_a_killed_process_is_charged_for_its_running_kernel(void **state)
{
    static const enum facet_gate gates[] = {FACET_GATE_OPEN, FACET_GATE_LEASED};

    for (size_t i = 0; i < sizeof gates / sizeof gates[0]; i++) {
        struct facet_usage_totals before = test_segment_totals(&fixture.segment);
        uint64_t took_ns = 0, started_ns = facet_clock_now_ns();
        int ready[2];

        facet_owner_set_depth(fixture.segment.owner, 3600 * FACET_NS_PER_S);
        facet_owner_set_gate(fixture.segment.owner, gates[i]);
        assert_int_equal(pipe(ready), 0);
        pid_t pid = start_role("role-beside", ready[1]);
        close(ready[1]);
        assert_int_equal(read(ready[0], &took_ns, sizeof took_ns), sizeof took_ns);
        close(ready[0]);
        assert_true(test_segment_totals(&fixture.segment).launches > before.launches);
        kill(pid, SIGKILL);
        assert_int_equal(wait_status(pid), 1000 + SIGKILL);
        facet_owner_reap(fixture.segment.owner);
        uint64_t charged_ns = test_segment_totals(&fixture.segment).busy_ns - before.busy_ns;
        assert_true(charged_ns >= took_ns / 2);
        assert_true(charged_ns <= facet_clock_now_ns() - started_ns);
        check_reclaimed();
    }
    facet_owner_set_gate(fixture.segment.owner, FACET_GATE_OPEN);
}

static void test_memory_that_a_program_never_releases_is_free_after_its_end(void **state)
{
    uint64_t peak = 0;

    for (int i = 0; i < 20; i++) { /* together more than the quota */
        assert_int_equal(run_role("role-four"), 0);
        peak = test_segment_totals(&fixture.segment).memory_peak_bytes;
    }
    assert_true(peak <= FIXTURE_MEMORY);
    check_reclaimed();
}

static void test_a_layer_listed_twice_counts_once(void **state)
{
    char twice[2048];
    const char *layer = getenv("FACET_TEST_LAYER");

    check_reclaimed();
    snprintf(twice, sizeof twice, "%s:%s", layer, layer);
    setenv("OPENCL_LAYERS", twice, 1);
    assert_int_equal(run_role("role-four"), 0);
    setenv("OPENCL_LAYERS", layer, 1);
    assert_int_equal(fixture_held(), 4 * MIB); /* memory of the dead child, whose slot is not reaped yet */
    check_reclaimed();
}

static void test_a_program_that_opens_the_loader_at_run_time_is_charged(void **state)
{
    pid_t pid = fork();

    if (pid == 0) {
        execl(getenv("FACET_TEST_DLOPEN"), "dlopen-client", "4194304", (char *)NULL);
        _exit(127);
    }
    assert_int_equal(wait_status(pid), 0);
    assert_int_equal(fixture_held(), 4 * MIB);
    check_reclaimed();
}

static void test_a_vgpu_that_cannot_be_used_shows_no_device(void **state)
{
    setenv(FACET_ENV_VGPU_DIR, "/nonexistent/facet", 1);
    assert_int_equal(run_role("role-closed"), 0);
    setenv(FACET_ENV_VGPU_DIR, "", 1);
    assert_int_equal(run_role("role-closed"), 0);
    setenv(FACET_ENV_VGPU_DIR, fixture.segment.dir, 1);
}

static void test_outside_a_vgpu_nothing_changes(void **state)
{
    unsetenv(FACET_ENV_VGPU_DIR);
    int outside = run_role("role-count");
    setenv(FACET_ENV_VGPU_DIR, fixture.segment.dir, 1);
    assert_int_equal(outside, fixture.fake ? 2 : 1); /* the devices of each driver */
    assert_int_equal(run_role("role-count"), 1);
}

/* A child of fork() is charged for objects that it makes, not for inherited ones. */
static int forked_child(cl_mem inherited)
{
    if (fixture_held() != 8 * MIB)
        return 1;
    cl_mem own = fixture_buffer(4 * MIB, NULL);
    if (!own || fixture_held() != 12 * MIB)
        return 2;
    clReleaseMemObject(inherited);
    if (fixture_held() != 12 * MIB)
        return 3;
    if (fixture_buffer(53 * MIB, NULL))
        return 4; /* 12 MiB and 53 MiB exceed the quota of 64 MiB */
    clReleaseMemObject(own);
    if (fixture_held() != 8 * MIB)
        return 5;
    own = fixture_buffer(MIB, NULL);
    return own && test_segment_totals(&fixture.segment).processes == 2 ? 0 : 6;
}

static void test_a_forked_child_is_charged_for_its_own_objects_alone(void **state)
{
    check_reclaimed();
    assert_true(fixture_open());
    cl_mem buffer = fixture_buffer(8 * MIB, NULL);
    assert_non_null(buffer);
    assert_int_equal(fixture_launch(fixture.noop, NULL), CL_SUCCESS);
    clFinish(fixture.queue);

    pid_t pid = fork();
    if (pid == 0)
        _exit(forked_child(buffer));
    assert_int_equal(wait_status(pid), 0);
    facet_owner_reap(fixture.segment.owner);
    assert_int_equal(fixture_held(), 8 * MIB);
    assert_int_equal(fixture_launch(fixture.noop, NULL), CL_SUCCESS);
    clReleaseMemObject(buffer);
    assert_int_equal(fixture_held(), 0);
    fixture_close();
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc > 1 && strncmp(argv[1], "role-", 5) == 0)
        return play_role(argv[1]);
    int status = fixture_begin(argc > 1 ? argv[1] : NULL, 0);
    if (status >= 0)
        return status;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work_in_flight_at_exit_is_given_up),
        cmocka_unit_test(test_launches_that_were_waited_for_are_reported),
        test_on_pocl(test_the_time_of_a_stop_is_not_charged),
        cmocka_unit_test(test_memory_of_a_killed_process_is_released),
        test_on_fake(test_a_killed_process_is_charged_for_its_running_kernel),
        cmocka_unit_test(test_memory_that_a_program_never_releases_is_free_after_its_end),
        cmocka_unit_test(test_a_layer_listed_twice_counts_once),
        cmocka_unit_test(test_a_program_that_opens_the_loader_at_run_time_is_charged),
        cmocka_unit_test(test_a_vgpu_that_cannot_be_used_shows_no_device),
        cmocka_unit_test(test_outside_a_vgpu_nothing_changes),
        cmocka_unit_test(test_a_forked_child_is_charged_for_its_own_objects_alone), /* the last test: from then on this
                                                                                       process itself uses OpenCL */
    };
    status = cmocka_run_group_tests_name("process", tests, NULL, NULL);
    fixture_end();
    return status;
}
