/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that the facade checks arguments first, that a call opens the providers that it needs, and that
 * AccelShutdown() leaves nothing open. Never: tests what the calls return for a device (test_facade, test_readings).
 */
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "library.h"

#define CALLERS 4
#define ROUNDS  50

static unsigned entry_count(const char *folder)
{
    DIR *directory = opendir(folder);
    unsigned count = 0;

    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static unsigned open_files(void)
{
    return entry_count("/proc/self/fd");
}

static unsigned
    threads_before; /* entries of /proc/self/task before the first test: main(), and a sanitizer's threads */

static void *do_nothing(void *unused)
{
    return unused;
}

/*
 * Whether all threads and child processes of the facade have ended. Waits up to 5 s, because a thread that was joined
 * may still be listed for a moment.
 */
static bool threads_have_ended(void)
{
    for (int i = 0; i < 5000 && entry_count("/proc/self/task") != threads_before; i++)
        usleep(1000);
    return entry_count("/proc/self/task") == threads_before && waitpid(-1, NULL, WNOHANG | __WALL) == -1 &&
           errno == ECHILD;
}

static void use_sim(const char *profile)
{
    tf_use_provider("sim");
    tf_use_profile(profile);
    tf_listen();
}

/* ---- arguments ---- */

static void accel_functions_check_their_arguments_first(void **state)
{
    static ExtendedDeviceInfo device;
    static ExtendedDeviceTopology topology;
    static PartitionResult partition;
    const char *uuid = "x", *none = NULL, *empty = "";
    DeviceMetrics metrics;
    ProcessInformation process;
    SnapshotContext empty_context = {0};
    MountPath mount;
    size_t count;
    unsigned files_before = open_files();

    use_sim("h100");
    assert_int_equal(tf.AccelGetDeviceCount(NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetAllDevices(NULL, 1, &count), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetAllDevices(&device, 0, &count), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetAllDevices(&device, 1, NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetAllDevicesTopology(NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelAssignPartition(NULL, uuid, &partition), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelAssignPartition("t", NULL, &partition), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelAssignPartition("t", uuid, NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelRemovePartition(NULL, uuid), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelRemovePartition("t", NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSetMemHardLimit(NULL, 1), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSetMemHardLimit(uuid, 0), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSetComputeUnitHardLimit(NULL, 50), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSetComputeUnitHardLimit(uuid, 0), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSetComputeUnitHardLimit(uuid, 150), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSnapshot(NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSnapshot(&empty_context), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelResume(&empty_context), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetProcessInformation(NULL, 1, &count), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetProcessInformation(&process, 0, &count), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetProcessInformation(&process, 1, NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetDeviceMetrics(NULL, 1, &metrics), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetDeviceMetrics(&uuid, 0, &metrics), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetDeviceMetrics(&uuid, 1, NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetDeviceMetrics(&none, 1, &metrics), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetDeviceMetrics(&empty, 1, &metrics), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetVendorMountLibs(NULL, 1, &count), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetVendorMountLibs(&mount, 0, &count), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetVendorMountLibs(&mount, 1, NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(open_files(), files_before); /* no provider was opened for these calls */
    assert_true(threads_have_ended());
    assert_int_equal(tf.AccelGetAllDevicesTopology(&topology), ACCEL_SUCCESS);
    tf_end();
}

static void limiter_functions_check_their_arguments_first(void **state)
{
    LimiterDeviceConfig config = {.deviceUUID = "x", .memLimit = 1, .upLimit = 101};
    MemoryOpRecord memory;
    ComputeOpRecord compute;
    WorkerFreezeState frozen;

    tf_listen();
    assert_int_equal(tf.CheckAndRecordMemoryOps("no pid", "x", 1, &memory), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.CheckAndRecordMemoryOps("1", NULL, 1, &memory), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.CheckAndRecordMemoryOps("1", "x", 1, NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.CheckAndRecordComputeOps(NULL, "x", 1, &compute), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.CheckAndRecordComputeOps("1", "x", UINT64_MAX, &compute), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.FreezeWorker(NULL, &frozen), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.FreezeWorker("pod", NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.ResumeWorker("", &frozen), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AutoFreeze(NULL, "x", "memory"), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AutoFreeze("pod", "x", "time"), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AutoResume("pod", NULL, "memory"), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AddWorkerProcess(NULL, "1"), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AddWorkerProcess("x", "0"), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterCreateWorker(NULL, "pod", &config, 1), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterCreateWorker("ns", "pod", NULL, 1), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterCreateWorker("ns", "pod", &config, 0), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterCreateWorker("ns", "pod", &config, 1), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterRemoveWorker("ns", NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterRegisterPID("ns", "pod", 0), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterUpdateERL("ns", "pod", 0, 0, 1.0, 1), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterUpdateHeartbeat("../x", "pod", 1), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterSetPodMemoryUsed("ns", "", 0, 1), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelRegisterLogCallback(NULL), ACCEL_SUCCESS);
}

/* ---- opening ---- */

/* Each call but the first is the first one after a shutdown, without an init. */
static void each_function_opens_the_providers_it_needs(void **state)
{
    static ExtendedDeviceInfo device;
    static ExtendedDeviceTopology topology;
    static PartitionResult partition;
    const pid_t own_pid = getpid();
    SnapshotContext processes = {(pid_t *)&own_pid, 1, NULL};
    ProcessInformation process;
    DeviceMetrics metrics;
    MountPath mount;
    size_t count = 0;

    use_sim("h100");
    assert_int_equal(tf.AccelInit(), ACCEL_SUCCESS); /* TensorFusion's own test begins like this */
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelGetDeviceCount(&count), ACCEL_SUCCESS);
    assert_int_equal(count, 1);
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelGetAllDevices(&device, 1, &count), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    const char *uuid = device.basic.uuid;
    assert_int_equal(tf.AccelGetAllDevicesTopology(&topology), ACCEL_SUCCESS);
    assert_string_equal(topology.devices[0].deviceUUID, uuid);
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelAssignPartition("1g.10gb", uuid, &partition), ACCEL_SUCCESS);
    /* No shutdown between these two: the partition would end with its provider. */
    assert_int_equal(tf.AccelRemovePartition("1g.10gb", uuid), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelSetMemHardLimit(uuid, UINT64_C(4) << 30), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelSetComputeUnitHardLimit(uuid, 50), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelGetProcessInformation(&process, 1, &count), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelGetDeviceMetrics(&uuid, 1, &metrics), ACCEL_SUCCESS);
    assert_string_equal(metrics.deviceUUID, uuid);
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelGetVendorMountLibs(&mount, 1, &count), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelSnapshot(&processes), ACCEL_ERROR_NOT_FOUND); /* this process has nothing on the device */
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelResume(&processes), ACCEL_ERROR_NOT_FOUND);
    tf_end();
}

/* An init keeps the providers that a call has opened. Each init needs a shutdown of its own. */
static void an_init_keeps_open_providers(void **state)
{
    static PartitionResult partition;
    char uuid[UUID_STRING_LENGTH];

    use_sim("h100");
    tf_uuid(0, uuid);
    assert_int_equal(tf.AccelAssignPartition("1g.10gb", uuid, &partition), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelInit(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelInit(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelRemovePartition(partition.deviceUUID, uuid), ACCEL_SUCCESS);
    tf_end();
    assert_true(threads_have_ended());
}

static void each_call_reports_a_provider_that_cannot_be_opened(void **state)
{
    size_t count = 77;

    setenv("FACET_PROVIDER_PATH", "/nonexistent/facet-provider-x.so", 1);
    tf_listen();
    for (unsigned i = 1; i <= 2; i++) {
        assert_int_equal(tf.AccelGetDeviceCount(&count), ACCEL_ERROR_OPERATION_FAILED);
        assert_int_equal(tf_log.errors, i);
        assert_non_null(strstr(tf_log.last_warning, "/nonexistent/facet-provider-x.so"));
    }
    assert_int_equal(count, 77); /* unchanged */
    use_sim("h100");             /* the failure does not affect the next call */
    assert_int_equal(tf.AccelGetDeviceCount(&count), ACCEL_SUCCESS);
    assert_int_equal(count, 1);
    tf_end();
}

static void a_place_other_than_child_or_process_is_refused(void **state)
{
    size_t count = 77;

    (void)state;
    use_sim("h100");
    tf_listen();
    setenv("FACET_TENSORFUSION_PLACE", "parent", 1);
    assert_int_equal(tf.AccelGetDeviceCount(&count), ACCEL_ERROR_OPERATION_FAILED);
    assert_int_equal(tf_log.errors, 1);
    assert_int_equal(count, 77);
    setenv("FACET_TENSORFUSION_PLACE", "child", 1);
    assert_int_equal(tf.AccelGetDeviceCount(&count), ACCEL_SUCCESS);
    unsetenv("FACET_TENSORFUSION_PLACE");
    tf_end();
}

/* ---- closing ---- */

static void after_a_shutdown_nothing_is_left(void **state)
{
    size_t count;
    unsigned files_before = open_files();

    for (int i = 0; i < 3; i++) {
        use_sim("h100");
        if (i == 1)
            assert_int_equal(tf.AccelInit(), ACCEL_SUCCESS);
        assert_int_equal(tf.AccelGetDeviceCount(&count), ACCEL_SUCCESS);
        assert_true(open_files() > files_before);
        tf_end();
        assert_int_equal(open_files(), files_before);
        assert_true(threads_have_ended());
    }
}

static void a_shutdown_of_nothing_succeeds(void **state)
{
    tf_listen();
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf.LimiterShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf_log.count, 0);
    tf_end();
}

static atomic_uint callers_running;

static void *call_repeatedly(void *argument)
{
    bool *passed = argument;
    size_t count = 0;

    *passed = true;
    for (int i = 0; i < ROUNDS && *passed; i++)
        *passed = tf.AccelGetDeviceCount(&count) == ACCEL_SUCCESS && count == 1;
    atomic_fetch_sub(&callers_running, 1);
    return NULL;
}

/* After a shutdown, other threads' calls open the providers again. */
static void calls_succeed_while_another_thread_shuts_down(void **state)
{
    pthread_t threads[CALLERS];
    bool passed[CALLERS];

    use_sim("h100");
    atomic_store(&callers_running, CALLERS);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_repeatedly, &passed[i]), 0);
    while (atomic_load(&callers_running))
        assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < CALLERS; i++)
        assert_true(passed[i]);
    tf_end();
    assert_true(threads_have_ended());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accel_functions_check_their_arguments_first),
        cmocka_unit_test(limiter_functions_check_their_arguments_first),
        cmocka_unit_test(each_function_opens_the_providers_it_needs),
        cmocka_unit_test(an_init_keeps_open_providers),
        cmocka_unit_test(each_call_reports_a_provider_that_cannot_be_opened),
        cmocka_unit_test(a_place_other_than_child_or_process_is_refused),
        cmocka_unit_test(after_a_shutdown_nothing_is_left),
        cmocka_unit_test(a_shutdown_of_nothing_succeeds),
        cmocka_unit_test(calls_succeed_while_another_thread_shuts_down),
    };

    tf_open();
    pthread_t thread;

    /* A sanitizer starts threads of its own when the program starts its first thread. */
    assert_int_equal(pthread_create(&thread, NULL, do_nothing, NULL), 0);
    pthread_join(thread, NULL);
    threads_before = entry_count("/proc/self/task");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
