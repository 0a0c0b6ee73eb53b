/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the charges of pools and of memory without addresses. Never: tests other kinds (test_memory.c). */
#include <pthread.h>
#include <sys/wait.h>

#include "machine.h"

#define POOL_STEP (32 * MIB) /* by which the fake driver's pools grow, like the real driver's */

/* Pools give memory back at synchronisations, which Facet's library does not intercept. A query of free memory updates
 * the charge. */
static void check_charged(int line, uint64_t bytes)
{
    size_t free_bytes, total;

    CHECK_EQUAL(cuda.cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
    if (machine_charged(0) != MACHINE_CONTEXT + bytes || fake_requested(0) != bytes)
        fprintf(stderr, "the check in line %d fails:\n", line);
    CHECK_EQUAL(fake_requested(0), bytes);
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + bytes);
}
#define CHECK_CHARGED(bytes) check_charged(__LINE__, bytes)

static CUmemoryPool enter_role(void)
{
    CUmemoryPool pool;

    role_open();
    role_enter(0);
    CHECK_CHARGED(0);
    CHECK_EQUAL(cuda.cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
    return pool;
}

static uint64_t pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    uint64_t value;

    CHECK_EQUAL(cuda.cuMemPoolGetAttribute(pool, attribute, &value), CUDA_SUCCESS);
    return value;
}

static void role_default_pool(void *argument)
{
    CUmemoryPool pool = enter_role();
    CUdeviceptr first, second, third;

    CHECK_EQUAL(cuda.cuMemAllocAsync(&first, 1, NULL), CUDA_SUCCESS);
    CHECK_CHARGED(POOL_STEP);
    CHECK_EQUAL(cuda.cuMemAllocAsync_ptsz(&second, POOL_STEP - 512, NULL), CUDA_SUCCESS);
    CHECK_CHARGED(POOL_STEP);
    CHECK_EQUAL(cuda.cuMemAllocAsync(&third, 512, NULL), CUDA_SUCCESS);
    CHECK_CHARGED(2 * POOL_STEP);
    CHECK_EQUAL(pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 2 * POOL_STEP);
    CHECK_EQUAL(cuda.cuMemFreeAsync(first, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemFree_v2(second), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemFree_v2(second), CUDA_ERROR_INVALID_VALUE);
    CHECK_CHARGED(2 * POOL_STEP); /* the pool still holds the memory */
    CHECK_EQUAL(cuda.cuMemPoolTrimTo(pool, 10 * MIB), CUDA_SUCCESS);
    CHECK_CHARGED(10 * MIB);
    CHECK_EQUAL(cuda.cuMemFreeAsync_ptsz(third, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemPoolTrimTo(pool, 0), CUDA_SUCCESS);
    CHECK_CHARGED(0);
}

static void test_a_pool_is_charged_for_the_memory_it_holds(void **state)
{
    machine_run(role_default_pool, GIB);
}

static CUmemoryPool make_pool(void)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool;

    CHECK_EQUAL(cuda.cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
    return pool;
}

static void role_created_pool(void *argument)
{
    CUmemPoolProps on_host = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                              .location = {.type = CU_MEM_LOCATION_TYPE_HOST, .id = 77}};
    CUmemoryPool host;
    CUdeviceptr first, second, third;

    enter_role();
    CUmemoryPool pool = make_pool();
    CHECK_EQUAL(cuda.cuMemPoolCreate(&host, &on_host), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync(&first, 40 * MIB, pool, NULL), CUDA_SUCCESS);
    CHECK_CHARGED(2 * POOL_STEP);
    CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync(&second, GIB, host, NULL), CUDA_SUCCESS);
    CHECK_CHARGED(2 * POOL_STEP);
    CHECK_EQUAL(cuda.cuMemFreeAsync(second, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDeviceSetMemPool(0, pool), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAllocAsync(&second, 20 * MIB, NULL), CUDA_SUCCESS);
    CHECK_CHARGED(2 * POOL_STEP);
    CHECK_EQUAL(cuda.cuMemPoolDestroy(pool), CUDA_SUCCESS); /* allocations stay, and so does their charge */
    CHECK_EQUAL(cuda.cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
    CHECK_CHARGED(60 * MIB);
    CHECK_EQUAL(cuda.cuMemAllocAsync(&third, MIB, NULL), CUDA_SUCCESS);
    CHECK_CHARGED(60 * MIB + POOL_STEP);
    CHECK_EQUAL(cuda.cuMemFree_v2(first), CUDA_SUCCESS);
    CHECK_CHARGED(20 * MIB + POOL_STEP);
    CHECK_EQUAL(cuda.cuMemFreeAsync(second, NULL), CUDA_SUCCESS);
    CHECK_CHARGED(POOL_STEP);
}

static void test_pools_of_the_program_are_charged_until_their_last_pointer_goes(void **state)
{
    machine_run(role_created_pool, GIB);
}

static void role_release_threshold(void *argument)
{
    CUmemoryPool pool = enter_role();
    uint64_t keep = 64 * MIB;
    CUdeviceptr pointer;

    CHECK_EQUAL(cuda.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAllocAsync(&pointer, 300 * MIB, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemFreeAsync(pointer, NULL), CUDA_SUCCESS);
    CHECK_CHARGED(320 * MIB);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, 600 * MIB), CUDA_SUCCESS); /* fits once the pool has released its memory */
    CHECK_CHARGED(600 * MIB);
    CHECK_EQUAL(cuda.cuMemAllocAsync(&pointer, 200 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_CHARGED(600 * MIB);
    CHECK_EQUAL(cuda.cuMemAllocAsync(&pointer, 64 * MIB, NULL), CUDA_SUCCESS);
    CHECK_CHARGED(664 * MIB);
    CHECK_EQUAL(cuda.cuMemFreeAsync(pointer, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, 60 * MIB), CUDA_SUCCESS);
    CHECK_CHARGED(724 * MIB);                                             /* all of the quota */
    CHECK_EQUAL(cuda.cuMemAllocAsync(&pointer, MIB, NULL), CUDA_SUCCESS); /* out of the pool's memory */
    CHECK_EQUAL(cuda.cuMemAllocAsync(&pointer, 31 * MIB, NULL), CUDA_SUCCESS);
    CHECK_CHARGED(724 * MIB);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, 32 * MIB), CUDA_SUCCESS);
    CHECK_CHARGED(724 * MIB);
    CHECK_EQUAL(cuda.cuMemAllocAsync(&pointer, 512, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_CHARGED(724 * MIB);
}

static void test_unused_memory_of_pools_is_released_before_a_refusal(void **state)
{
    machine_run(role_release_threshold, GIB);
}

static void *use_pool(void *argument)
{
    CUdeviceptr pointers[8];

    role_enter(0);
    for (uint32_t round = 0; round < 300; round++) {
        for (uint32_t i = 0; i < 8; i++)
            CHECK_EQUAL(cuda.cuMemAllocAsync(&pointers[i], (1 + (round * 7 + i) % 9) * MIB, NULL), CUDA_SUCCESS);
        for (uint32_t i = 0; i < 8; i++)
            CHECK_EQUAL(i % 2 ? cuda.cuMemFree_v2(pointers[i]) : cuda.cuMemFreeAsync(pointers[i], NULL), CUDA_SUCCESS);
        if (round % 5 == 0)
            CHECK_EQUAL(cuda.cuMemPoolTrimTo(argument, 0), CUDA_SUCCESS);
    }
    return NULL;
}

static void role_pool_in_threads(void *argument)
{
    CUmemoryPool pool = enter_role();
    pthread_t threads[4];

    for (uint32_t i = 0; i < 4; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, use_pool, pool), 0);
    for (uint32_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK_CHARGED(pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    CHECK_EQUAL(cuda.cuMemPoolTrimTo(pool, 0), CUDA_SUCCESS);
    CHECK_CHARGED(0);
}

static void test_a_pool_that_threads_share_is_charged_exactly(void **state)
{
    machine_run(role_pool_in_threads, 2 * GIB);
}

static void role_synchronized_pool(void *argument)
{
    CUdeviceptr first, second;
    CUstream stream;

    enter_role();
    CHECK_EQUAL(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAllocAsync(&first, 40 * MIB, stream), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAllocAsync(&second, 2 * MIB, stream), CUDA_SUCCESS);
    CHECK_CHARGED(2 * POOL_STEP);
    CHECK_EQUAL(cuda.cuMemFreeAsync(first, stream), CUDA_SUCCESS);
    CHECK_CHARGED(2 * POOL_STEP);
    CHECK_EQUAL(cuda.cuStreamSynchronize(stream), CUDA_SUCCESS);
    CHECK_CHARGED(2 * MIB);
    CHECK_EQUAL(cuda.cuMemFreeAsync(second, stream), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_CHARGED(0);
}

static void test_memory_that_a_pool_frees_at_a_synchronisation_is_released(void **state)
{
    machine_run(role_synchronized_pool, GIB);
}

static void check_capture(CUstream stream, CUstreamCaptureStatus expected)
{
    CUstreamCaptureStatus status;

    CHECK_EQUAL(cuda.cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
    CHECK_EQUAL(status, expected);
}

/*
 * While a stream is captured, calls that the driver allows succeed, calls that it refuses fail, and the charge stays
 * exact.
 */
static void role_captured_allocations(void *argument)
{
    CUstream captured, other;
    CUdeviceptr pointer, before;
    CUgraph graph;

    enter_role();
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&before, 2 * MIB), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAllocAsync(&pointer, MIB, captured), CUDA_SUCCESS); /* a node: nothing is allocated now */
    CHECK_EQUAL(cuda.cuMemFreeAsync(before, captured), CUDA_ERROR_INVALID_VALUE);
    CHECK_CHARGED(2 * MIB);
    CHECK_EQUAL(cuda.cuMemAllocAsync(&pointer, MIB, other), CUDA_SUCCESS);
    CHECK_CHARGED(2 * MIB + POOL_STEP);
    CHECK_EQUAL(cuda.cuMemFreeAsync(pointer, other), CUDA_SUCCESS);
    check_capture(captured, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK_EQUAL(cuda.cuMemFree_v2(before), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, MIB), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    check_capture(captured, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CHECK_CHARGED(2 * MIB + POOL_STEP);
    CHECK_EQUAL(cuda.cuStreamEndCapture(captured, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK_EQUAL(cuda.cuMemFree_v2(before), CUDA_SUCCESS);
    CHECK_CHARGED(POOL_STEP);
}

static void test_allocations_do_not_disturb_a_capture(void **state)
{
    machine_run(role_captured_allocations, GIB);
}

/* ---- memory without an address ---- */

static const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static const CUmemAccessDesc all_access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static CUmemGenericAllocationHandle create_memory(uint64_t bytes)
{
    CUmemGenericAllocationHandle handle;

    CHECK_EQUAL(cuda.cuMemCreate(&handle, bytes, &on_device, 0), CUDA_SUCCESS);
    return handle;
}

static void role_virtual_memory(void *argument)
{
    CUmemGenericAllocationHandle handle, other, again;
    CUmemAllocationProp on_host = on_device;
    CUdeviceptr place;

    enter_role();
    CHECK_EQUAL(cuda.cuMemAddressReserve(&place, 64 * MIB, 0, 0, 0), CUDA_SUCCESS);
    CHECK_CHARGED(0);
    handle = create_memory(8 * MIB);
    other = create_memory(2 * MIB);
    CHECK_CHARGED(10 * MIB);
    CHECK_EQUAL(cuda.cuMemMap(place, 4 * MIB, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemMap(place + 4 * MIB, 4 * MIB, 4 * MIB, handle, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemMap(place + 8 * MIB, 2 * MIB, 0, other, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemSetAccess(place, 10 * MIB, &all_access, 1), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemsetD8_v2(place, 1, 4 * MIB), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemRelease(handle), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    CHECK_CHARGED(10 * MIB); /* the mapping holds the memory */
    CHECK_EQUAL(cuda.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(place + 5 * MIB)), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemUnmap(place, 10 * MIB), CUDA_SUCCESS); /* three mappings at once */
    CHECK_CHARGED(10 * MIB);                                     /* handles still hold all of it */
    CHECK_EQUAL(cuda.cuMemRelease(again), CUDA_SUCCESS);
    CHECK_CHARGED(2 * MIB);
    CHECK_EQUAL(cuda.cuMemRelease(other), CUDA_SUCCESS);
    CHECK_CHARGED(0);
    CHECK_EQUAL(cuda.cuMemCreate(&handle, GIB, &on_device, 0), CUDA_ERROR_OUT_OF_MEMORY);
    on_host.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 5};
    CHECK_EQUAL(cuda.cuMemCreate(&handle, GIB, &on_host, 0), CUDA_SUCCESS);
    CHECK_CHARGED(0);
    CHECK_EQUAL(cuda.cuMemRelease(handle), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemCreate(&handle, 3, &on_device, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_CHARGED(0);
}

static void test_memory_without_addresses_is_charged_until_handles_and_mappings_are_gone(void **state)
{
    machine_run(role_virtual_memory, GIB);
}

static void role_imports_pool(void *argument)
{
    CUmemGenericAllocationHandle handle, again;
    int fd;

    enter_role();
    handle = create_memory(4 * MIB);
    CHECK_EQUAL(cuda.cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                CUDA_SUCCESS);
    CHECK_EQUAL(
        cuda.cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        CUDA_SUCCESS);
    CHECK_CHARGED(4 * MIB); /* the same memory is charged once */
    CHECK_EQUAL(cuda.cuMemRelease(handle), CUDA_SUCCESS);
    CHECK_CHARGED(4 * MIB);
    CHECK_EQUAL(cuda.cuMemRelease(again), CUDA_SUCCESS);
    CHECK_CHARGED(4 * MIB); /* the descriptor holds the memory */
    CHECK_EQUAL(
        cuda.cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        CUDA_SUCCESS);
    CHECK_CHARGED(4 * MIB);
    CHECK_EQUAL(cuda.cuMemRelease(again), CUDA_SUCCESS);
    /* A process that holds its export, and asks for more than its quota, is refused: 720 MiB are left. */
    CHECK_EQUAL(cuda.cuMemCreate(&handle, 722 * MIB, &on_device, 0), CUDA_ERROR_OUT_OF_MEMORY);
    close(fd);
    handle = create_memory(720 * MIB);
    CHECK_EQUAL(machine_charged_to_self(0), GIB); /* another process may hold a reference to the exported memory */
    CHECK_EQUAL(fake_requested(0), 720 * MIB);
}

static void role_exports_pool(void *argument)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool;
    CUdeviceptr pointer;
    int fd;

    enter_role();
    CHECK_EQUAL(cuda.cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync(&pointer, MIB, pool, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemPoolDestroy(pool), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemFreeAsync(pointer, NULL), CUDA_SUCCESS);
    CHECK_CHARGED(POOL_STEP);
}

static void role_managed_pool(void *argument)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_INVALID}};
    CUmemoryPool pool;
    CUdeviceptr pointer;

    enter_role();
    CHECK_EQUAL(cuda.cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync(&pointer, MIB, pool, NULL), CUDA_SUCCESS);
    CHECK_CHARGED(POOL_STEP);
    CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync(&pointer, GIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
}

static void test_a_managed_pool_without_a_location_is_charged_on_the_only_gpu(void **state)
{
    machine_run(role_managed_pool, GIB);
}

static void test_memory_of_an_exported_pool_stays_charged(void **state)
{
    machine_run(role_exports_pool, GIB);
}

static void test_memory_imported_by_its_own_process_is_charged_once(void **state)
{
    machine_run(role_imports_pool, GIB);
}

static void role_fork(void *argument)
{
    CUmemoryPool pool = enter_role();
    CUmemGenericAllocationHandle handle = create_memory(2 * MIB);
    CUdeviceptr pointer, place;
    int status = -1;

    CHECK_EQUAL(cuda.cuMemAddressReserve(&place, 2 * MIB, 0, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemMap(place, 2 * MIB, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAllocAsync(&pointer, MIB, NULL), CUDA_SUCCESS);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(cuda.cuMemFreeAsync(pointer, NULL) != CUDA_SUCCESS);
        CHECK(cuda.cuMemAllocAsync(&pointer, MIB, NULL) != CUDA_SUCCESS);
        CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + 2 * MIB + POOL_STEP);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQUAL(status, 0);
    CHECK_EQUAL(cuda.cuMemFreeAsync(pointer, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemPoolTrimTo(pool, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemRelease(handle), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemUnmap(place, 2 * MIB), CUDA_SUCCESS);
    CHECK_CHARGED(0);
}

static void test_a_child_has_none_of_its_parents_pools_and_handles(void **state)
{
    machine_run(role_fork, GIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pool_is_charged_for_the_memory_it_holds),
        cmocka_unit_test(test_pools_of_the_program_are_charged_until_their_last_pointer_goes),
        cmocka_unit_test(test_unused_memory_of_pools_is_released_before_a_refusal),
        cmocka_unit_test(test_a_pool_that_threads_share_is_charged_exactly),
        cmocka_unit_test(test_memory_that_a_pool_frees_at_a_synchronisation_is_released),
        cmocka_unit_test(test_allocations_do_not_disturb_a_capture),
        cmocka_unit_test(test_memory_without_addresses_is_charged_until_handles_and_mappings_are_gone),
        cmocka_unit_test(test_memory_imported_by_its_own_process_is_charged_once),
        cmocka_unit_test(test_memory_of_an_exported_pool_stays_charged),
        cmocka_unit_test(test_a_managed_pool_without_a_location_is_charged_on_the_only_gpu),
        cmocka_unit_test(test_a_child_has_none_of_its_parents_pools_and_handles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
