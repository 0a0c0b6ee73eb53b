/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about reading below a directory: values, failures, paths that lead out of it. Never: waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "machine.h"
#include "passthrough/scan/tree.h"

static int make_machine(void **state)
{
    struct machine *machine = calloc(1, sizeof *machine);

    assert_non_null(machine);
    machine_make(machine);
    *state = machine;
    return 0;
}

static int remove_machine(void **state)
{
    machine_remove(*state);
    free(*state);
    return 0;
}

static void expect_text(int root, const char *text, enum facet_pci_unread unread)
{
    char got[16] = "before";

    assert_int_equal(tree_read_text(root, "file", got, sizeof got), unread);
    assert_string_equal(got, text);
}

static void texts_are_one_line(void **state)
{
    const struct machine *machine = *state;
    char got[8];

    machine_file(machine, "file", "a line\n");
    expect_text(machine->root, "a line", FACET_PCI_READ);
    machine_file(machine, "file", "no end");
    expect_text(machine->root, "no end", FACET_PCI_READ);
    machine_file(machine, "file", "");
    expect_text(machine->root, "", FACET_PCI_READ);
    machine_file(machine, "file", "\n");
    expect_text(machine->root, "", FACET_PCI_READ);
    machine_file(machine, "file", "two\nlines\n");
    expect_text(machine->root, "", FACET_PCI_UNREAD_MALFORMED);
    machine_file(machine, "file", "\033[31m\n");
    expect_text(machine->root, "", FACET_PCI_UNREAD_MALFORMED);
    machine_file(machine, "file", "fifteen bytes..\n"); /* exactly as long as the buffer allows */
    expect_text(machine->root, "fifteen bytes..", FACET_PCI_READ);
    machine_file(machine, "file", "sixteen bytes...\n");
    expect_text(machine->root, "", FACET_PCI_UNREAD_MALFORMED);
    assert_int_equal(tree_read_text_cut(machine->root, "file", got, sizeof got), FACET_PCI_READ);
    assert_string_equal(got, "sixteen");
}

static void numbers_are_all_digits(void **state)
{
    const struct machine *machine = *state;
    static const struct {
        const char *text;
        int base;
        uint64_t most, value;
        enum facet_pci_unread unread;
    } cases[] = {
        {"0x10de\n", 16, UINT16_MAX, 0x10de, FACET_PCI_READ},
        {"10de\n", 16, UINT16_MAX, 0x10de, FACET_PCI_READ},
        {"0x10000\n", 16, UINT16_MAX, 7, FACET_PCI_UNREAD_MALFORMED},
        {"0\n", 10, 1, 0, FACET_PCI_READ},
        {"18446744073709551615\n", 10, UINT64_MAX, UINT64_MAX, FACET_PCI_READ},
        {"18446744073709551616\n", 10, UINT64_MAX, 7, FACET_PCI_UNREAD_MALFORMED},
        {"-1\n", 10, UINT64_MAX, 7, FACET_PCI_UNREAD_MALFORMED},
        {"+1\n", 10, UINT64_MAX, 7, FACET_PCI_UNREAD_MALFORMED},
        {" 1\n", 10, UINT64_MAX, 7, FACET_PCI_UNREAD_MALFORMED},
        {"1 2\n", 10, UINT64_MAX, 7, FACET_PCI_UNREAD_MALFORMED},
        {"0x\n", 16, UINT64_MAX, 7, FACET_PCI_UNREAD_MALFORMED},
        {"0x1\n", 10, UINT64_MAX, 7, FACET_PCI_UNREAD_MALFORMED},
        {"", 10, UINT64_MAX, 7, FACET_PCI_UNREAD_MALFORMED},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t value = 7;

        machine_file(machine, "file", cases[i].text);
        assert_int_equal(tree_read_number(machine->root, "file", cases[i].base, cases[i].most, &value),
                         cases[i].unread);
        assert_int_equal(value, cases[i].value);
    }
}

static void a_path_that_is_no_file_is_not_read(void **state)
{
    const struct machine *machine = *state;
    char got[16];

    machine_folder(machine, "folder");
    assert_int_equal(mkfifoat(machine->root, "pipe", 0600), 0); /* a pipe without a writer */
    assert_int_equal(symlinkat("loop", machine->root, "loop"), 0);
    assert_int_equal(symlinkat("nowhere", machine->root, "dangling"), 0);
    assert_int_equal(tree_read_text(machine->root, "folder", got, sizeof got), FACET_PCI_UNREAD_MALFORMED);
    assert_int_equal(tree_read_text(machine->root, "pipe", got, sizeof got), FACET_PCI_UNREAD_MALFORMED);
    assert_int_equal(tree_read_text(machine->root, "loop", got, sizeof got), FACET_PCI_UNREAD_MALFORMED);
    assert_int_equal(tree_read_text(machine->root, "dangling", got, sizeof got), FACET_PCI_UNREAD_ABSENT);
    assert_int_equal(tree_read_text(machine->root, "nothing", got, sizeof got), FACET_PCI_UNREAD_ABSENT);
    assert_int_equal(tree_read_text(machine->root, "folder/nothing", got, sizeof got), FACET_PCI_UNREAD_ABSENT);
    assert_true(tree_exists(machine->root, "pipe"));
    assert_false(tree_exists(machine->root, "dangling"));
    assert_int_equal(tree_open_directory(machine->root, "pipe"), -1);
}

/* Absolute links and ".." stay below the directory, as if it were the root of the file system. */
static void no_path_leaves_the_directory(void **state)
{
    const struct machine *machine = *state;
    char got[64];

    machine_folder(machine, "etc");
    machine_file(machine, "etc/hostname", "inside\n");
    assert_int_equal(symlinkat("/etc/hostname", machine->root, "absolute"), 0);
    assert_int_equal(symlinkat("../../../../../../../etc/hostname", machine->root, "up"), 0);
    assert_int_equal(symlinkat("/proc", machine->root, "processes"), 0);
    assert_int_equal(symlinkat("target", machine->root, "etc/link"), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(tree_read_text(machine->root, i ? "absolute" : "up", got, sizeof got), FACET_PCI_READ);
        assert_string_equal(got, "inside");
    }
    assert_int_equal(tree_read_text(machine->root, "/etc/../../../etc/hostname", got, sizeof got), FACET_PCI_READ);
    assert_string_equal(got, "inside");
    assert_int_equal(tree_read_link(machine->root, "processes/self", got, sizeof got), FACET_PCI_UNREAD_ABSENT);
    assert_int_equal(tree_read_link(machine->root, "../../proc/self", got, sizeof got), FACET_PCI_UNREAD_ABSENT);
    assert_int_equal(tree_read_link(machine->root, "etc/link", got, sizeof got), FACET_PCI_READ);
    assert_string_equal(got, "target");
}

static void names_of_links_are_read(void **state)
{
    const struct machine *machine = *state;
    static const struct {
        const char *target, *name;
        enum facet_pci_unread unread;
    } cases[] = {
        {"../../../bus/pci/drivers/vfio-pci", "vfio-pci", FACET_PCI_READ},
        {"plain", "plain", FACET_PCI_READ},
        {"/", "", FACET_PCI_UNREAD_MALFORMED},
        {"a/", "", FACET_PCI_UNREAD_MALFORMED},
        {"..", "", FACET_PCI_UNREAD_MALFORMED},
        {"a/a name that is too long", "", FACET_PCI_UNREAD_MALFORMED},
        {"a/\033[31m", "", FACET_PCI_UNREAD_MALFORMED},
    };
    char got[16];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unlinkat(machine->root, "link", 0);
        assert_int_equal(symlinkat(cases[i].target, machine->root, "link"), 0);
        assert_int_equal(tree_read_link_name(machine->root, "link", got, sizeof got), cases[i].unread);
        assert_string_equal(got, cases[i].name);
    }
    assert_int_equal(tree_read_link_name(machine->root, "nothing", got, sizeof got), FACET_PCI_UNREAD_ABSENT);
    machine_file(machine, "file", "x");
    assert_int_equal(tree_read_link_name(machine->root, "file", got, sizeof got), FACET_PCI_UNREAD_MALFORMED);
}

struct lines {
    size_t count, longest, stop;
    char last[16];
};

static bool take_line(void *context, char *line)
{
    struct lines *lines = context;

    lines->count++;
    lines->longest = strlen(line) > lines->longest ? strlen(line) : lines->longest;
    snprintf(lines->last, sizeof lines->last, "%s", line);
    return lines->count != lines->stop;
}

static void lines_come_one_by_one(void **state)
{
    const struct machine *machine = *state;
    struct lines lines = {0};

    machine_file(machine, "file", "one\n\nthree\nfour");
    assert_int_equal(tree_each_line(machine->root, "file", take_line, &lines), FACET_PCI_READ);
    assert_int_equal(lines.count, 4);
    assert_string_equal(lines.last, "four");
    lines = (struct lines){.stop = 3};
    assert_int_equal(tree_each_line(machine->root, "file", take_line, &lines), FACET_PCI_READ);
    assert_string_equal(lines.last, "three");
    assert_int_equal(tree_each_line(machine->root, "nothing", take_line, &lines), FACET_PCI_UNREAD_ABSENT);
    assert_int_equal(tree_each_line(machine->root, ".", take_line, &lines), FACET_PCI_UNREAD_MALFORMED);
}

/* A long line is taken up to 65535 bytes, and the next line is that after its end. */
static void long_lines_are_cut_at_64_kib(void **state)
{
    const struct machine *machine = *state;
    char *text = malloc(300000);
    struct lines lines = {0};

    assert_non_null(text);
    memset(text, '1', 300000);
    text[50000] = '\n';
    memcpy(text + 299990, "\nlast line", 10);
    machine_bytes(machine, "file", text, 300000);
    assert_int_equal(tree_each_line(machine->root, "file", take_line, &lines), FACET_PCI_READ);
    assert_int_equal(lines.count, 3);
    assert_int_equal(lines.longest, 65535);
    assert_string_equal(lines.last, "last line");
    free(text);
}

static void a_huge_file_of_zero_bytes_is_malformed(void **state)
{
    const struct machine *machine = *state;
    struct lines lines = {0};

    machine_file(machine, "file", "");
    int fd = openat(machine->root, "file", O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0); /* 1 TiB of zero bytes: no text file */
    close(fd);
    assert_int_equal(tree_each_line(machine->root, "file", take_line, &lines), FACET_PCI_UNREAD_MALFORMED);
    assert_true(lines.count <= 1);
}

static bool take_name(void *context, char *name)
{
    ++*(size_t *)context;
    return name[0] != 0;
}

static void names_of_a_directory_are_listed(void **state)
{
    const struct machine *machine = *state;
    size_t count = 0;

    machine_folder(machine, "folder");
    machine_file(machine, "folder/a", "");
    machine_file(machine, "folder/b", "");
    machine_file(machine, "folder/.hidden", "");
    assert_int_equal(tree_each_name(machine->root, "folder", take_name, &count), FACET_PCI_READ);
    assert_int_equal(count, 2);
    assert_int_equal(tree_each_name(machine->root, "nothing", take_name, &count), FACET_PCI_UNREAD_ABSENT);
    assert_int_equal(tree_each_name(machine->root, "folder/a", take_name, &count), FACET_PCI_UNREAD_ABSENT);
}

static void errors_have_reasons(void **state)
{
    assert_int_equal(tree_unread(0), FACET_PCI_READ);
    assert_int_equal(tree_unread(ENOENT), FACET_PCI_UNREAD_ABSENT);
    assert_int_equal(tree_unread(ENODEV), FACET_PCI_UNREAD_ABSENT);
    assert_int_equal(tree_unread(EACCES), FACET_PCI_UNREAD_PERMISSION);
    assert_int_equal(tree_unread(ELOOP), FACET_PCI_UNREAD_MALFORMED);
    assert_int_equal(tree_unread(EIO), FACET_PCI_UNREAD_IO);
    assert_int_equal(tree_unread(EMFILE), FACET_PCI_UNREAD_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(texts_are_one_line, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(numbers_are_all_digits, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(a_path_that_is_no_file_is_not_read, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(no_path_leaves_the_directory, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(names_of_links_are_read, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(lines_come_one_by_one, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(long_lines_are_cut_at_64_kib, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(a_huge_file_of_zero_bytes_is_malformed, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(names_of_a_directory_are_listed, make_machine, remove_machine),
        cmocka_unit_test(errors_have_reasons),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
