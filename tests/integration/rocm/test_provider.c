/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests of the built rocm provider over fakes of AMD SMI, the HIP runtime and the kernel's files, beyond
 * the conformance suite: absent, broken or old libraries, modes of GPUs, events, and the answers of each source.
 * Never: opens a real driver.
 */
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fake/cuda/state.h"
#include "tests/provider.h"
#include "vendor/amdsmi/amdsmi.h"

#define GIB UINT64_C(1073741824)

static char state_folder[64];

/* Each test uses the files of the build: both libraries, and the kernel's files. */
static int use_all_sources(void **state)
{
    (void)state;
    setenv("FACET_ROCM_SMI", getenv("FACET_TEST_AMDSMI"), 1);
    setenv("FACET_ROCM_HIP", getenv("FACET_TEST_HIP"), 1);
    setenv("FACET_ROCM_ROOT", getenv("FACET_TEST_AMDGPU"), 1);
    unsetenv("FACET_ROCM_PARTITIONS");
    return 0;
}

static struct facet_provider_instance *open_provider(struct facet_device_info infos[16], uint32_t expected)
{
    struct facet_provider_instance *instance = NULL;
    struct facet_error error = {0};
    uint32_t count = 0;

    if (provider->device->open(&instance, &error) != FACET_OK)
        fail_msg("open: %s", error.message);
    assert_int_equal(provider->device->list(instance, infos, sizeof infos[0], 16, &count, NULL), FACET_OK);
    assert_int_equal(count, expected);
    return instance;
}

static bool has_property(struct facet_provider_instance *instance, const char *what)
{
    char text[4096];
    uint32_t size;

    assert_int_equal(provider->device->properties(instance, 0, text, sizeof text, &size, NULL), FACET_OK);
    return strstr(text, what);
}

/* --- sources --- */

/* A typing error must neither enable nor disable partitions. */
static void a_switch_other_than_0_and_1_is_refused(void **state)
{
    struct facet_provider_instance *instance = NULL;
    struct facet_error error = {0};

    (void)state;
    setenv("FACET_ROCM_PARTITIONS", "yes", 1);
    assert_int_equal(provider->device->open(&instance, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.message, "FACET_ROCM_PARTITIONS is 'yes': expected 0 or 1");
    assert_null(instance);
    unsetenv("FACET_ROCM_PARTITIONS");
}

static void gpus_are_described_by_all_sources(void **state)
{
    struct facet_device_info infos[16];
    struct facet_provider_instance *instance = open_provider(infos, 2);

    assert_string_equal(infos[0].name, "Fake Instinct 304");
    assert_string_equal(infos[0].vendor, "AMD");
    assert_string_equal(infos[0].address, "amd-fa00000000cade00");
    assert_string_equal(infos[1].address, "amd-fa00000000cade01");
    assert_string_equal(infos[0].pci_address, "0000:05:00.0");
    assert_string_equal(infos[1].pci_address, "0000:25:00.0");
    assert_string_equal(infos[0].driver_version, "6.14.14");
    assert_int_equal(infos[0].compute_units, 304);
    assert_true(infos[0].memory_bytes == 192 * GIB);
    assert_int_equal(infos[0].clock_mhz, 2100);
    assert_int_equal(infos[0].pcie_generation, 5);
    assert_int_equal(infos[0].pcie_width, 16);
    assert_int_equal(infos[1].numa_node, 1);
    assert_true(has_property(instance, "kernel_target=amdgcn:gfx942\n"));
    assert_true(has_property(instance, "compute_partition=SPX\nmemory_partition=NPS1\n"));
    assert_true(has_property(instance, "serial=fa00000000cade00\n"));
    provider->device->close(instance);
}

static void without_amd_smi_the_kernels_files_describe_gpus(void **state)
{
    struct facet_device_info infos[16];
    struct facet_device_metrics metrics = {.size = sizeof metrics};
    struct facet_process_metrics processes[4] = {0};
    uint32_t count = 0, health = FACET_HEALTH_UNKNOWN;

    setenv("FACET_ROCM_SMI", "/nonexistent/libamd_smi.so.26", 1);
    struct facet_provider_instance *instance = open_provider(infos, 2);
    assert_string_equal(infos[0].address, "amd-fa00000000cade00");
    assert_int_equal(infos[0].compute_units, 304);
    assert_true(infos[0].memory_bytes == 192 * GIB);
    assert_false(has_property(instance, "smi_error"));
    assert_int_equal(provider->metrics->device(instance, 0, &metrics, NULL), FACET_OK);
    assert_int_equal(metrics.temperature_mc, 41000);
    assert_int_equal(metrics.power_mw, 141000);
    assert_int_equal(metrics.clock_mhz, 132);
    assert_int_equal(metrics.ecc_corrected, 7);
    assert_true(metrics.memory_used_bytes == 3 * GIB);
    assert_false(metrics.valid & FACET_METRIC_ENERGY);
    assert_int_equal(provider->metrics->processes(instance, 0, processes, sizeof processes[0], 4, &count, NULL),
                     FACET_OK);
    assert_int_equal(count, 1);
    assert_int_equal(processes[0].pid, 4242);
    assert_true(processes[0].memory_used_bytes == 2 * GIB);
    assert_int_equal(provider->metrics->processes(instance, 1, processes, sizeof processes[0], 4, &count, NULL),
                     FACET_OK);
    assert_int_equal(count, 0); /* the process has a file for this GPU, too, but with 0 bytes of memory */
    assert_int_equal(provider->device->health(instance, 0, &health, NULL), FACET_OK);
    assert_int_equal(health, FACET_HEALTH_OK);
    provider->device->close(instance);
}

static void without_any_source_there_are_no_devices(void **state)
{
    struct facet_device_info infos[16];

    setenv("FACET_ROCM_SMI", "/nonexistent/libamd_smi.so.26", 1);
    setenv("FACET_ROCM_ROOT", "/nonexistent", 1);
    provider->device->close(open_provider(infos, 0));
}

/* The fake AMD SMI of ROCm 6.0 ends a process that calls a function whose signature differs in that release. */
static void only_functions_that_both_releases_share_are_called(void **state)
{
    struct facet_device_info infos[16];
    struct facet_device_metrics metrics = {.size = sizeof metrics};

    setenv("FACET_ROCM_SMI", getenv("FACET_TEST_AMDSMI_OLD"), 1);
    struct facet_provider_instance *instance = open_provider(infos, 2);
    assert_int_equal(infos[0].compute_units, 304); /* from the kernel's files */
    assert_string_equal(infos[0].address, "amd-fa00000000cade00");
    assert_int_equal(provider->metrics->device(instance, 0, &metrics, NULL), FACET_OK);
    assert_int_equal(metrics.temperature_mc, 41000);
    assert_true(metrics.valid & FACET_METRIC_ENERGY); /* from the library */
    provider->device->close(instance);
}

static void a_file_that_is_no_library_is_reported_with_the_reason(void **state)
{
    struct facet_device_info infos[16];

    setenv("FACET_ROCM_SMI", "/proc/self/status", 1);
    setenv("FACET_ROCM_HIP", "libm.so.6", 1);
    struct facet_provider_instance *instance = open_provider(infos, 2);
    assert_true(has_property(instance, "smi_error=/proc/self/status"));
    assert_true(has_property(instance, "hip_error=libamdhip64.so has no hipInit"));
    assert_false(infos[0].capabilities & FACET_CAN_MEMORY);
    provider->device->close(instance);
}

/* --- images --- */

static void an_image_that_ends_early_is_refused(void **state)
{
    struct facet_device_info infos[16];
    struct facet_provider_instance *instance = open_provider(infos, 2);
    struct facet_error error = {0};
    uint64_t context, module;
    char image[4096];

    FILE *file = fopen("/proc/self/exe", "rb");
    assert_non_null(file);
    assert_int_equal(fread(image, 1, sizeof image, file), sizeof image);
    fclose(file);
    assert_int_equal(provider->memory->create_context(instance, 0, NULL, "w", &context, NULL), FACET_OK);
    assert_int_equal(provider->execution->load(instance, context, image, sizeof image, &module, &error), FACET_CORRUPT);
    assert_int_equal(provider->execution->load(instance, context, image, 5, &module, &error), FACET_CORRUPT);
    assert_int_equal(provider->memory->destroy_context(instance, context, NULL), FACET_OK);
    provider->device->close(instance);
}

/* --- limits --- */

static uint64_t busy_ns_of(struct facet_provider_instance *instance, const char *worker, uint32_t blocks)
{
    static const char image[] = ".version 7.0 .visible .entry spin_1000us() { ret; }";
    const struct facet_execution_ops *ops = provider->execution;
    struct facet_stream_state now = {.size = sizeof now};
    uint64_t context, module, stream;

    assert_int_equal(provider->memory->create_context(instance, 0, NULL, worker, &context, NULL), FACET_OK);
    assert_int_equal(ops->load(instance, context, image, sizeof image - 1, &module, NULL), FACET_OK);
    assert_int_equal(ops->create_stream(instance, context, &stream, NULL), FACET_OK);
    struct facet_launch launch = {
        .size = sizeof launch, .module = module, .kernel = "spin_1000us", .grid = {blocks, 1, 1}, .group = {64, 1, 1}};
    assert_int_equal(ops->launch(instance, context, stream, &launch, NULL, NULL), FACET_OK);
    assert_int_equal(ops->synchronize(instance, context, stream, UINT64_C(20000000000), NULL), FACET_OK);
    assert_int_equal(ops->query(instance, context, stream, &now, NULL), FACET_OK);
    assert_int_equal(now.failed, 0);
    assert_int_equal(provider->memory->destroy_context(instance, context, NULL), FACET_OK);
    return now.busy_ns;
}

/*
 * The launch has as many work-groups as 304 units run at a time, eight on each. It takes one round on all units, and
 * four rounds on a quarter of them.
 */
static void a_worker_has_its_compute_units_and_no_more(void **state)
{
    struct facet_device_info infos[16];
    struct facet_provider_instance *instance = open_provider(infos, 2);
    const struct facet_limit_ops *ops = provider->limit;

    assert_true(infos[0].capabilities & FACET_CAN_LIMIT_COMPUTE);
    assert_int_equal(ops->set_compute(instance, 0, "quarter", 250, NULL), FACET_OK);
    assert_int_equal(ops->set_compute(instance, 0, "more", 760, NULL), FACET_NO_SPACE);
    assert_int_equal(ops->set_compute(instance, 0, "rest", 750, NULL), FACET_OK);
    uint64_t quarter = busy_ns_of(instance, "quarter", 304 * 8), rest = busy_ns_of(instance, "rest", 304 * 8);
    assert_int_equal(ops->clear(instance, 0, "rest", NULL), FACET_OK);
    uint64_t whole = busy_ns_of(instance, "whole", 304 * 8);
    assert_in_range(quarter, 4 * whole - whole / 10, 4 * whole + whole / 10);
    assert_in_range(rest, 2 * whole - whole / 10, 2 * whole + whole / 10); /* a second round, most of it empty */
    assert_int_equal(ops->set_compute(instance, 0, "more", 750, NULL), FACET_OK);
    provider->device->close(instance);
}

/* --- partitions --- */

static enum facet_status create_partition(struct facet_provider_instance *instance, const char *template_id,
                                          uint32_t start, struct facet_partition_info *ret_info)
{
    ret_info->size = sizeof *ret_info;
    return provider->partition->create(instance, 0, template_id, start, ret_info, NULL);
}

static void a_mode_is_set_with_the_first_partition_and_reset_with_the_last(void **state)
{
    struct facet_device_info infos[16];
    struct facet_partition_info one, other;

    setenv("FACET_ROCM_PARTITIONS", "1", 1);
    struct facet_provider_instance *instance = open_provider(infos, 2);
    assert_int_equal(infos[0].modes, FACET_DEVICE_MODE(FACET_MODE_PARTITIONED));
    assert_int_equal(create_partition(instance, "CPX/NPS1", 3, &one), FACET_OK);
    assert_true(has_property(instance, "compute_partition=CPX\n"));
    assert_int_equal(one.compute_units, 38);
    assert_false(one.valid & FACET_PARTITION_HAS_MEMORY); /* all partitions share the memory */
    assert_string_equal(one.address, "amd-fa00000300cade00");
    assert_int_equal(create_partition(instance, "QPX/NPS1", FACET_PLACEMENT_ANY, &other), FACET_NO_SPACE);
    assert_int_equal(create_partition(instance, "CPX/NPS1", FACET_PLACEMENT_ANY, &other), FACET_OK);
    assert_int_equal(other.start, 0);
    assert_int_equal(provider->partition->destroy(instance, 0, one.uuid, NULL), FACET_OK);
    assert_true(has_property(instance, "compute_partition=CPX\n"));
    assert_int_equal(provider->partition->destroy(instance, 0, other.uuid, NULL), FACET_OK);
    assert_true(has_property(instance, "compute_partition=SPX\n"));
    provider->device->close(instance);
}

static void partitions_outlive_their_creator(void **state)
{
    struct facet_device_info infos[16];
    struct facet_partition_info one, found[8];
    uint32_t count = 0;

    setenv("FACET_ROCM_PARTITIONS", "1", 1);
    struct facet_provider_instance *instance = open_provider(infos, 2);
    assert_int_equal(create_partition(instance, "DPX/NPS1", 4, &one), FACET_OK);
    provider->device->close(instance);
    unsetenv("FACET_ROCM_PARTITIONS"); /* the GPU is partitioned now, also without the variable */
    instance = open_provider(infos, 2);
    assert_int_equal(infos[0].modes, FACET_DEVICE_MODE(FACET_MODE_PARTITIONED));
    assert_int_not_equal(infos[1].modes, FACET_DEVICE_MODE(FACET_MODE_PARTITIONED));
    assert_int_equal(provider->partition->list(instance, 0, found, sizeof found[0], 8, &count, NULL), FACET_OK);
    assert_int_equal(count, 1);
    assert_string_equal(found[0].uuid, one.uuid);
    assert_int_equal(provider->partition->destroy(instance, 0, one.uuid, NULL), FACET_OK);
    provider->device->close(instance);
}

static void memory_partitions_are_reported_if_as_many_as_compute_partitions(void **state)
{
    struct fake_modes *modes = &fake_state()->management.modes[0];
    struct facet_device_info infos[16];
    struct facet_partition_template found[8];
    uint32_t count = 0;

    atomic_store(&modes->memory, AMDSMI_MEMORY_PARTITION_NPS4);
    atomic_store(&modes->compute, AMDSMI_COMPUTE_PARTITION_CPX);
    struct facet_provider_instance *instance = open_provider(infos, 2);
    assert_int_equal(provider->partition->templates(instance, 0, found, sizeof found[0], 8, &count, NULL), FACET_OK);
    assert_int_equal(count, 2);
    assert_string_equal(found[0].id, "QPX/NPS4");
    assert_true(found[0].valid & FACET_PARTITION_HAS_MEMORY);
    assert_string_equal(found[1].id, "CPX/NPS4");
    assert_false(found[1].valid & FACET_PARTITION_HAS_MEMORY);
    provider->device->close(instance);
    atomic_store(&modes->memory, 0);
    atomic_store(&modes->compute, 0);
}

/* Runs `body` in a child, because a process that has used the runtime holds memory of the GPU until it ends. */
static void in_a_child(void (*body)(void))
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        body();
        _exit(0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
}

static void use_and_partition(void)
{
    struct facet_device_info infos[16];
    struct facet_partition_info info;
    struct facet_partition_placement places[8];
    struct facet_error error = {0};
    uint64_t context, address;
    uint32_t count;
    struct facet_provider_instance *user = open_provider(infos, 2);

    if (provider->memory->create_context(user, 0, NULL, "w", &context, NULL) != FACET_OK ||
        provider->memory->alloc(user, context, 1 << 20, &address, NULL) != FACET_OK)
        _exit(1);
    setenv("FACET_ROCM_PARTITIONS", "1", 1);
    struct facet_provider_instance *partitioner = open_provider(infos, 2);
    info.size = sizeof info;
    if (provider->partition->create(partitioner, 0, "DPX/NPS1", 0, &info, &error) != FACET_BUSY ||
        !strstr(error.message, "while a process uses it"))
        _exit(2);
    if (provider->partition->placements(partitioner, 0, "DPX/NPS1", places, sizeof places[0], 8, &count, NULL) !=
            FACET_OK ||
        count != 2 || places[0].free)
        _exit(3);
}

static void a_gpu_in_use_is_not_partitioned(void **state)
{
    in_a_child(use_and_partition);
}

static void partition_and_use(void)
{
    struct facet_device_info infos[16];
    struct facet_error error = {0};
    uint64_t context;
    struct facet_provider_instance *user = open_provider(infos, 2);

    atomic_store(&fake_state()->management.modes[0].compute, AMDSMI_COMPUTE_PARTITION_QPX);
    enum facet_status status = provider->memory->create_context(user, 0, NULL, "w", &context, &error);
    atomic_store(&fake_state()->management.modes[0].compute, 0);
    if (status != FACET_BUSY || !strstr(error.message, "mode QPX"))
        _exit(1);
    if (provider->memory->create_context(user, 0, NULL, "w", &context, &error) != FACET_OK)
        _exit(2);
}

static void a_partitioned_gpu_is_not_used_as_a_whole(void **state)
{
    in_a_child(partition_and_use);
}

/* A record that the provider did not write is ignored. */
static void a_file_of_garbage_counts_as_an_empty_one(void **state)
{
    static const char *const texts[] = {"", "SPX", "SPX ffffffff", "garbage \xff\xfe", "SPX zz SPX", "QPX 3 SPX 1 2"};
    struct facet_device_info infos[16];
    struct facet_partition_info found[8];
    uint32_t count = 9;
    char path[128];

    setenv("FACET_ROCM_PARTITIONS", "1", 1);
    struct facet_provider_instance *instance = open_provider(infos, 2);
    snprintf(path, sizeof path, "%s/rocm-0000:05:00.0", state_folder);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(texts[i], file);
        fclose(file);
        assert_int_equal(provider->partition->list(instance, 0, found, sizeof found[0], 8, &count, NULL), FACET_OK);
        assert_int_equal(count, 0);
    }
    unlink(path);
    provider->device->close(instance);
}

/* A file in the folder records the holders of partitions, so other users must not be able to write to the folder. */
static void a_folder_that_others_may_write_is_refused(void **state)
{
    struct facet_device_info infos[16];
    struct facet_partition_info found[8];
    struct facet_error error;
    uint32_t count = 9;

    setenv("FACET_ROCM_PARTITIONS", "1", 1);
    struct facet_provider_instance *instance = open_provider(infos, 2);
    assert_int_equal(chmod(state_folder, 0770), 0);
    assert_int_equal(provider->partition->list(instance, 0, found, sizeof found[0], 8, &count, &error),
                     FACET_PERMISSION);
    assert_non_null(strstr(error.message, "has mode 0770"));
    assert_int_equal(chmod(state_folder, 0700), 0);
    assert_int_equal(provider->partition->list(instance, 0, found, sizeof found[0], 8, &count, &error), FACET_OK);
    provider->device->close(instance);
}

/* --- events --- */

static void notifications_are_reported(void **state)
{
    struct facet_device_info infos[16];
    struct facet_event events[8];
    uint32_t count = 0;
    struct facet_provider_instance *instance = open_provider(infos, 2);
    struct fake_health *health = &fake_state()->management.health[1];

    fake_raise_event(1, AMDSMI_EVT_NOTIF_THERMAL_THROTTLE, 0);
    fake_raise_event(0, AMDSMI_EVT_NOTIF_VMFAULT, 0);
    fake_raise_event(1, AMDSMI_EVT_NOTIF_GPU_POST_RESET, 0);
    fake_raise_event(1, 40, 0); /* a notification that was not requested */
    atomic_store(&health->uncorrected, 2);
    assert_int_equal(provider->device->events(instance, 0, events, sizeof events[0], 8, &count, NULL), FACET_OK);
    atomic_store(&health->uncorrected, 0);
    assert_int_equal(count, 5);
    assert_int_equal(events[0].kind, FACET_EVENT_THROTTLE);
    assert_int_equal(events[0].value, FACET_THROTTLE_THERMAL);
    assert_int_equal(events[0].device, 1);
    assert_int_equal(events[1].kind, FACET_EVENT_VENDOR_ERROR);
    assert_int_equal(events[1].value, AMDSMI_EVT_NOTIF_VMFAULT);
    assert_int_equal(events[1].device, 0);
    assert_int_equal(events[2].value, AMDSMI_EVT_NOTIF_GPU_POST_RESET);
    assert_int_equal(events[3].kind, FACET_EVENT_HEALTH);
    assert_int_equal(events[4].kind, FACET_EVENT_ECC);
    assert_int_equal(events[4].value, 2);
    provider->device->close(instance);
}

static void a_gpu_that_is_lost_does_not_hide_the_other(void **state)
{
    struct facet_device_info infos[16];
    struct facet_event events[8];
    uint32_t count = 0, health;
    struct facet_provider_instance *instance = open_provider(infos, 2);

    fake_state()->devices[0].lost = 1;
    assert_int_equal(provider->device->health(instance, 0, &health, NULL), FACET_DEVICE_LOST);
    assert_int_equal(provider->device->health(instance, 1, &health, NULL), FACET_OK);
    assert_int_equal(provider->device->events(instance, 0, events, sizeof events[0], 8, &count, NULL), FACET_OK);
    assert_int_equal(count, 1);
    assert_int_equal(events[0].kind, FACET_EVENT_HOTPLUG);
    assert_int_equal(events[0].value, 0);
    struct facet_provider_instance *later = open_provider(infos, 1);
    assert_string_equal(infos[0].pci_address, "0000:25:00.0");
    provider->device->close(later);
    fake_state()->devices[0].lost = 0;
    provider->device->close(instance);
}

static void gpus_are_joined_by_the_fabric_or_by_their_processors(void **state)
{
    struct facet_device_info infos[16];
    struct facet_topology_link links[4];
    uint32_t count = 0;
    struct facet_provider_instance *instance = open_provider(infos, 2);

    assert_int_equal(provider->device->links(instance, links, sizeof links[0], 4, &count, NULL), FACET_OK);
    assert_int_equal(count, 1);
    assert_int_equal(links[0].type, FACET_LINK_XGMI);
    assert_int_equal(links[0].level, FACET_LEVEL_SINGLE_SWITCH);
    provider->device->close(instance);
    setenv("FACET_ROCM_SMI", "/nonexistent/libamd_smi.so.26", 1);
    instance = open_provider(infos, 2);
    assert_int_equal(provider->device->links(instance, links, sizeof links[0], 4, &count, NULL), FACET_OK);
    assert_int_equal(count, 1);
    assert_int_equal(links[0].type, FACET_LINK_PCIE);
    assert_int_equal(links[0].level, FACET_LEVEL_NUMA_NODE);
    provider->device->close(instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(gpus_are_described_by_all_sources, use_all_sources),
        cmocka_unit_test_setup(a_switch_other_than_0_and_1_is_refused, use_all_sources),
        cmocka_unit_test_setup(without_amd_smi_the_kernels_files_describe_gpus, use_all_sources),
        cmocka_unit_test_setup(without_any_source_there_are_no_devices, use_all_sources),
        cmocka_unit_test_setup(only_functions_that_both_releases_share_are_called, use_all_sources),
        cmocka_unit_test_setup(a_file_that_is_no_library_is_reported_with_the_reason, use_all_sources),
        cmocka_unit_test_setup(a_mode_is_set_with_the_first_partition_and_reset_with_the_last, use_all_sources),
        cmocka_unit_test_setup(partitions_outlive_their_creator, use_all_sources),
        cmocka_unit_test_setup(memory_partitions_are_reported_if_as_many_as_compute_partitions, use_all_sources),
        cmocka_unit_test_setup(a_file_of_garbage_counts_as_an_empty_one, use_all_sources),
        cmocka_unit_test_setup(a_folder_that_others_may_write_is_refused, use_all_sources),
        cmocka_unit_test_setup(notifications_are_reported, use_all_sources),
        cmocka_unit_test_setup(a_gpu_that_is_lost_does_not_hide_the_other, use_all_sources),
        cmocka_unit_test_setup(gpus_are_joined_by_the_fabric_or_by_their_processors, use_all_sources),
        cmocka_unit_test_setup(a_gpu_in_use_is_not_partitioned, use_all_sources),
        cmocka_unit_test_setup(a_partitioned_gpu_is_not_used_as_a_whole, use_all_sources),
        cmocka_unit_test_setup(an_image_that_ends_early_is_refused, use_all_sources),
        cmocka_unit_test_setup(a_worker_has_its_compute_units_and_no_more, use_all_sources),
    };
    char file[128];

    snprintf(state_folder, sizeof state_folder, "/tmp/facet-rocm-XXXXXX");
    if (!mkdtemp(state_folder))
        return EXIT_FAILURE;
    snprintf(file, sizeof file, "%s/hip", state_folder);
    setenv("FAKE_HIP_STATE", file, 1);
    setenv("FACET_ROCM_STATE", state_folder, 1);
    load_provider("rocm");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(file);
    for (uint32_t bus = 0x05; bus <= 0x25; bus += 0x20) {
        snprintf(file, sizeof file, "%s/rocm-0000:%02x:00.0", state_folder, bus);
        unlink(file);
    }
    rmdir(state_folder);
    return failed;
}
