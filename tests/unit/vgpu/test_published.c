/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the values accepted from a driver's published text, member by member. Never: needs a driver or a
 * folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "vgpu/published.h"

static const char complete_text[] =
    "{\"pid\":4711,\"program\":\"trainer\",\"devices\":[{\"id\":\"cpu:0\",\"name\":\"CPU\",\"lost\":0,\"units\":2,"
    "\"vgpus\":1,\"utilization_milli\":512,\"busy_ns\":123,\"memory_bytes\":67108864,\"memory_used_bytes\":1048576,"
    "\"promised_bytes\":16777216}],\"vgpus\":[{\"id\":1,\"status\":2,\"name\":\"App1\",\"device\":0,\"streams\":2,"
    "\"request_milli\":400,\"limit_milli\":1000,\"compute_milli\":400,\"queued\":1,\"running\":1,"
    "\"memory_limit_bytes\":16777216,\"memory_allocated_bytes\":1000,\"memory_reserved_bytes\":65536,"
    "\"memory_peak_bytes\":65536,\"allocations\":1,\"launched_total\":5,\"completed_total\":3,\"busy_ns\":99,"
    "\"delay_ns\":12,\"failed_total\":0,\"cancelled_total\":0}]}";

/* Members without which the text is refused, and members whose absence clears a bit of `valid`. */
static const struct member {
    const char *list, *name;
    uint32_t valid;
    bool text;
} members[] = {
    {"devices", "id", 0, true},
    {"devices", "name", 0, true},
    {"devices", "lost", 0, false},
    {"devices", "units", 0, false},
    {"devices", "vgpus", 0, false},
    {"devices", "memory_bytes", 0, false},
    {"devices", "memory_used_bytes", 0, false},
    {"devices", "promised_bytes", 0, false},
    {"devices", "utilization_milli", FACET_DRIVER_HAS_UTILIZATION, false},
    {"devices", "busy_ns", FACET_DRIVER_HAS_BUSY, false},
    {"vgpus", "id", 0, false},
    {"vgpus", "status", 0, false},
    {"vgpus", "name", 0, true},
    {"vgpus", "device", 0, false},
    {"vgpus", "streams", 0, false},
    {"vgpus", "request_milli", 0, false},
    {"vgpus", "limit_milli", 0, false},
    {"vgpus", "queued", 0, false},
    {"vgpus", "running", 0, false},
    {"vgpus", "launched_total", 0, false},
    {"vgpus", "completed_total", 0, false},
    {"vgpus", "busy_ns", 0, false},
    {"vgpus", "compute_milli", FACET_VGPU_HAS_COMPUTE, false},
    {"vgpus", "memory_limit_bytes", FACET_VGPU_HAS_MEMORY, false},
    {"vgpus", "memory_allocated_bytes", FACET_VGPU_HAS_MEMORY, false},
    {"vgpus", "memory_reserved_bytes", FACET_VGPU_HAS_MEMORY, false},
    {"vgpus", "memory_peak_bytes", FACET_VGPU_HAS_MEMORY, false},
    {"vgpus", "allocations", FACET_VGPU_HAS_MEMORY, false},
    {"vgpus", "delay_ns", FACET_VGPU_HAS_RECORDS, false},
    {"vgpus", "failed_total", FACET_VGPU_HAS_RECORDS, false},
    {"vgpus", "cancelled_total", FACET_VGPU_HAS_RECORDS, false},
};

static enum facet_status parse_object(const json_t *object, struct facet_published *ret_driver,
                                      struct facet_error *error)
{
    char *text = json_dumps(object, JSON_COMPACT);
    enum facet_status status = facet_published_parse(text, strlen(text), ret_driver, error);

    free(text);
    return status;
}

/* Parses the text with a member replaced by `value`, which it takes; NULL removes the member. */
static enum facet_status parse_with(const struct member *member, json_t *value, struct facet_published *ret_driver,
                                    struct facet_error *error)
{
    json_t *object = json_loads(complete_text, 0, NULL);
    json_t *item = json_array_get(json_object_get(object, member->list), 0);

    if (value)
        json_object_set_new(item, member->name, value);
    else
        json_object_del(item, member->name);
    enum facet_status status = parse_object(object, ret_driver, error);
    json_decref(object);
    return status;
}

static void check_member(const struct member *member, json_t *value)
{
    struct facet_published driver = {0};
    struct facet_error error;
    char place[64];
    enum facet_status status = parse_with(member, value, &driver, &error);

    if (!member->valid) {
        assert_int_equal(status, FACET_CORRUPT);
        snprintf(place, sizeof place, "%s[0].%s", member->list, member->name);
        assert_non_null(strstr(error.message, place));
        return;
    }
    assert_int_equal(status, FACET_OK);
    bool of_device = strcmp(member->list, "devices") == 0;
    uint32_t all = of_device ? FACET_DRIVER_HAS_BUSY | FACET_DRIVER_HAS_UTILIZATION
                             : FACET_VGPU_HAS_COMPUTE | FACET_VGPU_HAS_RECORDS | FACET_VGPU_HAS_MEMORY;
    assert_int_equal(of_device ? driver.device[0].valid : driver.vgpu[0].valid, all & ~member->valid);
    facet_published_clear(&driver);
}

static void test_a_complete_document_is_accepted(void **state)
{
    struct facet_published driver = {0};

    assert_int_equal(facet_published_parse(complete_text, strlen(complete_text), &driver, NULL), FACET_OK);
    assert_int_equal(driver.pid, 4711);
    assert_int_equal(driver.device[0].valid, FACET_DRIVER_HAS_BUSY | FACET_DRIVER_HAS_UTILIZATION);
    assert_int_equal(driver.vgpu[0].queued, 1);
    facet_published_clear(&driver);
}

static void test_members_that_are_missing_or_of_another_type(void **state)
{
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        check_member(&members[i], NULL);
        check_member(&members[i], json_null());
        check_member(&members[i], json_real(1.0));
        check_member(&members[i], json_array());
        check_member(&members[i], members[i].text ? json_integer(1) : json_string("1"));
    }
}

static void test_numbers_that_are_negative_or_absurd(void **state)
{
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (members[i].text)
            continue;
        check_member(&members[i], json_integer(-1));
        check_member(&members[i], json_integer(INT64_MIN));
        check_member(&members[i], json_integer(INT64_MAX));
        check_member(&members[i], json_integer((INT64_C(1) << 60) + 1));
    }
}

static void test_a_vgpu_on_an_unknown_device_is_refused(void **state)
{
    static const struct member device = {"vgpus", "device", 0, false};
    struct facet_published driver = {0};
    struct facet_error error;

    assert_int_equal(parse_with(&device, json_integer(1), &driver, &error), FACET_CORRUPT);
    assert_non_null(strstr(error.message, "vgpus[0].device"));
}

static void expect_contradiction(const struct member *member, uint64_t value, const char *said)
{
    struct facet_published driver = {0};
    struct facet_error error = {0};

    assert_int_equal(parse_with(member, json_integer((json_int_t)value), &driver, &error), FACET_CORRUPT);
    if (!strstr(error.message, member->name) || !strstr(error.message, said))
        fail_msg("%s: '%s'; expected '%s'", member->name, error.message, said);
}

static void test_numbers_that_contradict_each_other(void **state)
{
    static const struct member request = {"vgpus", "request_milli", 0, false},
                               completed = {"vgpus", "completed_total", 0, false},
                               reserved = {"vgpus", "memory_reserved_bytes", 0, false},
                               peak = {"vgpus", "memory_peak_bytes", 0, false},
                               limit = {"vgpus", "limit_milli", 0, false};

    expect_contradiction(&request, 1000 + 1, "1000");
    expect_contradiction(&limit, 399, "request_milli: 400, expected at most limit_milli, 399");
    expect_contradiction(&completed, 6, "launched_total, 5");
    expect_contradiction(&reserved, 65537, "memory_peak_bytes");
    expect_contradiction(&peak, 65535, "memory_reserved_bytes");
}

/* Refuses a list that holds its only item twice. */
static void expect_second_refused(const char *list, const char *said)
{
    struct facet_published driver = {0};
    struct facet_error error = {0};
    json_t *object = json_loads(complete_text, 0, NULL), *array = json_object_get(object, list);

    json_array_append(array, json_array_get(array, 0));
    assert_int_equal(parse_object(object, &driver, &error), FACET_CORRUPT);
    assert_non_null(strstr(error.message, said));
    json_decref(object);
}

static void test_no_vgpu_is_listed_twice(void **state)
{
    expect_second_refused("vgpus", "vgpus[1].id");
}

static void test_wrong_heads_and_lists_are_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "[]",
        "{\"pid\":1,\"program\":\"x\"}",
        "{\"pid\":-1,\"program\":\"x\",\"devices\":[],\"vgpus\":[]}",
        "{\"pid\":1,\"program\":7,\"devices\":[],\"vgpus\":[]}",
        "{\"pid\":1,\"program\":\"x\",\"devices\":{},\"vgpus\":[]}",
        "{\"pid\":1,\"program\":\"x\",\"devices\":[{}],\"vgpus\":[]}",
        "{\"pid\":1,\"program\":\"x\",\"devices\":[],\"vgpus\":[7]}",
    };
    struct facet_published driver = {0};
    struct facet_error error;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_int_equal(facet_published_parse(texts[i], strlen(texts[i]), &driver, &error), FACET_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_complete_document_is_accepted),
        cmocka_unit_test(test_members_that_are_missing_or_of_another_type),
        cmocka_unit_test(test_numbers_that_are_negative_or_absurd),
        cmocka_unit_test(test_a_vgpu_on_an_unknown_device_is_refused),
        cmocka_unit_test(test_numbers_that_contradict_each_other),
        cmocka_unit_test(test_no_vgpu_is_listed_twice),
        cmocka_unit_test(test_wrong_heads_and_lists_are_refused),
    };

    return cmocka_run_group_tests_name("published", tests, NULL, NULL);
}
