/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tests of what a program sees: one device, the vGPU's sizes, and queues with the requested properties. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

static void test_the_program_sees_only_the_vgpus_device(void **state)
{
    cl_uint platforms = 0, devices = 0, vendor = 0;

    assert_int_equal(clGetPlatformIDs(0, NULL, &platforms), CL_SUCCESS);
    assert_int_equal(platforms, 1);
    assert_int_equal(clGetDeviceIDs(fixture.platform, CL_DEVICE_TYPE_ALL, 0, NULL, &devices), CL_SUCCESS);
    assert_int_equal(devices, 1);
    if (!fixture.fake)
        return;
    assert_int_equal(clGetDeviceInfo(fixture.device, CL_DEVICE_VENDOR_ID, sizeof vendor, &vendor, NULL), CL_SUCCESS);
    assert_int_equal(vendor, 2); /* the second of two devices that differ only in their ordinal */
}

static void test_device_types_find_the_vgpus_device(void **state)
{
    cl_device_type type = 0, other;
    cl_device_id device = NULL;
    cl_uint count = 7;

    clGetDeviceInfo(fixture.device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    other = type & CL_DEVICE_TYPE_GPU ? CL_DEVICE_TYPE_CPU : CL_DEVICE_TYPE_GPU;
    assert_int_equal(clGetDeviceIDs(NULL, CL_DEVICE_TYPE_DEFAULT, 1, &device, &count), CL_SUCCESS);
    assert_ptr_equal(device, fixture.device);
    assert_int_equal(count, 1);
    assert_int_equal(clGetDeviceIDs(fixture.platform, type, 1, &device, NULL), CL_SUCCESS);
    assert_int_equal(clGetDeviceIDs(fixture.platform, other, 1, &device, &count), CL_DEVICE_NOT_FOUND);
    assert_int_equal(count, 0);
    assert_int_equal(clGetDeviceIDs(fixture.platform, 0, 1, &device, NULL), CL_INVALID_DEVICE_TYPE);
    assert_int_equal(clGetDeviceIDs(fixture.platform, type, 0, &device, NULL), CL_INVALID_VALUE);
    assert_int_equal(clGetDeviceIDs(fixture.platform, type, 0, NULL, NULL), CL_INVALID_VALUE);
}

static void test_sizes_are_those_of_the_vgpu(void **state)
{
    cl_ulong bytes = 0;
    cl_uint small;
    size_t size = 0, kib[2] = {0}; /* free memory, and its largest block */
    char name[256];

    assert_int_equal(clGetDeviceInfo(fixture.device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof bytes, &bytes, &size),
                     CL_SUCCESS);
    assert_int_equal(bytes, FIXTURE_MEMORY);
    assert_int_equal(size, sizeof bytes);
    clGetDeviceInfo(fixture.device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof bytes, &bytes, NULL);
    assert_int_equal(bytes, FIXTURE_MEMORY);
    assert_int_equal(clGetDeviceInfo(fixture.device, CL_DEVICE_GLOBAL_MEM_SIZE, 0, NULL, &size), CL_SUCCESS);
    assert_int_equal(size, sizeof bytes);
    assert_int_equal(clGetDeviceInfo(fixture.device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof small, &small, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clGetDeviceInfo(fixture.device, CL_DEVICE_NAME, sizeof name, name, NULL), CL_SUCCESS);
    if (clGetDeviceInfo(fixture.device, CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, sizeof kib, kib, NULL) == CL_SUCCESS) {
        cl_mem buffer = fixture_buffer(MIB, NULL);

        assert_int_equal(kib[0], FIXTURE_MEMORY / 1024);
        clGetDeviceInfo(fixture.device, CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, sizeof kib, kib, NULL);
        assert_int_equal(kib[0], (FIXTURE_MEMORY - MIB) / 1024);
        assert_int_equal(kib[1], (FIXTURE_MEMORY - MIB) / 1024);
        clReleaseMemObject(buffer);
    }
}

/* Fails if the device reports more than `limit`, or with the fake driver less; `width` is the size of the reported
 * value. */
static void check_bounded(cl_device_info name, size_t width, uint64_t limit)
{
    cl_ulong wide = 0;
    cl_uint narrow = 0;
    size_t size = 0;
    void *value = width == sizeof wide ? (void *)&wide : (void *)&narrow;
    cl_int result = clGetDeviceInfo(fixture.device, name, width, value, &size);

    if (result != CL_SUCCESS && !fixture.fake)
        return; /* a driver need not support every query */
    assert_int_equal(result, CL_SUCCESS);
    assert_int_equal(size, width);
    if (wide + narrow > limit || (fixture.fake && wide + narrow != limit))
        fail_msg("query 0x%x reports %llu, expected at most %llu, and just that with the fake driver", name,
                 (unsigned long long)(wide + narrow), (unsigned long long)limit);
}

/* An object of the largest reported size, and an image of the largest reported length in the widest format, fit into
 * the vGPU's memory. */
static void test_sizes_of_objects_are_bounded_by_the_vgpus_memory(void **state)
{
    const cl_device_info numbers[] = {CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, CL_DEVICE_LOCAL_MEM_SIZE,
                                      CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE,
                                      CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE, CL_DEVICE_PRINTF_BUFFER_SIZE};
    const cl_device_info pixels[] = {CL_DEVICE_IMAGE_MAX_BUFFER_SIZE, CL_DEVICE_IMAGE_MAX_ARRAY_SIZE,
                                     CL_DEVICE_IMAGE2D_MAX_WIDTH,     CL_DEVICE_IMAGE2D_MAX_HEIGHT,
                                     CL_DEVICE_IMAGE3D_MAX_WIDTH,     CL_DEVICE_IMAGE3D_MAX_HEIGHT,
                                     CL_DEVICE_IMAGE3D_MAX_DEPTH};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        check_bounded(numbers[i], sizeof(cl_ulong), FIXTURE_MEMORY);
    for (size_t i = 0; i < sizeof pixels / sizeof *pixels; i++)
        check_bounded(pixels[i], sizeof(size_t), FIXTURE_MEMORY / (4 * sizeof(cl_float)));
    check_bounded(CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE, sizeof(cl_uint), FIXTURE_MEMORY);
}

static size_t free_kib(void)
{
    size_t kib[2] = {0};

    assert_int_equal(clGetDeviceInfo(fixture.device, CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, sizeof kib, kib, NULL),
                     CL_SUCCESS);
    return kib[0];
}

/* Starts a child that holds a buffer until it is killed. */
static pid_t start_holder(uint64_t bytes)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (!fixture_buffer(bytes, NULL) || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void test_free_memory_is_right_as_soon_as_a_child_was_reaped(void **state)
{
    for (int round = 0; round < 20; round++) {
        pid_t pid = start_holder(40 * MIB);

        assert_int_equal(free_kib(), (FIXTURE_MEMORY - 40 * MIB) / 1024);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(free_kib(), FIXTURE_MEMORY / 1024);
    }
}

static void test_a_context_from_a_type_has_the_vgpus_device(void **state)
{
    cl_device_id device = NULL;
    cl_int error = CL_SUCCESS;
    cl_context context = clCreateContextFromType(NULL, CL_DEVICE_TYPE_ALL, NULL, NULL, &error);

    assert_int_equal(error, CL_SUCCESS);
    assert_int_equal(clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof device, &device, NULL), CL_SUCCESS);
    assert_ptr_equal(device, fixture.device);
    clReleaseContext(context);
    assert_null(clCreateContextFromType(NULL, CL_DEVICE_TYPE_ACCELERATOR, NULL, NULL, &error));
    assert_int_equal(error, CL_DEVICE_NOT_FOUND);
}

static void test_a_foreign_device_is_refused(void **state)
{
    cl_int error = CL_SUCCESS;

    cl_uint vendor = 0;
    cl_device_id foreign = clGetExtensionFunctionAddressForPlatform(fixture.platform, "facetFakeDevice");
    assert_int_equal(clGetDeviceInfo(foreign, CL_DEVICE_VENDOR_ID, sizeof vendor, &vendor, NULL), CL_SUCCESS);
    assert_int_equal(vendor, 1);
    assert_null(clCreateContext(NULL, 1, &foreign, NULL, NULL, &error));
    assert_int_equal(error, CL_INVALID_DEVICE);
}

static cl_command_queue_properties shown_properties(cl_command_queue queue)
{
    cl_command_queue_properties properties = ~(cl_command_queue_properties)0;

    assert_int_equal(clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL),
                     CL_SUCCESS);
    return properties;
}

static cl_int profile_command(cl_command_queue queue, cl_ulong *ret_start)
{
    size_t one = 1;
    cl_event event;

    assert_int_equal(clEnqueueNDRangeKernel(queue, fixture.sleep, 1, NULL, &one, NULL, 0, NULL, &event), CL_SUCCESS);
    clWaitForEvents(1, &event);
    cl_int result = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof *ret_start, ret_start, NULL);
    clReleaseEvent(event);
    return result;
}

static void test_profiling_is_shown_only_if_it_was_requested(void **state)
{
    cl_ulong start = 0;
    cl_command_queue profiled = clCreateCommandQueue(fixture.context, fixture.device, CL_QUEUE_PROFILING_ENABLE, NULL);

    assert_int_equal(shown_properties(fixture.queue), 0);
    assert_int_equal(profile_command(fixture.queue, &start), CL_PROFILING_INFO_NOT_AVAILABLE);
    assert_int_equal(shown_properties(profiled), CL_QUEUE_PROFILING_ENABLE);
    assert_int_equal(profile_command(profiled, &start), CL_SUCCESS);
    assert_true(start > 0);
    clReleaseCommandQueue(profiled);
}

/* Makes a queue from `list`, which has `length` words, and checks that the queue reports the same list. */
static void check_list(const cl_queue_properties *list, size_t length)
{
    cl_queue_properties shown[16];
    size_t size = 99;
    cl_command_queue queue = clCreateCommandQueueWithProperties(fixture.context, fixture.device, list, NULL);

    assert_non_null(queue);
    assert_int_equal(clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES_ARRAY, sizeof shown, shown, &size), CL_SUCCESS);
    assert_int_equal(size, length * sizeof *list);
    if (length)
        assert_memory_equal(shown, list, size);
    if (length > 1)
        assert_int_equal(clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES_ARRAY, size - 1, shown, NULL),
                         CL_INVALID_VALUE);
    clReleaseCommandQueue(queue);
}

static void test_a_queue_reports_the_properties_that_it_was_given(void **state)
{
    const cl_queue_properties order[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
    const cl_queue_properties both[] = {CL_QUEUE_PROPERTIES,
                                        CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE, 0};
    const cl_queue_properties empty[] = {0};

    check_list(NULL, 0);
    check_list(order, 3);
    check_list(both, 3);
    check_list(empty, 1);
}

static void test_an_unknown_extension_is_passed_through(void **state)
{
    assert_null(clGetExtensionFunctionAddressForPlatform(fixture.platform, "clNoSuchFunctionFACET"));
    if (fixture.fake)
        assert_non_null(clGetExtensionFunctionAddressForPlatform(fixture.platform, "facetFakeCounters"));
}

int main(int argc, char **argv)
{
    bool fake = argc > 1 && strcmp(argv[1], "fake") == 0;
    int status = fixture_begin(argc > 1 ? argv[1] : NULL, fake ? 1 : 0);

    if (status >= 0)
        return status;

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_program_sees_only_the_vgpus_device),
        cmocka_unit_test(test_device_types_find_the_vgpus_device),
        cmocka_unit_test(test_sizes_are_those_of_the_vgpu),
        cmocka_unit_test(test_sizes_of_objects_are_bounded_by_the_vgpus_memory),
        cmocka_unit_test(test_a_context_from_a_type_has_the_vgpus_device),
        test_on_fake(test_free_memory_is_right_as_soon_as_a_child_was_reaped),
        test_on_fake(test_a_foreign_device_is_refused),
        cmocka_unit_test(test_profiling_is_shown_only_if_it_was_requested),
        cmocka_unit_test(test_a_queue_reports_the_properties_that_it_was_given),
        cmocka_unit_test(test_an_unknown_extension_is_passed_through),
    };
    if (!fixture_open()) {
        printf("Bail out! the device's context could not be opened\n");
        return 1;
    }
    status = cmocka_run_group_tests_name("visibility", tests, NULL, NULL);
    fixture_close();
    fixture_end();
    return status;
}
