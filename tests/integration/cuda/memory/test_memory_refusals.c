/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that a call which the driver refuses anyway returns the driver's error, however much it asks for, and
 * that only refusals by the quota alone count as denied. Never: tests the charge of a call that succeeds.
 */
#include <sys/wait.h>

#include "machine.h"

#define QUOTA      GIB
#define OVER_QUOTA (2 * GIB) /* more than the quota, less than the device */

static uint64_t denied_count(void)
{
    struct facet_usage_totals totals;

    facet_usage_sum(machine.usage[0], &totals);
    return totals.denied;
}

/* The call returns `answer` and takes no memory. It counts as denied if `answer` is "out of memory". */
#define REFUSED(call, answer)                                                                                          \
    do {                                                                                                               \
        uint64_t counted = denied_count(), used = fake_used(0);                                                        \
        CHECK_EQUAL(call, answer);                                                                                     \
        CHECK_EQUAL(denied_count() - counted, (answer) == CUDA_ERROR_OUT_OF_MEMORY);                                   \
        CHECK_EQUAL(fake_used(0), used);                                                                               \
    } while (0)

/* Requests memory by each form of call; only the amount is wrong. */
static void request_by_each_form(CUmemoryPool pool, CUresult answer)
{
    const CUDA_ARRAY3D_DESCRIPTOR cube = {
        .Width = 1000, .Height = 1000, .Depth = 600, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    const CUDA_ARRAY_DESCRIPTOR flat = {
        .Width = 16384, .Height = 16384, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    const CUDA_ARRAY_DESCRIPTOR_v1 flat_of_old = {
        .Width = 16384, .Height = 16384, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUdeviceptr pointer = 7;
    CUdeviceptr_v1 pointer_of_old = 7;
    size_t pitch = 7;
    unsigned pitch_of_old = 7;
    CUmipmappedArray levels = NULL;
    CUarray array = NULL;

    REFUSED(cuda.cuMemAlloc_v2(&pointer, OVER_QUOTA), answer);
    REFUSED(cuda.cuMemAlloc_v2(&pointer, UINT64_MAX), answer);
    REFUSED(cuda.cuMemAlloc(&pointer_of_old, (unsigned)OVER_QUOTA), answer);
    REFUSED(cuda.cuMemAllocPitch_v2(&pointer, &pitch, MIB, 2048, 4), answer);
    REFUSED(cuda.cuMemAllocPitch(&pointer_of_old, &pitch_of_old, MIB, 2048, 4), answer);
    REFUSED(cuda.cuMemAllocManaged(&pointer, OVER_QUOTA, CU_MEM_ATTACH_GLOBAL), answer);
    REFUSED(cuda.cuArray3DCreate_v2(&array, &cube), answer);
    REFUSED(cuda.cuArrayCreate_v2(&array, &flat), answer);
    REFUSED(cuda.cuArrayCreate(&array, &flat_of_old), answer);
    REFUSED(cuda.cuMipmappedArrayCreate(&levels, &cube, 3), answer);
    if (pool) {
        REFUSED(cuda.cuMemAllocAsync(&pointer, OVER_QUOTA, NULL), answer);
        REFUSED(cuda.cuMemAllocFromPoolAsync(&pointer, OVER_QUOTA, pool, NULL), answer);
        REFUSED(cuda.cuMemAllocFromPoolAsync_ptsz(&pointer, OVER_QUOTA, pool, NULL), answer);
    }
    CHECK(pointer == 7 && pointer_of_old == 7 && pitch == 7 && pitch_of_old == 7 && !levels && !array);
}

static void role_asks_without_a_context(void *argument)
{
    int status = -1;

    role_open();
    request_by_each_form(NULL, CUDA_ERROR_INVALID_CONTEXT);
    pid_t pid = fork();
    if (pid == 0) {
        request_by_each_form(NULL, CUDA_ERROR_NOT_INITIALIZED);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void test_without_a_context_and_after_a_fork_the_drivers_error_is_returned(void **state)
{
    machine_run(role_asks_without_a_context, QUOTA);
}

static void role_requests_over_quota(void *argument)
{
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle = 7;
    CUmemoryPool pool;
    int status = -1;

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
    request_by_each_form(pool, CUDA_ERROR_OUT_OF_MEMORY);
    REFUSED(cuda.cuMemCreate(&handle, OVER_QUOTA, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(handle, 7);
    pid_t pid = fork();
    if (pid == 0) {
        request_by_each_form(pool, CUDA_ERROR_NOT_INITIALIZED);
        REFUSED(cuda.cuMemCreate(&handle, OVER_QUOTA, &properties, 0), CUDA_ERROR_NOT_INITIALIZED);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void test_a_refusal_by_the_quota_alone_is_counted_once(void **state)
{
    machine_run(role_requests_over_quota, QUOTA);
}

static void role_wrong_arguments(void *argument)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUDA_ARRAY3D_DESCRIPTOR cube = {
        .Width = 1000, .Height = 1000, .Depth = 600, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_ARRAY_DESCRIPTOR flat = {.Width = 16384, .Height = 16384, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUmemGenericAllocationHandle handle;
    CUmipmappedArray levels;
    CUdeviceptr pointer;
    CUarray array;
    size_t pitch;

    role_open();
    role_enter(0);
    REFUSED(cuda.cuMemAlloc_v2(NULL, OVER_QUOTA), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuda.cuMemAlloc(NULL, (unsigned)OVER_QUOTA), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuda.cuMemAllocPitch_v2(NULL, &pitch, MIB, 2048, 4), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuda.cuMemAllocPitch_v2(&pointer, NULL, MIB, 2048, 4), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuda.cuMemAllocPitch_v2(&pointer, &pitch, MIB, 2048, 3), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuda.cuMemAllocManaged(NULL, OVER_QUOTA, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuda.cuMemAllocManaged(&pointer, OVER_QUOTA, 77), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuda.cuMemCreate(NULL, OVER_QUOTA, &properties, 0), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuda.cuMemCreate(&handle, OVER_QUOTA, &properties, 1), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuda.cuMemCreate(&handle, OVER_QUOTA + 1, &properties, 0), CUDA_ERROR_INVALID_VALUE);
    properties.type = 0;
    REFUSED(cuda.cuMemCreate(&handle, OVER_QUOTA, &properties, 0), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuda.cuArray3DCreate_v2(NULL, &cube), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuda.cuArrayCreate_v2(NULL, &flat), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuda.cuMipmappedArrayCreate(NULL, &cube, 3), CUDA_ERROR_INVALID_VALUE);
    cube.Depth = 16385; /* one more than an array can have */
    REFUSED(cuda.cuArray3DCreate_v2(&array, &cube), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuda.cuMipmappedArrayCreate(&levels, &cube, 3), CUDA_ERROR_INVALID_VALUE);
    cube.Depth = 600;
    cube.NumChannels = flat.NumChannels = 5; /* only 1, 2 and 4 are allowed */
    REFUSED(cuda.cuArray3DCreate_v2(&array, &cube), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuda.cuArrayCreate_v2(&array, &flat), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT);
}

static void test_wrong_arguments_are_refused_as_such(void **state)
{
    machine_run(role_wrong_arguments, QUOTA);
}

static void fill_and_request(CUmemoryPool pool, uint64_t bytes)
{
    CUdeviceptr first, second;

    CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync(&first, bytes, pool, NULL), CUDA_SUCCESS);
    REFUSED(cuda.cuMemAllocFromPoolAsync(&second, bytes, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(cuda.cuMemFreeAsync(first, NULL), CUDA_SUCCESS);
}

/* Unused memory of a pool makes room for plain memory. Trimming the pool for it does not count as a denial. */
static void role_trims_a_pool(void *argument)
{
    uint64_t threshold = UINT64_MAX, before;
    CUdeviceptr pointer;
    CUmemoryPool pool;

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold), CUDA_SUCCESS);
    fill_and_request(pool, 512 * MIB);
    CHECK_EQUAL(cuda.cuCtxSynchronize(), CUDA_SUCCESS);
    before = denied_count();
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, 512 * MIB), CUDA_SUCCESS);
    CHECK_EQUAL(denied_count(), before);
}

static void test_room_that_a_pool_makes_is_no_denial(void **state)
{
    machine_run(role_trims_a_pool, QUOTA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_context_and_after_a_fork_the_drivers_error_is_returned),
        cmocka_unit_test(test_a_refusal_by_the_quota_alone_is_counted_once),
        cmocka_unit_test(test_wrong_arguments_are_refused_as_such),
        cmocka_unit_test(test_room_that_a_pool_makes_is_no_denial),
    };
    return cmocka_run_group_tests_name("cuda refusals", tests, NULL, NULL);
}
