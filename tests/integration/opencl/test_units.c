/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests of a vGPU with units of its own: a sub-device, which the program sees as a root device.
 * Never: uses OpenCL except in roles, each in a process of its own.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tenant.h"

#define THREADS 8

static uint32_t all_units;

/* --- roles --- */

static cl_uint units_of(cl_device_id device)
{
    cl_uint units = 0;

    clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
    return units;
}

/* The number of sub-devices that exist in the fake driver; 1 with a driver that does not count them. */
static int64_t count_sub_devices(void)
{
    const struct {
        _Atomic int64_t others[7]; /* counters of other objects */
        _Atomic uint64_t launches;
        _Atomic int64_t sub_devices;
    } *counters = clGetExtensionFunctionAddressForPlatform(fixture.platform, "facetFakeCounters");

    return counters ? counters->sub_devices : 1;
}

/* The device answers queries as a root device does. */
static int role_root(void)
{
    cl_device_id parent = fixture.device;
    cl_device_partition_property type[8] = {1};
    cl_uint references = 0, devices = 0;
    cl_ulong bytes = 0;
    size_t size = 99;

    ROLE_CHECK(clGetDeviceIDs(fixture.platform, CL_DEVICE_TYPE_ALL, 0, NULL, &devices) == CL_SUCCESS && devices == 1);
    ROLE_CHECK(units_of(fixture.device) == 1);
    ROLE_CHECK(clGetDeviceInfo(fixture.device, CL_DEVICE_PARENT_DEVICE, sizeof(cl_device_id), &parent, NULL) == 0);
    ROLE_CHECK(parent == NULL);
    ROLE_CHECK(clGetDeviceInfo(fixture.device, CL_DEVICE_PARTITION_TYPE, sizeof type, type, &size) == CL_SUCCESS);
    ROLE_CHECK(size == 0 || type[0] == 0);
    ROLE_CHECK(clGetDeviceInfo(fixture.device, CL_DEVICE_REFERENCE_COUNT, sizeof references, &references, NULL) == 0);
    ROLE_CHECK(references == 1);
    ROLE_CHECK(clGetDeviceInfo(fixture.device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof bytes, &bytes, NULL) == CL_SUCCESS);
    ROLE_CHECK(bytes == FIXTURE_MEMORY);
    return 0;
}

/* A root device has no reference count, so a program that releases it too often must not lose it. */
static int role_release(void)
{
    cl_device_id again = NULL;

    for (int i = 0; i < 5; i++)
        ROLE_CHECK(clReleaseDevice(fixture.device) == CL_SUCCESS);
    ROLE_CHECK(clRetainDevice(fixture.device) == CL_SUCCESS);
    ROLE_CHECK(clGetDeviceIDs(fixture.platform, CL_DEVICE_TYPE_ALL, 1, &again, NULL) == CL_SUCCESS);
    ROLE_CHECK(again == fixture.device && units_of(again) == 1);
    ROLE_CHECK(count_sub_devices() == 1);
    fixture_close();
    ROLE_CHECK(fixture_open());
    ROLE_CHECK(count_sub_devices() == 1);
    return 0;
}

/* Every object that is made on the device names the device that the program knows. */
static int role_objects(void)
{
    cl_device_id device = NULL;
    cl_build_status built = CL_BUILD_NONE;
    size_t group = 0, size = 0;

    ROLE_CHECK(clGetContextInfo(fixture.context, CL_CONTEXT_DEVICES, sizeof(cl_device_id), &device, &size) == 0);
    ROLE_CHECK(device == fixture.device && size == sizeof(cl_device_id));
    ROLE_CHECK(clGetCommandQueueInfo(fixture.queue, CL_QUEUE_DEVICE, sizeof(cl_device_id), &device, NULL) == 0);
    ROLE_CHECK(device == fixture.device);
    if (!fixture.fake) {
        ROLE_CHECK(clGetProgramInfo(fixture.program, CL_PROGRAM_DEVICES, sizeof(cl_device_id), &device, &size) == 0);
        ROLE_CHECK(device == fixture.device && size == sizeof(cl_device_id));
        ROLE_CHECK(clGetProgramBuildInfo(fixture.program, fixture.device, CL_PROGRAM_BUILD_STATUS, sizeof built, &built,
                                         NULL) == CL_SUCCESS);
        ROLE_CHECK(built == CL_BUILD_SUCCESS);
        ROLE_CHECK(clGetKernelWorkGroupInfo(fixture.noop, fixture.device, CL_KERNEL_WORK_GROUP_SIZE, sizeof group,
                                            &group, NULL) == CL_SUCCESS);
        ROLE_CHECK(group > 0);
    }
    ROLE_CHECK(fixture_launch(fixture.noop, NULL) == CL_SUCCESS && clFinish(fixture.queue) == CL_SUCCESS);
    return 0; /* the process ends without releasing its objects */
}

/* The real root device cannot be used. The fake driver gives its handle to every caller, so the layer
 * must refuse it. */
static int role_escape(void)
{
    const cl_queue_properties none[] = {0};
    cl_device_id root = clGetExtensionFunctionAddressForPlatform(fixture.platform, "facetFakeDevice");
    cl_int error = CL_SUCCESS;

    ROLE_CHECK(root && root != fixture.device && units_of(root) > 1);
    ROLE_CHECK(!clCreateContext(NULL, 1, &root, NULL, NULL, &error) && error == CL_INVALID_DEVICE);
    error = CL_SUCCESS;
    ROLE_CHECK(!clCreateCommandQueue(fixture.context, root, 0, &error) && error == CL_INVALID_DEVICE);
    error = CL_SUCCESS;
    ROLE_CHECK(!clCreateCommandQueueWithProperties(fixture.context, root, none, &error));
    ROLE_CHECK(error == CL_INVALID_DEVICE);
    return 0;
}

/* A vGPU of two units may be partitioned like any device, and no further than its own units. */
static int role_partition(void)
{
    const cl_device_partition_property halves[] = {CL_DEVICE_PARTITION_BY_COUNTS, 1, 1, 0, 0};
    const cl_device_partition_property beyond[] = {CL_DEVICE_PARTITION_BY_COUNTS, 1, 2, 0, 0};
    cl_device_id parts[2] = {NULL}, parent = NULL;
    cl_uint count = 0;
    cl_int error = CL_SUCCESS;

    ROLE_CHECK(units_of(fixture.device) == 2);
    ROLE_CHECK(clCreateSubDevices(fixture.device, beyond, 0, NULL, &count) != CL_SUCCESS);
    ROLE_CHECK(clCreateSubDevices(fixture.device, halves, 2, parts, &count) == CL_SUCCESS && count == 2);
    ROLE_CHECK(units_of(parts[1]) == 1);
    ROLE_CHECK(clGetDeviceInfo(parts[1], CL_DEVICE_PARENT_DEVICE, sizeof(cl_device_id), &parent, NULL) == CL_SUCCESS);
    ROLE_CHECK(parent == fixture.device);

    fixture_close();
    cl_context context = clCreateContext(NULL, 1, &parts[1], NULL, NULL, &error);
    ROLE_CHECK(context && error == CL_SUCCESS);
    cl_command_queue queue = clCreateCommandQueue(context, parts[1], 0, &error);
    ROLE_CHECK(queue && clFinish(queue) == CL_SUCCESS);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    ROLE_CHECK(clReleaseDevice(parts[0]) == CL_SUCCESS && clReleaseDevice(parts[1]) == CL_SUCCESS);
    ROLE_CHECK(count_sub_devices() == 1);
    ROLE_CHECK(fixture_open());
    return 0;
}

static pthread_barrier_t threads_start;

static void *first_call(void *unused)
{
    cl_device_id device = NULL;

    pthread_barrier_wait(&threads_start);
    clGetDeviceIDs(NULL, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    return device;
}

/* Threads that ask for the device at the same time, before any other call, get the same sub-device. This role runs over
 * the fake driver only: PoCL 3.1 crashes if several threads are the first to ask, with and without a layer. */
static int role_threads(void)
{
    pthread_t threads[THREADS];
    void *devices[THREADS];

    pthread_barrier_init(&threads_start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        ROLE_CHECK(pthread_create(&threads[i], NULL, first_call, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], &devices[i]);
    ROLE_CHECK(fixture_open());
    for (int i = 0; i < THREADS; i++)
        ROLE_CHECK(devices[i] == fixture.device);
    ROLE_CHECK(units_of(fixture.device) == 1 && count_sub_devices() == 1);
    return 0;
}

/* In a child of fork(), the handle that the parent got is still the vGPU's device. */
static int forked_child(void)
{
    cl_device_id device = NULL;
    cl_int error = CL_SUCCESS;

    ROLE_CHECK(clGetDeviceIDs(fixture.platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS);
    ROLE_CHECK(device == fixture.device && units_of(device) == 1);
    cl_context context = clCreateContext(NULL, 1, &fixture.device, NULL, NULL, &error);
    ROLE_CHECK(context && clReleaseContext(context) == CL_SUCCESS);
    return 0;
}

static int role_fork(void)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(forked_child());
    ROLE_CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ROLE_CHECK(fixture_launch(fixture.noop, NULL) == CL_SUCCESS && clFinish(fixture.queue) == CL_SUCCESS);
    return 0;
}

/* The child uses OpenCL before its parent does, as in most servers. */
static int role_fork_first(void)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(fixture_open() && units_of(fixture.device) == 1 && fixture_launch(fixture.noop, NULL) == CL_SUCCESS &&
                      clFinish(fixture.queue) == CL_SUCCESS
                  ? 0
                  : 1);
    ROLE_CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ROLE_CHECK(fixture_open() && units_of(fixture.device) == 1);
    return 0;
}

static int role_no_device(void)
{
    cl_platform_id platform = NULL;
    cl_uint count = 5;
    cl_int error = CL_SUCCESS;

    ROLE_CHECK(clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS);
    ROLE_CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count) == CL_DEVICE_NOT_FOUND && count == 0);
    ROLE_CHECK(!clCreateContextFromType(NULL, CL_DEVICE_TYPE_ALL, NULL, NULL, &error));
    ROLE_CHECK(error == CL_DEVICE_NOT_FOUND);
    return 0;
}

static const struct role {
    const char *name;
    int (*run)(void);
    bool opened; /* the fixture is opened before the role runs */
} roles[] = {
    {"root", role_root, true},     {"release", role_release, true},        {"objects", role_objects, true},
    {"escape", role_escape, true}, {"partition", role_partition, true},    {"threads", role_threads, false},
    {"fork", role_fork, true},     {"fork-first", role_fork_first, false}, {"no-device", role_no_device, false},
};

static int play_role(const char *name)
{
    alarm(120);
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(roles[i].name, name) == 0)
            return roles[i].opened && !fixture_open() ? 99 : roles[i].run(); /* 99: no context */
    return 98;                                                               /* an unknown role */
}

/* --- tests --- */

static void the_program_sees_a_root_device_of_its_units(void **state)
{
    assert_int_equal(tenant_run(tenant_address(0, 1), "root"), 0);
    assert_int_equal(tenant_run(tenant_address(1, 1), "root"), 0);
    assert_int_equal(tenant_run(tenant_address(all_units - 1, 1), "root"), 0);
}

static void releasing_the_sub_device_changes_nothing(void **state)
{
    assert_int_equal(tenant_run(tenant_address(1, 1), "release"), 0);
}

static void objects_name_the_sub_device_and_work_runs_on_it(void **state)
{
    assert_int_equal(tenant_run(tenant_address(0, 1), "objects"), 0);
    assert_int_equal(tenant_run(tenant_address(1, 1), "objects"), 0);
}

static void the_root_device_is_refused(void **state)
{
    assert_int_equal(tenant_run(tenant_address(1, 1), "escape"), 0);
}

static void a_sub_device_is_partitioned_within_itself(void **state)
{
    assert_int_equal(tenant_run(tenant_address(all_units - 2, 2), "partition"), 0);
}

static void threads_share_one_sub_device(void **state)
{
    for (int i = 0; i < 5; i++)
        assert_int_equal(tenant_run(tenant_address(1, 1), "threads"), 0);
}

static void a_sub_device_survives_fork(void **state)
{
    assert_int_equal(tenant_run(tenant_address(1, 1), "fork"), 0);
    assert_int_equal(tenant_run(tenant_address(1, 1), "fork-first"), 0);
}

static void impossible_units_are_no_device(void **state)
{
    char address[512];

    assert_int_equal(tenant_run(tenant_address(0, all_units + 1), "no-device"), 0);
    assert_int_equal(tenant_run(tenant_address(all_units, 1), "no-device"), 0);
    assert_int_equal(tenant_run(tenant_address(all_units - 1, 2), "no-device"), 0);
    assert_int_equal(tenant_run(tenant_address(UINT32_MAX - 1, 1), "no-device"), 0);
    for (const char *const *units = (const char *const[]){"0+0", "1", "+1", "0+1 ", "-1+1", "00+1", "", NULL}; *units;
         units++) {
        snprintf(address, sizeof address, "%s;units=%s", tenant_address(0, 0), *units);
        assert_int_equal(tenant_run(address, "no-device"), 0);
    }
}

static void a_sub_device_that_the_driver_refuses_is_no_device(void **state)
{
    setenv("FAKE_REFUSE_PARTS", "1", 1);
    int status = tenant_run(tenant_address(1, 1), "no-device");
    unsetenv("FAKE_REFUSE_PARTS");
    assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    const char *driver = argc > 1 ? argv[1] : "pocl";

    fixture.fake = strcmp(driver, "fake") == 0;
    if (argc > 2)
        return play_role(argv[2]);
    if (!tenant_begin(argv[0], driver, 2, &all_units))
        return fixture.fake ? 1 : 0;

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_sees_a_root_device_of_its_units),
        cmocka_unit_test(releasing_the_sub_device_changes_nothing),
        cmocka_unit_test(objects_name_the_sub_device_and_work_runs_on_it),
        test_on_fake(the_root_device_is_refused),
        cmocka_unit_test(a_sub_device_is_partitioned_within_itself),
        test_on_fake(threads_share_one_sub_device),
        cmocka_unit_test(a_sub_device_survives_fork),
        cmocka_unit_test(impossible_units_are_no_device),
        test_on_fake(a_sub_device_that_the_driver_refuses_is_no_device),
    };
    return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
