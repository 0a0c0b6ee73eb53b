/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake libnvidia-ml.so.1 without MIG reports the machine's shared state by the vendor's rules.
 *
 * Owns: a machine of two GPUs, in which this program is one of the processes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "nvml_machine.h"
#include "vendor/cuda/nvml.h"

#define MIB (UINT64_C(1) << 20)

static nvmlDevice_t gpu_handle(unsigned index)
{
    nvmlDevice_t device;

    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(index, &device), NVML_SUCCESS);
    return device;
}

static void sleep_ms(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&time, NULL);
}

static void test_init_and_shutdown_are_counted(void **state)
{
    unsigned count;

    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
    assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
}

static void test_handles_are_found_by_each_identity(void **state)
{
    char uuid[NVML_DEVICE_UUID_BUFFER_SIZE], serial[NVML_DEVICE_SERIAL_BUFFER_SIZE];
    nvmlDevice_t found;
    nvmlPciInfo_t pci;
    unsigned index;

    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(nvmlDeviceGetIndex(gpu_handle(i), &index), NVML_SUCCESS);
        assert_int_equal(index, i);
        assert_int_equal(nvmlDeviceGetUUID(gpu_handle(i), uuid, sizeof uuid), NVML_SUCCESS);
        assert_int_equal(strlen(uuid), 40);
        assert_int_equal(nvmlDeviceGetHandleByUUID(uuid, &found), NVML_SUCCESS);
        assert_ptr_equal(found, gpu_handle(i));
        assert_int_equal(nvmlDeviceGetPciInfo_v3(gpu_handle(i), &pci), NVML_SUCCESS);
        assert_int_equal(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &found), NVML_SUCCESS);
        assert_ptr_equal(found, gpu_handle(i));
        assert_int_equal(nvmlDeviceGetHandleByPciBusId_v2(pci.busIdLegacy, &found), NVML_SUCCESS);
        assert_int_equal(nvmlDeviceGetSerial(gpu_handle(i), serial, sizeof serial), NVML_SUCCESS);
        assert_int_equal(nvmlDeviceGetHandleBySerial(serial, &found), NVML_SUCCESS);
        assert_ptr_equal(found, gpu_handle(i));
    }
    assert_int_equal(nvmlDeviceGetUUID(gpu_handle(0), uuid, 10), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(2, &found), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetHandleByUUID("GPU-nobody", &found), NVML_ERROR_NOT_FOUND);
    assert_int_equal(nvmlDeviceGetIndex((nvmlDevice_t)&index, &index), NVML_ERROR_INVALID_ARGUMENT);
}

static void test_memory_of_all_processes_is_reported(void **state)
{
    nvmlMemory_v2_t memory = {.version = VENDOR_NVML_VERSION(nvmlMemory_v2_t, 2)};
    nvmlProcessInfo_t list[4];
    nvmlMemory_t plain;
    unsigned count = 0;

    assert_true(fake_device_reserve(0, FAKE_PLAIN, 10 * MIB));
    pid_t neighbour = test_machine_neighbour(0, 32 * MIB);
    assert_int_equal(nvmlDeviceGetMemoryInfo(gpu_handle(0), &plain), NVML_SUCCESS);
    assert_int_equal(plain.total, 8196 * MIB); /* 8 GiB, and 4 MiB that the driver reserves */
    assert_int_equal(plain.used, 46 * MIB);    /* both processes', and the reserved memory */
    assert_int_equal(plain.free, 8192 * MIB - 42 * MIB);
    assert_int_equal(nvmlDeviceGetMemoryInfo_v2(gpu_handle(0), &memory), NVML_SUCCESS);
    assert_int_equal(memory.used, 42 * MIB);
    assert_int_equal(memory.reserved, 4 * MIB);
    assert_int_equal(memory.total, 8196 * MIB);
    memory.version = 7;
    assert_int_equal(nvmlDeviceGetMemoryInfo_v2(gpu_handle(0), &memory), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);

    assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(gpu_handle(0), &count, NULL),
                     NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(count, 2);
    count = 4;
    assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(gpu_handle(0), &count, list), NVML_SUCCESS);
    assert_int_equal(count, 2);
    assert_int_equal(list[0].pid, getpid());
    assert_int_equal(list[0].usedGpuMemory, 10 * MIB);
    assert_int_equal(list[1].pid, neighbour);
    count = 4;
    assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(gpu_handle(1), &count, list), NVML_SUCCESS);
    assert_int_equal(count, 0);

    test_machine_dismiss(neighbour);
    assert_int_equal(nvmlDeviceGetMemoryInfo(gpu_handle(0), &plain), NVML_SUCCESS);
    assert_int_equal(plain.used, 14 * MIB);
    fake_device_release(0, FAKE_PLAIN, 10 * MIB);
}

/* The device is busy longer than the test takes, so any sampled period is busy from end to end. */
static void test_utilization_is_sampled(void **state)
{
    nvmlUtilization_t utilization;
    nvmlProcessUtilizationSample_t samples[4];
    unsigned count = 4, idle, busy;

    assert_int_equal(nvmlDeviceGetUtilizationRates(gpu_handle(1), &utilization), NVML_SUCCESS);
    assert_int_equal(utilization.gpu, 0);
    assert_int_equal(nvmlDeviceGetProcessUtilization(gpu_handle(1), samples, &count, 0), NVML_ERROR_NOT_FOUND);
    assert_int_equal(nvmlDeviceGetPowerUsage(gpu_handle(1), &idle), NVML_SUCCESS);
    fake_run(1, 0, UINT64_C(600000000000)); /* 600 s */
    sleep_ms(150);                          /* longer than a sampled period */
    assert_int_equal(nvmlDeviceGetUtilizationRates(gpu_handle(1), &utilization),
                     NVML_SUCCESS); /* the work began within this period */
    sleep_ms(150);
    assert_int_equal(nvmlDeviceGetUtilizationRates(gpu_handle(1), &utilization), NVML_SUCCESS);
    assert_int_equal(utilization.gpu, 100);
    assert_int_equal(nvmlDeviceGetPowerUsage(gpu_handle(1), &busy), NVML_SUCCESS);
    assert_true(busy > idle);
    count = 4;
    assert_int_equal(nvmlDeviceGetProcessUtilization(gpu_handle(1), samples, &count, 0), NVML_SUCCESS);
    assert_int_equal(count, 1);
    assert_int_equal(samples[0].pid, getpid());
    assert_int_equal(nvmlDeviceGetUtilizationRates(gpu_handle(0), &utilization), NVML_SUCCESS);
    assert_int_equal(utilization.gpu, 0);
}

/* A device's time counts while its work runs, not when the work is submitted. */
static void test_device_time_is_counted_when_work_runs(void **state)
{
    /* a device that no other test uses */
    const struct fake_process_device *device = &fake_process()->devices[FAKE_DEVICES - 1];
    uint64_t second_ns = UINT64_C(1000000000), begin_ns = fake_now_ns() + 10 * second_ns;

    fake_run(FAKE_DEVICES - 1, begin_ns, 4 * second_ns);
    fake_run(FAKE_DEVICES - 1, 0, 2 * second_ns);
    assert_int_equal(fake_consumed_ns(device, begin_ns), 0);
    assert_int_equal(fake_consumed_ns(device, begin_ns + 3 * second_ns), 3 * second_ns);
    assert_int_equal(fake_consumed_ns(device, begin_ns + 5 * second_ns), 5 * second_ns);
    assert_int_equal(fake_consumed_ns(device, begin_ns + 9 * second_ns), 6 * second_ns);
}

static void test_events_reach_each_registered_set(void **state)
{
    nvmlEventSet_t set;
    nvmlEventData_t event;

    fake_raise_event(0, nvmlEventTypeXidCriticalError, 31);
    assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceRegisterEvents(gpu_handle(0), nvmlEventTypeXidCriticalError, set), NVML_SUCCESS);
    assert_int_equal(nvmlEventSetWait_v2(set, &event, 0), NVML_ERROR_TIMEOUT);
    fake_raise_event(1, nvmlEventTypeXidCriticalError, 48);
    fake_raise_event(0, nvmlEventTypeClock, 0);
    fake_raise_event(0, nvmlEventTypeXidCriticalError, 79);
    assert_int_equal(nvmlEventSetWait_v2(set, &event, 1000), NVML_SUCCESS);
    assert_ptr_equal(event.device, gpu_handle(0));
    assert_int_equal(event.eventData, 79);
    assert_int_equal(nvmlEventSetWait_v2(set, &event, 10), NVML_ERROR_TIMEOUT);
    assert_int_equal(nvmlDeviceRegisterEvents(gpu_handle(0), UINT64_C(1) << 60, set), NVML_ERROR_NOT_SUPPORTED);
    assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
}

static void test_nvlinks_are_reported(void **state)
{
    nvmlFieldValue_t fields[] = {{.fieldId = NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, .scopeId = UINT32_MAX},
                                 {.fieldId = NVML_FI_DEV_NVLINK_LINK_COUNT},
                                 {.fieldId = 9999}};
    struct fake_health *health = &fake_state()->management.health[0];
    int active, level, status;
    nvmlPciInfo_t remote, other;

    atomic_store(&health->links_down, 1);
    atomic_store(&health->link_tx_kib, 10);
    assert_int_equal(nvmlDeviceGetNvLinkState(gpu_handle(0), 0, &active), NVML_SUCCESS);
    assert_false(active);
    assert_int_equal(nvmlDeviceGetNvLinkState(gpu_handle(0), 1, &active), NVML_SUCCESS);
    assert_true(active);
    assert_int_equal(nvmlDeviceGetNvLinkState(gpu_handle(0), 18, &active), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu_handle(0), 1, &remote), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetPciInfo_v3(gpu_handle(1), &other), NVML_SUCCESS);
    assert_string_equal(remote.busId, other.busId);
    assert_int_equal(nvmlDeviceGetTopologyCommonAncestor(gpu_handle(0), gpu_handle(1), &level), NVML_SUCCESS);
    assert_int_equal(level, NVML_TOPOLOGY_SINGLE);
    assert_int_equal(nvmlDeviceGetP2PStatus(gpu_handle(0), gpu_handle(1), NVML_P2P_CAPS_INDEX_NVLINK, &status),
                     NVML_SUCCESS);
    assert_int_equal(status, NVML_P2P_STATUS_OK);
    assert_int_equal(nvmlDeviceGetP2PStatus(gpu_handle(0), gpu_handle(0), NVML_P2P_CAPS_INDEX_NVLINK, &status),
                     NVML_ERROR_INVALID_ARGUMENT);

    assert_int_equal(nvmlDeviceGetFieldValues(gpu_handle(0), 3, fields), NVML_SUCCESS);
    assert_int_equal(fields[0].value.ullVal, 170); /* 10 KiB over each of the 17 links that are up */
    assert_int_equal(fields[1].value.uiVal, 18);
    assert_int_equal(fields[2].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    atomic_store(&health->links_down, 0);
}

static void test_health_values_are_reported(void **state)
{
    struct fake_health *health = &fake_state()->management.health[0];
    unsigned long long count;
    unsigned celsius;

    atomic_store(&health->celsius, 91);
    atomic_store(&health->uncorrected, 2);
    assert_int_equal(nvmlDeviceGetTemperature(gpu_handle(0), NVML_TEMPERATURE_GPU, &celsius), NVML_SUCCESS);
    assert_int_equal(celsius, 91);
    assert_int_equal(
        nvmlDeviceGetTotalEccErrors(gpu_handle(0), NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &count),
        NVML_SUCCESS);
    assert_int_equal(count, 2);
    atomic_store(&health->celsius, 0);

    nvmlDevice_t device = gpu_handle(0);
    atomic_store(&fake_state()->devices[0].lost, 1);
    assert_int_equal(nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &celsius), NVML_ERROR_GPU_IS_LOST);
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_ERROR_GPU_IS_LOST);
    atomic_store(&fake_state()->devices[0].lost, 0);
}

static int set_up(void **state)
{
    test_machine_make(2, "8G");
    return nvmlInit_v2();
}

static int tear_down(void **state)
{
    test_machine_remove();
    return nvmlShutdown();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init_and_shutdown_are_counted),
        cmocka_unit_test(test_handles_are_found_by_each_identity),
        cmocka_unit_test(test_memory_of_all_processes_is_reported),
        cmocka_unit_test(test_utilization_is_sampled),
        cmocka_unit_test(test_device_time_is_counted_when_work_runs),
        cmocka_unit_test(test_events_reach_each_registered_set),
        cmocka_unit_test(test_nvlinks_are_reported),
        cmocka_unit_test(test_health_values_are_reported),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
