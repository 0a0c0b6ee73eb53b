/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state in which every test of the layer begins: a driver, a segment, this process in the vGPU, and a context.
 *
 * Owns: the environment variables that put the process into the vGPU, set before its first OpenCL call.
 * Never: asserts how long something takes: waits are bounded and only return whether the event happened.
 */
#ifndef FACET_TEST_FIXTURE_H
#define FACET_TEST_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include "segment.h"

#define MIB            (UINT64_C(1) << 20)
#define FIXTURE_MEMORY (64 * MIB) /* the quota */

struct fixture {
    bool fake; /* the driver is the fake one, not PoCL */
    struct test_segment segment;
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel noop, sleep; /* sleep takes about as many microseconds as its argument 0 says */
};
extern struct fixture fixture;

/* Tests of features that only one of the drivers has. cmocka skips an entry without a function. */
#define test_on_fake(test)                                                                                             \
    {                                                                                                                  \
        .name = #test, .test_func = fixture.fake ? test : NULL                                                         \
    }
#define test_on_pocl(test)                                                                                             \
    {                                                                                                                  \
        .name = #test, .test_func = fixture.fake ? NULL : test                                                         \
    }

/* Makes the segment for device `index` of `driver`, "fake" or "pocl". Returns -1 on success. On failure, prints the
 * reason as TAP and returns the exit status. */
int fixture_begin(const char *driver, unsigned index);
void fixture_end(void);

/* Opens the device, a context, a queue and the kernels. Children, which inherit the environment, may call it, too. */
bool fixture_open(void);
void fixture_close(void);

cl_mem fixture_buffer(uint64_t bytes, cl_int *ret_error);
void fixture_set_sleep(cl_uint microseconds);
cl_int fixture_launch(cl_kernel kernel, cl_event *event);

/* The bytes that the vGPU's processes hold. */
uint64_t fixture_held(void);

/* Returns whether `condition` becomes true for `value` within about 10 s. The wait keeps the segment's heartbeat. */
bool fixture_wait(bool (*condition)(const struct facet_usage_totals *totals, uint64_t value), uint64_t value);

/* Conditions: at least `value` launches are counted; exactly `value` are in flight; exactly `value` threads wait. */
bool fixture_launches_reach(const struct facet_usage_totals *totals, uint64_t value);
bool fixture_inflight_is(const struct facet_usage_totals *totals, uint64_t value);
bool fixture_waiting_is(const struct facet_usage_totals *totals, uint64_t value);

#endif
