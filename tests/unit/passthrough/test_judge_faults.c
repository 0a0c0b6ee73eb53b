/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that no failure during a scan changes an answer into yes, and that a judgement is refused where memory
 * runs out. Never: reads the host that runs the tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "machine.h"

#include <facet/passthrough.h>

#include "failing.h"
#include "same_process.h"

static enum facet_status judge_function(const struct facet_pci_snapshot *snapshot,
                                        const struct facet_pci_address *address,
                                        struct facet_passthrough_verdict **ret_verdict)
{
    struct facet_passthrough_wish wish = {
        .size = sizeof wish, .flags = FACET_PASSTHROUGH_WHOLE_GROUP, .functions = address, .count = 1};

    return facet_passthrough_judge(snapshot, &wish, ret_verdict, NULL);
}

static uint32_t answer_of(const struct facet_pci_snapshot *snapshot, const struct facet_pci_address *address)
{
    struct facet_passthrough_verdict *verdict = NULL;

    assert_int_equal(judge_function(snapshot, address, &verdict), FACET_OK);
    uint32_t answer = verdict->answer;
    facet_passthrough_verdict_destroy(verdict);
    return answer;
}

static struct facet_pci_snapshot *scan_machine(const struct machine *machine)
{
    struct facet_pci_scan_config config = machine_config(machine, MACHINE_EVERYTHING);
    struct facet_pci_snapshot *snapshot = NULL;

    facet_pci_scan(&config, &snapshot, NULL);
    return snapshot;
}

/* An answer that is not yes for the complete snapshot must not become yes when a file could not be read. */
static void check_answers(const struct facet_pci_snapshot *whole, const struct facet_pci_snapshot *snapshot,
                          uint64_t at)
{
    char text[FACET_PCI_ADDRESS_SIZE];
    const struct facet_pci_function *function;

    for (uint32_t i = 0; (function = facet_pci_snapshot_at(snapshot, i)); i++)
        if (function->kind != FACET_PCI_KIND_BRIDGE &&
            answer_of(snapshot, &function->address) == FACET_PASSTHROUGH_YES &&
            answer_of(whole, &function->address) != FACET_PASSTHROUGH_YES) {
            facet_pci_address_print(&function->address, text);
            fail_msg("%s: the answer becomes yes when the opening of file %u fails", text, (unsigned)at);
        }
}

static void no_failed_file_makes_the_answer_yes(void **state)
{
    static const char *const names[] = {"acs_override", "desktop", "laptop", "lost",         "no_iommu",
                                        "no_remapping", "npu",     "sriov",  "unprivileged", "vmd"};
    static const int errors[] = {EIO, EACCES};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct machine machine;

        machine_plant(&machine, names[i]);
        struct facet_pci_snapshot *whole = scan_machine(&machine);
        for (size_t j = 0; j < sizeof errors / sizeof errors[0]; j++) {
            bool reached = true;

            for (uint64_t at = 1; reached; at++) {
                failing = (struct failing){.open_at = at, .open_errno = errors[j]};
                struct facet_pci_snapshot *snapshot = scan_machine(&machine);
                reached = failing.opens >= at;
                if (snapshot)
                    check_answers(whole, snapshot, at);
                facet_pci_snapshot_destroy(snapshot);
            }
        }
        failing = (struct failing){0};
        facet_pci_snapshot_destroy(whole);
        machine_remove(&machine);
    }
}

static void no_failed_allocation_makes_the_answer_yes(void **state)
{
    static const char *const names[] = {"desktop", "laptop", "vmd"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct machine machine;
        bool reached = true;

        machine_plant(&machine, names[i]);
        struct facet_pci_snapshot *whole = scan_machine(&machine);
        for (uint64_t at = 1; reached; at++) {
            failing = (struct failing){.at = at};
            struct facet_pci_snapshot *snapshot = scan_machine(&machine);
            reached = failing.calls >= at;
            failing.at = 0;
            if (snapshot)
                check_answers(whole, snapshot, at);
            facet_pci_snapshot_destroy(snapshot);
        }
        facet_pci_snapshot_destroy(whole);
        machine_remove(&machine);
    }
}

static void a_judgement_without_memory_is_refused(void **state)
{
    struct machine machine;
    const struct facet_pci_function *function;

    machine_plant(&machine, "desktop");
    struct facet_pci_snapshot *snapshot = scan_machine(&machine);
    for (uint32_t i = 0; (function = facet_pci_snapshot_at(snapshot, i)); i++) {
        bool reached = true;

        for (uint64_t at = 1; reached; at++) {
            struct facet_passthrough_verdict *verdict = NULL;

            failing = (struct failing){.at = at};
            enum facet_status status = judge_function(snapshot, &function->address, &verdict);
            reached = failing.calls >= at;
            failing.at = 0;
            assert_int_equal(status, reached ? FACET_NO_MEMORY : FACET_OK);
            assert_true((status == FACET_OK) == (verdict != NULL));
            facet_passthrough_verdict_destroy(verdict);
        }
    }
    facet_pci_snapshot_destroy(snapshot);
    machine_remove(&machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_failed_file_makes_the_answer_yes),
        cmocka_unit_test(no_failed_allocation_makes_the_answer_yes),
        cmocka_unit_test(a_judgement_without_memory_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
