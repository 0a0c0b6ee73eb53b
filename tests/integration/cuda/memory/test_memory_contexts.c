/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that each process is charged for its own contexts, whatever other processes on the device do.
 * Never: depends on the order of the processes' calls.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "machine.h"

#define ROUNDS     20u
#define NEIGHBOURS 3u

/* Shared by the test and its roles. */
struct shared {
    _Atomic uint32_t ready; /* number of roles that are ready; each role says for what */
    _Atomic bool test_ended;
};
static struct shared *shared;

static void shared_make(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
}

static void shared_remove(void)
{
    munmap(shared, sizeof *shared);
}

static void nap(void)
{
    usleep(200);
}

/* Allocates and frees large blocks, outside of the vGPU, until the test ends. */
static void role_changing_neighbour(void *argument)
{
    CUdeviceptr pointer;

    role_open();
    role_enter(0);
    atomic_fetch_add(&shared->ready, 1);
    while (!atomic_load(&shared->test_ended)) {
        CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, 1 * GIB), CUDA_SUCCESS);
        CHECK_EQUAL(cuda.cuMemFree_v2(pointer), CUDA_SUCCESS);
    }
}

static void role_repeated_contexts(void *argument)
{
    CUcontext second;

    role_open();
    for (uint32_t i = 0; i < ROUNDS; i++) {
        role_enter(0);
        CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT);
        CHECK_EQUAL(cuda.cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
        CHECK_EQUAL(machine_charged_to_self(0), 2 * MACHINE_CONTEXT);
        CHECK_EQUAL(cuda.cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
        CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT);
        CHECK_EQUAL(cuda.cuCtxDestroy_v2(second), CUDA_SUCCESS);
        CHECK_EQUAL(machine_charged_to_self(0), 0);
    }
}

/* The neighbour is in no vGPU, so its memory must not be charged to the vGPU of the test. */
static void test_a_neighbours_allocations_do_not_change_the_charge_of_a_context(void **state)
{
    shared_make();
    machine_make(1, &(uint64_t){GIB}, "300M");
    pid_t neighbour = machine_start(role_changing_neighbour, NULL, false);
    while (!atomic_load(&shared->ready))
        nap();
    machine_wait(machine_start(role_repeated_contexts, NULL, true));
    atomic_store(&shared->test_ended, true);
    machine_wait(neighbour);
    machine_remove();
    shared_remove();
}

static void role_simultaneous_start(void *argument)
{
    role_open();
    atomic_fetch_add(&shared->ready, 1);
    while (atomic_load(&shared->ready) < NEIGHBOURS)
        ; /* all processes begin at the same moment */
    for (uint32_t i = 0; i < ROUNDS; i++) {
        role_enter(0);
        CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT);
        CHECK_EQUAL(cuda.cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
        CHECK_EQUAL(machine_charged_to_self(0), 0);
    }
}

static void test_processes_that_begin_at_once_are_each_charged_one_context(void **state)
{
    pid_t pids[NEIGHBOURS];

    shared_make();
    machine_make(1, &(uint64_t){2 * GIB}, "300M");
    for (uint32_t i = 0; i < NEIGHBOURS; i++)
        pids[i] = machine_start(role_simultaneous_start, NULL, true);
    for (uint32_t i = 0; i < NEIGHBOURS; i++)
        machine_wait(pids[i]);
    machine_remove();
    shared_remove();
}

/* ---- without NVML, the interposer measures a context by the device's memory in use ---- */

static void role_alone_on_the_device(void *argument)
{
    CUdeviceptr pointer;
    CUcontext second;

    role_open();
    role_enter(0);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, 20 * MIB), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged_to_self(0), 2 * MACHINE_CONTEXT + 20 * MIB);
    CHECK_EQUAL(cuda.cuCtxDestroy_v2(second), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT + 20 * MIB);
}

static void test_without_nvml_a_context_is_measured_by_the_devices_memory(void **state)
{
    machine_make(1, &(uint64_t){GIB}, "300M");
    machine.no_nvml = true;
    machine_wait(machine_start(role_alone_on_the_device, NULL, true));
    machine_wait(machine_start(role_alone_on_the_device, NULL, true));
    machine_remove();
}

/* Memory that another process allocates meanwhile is charged to that process before the device is measured again. */
static void role_simultaneous_contexts(void *argument)
{
    role_open();
    atomic_fetch_add(&shared->ready, 1);
    while (atomic_load(&shared->ready) < NEIGHBOURS)
        ;
    role_enter(0);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT);
    atomic_fetch_add(&shared->ready, 1); /* no process ends before all have been measured */
    while (atomic_load(&shared->ready) < 2 * NEIGHBOURS)
        nap();
}

static void test_without_nvml_processes_of_a_vgpu_begin_one_after_another(void **state)
{
    pid_t pids[NEIGHBOURS];

    for (uint32_t round = 0; round < ROUNDS; round++) {
        shared_make();
        machine_make(1, &(uint64_t){2 * GIB}, "300M");
        machine.no_nvml = true;
        for (uint32_t i = 0; i < NEIGHBOURS; i++)
            pids[i] = machine_start(role_simultaneous_contexts, NULL, true);
        for (uint32_t i = 0; i < NEIGHBOURS; i++)
            machine_wait(pids[i]);
        machine_remove();
        shared_remove();
    }
}

static void role_holds_memory(void *argument)
{
    CUdeviceptr pointer;

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, 2 * GIB), CUDA_SUCCESS);
    atomic_fetch_add(&shared->ready, 1);
    while (!atomic_load(&shared->test_ended))
        nap();
}

/* The neighbour's 2 GiB look like memory of this process, but a measured call is charged at most
 * FACET_CUDA_MEASURE_MOST. */
static void role_charge_is_bounded(void *argument)
{
    role_open();
    role_enter(0);
    CHECK_EQUAL(machine_charged_to_self(0), 512 * MIB);
}

static void test_without_nvml_a_charge_for_a_neighbours_memory_is_bounded(void **state)
{
    shared_make();
    machine_make(1, &(uint64_t){GIB}, "300M");
    machine.no_nvml = true;
    pid_t neighbour = machine_start(role_holds_memory, NULL, false);
    while (!atomic_load(&shared->ready))
        nap();
    machine_wait(machine_start(role_charge_is_bounded, NULL, true));
    atomic_store(&shared->test_ended, true);
    machine_wait(neighbour);
    machine_remove();
    shared_remove();
}

static void role_is_charged_for_its_contexts_alone(void *argument)
{
    CUcontext second;

    role_open();
    role_enter(0);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT);
    CHECK_EQUAL(cuda.cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged_to_self(0), 2 * MACHINE_CONTEXT);
}

/* As in a container with a PID namespace of its own, NVML lists the processes by other ids, each with its memory. */
static void test_a_neighbours_memory_is_not_charged_where_nvml_lists_other_pids(void **state)
{
    shared_make();
    machine_make(1, &(uint64_t){GIB}, "300M");
    machine.lists_other_pids = true;
    pid_t neighbour = machine_start(role_holds_memory, NULL, false);
    while (!atomic_load(&shared->ready))
        nap();
    machine_wait(machine_start(role_is_charged_for_its_contexts_alone, NULL, true));
    atomic_store(&shared->test_ended, true);
    machine_wait(neighbour);
    machine_remove();
    shared_remove();
}

/* ---- other ways to a context ---- */

static void role_attached_context(void *argument)
{
    CUcontext context, again;

    role_open();
    CHECK_EQUAL(cuda.cuGLCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT);
    CHECK_EQUAL(cuda.cuCtxAttach(&again, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuCtxDetach(context), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT);
    CHECK_EQUAL(cuda.cuCtxDetach(context), CUDA_SUCCESS); /* the last detach ends the context */
    CHECK_EQUAL(machine_charged_to_self(0), 0);
    CHECK_EQUAL(cuda.cuCtxDetach(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_EQUAL(cuda.cuCtxDetach(NULL), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQUAL(cuda.cuGLCtxCreate_v2(NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(machine_charged_to_self(0), 0);
}

static void test_the_last_detach_ends_a_context(void **state)
{
    machine_run(role_attached_context, GIB);
}

#define GREEN_BYTES (2 * MIB) /* of each green context, by the fake driver (green.c) */

static CUgreenCtx make_green(CUresult expected)
{
    CUdevResource resource;
    CUdevResourceDesc description;
    CUgreenCtx green = NULL;

    CHECK_EQUAL(cuda.cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDevResourceGenerateDesc(&description, &resource, 1), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM), expected);
    return green;
}

/* A process with a green context has the primary context, too, whether it retained that context or not. */
static void role_green_contexts(void *argument)
{
    CUcontext context;
    CUdeviceptr pointer;

    role_open();
    CUgreenCtx green = make_green(CUDA_SUCCESS), other = make_green(CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT + 2 * GREEN_BYTES);
    CHECK_EQUAL(fake_used(0), machine_charged_to_self(0));
    CHECK_EQUAL(cuda.cuCtxFromGreenCtx(&context, green), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuCtxSetCurrent(context), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, 4 * MIB), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGreenCtxDestroy(green), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT + GREEN_BYTES + 4 * MIB);
    role_enter(0);
    CHECK_EQUAL(cuda.cuGreenCtxDestroy(other), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGreenCtxDestroy(other), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT + 4 * MIB); /* the primary context is retained by now */
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged_to_self(0), 0);
    CHECK_EQUAL(fake_used(0), 0);
    green = make_green(CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGreenCtxDestroy(green), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged_to_self(0), 0);
    CHECK_EQUAL(cuda.cuGreenCtxCreate(NULL, NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuGreenCtxDestroy(NULL), CUDA_ERROR_INVALID_CONTEXT);
}

static void role_green_context_over_quota(void *argument)
{
    role_open();
    make_green(CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(machine_charged_to_self(0), 0);
    CHECK_EQUAL(fake_used(0), 0);
}

static void test_a_green_context_is_charged_with_the_primary_context(void **state)
{
    machine_run(role_green_contexts, GIB);
    machine_run(role_green_context_over_quota, MACHINE_CONTEXT + GREEN_BYTES - 1);
    machine_run(role_green_context_over_quota, MACHINE_CONTEXT - 1);
}

/* ---- a context that ends while its memory is freed ---- */

#define BLOCKS 32u

struct context_end {
    CUdeviceptr blocks[BLOCKS];
    _Atomic bool started;
};

static void *free_all(void *argument)
{
    struct context_end *context_end = argument;

    role_enter(0);
    atomic_store(&context_end->started, true);
    for (uint32_t i = 0; i < BLOCKS; i++)
        (void)cuda.cuMemFree_v2(context_end->blocks[i]); /* refused if the context has ended before */
    return NULL;
}

/* Nothing stays charged, in whichever order frees and the context's end come. Half of the blocks are small. */
static void role_context_ends_during_frees(void *argument)
{
    role_open();
    role_enter(0);
    for (uint32_t round = 0; round < 20 * ROUNDS; round++) {
        struct context_end context_end = {0};
        CUcontext context;
        pthread_t thread;

        CHECK_EQUAL(cuda.cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
        for (uint32_t i = 0; i < BLOCKS; i++)
            CHECK_EQUAL(cuda.cuMemAlloc_v2(&context_end.blocks[i], i % 2 ? MIB / 16 : 3 * MIB), CUDA_SUCCESS);
        CHECK_EQUAL(pthread_create(&thread, NULL, free_all, &context_end), 0);
        while (!atomic_load(&context_end.started))
            sched_yield();
        CHECK_EQUAL(cuda.cuCtxDestroy_v2(context), CUDA_SUCCESS);
        CHECK_EQUAL(pthread_join(thread, NULL), 0);
        role_enter(0);
        CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT);
    }
}

static void *free_after_the_end(void *argument)
{
    struct context_end *context_end = argument;

    role_enter(0);
    atomic_store(&context_end->started, true);
    CHECK_EQUAL(cuda.cuMemFree_v2(context_end->blocks[0]), CUDA_ERROR_INVALID_VALUE);
    return NULL;
}

/* The end of a context waits for a free in flight, but not as long as FAKE_CUDA_LATE delays this free. */
static void role_context_ends_before_a_late_free(void *argument)
{
    role_open();
    role_enter(0);
    for (uint32_t round = 0; round < 4; round++) {
        struct context_end context_end = {0};
        CUcontext context;
        pthread_t thread;

        CHECK_EQUAL(cuda.cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
        CHECK_EQUAL(cuda.cuMemAlloc_v2(&context_end.blocks[0], round % 2 ? MIB / 16 : 3 * MIB), CUDA_SUCCESS);
        CHECK_EQUAL(pthread_create(&thread, NULL, free_after_the_end, &context_end), 0);
        while (!atomic_load(&context_end.started))
            sched_yield();
        usleep(50000); /* until the thread is in the driver's call */
        CHECK_EQUAL(cuda.cuCtxDestroy_v2(context), CUDA_SUCCESS);
        CHECK_EQUAL(pthread_join(thread, NULL), 0);
        role_enter(0);
        CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT);
    }
}

static void test_a_free_may_be_refused_long_after_its_context_has_ended(void **state)
{
    setenv("FAKE_CUDA_LATE", "200000000", 1); /* 0.2 s */
    machine_run(role_context_ends_before_a_late_free, 2 * GIB);
    unsetenv("FAKE_CUDA_LATE");
}

static void test_frees_and_the_end_of_their_context_may_come_together(void **state)
{
    machine_run(role_context_ends_during_frees, 2 * GIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frees_and_the_end_of_their_context_may_come_together),
        cmocka_unit_test(test_a_free_may_be_refused_long_after_its_context_has_ended),
        cmocka_unit_test(test_a_neighbours_allocations_do_not_change_the_charge_of_a_context),
        cmocka_unit_test(test_processes_that_begin_at_once_are_each_charged_one_context),
        cmocka_unit_test(test_without_nvml_a_context_is_measured_by_the_devices_memory),
        cmocka_unit_test(test_without_nvml_processes_of_a_vgpu_begin_one_after_another),
        cmocka_unit_test(test_without_nvml_a_charge_for_a_neighbours_memory_is_bounded),
        cmocka_unit_test(test_a_neighbours_memory_is_not_charged_where_nvml_lists_other_pids),
        cmocka_unit_test(test_the_last_detach_ends_a_context),
        cmocka_unit_test(test_a_green_context_is_charged_with_the_primary_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
