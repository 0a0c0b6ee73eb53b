/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tests of which vGPUs a program sees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "interpose/cuda/visible.h"

static const char *const addresses[] = {"GPU-aa01", "GPU-aa02", "MIG-bb01"};

/* The list that the driver is given for the user's list, over three vGPUs. */
static const char *shown_list(const char *list)
{
    static char text[64];
    const char *chosen_addresses[3];
    uint32_t chosen[3], count = facet_cuda_visible_choose(list, addresses, 3, chosen);

    for (uint32_t i = 0; i < count; i++)
        chosen_addresses[i] = addresses[chosen[i]];
    assert_true(facet_cuda_visible_write(chosen_addresses, count, text, sizeof text));
    return text;
}

static void test_without_a_variable_all_are_shown(void **state)
{
    assert_string_equal(shown_list(NULL), "GPU-aa01,GPU-aa02,MIG-bb01");
}

static void test_numbers_count_the_vgpus(void **state)
{
    assert_string_equal(shown_list("2"), "MIG-bb01");
    assert_string_equal(shown_list("1,0"), "GPU-aa02,GPU-aa01");
    assert_string_equal(shown_list("0,1,2"), "GPU-aa01,GPU-aa02,MIG-bb01");
}

static void test_addresses_and_their_beginnings_name_vgpus(void **state)
{
    assert_string_equal(shown_list("MIG-bb01,GPU-aa02"), "MIG-bb01,GPU-aa02");
    assert_string_equal(shown_list("MIG-"), "MIG-bb01");
    assert_string_equal(shown_list("GPU-aa01,1"), "GPU-aa01,GPU-aa02");
    assert_string_equal(shown_list("GPU-aa"), "-1"); /* two addresses begin with it */
    assert_string_equal(shown_list("GPU-aa011"), "-1");
}

static void test_first_entry_that_names_no_vgpu_ends_the_list(void **state)
{
    assert_string_equal(shown_list("1,3,0"), "GPU-aa02");
    assert_string_equal(shown_list("1,-1,0"), "GPU-aa02");
    assert_string_equal(shown_list("0,,1"), "GPU-aa01");
    assert_string_equal(shown_list("0,1x"), "GPU-aa01");
    assert_string_equal(shown_list("3"), "-1");
    assert_string_equal(shown_list("-1"), "-1");
    assert_string_equal(shown_list("NoDevFiles"), "-1");
    assert_string_equal(shown_list(""), "-1");
}

static void test_a_list_that_repeats_a_device_shows_none(void **state)
{
    assert_string_equal(shown_list("0,1,0"), "-1");
    assert_string_equal(shown_list("0,GPU-aa01"), "-1");
}

static void test_lists_longer_than_the_buffer_are_refused(void **state)
{
    char text[18];

    /* Two addresses of 8 characters, a comma, and the terminator. */
    assert_false(facet_cuda_visible_write(addresses, 2, text, 17));
    assert_true(facet_cuda_visible_write(addresses, 2, text, 18));
    assert_false(facet_cuda_visible_write(addresses, 0, text, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_variable_all_are_shown),
        cmocka_unit_test(test_numbers_count_the_vgpus),
        cmocka_unit_test(test_addresses_and_their_beginnings_name_vgpus),
        cmocka_unit_test(test_first_entry_that_names_no_vgpu_ends_the_list),
        cmocka_unit_test(test_a_list_that_repeats_a_device_shows_none),
        cmocka_unit_test(test_lists_longer_than_the_buffer_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
