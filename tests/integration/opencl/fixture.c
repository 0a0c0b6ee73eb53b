/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the driver, the segment and the context of the layer's tests. Never: runs a test. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "address.h"
#include "limiter/tenant.h"

struct fixture fixture;

static const char source[] = "__kernel void noop(uint n) {}\n"
                             "__kernel void sleep(uint us) {\n"
                             "    volatile uint sum = 0;\n"
                             "    for (uint i = 0; i < us * 200u; i++) sum += i;\n"
                             "}\n";

int fixture_begin(const char *driver, unsigned index)
{
    char address[256];

    fixture.fake = driver && strcmp(driver, "fake") == 0;
    if (fixture.fake)
        setenv("OCL_ICD_VENDORS", getenv("FACET_TEST_FAKE_VENDORS"), 1);
    if (!test_device_address_apart(index, address)) {
        printf("1..0 # SKIP no OpenCL device here\n");
        return fixture.fake ? 1 : 0;
    }
    if (!test_segment_make(&fixture.segment, address, FIXTURE_MEMORY)) {
        printf("Bail out! the vGPU's segment could not be made\n");
        return 1;
    }
    setenv(FACET_ENV_VGPU_DIR, fixture.segment.dir, 1);
    setenv("OPENCL_LAYERS", getenv("FACET_TEST_LAYER"), 1);
    return -1;
}

void fixture_end(void)
{
    test_segment_remove(&fixture.segment);
}

static bool open_program(void)
{
    const char *text = source;
    cl_int error = CL_SUCCESS;

    fixture.program = clCreateProgramWithSource(fixture.context, 1, &text, NULL, &error);
    if (error != CL_SUCCESS || clBuildProgram(fixture.program, 0, NULL, NULL, NULL, NULL) != CL_SUCCESS)
        return false;
    fixture.noop = clCreateKernel(fixture.program, "noop", NULL);
    fixture.sleep = clCreateKernel(fixture.program, "sleep", NULL);
    if (!fixture.noop || !fixture.sleep)
        return false;
    cl_uint nothing = 0;
    clSetKernelArg(fixture.noop, 0, sizeof nothing, &nothing);
    fixture_set_sleep(100);
    return true;
}

bool fixture_open(void)
{
    cl_int error = CL_SUCCESS;

    if (clGetPlatformIDs(1, &fixture.platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(fixture.platform, CL_DEVICE_TYPE_ALL, 1, &fixture.device, NULL) != CL_SUCCESS)
        return false;
    fixture.context = clCreateContext(NULL, 1, &fixture.device, NULL, NULL, &error);
    if (error == CL_SUCCESS)
        fixture.queue = clCreateCommandQueue(fixture.context, fixture.device, 0, &error);
    return error == CL_SUCCESS && open_program();
}

void fixture_close(void)
{
    clReleaseKernel(fixture.noop);
    clReleaseKernel(fixture.sleep);
    clReleaseProgram(fixture.program);
    clReleaseCommandQueue(fixture.queue);
    clReleaseContext(fixture.context);
}

cl_mem fixture_buffer(uint64_t bytes, cl_int *ret_error)
{
    return clCreateBuffer(fixture.context, CL_MEM_READ_WRITE, bytes, NULL, ret_error);
}

void fixture_set_sleep(cl_uint microseconds)
{
    clSetKernelArg(fixture.sleep, 0, sizeof microseconds, &microseconds);
}

cl_int fixture_launch(cl_kernel kernel, cl_event *event)
{
    size_t one = 1;

    return clEnqueueNDRangeKernel(fixture.queue, kernel, 1, NULL, &one, NULL, 0, NULL, event);
}

uint64_t fixture_held(void)
{
    return test_segment_totals(&fixture.segment).memory_bytes;
}

bool fixture_wait(bool (*condition)(const struct facet_usage_totals *totals, uint64_t value), uint64_t value)
{
    for (int i = 0; i < 10000; i++) {
        test_segment_beat(&fixture.segment);
        struct facet_usage_totals totals = test_segment_totals(&fixture.segment);

        if (condition(&totals, value))
            return true;
        usleep(1000);
    }
    return false;
}

bool fixture_launches_reach(const struct facet_usage_totals *totals, uint64_t value)
{
    return totals->launches >= value;
}

bool fixture_inflight_is(const struct facet_usage_totals *totals, uint64_t value)
{
    return totals->inflight == value;
}

bool fixture_waiting_is(const struct facet_usage_totals *totals, uint64_t value)
{
    return totals->waiting == value;
}
