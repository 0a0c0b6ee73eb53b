/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs about one scan of a machine: its functions, the values read of them, the distances between them. Never:
 * judges functions. The output for whole machines is in tests/golden/pci.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>

#include "machine.h"

static void functions_come_by_address_and_are_found(void **state)
{
    struct machine machine;

    machine_plant(&machine, "vmd");
    struct facet_pci_snapshot *snapshot = machine_scan(&machine, 0);
    const uint32_t count = facet_pci_snapshot_count(snapshot);
    assert_int_equal(count, 5);
    for (uint32_t i = 0; i < count; i++) {
        const struct facet_pci_function *function = facet_pci_snapshot_at(snapshot, i);

        assert_int_equal(function->size, sizeof *function);
        assert_ptr_equal(facet_pci_snapshot_find(snapshot, &function->address), function);
        if (i > 0)
            assert_true(
                facet_pci_address_compare(&facet_pci_snapshot_at(snapshot, i - 1)->address, &function->address) < 0);
    }
    assert_null(facet_pci_snapshot_at(snapshot, count));
    struct facet_pci_address nowhere = address_of("ffff:00:00.0");
    assert_null(facet_pci_snapshot_find(snapshot, &nowhere));
    const struct facet_pci_function *disk = function_of(snapshot, "10000:e1:00.0");
    assert_int_equal(disk->bridge_count, 1); /* functions of the parent domain do not count */
    assert_int_equal(disk->kind, FACET_PCI_KIND_STORAGE);
    facet_pci_snapshot_destroy(snapshot);
    machine_remove(&machine);
    facet_pci_snapshot_destroy(NULL);
}

static void kinds_are_by_class_or_model(void **state)
{
    static const struct {
        const char *machine, *address;
        uint32_t kind;
    } cases[] = {
        {"laptop", "00:00.0", FACET_PCI_KIND_BRIDGE},   {"laptop", "00:02.0", FACET_PCI_KIND_GPU},
        {"laptop", "01:00.1", FACET_PCI_KIND_AUDIO},    {"laptop", "01:00.2", FACET_PCI_KIND_USB},
        {"laptop", "01:00.3", FACET_PCI_KIND_USB},      {"desktop", "21:00.0", FACET_PCI_KIND_NETWORK},
        {"desktop", "03:00.1", FACET_PCI_KIND_STORAGE}, {"npu", "01:00.0", FACET_PCI_KIND_NPU},
        {"npu", "04:00.0", FACET_PCI_KIND_NPU},         {"npu", "c5:00.1", FACET_PCI_KIND_NPU},
        {"server", "6c:00.0", FACET_PCI_KIND_OTHER},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct machine machine;

        machine_plant(&machine, cases[i].machine);
        struct facet_pci_snapshot *snapshot = machine_scan(&machine, 0);
        assert_int_equal(function_of(snapshot, cases[i].address)->kind, cases[i].kind);
        facet_pci_snapshot_destroy(snapshot);
        machine_remove(&machine);
    }
}

static void distance_counts_the_bridges_between(void **state)
{
    struct machine machine;

    machine_plant(&machine, "server");
    struct facet_pci_snapshot *snapshot = machine_scan(&machine, 0);
    static const struct {
        const char *a, *b;
        uint32_t distance;
    } cases[] = {
        {"1a:00.0", "1a:00.0", 0},          {"1a:00.0", "1b:00.0", 3},          {"1a:00.0", "1c:00.0", 3},
        {"1a:00.0", "40:00.0", UINT32_MAX}, {"1a:00.0", "9a:00.0", UINT32_MAX},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct facet_pci_function *a = function_of(snapshot, cases[i].a), *b = function_of(snapshot, cases[i].b);

        assert_int_equal(facet_pci_distance(a, b), cases[i].distance);
        assert_int_equal(facet_pci_distance(b, a), cases[i].distance);
    }
    assert_string_equal(function_of(snapshot, "1a:00.0")->slot, "1");
    assert_int_equal(function_of(snapshot, "1a:00.0")->numa_node, 0);
    facet_pci_snapshot_destroy(snapshot);
    machine_remove(&machine);
}

/* An accelerator's companions, its group and the bridges above it are read in full, and no other functions. */
static void only_functions_near_accelerators_are_read_in_full(void **state)
{
    struct machine machine;

    machine_plant(&machine, "desktop");
    struct facet_pci_snapshot *snapshot = machine_scan(&machine, 0);
    static const char *const near[] = {"01.3", "03.1", "26:00.1", "21:00.0", "03:00.1"};

    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
        char text[16];

        snprintf(text, sizeof text, "%s%s", strlen(near[i]) < 6 ? "00:" : "", near[i]);
        assert_int_equal(function_of(snapshot, text)->unread[FACET_PCI_CONFIG], FACET_PCI_READ);
        assert_int_equal(function_of(snapshot, text)->unread[FACET_PCI_HOLDERS], FACET_PCI_UNREAD_SKIPPED);
    }
    assert_int_equal(function_of(snapshot, "00:14.3")->unread[FACET_PCI_CONFIG], FACET_PCI_UNREAD_SKIPPED);
    assert_int_equal(function_of(snapshot, "00:14.3")->unread[FACET_PCI_GROUP], FACET_PCI_READ);
    facet_pci_snapshot_destroy(snapshot);
    snapshot = machine_scan(&machine, FACET_PCI_SCAN_ALL);
    assert_int_equal(function_of(snapshot, "00:14.3")->unread[FACET_PCI_CONFIG], FACET_PCI_READ);
    facet_pci_snapshot_destroy(snapshot);
    machine_remove(&machine);
}

static void values_of_a_function_are_read(void **state)
{
    struct machine machine;

    machine_plant(&machine, "laptop");
    struct facet_pci_snapshot *snapshot = machine_scan(&machine, MACHINE_EVERYTHING);
    const struct facet_pci_function *gpu = function_of(snapshot, "01:00.0");

    assert_int_equal(gpu->vendor, 0x10de);
    assert_int_equal(gpu->subsystem_device, 0x109f);
    assert_int_equal(gpu->class_code, 0x030000);
    assert_int_equal(gpu->revision, 0xa1);
    assert_string_equal(gpu->vendor_name, "NVIDIA Corporation");
    assert_string_equal(gpu->modalias, "pci:v000010DEd00001F15sv00001043sd0000109Fbc03sc00i00");
    assert_string_equal(gpu->subsystem_name, "ROG Zephyrus");
    assert_string_equal(gpu->serial, "48-b0-2d-00-00-00-00-01");
    assert_string_equal(gpu->driver, "nvidia");
    assert_string_equal(gpu->driver_override, "");
    assert_int_equal(gpu->unread[FACET_PCI_OVERRIDE], FACET_PCI_READ);
    assert_int_equal(gpu->numa_node, -1);
    assert_int_equal(gpu->group, 1);
    assert_int_equal(gpu->link.speed_mts, 2500);
    assert_int_equal(gpu->link_maximum.speed_mts, 8000);
    assert_int_equal(gpu->link_maximum.width, 16);
    assert_int_equal(gpu->reset_methods, FACET_PCI_RESET_BUS);
    assert_int_equal(gpu->bars[0].bytes, 16 << 20);
    assert_int_equal(gpu->bars[0].start, 0xa4000000);
    assert_int_equal(gpu->bars[1].sizes, 1 << 8);
    assert_int_equal(gpu->bars[2].bytes, 0);
    assert_int_equal(gpu->bars[5].is_memory, 0);
    assert_int_equal(gpu->bars[FACET_PCI_ROM].bytes, 512 << 10);
    assert_int_equal(gpu->aer.correctable, 3);
    assert_int_equal(gpu->is_express, 1);
    assert_int_equal(gpu->is_vfio, 0);
    assert_int_equal(gpu->holder_count, 2); /* a process that has one node open twice counts once */
    assert_int_equal(gpu->holders[0].pid, 812);
    assert_string_equal(gpu->holders[0].command, "nvidia-persiste");
    assert_string_equal(gpu->holders[1].node, "/dev/dri/renderD129");
    assert_int_equal(gpu->bridge_count, 1);
    facet_pci_snapshot_destroy(snapshot);
    machine_remove(&machine);
}

static void values_of_a_host_are_read(void **state)
{
    struct machine machine;

    machine_plant(&machine, "ready");
    struct facet_pci_snapshot *snapshot = machine_scan(&machine, 0);
    const struct facet_pci_host *host = facet_pci_snapshot_host(snapshot);
    assert_int_equal(host->size, sizeof *host);
    assert_int_equal(host->iommus, 2);
    assert_int_equal(host->iommu_off, FACET_PCI_NO);
    assert_int_equal(host->interrupt_remapping, FACET_PCI_YES);
    assert_int_equal(host->unsafe_interrupts, FACET_PCI_NO);
    assert_int_equal(host->acs_override, FACET_PCI_NO);
    assert_int_equal(host->has_vfio_pci, FACET_PCI_YES);
    assert_int_equal(host->has_iommufd, FACET_PCI_YES);
    assert_int_equal(host->dma_entries, 65535);
    assert_int_equal(host->memory_bytes, UINT64_C(65536000) << 10);
    assert_int_equal(host->platform_count, 0);
    facet_pci_snapshot_destroy(snapshot);
    machine_remove(&machine);

    machine_plant(&machine, "hostile");
    snapshot = machine_scan(&machine, MACHINE_EVERYTHING);
    host = facet_pci_snapshot_host(snapshot);
    assert_int_equal(host->interrupt_remapping, FACET_PCI_UNKNOWN);
    assert_int_equal(host->dma_entries, 0);
    assert_int_equal(host->memory_bytes, 0);
    assert_int_equal(host->regions_unread, FACET_PCI_UNREAD_MALFORMED);
    facet_pci_snapshot_destroy(snapshot);
    machine_remove(&machine);
}

/* A line of /proc/interrupts has eleven bytes for each CPU, here 1000, and at its end the word that the scan needs. */
static void interrupts_of_many_cpus_are_read(void **state)
{
    struct machine machine;
    char line[12000];

    machine_plant(&machine, "ready");
    memset(line, ' ', sizeof line);
    memcpy(line, "  24:", 5);
    memcpy(line + 11000, " IR-PCI-MSI 1-edge eth0\n", 25);
    machine_file(&machine, "proc/interrupts", line);
    struct facet_pci_snapshot *snapshot = machine_scan(&machine, 0);
    assert_int_equal(facet_pci_snapshot_host(snapshot)->interrupt_remapping, FACET_PCI_YES);
    facet_pci_snapshot_destroy(snapshot);
    machine_remove(&machine);
}

static void a_machine_without_pci_is_a_snapshot_of_none(void **state)
{
    struct machine machine;

    machine_make(&machine);
    struct facet_pci_scan_config config = machine_config(&machine, MACHINE_EVERYTHING);
    struct facet_pci_snapshot *snapshot = (void *)&machine;
    struct facet_error error = {0};
    assert_int_equal(facet_pci_scan(&config, &snapshot, &error), FACET_NOT_FOUND);
    assert_ptr_equal(snapshot, &machine);
    assert_string_equal(error.argument, "root");
    machine_folder(&machine, "sys");
    snapshot = machine_scan(&machine, MACHINE_EVERYTHING);
    assert_int_equal(facet_pci_snapshot_count(snapshot), 0);
    facet_pci_snapshot_destroy(snapshot);
    machine_folder(&machine, "sys/bus/pci");
    machine_file(&machine, "sys/bus/pci/devices", "no directory");
    snapshot = machine_scan(&machine, 0);
    assert_int_equal(facet_pci_snapshot_count(snapshot), 0);
    facet_pci_snapshot_destroy(snapshot);
    assert_int_equal(unlinkat(machine.root, "sys/bus/pci/devices", 0), 0);
    assert_int_equal(symlinkat("devices", machine.root, "sys/bus/pci/devices"), 0);
    assert_int_equal(facet_pci_scan(&config, &snapshot, &error), FACET_IO);
    machine_remove(&machine);
}

static void wrong_arguments_are_refused(void **state)
{
    struct facet_pci_scan_config config = {.size = sizeof config};
    struct facet_pci_snapshot *snapshot = NULL;
    struct facet_error error = {0};

    assert_int_equal(facet_pci_scan(NULL, &snapshot, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_pci_scan(&config, NULL, &error), FACET_INVALID_ARGUMENT);
    config.size = sizeof config - 1;
    assert_int_equal(facet_pci_scan(&config, &snapshot, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "config->size");
    config = (struct facet_pci_scan_config){.size = sizeof config, .flags = 4}; /* no such flag */
    assert_int_equal(facet_pci_scan(&config, &snapshot, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "config->flags");
    config = (struct facet_pci_scan_config){.size = sizeof config, .root = -1};
    assert_int_not_equal(facet_pci_scan(&config, &snapshot, &error), FACET_OK);
    assert_null(snapshot);
}

static void another_list_of_ids_can_be_used(void **state)
{
    struct machine machine;
    struct facet_pci_snapshot *snapshot;

    machine_plant(&machine, "ready");
    machine_file(&machine, "my.ids", "10de  Mine\n\t1e07  A card\n");
    struct facet_pci_scan_config config = machine_config(&machine, 0);
    config.ids = "my.ids";
    assert_int_equal(facet_pci_scan(&config, &snapshot, NULL), FACET_OK);
    assert_string_equal(function_of(snapshot, "01:00.0")->vendor_name, "Mine");
    assert_string_equal(function_of(snapshot, "01:00.0")->device_name, "A card");
    assert_string_equal(function_of(snapshot, "00:02.0")->vendor_name, "");
    facet_pci_snapshot_destroy(snapshot);
    config.ids = "nowhere";
    assert_int_equal(facet_pci_scan(&config, &snapshot, NULL), FACET_OK);
    assert_int_equal(function_of(snapshot, "01:00.0")->unread[FACET_PCI_NAMES], FACET_PCI_UNREAD_ABSENT);
    facet_pci_snapshot_destroy(snapshot);
    machine_file(&machine, "my.ids", "zz no list\n");
    config.ids = "my.ids";
    assert_int_equal(facet_pci_scan(&config, &snapshot, NULL), FACET_OK);
    assert_int_equal(function_of(snapshot, "01:00.0")->unread[FACET_PCI_NAMES], FACET_PCI_UNREAD_MALFORMED);
    facet_pci_snapshot_destroy(snapshot);
    machine_remove(&machine);
}

/* ---- while another program changes the machine ---- */

struct mover {
    struct machine *machine;
    atomic_bool stop;
};

/* Removes and restores a whole branch again and again. During a rename, the kernel fails paths with ".." by EAGAIN. */
static void *move_branch_repeatedly(void *argument)
{
    struct mover *mover = argument;
    const char *branch = "sys/devices/pci0000:00/0000:00:01.0", *moved = "gone";
    int root = mover->machine->root;

    while (!atomic_load(&mover->stop)) {
        renameat(root, branch, root, moved);
        renameat(root, moved, root, branch);
    }
    return NULL;
}

/* A scan does not promise to see a branch as a whole: some of its functions may be found, each as it is or not at all.
 */
static void assert_functions_are_of(const struct facet_pci_snapshot *snapshot, const struct facet_pci_snapshot *whole)
{
    for (uint32_t i = 0; i < facet_pci_snapshot_count(snapshot); i++) {
        const struct facet_pci_function *function = facet_pci_snapshot_at(snapshot, i);
        const struct facet_pci_function *known = facet_pci_snapshot_find(whole, &function->address);

        assert_non_null(known);
        assert_int_equal(function->is_lost, 0);
        if (i > 0)
            assert_true(
                facet_pci_address_compare(&facet_pci_snapshot_at(snapshot, i - 1)->address, &function->address) < 0);
        if (function->unread[FACET_PCI_IDENTITY] == FACET_PCI_READ) {
            assert_int_equal(function->vendor, known->vendor);
            assert_int_equal(function->device, known->device);
            assert_int_equal(function->class_code, known->class_code);
            assert_int_equal(function->kind, known->kind);
        }
        if (function->unread[FACET_PCI_DRIVER] == FACET_PCI_READ)
            assert_string_equal(function->driver, known->driver);
        if (function->unread[FACET_PCI_GROUP] == FACET_PCI_READ)
            assert_int_equal(function->group, known->group);
    }
}

static void each_function_of_a_branch_that_moves_is_found_as_it_is_or_not_at_all(void **state)
{
    struct machine machine;
    pthread_t thread;

    machine_plant(&machine, "laptop");
    struct facet_pci_snapshot *whole = machine_scan(&machine, MACHINE_EVERYTHING);
    struct mover mover = {.machine = &machine};
    assert_int_equal(pthread_create(&thread, NULL, move_branch_repeatedly, &mover), 0);
    for (int i = 0; i < 300; i++) {
        struct facet_pci_snapshot *snapshot = machine_scan(&machine, MACHINE_EVERYTHING);
        uint32_t count = facet_pci_snapshot_count(snapshot);

        assert_true(count >= 3 && count <= 8); /* the branch has five of the eight functions */
        assert_string_equal(function_of(snapshot, "00:02.0")->driver, "i915"); /* outside the branch that is moved */
        assert_functions_are_of(snapshot, whole);
        facet_pci_snapshot_destroy(snapshot);
    }
    atomic_store(&mover.stop, true);
    pthread_join(thread, NULL);
    facet_pci_snapshot_destroy(whole);
    machine_remove(&machine);
}

static void a_container_does_not_see_the_users_of_functions(void **state)
{
    static const struct {
        const char *number;
        uint8_t unread;
    } cases[] = {{"pid:[4026531836]", FACET_PCI_READ}, {"pid:[4026532201]", FACET_PCI_UNREAD_PERMISSION}};
    struct machine machine;

    machine_plant(&machine, "desktop");
    machine_folder(&machine, "proc/self/ns");
    for (size_t i = 0; i < 2; i++) {
        unlinkat(machine.root, "proc/self/ns/pid", 0);
        assert_int_equal(symlinkat(cases[i].number, machine.root, "proc/self/ns/pid"), 0);
        struct facet_pci_snapshot *snapshot = machine_scan(&machine, MACHINE_EVERYTHING);
        assert_int_equal(function_of(snapshot, "0000:26:00.0")->unread[FACET_PCI_HOLDERS], cases[i].unread);
        assert_int_equal(function_of(snapshot, "0000:26:00.0")->unread[FACET_PCI_USES], FACET_PCI_READ);
        assert_int_equal(function_of(snapshot, "0000:03:00.1")->unread[FACET_PCI_USES], cases[i].unread);
        assert_int_equal(function_of(snapshot, "0000:21:00.0")->unread[FACET_PCI_USES], cases[i].unread);
        facet_pci_snapshot_destroy(snapshot);
    }
    machine_remove(&machine);
}

/* The fabric manager has all switches open. No file tells which number belongs to which switch. */
static void the_holder_of_a_gpu_switch_is_found(void **state)
{
    struct machine machine;

    machine_plant(&machine, "ready");
    unlinkat(machine.root, "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1/driver", 0);
    assert_int_equal(symlinkat("../../../../bus/pci/drivers/nvidia-nvswitch", machine.root,
                               "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1/driver"),
                     0);
    machine_folder(&machine, "proc/4000/fd");
    machine_file(&machine, "proc/4000/comm", "nv-fabricmanage\n");
    assert_int_equal(symlinkat("/dev/nvidia-nvswitch3", machine.root, "proc/4000/fd/7"), 0);
    struct facet_pci_snapshot *snapshot = machine_scan(&machine, MACHINE_EVERYTHING);
    const struct facet_pci_function *function = function_of(snapshot, "0000:01:00.1");
    assert_int_equal(function->holder_count, 1);
    assert_int_equal(function->holders[0].pid, 4000);
    assert_string_equal(function->holders[0].node, "/dev/nvidia-nvswitch3");
    facet_pci_snapshot_destroy(snapshot);
    machine_remove(&machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_holder_of_a_gpu_switch_is_found),
        cmocka_unit_test(a_container_does_not_see_the_users_of_functions),
        cmocka_unit_test(functions_come_by_address_and_are_found),
        cmocka_unit_test(kinds_are_by_class_or_model),
        cmocka_unit_test(distance_counts_the_bridges_between),
        cmocka_unit_test(only_functions_near_accelerators_are_read_in_full),
        cmocka_unit_test(values_of_a_function_are_read),
        cmocka_unit_test(values_of_a_host_are_read),
        cmocka_unit_test(interrupts_of_many_cpus_are_read),
        cmocka_unit_test(a_machine_without_pci_is_a_snapshot_of_none),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(another_list_of_ids_can_be_used),
        cmocka_unit_test(each_function_of_a_branch_that_moves_is_found_as_it_is_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
