/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tests of processes that use Facet's library: fork, threads, exit. Never: calls CUDA in the main process. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "limiter/tenant.h"
#include "vendor/cuda/driver.h"
#include "vendor/cuda/memory.h"

#define THREADS 8

static __typeof__(cuInit) *init;
static __typeof__(cuDeviceGetCount) *count_devices;
static __typeof__(cuDevicePrimaryCtxRetain) *retain;
static __typeof__(cuDeviceGetUuid_v2) *get_uuid;
static __typeof__(cuMemAlloc_v2) *allocate;

static bool open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

    if (!library)
        return false;
    init = (__typeof__(init))dlsym(library, "cuInit");
    count_devices = (__typeof__(count_devices))dlsym(library, "cuDeviceGetCount");
    retain = (__typeof__(retain))dlsym(library, "cuDevicePrimaryCtxRetain");
    get_uuid = (__typeof__(get_uuid))dlsym(library, "cuDeviceGetUuid_v2");
    allocate = (__typeof__(allocate))dlsym(library, "cuMemAlloc_v2");
    return true;
}

/* The number of processes in the first vGPU: that of locked slots. */
static uint32_t count_processes(void)
{
    struct facet_usage_totals totals = {0};
    size_t size;
    void *usage;
    int fd, folder = open(getenv(FACET_ENV_VGPU_DIR), O_PATH | O_DIRECTORY);

    if (facet_segment_map(folder, "usage", true, sizeof(struct facet_usage), &usage, &size, &fd, NULL) == FACET_OK)
        facet_usage_sum(usage, &totals);
    return totals.processes;
}

/* Runs `work` in a child, which lives until the vGPU's processes are counted. Returns the result of work(), or 1000 if
 * there is none. */
static int in_child(int (*work)(void), uint32_t *ret_processes)
{
    int result_pipe[2], leave_pipe[2], result = 1000;

    if (pipe(result_pipe) != 0 || pipe(leave_pipe) != 0)
        return 1000;
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        close(leave_pipe[1]);
        result = work();
        _exit(write(result_pipe[1], &result, sizeof result) == sizeof result && read(leave_pipe[0], &byte, 1) == 0 ? 0
                                                                                                                   : 1);
    }
    close(result_pipe[1]);
    close(leave_pipe[0]);
    if (read(result_pipe[0], &result, sizeof result) != sizeof result)
        result = 1000;
    *ret_processes = count_processes();
    close(leave_pipe[1]);
    close(result_pipe[0]);
    waitpid(pid, NULL, 0);
    return result;
}

static int initialise(void)
{
    return init(0);
}

/* Makes three calls; their results are pairs of decimal digits of the returned number. */
static int make_three_calls(void)
{
    CUcontext context;
    int count;

    return init(0) * 10000 + count_devices(&count) * 100 + retain(&context, 0);
}

static int role_fork_before(void)
{
    uint32_t processes;
    int child = in_child(initialise, &processes), count = 0;

    printf("child %d, %u process; ", child, processes);
    printf("parent %d", init(0));
    printf(", %d", count_devices(&count));
    printf(", %d device", count);
    return 0;
}

static int role_fork_after(void)
{
    CUcontext context;
    uint32_t processes;
    int parent = init(0), count = 0;
    int child = in_child(make_three_calls, &processes);

    printf("parent %d, child %d, %u processes; ", parent, child, processes);
    printf("%d, %d", count_devices(&count), retain(&context, 0));
    return 0;
}

static void *init_in_thread(void *failures)
{
    int count = 0;

    if (init(0) != CUDA_SUCCESS || count_devices(&count) != CUDA_SUCCESS || count != 1)
        atomic_fetch_add((_Atomic int *)failures, 1);
    return NULL;
}

static int role_threads(void)
{
    pthread_t threads[THREADS];
    _Atomic int failures = 0;

    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, init_in_thread, &failures) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%d failed, %u process", atomic_load(&failures), count_processes());
    return 0;
}

/* Children are made while another thread makes its first call. No child may inherit a lock that is held forever. */
static int role_storm(void)
{
    static _Atomic int failures;
    pthread_t thread;
    int status;

    if (pthread_create(&thread, NULL, init_in_thread, &failures) != 0)
        return 1;
    for (int i = 0; i < 50; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            int count;
            alarm(60);
            init(0);
            count_devices(&count);
            _exit(0);
        }
        if (waitpid(pid, &status, 0) != pid || status != 0)
            return 1;
    }
    pthread_join(thread, NULL);
    printf("%d failed", atomic_load(&failures));
    return 0;
}

/* Makes a call that fails before cuInit(0), then sets a variable that names the machine's second GPU, which is not in
 * the vGPU of this process. */
static int role_early(bool allocates)
{
    CUuuid uuid = {{0}};
    CUdeviceptr pointer;
    int count = 0;

    int early_result = allocates ? allocate(&pointer, 4096) : init(1);
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    printf("early %d, init %d, ", early_result, init(0));
    printf("%d, %d: ", count_devices(&count), get_uuid(&uuid, 0));
    printf("GPU %d of %d", uuid.bytes[sizeof uuid.bytes - 1] - 1, count);
    return 0;
}

static int play_role(const char *role)
{
    if (!open_driver())
        return 1;
    if (strcmp(role, "early") == 0 || strcmp(role, "failed") == 0)
        return role_early(strcmp(role, "early") == 0);
    if (strcmp(role, "before") == 0)
        return role_fork_before();
    if (strcmp(role, "after") == 0)
        return role_fork_after();
    return strcmp(role, "storm") == 0 ? role_storm() : role_threads();
}

static void check_no_process_is_left(void)
{
    facet_owner_reap(fixture.segments[0].owner);
    assert_int_equal(test_segment_totals(&fixture.segments[0]).processes, 0);
}

static void test_a_child_may_use_the_driver_before_its_parent_does(void **state)
{
    fixture_enter("0");
    assert_string_equal(fixture_run(NULL, "before", NULL), "child 0, 1 process; parent 0, 0, 1 device");
    check_no_process_is_left();
}

/* The driver refuses each of a child's three calls with 3, CUDA_ERROR_NOT_INITIALIZED. Parent and child have a slot
 * each. */
static void test_a_child_of_an_initialised_process_is_refused(void **state)
{
    fixture_enter("0");
    assert_string_equal(fixture_run(NULL, "after", NULL), "parent 0, child 30303, 2 processes; 0, 0");
    check_no_process_is_left();
}

static void test_threads_that_begin_together_share_one_slot(void **state)
{
    fixture_enter("0");
    assert_string_equal(fixture_run(NULL, "threads", NULL), "0 failed, 1 process");
    check_no_process_is_left();
}

static void test_a_variable_set_after_an_early_call_leads_to_no_other_gpu(void **state)
{
    fixture_enter("0");
    /* 3: CUDA_ERROR_NOT_INITIALIZED, 1: CUDA_ERROR_INVALID_VALUE */
    assert_string_equal(fixture_run(NULL, "early", NULL), "early 3, init 0, 0, 0: GPU 0 of 1");
    assert_string_equal(fixture_run(NULL, "failed", NULL), "early 1, init 0, 0, 0: GPU 0 of 1");
    check_no_process_is_left();
}

__attribute__((unused)) static void test_no_child_hangs_that_is_made_while_a_thread_begins(void **state)
{
    fixture_enter("0");
    for (int i = 0; i < 5; i++)
        assert_string_equal(fixture_run(NULL, "storm", NULL), "0 failed");
    check_no_process_is_left();
}

int main(int count, char **arguments)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_child_may_use_the_driver_before_its_parent_does),
        TEST(test_a_child_of_an_initialised_process_is_refused),
        TEST(test_threads_that_begin_together_share_one_slot),
        TEST(test_a_variable_set_after_an_early_call_leads_to_no_other_gpu),
/* In a child a sanitizer's locks, such as its allocator's, stay as the parent's threads held them. */
#if !defined __SANITIZE_THREAD__ && !defined __SANITIZE_ADDRESS__
        TEST(test_no_child_hangs_that_is_made_while_a_thread_begins),
#endif
    };

    if (count > 1)
        return play_role(arguments[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
