/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that the charge of a module or a context excludes memory that other threads of the process allocate and
 * free at that moment. Never: measures time.
 */
#include <pthread.h>
#include <stdlib.h>

#include "machine.h"

#define ALLOCATORS 3u
#define MOST       (512 * MIB)
#define LIMIT      (4 * GIB)
#define GLOBALS    (8 * MIB)
#define CODE       (64 * KIB) /* of each function, by the fake driver (execution_code.c) */
#define MODULE     (GLOBALS + CODE)
#define MODULES    12u
#define ROUNDS     4u
#define SECOND     (20 * MIB)
#define CONTEXTS   3u
#define A_MOMENT   "300000"    /* ns that a real driver needs for a large allocation */
#define FOR_LONG   "120000000" /* ns: longer than a reading waits */

static const char image[] = "FAKE-CUDA\n@global table 8388608\nfirst 1000\n";

/* The loader reads the charges while the allocators wait at `rests` and hold no memory. */
static struct {
    pthread_barrier_t begins, rests;
    _Atomic bool over, enough;
    CUcontext context;
} play;

static void allocate_until_enough(uint64_t *seed)
{
    while (!atomic_load(&play.enough)) {
        CUdeviceptr pointer;

        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, (64 * MIB) << (*seed >> 33) % 4), CUDA_SUCCESS);
        CHECK_EQUAL(cuda.cuMemFree_v2(pointer), CUDA_SUCCESS);
    }
}

static void *allocate_until_over(void *argument)
{
    uint64_t seed = (uintptr_t)argument;

    CHECK_EQUAL(cuda.cuCtxSetCurrent(play.context), CUDA_SUCCESS);
    while (pthread_barrier_wait(&play.begins), !atomic_load(&play.over)) {
        allocate_until_enough(&seed);
        pthread_barrier_wait(&play.rests);
    }
    return NULL;
}

static void others_begin(void)
{
    atomic_store(&play.enough, false);
    pthread_barrier_wait(&play.begins);
}

static void others_rest(void)
{
    atomic_store(&play.enough, true);
    pthread_barrier_wait(&play.rests);
}

static void check_books(uint64_t besides)
{
    CHECK_EQUAL(fake_used(0), SECOND + besides);
    CHECK_EQUAL(machine_charged(0), SECOND + besides);
}

static void load_and_unload(void)
{
    CUmodule modules[MODULES];

    others_begin();
    for (uint32_t i = 0; i < MODULES; i++)
        CHECK_EQUAL(cuda.cuModuleLoadData(&modules[i], image), CUDA_SUCCESS);
    others_rest();
    check_books(MODULES * MODULE);
    others_begin();
    for (uint32_t i = 0; i < MODULES; i++)
        CHECK_EQUAL(cuda.cuModuleUnload(modules[i]), CUDA_SUCCESS);
    others_rest();
    check_books(0);
}

static void make_and_destroy(void)
{
    CUcontext contexts[CONTEXTS];

    others_begin();
    for (uint32_t i = 0; i < CONTEXTS; i++)
        CHECK_EQUAL(cuda.cuCtxCreate_v2(&contexts[i], 0, 0), CUDA_SUCCESS);
    others_rest();
    check_books(CONTEXTS * SECOND);
    others_begin();
    for (uint32_t i = 0; i < CONTEXTS; i++)
        CHECK_EQUAL(cuda.cuCtxDestroy_v2(contexts[i]), CUDA_SUCCESS);
    others_rest();
    check_books(0);
    CHECK_EQUAL(cuda.cuCtxSetCurrent(play.context), CUDA_SUCCESS);
}

/* The driver's calls take longer than a reading waits: the charge may be too small, but never too large. */
static void load_beside_slow_ones(void)
{
    CUmodule modules[3];

    others_begin();
    for (uint32_t i = 0; i < 3; i++)
        CHECK_EQUAL(cuda.cuModuleLoadData(&modules[i], image), CUDA_SUCCESS);
    others_rest();
    CHECK_EQUAL(fake_used(0), SECOND + 3 * MODULE);
    CHECK(machine_charged(0) >= SECOND && machine_charged(0) <= SECOND + 3 * MODULE);
    others_begin();
    for (uint32_t i = 0; i < 3; i++)
        CHECK_EQUAL(cuda.cuModuleUnload(modules[i]), CUDA_SUCCESS);
    others_rest();
    check_books(0);
}

static void role_loads(void *argument)
{
    pthread_t threads[ALLOCATORS];

    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    role_open();
    play.context = role_enter(0);
    pthread_barrier_init(&play.begins, NULL, ALLOCATORS + 1);
    pthread_barrier_init(&play.rests, NULL, ALLOCATORS + 1);
    for (uintptr_t i = 0; i < ALLOCATORS; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, allocate_until_over, (void *)(i + 1)), 0);
    for (uint32_t i = 0; i < ROUNDS; i++)
        ((void (*)(void))argument)();
    atomic_store(&play.over, true);
    pthread_barrier_wait(&play.begins);
    for (uint32_t i = 0; i < ALLOCATORS; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    check_books(0);
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), 0);
}

/* The peak charge must not exceed the most that can have been allocated. */
static void run_beside(void (*what)(void), uint64_t besides, bool no_nvml, const char *linger_ns)
{
    setenv("FAKE_CUDA_LINGER", linger_ns, 1);
    machine_make(1, &(uint64_t){LIMIT}, "20M");
    machine.no_nvml = no_nvml;
    machine_wait(machine_start(role_loads, (void *)what, true));
    assert_int_equal(machine_charged(0), 0);
    assert_true(test_segment_totals(&machine.segments[0]).memory_peak_bytes <= SECOND + ALLOCATORS * MOST + besides);
    machine_remove();
    unsetenv("FAKE_CUDA_LINGER");
}

static void test_modules_are_charged_their_memory(void **state)
{
    run_beside(load_and_unload, MODULES * MODULE, false, A_MOMENT);
}

static void test_modules_are_charged_their_memory_without_nvml(void **state)
{
    run_beside(load_and_unload, MODULES * MODULE, true, A_MOMENT);
}

static void test_contexts_are_charged_their_memory(void **state)
{
    run_beside(make_and_destroy, CONTEXTS * SECOND, false, A_MOMENT);
}

static void test_pending_bytes_are_charged_to_no_other_process(void **state)
{
    run_beside(load_beside_slow_ones, 3 * MODULE, false, FOR_LONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modules_are_charged_their_memory),
        cmocka_unit_test(test_modules_are_charged_their_memory_without_nvml),
        cmocka_unit_test(test_contexts_are_charged_their_memory),
        cmocka_unit_test(test_pending_bytes_are_charged_to_no_other_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
