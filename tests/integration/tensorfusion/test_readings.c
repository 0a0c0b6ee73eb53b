/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests of the values that the Accel functions read (metrics, mounts), of providers that die, of callbacks and
 * threads, and of how much smaller device lists are in Facet's own ABI.
 * Never: tests devices, partitions and limits (test_facade).
 */
#include <math.h>

#include <jansson.h>

#include <facet/session.h>

#include "library.h"

#define THREADS 8
#define ROUNDS  12

/* ---- metrics ---- */

static void processes_are_reported(void **state)
{
    ProcessInformation processes[8];
    size_t count = 0;

    use_fake_provider("", NULL);
    assert_int_equal(tf.AccelGetProcessInformation(processes, 8, &count), ACCEL_SUCCESS);
    assert_int_equal(count, 4); /* the fake provider reports two processes on each of its two devices */
    assert_string_equal(processes[0].processId, "11");
    assert_string_equal(processes[0].deviceUUID, "FAKE-0");
    assert_true(processes[0].memoryUsedBytes == 250 && processes[0].totalSMs == 10);
    assert_true(fabs(processes[0].memoryUtilizationPercent - 25.0) < 1e-9);
    assert_true(fabs(processes[1].computeUtilizationPercent - 42.5) < 1e-9);
    assert_true(processes[1].activeSMs == 4);
    assert_int_equal(tf.AccelGetProcessInformation(processes, 3, &count), ACCEL_SUCCESS);
    assert_int_equal(count, 3);
    assert_int_equal(tf_log.warnings, 1);
    assert_int_equal(tf.AccelGetProcessInformation(NULL, 3, &count), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetProcessInformation(processes, 0, &count), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetProcessInformation(processes, 3, NULL), ACCEL_ERROR_INVALID_PARAM);
    tf_end();
}

static void metrics_are_all_or_nothing(void **state)
{
    char device[UUID_STRING_LENGTH];
    DeviceMetrics metrics[2], before[2];
    const char *known[1], *with_unknown[2], *with_null[2];

    tf_init_sim("h100");
    tf_uuid(0, device);
    known[0] = with_unknown[0] = with_null[0] = device;
    with_unknown[1] = "GPU-nobody";
    with_null[1] = NULL;
    memset(metrics, 0x5a, sizeof metrics);
    memcpy(before, metrics, sizeof before);
    assert_int_equal(tf.AccelGetDeviceMetrics(with_unknown, 2, metrics), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.AccelGetDeviceMetrics(with_null, 2, metrics), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetDeviceMetrics(NULL, 1, metrics), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetDeviceMetrics(known, 0, metrics), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetDeviceMetrics(known, 1, NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_memory_equal(metrics, before, sizeof metrics);
    assert_int_equal(tf.AccelGetDeviceMetrics(known, 1, metrics), ACCEL_SUCCESS);
    assert_string_equal(metrics[0].deviceUUID, device);
    assert_true(metrics[0].powerUsageWatts >= 50 && metrics[0].powerUsageWatts < 1000);
    assert_true(metrics[0].temperatureCelsius > 0 && metrics[0].temperatureCelsius < 120);
    assert_true(metrics[0].extraMetricsCount > 0 && metrics[0].extraMetricsCount <= MAX_EXTRA_METRICS);
    assert_memory_equal(&metrics[1], &before[1], sizeof *metrics);
    tf_end();
}

static void unmeasured_values_are_not_among_the_extras(void **state)
{
    const char *uuid = "FAKE-1";
    DeviceMetrics metrics;

    use_fake_provider("", NULL);
    assert_int_equal(tf.AccelGetDeviceMetrics(&uuid, 1, &metrics), ACCEL_SUCCESS);
    assert_int_equal(metrics.utilizationPercent, 51);
    assert_int_equal(metrics.extraMetricsCount, 0);
    assert_true(metrics.powerUsageWatts == 0);
    tf_end();
}

/* ---- mounts ---- */

static void shared_files_are_listed_once(void **state)
{
    MountPath mounts[8];
    size_t count = 0;

    use_fake_provider("", NULL);
    assert_int_equal(tf.AccelGetVendorMountLibs(mounts, 8, &count), ACCEL_SUCCESS);
    assert_int_equal(count, 3); /* the shared file once, and a file for each device */
    assert_string_equal(mounts[0].hostPath, "/opt/fake");
    assert_string_equal(mounts[2].hostPath, "/opt/fake1");
    assert_string_equal(mounts[2].guestPath, "/opt/own");
    assert_int_equal(tf.AccelGetVendorMountLibs(mounts, 1, &count), ACCEL_SUCCESS);
    assert_int_equal(count, 1);
    assert_int_equal(tf_log.warnings, 1);
    assert_int_equal(tf.AccelGetVendorMountLibs(NULL, 1, &count), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetVendorMountLibs(mounts, 0, &count), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetVendorMountLibs(mounts, 1, NULL), ACCEL_ERROR_INVALID_PARAM);
    tf_end();
}

/* ---- vendor code that dies ---- */

static void a_provider_that_crashes_is_opened_again(void **state)
{
    char fuse[] = "/tmp/facet-fake-XXXXXX";
    const char *uuid = "FAKE-0";
    DeviceMetrics metrics;
    size_t count = 0;
    int fd = mkstemp(fuse);

    assert_true(fd >= 0);
    close(fd);
    setenv("FACET_PLAYED_FUSE", fuse, 1);
    use_fake_provider("crash", NULL);
    assert_int_equal(tf.AccelGetDeviceMetrics(&uuid, 1, &metrics), ACCEL_ERROR_OPERATION_FAILED);
    assert_non_null(strstr(tf_log.last, "signal"));
    /* The provider is lost, but this process goes on. Only a call that lists devices opens the provider again. */
    assert_int_not_equal(tf.AccelGetDeviceMetrics(&uuid, 1, &metrics), ACCEL_SUCCESS);
    unlink(fuse);
    assert_int_equal(tf.AccelGetDeviceCount(&count), ACCEL_SUCCESS);
    assert_int_equal(count, 2);
    assert_int_equal(tf.AccelGetDeviceMetrics(&uuid, 1, &metrics), ACCEL_SUCCESS);
    tf_end();
}

/* ---- messages ---- */

static unsigned callback_calls;

static void log_and_call(const char *level, const char *message)
{
    size_t count;

    /* The callback may call the library: no lock is held while it runs. The refused call runs the callback again. */
    if (callback_calls++ < 3)
        tf.AccelGetAllDevices(NULL, 0, &count);
    tf.AccelInit();
    tf.AccelShutdown();
}

static void the_callback_may_call_back(void **state)
{
    size_t count;

    tf_init_sim("h100");
    callback_calls = 0;
    assert_int_equal(tf.AccelRegisterLogCallback(log_and_call), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelGetAllDevices(NULL, 0, &count), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(callback_calls, 4);
    assert_int_equal(tf.AccelRegisterLogCallback(NULL), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelGetAllDevices(NULL, 0, &count), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(callback_calls, 4);
    tf_end();
}

/* ---- threads ---- */

struct job {
    unsigned number;
    const char *uuid;
    bool passed;
};

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return false;                                                                                              \
    } while (0)

static bool use_device(unsigned number, const char *uuid)
{
    static _Thread_local ExtendedDeviceInfo devices[8];
    static _Thread_local ExtendedDeviceTopology topology;
    static _Thread_local PartitionResult partition;
    static _Thread_local DeviceMetrics metrics;
    ProcessInformation processes[4];
    MountPath mounts[8];
    size_t count = 0;

    CHECK(tf.AccelInit() == ACCEL_SUCCESS);
    CHECK(tf.AccelGetDeviceCount(&count) == ACCEL_SUCCESS && count == 1);
    CHECK(tf.AccelGetAllDevices(devices, 8, &count) == ACCEL_SUCCESS && count == 1);
    CHECK(strcmp(devices[0].basic.uuid, uuid) == 0);
    CHECK(tf.AccelGetAllDevicesTopology(&topology) == ACCEL_SUCCESS && topology.deviceCount == 1);
    CHECK(tf.AccelGetDeviceMetrics(&uuid, 1, &metrics) == ACCEL_SUCCESS);
    CHECK(tf.AccelGetProcessInformation(processes, 4, &count) == ACCEL_SUCCESS);
    CHECK(tf.AccelGetVendorMountLibs(mounts, 8, &count) == ACCEL_SUCCESS);
    CHECK(tf.AccelRegisterLogCallback(number % 2 ? tf_log_message : NULL) == ACCEL_SUCCESS);
    if (number < 7) { /* the device has room for seven of the smallest partitions */
        CHECK(tf.AccelAssignPartition("1g.10gb", uuid, &partition) == ACCEL_SUCCESS);
        CHECK(tf.AccelRemovePartition(partition.deviceUUID, uuid) == ACCEL_SUCCESS);
    }
    return tf.AccelShutdown() == ACCEL_SUCCESS;
}

static void *use_repeatedly(void *argument)
{
    struct job *job = argument;

    job->passed = true;
    for (int round = 0; round < ROUNDS && job->passed; round++)
        job->passed = use_device(job->number, job->uuid);
    return NULL;
}

static void eight_threads_use_everything(void **state)
{
    char uuid[UUID_STRING_LENGTH];
    struct job jobs[THREADS];
    pthread_t threads[THREADS];

    tf_init_sim("h100");
    tf_uuid(0, uuid);
    for (unsigned i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){i, uuid, false};
        assert_int_equal(pthread_create(&threads[i], NULL, use_repeatedly, &jobs[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (!jobs[i].passed)
            fail_msg("thread %u: %s", i, tf_log.last);
    }
    tf_end();
}

/* ---- the size of device lists ---- */

/* Writes the profile of a machine with 64 devices, made from a shipped profile. */
static void write_big_profile(const char *path)
{
    char source[4096];
    json_error_t error;

    snprintf(source, sizeof source, "%s/providers/sim/profiles/h100.json", getenv("FACET_TEST_SOURCE"));
    json_t *profile = json_load_file(source, 0, &error);
    if (!profile)
        fail_msg("%s: %s", source, error.text);
    json_t *devices = json_array();
    for (int i = 0; i < 64; i++) {
        char address[16];

        snprintf(address, sizeof address, "0000:%02x:00.0", i + 1);
        json_array_append_new(
            devices, json_pack("{s:s,s:i,s:s}", "product", "h100-sxm", "numa_node", i % 2, "pci_address", address));
    }
    json_object_set_new(profile, "devices", devices);
    json_object_set_new(profile, "nodes", json_array());
    json_object_set_new(profile, "links", json_array());
    assert_int_equal(json_dump_file(profile, path, 0), 0);
    json_decref(profile);
}

/* The bytes with which Facet's own ABI describes all devices: their structs and properties. */
static size_t facet_bytes(uint32_t *ret_devices)
{
    struct facet_device_info infos[64];
    struct facet_session *session;
    struct facet_error error = {0};
    char text[4096];
    uint32_t count = 0;
    size_t bytes = 0;

    if (facet_session_open(getenv("FACET_PROVIDER_PATH"), NULL, &session, &error) != FACET_OK)
        fail_msg("%s", error.message);
    const struct facet_device_ops *device = facet_session_provider(session)->device;
    struct facet_provider_instance *instance = facet_session_instance(session);
    assert_int_equal(device->list(instance, infos, sizeof *infos, 64, &count, NULL), FACET_OK);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = 0;

        assert_int_equal(device->properties(instance, i, text, sizeof text, &size, NULL), FACET_OK);
        bytes += infos[i].size + size;
    }
    facet_session_close(session);
    *ret_devices = count;
    return bytes;
}

static void discovery_of_64_devices_takes_a_twentieth_of_the_bytes(void **state)
{
    char path[] = "/tmp/facet-profile-XXXXXX";
    size_t tensorfusion_bytes = 64 * sizeof(ExtendedDeviceInfo), count = 0;
    uint32_t devices;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    write_big_profile(path);
    tf_use_provider("sim");
    setenv("FACET_SIM_PROFILE", path, 1);
    size_t facet_total = facet_bytes(&devices);
    assert_int_equal(devices, 64);
    print_message("# 64 devices: %zu bytes in Facet's ABI, %zu in TensorFusion's: 1 to %.1f\n", facet_total,
                  tensorfusion_bytes, (double)tensorfusion_bytes / (double)facet_total);
    assert_true(facet_total * 20 <= tensorfusion_bytes);
    /* The facade reports the same devices, in the larger structs of TensorFusion's ABI. */
    assert_int_equal(tf.AccelInit(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelGetDeviceCount(&count), ACCEL_SUCCESS);
    assert_int_equal(count, 64);
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_are_reported),
        cmocka_unit_test(metrics_are_all_or_nothing),
        cmocka_unit_test(unmeasured_values_are_not_among_the_extras),
        cmocka_unit_test(shared_files_are_listed_once),
        cmocka_unit_test(a_provider_that_crashes_is_opened_again),
        cmocka_unit_test(the_callback_may_call_back),
        cmocka_unit_test(eight_threads_use_everything),
        cmocka_unit_test(discovery_of_64_devices_takes_a_twentieth_of_the_bytes),
    };

    tf_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
