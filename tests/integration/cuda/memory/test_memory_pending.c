/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that the charge of a module or a context excludes memory that other threads of the process allocate and
 * free at that moment. Never: measures time.
 */
#include <pthread.h>
#include <stdlib.h>

#include "machine.h"

#define ALLOCATORS    3u
#define LARGEST_BLOCK (512 * MIB) /* the largest block of an allocator */
#define QUOTA         (4 * GIB)
#define GLOBALS_BYTES (8 * MIB)
#define CODE_BYTES    (64 * KIB) /* of each function, by the fake driver (execution_code.c) */
#define MODULE_BYTES  (GLOBALS_BYTES + CODE_BYTES)
#define MODULES       12u
#define ROUNDS        4u
#define CONTEXT_BYTES (20 * MIB) /* what a context costs on this machine */
#define CONTEXTS      3u
#define SHORT_CALL_NS "300000"    /* ns, as long as a real driver needs for a large allocation */
#define LONG_CALL_NS  "120000000" /* ns, longer than a measurement waits for pending calls */

static const char image[] = "FAKE-CUDA\n@global table 8388608\nfirst 1000\n";

/* The loading thread reads charges while the allocators wait at `allocators_pause` and hold no memory. */
static struct {
    pthread_barrier_t allocators_start, allocators_pause;
    _Atomic bool stop, pause;
    CUcontext context;
} shared;

static void allocate_until_paused(uint64_t *seed)
{
    while (!atomic_load(&shared.pause)) {
        CUdeviceptr pointer;

        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, (64 * MIB) << (*seed >> 33) % 4), CUDA_SUCCESS);
        CHECK_EQUAL(cuda.cuMemFree_v2(pointer), CUDA_SUCCESS);
    }
}

static void *allocate_until_stopped(void *argument)
{
    uint64_t seed = (uintptr_t)argument;

    CHECK_EQUAL(cuda.cuCtxSetCurrent(shared.context), CUDA_SUCCESS);
    while (pthread_barrier_wait(&shared.allocators_start), !atomic_load(&shared.stop)) {
        allocate_until_paused(&seed);
        pthread_barrier_wait(&shared.allocators_pause);
    }
    return NULL;
}

static void resume_allocators(void)
{
    atomic_store(&shared.pause, false);
    pthread_barrier_wait(&shared.allocators_start);
}

static void pause_allocators(void)
{
    atomic_store(&shared.pause, true);
    pthread_barrier_wait(&shared.allocators_pause);
}

static void check_charges(uint64_t other_bytes)
{
    CHECK_EQUAL(fake_used(0), CONTEXT_BYTES + other_bytes);
    CHECK_EQUAL(machine_charged(0), CONTEXT_BYTES + other_bytes);
}

static void load_and_unload_modules(void)
{
    CUmodule modules[MODULES];

    resume_allocators();
    for (uint32_t i = 0; i < MODULES; i++)
        CHECK_EQUAL(cuda.cuModuleLoadData(&modules[i], image), CUDA_SUCCESS);
    pause_allocators();
    check_charges(MODULES * MODULE_BYTES);
    resume_allocators();
    for (uint32_t i = 0; i < MODULES; i++)
        CHECK_EQUAL(cuda.cuModuleUnload(modules[i]), CUDA_SUCCESS);
    pause_allocators();
    check_charges(0);
}

static void make_and_destroy_contexts(void)
{
    CUcontext contexts[CONTEXTS];

    resume_allocators();
    for (uint32_t i = 0; i < CONTEXTS; i++)
        CHECK_EQUAL(cuda.cuCtxCreate_v2(&contexts[i], 0, 0), CUDA_SUCCESS);
    pause_allocators();
    check_charges(CONTEXTS * CONTEXT_BYTES);
    resume_allocators();
    for (uint32_t i = 0; i < CONTEXTS; i++)
        CHECK_EQUAL(cuda.cuCtxDestroy_v2(contexts[i]), CUDA_SUCCESS);
    pause_allocators();
    check_charges(0);
    CHECK_EQUAL(cuda.cuCtxSetCurrent(shared.context), CUDA_SUCCESS);
}

/* The allocators' calls take longer than a measurement waits. The charge may then be too small, but never too large. */
static void load_modules_beside_slow_calls(void)
{
    CUmodule modules[3];

    resume_allocators();
    for (uint32_t i = 0; i < 3; i++)
        CHECK_EQUAL(cuda.cuModuleLoadData(&modules[i], image), CUDA_SUCCESS);
    pause_allocators();
    CHECK_EQUAL(fake_used(0), CONTEXT_BYTES + 3 * MODULE_BYTES);
    CHECK(machine_charged(0) >= CONTEXT_BYTES && machine_charged(0) <= CONTEXT_BYTES + 3 * MODULE_BYTES);
    resume_allocators();
    for (uint32_t i = 0; i < 3; i++)
        CHECK_EQUAL(cuda.cuModuleUnload(modules[i]), CUDA_SUCCESS);
    pause_allocators();
    check_charges(0);
}

static void role_loads(void *argument)
{
    pthread_t threads[ALLOCATORS];

    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    role_open();
    shared.context = role_enter(0);
    pthread_barrier_init(&shared.allocators_start, NULL, ALLOCATORS + 1);
    pthread_barrier_init(&shared.allocators_pause, NULL, ALLOCATORS + 1);
    for (uintptr_t i = 0; i < ALLOCATORS; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, allocate_until_stopped, (void *)(i + 1)), 0);
    for (uint32_t i = 0; i < ROUNDS; i++)
        ((void (*)(void))argument)();
    atomic_store(&shared.stop, true);
    pthread_barrier_wait(&shared.allocators_start);
    for (uint32_t i = 0; i < ALLOCATORS; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    check_charges(0);
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), 0);
}

/* Runs `load` beside the allocators. The peak charge must not exceed the most that can have been allocated: a context,
 * the allocators' largest blocks, and `other_bytes`. */
static void run_beside_allocators(void (*load)(void), uint64_t other_bytes, bool no_nvml, const char *linger_ns)
{
    setenv("FAKE_CUDA_LINGER", linger_ns, 1);
    machine_make(1, &(uint64_t){QUOTA}, "20M");
    machine.no_nvml = no_nvml;
    machine_wait(machine_start(role_loads, (void *)load, true));
    assert_int_equal(machine_charged(0), 0);
    assert_true(test_segment_totals(&machine.segments[0]).memory_peak_bytes <=
                CONTEXT_BYTES + ALLOCATORS * LARGEST_BLOCK + other_bytes);
    machine_remove();
    unsetenv("FAKE_CUDA_LINGER");
}

static void test_modules_are_charged_without_memory_of_other_threads(void **state)
{
    run_beside_allocators(load_and_unload_modules, MODULES * MODULE_BYTES, false, SHORT_CALL_NS);
}

static void test_modules_are_charged_without_memory_of_other_threads_when_nvml_is_missing(void **state)
{
    run_beside_allocators(load_and_unload_modules, MODULES * MODULE_BYTES, true, SHORT_CALL_NS);
}

static void test_contexts_are_charged_without_memory_of_other_threads(void **state)
{
    run_beside_allocators(make_and_destroy_contexts, CONTEXTS * CONTEXT_BYTES, false, SHORT_CALL_NS);
}

static void test_modules_loaded_beside_slow_calls_are_never_charged_too_much(void **state)
{
    run_beside_allocators(load_modules_beside_slow_calls, 3 * MODULE_BYTES, false, LONG_CALL_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modules_are_charged_without_memory_of_other_threads),
        cmocka_unit_test(test_modules_are_charged_without_memory_of_other_threads_when_nvml_is_missing),
        cmocka_unit_test(test_contexts_are_charged_without_memory_of_other_threads),
        cmocka_unit_test(test_modules_loaded_beside_slow_calls_are_never_charged_too_much),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
