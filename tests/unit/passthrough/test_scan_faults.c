/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that a scan ends, leaks nothing and reports no function that did not exist, where memory runs out, files
 * cannot be opened or a function is removed during the scan. Never: judges functions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>

#include "machine.h"

#include "failing.h"
#include "same_process.h"

static unsigned open_files(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static enum facet_status scan_machine(const struct machine *machine, struct facet_pci_snapshot **ret_snapshot)
{
    struct facet_pci_scan_config config = machine_config(machine, MACHINE_EVERYTHING);
    struct facet_error error = {0};
    enum facet_status status = facet_pci_scan(&config, ret_snapshot, &error);

    if (status)
        assert_true(error.message[0] != '\0');
    return status;
}

/* Where an allocation fails, the scan is refused, or is complete except for lists of the kernel that it reports as
 * unreadable. */
static void a_scan_without_memory_leaks_nothing(void **state)
{
    static const char *const names[] = {"laptop", "desktop", "sriov", "vgpu", "arm_soc", "server"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct machine machine;
        unsigned refused = 0;

        machine_plant(&machine, names[i]);
        struct facet_pci_snapshot *whole = machine_scan(&machine, MACHINE_EVERYTHING);
        unsigned files = open_files();
        bool reached = true;
        for (uint64_t at = 1; reached; at++) {
            struct facet_pci_snapshot *snapshot = NULL;

            failing = (struct failing){.at = at};
            enum facet_status status = scan_machine(&machine, &snapshot);
            reached = failing.calls >= at;
            failing.at = 0;
            assert_true(status == FACET_OK || status == FACET_NO_MEMORY);
            assert_true((status == FACET_OK) == (snapshot != NULL));
            refused += status != FACET_OK;
            if (snapshot)
                assert_int_equal(facet_pci_snapshot_count(snapshot), facet_pci_snapshot_count(whole));
            facet_pci_snapshot_destroy(snapshot);
            assert_int_equal(open_files(), files);
        }
        assert_true(refused >= 4); /* no scan can do without four or more of its allocations */
        facet_pci_snapshot_destroy(whole);
        machine_remove(&machine);
    }
}

static void failing_files_leave_no_open_file(void **state)
{
    static const int errors[] = {EIO, EACCES, ENOENT, EMFILE, ENODEV};
    struct machine machine;

    machine_plant(&machine, "laptop");
    unsigned files = open_files();
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        bool reached = true;

        for (uint64_t at = 1; reached; at++) {
            struct facet_pci_snapshot *snapshot = NULL;

            failing = (struct failing){.open_at = at, .open_errno = errors[i]};
            scan_machine(&machine, &snapshot);
            reached = failing.opens >= at;
            facet_pci_snapshot_destroy(snapshot);
            assert_int_equal(open_files(), files);
        }
    }
    failing = (struct failing){0};
    machine_remove(&machine);
}

/* Now and then the kernel fails to open a path with EAGAIN, and the scan opens it again. */
static void a_path_that_fails_once_is_opened_again(void **state)
{
    struct machine machine;

    machine_plant(&machine, "vmd");
    bool reached = true;
    for (uint64_t at = 1; reached; at++) {
        struct facet_pci_snapshot *snapshot = NULL;

        failing = (struct failing){.open_at = at, .open_errno = at % 2 ? EAGAIN : EINTR};
        assert_int_equal(scan_machine(&machine, &snapshot), FACET_OK);
        reached = failing.opens >= at;
        assert_int_equal(facet_pci_snapshot_count(snapshot), 5); /* all functions of the machine */
        for (uint32_t i = 0; i < 5; i++)
            for (uint32_t j = 0; j < FACET_PCI_ATTRIBUTES; j++)
                assert_int_not_equal(facet_pci_snapshot_at(snapshot, i)->unread[j], FACET_PCI_UNREAD_IO);
        facet_pci_snapshot_destroy(snapshot);
    }
    failing = (struct failing){0};
    machine_remove(&machine);
}

#define BRANCH "sys/devices/pci0000:00/0000:00:01.0"

static void remove_branch(void *context)
{
    const struct machine *machine = context;

    renameat(machine->root, BRANCH, machine->root, "gone");
}

/* A branch is removed while it is read. The snapshot has only functions that existed, and all functions outside the
 * branch: three; the branch has five more. */
static void a_function_may_be_removed_during_the_scan(void **state)
{
    struct machine machine;
    unsigned seen[9] = {0}; /* scans that found that number of functions */

    machine_plant(&machine, "laptop");
    bool reached = true;
    for (uint64_t at = 1; reached; at++) {
        struct facet_pci_snapshot *snapshot = NULL;

        failing = (struct failing){.open_at = at, .before_open = remove_branch, .context = &machine};
        assert_int_equal(scan_machine(&machine, &snapshot), FACET_OK);
        reached = failing.opens >= at;
        renameat(machine.root, "gone", machine.root, BRANCH);
        uint32_t count = facet_pci_snapshot_count(snapshot);
        assert_true(count >= 3 && count <= 8);
        seen[count]++;
        assert_string_equal(function_of(snapshot, "00:02.0")->driver, "i915");
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(facet_pci_snapshot_at(snapshot, i)->is_lost, 0);
        facet_pci_snapshot_destroy(snapshot);
    }
    failing = (struct failing){0};
    assert_true(seen[3] > 0 && seen[8] > 0);
    machine_remove(&machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scan_without_memory_leaks_nothing),
        cmocka_unit_test(failing_files_leave_no_open_file),
        cmocka_unit_test(a_path_that_fails_once_is_opened_again),
        cmocka_unit_test(a_function_may_be_removed_during_the_scan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
