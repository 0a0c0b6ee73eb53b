/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about reading and writing amounts as text, and about the names of slot types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <facet/slot.h>

#define ONE           FACET_AMOUNT_ONE
#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static void test_amounts_round_trip(void **state)
{
    static const struct {
        const char *text;
        int64_t amount;
        const char *printed;
    } cases[] = {
        {"1", ONE, "1"},
        {"0", 0, "0"},
        {"-0", 0, "0"},
        {"0.5", 500000, "0.5"},
        {"1.000001", 1000001, "1.000001"},
        {"0.000001", 1, "0.000001"},
        {"1.50000000000000000000000", 1500000, "1.5"},
        {"007", 7 * ONE, "7"},
        {".5", 500000, "0.5"},
        {"5.", 5 * ONE, "5"},
        {"1E+3", 1000 * ONE, "1000"},
        {"25e-2", 250000, "0.25"},
        {"100000000000000000000e-20", ONE, "1"},
        {"0e99999999", 0, "0"},
        {"9223372036854.775807", INT64_MAX, "9223372036854.775807"},
    };

    for (size_t i = 0; i < LENGTH(cases); i++) {
        char printed[FACET_AMOUNT_SIZE];
        int64_t amount = -1;

        assert_int_equal(facet_amount_parse(cases[i].text, "amount", &amount, NULL), FACET_OK);
        assert_int_equal(amount, cases[i].amount);
        assert_string_equal(facet_amount_format(amount, printed, sizeof printed), cases[i].printed);
    }
}

static void test_wrong_amounts_are_refused(void **state)
{
    static const struct {
        const char *text;
        enum facet_status status;
        const char *fragment;
    } cases[] = {
        {"", FACET_INVALID_ARGUMENT, "decimal"},
        {".", FACET_INVALID_ARGUMENT, "decimal"},
        {"x", FACET_INVALID_ARGUMENT, "decimal"},
        {"1x", FACET_INVALID_ARGUMENT, "decimal"},
        {" 1", FACET_INVALID_ARGUMENT, "decimal"},
        {"1.2.3", FACET_INVALID_ARGUMENT, "decimal"},
        {"+1", FACET_INVALID_ARGUMENT, "decimal"},
        {"1e", FACET_INVALID_ARGUMENT, "decimal"},
        {"1e+", FACET_INVALID_ARGUMENT, "decimal"},
        {"NaN", FACET_INVALID_ARGUMENT, "decimal"},
        {"--1", FACET_INVALID_ARGUMENT, "decimal"},
        {"-1", FACET_OUT_OF_RANGE, "negative"},
        {"-0.000001", FACET_OUT_OF_RANGE, "negative"},
        {"0.0000001", FACET_OUT_OF_RANGE, "6 decimals"},
        {"1.2345678", FACET_OUT_OF_RANGE, "6 decimals"},
        {"1e-7", FACET_OUT_OF_RANGE, "6 decimals"},
        {"9223372036854.775808", FACET_OUT_OF_RANGE, "at most"},
        {"1e14", FACET_OUT_OF_RANGE, "at most"},
        {"1e999999999999999999999", FACET_OUT_OF_RANGE, "at most"},
        {"123456789012345678901234567890", FACET_OUT_OF_RANGE, "at most"},
    };

    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct facet_error error = {0};
        int64_t amount = -7;

        assert_int_equal(facet_amount_parse(cases[i].text, "memory", &amount, &error), cases[i].status);
        assert_int_equal(amount, -7);
        assert_string_equal(error.argument, "memory");
        assert_non_null(strstr(error.message, cases[i].text));
        assert_non_null(strstr(error.message, cases[i].fragment));
    }
    assert_int_equal(facet_amount_parse(NULL, NULL, NULL, NULL), FACET_INVALID_ARGUMENT);
}

static void test_negative_amounts_are_shown(void **state)
{
    char text[FACET_AMOUNT_SIZE];

    assert_string_equal(facet_amount_format(-30000, text, sizeof text), "-0.03");
    assert_string_equal(facet_amount_format(INT64_MIN, text, sizeof text), "-9223372036854.775808");
}

static void test_at_least_the_requested_decimals_are_printed(void **state)
{
    char text[FACET_AMOUNT_SIZE];
    (void)state;

    assert_string_equal(facet_amount_format_places(1500000, 2, text, sizeof text), "1.50");
    assert_string_equal(facet_amount_format_places(1000000, 1, text, sizeof text), "1.0");
    assert_string_equal(facet_amount_format_places(1000000, 99, text, sizeof text), "1.000000"); /* at most six */
    assert_string_equal(facet_amount_format_places(-1, 0, text, sizeof text), "-0.000001");
    assert_string_equal(facet_amount_format_places(0, 0, text, sizeof text), "0");
}

static void test_slot_types_have_names(void **state)
{
    (void)state;
    assert_string_equal(facet_slot_type_name(FACET_SLOT_UNIFIED), "unified");
    assert_null(facet_slot_type_name(4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_amounts_round_trip),
        cmocka_unit_test(test_wrong_amounts_are_refused),
        cmocka_unit_test(test_negative_amounts_are_shown),
        cmocka_unit_test(test_at_least_the_requested_decimals_are_printed),
        cmocka_unit_test(test_slot_types_have_names),
    };

    return cmocka_run_group_tests_name("base/slot", tests, NULL, NULL);
}
