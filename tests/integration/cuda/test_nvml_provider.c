/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the built provider `cuda`: it reports the known state of a fake machine. The conformance suite checks the
 * ABI's rules.
 *
 * Owns: the machine: two GPUs of 8 GB, and one of 80 GB in MIG mode.
 */
#include <unistd.h>

#include "nvml_machine.h"
#include "tests/provider.h"
#include "vendor/cuda/nvml.h"
#include "vendor/cuda/nvml_mig.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static struct facet_provider_instance *instance;

static void set_libraries(const char *nvml, const char *driver)
{
    setenv("FACET_CUDA_NVML", nvml ? nvml : "/nonexistent/libnvidia-ml.so.1", 1);
    setenv("FACET_CUDA_DRIVER", driver ? driver : "/nonexistent/libcuda.so.1", 1);
}

static int open_with(const char *nvml, const char *driver)
{
    struct facet_error error = {0};

    set_libraries(nvml, driver);
    enum facet_status status = provider->device->open(&instance, &error);
    if (status != FACET_OK)
        fprintf(stderr, "%s\n", error.message);
    return status == FACET_OK ? 0 : -1;
}

static int setup(void **state)
{
    return open_with(getenv("FACET_TEST_NVML_REAL"), getenv("FACET_TEST_CUDA_REAL"));
}

static int teardown(void **state)
{
    provider->device->close(instance);
    return 0;
}

static uint32_t list_devices(struct facet_device_info infos[8])
{
    uint32_t count = 0;

    assert_int_equal(provider->device->list(instance, infos, sizeof *infos, 8, &count, NULL), FACET_OK);
    return count;
}

static void test_devices_are_described(void **state)
{
    struct facet_device_info infos[8];
    char uuid[TEST_UUID_SIZE];

    assert_int_equal(list_devices(infos), 3);
    for (uint32_t i = 0; i < 3; i++) {
        test_machine_uuid(i, uuid);
        assert_string_equal(infos[i].uuid, uuid);
        assert_string_equal(infos[i].address, uuid);
        assert_string_equal(infos[i].vendor, "NVIDIA");
        assert_int_equal(infos[i].kind, FACET_DEVICE_GPU);
        assert_true(infos[i].memory_bytes == (i == 2 ? 80 : 8) * GIB);
        assert_int_equal(infos[i].compute_units, 132);
        assert_int_equal(infos[i].clock_mhz, 1980);
        assert_int_equal(infos[i].pcie_generation, 5);
    }
    assert_string_equal(infos[1].pci_address, "0000:02:00.0");
    assert_int_equal(infos[0].modes, FACET_DEVICE_MODE(FACET_MODE_SHARED) | FACET_DEVICE_MODE(FACET_MODE_SOFT));
    assert_int_equal(infos[2].modes, FACET_DEVICE_MODE(FACET_MODE_PARTITIONED));
    assert_int_equal(infos[2].max_partitions, 7);
}

static void test_without_libraries_there_are_no_devices(void **state)
{
    struct facet_device_info infos[8];
    struct facet_error error = {0};
    char text[4096];
    uint32_t size;

    assert_int_equal(open_with(NULL, NULL), 0);
    assert_int_equal(list_devices(infos), 0);
    provider->device->close(instance);

    assert_int_equal(open_with(getenv("FACET_TEST_NVML_REAL"), NULL), 0);
    assert_int_equal(list_devices(infos), 3);
    assert_false(infos[0].valid & FACET_DEVICE_HAS_COMPUTE_UNITS);
    assert_int_equal(provider->device->properties(instance, 0, text, sizeof text, &size, NULL), FACET_OK);
    assert_non_null(strstr(text, "libcuda.so.1 is not found"));
    provider->device->close(instance);

    /* this file exists, but is no library */
    set_libraries("/proc/self/status", NULL);
    assert_int_equal(provider->device->open(&instance, &error), FACET_IO);
}

static void test_an_old_library_still_lists_devices_and_processes(void **state)
{
    struct facet_process_metrics metrics[4];
    struct facet_device_info infos[8];
    uint32_t count;

    pid_t neighbour = test_machine_neighbour(0, 5 * MIB);
    assert_int_equal(open_with(getenv("FACET_TEST_NVML_OLD"), NULL), 0);
    assert_int_equal(list_devices(infos), 3);
    assert_string_equal(infos[0].driver_version, "470.82.01");
    assert_int_equal(provider->metrics->processes(instance, 0, metrics, sizeof *metrics, 4, &count, NULL), FACET_OK);
    assert_int_equal(count, 1);
    assert_int_equal(metrics[0].pid, neighbour);
    provider->device->close(instance);
    test_machine_dismiss(neighbour);
}

static uint32_t list_events(uint64_t after, struct facet_event list[16])
{
    uint32_t count = 0;

    assert_int_equal(provider->device->events(instance, after, list, sizeof *list, 16, &count, NULL), FACET_OK);
    return count;
}

static void test_an_xid_error_is_an_event(void **state)
{
    struct facet_event list[16];

    assert_int_equal(list_events(0, list), 0);
    fake_raise_event(1, nvmlEventTypeXidCriticalError, 79);
    fake_raise_event(0, nvmlEventTypeClock, 0);
    for (int listener = 0; listener < 2; listener++) {
        assert_int_equal(list_events(0, list), 1);
        assert_int_equal(list[0].kind, FACET_EVENT_VENDOR_ERROR);
        assert_int_equal(list[0].device, 1);
        assert_int_equal(list[0].value, 79);
    }
    assert_int_equal(list_events(1, list), 0);
}

static uint32_t health_of(uint32_t device)
{
    uint32_t health = 99; /* no valid value */

    assert_int_equal(provider->device->health(instance, device, &health, NULL), FACET_OK);
    return health;
}

static void test_health_changes_are_events(void **state)
{
    struct fake_health *truth = &fake_state()->management.health[0];
    struct facet_event list[16];
    uint32_t value;

    assert_int_equal(health_of(0), FACET_HEALTH_OK);
    atomic_store(&truth->uncorrected, 3);
    assert_int_equal(health_of(0), FACET_HEALTH_DEGRADED);
    assert_int_equal(health_of(1), FACET_HEALTH_OK);
    assert_int_equal(list_events(0, list), 2);
    assert_int_equal(list[0].kind, FACET_EVENT_HEALTH);
    assert_int_equal(list[1].kind, FACET_EVENT_ECC);
    assert_int_equal(list[1].value, 3);
    atomic_store(&truth->rows_failed, 1);
    assert_int_equal(health_of(0), FACET_HEALTH_FAILED);
    assert_int_equal(list_events(2, list), 1);
    assert_int_equal(list[0].value, FACET_HEALTH_FAILED);
    atomic_store(&truth->rows_failed, 0);
    atomic_store(&truth->uncorrected, 0);

    atomic_store(&fake_state()->devices[1].lost, 1);
    assert_int_equal(provider->device->health(instance, 1, &value, NULL), FACET_DEVICE_LOST);
    uint32_t count = list_events(3, list);
    assert_int_equal(list[count - 1].kind, FACET_EVENT_HOTPLUG);
    assert_int_equal(list[count - 1].device, 1);
    assert_int_equal(list[count - 1].value, 0);
    atomic_store(&fake_state()->devices[1].lost, 0);
}

static void test_throttling_is_an_event(void **state)
{
    struct fake_health *truth = &fake_state()->management.health[1];
    struct facet_device_metrics metrics = {.size = sizeof metrics};
    struct facet_event list[16];

    atomic_store(&truth->throttle, nvmlClocksThrottleReasonHwSlowdown | nvmlClocksThrottleReasonHwThermalSlowdown);
    assert_int_equal(list_events(0, list), 1);
    assert_int_equal(list[0].kind, FACET_EVENT_THROTTLE);
    assert_int_equal(list[0].value, FACET_THROTTLE_THERMAL);
    assert_int_equal(provider->metrics->device(instance, 1, &metrics, NULL), FACET_OK);
    assert_int_equal(metrics.throttle, FACET_THROTTLE_THERMAL);
    atomic_store(&truth->throttle, nvmlClocksThrottleReasonHwSlowdown);
    assert_int_equal(list_events(1, list), 1);
    assert_int_equal(list[0].value, FACET_THROTTLE_FAULT);
    atomic_store(&truth->throttle, 0);
    assert_int_equal(list_events(2, list), 1);
    assert_int_equal(list[0].value, 0);
}

static void test_processes_are_listed_with_their_memory(void **state)
{
    struct facet_process_metrics metrics[4];
    struct facet_device_metrics device = {.size = sizeof device};
    uint32_t count;

    pid_t neighbour = test_machine_neighbour(1, 77 * MIB);
    assert_int_equal(provider->metrics->processes(instance, 1, metrics, sizeof *metrics, 4, &count, NULL), FACET_OK);
    assert_int_equal(count, 1);
    assert_int_equal(metrics[0].pid, neighbour);
    assert_true(metrics[0].memory_used_bytes == 77 * MIB);
    assert_int_equal(provider->metrics->device(instance, 1, &device, NULL), FACET_OK);
    assert_true(device.memory_used_bytes == 77 * MIB);
    assert_int_equal(provider->metrics->processes(instance, 0, metrics, sizeof *metrics, 4, &count, NULL), FACET_OK);
    assert_int_equal(count, 0);
    test_machine_dismiss(neighbour);
}

static struct facet_topology_link link_of(uint32_t a, uint32_t b)
{
    struct facet_topology_link links[8];
    uint32_t count = 0;

    assert_int_equal(provider->device->links(instance, links, sizeof *links, 8, &count, NULL), FACET_OK);
    assert_int_equal(count, 3);
    for (uint32_t i = 0; i < count; i++)
        if (links[i].a == a && links[i].b == b)
            return links[i];
    fail_msg("no link between %u and %u", a, b);
    return links[0];
}

/* Each GPU has eighteen links, which lead to the two other GPUs in turn. */
static void test_topology_has_the_nvlinks(void **state)
{
    struct fake_health *truth = &fake_state()->management.health[0];
    struct facet_topology_link link = link_of(0, 1);

    assert_int_equal(link.type, FACET_LINK_NVLINK);
    assert_int_equal(link.lanes, 9);
    assert_true(link.valid & FACET_LINK_HAS_STATE);
    assert_int_equal(link.up, 1);
    atomic_store(&truth->links_down, 0x15555); /* every second link, that is all links to the next GPU */
    assert_int_equal(link_of(0, 1).lanes, 9);
    assert_int_equal(link_of(0, 1).up, 0);
    assert_int_equal(link_of(0, 2).up, 1);
    atomic_store(&truth->links_down, 0x3ffff); /* all 18 links */
    assert_int_equal(link_of(0, 2).up, 0);
    atomic_store(&truth->links_down, 0);
}

static void test_link_traffic_and_errors_are_reported(void **state)
{
    struct fake_health *truth = &fake_state()->management.health[1];
    struct facet_link_metrics metrics[8];
    uint32_t count;

    atomic_store(&truth->link_rx_kib, 5);
    atomic_store(&truth->link_tx_kib, 7);
    atomic_store(&truth->link_errors, 2);
    assert_int_equal(provider->metrics->links(instance, 1, metrics, sizeof *metrics, 8, &count, NULL), FACET_OK);
    assert_int_equal(count, 2);
    for (uint32_t i = 0; i < count; i++) {
        /* nine NVLinks lead to each of the other GPUs; each has errors of three kinds */
        assert_int_equal(metrics[i].rx_bytes, 9 * 5 * 1024);
        assert_int_equal(metrics[i].tx_bytes, 9 * 7 * 1024);
        assert_int_equal(metrics[i].errors, 9 * 3 * 2);
    }
    assert_int_equal(metrics[0].link, 0); /* leads to the first GPU */
    assert_int_equal(metrics[1].link, 2); /* leads to the third GPU */
    atomic_store(&truth->link_rx_kib, 0);
    atomic_store(&truth->link_tx_kib, 0);
    atomic_store(&truth->link_errors, 0);
}

/* A counter of 32 bits overflows within a tenth of a second, so the provider does not use it. */
static void test_pcie_counters_of_64_bits_are_used(void **state)
{
    struct fake_health *truth = &fake_state()->management.health[0];
    struct facet_device_metrics metrics = {.size = sizeof metrics};
    char text[4096];
    uint32_t size;

    atomic_store(&truth->pcie_rx_bytes, 5 * GIB);
    atomic_store(&truth->pcie_tx_bytes, 6 * GIB);
    atomic_store(&truth->pcie_replays, 3);
    assert_int_equal(provider->metrics->device(instance, 0, &metrics, NULL), FACET_OK);
    assert_true(metrics.valid & FACET_METRIC_PCIE_RX && metrics.valid & FACET_METRIC_PCIE_TX);
    assert_true(metrics.pcie_rx_bytes == 5 * GIB && metrics.pcie_tx_bytes == 6 * GIB);
    assert_int_equal(provider->device->properties(instance, 0, text, sizeof text, &size, NULL), FACET_OK);
    assert_non_null(strstr(text, "pcie_replays=3\n"));
    atomic_store(&truth->pcie_narrow, 1);
    assert_int_equal(provider->metrics->device(instance, 0, &metrics, NULL), FACET_OK);
    assert_false(metrics.valid & (FACET_METRIC_PCIE_RX | FACET_METRIC_PCIE_TX));
    atomic_store(&truth->pcie_narrow, 0);
    atomic_store(&truth->pcie_replays, 0);
}

/* A partition that another program made is listed, even before it is complete, and can be destroyed. */
static void test_partitions_made_by_others_are_listed(void **state)
{
    const struct facet_partition_ops *ops = provider->partition;
    struct facet_partition_info infos[8], made = {.size = sizeof made};
    nvmlGpuInstance_t half;
    nvmlDevice_t gpu;
    uint32_t count;

    assert_int_equal(ops->list(instance, 0, infos, sizeof *infos, 8, &count, NULL), FACET_UNSUPPORTED);
    assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceGetHandleByIndex_v2(2, &gpu), NVML_SUCCESS);
    assert_int_equal(nvmlDeviceCreateGpuInstance(gpu, 9 /* 3g.40gb */, &half), NVML_SUCCESS);
    assert_int_equal(ops->create(instance, 2, "3g.40gb", FACET_PLACEMENT_ANY, &made, NULL), FACET_OK);
    assert_memory_equal(made.uuid, "MIG-", 4);
    assert_string_equal(made.address, made.uuid);

    assert_int_equal(ops->list(instance, 2, infos, sizeof *infos, 8, &count, NULL), FACET_OK);
    assert_int_equal(count, 2);
    assert_int_equal(infos[0].start, 0);
    assert_string_equal(infos[0].uuid, made.uuid);
    assert_string_equal(infos[1].template_id, "3g.40gb");
    assert_int_equal(infos[1].address[0], '\0');
    assert_int_equal(ops->create(instance, 2, "1g.10gb", FACET_PLACEMENT_ANY, &made, NULL), FACET_NO_SPACE);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(ops->destroy(instance, 2, infos[i].uuid, NULL), FACET_OK);
    assert_int_equal(ops->list(instance, 2, infos, sizeof *infos, 8, &count, NULL), FACET_OK);
    assert_int_equal(count, 0);
    assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
}

static int set_up(void **state)
{
    load_provider("cuda");
    test_machine_make(3, "8G,8G,80G");
    fake_state()->management.mig[2].mode = NVML_DEVICE_MIG_ENABLE;
    return 0;
}

static int tear_down(void **state)
{
    test_machine_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_devices_are_described, setup, teardown),
        cmocka_unit_test(test_without_libraries_there_are_no_devices),
        cmocka_unit_test(test_an_old_library_still_lists_devices_and_processes),
        cmocka_unit_test_setup_teardown(test_an_xid_error_is_an_event, setup, teardown),
        cmocka_unit_test_setup_teardown(test_health_changes_are_events, setup, teardown),
        cmocka_unit_test_setup_teardown(test_throttling_is_an_event, setup, teardown),
        cmocka_unit_test_setup_teardown(test_processes_are_listed_with_their_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_topology_has_the_nvlinks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_link_traffic_and_errors_are_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pcie_counters_of_64_bits_are_used, setup, teardown),
        cmocka_unit_test_setup_teardown(test_partitions_made_by_others_are_listed, setup, teardown),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
