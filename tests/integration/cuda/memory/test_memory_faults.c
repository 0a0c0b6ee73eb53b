/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that charges stay right in programs that misuse the driver, and on drivers that lack functions.
 * Never: proves the charge of a kind of memory; the test of that kind does.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "machine.h"

#define CODE_BYTES (64 * KIB) /* of a function, by the fake */

static const char image[] = "FAKE-CUDA\nfirst 1000\n";

/* The charge equals all memory that processes hold on the device. */
#define CHECK_CHARGE(device) CHECK_EQUAL(machine_charged(device), fake_used(device))

static CUdeviceptr allocate_memory(uint64_t bytes)
{
    CUdeviceptr pointer = 0;

    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, bytes), CUDA_SUCCESS);
    return pointer;
}

static CUmodule load_module(void)
{
    CUfunction function;
    CUmodule module;

    CHECK_EQUAL(cuda.cuModuleLoadData(&module, image), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuModuleGetFunction(&function, module, "first"), CUDA_SUCCESS);
    return module;
}

/* ---- programs that use primary and created contexts ---- */

static void role_mixed_contexts(void *argument)
{
    CUcontext primary, created, again;

    role_open();
    CHECK_EQUAL(cuda.cuCtxCreate_v2(&created, 0, 0), CUDA_SUCCESS); /* before the primary context exists */
    CUdeviceptr of_created = allocate_memory(2 * MIB);
    primary = role_enter(0);
    CUdeviceptr of_primary = allocate_memory(4 * MIB);
    CUmodule module = load_module();
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxRetain(&again, 0), CUDA_SUCCESS);
    CHECK(again == primary);
    CHECK_CHARGE(0);
    CHECK_EQUAL(cuda.cuCtxSetCurrent(created), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemFree_v2(of_primary), CUDA_SUCCESS); /* while the created context is current */
    CHECK_EQUAL(cuda.cuModuleUnload(module), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), 2 * MACHINE_CONTEXT + 2 * MIB);
    CHECK_EQUAL(cuda.cuCtxSetCurrent(primary), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuCtxDestroy_v2(created), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemFree_v2(of_created), CUDA_ERROR_INVALID_VALUE);
    CHECK_CHARGE(0);
    load_module();
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS); /* although it is retained twice */
    CHECK_EQUAL(machine_charged(0), 0);
    role_enter(0);
    load_module();
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + CODE_BYTES);
    CHECK_CHARGE(0);
}

static void test_primary_and_created_contexts_are_charged_side_by_side(void **state)
{
    machine_run(role_mixed_contexts, GIB);
}

/* ---- a library that is opened again ---- */

static void *open_ours(void)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/libcuda.so.1", getenv("FACET_TEST_CUDA_OURS"));
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    return library;
}

static void role_reopened_library(void *argument)
{
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(dlclose(open_ours()) == 0);
        role_open();
        role_enter(0);
        allocate_memory(2 * MIB);
        load_module();
        CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + (i + 1) * (2 * MIB + CODE_BYTES));
        CHECK(dlclose(open_ours()) == 0);
        CHECK_CHARGE(0);
    }
    CHECK_EQUAL(test_segment_totals(&machine.segments[0]).processes,
                1); /* one slot, however often the process opened the library */
}

static void test_the_library_may_be_closed_and_opened_again(void **state)
{
    machine_run(role_reopened_library, GIB);
}

/* ---- ends ---- */

/* `argument`: ends by abort() instead of exit(). */
static void role_exits_with_memory(void *argument)
{
    role_open();
    role_enter(0);
    allocate_memory(8 * MIB);
    load_module();
    CHECK(machine_charged(0) > MACHINE_CONTEXT + 8 * MIB);
    if (argument)
        abort(); /* no code of Facet runs, like in a killed process */
    exit(0);
}

static void test_memory_of_an_ended_program_is_released(void **state)
{
    int status;

    machine_make(1, &(uint64_t){GIB}, "300M");
    machine_wait(machine_start(role_exits_with_memory, NULL, true));
    facet_owner_reap(machine.segments[0].owner);
    assert_int_equal(machine_charged(0), 0);
    pid_t pid = machine_start(role_exits_with_memory, &machine, true);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    facet_owner_reap(machine.segments[0].owner);
    assert_int_equal(machine_charged(0), 0);
    machine_remove();
}

/* The driver refuses the calls of a child, whether its parent has a context or not. No child changes its parent's
 * charges. */
static void role_forks(void *argument)
{
    int status = -1;

    role_open(); /* initialises the driver, so that it refuses a child's calls */
    pid_t pid = fork();
    if (pid == 0) {
        CUcontext context;
        CUmodule module;

        CHECK_EQUAL(cuda.cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_NOT_INITIALIZED);
        CHECK_EQUAL(cuda.cuModuleLoadData(&module, image), CUDA_ERROR_NOT_INITIALIZED);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQUAL(status, 0);
    role_enter(0);
    load_module();
    CHECK_CHARGE(0);
    pid = fork();
    if (pid == 0) {
        CUcontext context;

        CHECK_EQUAL(cuda.cuCtxCreate_v2(&context, 0, 0), CUDA_ERROR_NOT_INITIALIZED);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQUAL(status, 0);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT + CODE_BYTES);
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), 0);
}

static void test_children_leave_their_parents_accounts_alone(void **state)
{
    machine_run(role_forks, GIB);
}

/* ---- two GPUs with different limits ---- */

static void *work_on_device(void *argument)
{
    uint32_t device = (uint32_t)(uintptr_t)argument;

    role_enter((CUdevice)device);
    for (uint32_t i = 0; i < 50; i++) {
        CUdeviceptr pointer = allocate_memory((1 + i % 5) * MIB);
        CUmodule module = load_module();

        CHECK_EQUAL(cuda.cuMemFree_v2(pointer), CUDA_SUCCESS);
        CHECK_EQUAL(cuda.cuModuleUnload(module), CUDA_SUCCESS);
    }
    return NULL;
}

static void role_two_threads_one_device(void *argument)
{
    pthread_t threads[2];
    CUcontext context;

    role_open();
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxRetain(&context, 1),
                CUDA_ERROR_OUT_OF_MEMORY); /* a context costs more than this quota of 10 MiB */
    CHECK_EQUAL(machine_charged(1), 0);
    for (uintptr_t i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, work_on_device, (void *)(uintptr_t)0), 0);
    for (uint32_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(machine_charged(1), 0);
    CHECK_EQUAL(fake_used(1), 0);
}

static void role_two_threads_two_devices(void *argument)
{
    pthread_t threads[2];

    role_open();
    for (uintptr_t i = 0; i < 2; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, work_on_device, (void *)i), 0);
    for (uint32_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < 2; i++)
        CHECK_EQUAL(machine_charged(i), MACHINE_CONTEXT); /* exact, because only one thread uses each device */
}

static void test_one_gpu_too_small_for_a_context_does_not_hurt_the_other(void **state)
{
    machine_make(2, (uint64_t[]){GIB, 10 * MIB}, "300M");
    machine_wait(machine_start(role_two_threads_one_device, NULL, true));
    machine_remove();
    machine_make(2, (uint64_t[]){GIB, 2 * GIB}, "300M");
    machine_wait(machine_start(role_two_threads_two_devices, NULL, true));
    machine_remove();
}

/* ---- an older driver ---- */

static void role_old_driver(void *argument)
{
    CUDA_MEM_ALLOC_NODE_PARAMS_v1 shape = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
        .bytesize = 4 * MIB,
    };
    CUlibrary library;
    CUfunction function;
    CUkernel kernel;
    CUdevResource resource;
    CUgraphNode node;
    CUgraphExec executable;
    CUgraph graph;
    CUgreenCtx green;

    role_open();
    role_enter(0);
    load_module();
    CHECK_EQUAL(cuda.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuLibraryGetKernel(&kernel, library, "first"), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 2; i++)
        CHECK_EQUAL(cuda.cuKernelGetFunction(&function, kernel),
                    CUDA_SUCCESS); /* this driver cannot name the library of a kernel */
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + 2 * CODE_BYTES);
    CHECK_EQUAL(cuda.cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuFuncLoad(function), CUDA_ERROR_NOT_SUPPORTED); /* cuFuncLoad exists since CUDA 12.4 */
    CHECK_EQUAL(cuda.cuGreenCtxCreate(&green, (CUdevResourceDesc)&resource, 0, 1), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQUAL(cuda.cuMemcpyBatchAsync_v2(NULL, NULL, NULL, 0, NULL, NULL, 0, NULL), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQUAL(cuda.cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphAddMemAllocNode(&node, graph, NULL, 0, &shape), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphInstantiateWithFlags(&executable, graph, 1), CUDA_SUCCESS); /* 1: a launch frees first */
    CHECK_EQUAL(cuda.cuGraphLaunch(executable, NULL), CUDA_SUCCESS);
    CHECK_CHARGE(0);
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), 4 * MIB); /* the driver still holds this memory for graphs */
    CHECK_CHARGE(0);
}

static void test_an_old_driver_without_later_functions_is_enough(void **state)
{
    machine_make(1, &(uint64_t){GIB}, "300M");
    machine.is_old = true;
    machine_wait(machine_start(role_old_driver, NULL, true));
    machine_remove();
}

/* ---- wrong arguments ---- */

static void role_wrong_arguments(void *argument)
{
    CUDA_ARRAY3D_DESCRIPTOR flat = {.Width = 8, .Height = 8, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUmemAllocationProp shape = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr pointer;
    size_t pitch;

    role_open();
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxRetain(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxReset_v2(-1), CUDA_ERROR_INVALID_DEVICE);
    CHECK_EQUAL(cuda.cuCtxCreate_v2(NULL, 0, 77), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuCtxCreate_v2((CUcontext *)&handle, 0, 77), CUDA_ERROR_INVALID_DEVICE);
    CHECK_EQUAL(cuda.cuCtxDestroy_v2(NULL), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQUAL(cuda.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, MIB), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQUAL(cuda.cuDeviceTotalMem_v2(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuDeviceTotalMem_v2(&pitch, 77), CUDA_ERROR_INVALID_DEVICE);
    role_enter(0);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(NULL, MIB), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemAllocPitch_v2(&pointer, NULL, 8, 8, 4), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemAllocPitch_v2(NULL, &pitch, 8, 8, 4), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemAllocManaged(NULL, MIB, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemAllocAsync(NULL, MIB, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync(&pointer, MIB, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync(&pointer, MIB, (CUmemoryPool)&flat, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemFreeAsync(0, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemPoolCreate(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemPoolDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemPoolTrimTo(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemCreate(NULL, 2 * MIB, &shape, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemCreate(&handle, 2 * MIB, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda.cuMemMap(0, 0, 0, 0, 0) != CUDA_SUCCESS);
    CHECK(cuda.cuMemUnmap(SIZE_MAX - 1, SIZE_MAX) != CUDA_SUCCESS);
    CHECK(cuda.cuMemRetainAllocationHandle(NULL, NULL) != CUDA_SUCCESS);
    CHECK(cuda.cuMemImportFromShareableHandle(NULL, NULL, 0) != CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuArray3DCreate_v2(NULL, &flat), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuArray3DCreate_v2((CUarray *)&handle, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMipmappedArrayCreate(NULL, NULL, 3), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuArrayDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT);
    CHECK_EQUAL(fake_requested(0), 0);
}

/* cuGetProcAddress of Facet's library finds the same names as that of the fake driver, with the same status. */
static void role_lookups(void *argument)
{
    static const int versions[] = {-1, 0, 1999, 3019, 3020, 12050, 13000, 13001, 1 << 30};
    static const uint64_t flags[] = {0, 1, 2, 3, 77, UINT64_MAX};
    static const char *const names[] = {"cuMemAlloc", "cuGraphInstantiate", "cuGreenCtxCreate", "cuNever", ""};
    CUdriverProcAddressQueryResult status, bare_status;
    char path[4096];

    snprintf(path, sizeof path, "%s/libcuda.so.1", getenv("FACET_TEST_CUDA_FAKE"));
    __typeof__(&cuGetProcAddress_v2) bare =
        (__typeof__(bare))dlsym(dlopen(path, RTLD_NOW | RTLD_LOCAL), "cuGetProcAddress_v2");
    role_open();
    CHECK_EQUAL(cuda.cuGetProcAddress_v2(NULL, (void **)&bare_status, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuGetProcAddress_v2("cuInit", NULL, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuGetProcAddress("cuInit", NULL, 12000, 0), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < 5 * 9 * 6; i++) { /* each name with each version and each flag */
        void *found = NULL, *bare_found = NULL;
        const char *name = names[i % 5];
        int version = versions[i / 5 % 9];
        uint64_t flag = flags[i / 45];

        status = bare_status = 55; /* no valid status */
        CHECK_EQUAL(cuda.cuGetProcAddress_v2(name, &found, version, flag, &status),
                    bare(name, &bare_found, version, flag, &bare_status));
        CHECK_EQUAL(status, bare_status);
        CHECK_EQUAL(!found, !bare_found);
    }
}

static void test_wrong_arguments_get_the_drivers_own_error(void **state)
{
    machine_run(role_wrong_arguments, GIB);
    machine_run(role_lookups, GIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_primary_and_created_contexts_are_charged_side_by_side),
        cmocka_unit_test(test_the_library_may_be_closed_and_opened_again),
        cmocka_unit_test(test_memory_of_an_ended_program_is_released),
        cmocka_unit_test(test_children_leave_their_parents_accounts_alone),
        cmocka_unit_test(test_one_gpu_too_small_for_a_context_does_not_hurt_the_other),
        cmocka_unit_test(test_an_old_driver_without_later_functions_is_enough),
        cmocka_unit_test(test_wrong_arguments_get_the_drivers_own_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
