/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tests that launches are counted, measured, held back at a closed gate, and never wait forever. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fixture.h"

#define THREADS 8

static struct facet_usage_totals totals_now(void)
{
    return test_segment_totals(&fixture.segment);
}

/* Waits until nothing is in flight, so that all work from before is reported; returns the totals. */
static struct facet_usage_totals settled_totals(void)
{
    clFinish(fixture.queue);
    assert_true(fixture_wait(fixture_inflight_is, 0));
    return totals_now();
}

static void test_launches_are_counted(void **state)
{
    struct facet_usage_totals before = settled_totals();
    cl_event event = NULL;

    for (int i = 0; i < 99; i++)
        assert_int_equal(fixture_launch(fixture.noop, NULL), CL_SUCCESS);
    assert_int_equal(fixture_launch(fixture.noop, &event), CL_SUCCESS);
    assert_int_equal(clWaitForEvents(1, &event), CL_SUCCESS);
    assert_true(fixture_wait(fixture_launches_reach, before.launches + 100));
    assert_int_equal(settled_totals().launches, before.launches + 100);

    cl_uint references = 0;
    clGetEventInfo(event, CL_EVENT_REFERENCE_COUNT, sizeof references, &references, NULL);
    if (fixture.fake)
        assert_int_equal(references, 1); /* the layer keeps no reference */
    clReleaseEvent(event);
}

/* The reported time, in which overlaps count once, is more than 0 and at most the elapsed time. */
static void test_device_time_is_measured(void **state)
{
    struct facet_usage_totals before = settled_totals();
    uint64_t begun = facet_clock_now_ns();

    fixture_set_sleep(2000);
    for (int i = 0; i < 10; i++)
        assert_int_equal(fixture_launch(fixture.sleep, NULL), CL_SUCCESS);
    struct facet_usage_totals after = settled_totals();
    uint64_t elapsed = facet_clock_now_ns() - begun;

    assert_int_equal(after.launches, before.launches + 10);
    assert_true(after.busy_ns > before.busy_ns);
    assert_true(after.busy_ns - before.busy_ns <= elapsed);
    if (fixture.fake) /* the fake driver's kernels sleep at least as long as their argument says */
        assert_true(after.busy_ns - before.busy_ns >= 10 * 2 * FACET_NS_PER_MS);
    fixture_set_sleep(100);
}

static void test_a_refused_launch_leaves_nothing_in_flight(void **state)
{
    struct facet_usage_totals before = settled_totals();

    assert_int_equal(clEnqueueNDRangeKernel(fixture.queue, fixture.noop, 0, NULL, NULL, NULL, 0, NULL, NULL),
                     CL_INVALID_WORK_DIMENSION);
    assert_int_equal(totals_now().inflight, 0);
    assert_int_equal(totals_now().busy_ns, before.busy_ns);
}

static void test_transfers_from_1_mib_are_counted(void **state)
{
    struct facet_usage_totals before = settled_totals();
    cl_mem buffer = fixture_buffer(2 * MIB, NULL);
    char *host = calloc(1, 2 * MIB);

    assert_int_equal(clEnqueueWriteBuffer(fixture.queue, buffer, CL_FALSE, 0, MIB - 1, host, 0, NULL, NULL), 0);
    assert_int_equal(settled_totals().launches, before.launches); /* a transfer below 1 MiB is no launch */
    assert_int_equal(clEnqueueWriteBuffer(fixture.queue, buffer, CL_TRUE, 0, MIB, host, 0, NULL, NULL), 0);
    assert_int_equal(totals_now().launches, before.launches + 1); /* a blocking transfer is reported when it returns */
    assert_int_equal(totals_now().inflight, 0);
    assert_int_equal(clEnqueueReadBuffer(fixture.queue, buffer, CL_FALSE, 0, 2 * MIB, host, 0, NULL, NULL), 0);
    assert_int_equal(settled_totals().launches, before.launches + 2);
    clReleaseMemObject(buffer);
    free(host);
}

static void *launch_one(void *unused)
{
    return (void *)(intptr_t)fixture_launch(fixture.noop, NULL);
}

static void test_a_closed_gate_holds_a_launch_until_it_opens(void **state)
{
    struct facet_usage_totals before = settled_totals();
    pthread_t thread;
    void *result = NULL;

    facet_owner_set_gate(fixture.segment.owner, FACET_GATE_CLOSED);
    assert_int_equal(pthread_create(&thread, NULL, launch_one, NULL), 0);
    assert_true(fixture_wait(fixture_waiting_is, 1));
    assert_int_equal(totals_now().launches, before.launches);
    facet_owner_set_gate(fixture.segment.owner, FACET_GATE_OPEN);
    pthread_join(thread, &result);
    assert_int_equal((intptr_t)result, CL_SUCCESS);
    assert_true(fixture_wait(fixture_launches_reach, before.launches + 1));
    assert_true(settled_totals().throttled_ns > before.throttled_ns);
}

static void test_launches_under_a_lease_are_counted(void **state)
{
    struct facet_usage_totals before = settled_totals();

    facet_owner_set_depth(fixture.segment.owner, 5 * FACET_NS_PER_MS);
    facet_owner_set_gate(fixture.segment.owner, FACET_GATE_LEASED);
    fixture_set_sleep(1000);
    for (int i = 0; i < 50; i++) {
        test_segment_beat(&fixture.segment);
        assert_int_equal(fixture_launch(fixture.sleep, NULL), CL_SUCCESS);
    }
    assert_int_equal(settled_totals().launches, before.launches + 50);
    facet_owner_set_gate(fixture.segment.owner, FACET_GATE_OPEN);
    fixture_set_sleep(100);
}

/*
 * A command that waits for the program (a user event) must not delay the reports of other work, block further launches,
 * or deadlock.
 */
static void check_user_event(enum facet_gate gate)
{
    struct facet_usage_totals before = settled_totals();
    cl_event user_event = clCreateUserEvent(fixture.context, NULL);
    cl_command_queue other = clCreateCommandQueue(fixture.context, fixture.device, 0, NULL);
    size_t one = 1;

    facet_owner_set_gate(fixture.segment.owner, gate);
    assert_int_equal(clEnqueueNDRangeKernel(other, fixture.noop, 1, NULL, &one, NULL, 1, &user_event, NULL),
                     CL_SUCCESS);
    for (int i = 0; i < 5; i++) {
        test_segment_beat(&fixture.segment);
        assert_int_equal(fixture_launch(fixture.sleep, NULL), CL_SUCCESS);
    }
    assert_true(fixture_wait(fixture_launches_reach, before.launches + 5));
    assert_int_equal(totals_now().inflight, 1);
    clSetUserEventStatus(user_event, CL_COMPLETE);
    clFinish(other);
    assert_true(fixture_wait(fixture_launches_reach, before.launches + 6));
    facet_owner_set_gate(fixture.segment.owner, FACET_GATE_OPEN);
    clReleaseCommandQueue(other);
    clReleaseEvent(user_event);
}

static void test_a_waiting_command_blocks_no_other_while_the_gate_is_open(void **state)
{
    check_user_event(FACET_GATE_OPEN);
}

static void test_a_waiting_command_blocks_no_other_under_a_lease(void **state)
{
    check_user_event(FACET_GATE_LEASED);
}

static void test_more_launches_than_the_ring_holds_are_counted(void **state)
{
    struct facet_usage_totals before = settled_totals();
    cl_event user_event = clCreateUserEvent(fixture.context, NULL);
    size_t one = 1;

    for (int i = 0; i < 5000; i++) /* the layer's ring holds 4096 */
        assert_int_equal(clEnqueueNDRangeKernel(fixture.queue, fixture.noop, 1, NULL, &one, NULL, i == 0,
                                                i == 0 ? &user_event : NULL, NULL),
                         CL_SUCCESS);
    clSetUserEventStatus(user_event, CL_COMPLETE);
    assert_int_equal(settled_totals().launches, before.launches + 5000);
    clReleaseEvent(user_event);
}

static void test_without_profiling_launches_are_counted(void **state)
{
    struct facet_usage_totals before = settled_totals();
    cl_command_queue real = fixture.queue;

    setenv("FAKE_REFUSE_PROFILING", "1", 1);
    fixture.queue = clCreateCommandQueue(fixture.context, fixture.device, 0, NULL);
    unsetenv("FAKE_REFUSE_PROFILING");
    assert_non_null(fixture.queue);
    fixture_set_sleep(2000);
    for (int i = 0; i < 5; i++)
        assert_int_equal(fixture_launch(fixture.sleep, NULL), CL_SUCCESS);
    struct facet_usage_totals after = settled_totals();
    assert_int_equal(after.launches, before.launches + 5);
    assert_true(after.busy_ns - before.busy_ns >= 10 * FACET_NS_PER_MS);
    clReleaseCommandQueue(fixture.queue);
    fixture.queue = real;
    fixture_set_sleep(100);
}

/*
 * Several threads create and release buffers and launch at once. cmocka's assertions work only in the main thread, so
 * the threads count failures.
 */
static void *launch_repeatedly(void *unused)
{
    cl_command_queue queue = clCreateCommandQueue(fixture.context, fixture.device, 0, NULL);
    intptr_t failures = !queue;
    size_t one = 1;

    for (int i = 0; queue && i < 200; i++) {
        cl_mem buffer = fixture_buffer(MIB, NULL);
        void *pointer = clSVMAlloc(fixture.context, CL_MEM_READ_WRITE, 4096, 0);

        failures += !buffer || !pointer;
        failures += clEnqueueNDRangeKernel(queue, fixture.noop, 1, NULL, &one, NULL, 0, NULL, NULL) != CL_SUCCESS;
        clSVMFree(fixture.context, pointer);
        if (buffer)
            clReleaseMemObject(buffer);
    }
    failures += clFinish(queue) != CL_SUCCESS;
    clReleaseCommandQueue(queue);
    return (void *)failures;
}

static void test_launches_of_threads_are_counted(void **state)
{
    struct facet_usage_totals before = settled_totals();
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, launch_repeatedly, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failures = NULL;

        pthread_join(threads[i], &failures);
        assert_int_equal((intptr_t)failures, 0);
    }
    assert_int_equal(settled_totals().launches, before.launches + THREADS * 200);
    assert_int_equal(fixture_held(), 0);
    assert_int_equal(totals_now().denied, before.denied);
}

static void test_a_command_buffer_is_one_launch(void **state)
{
#define LOOK_UP(name)                                                                                                  \
    name##_fn name = (name##_fn)(uintptr_t)clGetExtensionFunctionAddressForPlatform(fixture.platform, #name)
    LOOK_UP(clCreateCommandBufferKHR);
    LOOK_UP(clCommandNDRangeKernelKHR);
    LOOK_UP(clFinalizeCommandBufferKHR);
    LOOK_UP(clEnqueueCommandBufferKHR);
    LOOK_UP(clReleaseCommandBufferKHR);
#undef LOOK_UP
    struct facet_usage_totals before = settled_totals();
    size_t one = 1;
    cl_int error = CL_SUCCESS;

    if (!clCreateCommandBufferKHR || !clEnqueueCommandBufferKHR) {
        print_message("# this driver has no command buffers\n");
        return;
    }
    cl_command_buffer_khr buffer = clCreateCommandBufferKHR(1, &fixture.queue, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            clCommandNDRangeKernelKHR(buffer, NULL, NULL, fixture.sleep, 1, NULL, &one, NULL, 0, NULL, NULL, NULL),
            CL_SUCCESS);
    assert_int_equal(clFinalizeCommandBufferKHR(buffer), CL_SUCCESS);
    assert_int_equal(totals_now().launches, before.launches);
    assert_int_equal(clEnqueueCommandBufferKHR(0, NULL, buffer, 0, NULL, NULL), CL_SUCCESS);
    struct facet_usage_totals after = settled_totals();
    assert_int_equal(after.launches, before.launches + 1);
    assert_true(after.busy_ns > before.busy_ns);
    clReleaseCommandBufferKHR(buffer);
}

/* Only the fixture's queue and program exist. */
static void test_the_layer_releases_every_object_that_it_retained(void **state)
{
    const struct {
        _Atomic int64_t bytes, memory_objects, queues, programs, kernels, events;
    } *counters = clGetExtensionFunctionAddressForPlatform(fixture.platform, "facetFakeCounters");

    settled_totals();
    assert_non_null(counters);
    assert_int_equal(atomic_load(&counters->memory_objects), 0);
    assert_int_equal(atomic_load(&counters->bytes), 0);
    assert_int_equal(atomic_load(&counters->queues), 1);
    assert_int_equal(atomic_load(&counters->programs), 1);
    assert_int_equal(atomic_load(&counters->events), 0);
}

int main(int argc, char **argv)
{
    int status = fixture_begin(argc > 1 ? argv[1] : NULL, 0);

    if (status >= 0)
        return status;

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launches_are_counted),
        cmocka_unit_test(test_device_time_is_measured),
        cmocka_unit_test(test_a_refused_launch_leaves_nothing_in_flight),
        cmocka_unit_test(test_transfers_from_1_mib_are_counted),
        cmocka_unit_test(test_a_closed_gate_holds_a_launch_until_it_opens),
        cmocka_unit_test(test_launches_under_a_lease_are_counted),
        cmocka_unit_test(test_a_waiting_command_blocks_no_other_while_the_gate_is_open),
        cmocka_unit_test(test_a_waiting_command_blocks_no_other_under_a_lease),
        cmocka_unit_test(test_more_launches_than_the_ring_holds_are_counted),
        test_on_fake(test_without_profiling_launches_are_counted),
        cmocka_unit_test(test_launches_of_threads_are_counted),
        test_on_pocl(test_a_command_buffer_is_one_launch),
        test_on_fake(test_the_layer_releases_every_object_that_it_retained),
    };
    if (!fixture_open()) {
        printf("Bail out! the device's context could not be opened\n");
        return 1;
    }
    status = cmocka_run_group_tests_name("launch", tests, NULL, NULL);
    fixture_close();
    fixture_end();
    return status;
}
