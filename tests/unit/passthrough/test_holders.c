/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs about the holders of a function: by which nodes they are found, and when they are unknown. Never: opens
 * a device; tests/integration/passthrough does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "machine.h"

#include <facet/passthrough.h>

#define ASCEND "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"

/* Makes a device with a node, in a directory of its own. */
static void plant_node(const struct machine *machine, const char *directory, const char *number, const char *name)
{
    char path[256], text[128];

    machine_folder(machine, directory);
    snprintf(path, sizeof path, "%s/dev", directory);
    machine_file(machine, path, number);
    snprintf(path, sizeof path, "%s/uevent", directory);
    snprintf(text, sizeof text, "DEVNAME=%s\n", name);
    machine_file(machine, path, text);
}

static void plant_holder(const struct machine *machine, int pid, const char *node)
{
    char path[64];

    snprintf(path, sizeof path, "proc/%d/fd", pid);
    machine_folder(machine, path);
    snprintf(path, sizeof path, "proc/%d/fd/7", pid);
    unlinkat(machine->root, path, 0);
    assert_int_equal(symlinkat(node, machine->root, path), 0);
}

static void set_driver(const struct machine *machine, const char *directory, const char *driver)
{
    char path[256], target[128];

    snprintf(path, sizeof path, "%s/driver", directory);
    unlinkat(machine->root, path, 0);
    snprintf(target, sizeof target, "../../../../bus/pci/drivers/%s", driver);
    if (driver[0])
        assert_int_equal(symlinkat(target, machine->root, path), 0);
}

/* Expects the function's holders to have these nodes (in order, joined by spaces), and `unread` to be the reason why
 * there may be further holders. */
static void expect_nodes(const struct machine *machine, const char *address, uint8_t unread, const char *nodes)
{
    struct facet_pci_snapshot *snapshot = machine_scan(machine, MACHINE_EVERYTHING);
    const struct facet_pci_function *function = function_of(snapshot, address);
    char text[512] = "";

    for (size_t i = 0; i < function->holder_count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", function->holders[i].node);
    assert_string_equal(text, nodes);
    assert_int_equal(function->unread[FACET_PCI_HOLDERS], unread);
    facet_pci_snapshot_destroy(snapshot);
}

/* ---- nodes ---- */

static void nodes_below_a_function_are_its_own(void **state)
{
    struct machine machine;

    machine_plant(&machine, "guest");
    expect_nodes(&machine, "00:02.0", FACET_PCI_READ, "/dev/dri/card0"); /* behind virtio0 */
    expect_nodes(&machine, "00:03.0", FACET_PCI_READ, "");
    expect_nodes(&machine, "00:04.0", FACET_PCI_READ, "/dev/ng0n1 /dev/nvme0n1p1");
    expect_nodes(&machine, "00:05.0", FACET_PCI_READ, "");
    plant_holder(&machine, 901, "/dev/nvme1n1");
    expect_nodes(&machine, "00:05.0", FACET_PCI_READ, "/dev/nvme1n1");
    plant_node(&machine, "sys/devices/pci0000:00/0000:00:03.0/rdma/uverbs0", "231:192", "infiniband/uverbs0");
    plant_holder(&machine, 901, "/dev/infiniband/uverbs0");
    expect_nodes(&machine, "00:03.0", FACET_PCI_READ, "/dev/infiniband/uverbs0");
    machine_remove(&machine);
}

/* The function is a controller of disks with further functions below it. */
static void nodes_below_another_function_are_not_its_own(void **state)
{
    struct machine machine;

    machine_plant(&machine, "vmd");
    plant_node(&machine, "sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0/nvme/nvme0",
               "238:0", "nvme0");
    plant_holder(&machine, 900, "/dev/nvme0");
    expect_nodes(&machine, "0000:00:0e.0", FACET_PCI_READ, "");
    expect_nodes(&machine, "10000:e1:00.0", FACET_PCI_READ, "/dev/nvme0");
    machine_remove(&machine);
}

static void a_disk_of_several_controllers_belongs_to_each(void **state)
{
    struct machine machine;

    machine_plant(&machine, "server");
    plant_node(&machine, "sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1", "259:0", "nvme0n1");
    plant_holder(&machine, 900, "/dev/nvme0n1");
    expect_nodes(&machine, "04:00.0", FACET_PCI_READ, "/dev/nvme0n1");
    machine_remove(&machine);
}

/* Every desktop has the keyboard open, which does not make it a holder. */
static void a_keyboard_holds_nothing(void **state)
{
    struct machine machine;

    machine_plant(&machine, "desktop");
    plant_node(&machine, "sys/devices/pci0000:00/0000:00:01.3/0000:03:00.0/usb1/1-1/input/input3/event3", "13:67",
               "input/event3");
    plant_holder(&machine, 900, "/dev/input/event3");
    expect_nodes(&machine, "03:00.0", FACET_PCI_READ, "");
    plant_node(&machine, "sys/devices/pci0000:00/0000:00:01.3/0000:03:00.0/usb1/1-1", "189:1", "bus/usb/001/002");
    plant_holder(&machine, 900, "/dev/bus/usb/001/002");
    expect_nodes(&machine, "03:00.0", FACET_PCI_READ, "/dev/bus/usb/001/002");
    machine_remove(&machine);
}

/* ---- drivers whose nodes are elsewhere ---- */

static void nvidia_nodes_of_unknown_gpus_count_for_each(void **state)
{
    struct machine machine;

    machine_plant(&machine, "server");
    plant_holder(&machine, 900, "/dev/nvidia3");
    expect_nodes(&machine, "1a:00.0", FACET_PCI_READ, "/dev/nvidia3");
    expect_nodes(&machine, "c1:00.0", FACET_PCI_READ, "/dev/nvidia3");
    machine_folder(&machine, "proc/driver/nvidia/gpus/0000:1a:00.0");
    machine_file(&machine, "proc/driver/nvidia/gpus/0000:1a:00.0/information", "Device Minor: \t 0\n");
    expect_nodes(&machine, "1a:00.0", FACET_PCI_READ, "");
    plant_holder(&machine, 900, "/dev/nvidiactl");
    expect_nodes(&machine, "c1:00.0", FACET_PCI_READ, "");
    plant_holder(&machine, 900, "/dev/nvidia-nvswitch0");
    expect_nodes(&machine, "c1:00.0", FACET_PCI_READ, "");
    machine_remove(&machine);
}

/* ---- unknown holders ---- */

static void unknown_nodes_leave_the_holders_unknown(void **state)
{
    static const struct {
        const char *driver;
        uint8_t unread;
    } cases[] = {{"devdrv_device_driver", FACET_PCI_UNREAD_UNKNOWN},
                 {"habanalabs", FACET_PCI_UNREAD_UNKNOWN},
                 {"", FACET_PCI_READ},
                 {"vfio-pci", FACET_PCI_READ},
                 {"pci-stub", FACET_PCI_READ}};
    struct machine machine;

    machine_plant(&machine, "npu");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        set_driver(&machine, ASCEND, cases[i].driver);
        expect_nodes(&machine, "01:00.0", cases[i].unread, "");
    }
    set_driver(&machine, ASCEND, "devdrv_device_driver");
    plant_node(&machine, ASCEND "/i2c-4/i2c-dev/i2c-4", "89:4", "i2c-4"); /* not the node that computing opens */
    expect_nodes(&machine, "01:00.0", FACET_PCI_UNREAD_UNKNOWN, "");
    plant_holder(&machine, 900, "/dev/i2c-4");
    expect_nodes(&machine, "01:00.0", FACET_PCI_UNREAD_UNKNOWN, "/dev/i2c-4");
    plant_node(&machine, ASCEND "/devdrv/davinci0", "236:0", "davinci0");
    expect_nodes(&machine, "01:00.0", FACET_PCI_READ, "/dev/i2c-4");
    plant_holder(&machine, 901, "/dev/davinci0");
    expect_nodes(&machine, "01:00.0", FACET_PCI_READ, "/dev/i2c-4 /dev/davinci0");
    machine_remove(&machine);
}

/* In a PID namespace of its own a process cannot see all holders, so they are reported as unknown, not as none. */
static void a_container_leaves_the_holders_unknown(void **state)
{
    struct machine machine;

    machine_plant(&machine, "npu");
    machine_folder(&machine, "proc/self/ns");
    assert_int_equal(symlinkat("pid:[4026532201]", machine.root, "proc/self/ns/pid"), 0);
    expect_nodes(&machine, "04:00.0", FACET_PCI_UNREAD_PERMISSION, "/dev/hailo0");
    expect_nodes(&machine, "01:00.0", FACET_PCI_UNREAD_UNKNOWN, "");
    plant_node(&machine, ASCEND "/i2c-4/i2c-dev/i2c-4", "89:4", "i2c-4");
    expect_nodes(&machine, "01:00.0", FACET_PCI_UNREAD_PERMISSION, "");
    set_driver(&machine, ASCEND, "");
    expect_nodes(&machine, "01:00.0", FACET_PCI_READ, "");
    machine_remove(&machine);
}

static void a_node_without_a_number_may_be_any(void **state)
{
    static const char *const numbers[] = {"", "226", "226:0:1", "x:0", "99999999999:0"};
    struct machine machine;

    machine_plant(&machine, "guest");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        plant_node(&machine, "sys/devices/pci0000:00/0000:00:03.0/drm/card1", numbers[i], "dri/card1");
        expect_nodes(&machine, "00:03.0", FACET_PCI_UNREAD_MALFORMED, "");
    }
    machine_remove(&machine);
}

/* The tree is deeper and wider than a kernel's. The scan ends, and reports that it did not see all of it. */
static void a_huge_tree_is_walked_in_part(void **state)
{
    struct machine machine;
    char path[512];
    int used = snprintf(path, sizeof path, "sys/devices/pci0000:00/0000:00:03.0");

    machine_plant(&machine, "guest");
    for (int i = 0; i < 24; i++)
        used += snprintf(path + used, sizeof path - (size_t)used, "/below");
    machine_folder(&machine, path);
    expect_nodes(&machine, "00:03.0", FACET_PCI_READ, "");
    snprintf(path + used, sizeof path - (size_t)used, "/below");
    machine_folder(&machine, path);
    expect_nodes(&machine, "00:03.0", FACET_PCI_UNREAD_MALFORMED, "");
    machine_remove(&machine);
}

static void a_link_is_not_walked(void **state)
{
    struct machine machine;

    machine_plant(&machine, "guest");
    plant_holder(&machine, 900, "/dev/dri/card0");
    assert_int_equal(symlinkat("../0000:00:02.0", machine.root, "sys/devices/pci0000:00/0000:00:03.0/other"), 0);
    assert_int_equal(symlinkat(".", machine.root, "sys/devices/pci0000:00/0000:00:03.0/again"), 0);
    expect_nodes(&machine, "00:03.0", FACET_PCI_READ, "");
    machine_remove(&machine);
}

/* ---- the judgement about unknown holders ---- */

static void unknown_users_are_reported_and_stop_nothing(void **state)
{
    struct facet_pci_address address = address_of("01:00.0");
    struct facet_passthrough_wish wish = {.size = sizeof wish, .functions = &address, .count = 1};
    struct facet_passthrough_verdict *verdict = NULL;
    struct machine machine;
    size_t found = 0;

    machine_plant(&machine, "npu");
    struct facet_pci_snapshot *snapshot = machine_scan(&machine, MACHINE_EVERYTHING);
    assert_int_equal(facet_passthrough_judge(snapshot, &wish, &verdict, NULL), FACET_OK);
    assert_int_equal(verdict->answer, FACET_PASSTHROUGH_YES);
    for (size_t i = 0; i < verdict->reason_count; i++) {
        const struct facet_passthrough_reason *reason = &verdict->reasons[i];

        assert_int_not_equal(reason->code, FACET_PASSTHROUGH_UNREAD);
        if (reason->code != FACET_PASSTHROUGH_USERS_UNKNOWN)
            continue;
        found++;
        assert_int_equal(reason->weight, FACET_PASSTHROUGH_WARNING);
        assert_non_null(strstr(reason->text, "driver devdrv_device_driver"));
    }
    assert_int_equal(found, 1);
    facet_passthrough_verdict_destroy(verdict);
    facet_pci_snapshot_destroy(snapshot);
    machine_remove(&machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_below_a_function_are_its_own),
        cmocka_unit_test(nodes_below_another_function_are_not_its_own),
        cmocka_unit_test(a_disk_of_several_controllers_belongs_to_each),
        cmocka_unit_test(a_keyboard_holds_nothing),
        cmocka_unit_test(nvidia_nodes_of_unknown_gpus_count_for_each),
        cmocka_unit_test(unknown_nodes_leave_the_holders_unknown),
        cmocka_unit_test(a_container_leaves_the_holders_unknown),
        cmocka_unit_test(a_node_without_a_number_may_be_any),
        cmocka_unit_test(a_huge_tree_is_walked_in_part),
        cmocka_unit_test(a_link_is_not_walked),
        cmocka_unit_test(unknown_users_are_reported_and_stop_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
