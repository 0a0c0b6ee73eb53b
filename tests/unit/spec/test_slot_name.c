/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about the names of slots. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <facet/spec.h>

static void test_slot_names_are_split_or_refused(void **state)
{
    static const struct {
        const char *text;
        struct facet_spec_slot_name name;
    } good[] = {
        /* with the lengths of the device, the major and the minor part */
        {"cpu", {3, 0, 0}},
        {"cuda.device", {4, 6, 0}},
        {"cuda.device:1g.5gb-mig", {4, 6, 10}},
        {"atom-plus.device", {9, 6, 0}},
        {"ascend.device:vir04_4c_dvpp", {6, 6, 13}},
        {"cuda.device:1g.10gb+me", {4, 6, 10}},
        {"cuda.device:1g.", {4, 6, 3}},
    };
    static const char *const wrong[] = {
        "",      ".",        "cuda.", "cuda.device:",     ".device",  "Cuda.device",   "cuda:1g", "cuda..x",
        "9cuda", "cuda.a.b", "a b",   "cuda.device:1g:2", "cuda.x/y", "cuda.device:.", NULL};
    char longest[140];
    struct facet_spec_slot_name name = {7, 7, 7};

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(facet_spec_parse_slot_name(good[i].text, &name, NULL), FACET_OK);
        assert_memory_equal(&name, &good[i].name, sizeof name);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(facet_spec_parse_slot_name(wrong[i], &name, NULL), FACET_INVALID_ARGUMENT);
    memset(longest, 'a', sizeof longest);
    longest[128] = '\0'; /* 128 characters: the most that are allowed */
    assert_int_equal(facet_spec_parse_slot_name(longest, &name, NULL), FACET_OK);
    longest[128] = 'a';
    longest[129] = '\0';
    assert_int_equal(facet_spec_parse_slot_name(longest, &name, NULL), FACET_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slot_names_are_split_or_refused),
    };
    return cmocka_run_group_tests_name("slot names", tests, NULL, NULL);
}
