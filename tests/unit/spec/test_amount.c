/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about exact decimals and the names of slots. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <facet/spec.h>

static void test_amounts(void **state)
{
    static const struct {
        const char *text;
        int64_t micro;
        const char *back;
    } good[] = {
        {"0", 0, "0"},
        {"1", 1000000, "1"},
        {"1.5", 1500000, "1.5"},
        {"0.000001", 1, "0.000001"},
        {"1.5000000000", 1500000, "1.5"},
        {"007", 7000000, "7"},
        {"9223372036854.775807", INT64_MAX, "9223372036854.775807"},
    };
    static const char *const wrong[] = {"",          "-1",  "+1", ".5", "1.",  "1e3", "0.0000001",
                                        "1.0000005", "nan", " 1", "1 ", "0x1", "1,5", NULL};
    char text[FACET_SPEC_AMOUNT_SIZE];
    struct facet_error error;
    int64_t micro;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(facet_spec_parse_amount(good[i].text, &micro, &error), FACET_OK);
        assert_true(micro == good[i].micro);
        assert_string_equal(facet_spec_format_amount(micro, 0, text), good[i].back);
    }
    micro = 77;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(facet_spec_parse_amount(wrong[i], &micro, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_spec_parse_amount("9223372036854.775808", &micro, &error), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_spec_parse_amount("99999999999999999999999", &micro, &error), FACET_OUT_OF_RANGE);
    assert_int_equal(micro, 77);
    assert_string_equal(facet_spec_format_amount(1500000, 2, text), "1.50");
    assert_string_equal(facet_spec_format_amount(1000000, 1, text), "1.0");
    assert_string_equal(facet_spec_format_amount(1000000, 99, text), "1.000000");
    assert_string_equal(facet_spec_format_amount(INT64_MIN, 0, text), "-9223372036854.775808");
    assert_string_equal(facet_spec_format_amount(-1, 0, text), "-0.000001");
}

static void test_names(void **state)
{
    static const struct {
        const char *text;
        struct facet_spec_slot_name name;
    } good[] = {
        {"cpu", {3, 0, 0}},
        {"cuda.device", {4, 6, 0}},
        {"cuda.device:1g.5gb-mig", {4, 6, 10}},
        {"atom-plus.device", {9, 6, 0}},
        {"ascend.device:vir04_4c_dvpp", {6, 6, 13}},
        {"cuda.device:1g.10gb+me", {4, 6, 10}},
    };
    static const char *const wrong[] = {"",         ".",       "cuda.", "cuda.device:", ".device", "Cuda.device",
                                        "cuda:1g",  "cuda..x", "9cuda", "cuda.a.b",     "a b",     "cuda.device:1g:2",
                                        "cuda.x/y", NULL};
    char longest[140];
    struct facet_spec_slot_name name = {7, 7, 7};

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(facet_spec_parse_slot_name(good[i].text, &name, NULL), FACET_OK);
        assert_memory_equal(&name, &good[i].name, sizeof name);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(facet_spec_parse_slot_name(wrong[i], &name, NULL), FACET_INVALID_ARGUMENT);
    memset(longest, 'a', sizeof longest);
    longest[128] = '\0';
    assert_int_equal(facet_spec_parse_slot_name(longest, &name, NULL), FACET_OK);
    longest[128] = 'a';
    longest[129] = '\0';
    assert_int_equal(facet_spec_parse_slot_name(longest, &name, NULL), FACET_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_amounts),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("amount", tests, NULL, NULL);
}
