/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that each kind of memory is charged with its size, and given back. Never: tests pools
 * or virtual memory (test_memory_pools.c). */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>

#include "machine.h"

/* The charge is one context plus `bytes`, which is what was requested from the driver. */
#define CHECK_CHARGED(bytes)                                                                                           \
    do {                                                                                                               \
        CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + (bytes));                                                    \
        CHECK_EQUAL(fake_requested(0), bytes);                                                                         \
    } while (0)

static CUdeviceptr allocate_memory(uint64_t bytes)
{
    CUdeviceptr pointer = 0;

    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, bytes), CUDA_SUCCESS);
    return pointer;
}

static void enter_role(void)
{
    role_open();
    role_enter(0);
    CHECK_CHARGED(0);
}

static void role_plain_allocations(void *argument)
{
    /* the size of an allocation, and its charge */
    static const uint64_t sizes[][2] = {{1, 2 * MIB},   {513, 2 * MIB},     {MIB - 1, 2 * MIB},
                                        {MIB, 2 * MIB}, {2 * MIB, 2 * MIB}, {2 * MIB + 1, 4 * MIB}};

    enter_role();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CUdeviceptr pointer = allocate_memory(sizes[i][0]);

        CHECK_CHARGED(sizes[i][1]);
        CHECK_EQUAL(cuda.cuMemFree_v2(pointer), CUDA_SUCCESS);
        CHECK_CHARGED(0);
        CHECK_EQUAL(cuda.cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
        CHECK_CHARGED(0);
    }
}

static void test_plain_memory_is_charged_as_the_driver_takes_it(void **state)
{
    machine_run(role_plain_allocations, GIB);
}

/* ---- small blocks ---- */

#define SMALL_BYTES    (256 * KIB)
#define SMALL_QUOTA    (64 * MIB)
#define SMALL_SLABS    (SMALL_QUOTA / (2 * MIB)) /* as many slabs as the quota has room for */
#define SMALL_PER_SLAB (2 * MIB / SMALL_BYTES)   /* blocks in each slab */

/* Keeps the first block of each slab: the freed blocks can be allocated again, but no new slab fits into the quota. */
static void role_fragments_slabs(void *argument)
{
    static CUdeviceptr blocks[SMALL_SLABS * SMALL_PER_SLAB];
    uint64_t held = MACHINE_CONTEXT + SMALL_QUOTA;
    CUdeviceptr pointer;

    enter_role();
    for (uint32_t i = 0; i < SMALL_SLABS * SMALL_PER_SLAB; i++)
        blocks[i] = allocate_memory(SMALL_BYTES);
    CHECK_CHARGED(SMALL_QUOTA);
    for (uint32_t i = 0; i < SMALL_SLABS * SMALL_PER_SLAB; i++)
        if (i % SMALL_PER_SLAB)
            CHECK_EQUAL(cuda.cuMemFree_v2(blocks[i]), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), held);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, 2 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, 1),
                CUDA_ERROR_OUT_OF_MEMORY); /* a block of another size needs a new slab */
    CHECK(fake_used(0) <= held + 2 * MIB); /* the driver may keep that slab, which is empty */
    CHECK_EQUAL(machine_charged(0), held);
    for (uint32_t i = 0; i < SMALL_SLABS * SMALL_PER_SLAB; i++)
        if (i % SMALL_PER_SLAB)
            allocate_memory(SMALL_BYTES); /* slabs that hold other blocks have room, which is charged already */
    CHECK_CHARGED(SMALL_QUOTA);
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), 0);
}

static void test_a_slab_stays_charged_while_one_block_is_held(void **state)
{
    machine_run(role_fragments_slabs, MACHINE_CONTEXT + SMALL_QUOTA);
}

/* No small block is free: the driver, which would allocate a slab of that size, is not called. */
static void role_driver_is_not_called(void *argument)
{
    CUdeviceptr pointer = 7; /* any value: a refused call must not change it */

    enter_role();
    CHECK_EQUAL(cuda.cuMemFree_v2(allocate_memory(1)), CUDA_SUCCESS);
    allocate_memory(SMALL_QUOTA);
    uint64_t held = fake_used(0);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, MIB - 1), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(pointer, 7);
    CHECK_EQUAL(fake_used(0), held);
    CHECK_CHARGED(SMALL_QUOTA);
}

static void test_a_first_small_block_beyond_the_quota_does_not_reach_the_driver(void **state)
{
    machine_run(role_driver_is_not_called, MACHINE_CONTEXT + SMALL_QUOTA);
}

static void *allocate_and_free(void *argument)
{
    CUdeviceptr held[32] = {0};
    uint64_t seed = (uintptr_t)argument;

    role_enter(0);
    for (uint32_t i = 0; i < 20000; i++) {
        /* the upper five bits of a random number choose one of the 32 places */
        CUdeviceptr *pointer = &held[(seed = seed * 6364136223846793005u + 1442695040888963407u) >> 59];

        if (!*pointer && cuda.cuMemAlloc_v2(pointer, 1 + (seed >> 20) % (MIB - 1)) != CUDA_SUCCESS)
            *pointer = 0;
        else if (*pointer && (seed >> 45) & 1) {
            CHECK_EQUAL(cuda.cuMemFree_v2(*pointer), CUDA_SUCCESS);
            *pointer = 0;
        }
    }
    for (uint32_t i = 0; i < 32; i++)
        CHECK_EQUAL(cuda.cuMemFree_v2(held[i]), CUDA_SUCCESS);
    return NULL;
}

/* Threads allocate and free small blocks, so that slabs come and go, near the quota. */
static void role_threads_of_small_blocks(void *argument)
{
    pthread_t threads[4];

    enter_role();
    for (uintptr_t i = 0; i < 4; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, allocate_and_free, (void *)(i + 1)), 0);
    for (uint32_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK_CHARGED(0);
    CHECK(test_segment_totals(&machine.segments[0]).denied > 0);
    CHECK(test_segment_totals(&machine.segments[0]).memory_peak_bytes <= MACHINE_CONTEXT + 32 * MIB);
}

static void test_slabs_are_charged_once_across_threads(void **state)
{
    machine_run(role_threads_of_small_blocks, MACHINE_CONTEXT + 32 * MIB);
}

/* ---- other kinds ---- */

static void role_pitched_and_managed(void *argument)
{
    CUdeviceptr pointer;
    CUdeviceptr_v1 low;
    size_t pitch;
    void *host;

    enter_role();
    CHECK_EQUAL(cuda.cuMemAllocPitch_v2(&pointer, &pitch, 1, MIB, 4), CUDA_SUCCESS);
    CHECK_EQUAL(pitch, 512);
    CHECK_CHARGED(512 * MIB); /* 1 Mi rows of 512 bytes */
    CHECK_EQUAL(cuda.cuMemFree_v2(pointer), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAllocManaged(&pointer, 3 * MIB, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    CHECK_CHARGED(4 * MIB); /* in steps of 2 MiB */
    CHECK_EQUAL(cuda.cuMemFreeAsync(pointer, NULL), CUDA_SUCCESS);
    CHECK_CHARGED(0);
    CHECK_EQUAL(cuda.cuMemHostAlloc(&host, 4 * GIB, 0), CUDA_SUCCESS);
    CHECK_CHARGED(0);
    CHECK_EQUAL(cuda.cuMemFreeHost(host), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemFree_v2(0), CUDA_SUCCESS);
    CHECK(cuda.cuMemAlloc(&low, MIB) != CUDA_SUCCESS); /* the driver has no memory below 4 GiB */
    CHECK(cuda.cuMemAllocPitch(&low, &low, 8, 8, 4) != CUDA_SUCCESS);
    CHECK(cuda.cuMemFree(77) != CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemFree_v2((uintptr_t)&pointer), CUDA_ERROR_INVALID_VALUE);
    CHECK_CHARGED(0);
}

static void test_pitched_and_managed_memory_is_charged_in_full_and_host_memory_is_not(void **state)
{
    machine_run(role_pitched_and_managed, GIB);
}

static void role_arrays(void *argument)
{
    CUDA_ARRAY_DESCRIPTOR flat = {.Width = 1000, .Height = 1000, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_ARRAY3D_DESCRIPTOR deep = {
        .Width = 100, .Height = 50, .Depth = 10, .Format = CU_AD_FORMAT_HALF, .NumChannels = 2};
    CUDA_ARRAY3D_DESCRIPTOR deferred = deep, layers = deep;
    CUarray array;
    CUmipmappedArray mipmapped;

    deferred.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
    layers.Flags = CUDA_ARRAY3D_LAYERED;
    enter_role();
    CHECK_EQUAL(cuda.cuArrayCreate_v2(&array, &flat), CUDA_SUCCESS);
    CHECK_CHARGED(16384000); /* 1000 rows of 16000 bytes, each in steps of 512 */
    CHECK_EQUAL(cuda.cuArrayDestroy(array), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQUAL(cuda.cuArray3DCreate_v2(&array, &deep), CUDA_SUCCESS);
    CHECK_CHARGED(4 * 64 * KIB); /* 512 * 50 * 10, in steps of 64 KiB */
    CHECK_EQUAL(cuda.cuArrayDestroy(array), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuArray3DCreate_v2(&array, &deferred), CUDA_SUCCESS);
    CHECK_CHARGED(0);
    CHECK_EQUAL(cuda.cuArrayDestroy(array), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMipmappedArrayCreate(&mipmapped, &layers, 100), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + fake_requested(0));
    CHECK(fake_requested(0) > 0);
    CHECK_EQUAL(cuda.cuMipmappedArrayDestroy(mipmapped), CUDA_SUCCESS);
    CHECK_CHARGED(0);
    flat.Format = 0x77; /* an unknown format: charged, refused by the driver, and given back */
    CHECK_EQUAL(cuda.cuArrayCreate_v2(&array, &flat), CUDA_ERROR_INVALID_VALUE);
    CHECK_CHARGED(0);
}

static void test_arrays_are_charged_by_their_rows(void **state)
{
    machine_run(role_arrays, GIB);
}

static void role_requests_over_quota(void *argument)
{
    uint64_t left = GIB - MACHINE_CONTEXT - 2 * MIB;
    CUDA_ARRAY_DESCRIPTOR flat = {.Width = 65536, .Height = 65536, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUdeviceptr pointer = 7, last; /* 7: any value, which a refused call must not change */
    CUarray array;
    size_t pitch, free_bytes, total;

    enter_role();
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, GIB), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(cuda.cuMemAllocPitch_v2(&pointer, &pitch, SIZE_MAX / 2, 3, 4), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(cuda.cuMemAllocManaged(&pointer, GIB, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(cuda.cuArrayCreate_v2(&array, &flat), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(pointer, 7);
    CHECK_CHARGED(0);
    CHECK_EQUAL(test_segment_totals(&machine.segments[0]).denied, 5); /* each call above */

    allocate_memory(left);
    last = allocate_memory(2 * MIB);
    CHECK_EQUAL(cuda.cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
    CHECK_EQUAL(free_bytes, 0);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, 1), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(cuda.cuMemFree_v2(last), CUDA_SUCCESS);
    allocate_memory(1);
    CHECK_CHARGED(left + 2 * MIB); /* one byte takes a slab of 2 MiB */
}

static void test_one_byte_beyond_the_quota_is_refused(void **state)
{
    machine_run(role_requests_over_quota, GIB);
}

static void role_memory_info(void *argument)
{
    size_t free_bytes, total, bytes;
    uint64_t limit = *(uint64_t *)argument;

    role_open();
    CHECK_EQUAL(cuda.cuMemGetInfo_v2(&free_bytes, &total), CUDA_ERROR_INVALID_CONTEXT);
    role_enter(0);
    allocate_memory(10 * MIB);
    CHECK_EQUAL(cuda.cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
    CHECK_EQUAL(total, limit < 8 * GIB ? limit : 8 * GIB);
    CHECK_EQUAL(free_bytes, total - MACHINE_CONTEXT - 10 * MIB);
    CHECK_EQUAL(cuda.cuMemGetInfo_v2(NULL, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDeviceTotalMem_v2(&bytes, 0), CUDA_SUCCESS);
    CHECK_EQUAL(bytes, total);
}

static void test_programs_see_the_smaller_of_quota_and_device(void **state)
{
    uint64_t limits[] = {GIB, 16 * GIB};

    for (size_t i = 0; i < 2; i++) {
        machine_make(1, &limits[i], "300M");
        machine_wait(machine_start(role_memory_info, &limits[i], true));
        machine_remove();
    }
}

static void role_outside_the_vgpu(void *argument)
{
    size_t bytes;

    role_open();
    role_enter(0);
    allocate_memory(2 * GIB);
    CHECK_EQUAL(machine_charged(0), 0);
    CHECK_EQUAL(cuda.cuDeviceTotalMem_v2(&bytes, 0), CUDA_SUCCESS);
    CHECK_EQUAL(bytes, 8 * GIB);
}

static void test_outside_of_a_vgpu_nothing_is_changed(void **state)
{
    machine_make(1, &(uint64_t){GIB}, "300M");
    machine_wait(machine_start(role_outside_the_vgpu, NULL, false));
    machine_remove();
}

static void *free_all(void *argument)
{
    CUdeviceptr *pointers = argument;

    role_enter(0);
    for (uint32_t i = 0; i < 1000; i++)
        CHECK_EQUAL(cuda.cuMemFree_v2(pointers[i]), CUDA_SUCCESS);
    return NULL;
}

static void role_frees_in_threads(void *argument)
{
    static CUdeviceptr pointers[4][1000];
    pthread_t threads[4];

    enter_role();
    for (uint32_t i = 0; i < 4000; i++)
        pointers[i / 1000][i % 1000] = allocate_memory(1 + i * 100);
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + fake_requested(0));
    for (uint32_t i = 0; i < 4; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, free_all, pointers[i]), 0);
    for (uint32_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK_CHARGED(0);
}

static void test_memory_is_freed_from_any_thread(void **state)
{
    machine_run(role_frees_in_threads, 2 * GIB);
}

static void role_forked_child(void *argument)
{
    CUdeviceptr pointer, before;
    int status = -1;

    enter_role();
    before = allocate_memory(4 * MIB);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, MIB), CUDA_ERROR_NOT_INITIALIZED);
        CHECK_EQUAL(cuda.cuMemFree_v2(before), CUDA_ERROR_NOT_INITIALIZED);
        CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + 4 * MIB);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQUAL(status, 0);
    CHECK_CHARGED(4 * MIB);
    CHECK_EQUAL(cuda.cuMemFree_v2(before), CUDA_SUCCESS);
    CHECK_CHARGED(0);
}

static void test_a_child_of_fork_leaves_its_parents_charges_unchanged(void **state)
{
    machine_run(role_forked_child, GIB);
}

/* ---- contexts ---- */

static void role_several_contexts(void *argument)
{
    CUcontext second;

    enter_role();
    CHECK_EQUAL(cuda.cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), 2 * MACHINE_CONTEXT);
    allocate_memory(6 * MIB);
    allocate_memory(100);
    CHECK_EQUAL(machine_charged(0), 2 * MACHINE_CONTEXT + 6 * MIB + 2 * MIB);
    CHECK_EQUAL(cuda.cuCtxDestroy_v2(second), CUDA_SUCCESS);
    CHECK_CHARGED(0);
    CHECK_EQUAL(cuda.cuCtxDestroy_v2(second), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_CHARGED(0);
}

static void test_a_context_is_charged_and_its_end_releases_its_memory(void **state)
{
    machine_run(role_several_contexts, GIB);
}

/* `argument`: releases the context for the last time instead of resetting it. */
static void role_resets_the_context(void *argument)
{
    CUDA_ARRAY_DESCRIPTOR flat = {.Width = 100, .Height = 100, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUdeviceptr pointer, managed;
    CUcontext again;
    CUarray array;

    enter_role();
    pointer = allocate_memory(8 * MIB);
    allocate_memory(1);
    CHECK_EQUAL(cuda.cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuArrayCreate_v2(&array, &flat), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxRetain(&again, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    CHECK(machine_charged(0) > MACHINE_CONTEXT + 8 * MIB); /* the context is still retained once */
    if (argument)
        CHECK_EQUAL(cuda.cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    else
        CHECK_EQUAL(cuda.cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), 0);
    CHECK_EQUAL(fake_used(0), 0);
    role_enter(0);
    CHECK_EQUAL(cuda.cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
    CHECK_CHARGED(0);
}

static void test_a_reset_releases_all_charges(void **state)
{
    machine_make(1, &(uint64_t){GIB}, "300M");
    machine_wait(machine_start(role_resets_the_context, NULL, true));
    machine_wait(machine_start(role_resets_the_context, &machine, true)); /* any argument except NULL */
    machine_remove();
}

static void role_quota_below_a_context(void *argument)
{
    CUcontext context;

    role_open();
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(cuda.cuCtxCreate_v2(&context, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(machine_charged(0), 0);
    CHECK_EQUAL(fake_used(0), 0);
}

static void role_quota_of_one_context(void *argument)
{
    enter_role();
}

static void test_a_quota_without_room_for_a_context_refuses_it(void **state)
{
    machine_run(role_quota_below_a_context, MACHINE_CONTEXT - 1);
    machine_run(role_quota_of_one_context, MACHINE_CONTEXT);
}

static void role_two_devices(void *argument)
{
    size_t bytes;
    CUdeviceptr pointer;

    role_open();
    for (uint32_t i = 0; i < 2; i++) {
        role_enter((CUdevice)i);
        CHECK_EQUAL(cuda.cuDeviceTotalMem_v2(&bytes, (CUdevice)i), CUDA_SUCCESS);
        CHECK_EQUAL(bytes, (i + 1) * GIB);
        CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, (i + 1) * GIB - MACHINE_CONTEXT + 1), CUDA_ERROR_OUT_OF_MEMORY);
        pointer = allocate_memory((i + 1) * GIB - MACHINE_CONTEXT);
        CHECK_EQUAL(machine_charged(i), (i + 1) * GIB);
        CHECK_EQUAL(cuda.cuMemFree_v2(pointer), CUDA_SUCCESS);
        pointer = allocate_memory(2 * MIB);
    }
    role_enter(0); /* the last block is the other device's, and is freed with this device current */
    CHECK_EQUAL(cuda.cuMemFree_v2(pointer), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + 2 * MIB);
    CHECK_EQUAL(machine_charged(1), MACHINE_CONTEXT);
}

static void test_each_gpu_has_its_own_quota(void **state)
{
    machine_make(2, (uint64_t[]){GIB, 2 * GIB}, "300M");
    machine_wait(machine_start(role_two_devices, NULL, true));
    machine_remove();
}

/* ---- sharing ---- */

static void role_opens_handle(void *argument)
{
    CUdeviceptr pointer;
    char text[8] = "";

    role_open();
    role_enter(0);
    uint64_t before = machine_charged_to_self(0);
    CHECK_EQUAL(cuda.cuIpcOpenMemHandle_v2(&pointer, *(CUipcMemHandle *)argument, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemcpyDtoH_v2(text, pointer, 6), CUDA_SUCCESS);
    CHECK_EQUAL(strcmp(text, "hello"), 0);
    CHECK_EQUAL(machine_charged_to_self(0), before);
    CHECK_EQUAL(cuda.cuIpcCloseMemHandle(pointer), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged_to_self(0), before);
}

static void role_shares_handle(void *argument)
{
    CUipcMemHandle handle;
    int status = -1;
    pid_t pid;

    int handle_pipe[2];
    CHECK(pipe(handle_pipe) == 0);
    pid = fork(); /* before the driver is initialised: a later child could not use it */
    if (pid == 0) {
        CHECK(read(handle_pipe[0], &handle, sizeof handle) == (ssize_t)sizeof handle);
        role_opens_handle(&handle);
        _exit(0);
    }
    enter_role();
    CUdeviceptr pointer = allocate_memory(4 * MIB);
    CHECK_EQUAL(cuda.cuMemcpyHtoD_v2(pointer, "hello", 6), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuIpcGetMemHandle(&handle, pointer), CUDA_SUCCESS);
    CHECK(write(handle_pipe[1], &handle, sizeof handle) == (ssize_t)sizeof handle);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQUAL(status, 0);
    CHECK_EQUAL(machine_charged_to_self(0), MACHINE_CONTEXT + 4 * MIB);
}

static void test_shared_memory_is_charged_to_its_creator(void **state)
{
    machine_run(role_shares_handle, 2 * GIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_memory_is_charged_as_the_driver_takes_it),
        cmocka_unit_test(test_a_slab_stays_charged_while_one_block_is_held),
        cmocka_unit_test(test_a_first_small_block_beyond_the_quota_does_not_reach_the_driver),
        cmocka_unit_test(test_slabs_are_charged_once_across_threads),
        cmocka_unit_test(test_pitched_and_managed_memory_is_charged_in_full_and_host_memory_is_not),
        cmocka_unit_test(test_arrays_are_charged_by_their_rows),
        cmocka_unit_test(test_one_byte_beyond_the_quota_is_refused),
        cmocka_unit_test(test_programs_see_the_smaller_of_quota_and_device),
        cmocka_unit_test(test_outside_of_a_vgpu_nothing_is_changed),
        cmocka_unit_test(test_memory_is_freed_from_any_thread),
        cmocka_unit_test(test_a_child_of_fork_leaves_its_parents_charges_unchanged),
        cmocka_unit_test(test_a_context_is_charged_and_its_end_releases_its_memory),
        cmocka_unit_test(test_a_reset_releases_all_charges),
        cmocka_unit_test(test_a_quota_without_room_for_a_context_refuses_it),
        cmocka_unit_test(test_each_gpu_has_its_own_quota),
        cmocka_unit_test(test_shared_memory_is_charged_to_its_creator),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
