/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that the memory that a process needs to begin a device is charged to that process, even if other
 * processes begin the device at the same moment. The charge is exact as far as the compute driver's files show it.
 * Never: asserts how long anything takes.
 */
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "machine.h"

#define PROCESSES 3u

#define INITIAL_PID_NAMESPACE "pid:[4026531836]"
#define OTHER_PID_NAMESPACE   "pid:[4026532841]"

static char root[96];
static _Atomic uint32_t *ready;

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    return remove(path);
}

/* Makes a machine, and a folder with the parts of /proc and of the compute driver's files that a process in this PID
 * namespace sees. */
static void make_machine(const char *namespace, uint64_t limit)
{
    char path[128];

    snprintf(root, sizeof root, "/tmp/facet-hip-kernel-XXXXXX");
    assert_non_null(mkdtemp(root));
    for (const char *const *part = (const char *const[]){"proc", "proc/self", "proc/self/ns", NULL}; *part; part++) {
        snprintf(path, sizeof path, "%s/%s", root, *part);
        assert_int_equal(mkdir(path, 0777), 0);
    }
    snprintf(path, sizeof path, "%s/proc/self/ns/pid", root);
    assert_int_equal(symlink(namespace, path), 0);
    setenv("FACET_ROCM_ROOT", root, 1);
    setenv("FAKE_HIP_KFD", root, 1);
    setenv("FAKE_HIP_BEGIN", "100", 1); /* ms that beginning a device takes */
    machine_make(1, &limit, "300M");
    ready = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(ready != MAP_FAILED);
}

static void clear_machine(void)
{
    munmap(ready, 4096);
    machine_remove();
    unsetenv("FACET_ROCM_ROOT");
    unsetenv("FAKE_HIP_KFD");
    unsetenv("FAKE_HIP_BEGIN");
    nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Waits until all processes have made their `time`-th call of this function, so that a process keeps its memory while
 * another process measures. */
static void wait_for_all(uint32_t time)
{
    atomic_fetch_add(ready, 1);
    while (atomic_load(ready) < time * PROCESSES)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void begin_device_together(void)
{
    hipStream_t stream;
    int count;

    role_open();
    CHECK_EQUAL(hip.hipGetDeviceCount(&count), hipSuccess);
    wait_for_all(1);
    CHECK_EQUAL(hip.hipStreamCreate(&stream), hipSuccess);
    wait_for_all(2);
}

static void role_exact_charge(void *argument)
{
    begin_device_together();
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_BEGIN);
    CHECK_EQUAL(machine_charged(0), 2 * MACHINE_BEGIN);
    CHECK_EQUAL(fake_used(0), PROCESSES * MACHINE_BEGIN);
    wait_for_all(3);
}

static void role_bounded_charge(void *argument)
{
    begin_device_together();
    CHECK(machine_charged_to_self(0) >= MACHINE_BEGIN);
    CHECK(machine_charged_to_self(0) <= 512 * MIB);
    wait_for_all(3);
}

static void role_outside(void *argument)
{
    begin_device_together();
    wait_for_all(3);
}

/* Runs `role` in two processes of one vGPU, beside a process outside it. */
static void run_in_namespace(void (*role)(void *argument), const char *namespace)
{
    pid_t pids[PROCESSES];

    make_machine(namespace, 2 * GIB);
    for (uint32_t i = 0; i < PROCESSES; i++)
        pids[i] = machine_start(i ? role : role_outside, NULL, i > 0);
    for (uint32_t i = 0; i < PROCESSES; i++)
        machine_wait(pids[i]);
    clear_machine();
}

static void test_processes_that_begin_together_are_each_charged_their_own_memory(void **state)
{
    run_in_namespace(role_exact_charge, INITIAL_PID_NAMESPACE);
}

/* In another PID namespace the driver's process ids do not match, so the change of the whole device's memory is
 * charged, up to FACET_HIP_MEASURE_MOST. */
static void test_in_another_pid_namespace_the_charge_is_bounded(void **state)
{
    run_in_namespace(role_bounded_charge, OTHER_PID_NAMESPACE);
}

/* All processes are in one vGPU, so that all of the device's memory is charged to that vGPU. */
static void role_all_in_one_vgpu(void *argument)
{
    begin_device_together();
    CHECK_EQUAL(fake_used(0), PROCESSES * MACHINE_BEGIN);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_BEGIN);
    wait_for_all(3);
}

static void test_without_driver_files_processes_are_measured_one_by_one(void **state)
{
    pid_t pids[PROCESSES];

    make_machine(OTHER_PID_NAMESPACE, 2 * GIB);
    for (uint32_t i = 0; i < PROCESSES; i++)
        pids[i] = machine_start(role_all_in_one_vgpu, NULL, true);
    for (uint32_t i = 0; i < PROCESSES; i++)
        machine_wait(pids[i]);
    clear_machine();
}

static void role_alone(void *argument)
{
    hipStream_t stream;
    void *pointer;

    role_open();
    CHECK_EQUAL(hip.hipStreamCreate(&stream), hipSuccess);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_BEGIN);
    CHECK_EQUAL(hip.hipMalloc(&pointer, 3 * MIB), hipSuccess);
    CHECK_EQUAL(hip.hipDeviceReset(), hipSuccess);
    CHECK_EQUAL(machine_charged_to_self(0), 0);
    CHECK_EQUAL(hip.hipMalloc(&pointer, 5 * MIB), hipSuccess);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_BEGIN + 5 * MIB);
}

static void test_a_device_that_begins_again_is_charged_like_the_first_time(void **state)
{
    make_machine(INITIAL_PID_NAMESPACE, GIB);
    machine_wait(machine_start(role_alone, NULL, true));
    clear_machine();
}

/* `argument`: the driver's files show the memory that beginning a device took. Then all of it is charged, however much
 * it is. */
static void role_large_start(void *argument)
{
    hipStream_t stream;

    role_open();
    CHECK_EQUAL(hip.hipStreamCreate(&stream), hipSuccess);
    CHECK_EQUAL(machine_charged_to_self(0), argument ? 700 * MIB : 512 * MIB);
}

static void test_only_a_charge_that_may_be_a_neighbours_is_bounded(void **state)
{
    for (int i = 0; i < 2; i++) {
        make_machine(i ? INITIAL_PID_NAMESPACE : OTHER_PID_NAMESPACE, GIB);
        setenv("FAKE_HIP_CONTEXT", "700M", 1);
        machine_wait(machine_start(role_large_start, i ? root : NULL, true));
        clear_machine();
    }
}

/*
 * The role is in the vGPU of the first of two GPUs. Its first call names an error and needs no device. The variables
 * that it sets then must not lead it to the second GPU.
 */
static void role_late_choice_of_device(void *argument)
{
    char first[64];
    hipUUID uuid;
    int count;

    setenv("FACET_VGPU_DIR", machine.segments[0].dir, 1);
    role_open();
    CHECK(hip.hipGetErrorName(hipSuccess));
    setenv("ROCR_VISIBLE_DEVICES", "1", 1);
    setenv("HIP_VISIBLE_DEVICES", "1,0", 1);
    CHECK_EQUAL(hip.hipGetDeviceCount(&count), hipSuccess);
    CHECK_EQUAL(count, 1);
    machine_digits(0, first);
    CHECK_EQUAL(hip.hipDeviceGetUuid(&uuid, 0), hipSuccess);
    CHECK(memcmp(uuid.bytes, first, sizeof uuid.bytes) == 0);
}

static void test_a_variable_set_after_the_first_call_leads_to_no_other_device(void **state)
{
    machine_make(2, (uint64_t[]){GIB, GIB}, "300M");
    machine_wait(machine_start(role_late_choice_of_device, NULL, true));
    machine_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_variable_set_after_the_first_call_leads_to_no_other_device),
        cmocka_unit_test(test_processes_that_begin_together_are_each_charged_their_own_memory),
        cmocka_unit_test(test_in_another_pid_namespace_the_charge_is_bounded),
        cmocka_unit_test(test_without_driver_files_processes_are_measured_one_by_one),
        cmocka_unit_test(test_a_device_that_begins_again_is_charged_like_the_first_time),
        cmocka_unit_test(test_only_a_charge_that_may_be_a_neighbours_is_bounded),
    };

    return cmocka_run_group_tests_name("hip/begin", tests, NULL, NULL);
}
