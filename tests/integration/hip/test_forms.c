/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that all forms of a function charge the same, and that each call by which a program may begin a device
 * charges the cost of beginning it. Never: tests forms of launches and copies (execution/, tests/unit/interpose).
 */
#include <string.h>

#include "machine.h"

/* ---- calls that begin a device ---- */

static hipError_t begin_by(int way)
{
    static const uint32_t mask = 1;
    hipStream_t stream;
    void *pointer;

    switch (way) {
    case 0:
        return hip.hipMemAllocHost(&pointer, 4096);
    case 1:
        return hip.hipCtxSynchronize();
    case 2:
        return hip.hipStreamSynchronize_spt(NULL);
    case 3:
        return hip.hipStreamCreateWithPriority(&stream, 0, 0);
    default:
        return hip.hipExtStreamCreateWithCUMask(&stream, 1, &mask);
    }
}

static void role_begins_a_device(void *argument)
{
    role_open();
    CHECK_EQUAL(machine_charged(0), 0);
    CHECK_EQUAL(begin_by(*(const int *)argument), hipSuccess);
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN);
    CHECK_EQUAL(fake_used(0), MACHINE_BEGIN);
    CHECK_EQUAL(hip.hipDevicePrimaryCtxReset(0), hipSuccess);
    CHECK_EQUAL(machine_charged(0), 0);
    CHECK_EQUAL(fake_used(0), 0);
}

static void role_quota_below_a_device(void *argument)
{
    role_open();
    for (int time = 0; time < 2; time++) {
        CHECK_EQUAL(begin_by(*(const int *)argument), hipErrorOutOfMemory);
        CHECK_EQUAL(machine_charged(0), 0);
        CHECK_EQUAL(fake_used(0), 0);
    }
}

static void test_a_device_is_charged_at_each_form_of_first_call(void **state)
{
    const uint64_t limits[] = {GIB, MACHINE_BEGIN - 1};

    for (int way = 0; way < 5; way++)
        for (int i = 0; i < 2; i++) {
            machine_make(1, &limits[i], "300M");
            machine_wait(machine_start(i ? role_quota_below_a_device : role_begins_a_device, &way, true));
            machine_remove();
        }
}

/* ---- other names of the same function ---- */

/* The charge is the cost of beginning the device plus `bytes`, which is what was requested from the runtime. */
#define CHECK_CHARGED(bytes)                                                                                           \
    do {                                                                                                               \
        CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN + (bytes));                                                      \
        CHECK_EQUAL(fake_requested(0), bytes);                                                                         \
    } while (0)

static void role_array_forms(void *argument)
{
    const hipChannelFormatDesc four = {.x = 32, .y = 32, .z = 32, .w = 32, .f = hipChannelFormatKindFloat};
    HIP_ARRAY_DESCRIPTOR flat = {.Width = 1000, .Height = 1000, .Format = HIP_AD_FORMAT_FLOAT, .NumChannels = 4};
    hipMipmappedArray_t levels;
    hipArray_t array;

    role_open();
    CHECK_EQUAL(hip.hipArrayCreate(&array, &flat), hipSuccess);
    CHECK_CHARGED(16384000); /* 1000 rows of 16000 bytes, each in steps of 512 */
    CHECK_EQUAL(hip.hipArrayDestroy(array), hipSuccess);
    CHECK_EQUAL(hip.hipMalloc3DArray(&array, &four, (hipExtent){1000, 1000, 0}, 0), hipSuccess);
    CHECK_CHARGED(16384000);
    CHECK_EQUAL(hip.hipFreeArray(array), hipSuccess);
    CHECK_EQUAL(hip.hipMallocMipmappedArray(&levels, &four, (hipExtent){1000, 1000, 0}, 3, 0), hipSuccess);
    CHECK(fake_requested(0) > 16384000);
    CHECK_CHARGED(fake_requested(0));
    CHECK_EQUAL(hip.hipMipmappedArrayDestroy(levels), hipSuccess);
    CHECK_CHARGED(0);
    flat.Height = 10 * 1000 * 1000; /* more than any array can have */
    CHECK_EQUAL(hip.hipArrayCreate(&array, &flat), hipErrorInvalidValue);
    flat.Height = 65536;
    CHECK_EQUAL(hip.hipArrayCreate(&array, &flat), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipMalloc3DArray(&array, &four, (hipExtent){1000, 1000, 1000}, 0), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipMallocMipmappedArray(&levels, &four, (hipExtent){1000, 1000, 1000}, 3, 0), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipArrayCreate(&array, NULL), hipErrorInvalidValue);
    CHECK_CHARGED(0);
}

static void test_an_array_is_charged_however_it_is_made(void **state)
{
    machine_run(role_array_forms, GIB);
}

static void role_properties_forms(void *argument)
{
    hipDeviceProp_tR0000 properties;

    role_open();
    CHECK_EQUAL(hip.hipGetDevicePropertiesR0000(&properties, 0), hipSuccess);
    CHECK_EQUAL(properties.totalGlobalMem, GIB);
    CHECK_EQUAL(hip.hipGetDevicePropertiesR0000(NULL, 0), hipErrorInvalidValue);
    CHECK_EQUAL(hip.hipGetDevicePropertiesR0000(&properties, 7), hipErrorInvalidDevice);
}

static void test_the_older_properties_show_the_quota(void **state)
{
    machine_run(role_properties_forms, GIB);
}

/* Each lookup function returns the hook of the requested form. */
static void role_each_lookup(void *argument)
{
    hipDriverProcAddressQueryResult status;
    void *allocate = NULL, *found = NULL, *launch = NULL, *unknown = NULL;

    role_open();
    CHECK_EQUAL(hip.hipGetDriverEntryPoint("hipMalloc", &allocate, 0, &status), hipSuccess);
    CHECK(allocate && allocate != (void *)hip.hipMalloc); /* the hook, not the exported symbol, which jumps to it */
    CHECK_EQUAL(((__typeof__(hip.hipMalloc))allocate)(&found, 2 * GIB), hipErrorOutOfMemory);
    CHECK_EQUAL(((__typeof__(hip.hipMalloc))allocate)(&found, 2 * MIB), hipSuccess);
    CHECK_CHARGED(2 * MIB);
    CHECK_EQUAL(hip.hipGetProcAddress("hipLaunchKernel_spt", &found, 70200000, 0, &status), hipSuccess);
    CHECK_EQUAL(hip.hipGetDriverEntryPoint_spt("hipLaunchKernel", &launch, 0, &status), hipSuccess);
    CHECK(launch == found); /* the form for the per-thread default stream */
    CHECK(launch != (void *)hip.hipLaunchKernel && launch != (void *)hip.hipLaunchKernel_spt);
    CHECK(hip.hipGetDriverEntryPoint_spt("hipNone", &unknown, 0, &status) != hipSuccess && !unknown);
}

static void test_a_driver_entry_point_is_the_hook(void **state)
{
    machine_run(role_each_lookup, GIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_device_is_charged_at_each_form_of_first_call),
        cmocka_unit_test(test_an_array_is_charged_however_it_is_made),
        cmocka_unit_test(test_the_older_properties_show_the_quota),
        cmocka_unit_test(test_a_driver_entry_point_is_the_hook),
    };

    return cmocka_run_group_tests_name("hip/forms", tests, NULL, NULL);
}
