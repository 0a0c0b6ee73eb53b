/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of the changes reported between two scans of a machine, and of a watch that scans at intervals, without
 * events.
 * Never: reads the host's devices.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmocka.h>

#include <facet/pci_watch.h>

#include "machine.h"

#define CARD "0000:01:00.0"

/* The changes so far (`count` of them), as one text: "1:power D0>D3hot; ". The callback ends the watch at `end_at`
 * changes; 0: never. */
struct change_list {
    char text[512];
    uint32_t count, end_at;
};

static bool note_change(void *user, const struct facet_pci_change *change)
{
    struct change_list *change_list = user;
    size_t used = strlen(change_list->text);

    assert_int_equal(change->size, sizeof *change);
    assert_non_null(change->function);
    assert_int_equal(facet_pci_address_compare(&change->function->address, &change->address), 0);
    snprintf(change_list->text + used, sizeof change_list->text - used, "%x:%s %s>%s; ", change->address.bus,
             facet_pci_change_name(change->kind), change->before, change->after);
    return ++change_list->count != change_list->end_at;
}

static struct facet_pci_snapshot *scan_machine(const struct machine *machine)
{
    struct facet_pci_snapshot *snapshot = NULL;
    struct facet_error error = {0};

    assert_int_equal(facet_pci_scan(&(struct facet_pci_scan_config){.size = sizeof(struct facet_pci_scan_config),
                                                                    .root = machine->root},
                                    &snapshot, &error),
                     FACET_OK);
    return snapshot;
}

/* The changes since `before`, which is released. */
static const char *changes_since(const struct machine *machine, struct facet_pci_snapshot *before,
                                 struct change_list *change_list)
{
    struct facet_pci_snapshot *after = scan_machine(machine);

    facet_pci_compare(before, after, note_change, change_list);
    facet_pci_snapshot_destroy(before);
    facet_pci_snapshot_destroy(after);
    return change_list->text;
}

static int set_up(void **state)
{
    static struct machine machine;

    machine_create(&machine);
    machine_plug(&machine, CARD);
    *state = &machine;
    return 0;
}

static int tear_down(void **state)
{
    machine_destroy(*state);
    return 0;
}

/* ---- comparing ---- */

static void the_same_machine_has_no_changes(void **state)
{
    assert_string_equal(changes_since(*state, scan_machine(*state), &(struct change_list){0}), "");
}

static void functions_that_come_and_go_are_reported_in_order(void **state)
{
    struct facet_pci_snapshot *before = scan_machine(*state);

    machine_plug(*state, "0000:00:02.0");
    machine_plug(*state, "0000:05:00.0");
    machine_link(*state, "0000:05:00.0", "driver", "../../drivers/nvidia");
    machine_unplug(*state, CARD);
    assert_string_equal(changes_since(*state, before, &(struct change_list){0}),
                        "0:added >; 1:removed >; 5:added >nvidia; ");
}

/* Changes each attribute by itself. */
static void each_attribute_reports_its_change(void **state)
{
    static const struct {
        const char *name, *text, *expected;
    } cases[] = {
        {"power_state", "D3hot", "1:power D0>D3hot; "},
        {"current_link_width", "8", "1:width 16>8; "},
        {"current_link_speed", "2.5 GT/s PCIe", "1:speed 32000>2500; "},
        {"aer_dev_correctable", "RxErr 4\nTOTAL_ERR_COR 4", "1:correctable 0>4; "},
        {"aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 1", "1:nonfatal 0>1; "},
        {"aer_dev_fatal", "TOTAL_ERR_FATAL 2", "1:fatal 0>2; "},
        {"device", "0x2331", "1:removed >; 1:added >; "},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        machine_unplug(*state, CARD);
        machine_plug(*state, CARD);
        struct facet_pci_snapshot *before = scan_machine(*state);
        machine_write(*state, CARD, cases[i].name, cases[i].text);
        assert_string_equal(changes_since(*state, before, &(struct change_list){0}), cases[i].expected);
    }
}

static void links_report_drivers_groups_and_virtual_functions(void **state)
{
    struct facet_pci_snapshot *before = scan_machine(*state);

    machine_link(*state, CARD, "driver", "../../drivers/vfio-pci");
    machine_link(*state, CARD, "iommu_group", "../../../kernel/iommu_groups/12");
    machine_write(*state, CARD, "sriov_numvfs", "1");
    machine_link(*state, CARD, "virtfn0", "../0000:01:00.4");
    assert_string_equal(changes_since(*state, before, &(struct change_list){0}),
                        "1:driver >vfio-pci; 1:group >12; 1:virtuals 0>1; ");
}

static void a_hang_and_its_end_are_reported(void **state)
{
    const struct machine *machine = *state;
    char path[128];

    machine_write(machine, CARD, "driver_override", "(null)");
    struct facet_pci_snapshot *before = scan_machine(machine);
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/" CARD "/driver_override", machine->path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0); /* the lock that a scan's hanging reader holds */
    struct facet_pci_snapshot *during = scan_machine(machine);
    assert_string_equal(changes_since(machine, before, &(struct change_list){0}), "1:stuck >; ");
    close(fd);
    assert_string_equal(changes_since(machine, during, &(struct change_list){0}), "1:released >; ");
}

/* A value that becomes unreadable, or readable again, is not reported as a change. */
static void an_unreadable_value_is_no_change(void **state)
{
    struct facet_pci_snapshot *before = scan_machine(*state);

    machine_write(*state, CARD, "current_link_width", "many");
    machine_write(*state, CARD, "aer_dev_fatal", "TOTAL_ERR_FATAL -1");
    machine_write(*state, CARD, "sriov_numvfs", "");
    assert_string_equal(changes_since(*state, before, &(struct change_list){0}), "");
    before = scan_machine(*state);
    machine_write(*state, CARD, "current_link_width", "4");
    assert_string_equal(changes_since(*state, before, &(struct change_list){0}), "");
}

static void a_counter_that_fell_is_counted_from_0(void **state)
{
    machine_write(*state, CARD, "aer_dev_correctable", "TOTAL_ERR_COR 9");
    struct facet_pci_snapshot *before = scan_machine(*state);
    machine_write(*state, CARD, "aer_dev_correctable", "TOTAL_ERR_COR 3");
    assert_string_equal(changes_since(*state, before, &(struct change_list){0}), "1:correctable 0>3; ");
}

static void a_callback_that_ends_the_watch_gets_no_more_changes(void **state)
{
    struct change_list change_list = {.end_at = 1};
    struct facet_pci_snapshot *before = scan_machine(*state);

    machine_plug(*state, "0000:02:00.0");
    machine_plug(*state, "0000:03:00.0");
    changes_since(*state, before, &change_list);
    assert_int_equal(change_list.count, 1);
}

static void every_kind_has_a_name(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < FACET_PCI_CHANGES; i++)
        assert_non_null(facet_pci_change_name(i));
    assert_null(facet_pci_change_name(FACET_PCI_CHANGES));
}

/* ---- watching by time ---- */

static struct facet_pci_watch *watch_open(const struct machine *machine)
{
    struct facet_pci_watch *watch = NULL;
    struct facet_error error = {0};
    struct facet_pci_watch_config config = {
        .size = sizeof config, .scan = {.size = sizeof config.scan, .root = machine->root}, .poll_ns = 20 * 1000000};

    assert_int_equal(facet_pci_watch_open(&config, &watch, &error), FACET_OK);
    assert_int_equal(facet_pci_watch_fd(watch), -1);
    return watch;
}

static void a_wait_without_a_change_times_out(void **state)
{
    struct facet_pci_watch *watch = watch_open(*state);
    struct facet_error error = {0};
    struct change_list change_list = {0};

    assert_int_equal(facet_pci_watch_wait(watch, 0, note_change, &change_list, &error), FACET_TIMEOUT);
    assert_int_equal(facet_pci_watch_wait(watch, 50 * 1000000, note_change, &change_list, &error), FACET_TIMEOUT);
    assert_int_equal(change_list.count, 0);
    facet_pci_watch_close(watch);
}

static void *plug_later(void *machine)
{
    usleep(60000);
    machine_plug(machine, "0000:09:00.0");
    return NULL;
}

static void a_change_ends_the_wait_once(void **state)
{
    struct facet_pci_watch *watch = watch_open(*state);
    struct facet_error error = {0};
    struct change_list change_list = {0};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, plug_later, *state), 0);
    assert_int_equal(facet_pci_watch_wait(watch, UINT64_MAX, note_change, &change_list, &error), FACET_OK);
    pthread_join(thread, NULL);
    assert_string_equal(change_list.text, "9:added >; ");
    assert_true(facet_pci_snapshot_count(facet_pci_watch_snapshot(watch)) == 2);
    /*
     * The scan may have run while the thread still wrote the function's files, so one more wait may report a change.
     * After that nothing is left to report.
     */
    facet_pci_watch_wait(watch, 0, note_change, &change_list, &error);
    assert_int_equal(facet_pci_watch_wait(watch, 0, note_change, &change_list, &error), FACET_TIMEOUT);
    facet_pci_watch_close(watch);
}

static void a_scan_that_fails_is_an_error_and_the_last_one_stays(void **state)
{
    struct machine *machine = *state;
    struct facet_pci_watch *watch = watch_open(machine);
    struct facet_error error = {0};
    struct change_list change_list = {0};
    char sys[80], away[80];

    snprintf(sys, sizeof sys, "%s/sys", machine->path);
    snprintf(away, sizeof away, "%s/away", machine->path);
    assert_int_equal(rename(sys, away), 0);
    assert_int_equal(facet_pci_watch_wait(watch, 0, note_change, &change_list, &error), FACET_NOT_FOUND);
    assert_int_equal(facet_pci_snapshot_count(facet_pci_watch_snapshot(watch)), 1);
    assert_int_equal(rename(away, sys), 0);
    assert_int_equal(facet_pci_watch_wait(watch, 0, note_change, &change_list, &error), FACET_TIMEOUT);
    assert_int_equal(change_list.count, 0);
    facet_pci_watch_close(watch);
}

static void wrong_arguments_are_named(void **state)
{
    struct machine *machine = *state;
    struct facet_pci_watch *watch = NULL;
    struct facet_error error = {0};
    struct facet_pci_watch_config config = {
        .size = sizeof config, .events = 2, .scan = {.size = sizeof config.scan, .root = machine->root}};

    assert_int_equal(facet_pci_watch_open(NULL, &watch, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_pci_watch_open(&config, &watch, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "config->events");
    config.events = 0;
    config.size = 8;
    assert_int_equal(facet_pci_watch_open(&config, &watch, &error), FACET_INVALID_ARGUMENT);
    config.size = sizeof config;
    config.scan.root = -1;
    assert_int_not_equal(facet_pci_watch_open(&config, &watch, &error), FACET_OK);
    config.scan.root = machine->root;
    config.scan.flags = UINT32_MAX;
    assert_int_equal(facet_pci_watch_open(&config, &watch, &error), FACET_INVALID_ARGUMENT);
    assert_null(watch);
    assert_int_equal(facet_pci_watch_wait(NULL, 0, note_change, NULL, &error), FACET_INVALID_ARGUMENT);
    facet_pci_watch_close(NULL);
}

int main(void)
{
#define WITH_MACHINE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_MACHINE(the_same_machine_has_no_changes),
        WITH_MACHINE(functions_that_come_and_go_are_reported_in_order),
        WITH_MACHINE(each_attribute_reports_its_change),
        WITH_MACHINE(links_report_drivers_groups_and_virtual_functions),
        WITH_MACHINE(a_hang_and_its_end_are_reported),
        WITH_MACHINE(an_unreadable_value_is_no_change),
        WITH_MACHINE(a_counter_that_fell_is_counted_from_0),
        WITH_MACHINE(a_callback_that_ends_the_watch_gets_no_more_changes),
        cmocka_unit_test(every_kind_has_a_name),
        WITH_MACHINE(a_wait_without_a_change_times_out),
        WITH_MACHINE(a_change_ends_the_wait_once),
        WITH_MACHINE(a_scan_that_fails_is_an_error_and_the_last_one_stays),
        WITH_MACHINE(wrong_arguments_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
