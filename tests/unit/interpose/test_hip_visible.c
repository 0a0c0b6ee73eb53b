/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tests of which vGPUs of AMD's GPUs a program sees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "interpose/hip/visible.h"

static const char *const addresses[] = {"amd-aa00000000000001", "amd-aa00000000000002", "amd-bb00000000000003"};

#define ONE   "GPU-aa00000000000001"
#define TWO   "GPU-aa00000000000002"
#define THREE "GPU-bb00000000000003"

/* The list that the runtime is given for these values of the two variables, over three vGPUs. */
static const char *shown_list(const char *rocr, const char *hip)
{
    static char text[128];
    uint32_t chosen[] = {0, 1, 2};
    uint32_t count = facet_hip_visible_choose(rocr, addresses, chosen, 3);

    count = facet_hip_visible_choose(hip, addresses, chosen, count);
    assert_true(facet_hip_visible_uuids(addresses, chosen, count, text, sizeof text));
    return text;
}

static void test_without_variables_all_are_shown(void **state)
{
    assert_string_equal(shown_list(NULL, NULL), ONE "," TWO "," THREE);
}

static void test_numbers_count_the_vgpus_and_uuids_name_them(void **state)
{
    assert_string_equal(shown_list("2", NULL), THREE);
    assert_string_equal(shown_list("1,0", NULL), TWO "," ONE);
    assert_string_equal(shown_list("GPU-bb,GPU-aa00000000000002", NULL), THREE "," TWO);
    assert_string_equal(shown_list("GPU-aa", NULL), "-1"); /* two uuids begin with it */
    assert_string_equal(shown_list("GPU-", NULL), "-1");
    assert_string_equal(shown_list("GPU-bb000000000000031", NULL), "-1");
}

static void test_second_list_counts_devices_of_the_first(void **state)
{
    assert_string_equal(shown_list("2,0", "0"), THREE);
    assert_string_equal(shown_list("2,0", "1,0"), ONE "," THREE);
    assert_string_equal(shown_list("2,0", "2"), "-1");
    assert_string_equal(shown_list(NULL, "1,GPU-bb"), TWO "," THREE);
    assert_string_equal(shown_list("0", "GPU-bb"), "-1"); /* not in the first list */
}

static void test_first_entry_that_names_no_vgpu_ends_the_list(void **state)
{
    assert_string_equal(shown_list("1,3,0", NULL), TWO);
    assert_string_equal(shown_list("1,-1,0", NULL), TWO);
    assert_string_equal(shown_list("0,,1", NULL), ONE);
    assert_string_equal(shown_list("-1", NULL), "-1");
    assert_string_equal(shown_list("", NULL), "-1");
}

static void test_a_list_that_repeats_a_device_shows_none(void **state)
{
    assert_string_equal(shown_list("0,1,0", NULL), "-1");
    assert_string_equal(shown_list("0,GPU-aa00000000000001", NULL), "-1");
}

static void test_lists_longer_than_the_buffer_are_refused(void **state)
{
    const uint32_t chosen[] = {0, 1};
    char text[48];

    /* Two uuids of 20 characters, a comma, and the terminator. */
    assert_false(facet_hip_visible_uuids(addresses, chosen, 2, text, 41));
    assert_true(facet_hip_visible_uuids(addresses, chosen, 2, text, 42));
    assert_false(facet_hip_visible_indices(3, text, 5));
    assert_true(facet_hip_visible_indices(3, text, 6));
    assert_string_equal(text, "0,1,2");
    assert_true(facet_hip_visible_indices(0, text, 3));
    assert_string_equal(text, "-1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_variables_all_are_shown),
        cmocka_unit_test(test_numbers_count_the_vgpus_and_uuids_name_them),
        cmocka_unit_test(test_second_list_counts_devices_of_the_first),
        cmocka_unit_test(test_first_entry_that_names_no_vgpu_ends_the_list),
        cmocka_unit_test(test_a_list_that_repeats_a_device_shows_none),
        cmocka_unit_test(test_lists_longer_than_the_buffer_are_refused),
    };

    return cmocka_run_group_tests_name("interpose/hip_visible", tests, NULL, NULL);
}
