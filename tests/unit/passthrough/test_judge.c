/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about judgements: which reasons a verdict has, and which answer follows from them. Each reason is given
 * for at least one machine of tests/fixtures/pci. Never: reads the host that runs the tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>

#include "machine.h"

#include <facet/passthrough.h>

#define GIB (UINT64_C(1) << 30)

static struct facet_passthrough_verdict *judge_wish(const struct facet_pci_snapshot *snapshot,
                                                    struct facet_passthrough_wish wish)
{
    struct facet_passthrough_verdict *verdict = NULL;
    struct facet_error error = {0};

    wish.size = sizeof wish;
    if (facet_passthrough_judge(snapshot, &wish, &verdict, &error))
        fail_msg("%s", error.message);
    return verdict;
}

static const struct facet_passthrough_reason *find_reason(const struct facet_passthrough_verdict *verdict,
                                                          uint32_t code, const char *fragment)
{
    for (size_t i = 0; i < verdict->reason_count; i++)
        if (verdict->reasons[i].code == code && strstr(verdict->reasons[i].text, fragment))
            return &verdict->reasons[i];
    return NULL;
}

static size_t count_reasons(const struct facet_passthrough_verdict *verdict, uint32_t code)
{
    size_t found = 0;

    for (size_t i = 0; i < verdict->reason_count; i++)
        found += verdict->reasons[i].code == code;
    return found;
}

/* A judgement about one function of a planted machine. ask_question() makes it; ask_again() repeats it after the test
 * has changed files of the machine. */
struct question {
    struct machine machine;
    struct facet_pci_snapshot *snapshot;
    struct facet_pci_address address;
    struct facet_passthrough_verdict *verdict;
};

static void ask_question(struct question *question, const char *machine, const char *address,
                         struct facet_passthrough_wish wish)
{
    machine_plant(&question->machine, machine);
    question->snapshot = machine_scan(&question->machine, MACHINE_EVERYTHING);
    question->address = address_of(address);
    wish.functions = &question->address;
    wish.count = 1;
    question->verdict = judge_wish(question->snapshot, wish);
}

static void ask_again(struct question *question, struct facet_passthrough_wish wish, uint32_t flags)
{
    facet_passthrough_verdict_destroy(question->verdict);
    facet_pci_snapshot_destroy(question->snapshot);
    question->snapshot = machine_scan(&question->machine, flags);
    wish.functions = &question->address;
    wish.count = 1;
    question->verdict = judge_wish(question->snapshot, wish);
}

static void end_question(struct question *question)
{
    facet_passthrough_verdict_destroy(question->verdict);
    facet_pci_snapshot_destroy(question->snapshot);
    machine_remove(&question->machine);
}

#define WISH(...) ((struct facet_passthrough_wish){__VA_ARGS__})

/* ---- every reason ---- */

static void check_form(const struct facet_passthrough_verdict *verdict)
{
    assert_int_equal(verdict->size, sizeof *verdict);
    assert_true(verdict->function_count >= 1);
    for (size_t i = 1; i < verdict->function_count; i++)
        assert_true(facet_pci_address_compare(&verdict->functions[i - 1], &verdict->functions[i]) < 0);
    for (size_t i = 0; i < verdict->reason_count; i++) {
        const struct facet_passthrough_reason *reason = &verdict->reasons[i];

        assert_true(i == 0 || verdict->reasons[i - 1].weight <= reason->weight);
        assert_true(reason->text[0] != '\0');
        for (const char *byte = reason->text; *byte; byte++)
            assert_true((unsigned char)*byte >= 0x20);
    }
    uint32_t worst = verdict->reason_count ? verdict->reasons[0].weight : FACET_PASSTHROUGH_WARNING;
    assert_int_equal(verdict->answer, worst == FACET_PASSTHROUGH_STOP         ? FACET_PASSTHROUGH_NO
                                      : worst == FACET_PASSTHROUGH_UNMEASURED ? FACET_PASSTHROUGH_UNKNOWN
                                                                              : FACET_PASSTHROUGH_YES);
}

static void gather_reasons(const char *name, unsigned *found)
{
    const struct facet_passthrough_wish wishes[] = {
        WISH(.flags = 0),
        WISH(.flags = FACET_PASSTHROUGH_WHOLE_GROUP),
        WISH(.flags = FACET_PASSTHROUGH_HEADLESS, .memory_bytes = GIB, .memory_lock_bytes = 8 << 20, .has_numa_node = 1,
             .numa_node = 5),
    };
    const struct facet_pci_function *function;
    struct machine machine;

    machine_plant(&machine, name);
    struct facet_pci_snapshot *snapshot = machine_scan(&machine, MACHINE_EVERYTHING);
    for (uint32_t i = 0; (function = facet_pci_snapshot_at(snapshot, i)); i++)
        for (size_t j = 0; j < sizeof wishes / sizeof wishes[0]; j++) {
            struct facet_passthrough_wish wish = wishes[j];

            wish.functions = &function->address;
            wish.count = 1;
            struct facet_passthrough_verdict *verdict = judge_wish(snapshot, wish);
            check_form(verdict);
            for (size_t k = 0; k < verdict->reason_count; k++)
                found[verdict->reasons[k].code]++;
            facet_passthrough_verdict_destroy(verdict);
        }
    facet_pci_snapshot_destroy(snapshot);
    machine_remove(&machine);
}

static void some_machine_gives_each_reason(void **state)
{
    unsigned found[FACET_PASSTHROUGH_REASONS] = {0}, machines = 0;
    DIR *folder = opendir(getenv("FACET_TEST_MACHINES"));

    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char *end = strstr(entry->d_name, ".tree");

        if (!end)
            continue;
        *end = '\0';
        gather_reasons(entry->d_name, found);
        machines++;
    }
    closedir(folder);
    assert_true(machines >= 10);
    for (uint32_t i = 0; i < FACET_PASSTHROUGH_REASONS; i++)
        if (found[i] == 0 && i != FACET_PASSTHROUGH_STUCK) /* a stuck function needs a hanging reader, not only files */
            fail_msg("no machine of tests/fixtures/pci gives the reason %s", facet_passthrough_reason_name(i));
}

static void reasons_have_names_and_advice(void **state)
{
    for (uint32_t i = 0; i < FACET_PASSTHROUGH_REASONS; i++) {
        assert_true(facet_passthrough_reason_name(i)[0] != '\0');
        assert_true(facet_passthrough_reason_advice(i)[0] != '\0');
    }
    assert_null(facet_passthrough_reason_name(FACET_PASSTHROUGH_REASONS));
    assert_null(facet_passthrough_reason_advice(FACET_PASSTHROUGH_REASONS));
    assert_string_equal(facet_passthrough_answer_name(FACET_PASSTHROUGH_UNKNOWN), "unknown");
    assert_string_equal(facet_passthrough_answer_name(FACET_PASSTHROUGH_YES), "yes");
    assert_null(facet_passthrough_answer_name(3));
}

/* ---- stuck functions ---- */

static void a_stuck_function_stops_itself_and_its_group(void **state)
{
    struct question question;

    ask_question(&question, "laptop", "01:00.0", WISH(.flags = FACET_PASSTHROUGH_WHOLE_GROUP));
    assert_null(find_reason(question.verdict, FACET_PASSTHROUGH_STUCK, ""));
    int hang = machine_hang(&question.machine, "0000:01:00.1");
    ask_again(&question, WISH(.flags = FACET_PASSTHROUGH_WHOLE_GROUP), MACHINE_EVERYTHING);
    assert_int_equal(question.verdict->answer, FACET_PASSTHROUGH_NO);
    assert_non_null(
        find_reason(question.verdict, FACET_PASSTHROUGH_STUCK, "is stuck: its driver, or a reset, has not returned"));
    assert_null(find_reason(question.verdict, FACET_PASSTHROUGH_UNREAD, "stuck")); /* it is reported once */
    ask_again(&question, WISH(.flags = 0), MACHINE_EVERYTHING);
    assert_non_null(find_reason(question.verdict, FACET_PASSTHROUGH_STUCK, "0000:01:00.1 of the same group is stuck"));
    close(hang);
    ask_again(&question, WISH(.flags = 0), MACHINE_EVERYTHING);
    assert_null(find_reason(question.verdict, FACET_PASSTHROUGH_STUCK, ""));
    end_question(&question);
}

/* ---- groups ---- */

static void a_group_that_is_not_viable_names_its_members(void **state)
{
    struct question question;

    ask_question(&question, "laptop", "01:00.0", WISH(.flags = 0));
    assert_int_equal(question.verdict->function_count, 1);
    assert_non_null(
        find_reason(question.verdict, FACET_PASSTHROUGH_GROUP_DRIVER,
                    "its group 1 is not viable: 0000:01:00.1 of the same group has the host's driver snd_hda_intel"));
    assert_int_equal(count_reasons(question.verdict, FACET_PASSTHROUGH_GROUP_DRIVER),
                     3); /* the port above is not named */
    assert_int_equal(count_reasons(question.verdict, FACET_PASSTHROUGH_COMPANION), 3);
    ask_again(&question, WISH(.flags = FACET_PASSTHROUGH_WHOLE_GROUP), MACHINE_EVERYTHING);
    assert_int_equal(question.verdict->function_count, 4);
    assert_int_equal(count_reasons(question.verdict, FACET_PASSTHROUGH_GROUP_DRIVER), 0);
    assert_int_equal(count_reasons(question.verdict, FACET_PASSTHROUGH_COMPANION), 0);
    end_question(&question);
}

/* Present kernels accept the port driver and a stub in a group. Other drivers of bridges count as the host's. */
static void only_the_port_driver_of_bridges_is_accepted(void **state)
{
    static const char path[] = "sys/devices/pci0000:00/0000:00:01.0/driver";
    static const struct {
        const char *driver;
        size_t count;
    } cases[] = {{"pcieport", 3}, {"pci-stub", 3}, {"shpchp", 4}};
    struct question question;

    ask_question(&question, "laptop", "01:00.0", WISH(.flags = 0));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char target[64];

        snprintf(target, sizeof target, "../../../bus/pci/drivers/%s", cases[i].driver);
        unlinkat(question.machine.root, path, 0);
        assert_int_equal(symlinkat(target, question.machine.root, path), 0);
        ask_again(&question, WISH(.flags = 0), MACHINE_EVERYTHING);
        assert_int_equal(count_reasons(question.verdict, FACET_PASSTHROUGH_GROUP_DRIVER), cases[i].count);
    }
    assert_non_null(find_reason(question.verdict, FACET_PASSTHROUGH_GROUP_DRIVER,
                                "0000:00:01.0 of the same group has the host's driver shpchp"));
    end_question(&question);
}

/* Like the kernel, Facet counts drivers of ISA bridges and host bridges as drivers of the host. */
static void a_driver_of_an_isa_bridge_makes_a_group_not_viable(void **state)
{
    struct question question;

    machine_plant(&question.machine, "ready");
    machine_folder(&question.machine, "sys/bus/pci/devices/0000:00:1f.0");
    machine_file(&question.machine, "sys/bus/pci/devices/0000:00:1f.0/class", "0x060100\n");
    symlinkat("../drivers/lpc_ich", question.machine.root, "sys/bus/pci/devices/0000:00:1f.0/driver");
    symlinkat("../groups/4", question.machine.root, "sys/bus/pci/devices/0000:00:1f.0/iommu_group");
    question.snapshot = machine_scan(&question.machine, MACHINE_EVERYTHING);
    question.address = address_of("01:00.0");
    question.verdict = judge_wish(
        question.snapshot, WISH(.flags = FACET_PASSTHROUGH_WHOLE_GROUP, .functions = &question.address, .count = 1));
    assert_non_null(find_reason(question.verdict, FACET_PASSTHROUGH_GROUP_DRIVER,
                                "of the same group has the host's driver lpc_ich"));
    assert_int_equal(question.verdict->function_count, 2);
    end_question(&question);
}

static void a_group_is_for_one_virtual_machine(void **state)
{
    struct question question;

    ask_question(&question, "acs_override", "02:00.0", WISH(.flags = 0));
    assert_non_null(find_reason(question.verdict, FACET_PASSTHROUGH_GROUP_OPEN, "process 2200 (qemu-system-x86)"));
    assert_int_equal(question.verdict->answer, FACET_PASSTHROUGH_NO);
    ask_again(&question, WISH(.own_pid = 2200), MACHINE_EVERYTHING);
    assert_int_equal(count_reasons(question.verdict, FACET_PASSTHROUGH_GROUP_OPEN), 0);
    end_question(&question);
}

/* ---- values that were not measured ---- */

static void skipped_holders_make_the_answer_unknown(void **state)
{
    struct question question;

    ask_question(&question, "ready", "01:00.0", WISH(.flags = FACET_PASSTHROUGH_WHOLE_GROUP));
    assert_int_equal(question.verdict->answer, FACET_PASSTHROUGH_YES);
    assert_int_equal(question.verdict->reason_count, 0);
    ask_again(&question, WISH(.flags = FACET_PASSTHROUGH_WHOLE_GROUP), FACET_PCI_SCAN_ALL);
    assert_int_equal(question.verdict->answer, FACET_PASSTHROUGH_UNKNOWN);
    assert_non_null(find_reason(question.verdict, FACET_PASSTHROUGH_UNREAD, "holders could not be read: skipped"));
    end_question(&question);
}

static void an_unread_value_never_makes_the_answer_yes(void **state)
{
    static const struct {
        const char *path, *text, *reason;
    } cases[] = {
        {"proc/interrupts", "", "whether interrupts are remapped is not known"},
        {"sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/class", "x", "identity could not be read: malformed"},
        {"sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/driver", "x", "driver could not be read: malformed"},
        {"sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/iommu_group", "x", "group could not be read: malformed"},
        {"sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/config", "x", "config could not be read: malformed"},
        {"sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/sriov_totalvfs", "x", "sriov could not be read: malformed"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct question question;

        ask_question(&question, "ready", "01:00.0", WISH(.flags = 0));
        machine_file(&question.machine, cases[i].path, cases[i].text);
        ask_again(&question, WISH(.flags = 0), MACHINE_EVERYTHING);
        if (!find_reason(question.verdict, FACET_PASSTHROUGH_UNREAD, cases[i].reason))
            fail_msg("%s is not among the reasons, expected it", cases[i].reason);
        assert_int_not_equal(question.verdict->answer, FACET_PASSTHROUGH_YES);
        end_question(&question);
    }
}

/* A function far from any accelerator is not read in full. */
static void a_skipped_value_never_makes_the_answer_yes(void **state)
{
    struct question question;

    ask_question(&question, "desktop", "00:14.3", WISH(.flags = 0));
    ask_again(&question, WISH(.flags = 0), FACET_PCI_SCAN_HOLDERS);
    assert_non_null(find_reason(question.verdict, FACET_PASSTHROUGH_UNREAD, "sriov could not be read: skipped"));
    assert_non_null(find_reason(question.verdict, FACET_PASSTHROUGH_UNREAD, "config could not be read: skipped"));
    assert_int_not_equal(question.verdict->answer, FACET_PASSTHROUGH_YES);
    end_question(&question);
}

static void the_console_may_be_behind_bars_that_were_not_read(void **state)
{
    struct question question;

    ask_question(&question, "laptop", "00:02.0", WISH(.flags = FACET_PASSTHROUGH_HEADLESS));
    assert_non_null(find_reason(question.verdict, FACET_PASSTHROUGH_CONSOLE, "(efifb) is in its BAR 2"));
    machine_file(&question.machine, "sys/devices/pci0000:00/0000:00:02.0/resource", "?\n");
    ask_again(&question, WISH(.flags = FACET_PASSTHROUGH_HEADLESS), MACHINE_EVERYTHING);
    assert_non_null(find_reason(question.verdict, FACET_PASSTHROUGH_UNREAD, "bars could not be read"));
    assert_int_equal(unlinkat(question.machine.root, "proc/iomem", 0), 0);
    ask_again(&question, WISH(.flags = FACET_PASSTHROUGH_HEADLESS), MACHINE_EVERYTHING);
    assert_non_null(
        find_reason(question.verdict, FACET_PASSTHROUGH_UNREAD, "whether the host's console is in its memory"));
    end_question(&question);
}

/* ---- the virtual machine ---- */

static void memory_and_bars_of_all_functions_are_counted(void **state)
{
    struct question question;
    const uint64_t bars = 2 * (16 * GIB + (256 << 20) + (1 << 20)); /* both functions have three memory BARs */

    ask_question(&question, "acs_override", "01:00.0", WISH(.flags = 0));
    struct facet_pci_address both[] = {address_of("01:00.0"), address_of("02:00.0")};
    struct facet_passthrough_wish wish =
        WISH(.functions = both, .count = 2, .memory_bytes = GIB, .memory_lock_bytes = GIB + bars);
    struct facet_passthrough_verdict *verdict = judge_wish(question.snapshot, wish);
    assert_int_equal(count_reasons(verdict, FACET_PASSTHROUGH_MEMORY_LOCK), 0);
    facet_passthrough_verdict_destroy(verdict);
    wish.memory_lock_bytes--;
    verdict = judge_wish(question.snapshot, wish);
    assert_int_equal(count_reasons(verdict, FACET_PASSTHROUGH_MEMORY_LOCK), 1);
    assert_non_null(find_reason(verdict, FACET_PASSTHROUGH_MEMORY_LOCK, "of memory and BARs would be locked"));
    facet_passthrough_verdict_destroy(verdict);
    wish.memory_bytes = UINT64_MAX; /* no sum overflows */
    verdict = judge_wish(question.snapshot, wish);
    assert_int_equal(count_reasons(verdict, FACET_PASSTHROUGH_MEMORY_LOCK), 1);
    facet_passthrough_verdict_destroy(verdict);
    wish.memory_lock_bytes = UINT64_MAX; /* unlimited */
    verdict = judge_wish(question.snapshot, wish);
    assert_int_equal(count_reasons(verdict, FACET_PASSTHROUGH_MEMORY_LOCK), 0);
    facet_passthrough_verdict_destroy(verdict);
    end_question(&question);
}

static void a_function_is_far_only_from_a_known_node(void **state)
{
    struct question question;

    ask_question(&question, "server", "9a:00.0", WISH(.has_numa_node = 1, .numa_node = 0));
    assert_non_null(
        find_reason(question.verdict, FACET_PASSTHROUGH_FAR, "is on NUMA node 1, the virtual machine on 0"));
    ask_again(&question, WISH(.has_numa_node = 1, .numa_node = 1), MACHINE_EVERYTHING);
    assert_int_equal(count_reasons(question.verdict, FACET_PASSTHROUGH_FAR), 0);
    end_question(&question);
    ask_question(&question, "ready", "01:00.0", WISH(.has_numa_node = 1, .numa_node = 0));
    assert_int_equal(count_reasons(question.verdict, FACET_PASSTHROUGH_FAR), 0);
    end_question(&question);
}

static void the_last_gpu_is_kept_unless_the_host_may_be_headless(void **state)
{
    struct question question;

    ask_question(&question, "ready", "00:02.0", WISH(.flags = 0));
    assert_non_null(find_reason(question.verdict, FACET_PASSTHROUGH_ONLY_GPU, "is the last GPU"));
    ask_again(&question, WISH(.flags = FACET_PASSTHROUGH_HEADLESS), MACHINE_EVERYTHING);
    assert_int_equal(question.verdict->answer, FACET_PASSTHROUGH_YES);
    end_question(&question);
    ask_question(&question, "desktop", "26:00.0", WISH(.flags = 0));
    assert_non_null(find_reason(question.verdict, FACET_PASSTHROUGH_ONLY_GPU, "on which the firmware shows"));
    struct facet_pci_address both[] = {address_of("22:00.0"), address_of("26:00.0")};
    struct facet_passthrough_verdict *verdict = judge_wish(question.snapshot, WISH(.functions = both, .count = 2));
    assert_int_equal(count_reasons(verdict, FACET_PASSTHROUGH_ONLY_GPU), 2); /* no GPU would remain */
    facet_passthrough_verdict_destroy(verdict);
    end_question(&question);
}

/* ---- wrong use ---- */

static void wrong_wishes_are_refused(void **state)
{
    struct facet_pci_address address = address_of("00:01.0");
    struct facet_passthrough_wish wish = {.size = sizeof wish, .functions = &address, .count = 1};
    struct facet_passthrough_verdict *verdict = NULL;
    struct facet_error error = {0};
    struct machine machine;

    machine_plant(&machine, "arm_soc");
    struct facet_pci_snapshot *snapshot = machine_scan(&machine, 0);
    assert_int_equal(facet_passthrough_judge(NULL, &wish, &verdict, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_passthrough_judge(snapshot, NULL, &verdict, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_passthrough_judge(snapshot, &wish, NULL, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_passthrough_judge(snapshot, &wish, &verdict, &error), FACET_NOT_FOUND);
    assert_non_null(strstr(error.message, "there is no PCI function 0000:00:01.0"));
    wish.flags = 4; /* a flag that does not exist */
    assert_int_equal(facet_passthrough_judge(snapshot, &wish, &verdict, &error), FACET_INVALID_ARGUMENT);
    wish.flags = 0;
    wish.count = 0;
    assert_int_equal(facet_passthrough_judge(snapshot, &wish, &verdict, &error), FACET_INVALID_ARGUMENT);
    wish = (struct facet_passthrough_wish){.size = sizeof wish - 1, .functions = &address, .count = 1};
    assert_int_equal(facet_passthrough_judge(snapshot, &wish, &verdict, &error), FACET_INVALID_ARGUMENT);
    assert_null(verdict);
    facet_passthrough_verdict_destroy(NULL);
    facet_pci_snapshot_destroy(snapshot);
    machine_remove(&machine);
}

static void a_function_named_twice_counts_once(void **state)
{
    struct question question;

    ask_question(&question, "ready", "01:00.0", WISH(.flags = 0));
    struct facet_pci_address thrice[] = {question.address, address_of("01:00.1"), question.address};
    struct facet_passthrough_verdict *verdict = judge_wish(question.snapshot, WISH(.functions = thrice, .count = 3));
    assert_int_equal(verdict->function_count, 2);
    assert_int_equal(verdict->answer, FACET_PASSTHROUGH_YES);
    facet_passthrough_verdict_destroy(verdict);
    end_question(&question);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(some_machine_gives_each_reason),
        cmocka_unit_test(reasons_have_names_and_advice),
        cmocka_unit_test(a_stuck_function_stops_itself_and_its_group),
        cmocka_unit_test(a_group_that_is_not_viable_names_its_members),
        cmocka_unit_test(only_the_port_driver_of_bridges_is_accepted),
        cmocka_unit_test(a_driver_of_an_isa_bridge_makes_a_group_not_viable),
        cmocka_unit_test(a_group_is_for_one_virtual_machine),
        cmocka_unit_test(skipped_holders_make_the_answer_unknown),
        cmocka_unit_test(an_unread_value_never_makes_the_answer_yes),
        cmocka_unit_test(a_skipped_value_never_makes_the_answer_yes),
        cmocka_unit_test(the_console_may_be_behind_bars_that_were_not_read),
        cmocka_unit_test(memory_and_bars_of_all_functions_are_counted),
        cmocka_unit_test(a_function_is_far_only_from_a_known_node),
        cmocka_unit_test(the_last_gpu_is_kept_unless_the_host_may_be_headless),
        cmocka_unit_test(wrong_wishes_are_refused),
        cmocka_unit_test(a_function_named_twice_counts_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
