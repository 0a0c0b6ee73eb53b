/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the form of labels. Never: depends on the locale. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "base/label.h"

#define LONGEST "a23456789012345678901234567890123456789012345678901234567890123" /* 63 */

static void keys_and_values_have_a_form(void **state)
{
    static const struct {
        const char *key, *value;
        bool is_good;
    } cases[] = {
        {"a", "b", true},          {"9", " ", true},         {"a.b_c/d-e", "=~\"\\", true},
        {LONGEST, LONGEST, true},  {"", "b", false},         {LONGEST "4", "b", false},
        {"-a", "b", false},        {"a.", "b", false},       {"a b", "c", false},
        {"a=b", "c", false},       {"\xc3\xa4", "b", false}, {"a", "", false},
        {"a", LONGEST "4", false}, {"a", "b\n", false},      {"a", "\x7f", false},
        {"a", "\xc3\xa4", false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct facet_error error = {0};
        enum facet_status status = facet_label_check(cases[i].key, cases[i].value, &error);

        if ((status == FACET_OK) != cases[i].is_good)
            fail_msg("case %zu: status %d", i, status);
        if (status != FACET_OK)
            assert_string_equal(error.argument, "labels");
    }
}

static void lines_are_read_one_by_one(void **state)
{
    static const char lines[] = "a=b=c\nkey=value\n";
    struct facet_label_line line;
    size_t at = 0;

    assert_true(facet_label_next(lines, &at, &line));
    assert_int_equal(line.key_length, 1);
    assert_int_equal(line.value_length, 3);
    assert_memory_equal(line.value, "b=c", 3);
    assert_true(facet_label_next(lines, &at, &line));
    assert_memory_equal(line.key, "key=value", 9);
    assert_int_equal(line.key_length, 3);
    assert_false(facet_label_next(lines, &at, &line));
    assert_int_equal(at, sizeof lines - 1);
    at = 0;
    assert_false(facet_label_next("no\na=b\n", &at, &line)); /* the '=' is in another line */
    assert_int_equal(at, 0);
}

static void a_change_keeps_labels_that_it_does_not_name(void **state)
{
    char lines[FACET_LABELS_SIZE] = "a=1\nab=2\nb=3\n", full[FACET_LABELS_SIZE] = "";
    struct facet_error error;

    assert_int_equal(facet_label_merge(lines, "b=\nc=4\nab=5\nnone=\n", NULL), FACET_OK);
    assert_string_equal(lines, "a=1\nc=4\nab=5\n");
    for (char key = 'a'; key < 'a' + (int)FACET_LABELS_MOST; key++) {
        const char line[] = {key, '=', '1', '\n', 0};

        assert_int_equal(facet_label_merge(full, line, NULL), FACET_OK);
    }
    assert_int_equal(facet_label_merge(full, "z=1\n", &error), FACET_OUT_OF_RANGE);
    assert_int_equal(strlen(full), FACET_LABELS_MOST * 4);
    assert_int_equal(facet_label_merge(full, "a=\nz=1\n", NULL), FACET_OK);
    assert_non_null(strstr(full, "z=1\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_and_values_have_a_form),
        cmocka_unit_test(lines_are_read_one_by_one),
        cmocka_unit_test(a_change_keeps_labels_that_it_does_not_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
