/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of the status table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <facet/status.h>

static const struct {
    enum facet_status status;
    int value;
    const char *name, *text, *advice;
} rows[] = {
#define ROW(NAME, name, value, text, todo) {FACET_##NAME, value, #name, text, todo},
    FACET_STATUS_TABLE(ROW)
#undef ROW
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static void every_row_is_found(void **state)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        assert_int_equal(rows[i].status, rows[i].value);
        assert_string_equal(facet_status_name(rows[i].status), rows[i].name);
        assert_string_equal(facet_status_text(rows[i].status), rows[i].text);
        assert_string_equal(facet_status_advice(rows[i].status), rows[i].advice);
        assert_int_equal(facet_status_from_name(rows[i].name), rows[i].status);
    }
}

static void names_and_values_are_unique(void **state)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(rows[i].name, rows[j].name);
            assert_int_not_equal(rows[i].value, rows[j].value);
        }
    }
}

/* Callers act on the range without knowing the code, so a code in the wrong range is a wrong instruction. */
static void ranges_of_codes_tell_what_to_do(void **state)
{
    assert_in_range(-FACET_INVALID_ARGUMENT, 1, 99);
    assert_in_range(-FACET_TOO_SMALL, 1, 99);
    assert_in_range(-FACET_BUSY, 100, 199);
    assert_in_range(-FACET_FROZEN, 100, 199);
    assert_in_range(-FACET_DEVICE_LOST, 200, 299);
    assert_in_range(-FACET_ABI_MISMATCH, 300, 399);
    assert_in_range(-FACET_IO, 400, 499);
}

static void unknown_status_is_internal(void **state)
{
    assert_string_equal(facet_status_name((enum facet_status)12345), "internal");
    assert_int_equal(facet_status_from_name("no_such_code"), FACET_INTERNAL);
    assert_int_equal(facet_status_from_name(NULL), FACET_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_found),
        cmocka_unit_test(names_and_values_are_unique),
        cmocka_unit_test(ranges_of_codes_tell_what_to_do),
        cmocka_unit_test(unknown_status_is_internal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
