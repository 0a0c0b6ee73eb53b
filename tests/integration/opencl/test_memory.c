/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tests of the charges of memory objects, of refusals, and of when a charge is released. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

static unsigned fill_quota(uint64_t bytes, cl_mem *buffers, unsigned capacity, cl_int *ret_error)
{
    unsigned count = 0;

    while (count < capacity) {
        cl_mem buffer = fixture_buffer(bytes, ret_error);

        if (!buffer)
            break;
        buffers[count++] = buffer;
    }
    return count;
}

static void test_quota_is_exact(void **state)
{
    cl_mem buffers[80];
    cl_int error = CL_SUCCESS;
    unsigned count = fill_quota(MIB, buffers, 80, &error);
    uint64_t denied = test_segment_totals(&fixture.segment).denied;

    assert_int_equal(count, 64);
    assert_int_equal(error, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    assert_int_equal(denied, 1);
    assert_int_equal(fixture_held(), FIXTURE_MEMORY);
    assert_null(fixture_buffer(1, &error));
    clReleaseMemObject(buffers[--count]);
    assert_int_equal(fixture_held(), FIXTURE_MEMORY - MIB);
    assert_non_null(buffers[count++] = fixture_buffer(MIB, &error));
    assert_int_equal(error, CL_SUCCESS);
    while (count)
        clReleaseMemObject(buffers[--count]);
    assert_int_equal(fixture_held(), 0);
}

static void test_invalid_sizes_are_refused(void **state)
{
    cl_int error = CL_SUCCESS;

    assert_null(fixture_buffer(0, &error));
    assert_int_equal(error, CL_INVALID_BUFFER_SIZE);
    assert_null(fixture_buffer(FIXTURE_MEMORY + 1, &error));
    assert_int_equal(error, CL_INVALID_BUFFER_SIZE);
    assert_null(fixture_buffer(UINT64_MAX, NULL));
    assert_null(clCreateBuffer(NULL, 0, MIB, NULL, &error));
    assert_int_equal(error, CL_INVALID_CONTEXT);
    assert_int_equal(fixture_held(), 0);
}

static void test_buffer_with_properties_is_charged(void **state)
{
    cl_int error = CL_SUCCESS;
    cl_mem buffer = clCreateBufferWithProperties(fixture.context, NULL, CL_MEM_READ_WRITE, 3 * MIB, NULL, &error);

    assert_int_equal(error, CL_SUCCESS);
    assert_int_equal(fixture_held(), 3 * MIB);
    clReleaseMemObject(buffer);
    assert_int_equal(fixture_held(), 0);
}

static void test_a_buffer_on_a_host_pointer_is_charged(void **state)
{
    void *host = aligned_alloc(4096, MIB);
    cl_mem buffer = clCreateBuffer(fixture.context, CL_MEM_USE_HOST_PTR, MIB, host, NULL);

    assert_non_null(buffer);
    assert_int_equal(fixture_held(), MIB);
    clReleaseMemObject(buffer);
    assert_int_equal(fixture_held(), 0);
    free(host);
}

static void test_a_sub_buffer_is_not_charged(void **state)
{
    cl_buffer_region region = {.origin = 0, .size = MIB / 2};
    cl_mem parent = fixture_buffer(MIB, NULL);
    cl_mem child = clCreateSubBuffer(parent, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, NULL);

    assert_non_null(child);
    assert_int_equal(fixture_held(), MIB);
    clReleaseMemObject(parent);
    assert_int_equal(fixture_held(), MIB); /* the sub-buffer keeps the buffer alive */
    clReleaseMemObject(child);
    assert_int_equal(fixture_held(), 0);
}

static void test_memory_is_released_with_the_last_reference(void **state)
{
    cl_mem buffer = fixture_buffer(MIB, NULL);

    clRetainMemObject(buffer);
    clReleaseMemObject(buffer);
    assert_int_equal(fixture_held(), MIB);
    clReleaseMemObject(buffer);
    assert_int_equal(fixture_held(), 0);
}

static void CL_CALLBACK note_held(cl_mem object, void *user_data)
{
    *(uint64_t *)user_data = fixture_held();
}

static void test_the_programs_destructor_callback_runs_before_the_charge_is_released(void **state)
{
    cl_mem buffer = fixture_buffer(MIB, NULL);
    uint64_t held = 0;

    assert_int_equal(clSetMemObjectDestructorCallback(buffer, note_held, &held), CL_SUCCESS);
    clReleaseMemObject(buffer);
    assert_int_equal(held, MIB);
    assert_int_equal(fixture_held(), 0);
}

static const cl_image_format rgba = {.image_channel_order = CL_RGBA, .image_channel_data_type = CL_FLOAT};

static void check_image(cl_mem image, uint64_t least)
{
    size_t bytes = 0;

    assert_non_null(image);
    assert_int_equal(clGetMemObjectInfo(image, CL_MEM_SIZE, sizeof bytes, &bytes, NULL), CL_SUCCESS);
    assert_true(bytes >= least);
    assert_int_equal(fixture_held(), bytes);
    clReleaseMemObject(image);
    assert_int_equal(fixture_held(), 0);
}

static void test_images_are_charged(void **state)
{
    cl_image_desc flat = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 100, .image_height = 50};
    cl_image_desc deep = {
        .image_type = CL_MEM_OBJECT_IMAGE3D, .image_width = 30, .image_height = 20, .image_depth = 10};
    cl_image_desc layers = {
        .image_type = CL_MEM_OBJECT_IMAGE2D_ARRAY, .image_width = 30, .image_height = 20, .image_array_size = 4};

    check_image(clCreateImage(fixture.context, CL_MEM_READ_WRITE, &rgba, &flat, NULL, NULL), 100 * 50 * 16);
    check_image(clCreateImage(fixture.context, CL_MEM_READ_WRITE, &rgba, &deep, NULL, NULL), 30 * 20 * 10 * 16);
    check_image(clCreateImageWithProperties(fixture.context, NULL, CL_MEM_READ_WRITE, &rgba, &layers, NULL, NULL),
                30 * 20 * 4 * 16);
    check_image(clCreateImage2D(fixture.context, CL_MEM_READ_WRITE, &rgba, 100, 50, 0, NULL, NULL), 100 * 50 * 16);
    check_image(clCreateImage3D(fixture.context, CL_MEM_READ_WRITE, &rgba, 8, 8, 8, 0, 0, NULL, NULL), 512 * 16);
}

static void test_image_over_quota_is_refused(void **state)
{
    cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 4096, .image_height = 4096};
    cl_int error = CL_SUCCESS;

    assert_null(clCreateImage(fixture.context, CL_MEM_READ_WRITE, &rgba, &desc, NULL, &error));
    assert_int_equal(error, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    assert_int_equal(fixture_held(), 0);
}

/* The image's description fits into the quota, but not with the padding that the driver adds. */
static void test_an_image_whose_padding_exceeds_the_quota_is_refused(void **state)
{
    cl_image_format one_byte = {.image_channel_order = CL_R, .image_channel_data_type = CL_UNSIGNED_INT8};
    cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 1, .image_height = 1 << 20};
    cl_int error = CL_SUCCESS;

    assert_null(clCreateImage(fixture.context, CL_MEM_READ_WRITE, &one_byte, &desc, NULL, &error));
    assert_int_equal(error, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    assert_int_equal(fixture_held(), 0);
}

static void test_an_image_over_a_buffer_is_not_charged(void **state)
{
    cl_mem buffer = fixture_buffer(MIB, NULL);
    cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .image_width = 64, .mem_object = buffer};
    cl_mem image = clCreateImage(fixture.context, CL_MEM_READ_WRITE, &rgba, &desc, NULL, NULL);

    assert_non_null(image);
    assert_int_equal(fixture_held(), MIB);
    clReleaseMemObject(image);
    clReleaseMemObject(buffer);
    assert_int_equal(fixture_held(), 0);
}

static void test_a_pipe_is_charged(void **state)
{
    cl_int error = CL_SUCCESS;

    cl_mem pipe = clCreatePipe(fixture.context, 0, 1024, 1024, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    assert_int_equal(fixture_held(), MIB);
    clReleaseMemObject(pipe);
    assert_null(clCreatePipe(fixture.context, 0, 1024, UINT32_MAX, NULL, &error));
    assert_int_equal(error, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    assert_null(clCreatePipe(fixture.context, 0, UINT32_MAX, UINT32_MAX, NULL, &error));
    assert_int_equal(error, CL_INVALID_PIPE_SIZE);
    assert_int_equal(fixture_held(), 0);
}

static void test_svm_is_charged(void **state)
{
    void *pointer = clSVMAlloc(fixture.context, CL_MEM_READ_WRITE, 5 * MIB, 0);

    assert_non_null(pointer);
    assert_int_equal(fixture_held(), 5 * MIB);
    assert_null(clSVMAlloc(fixture.context, CL_MEM_READ_WRITE, 60 * MIB, 0));
    clSVMFree(fixture.context, NULL);
    assert_int_equal(fixture_held(), 5 * MIB);
    clSVMFree(fixture.context, pointer);
    assert_int_equal(fixture_held(), 0);
}

static bool holds_bytes(const struct facet_usage_totals *totals, uint64_t value)
{
    return totals->memory_bytes == value;
}

static void test_queued_free_of_svm_releases_its_charge(void **state)
{
    void *pointers[2] = {clSVMAlloc(fixture.context, CL_MEM_READ_WRITE, MIB, 0),
                         clSVMAlloc(fixture.context, CL_MEM_READ_WRITE, 2 * MIB, 0)};
    cl_event user_event = clCreateUserEvent(fixture.context, NULL);

    assert_int_not_equal(clEnqueueSVMFree(NULL, 2, pointers, NULL, NULL, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(fixture_held(), 3 * MIB);
    assert_int_equal(clEnqueueSVMFree(fixture.queue, 2, pointers, NULL, NULL, 1, &user_event, NULL), CL_SUCCESS);
    assert_int_equal(fixture_held(), 3 * MIB);
    clSetUserEventStatus(user_event, CL_COMPLETE);
    clFinish(fixture.queue);
    assert_true(fixture_wait(holds_bytes, 0));
    clReleaseEvent(user_event);
}

static void test_usm_is_charged(void **state)
{
    clDeviceMemAllocINTEL_fn device_alloc =
        (clDeviceMemAllocINTEL_fn)(uintptr_t)clGetExtensionFunctionAddressForPlatform(fixture.platform,
                                                                                      "clDeviceMemAllocINTEL");
    clMemFreeINTEL_fn release =
        (clMemFreeINTEL_fn)(uintptr_t)clGetExtensionFunctionAddressForPlatform(fixture.platform, "clMemFreeINTEL");
    cl_int error = CL_SUCCESS;

    assert_non_null(device_alloc);
    assert_non_null(release);
    void *pointer = device_alloc(fixture.context, fixture.device, NULL, 7 * MIB, 0, &error);
    assert_non_null(pointer);
    assert_int_equal(fixture_held(), 7 * MIB);
    assert_null(device_alloc(fixture.context, fixture.device, NULL, 60 * MIB, 0, &error));
    assert_int_equal(error, CL_OUT_OF_RESOURCES);
    assert_int_equal(release(fixture.context, pointer), CL_SUCCESS);
    assert_int_equal(fixture_held(), 0);
}

/* A program for the fake driver: "GLOBAL=BYTES" gives it that many bytes of global variables. */
static cl_program globals_program(const char *text)
{
    cl_program program = clCreateProgramWithSource(fixture.context, 1, &text, NULL, NULL);

    assert_non_null(program);
    return program;
}

static void CL_CALLBACK on_built(cl_program program, void *user_data)
{
    *(int *)user_data += 1;
}

static void test_globals_of_a_program_are_charged_once(void **state)
{
    int built = 0;

    cl_program program = globals_program("GLOBAL=2097152");
    assert_int_equal(clBuildProgram(program, 0, NULL, NULL, NULL, NULL), CL_SUCCESS);
    assert_int_equal(clBuildProgram(program, 0, NULL, NULL, NULL, NULL), CL_SUCCESS);
    assert_int_equal(fixture_held(), 2 * MIB);
    cl_kernel kernel = clCreateKernel(program, "noop", NULL);
    clReleaseProgram(program);
    assert_int_equal(fixture_held(), 2 * MIB); /* a kernel keeps the program alive */
    clReleaseKernel(kernel);
    assert_int_equal(fixture_held(), 0);

    program = globals_program("GLOBAL=1048576");
    assert_int_equal(clBuildProgram(program, 0, NULL, NULL, on_built, &built), CL_SUCCESS);
    assert_int_equal(built, 1);
    clReleaseKernel(clCreateKernel(program, "noop", NULL));
    assert_int_equal(fixture_held(), MIB);
    clReleaseProgram(program);
    assert_int_equal(fixture_held(), 0);

    program = globals_program("GLOBAL=134217728");
    assert_int_equal(clBuildProgram(program, 0, NULL, NULL, NULL, NULL), CL_OUT_OF_RESOURCES);
    assert_null(clCreateKernel(program, "noop", NULL));
    clReleaseProgram(program);
    assert_int_equal(fixture_held(), 0);
}

static void test_a_device_queue_is_charged(void **state)
{
    cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_ON_DEVICE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE,
                                  CL_QUEUE_SIZE, 65536, 0};

    cl_command_queue queue = clCreateCommandQueueWithProperties(fixture.context, fixture.device, list, NULL);
    assert_non_null(queue);
    assert_int_equal(fixture_held(), 65536);
    clReleaseCommandQueue(queue);
    assert_int_equal(fixture_held(), 0);
}

/* An object for which the driver refuses a destructor callback is released at once, and the call fails. */
static void test_an_object_without_destructor_is_refused(void **state)
{
    cl_int error = CL_SUCCESS;

    setenv("FAKE_REFUSE_DESTRUCTOR", "1", 1);
    assert_null(fixture_buffer(MIB, &error));
    unsetenv("FAKE_REFUSE_DESTRUCTOR");
    assert_int_equal(error, CL_OUT_OF_RESOURCES);
    assert_int_equal(fixture_held(), 0);
}

static uint64_t denied_count(void)
{
    return test_segment_totals(&fixture.segment).denied;
}

static void expect_refused(const void *made, cl_int error, cl_int expected, uint64_t counted)
{
    assert_null(made);
    assert_int_equal(error, expected);
    assert_int_equal(denied_count() - counted, expected == CL_MEM_OBJECT_ALLOCATION_FAILURE);
    assert_int_equal(fixture_held(), 0);
}

/* The call sets `error` to `expected` and holds no memory. Only a refusal by the quota counts as denied. */
#define REFUSED(call, expected)                                                                                        \
    do {                                                                                                               \
        uint64_t counted = denied_count();                                                                             \
        cl_int error = CL_SUCCESS;                                                                                     \
        const void *made = call;                                                                                       \
                                                                                                                       \
        expect_refused(made, error, expected, counted);                                                                \
    } while (0)

/* Each request exceeds the quota. If it has another fault, too, the driver's error for that fault is returned. */
static void test_a_refusal_of_the_driver_keeps_its_own_error(void **state)
{
    const cl_image_desc flat = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 4096, .image_height = 4096};
    const cl_image_desc wide = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = SIZE_MAX / 64, .image_height = 4};
    const cl_mem_flags both = CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY;
    char host[1];

    REFUSED(clCreateBuffer(fixture.context, both, FIXTURE_MEMORY + 1, NULL, &error), CL_INVALID_VALUE);
    REFUSED(clCreateBuffer(fixture.context, 0, FIXTURE_MEMORY + 1, host, &error), CL_INVALID_HOST_PTR);
    REFUSED(clCreateBuffer(fixture.context, CL_MEM_USE_HOST_PTR, FIXTURE_MEMORY + 1, NULL, &error),
            CL_INVALID_HOST_PTR);
    REFUSED(clCreateBuffer(NULL, 0, FIXTURE_MEMORY + 1, NULL, &error), CL_INVALID_CONTEXT);
    REFUSED(clCreateBuffer(fixture.context, 0, SIZE_MAX, NULL, &error),
            CL_INVALID_BUFFER_SIZE); /* no device has that much */
    REFUSED(clCreateBufferWithProperties(fixture.context, NULL, both, FIXTURE_MEMORY + 1, NULL, &error),
            CL_INVALID_VALUE);
    REFUSED(clCreateImage(fixture.context, 0, &rgba, &flat, host, &error), CL_INVALID_HOST_PTR);
    REFUSED(clCreateImage(fixture.context, both, &rgba, &flat, NULL, &error), CL_INVALID_VALUE);
    REFUSED(clCreateImageWithProperties(fixture.context, NULL, both, &rgba, &flat, NULL, &error), CL_INVALID_VALUE);
    REFUSED(clCreateImage2D(fixture.context, both, &rgba, 4096, 4096, 0, NULL, &error), CL_INVALID_VALUE);
    REFUSED(clCreateImage3D(fixture.context, both, &rgba, 256, 256, 256, 0, 0, NULL, &error), CL_INVALID_VALUE);
    /* PoCL and the fake driver return different errors for this width. */
    REFUSED(clCreateImage(fixture.context, 0, &rgba, &wide, NULL, &error),
            fixture.fake ? CL_INVALID_IMAGE_SIZE : CL_INVALID_OPERATION);
    REFUSED(clCreateImage(fixture.context, 0, &rgba, &flat, NULL, &error), CL_MEM_OBJECT_ALLOCATION_FAILURE);
    REFUSED(clCreateImage3D(fixture.context, 0, &rgba, 256, 256, 256, 0, 0, NULL, &error),
            CL_MEM_OBJECT_ALLOCATION_FAILURE);
}

/* clSVMAlloc() returns no reason, but only a refusal by the quota counts as denied. */
static void test_shared_memory_is_denied_by_the_quota_alone(void **state)
{
    uint64_t counted = denied_count();

    assert_null(clSVMAlloc(fixture.context, CL_MEM_READ_WRITE | CL_MEM_READ_ONLY, FIXTURE_MEMORY + 1, 0));
    assert_int_equal(denied_count(), counted);
    assert_null(clSVMAlloc(fixture.context, CL_MEM_READ_WRITE, FIXTURE_MEMORY + 1, 0));
    assert_int_equal(denied_count(), counted + 1);
}

int main(int argc, char **argv)
{
    int status = fixture_begin(argc > 1 ? argv[1] : NULL, 0);

    if (status >= 0)
        return status;

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quota_is_exact),
        cmocka_unit_test(test_invalid_sizes_are_refused),
        cmocka_unit_test(test_buffer_with_properties_is_charged),
        cmocka_unit_test(test_a_buffer_on_a_host_pointer_is_charged),
        cmocka_unit_test(test_a_sub_buffer_is_not_charged),
        cmocka_unit_test(test_memory_is_released_with_the_last_reference),
        cmocka_unit_test(test_the_programs_destructor_callback_runs_before_the_charge_is_released),
        cmocka_unit_test(test_images_are_charged),
        cmocka_unit_test(test_image_over_quota_is_refused),
        test_on_fake(test_an_image_whose_padding_exceeds_the_quota_is_refused),
        cmocka_unit_test(test_an_image_over_a_buffer_is_not_charged),
        test_on_fake(test_a_pipe_is_charged),
        cmocka_unit_test(test_a_refusal_of_the_driver_keeps_its_own_error),
        test_on_pocl(test_shared_memory_is_denied_by_the_quota_alone),
        cmocka_unit_test(test_svm_is_charged),
        cmocka_unit_test(test_queued_free_of_svm_releases_its_charge),
        test_on_fake(test_usm_is_charged),
        test_on_fake(test_globals_of_a_program_are_charged_once),
        test_on_fake(test_a_device_queue_is_charged),
        test_on_fake(test_an_object_without_destructor_is_refused),
    };
    if (!fixture_open()) {
        printf("Bail out! the device's context could not be opened\n");
        return 1;
    }
    status = cmocka_run_group_tests_name("memory", tests, NULL, NULL);
    fixture_close();
    fixture_end();
    return status;
}
