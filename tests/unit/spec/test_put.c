/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of what a put into a node document changes, when it succeeds and when it fails. Never: reads a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <facet/spec.h>

#include "failing.h"

/* A failing put changes nothing, not even by an empty member, and its error names the fault. */
static void test_failing_put_changes_nothing(void **state)
{
    const char *const none[] = {NULL}, *const latin[] = {"\xff"};
    const struct facet_spec_pair pairs[] = {{"\xff", "a"}, {"a", "\xff"}, {NULL, "a"}, {"a", NULL}};
    struct facet_spec_component component = {.size = sizeof component, .name = "\xff"};
    struct facet_spec_slot slot = {.size = sizeof slot, .slot_name = "cuda.device", .exclusive_count = 1};
    struct facet_spec *spec;
    struct facet_error error = {0};
    char *before, *after;

    assert_int_equal(facet_spec_create(&spec, NULL), FACET_OK);
    assert_int_equal(facet_spec_write(spec, &before, NULL), FACET_OK);
    assert_int_equal(facet_spec_put_component(spec, &component, &error), FACET_INVALID_ARGUMENT);
    component.name = "cuda";
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        component.extra = &pairs[i];
        component.extra_count = 1;
        assert_int_equal(facet_spec_put_component(spec, &component, &error), FACET_INVALID_ARGUMENT);
        assert_string_equal(error.argument, "extra");
    }
    slot.exclusive_with = none;
    assert_int_equal(facet_spec_put_slot(spec, &slot, &error), FACET_INVALID_ARGUMENT);
    slot.exclusive_with = latin;
    assert_int_equal(facet_spec_put_slot(spec, &slot, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "exclusive_with");
    assert_int_equal(facet_spec_write(spec, &after, NULL), FACET_OK);
    assert_string_equal(before, after);
    free(before);
    free(after);
    facet_spec_destroy(spec);
}

/* Removing a health also removes its metadata, and removing a number format also removes the format's unknown members.
 * Otherwise the document could not be written. */
static void test_groups_of_members_are_removed_whole(void **state)
{
    static const char text[] =
        "{\"format\":\"facet-accelerator-node\",\"version\":\"1.0\",\"resource_specs\":[{\"slot_name\":\"cuda.device\","
        "\"type\":\"count\",\"number_format\":{\"binary\":true,\"round_length\":1,\"new\":1}}],\"devices\":[{"
        "\"device_id\":\"0\",\"device_name\":\"cuda\",\"health\":{\"status\":\"offline\",\"metadata\":{\"a\":\"b\"}}}]"
        "}";
    struct facet_spec_device device = {.size = sizeof device};
    struct facet_spec_slot slot = {.size = sizeof slot};
    struct facet_error error = {0};
    struct facet_spec *spec;
    char *back;

    assert_int_equal(facet_spec_read(text, strlen(text), &spec, &error), FACET_OK);
    assert_int_equal(facet_spec_get_device(spec, 0, &device, NULL), FACET_OK);
    device.health = FACET_SPEC_HEALTH_UNKNOWN;
    assert_int_equal(facet_spec_put_device(spec, &device, &error), FACET_OK);
    assert_int_equal(facet_spec_get_slot(spec, 0, &slot, NULL), FACET_OK);
    slot.valid = 0;
    assert_int_equal(facet_spec_put_slot(spec, &slot, &error), FACET_OK);
    if (facet_spec_write(spec, &back, &error) != FACET_OK)
        fail_msg("%s", error.message);
    assert_null(strstr(back, "metadata"));
    assert_null(strstr(back, "number_format"));
    free(back);
    facet_spec_destroy(spec);
}

/* A put that finds no memory changes nothing. */
static bool put_component(void *context)
{
    const struct facet_spec_pair pair = {"a", "b"};
    const struct facet_spec_component component = {
        .size = sizeof component, .name = "cuda", .extra = &pair, .extra_count = 1};
    struct facet_spec *spec = NULL;
    struct facet_error error = {0};
    bool created = facet_spec_create(&spec, &error) == FACET_OK;
    bool done = created && facet_spec_put_component(spec, &component, &error) == FACET_OK;

    if (!done)
        assert_int_equal(error.status, FACET_NO_MEMORY);
    if (created && !done) {
        char *text;
        assert_int_equal(facet_spec_write(spec, &text, NULL), FACET_OK);
        assert_null(strstr(text, "components"));
        free(text);
    }
    facet_spec_destroy(spec);
    return done;
}

static void test_each_failing_allocation_leaves_nothing(void **state)
{
    assert_true(failing_loop(put_component, NULL) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failing_put_changes_nothing),
        cmocka_unit_test(test_groups_of_members_are_removed_whole),
        cmocka_unit_test(test_each_failing_allocation_leaves_nothing),
    };

    failing_begin();
    return cmocka_run_group_tests_name("put", tests, NULL, NULL);
}
