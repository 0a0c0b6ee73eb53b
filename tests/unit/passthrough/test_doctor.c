/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about the doctor's checks of a host: each reports the true state, or that it is unknown. Never: examines
 * the host of the tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "machine.h"

#include <facet/doctor.h>

#define VERSION(major, minor) ((uint32_t)(major) << 16 | (minor))

/* A planted machine whose files a test may change before it is examined, and what the last examination found. */
struct visit {
    struct machine machine;
    struct facet_doctor_environment environment;
    struct facet_doctor_finding findings[FACET_DOCTOR_CHECKS];
};

static void visit_machine(struct visit *visit, const char *name)
{
    *visit = (struct visit){.environment.size = sizeof visit->environment};
    machine_plant(&visit->machine, name);
}

static void examine_visit(struct visit *visit)
{
    struct facet_pci_snapshot *snapshot = machine_scan(&visit->machine, FACET_PCI_SCAN_HOLDERS);
    struct facet_error error = {0};

    if (facet_doctor_examine(snapshot, &visit->environment, visit->findings, &error))
        fail_msg("%s", error.message);
    facet_pci_snapshot_destroy(snapshot);
}

static void expect_finding(const struct visit *visit, const char *check, uint32_t state, const char *text)
{
    for (uint32_t i = 0; i < FACET_DOCTOR_CHECKS; i++) {
        const struct facet_doctor_finding *finding = &visit->findings[i];

        if (strcmp(finding->check, check) != 0)
            continue;
        assert_string_equal(finding->text, text);
        assert_string_equal(facet_doctor_state_name(finding->state), facet_doctor_state_name(state));
        assert_int_equal(finding->advice[0] == '\0', state == FACET_DOCTOR_GOOD);
        return;
    }
    fail_msg("the report has no check %s", check);
}

static void expect_finding_of_machine(const char *machine, const char *check, uint32_t state, const char *text)
{
    struct visit visit;

    visit_machine(&visit, machine);
    examine_visit(&visit);
    expect_finding(&visit, check, state, text);
    machine_remove(&visit.machine);
}

static void parts_that_were_not_examined_are_unknown(void **state)
{
    struct visit visit;

    visit_machine(&visit, "server");
    examine_visit(&visit);
    expect_finding(&visit, "kvm", FACET_DOCTOR_UNKNOWN, "not looked at");
    expect_finding(&visit, "qemu", FACET_DOCTOR_UNKNOWN, "not looked at");
    expect_finding(&visit, "memory lock", FACET_DOCTOR_UNKNOWN, "the limit is not known");
    machine_remove(&visit.machine);
}

static void an_empty_machine_has_no_good_finding(void **state)
{
    struct visit visit = {.environment.size = sizeof visit.environment};

    machine_make(&visit.machine);
    machine_folder(&visit.machine, "sys");
    examine_visit(&visit);
    for (uint32_t i = 0; i < FACET_DOCTOR_CHECKS; i++)
        if (visit.findings[i].state == FACET_DOCTOR_GOOD)
            fail_msg("%s: %s", visit.findings[i].check, visit.findings[i].text);
    expect_finding(&visit, "groups", FACET_DOCTOR_UNKNOWN, "without an IOMMU there are none");
    expect_finding(&visit, "console", FACET_DOCTOR_UNKNOWN, "/proc/iomem does not tell: absent");
    machine_remove(&visit.machine);
}

static void a_driver_that_hangs_is_named(void **state)
{
    struct visit visit;

    visit_machine(&visit, "lost");
    int second = machine_hang(&visit.machine, "0000:02:00.0"), first = machine_hang(&visit.machine, "0000:01:00.0");
    examine_visit(&visit);
    expect_finding(&visit, "drivers", FACET_DOCTOR_WARNING,
                   "0000:01:00.0 is stuck: its driver, or a reset, has not returned, and keeps its lock in the kernel "
                   "(and 1 more)");
    expect_finding(&visit, "accelerators", FACET_DOCTOR_WARNING, "2, of which 2 cannot be asked");
    close(first);
    close(second);
    examine_visit(&visit);
    expect_finding(&visit, "drivers", FACET_DOCTOR_GOOD, "none hangs");
    machine_remove(&visit.machine);
}

static void a_lost_device_is_a_warning_while_another_answers(void **state)
{
    struct visit visit;

    visit_machine(&visit, "lost");
    examine_visit(&visit);
    expect_finding(&visit, "accelerators", FACET_DOCTOR_WARNING, "1 of 2 do not answer");
    machine_remove(&visit.machine);
}

static void accelerators_without_power_are_counted(void **state)
{
    expect_finding_of_machine("sleeping", "accelerators", FACET_DOCTOR_WARNING, "1 of 4 are without power");
    expect_finding_of_machine("ready", "accelerators", FACET_DOCTOR_GOOD, "2, and all answer");
}

static void an_accelerator_that_could_not_be_asked_does_not_answer(void **state)
{
    struct visit visit;

    visit_machine(&visit, "ready");
    unlinkat(visit.machine.root, "sys/bus/pci/devices/0000:01:00.0/config", 0);
    examine_visit(&visit);
    expect_finding(&visit, "accelerators", FACET_DOCTOR_UNKNOWN, "1 of 2 could not be asked");
    machine_remove(&visit.machine);
}

static void the_console_is_named_with_its_gpu(void **state)
{
    struct visit visit;

    expect_finding_of_machine("laptop", "console", FACET_DOCTOR_WARNING, "efifb holds memory of 0000:00:02.0");
    visit_machine(&visit, "laptop");
    machine_file(&visit.machine, "proc/iomem", "90000000-907fffff : BOOTFB\n");
    examine_visit(&visit);
    expect_finding(&visit, "console", FACET_DOCTOR_WARNING, "BOOTFB holds memory of 0000:00:02.0");
    machine_file(&visit.machine, "proc/iomem", "1000-1fff : BOOTFB\n");
    examine_visit(&visit);
    expect_finding(&visit, "console", FACET_DOCTOR_GOOD, "it holds no GPU's memory");
    machine_file(&visit.machine, "proc/iomem", "00000000-00000000 : BOOTFB\n");
    examine_visit(&visit);
    expect_finding(&visit, "console", FACET_DOCTOR_UNKNOWN, "/proc/iomem does not tell: permission");
    machine_remove(&visit.machine);
}

static void an_iommu_is_named_or_reported_missing(void **state)
{
    expect_finding_of_machine("server", "iommu", FACET_DOCTOR_GOOD, "2 units");
    expect_finding_of_machine("no_iommu", "iommu", FACET_DOCTOR_BAD, "the kernel was told to use none");
    expect_finding_of_machine("no_iommu", "interrupts", FACET_DOCTOR_UNKNOWN, "without an IOMMU there is no remapping");
    expect_finding_of_machine("no_iommu", "groups", FACET_DOCTOR_UNKNOWN, "without an IOMMU there are none");
    expect_finding_of_machine("no_remapping", "interrupts", FACET_DOCTOR_BAD, "not remapped");
    expect_finding_of_machine("acs_override", "groups", FACET_DOCTOR_WARNING,
                              "split by pcie_acs_override, not by the hardware");
}

static void versions_decide_about_iommufd(void **state)
{
    struct visit visit;

    visit_machine(&visit, "ready");
    visit.environment.qemu = FACET_PCI_YES;
    visit.environment.qemu_version = VERSION(7, 2);
    visit.environment.kernel_version = VERSION(6, 5);
    examine_visit(&visit);
    expect_finding(&visit, "iommufd", FACET_DOCTOR_WARNING, "the kernel has it, QEMU 7.2 does not");
    expect_finding(&visit, "qemu", FACET_DOCTOR_GOOD, "QEMU 7.2");
    visit.environment.qemu_version = VERSION(9, 0);
    examine_visit(&visit);
    expect_finding(&visit, "iommufd", FACET_DOCTOR_GOOD, "/dev/iommu is there");
    unlinkat(visit.machine.root, "dev/iommu", 0);
    examine_visit(&visit);
    expect_finding(&visit, "iommufd", FACET_DOCTOR_WARNING, "/dev/iommu is not there, because this kernel is 6.5");
    visit.environment.kernel_version = VERSION(6, 6);
    visit.environment.qemu_version = 0;
    examine_visit(&visit);
    expect_finding(&visit, "iommufd", FACET_DOCTOR_WARNING, "/dev/iommu is not there");
    expect_finding(&visit, "qemu", FACET_DOCTOR_UNKNOWN, "it is there, and does not tell its version");
    visit.environment.qemu = FACET_PCI_NO;
    examine_visit(&visit);
    expect_finding(&visit, "qemu", FACET_DOCTOR_WARNING, "it was not found");
    machine_remove(&visit.machine);
}

static void memory_is_measured_against_the_machine(void **state)
{
    struct visit visit;

    visit_machine(&visit, "ready");
    visit.environment.memory_lock_bytes = UINT64_MAX;
    visit.environment.kvm = FACET_PCI_YES;
    examine_visit(&visit);
    expect_finding(&visit, "memory lock", FACET_DOCTOR_GOOD, "all memory may be locked");
    expect_finding(&visit, "kvm", FACET_DOCTOR_GOOD, "/dev/kvm can be opened");
    expect_finding(&visit, "mappings", FACET_DOCTOR_GOOD, "65535 in a container");
    visit.environment.memory_lock_bytes = UINT64_C(8) << 20;
    visit.environment.kvm = FACET_PCI_NO;
    machine_file(&visit.machine, "sys/module/vfio_iommu_type1/parameters/dma_entry_limit", "100\n");
    examine_visit(&visit);
    expect_finding(&visit, "memory lock", FACET_DOCTOR_WARNING,
                   "8 MiB may be locked: a machine with more ends with VFIO_MAP_DMA: ENOMEM");
    expect_finding(&visit, "kvm", FACET_DOCTOR_WARNING, "/dev/kvm cannot be opened: machines would be emulated");
    expect_finding(&visit, "mappings", FACET_DOCTOR_WARNING, "100 in a container; the kernel's default is 65535");
    unlinkat(visit.machine.root, "sys/module/vfio_iommu_type1/parameters/dma_entry_limit", 0);
    examine_visit(&visit);
    expect_finding(&visit, "mappings", FACET_DOCTOR_UNKNOWN, "vfio_iommu_type1 is not loaded");
    machine_remove(&visit.machine);
}

static void wrong_arguments_are_named(void **state)
{
    struct visit visit;
    struct facet_error error = {0};

    visit_machine(&visit, "ready");
    struct facet_pci_snapshot *snapshot = machine_scan(&visit.machine, 0);
    assert_int_equal(facet_doctor_examine(NULL, &visit.environment, visit.findings, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "snapshot");
    assert_int_equal(facet_doctor_examine(snapshot, NULL, visit.findings, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "environment");
    assert_int_equal(facet_doctor_examine(snapshot, &visit.environment, NULL, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "ret_findings");
    visit.environment.size = 8; /* too small */
    assert_int_equal(facet_doctor_examine(snapshot, &visit.environment, visit.findings, &error),
                     FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "environment->size");
    assert_null(facet_doctor_state_name(FACET_DOCTOR_STATES));
    facet_pci_snapshot_destroy(snapshot);
    machine_remove(&visit.machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_that_were_not_examined_are_unknown),
        cmocka_unit_test(an_empty_machine_has_no_good_finding),
        cmocka_unit_test(a_driver_that_hangs_is_named),
        cmocka_unit_test(a_lost_device_is_a_warning_while_another_answers),
        cmocka_unit_test(accelerators_without_power_are_counted),
        cmocka_unit_test(an_accelerator_that_could_not_be_asked_does_not_answer),
        cmocka_unit_test(the_console_is_named_with_its_gpu),
        cmocka_unit_test(an_iommu_is_named_or_reported_missing),
        cmocka_unit_test(versions_decide_about_iommufd),
        cmocka_unit_test(memory_is_measured_against_the_machine),
        cmocka_unit_test(wrong_arguments_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
