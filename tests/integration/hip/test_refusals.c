/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that a call which the runtime refuses anyway returns the runtime's error, however much it asks for, and
 * that only refusals by the quota alone count as denied. Never: tests the charge of a call that succeeds.
 */
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
        CHECK_EQUAL(denied_count() - counted, (answer) == hipErrorOutOfMemory);                                        \
        CHECK_EQUAL(fake_used(0), used);                                                                               \
    } while (0)

static const hipChannelFormatDesc pixel_of_four = {.x = 32, .y = 32, .z = 32, .w = 32, .f = hipChannelFormatKindFloat};
static const hipExtent extent = {1000, 1000, 600}; /* in pixels: more than the quota */

static void role_requests_over_quota(void *argument)
{
    HIP_ARRAY3D_DESCRIPTOR cube = {
        .Width = 1000, .Height = 1000, .Depth = 600, .Format = HIP_AD_FORMAT_FLOAT, .NumChannels = 4};
    HIP_ARRAY_DESCRIPTOR flat = {.Width = 16384, .Height = 16384, .Format = HIP_AD_FORMAT_FLOAT, .NumChannels = 4};
    const hipMemAllocationProp properties = {.type = hipMemAllocationTypePinned,
                                             .location = {.type = hipMemLocationTypeDevice}};
    hipMemGenericAllocationHandle_t handle = NULL;
    hipMipmappedArray_t levels = NULL;
    hipDeviceptr_t place = NULL;
    hipPitchedPtr block = {0};
    hipArray_t array = NULL;
    void *pointer = NULL;
    hipMemPool_t pool;
    size_t pitch = 7;

    role_open();
    CHECK_EQUAL(hip.hipFree(NULL), hipSuccess);
    CHECK_EQUAL(hip.hipDeviceGetDefaultMemPool(&pool, 0), hipSuccess);
    REFUSED(hip.hipMalloc(&pointer, OVER_QUOTA), hipErrorOutOfMemory);
    REFUSED(hip.hipMalloc(&pointer, UINT64_MAX), hipErrorOutOfMemory);
    REFUSED(hip.hipExtMallocWithFlags(&pointer, OVER_QUOTA, 0), hipErrorOutOfMemory);
    REFUSED(hip.hipMallocManaged(&pointer, OVER_QUOTA, hipMemAttachGlobal), hipErrorOutOfMemory);
    REFUSED(hip.hipMallocPitch(&pointer, &pitch, MIB, 2048), hipErrorOutOfMemory);
    REFUSED(hip.hipMemAllocPitch(&place, &pitch, MIB, 2048, 4), hipErrorOutOfMemory);
    REFUSED(hip.hipMalloc3D(&block, (hipExtent){MIB, 32, 64}), hipErrorOutOfMemory);
    REFUSED(hip.hipMallocArray(&array, &pixel_of_four, 16384, 16384, 0), hipErrorOutOfMemory);
    REFUSED(hip.hipMalloc3DArray(&array, &pixel_of_four, extent, 0), hipErrorOutOfMemory);
    REFUSED(hip.hipArrayCreate(&array, &flat), hipErrorOutOfMemory);
    REFUSED(hip.hipArray3DCreate(&array, &cube), hipErrorOutOfMemory);
    REFUSED(hip.hipMallocMipmappedArray(&levels, &pixel_of_four, extent, 3, 0), hipErrorOutOfMemory);
    REFUSED(hip.hipMipmappedArrayCreate(&levels, &cube, 3), hipErrorOutOfMemory);
    REFUSED(hip.hipMemCreate(&handle, OVER_QUOTA, &properties, 0), hipErrorOutOfMemory);
    REFUSED(hip.hipMallocAsync(&pointer, OVER_QUOTA, NULL), hipErrorOutOfMemory);
    REFUSED(hip.hipMallocFromPoolAsync(&pointer, OVER_QUOTA, pool, NULL), hipErrorOutOfMemory);
    CHECK(!pointer && pitch == 7 && !place && !block.ptr && !array && !levels && !handle);
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN);
}

static void test_a_refusal_by_the_quota_alone_is_counted_once(void **state)
{
    machine_run(role_requests_over_quota, QUOTA);
}

static void role_wrong_arguments(void *argument)
{
    HIP_ARRAY3D_DESCRIPTOR cube = {
        .Width = 1000, .Height = 1000, .Depth = 600, .Format = HIP_AD_FORMAT_FLOAT, .NumChannels = 4};
    HIP_ARRAY_DESCRIPTOR flat = {.Width = 16384, .Height = 16384, .Format = HIP_AD_FORMAT_FLOAT, .NumChannels = 4};
    const hipMemAllocationProp properties = {.type = hipMemAllocationTypePinned,
                                             .location = {.type = hipMemLocationTypeDevice}};
    hipMemGenericAllocationHandle_t handle;
    hipMipmappedArray_t levels;
    hipDeviceptr_t place;
    hipArray_t array;
    void *pointer;
    size_t pitch;

    role_open();
    CHECK_EQUAL(hip.hipFree(NULL), hipSuccess);
    REFUSED(hip.hipMalloc(NULL, OVER_QUOTA), hipErrorInvalidValue);
    REFUSED(hip.hipExtMallocWithFlags(&pointer, OVER_QUOTA, 77), hipErrorInvalidValue);
    REFUSED(hip.hipMallocManaged(NULL, OVER_QUOTA, hipMemAttachGlobal), hipErrorInvalidValue);
    REFUSED(hip.hipMallocManaged(&pointer, OVER_QUOTA, 77), hipErrorInvalidValue);
    REFUSED(hip.hipMallocPitch(NULL, &pitch, MIB, 2048), hipErrorInvalidValue);
    REFUSED(hip.hipMallocPitch(&pointer, NULL, MIB, 2048), hipErrorInvalidValue);
    REFUSED(hip.hipMemAllocPitch(&place, &pitch, MIB, 2048, 3), hipErrorInvalidValue);
    REFUSED(hip.hipMalloc3D(NULL, (hipExtent){MIB, 32, 64}), hipErrorInvalidValue);
    REFUSED(hip.hipMallocArray(NULL, &pixel_of_four, 16384, 16384, 0), hipErrorInvalidValue);
    REFUSED(hip.hipMalloc3DArray(NULL, &pixel_of_four, extent, 0), hipErrorInvalidValue);
    REFUSED(hip.hipArrayCreate(NULL, &flat), hipErrorInvalidValue);
    REFUSED(hip.hipArray3DCreate(NULL, &cube), hipErrorInvalidValue);
    REFUSED(hip.hipMallocMipmappedArray(NULL, &pixel_of_four, extent, 3, 0), hipErrorInvalidValue);
    REFUSED(hip.hipMipmappedArrayCreate(NULL, &cube, 3), hipErrorInvalidValue);
    REFUSED(hip.hipMalloc3DArray(&array, &pixel_of_four, (hipExtent){1000, 1000, 16385}, 0),
            hipErrorInvalidValue); /* one more layer than an array can have */
    REFUSED(hip.hipMallocMipmappedArray(&levels, &pixel_of_four, (hipExtent){1000, 1000, 16385}, 3, 0),
            hipErrorInvalidValue);
    REFUSED(hip.hipMemCreate(NULL, OVER_QUOTA, &properties, 0), hipErrorInvalidValue);
    REFUSED(hip.hipMemCreate(&handle, OVER_QUOTA, &properties, 1), hipErrorInvalidValue);
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN);
}

static void test_wrong_arguments_are_refused_as_such(void **state)
{
    machine_run(role_wrong_arguments, QUOTA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_refusal_by_the_quota_alone_is_counted_once),
        cmocka_unit_test(test_wrong_arguments_are_refused_as_such),
    };
    return cmocka_run_group_tests_name("hip refusals", tests, NULL, NULL);
}
