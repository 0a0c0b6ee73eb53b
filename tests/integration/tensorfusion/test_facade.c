/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: devices, topology, partitions, limits and snapshots of the facade. Never: tests its readings (test_readings.c).
 */
#include <math.h>
#include <sys/wait.h>

#include "library.h"

/* ---- beginning and end ---- */

static void init_is_counted_and_can_be_repeated(void **state)
{
    size_t count = 0;

    for (int i = 0; i < 3; i++) {
        tf_init_sim("h100");
        assert_int_equal(tf.AccelInit(), ACCEL_SUCCESS);
        assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
        assert_int_equal(tf.AccelGetDeviceCount(&count), ACCEL_SUCCESS);
        assert_int_equal(count, 1);
        tf_end();
    }
}

static void a_missing_provider_is_reported(void **state)
{
    setenv("FACET_PROVIDER_PATH", "/nonexistent/facet-provider-x.so", 1);
    tf_listen();
    assert_int_equal(tf.AccelInit(), ACCEL_ERROR_OPERATION_FAILED);
    assert_true(tf_log.warnings == 1 && tf_log.errors == 1);
    tf_init_sim("h100"); /* the failure does not affect the next init */
    tf_end();
}

static void the_null_provider_has_no_devices(void **state)
{
    ExtendedDeviceInfo device = {0};
    ExtendedDeviceTopology *topology = calloc(1, sizeof *topology);
    size_t count = 9;

    tf_use_provider("null");
    assert_int_equal(tf.AccelInit(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelGetDeviceCount(&count), ACCEL_SUCCESS);
    assert_int_equal(count, 0);
    count = 9;
    assert_int_equal(tf.AccelGetAllDevices(&device, 1, &count), ACCEL_SUCCESS);
    assert_int_equal(count, 0);
    topology->deviceCount = 9;
    assert_int_equal(tf.AccelGetAllDevicesTopology(topology), ACCEL_SUCCESS);
    assert_int_equal(topology->deviceCount, 0);
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
    free(topology);
}

/* ---- devices ---- */

static const char *property_of(const ExtendedDeviceInfo *device, const char *key)
{
    for (size_t i = 0; i < device->props.count; i++) {
        if (strcmp(device->props.properties[i].key, key) == 0)
            return device->props.properties[i].value;
    }
    return NULL;
}

static void assert_every_property_is_listed_once(const ExtendedDeviceInfo *device)
{
    for (size_t i = 0; i < device->props.count; i++)
        assert_ptr_equal(property_of(device, device->props.properties[i].key), device->props.properties[i].value);
}

static void a_device_is_described(void **state)
{
    ExtendedDeviceInfo *device = malloc(sizeof *device);
    size_t count = 0;

    tf_init_sim("h100");
    memset(device, 0xee, sizeof *device);
    assert_int_equal(tf.AccelGetAllDevices(device, 1, &count), ACCEL_SUCCESS);
    assert_int_equal(count, 1);
    assert_true(strlen(device->basic.uuid) > 8);
    assert_non_null(strstr(device->basic.model, "H100"));
    /* The numbers are those of providers/sim/profiles/h100.json. */
    assert_true(device->basic.totalMemoryBytes == UINT64_C(85519761408));
    assert_true(device->basic.totalComputeUnits == 132);
    assert_true(fabs(device->basic.maxTflops - 989.4) < 0.001);
    assert_true(device->basic.pcieGen == 5 && device->basic.pcieWidth == 16);
    assert_true(device->basic.index == 0 && device->basic.numaNode == 0);
    assert_string_equal(device->basic.deviceNode, "/dev/facet-sim/0");
    assert_string_equal(property_of(device, "simulated"), "true");
    assert_every_property_is_listed_once(device);
    assert_string_equal(property_of(device, "compute_capability"), "9.0");
    assert_true(device->virtualizationCapabilities.supportsPartitioning);
    assert_true(device->virtualizationCapabilities.supportsMetrics);
    assert_true(device->virtualizationCapabilities.supportsSnapshot);
    assert_false(device->virtualizationCapabilities.supportsRemoting);
    assert_int_equal(device->virtualizationCapabilities.maxPartitions, 7);
    assert_int_equal(device->virtualizationCapabilities.maxWorkersPerDevice, 48);
    tf_end();
    free(device);
}

static void devices_beyond_the_array_are_left_out_with_a_warning(void **state)
{
    ExtendedDeviceInfo *devices = calloc(9, sizeof *devices);
    size_t count = 0;

    tf_init_sim("h200x8");
    assert_int_equal(tf.AccelGetAllDevices(devices, 3, &count), ACCEL_SUCCESS);
    assert_int_equal(count, 3);
    assert_string_equal(devices[3].basic.uuid, "");
    assert_int_equal(tf_log.warnings, 1);
    assert_non_null(strstr(tf_log.last, "8 devices"));
    assert_int_equal(tf.AccelGetAllDevices(devices, 9, &count), ACCEL_SUCCESS);
    assert_int_equal(count, 8);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(devices[i].basic.index, i);
    assert_int_equal(tf.AccelGetAllDevices(NULL, 3, &count), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetAllDevices(devices, 0, &count), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetAllDevices(devices, 3, NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelGetDeviceCount(NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(count, 8);
    tf_end();
    free(devices);
}

static void devices_of_two_providers_are_in_one_list(void **state)
{
    ExtendedDeviceInfo *devices = calloc(8, sizeof *devices);
    char sim[4096];
    size_t count = 0;

    snprintf(sim, sizeof sim, "%s/facet-provider-sim.so", getenv("FACET_LIB_DIR"));
    tf_use_profile("h100");
    use_fake_provider("", sim);
    assert_int_equal(tf.AccelGetAllDevices(devices, 8, &count), ACCEL_SUCCESS);
    assert_int_equal(count, 3);
    assert_string_equal(devices[1].basic.uuid, "FAKE-1");
    assert_non_null(strstr(devices[2].basic.model, "H100"));
    assert_int_equal(devices[2].basic.index, 2);
    /* A device is found in either provider by its UUID, in upper or lower case. */
    const char *uuids[] = {devices[2].basic.uuid, "fake-0"};
    DeviceMetrics metrics[2] = {0};
    assert_int_equal(tf.AccelGetDeviceMetrics(uuids, 2, metrics), ACCEL_SUCCESS);
    assert_true(metrics[0].powerUsageWatts > 0);
    assert_string_equal(metrics[1].deviceUUID, "FAKE-0");
    tf_end();
    free(devices);
}

/* ---- topology ---- */

static void each_device_lists_all_others_as_peers(void **state)
{
    ExtendedDeviceTopology *topology = calloc(1, sizeof *topology);

    tf_init_sim("h200x8");
    assert_int_equal(tf.AccelGetAllDevicesTopology(topology), ACCEL_SUCCESS);
    assert_int_equal(topology->deviceCount, 8);
    for (size_t i = 0; i < 8; i++) {
        const DeviceTopologyInfo *device = &topology->devices[i];

        assert_int_equal(device->deviceIndex, i);
        assert_int_equal(device->numaNode, i / 4);
        assert_int_equal(device->peerCount, 7);
        for (size_t j = 0; j < device->peerCount; j++) {
            size_t peer = (size_t)device->peers[j].peerIndex;

            assert_true(peer != i && peer < 8);
            assert_string_equal(device->peers[j].peerUUID, topology->devices[peer].deviceUUID);
            assert_int_equal(device->peers[j].topoLevel, TOPO_LEVEL_SINGLE_SWITCH); /* all are behind the NVSwitches */
        }
    }
    assert_int_equal(tf.AccelGetAllDevicesTopology(NULL), ACCEL_ERROR_INVALID_PARAM);
    tf_end();
    free(topology);
}

static void without_links_levels_follow_numa_nodes_of_at_most_64_devices(void **state)
{
    ExtendedDeviceTopology *topology = calloc(1, sizeof *topology);

    use_fake_provider("many", NULL);
    assert_int_equal(tf.AccelGetAllDevicesTopology(topology), ACCEL_SUCCESS);
    assert_int_equal(topology->deviceCount, 64); /* the ABI has no room for all 70 devices */
    assert_int_equal(topology->devices[63].peerCount, 63);
    assert_int_equal(topology->devices[0].peers[0].topoLevel, TOPO_LEVEL_SYSTEM);    /* devices 0 and 1 */
    assert_int_equal(topology->devices[0].peers[1].topoLevel, TOPO_LEVEL_NUMA_NODE); /* devices 0 and 2 */
    assert_int_equal(tf_log.warnings, 1);
    tf_end();
    free(topology);
}

/* ---- partitions ---- */

static bool has_variable(const PartitionResult *partition, const char *text)
{
    for (size_t i = 0; i < MAX_PARTITION_ENVS; i++) {
        if (strcmp(partition->envVars[i], text) == 0)
            return true;
    }
    return false;
}

static void partitions_come_and_go_by_uuid_or_template(void **state)
{
    PartitionResult *first = calloc(1, sizeof *first), *second = calloc(1, sizeof *second);
    char device[UUID_STRING_LENGTH], variable[128];

    tf_init_sim("h100");
    tf_uuid(0, device);
    assert_int_equal(tf.AccelAssignPartition("1g.10gb", device, first), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelAssignPartition("1g.10gb", device, second), ACCEL_SUCCESS);
    assert_string_not_equal(first->deviceUUID, second->deviceUUID);
    snprintf(variable, sizeof variable, "FACET_SIM_VISIBLE_DEVICES=%s", first->deviceUUID);
    assert_true(has_variable(first, variable));
    assert_true(strncmp(first->deviceNodes[0], "/dev/facet-sim/0-slice", 22) == 0);
    assert_int_equal(first->type, PARTITION_TYPE_ENVIRONMENT_VARIABLE);
    /* With two partitions of a template, its name is ambiguous. */
    assert_int_equal(tf.AccelRemovePartition("1g.10gb", device), ACCEL_ERROR_INVALID_PARAM);
    assert_non_null(strstr(tf_log.last, "2 partitions"));
    assert_int_equal(tf.AccelRemovePartition(first->deviceUUID, device), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelRemovePartition(first->deviceUUID, device), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.AccelRemovePartition("1g.10gb", device), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelRemovePartition("1g.10gb", device), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.AccelAssignPartition("7g.80gb", device, first), ACCEL_SUCCESS); /* the whole device is free */
    assert_int_equal(tf.AccelAssignPartition("1g.10gb", device, second), ACCEL_ERROR_RESOURCE_EXHAUSTED);
    assert_int_equal(tf.AccelRemovePartition(first->deviceUUID, device), ACCEL_SUCCESS);
    tf_end();
    free(first);
    free(second);
}

static void partitions_refuse_wrong_arguments_and_keep_the_result(void **state)
{
    PartitionResult *result = malloc(sizeof *result), *before = malloc(sizeof *before);
    char device[UUID_STRING_LENGTH];

    memset(result, 0x5a, sizeof *result);
    memcpy(before, result, sizeof *before);
    tf_init_sim("h100");
    tf_uuid(0, device);
    assert_int_equal(tf.AccelAssignPartition(NULL, device, result), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelAssignPartition("", device, result), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelAssignPartition("1g.10gb", NULL, result), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelAssignPartition("1g.10gb", "", result), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelAssignPartition("1g.10gb", device, NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelAssignPartition("9g.1tb", device, result), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.AccelAssignPartition("1g.10gb", "GPU-nobody", result), ACCEL_ERROR_NOT_FOUND);
    assert_memory_equal(result, before, sizeof *result);
    assert_int_equal(tf.AccelRemovePartition(NULL, device), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelRemovePartition("x", NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelRemovePartition("x", device), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.AccelRemovePartition("x", "GPU-nobody"), ACCEL_ERROR_NOT_FOUND);
    tf_end();
    free(result);
    free(before);
}

static void a_partition_that_cannot_be_reported_is_taken_back(void **state)
{
    PartitionResult *result = calloc(1, sizeof *result);

    use_fake_provider("long", NULL);
    assert_int_equal(tf.AccelAssignPartition("half", "FAKE-0", result), ACCEL_ERROR_RESOURCE_EXHAUSTED);
    assert_string_equal(result->deviceUUID, "");
    assert_int_equal(tf.AccelRemovePartition("half", "FAKE-0"), ACCEL_ERROR_NOT_FOUND);
    tf_end();
    use_fake_provider("nodes", NULL);
    assert_int_equal(tf.AccelAssignPartition("half", "FAKE-0", result), ACCEL_SUCCESS);
    assert_int_equal(result->type, PARTITION_TYPE_DEVICE_NODE);
    assert_string_equal(result->deviceNodes[0], "/dev/fake0=/dev/fake");
    assert_string_equal(result->deviceNodes[1], "");
    assert_string_equal(result->envVars[0], "");
    tf_end();
    free(result);
}

/* ---- limits ---- */

static void limits_are_set_once(void **state)
{
    char device[UUID_STRING_LENGTH];

    tf_init_sim("h100");
    tf_uuid(0, device);
    assert_int_equal(tf.AccelSetMemHardLimit(device, 0), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSetMemHardLimit(NULL, 1), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSetMemHardLimit("GPU-nobody", 1), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.AccelSetMemHardLimit(device, UINT64_C(1) << 50), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSetMemHardLimit(device, UINT64_C(8) << 30), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelSetMemHardLimit(device, UINT64_C(8) << 30), ACCEL_ERROR_OPERATION_FAILED);
    assert_non_null(strstr(tf_log.last, "pid-"));
    assert_int_equal(tf.AccelSetComputeUnitHardLimit(device, 0), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSetComputeUnitHardLimit(device, 101), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSetComputeUnitHardLimit(device, UINT32_MAX), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSetComputeUnitHardLimit(NULL, 50), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSetComputeUnitHardLimit("GPU-nobody", 50), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.AccelSetComputeUnitHardLimit(device, 50), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelSetComputeUnitHardLimit(device, 50), ACCEL_ERROR_OPERATION_FAILED);
    tf_end();
    use_fake_provider("", NULL);
    assert_int_equal(tf.AccelSetMemHardLimit("FAKE-0", 1), ACCEL_ERROR_NOT_SUPPORTED);
    assert_int_equal(tf.AccelSetComputeUnitHardLimit("FAKE-0", 1), ACCEL_ERROR_NOT_SUPPORTED);
    tf_end();
}

/* ---- snapshots ---- */

/* The pid of a process that has just ended. */
static pid_t dead_pid(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    assert_true(pid > 0 && waitpid(pid, NULL, 0) == pid);
    return pid;
}

static void processes_and_devices_are_saved_and_restored(void **state)
{
    pid_t own_pid = getpid();
    SnapshotContext processes = {&own_pid, 1, NULL}, device = {NULL, 0, "FAKE-1"};

    use_fake_provider("", NULL);
    assert_int_equal(tf.AccelSnapshot(&processes), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelSnapshot(&processes), ACCEL_ERROR_OPERATION_FAILED); /* the processes are saved already */
    assert_int_equal(tf.AccelResume(&processes), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelResume(&processes), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.AccelSnapshot(&device), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelResume(&device), ACCEL_SUCCESS);
    tf_end();
}

static void snapshots_refuse_wrong_arguments(void **state)
{
    pid_t dead = dead_pid(), zero = 0, many[MAX_PROCESSES + 1];
    SnapshotContext no_target = {0}, dead_process = {&dead, 1, NULL}, empty_uuid = {NULL, 0, ""},
                    unknown_device = {NULL, 0, "GPU-nobody"};
    SnapshotContext zero_pid = {&zero, 1, NULL}, too_many = {many, MAX_PROCESSES + 1, NULL};

    for (size_t i = 0; i < MAX_PROCESSES + 1; i++)
        many[i] = getpid();
    tf_init_sim("h100");
    assert_int_equal(tf.AccelSnapshot(NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSnapshot(&no_target), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSnapshot(&empty_uuid), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSnapshot(&zero_pid), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSnapshot(&too_many), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelSnapshot(&dead_process), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.AccelSnapshot(&unknown_device), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.AccelResume(NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AccelResume(&no_target), ACCEL_ERROR_INVALID_PARAM);
    tf_end();
    tf_use_provider("null");
    pid_t own_pid = getpid();
    SnapshotContext own_process = {&own_pid, 1, NULL};
    assert_int_equal(tf.AccelInit(), ACCEL_SUCCESS);
    assert_int_equal(tf.AccelSnapshot(&own_process), ACCEL_ERROR_NOT_SUPPORTED);
    assert_int_equal(tf.AccelShutdown(), ACCEL_SUCCESS);
}

static void a_failed_snapshot_is_undone_on_the_provider_that_saved(void **state)
{
    pid_t own_pid = getpid();
    SnapshotContext processes = {&own_pid, 1, NULL};

    use_fake_provider("", getenv("FACET_TEST_PLAYED_ALONE"));
    assert_int_equal(tf.AccelSnapshot(&processes), ACCEL_ERROR_OPERATION_FAILED);
    assert_non_null(strstr(tf_log.last, "the driver refused"));
    assert_int_equal(tf.AccelResume(&processes), ACCEL_ERROR_NOT_FOUND); /* the first provider has nothing saved now */
    tf_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_is_counted_and_can_be_repeated),
        cmocka_unit_test(a_missing_provider_is_reported),
        cmocka_unit_test(the_null_provider_has_no_devices),
        cmocka_unit_test(a_device_is_described),
        cmocka_unit_test(devices_beyond_the_array_are_left_out_with_a_warning),
        cmocka_unit_test(devices_of_two_providers_are_in_one_list),
        cmocka_unit_test(each_device_lists_all_others_as_peers),
        cmocka_unit_test(without_links_levels_follow_numa_nodes_of_at_most_64_devices),
        cmocka_unit_test(partitions_come_and_go_by_uuid_or_template),
        cmocka_unit_test(partitions_refuse_wrong_arguments_and_keep_the_result),
        cmocka_unit_test(a_partition_that_cannot_be_reported_is_taken_back),
        cmocka_unit_test(limits_are_set_once),
        cmocka_unit_test(processes_and_devices_are_saved_and_restored),
        cmocka_unit_test(snapshots_refuse_wrong_arguments),
        cmocka_unit_test(a_failed_snapshot_is_undone_on_the_provider_that_saved),
    };

    tf_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
