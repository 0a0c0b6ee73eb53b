/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of the public device list. Never: includes a header that is not public. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <facet/device.h>

#include "fixtures.h"

static struct facet_device_list *list;

static int set_up(void **state)
{
    char paths[2048];

    snprintf(paths, sizeof paths, "%s:%s:%s", fixture("no_symbol"), fixture("good"), fixture("refuses"));
    return facet_device_list_open(paths, &list, NULL);
}

static int tear_down(void **state)
{
    facet_device_list_close(list);
    return 0;
}

static void devices_are_described(void **state)
{
    assert_int_equal(facet_device_list_count(list), 2);
    assert_string_equal(facet_device_list_id(list, 1), "fixture:1");
    assert_string_equal(facet_device_list_info(list, 1)->name, "Fixture 1");
    assert_int_equal(facet_device_list_health(list, 0), FACET_HEALTH_OK);
    assert_int_equal(facet_device_list_health(list, 1), FACET_HEALTH_FAILED);
    assert_string_equal(facet_device_list_processors(list, 0), "");
}

static void there_is_no_device_past_the_end(void **state)
{
    assert_null(facet_device_list_id(list, 2));
    assert_null(facet_device_list_info(list, 2));
    assert_null(facet_device_list_processors(list, 2));
    assert_int_equal(facet_device_list_health(list, 2), FACET_HEALTH_UNKNOWN);
}

static void devices_are_found(void **state)
{
    uint32_t index = 99;

    assert_int_equal(facet_device_list_find(list, "fixture:1", &index, NULL), FACET_OK);
    assert_int_equal(index, 1);
    assert_int_equal(facet_device_list_find(list, "other:1", &index, NULL), FACET_NOT_FOUND);
    assert_int_equal(index, 1);
    assert_int_equal(facet_device_list_find(list, NULL, &index, NULL), FACET_OK);
    assert_int_equal(index, 0);
}

static void refusals_are_reported(void **state)
{
    const char *path = NULL;

    assert_non_null(strstr(facet_device_list_refusal(list, 0, &path)->message, "exports no"));
    assert_string_equal(path, fixture("no_symbol"));
    assert_non_null(strstr(facet_device_list_refusal(list, 1, NULL)->message, "12.4"));
    assert_null(facet_device_list_refusal(list, 2, &path));
}

static void names_are_never_null(void **state)
{
    assert_string_equal(facet_device_kind_name(FACET_DEVICE_NPU), "npu");
    assert_string_equal(facet_device_kind_name(99), "other");
    assert_string_equal(facet_health_name(FACET_HEALTH_DEGRADED), "degraded");
    assert_string_equal(facet_health_name(99), "unknown");
}

static void failure_leaves_the_output_alone(void **state)
{
    struct facet_device_list *other = list;
    struct facet_error error;
    char path[2000];

    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(facet_device_list_open(path, &other, &error), FACET_OUT_OF_RANGE);
    assert_ptr_equal(other, list);
    facet_device_list_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_described), cmocka_unit_test(there_is_no_device_past_the_end),
        cmocka_unit_test(devices_are_found),     cmocka_unit_test(refusals_are_reported),
        cmocka_unit_test(names_are_never_null),  cmocka_unit_test(failure_leaves_the_output_alone),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
