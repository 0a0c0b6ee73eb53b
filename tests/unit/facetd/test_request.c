/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the request bodies that are read and refused; a refusal names the member. Never: opens a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "request.h"

static struct request parse_request(const char *body, uint32_t allowed)
{
    struct request request;
    struct facet_error error = {0};

    if (request_parse(body, strlen(body), allowed, &request, &error) != FACET_OK)
        fail_msg("%s: %s", body, error.message);
    return request;
}

static void an_empty_object_asks_for_nothing(void **state)
{
    struct request request = parse_request("{}", REQUEST_ALL);
    struct facet_limits defaults;

    facet_limits_init(&defaults);
    assert_int_equal(request.present, 0);
    assert_memory_equal(&request.limits, &defaults, sizeof defaults);
    assert_false(request.ephemeral);
}

static void every_member_is_read(void **state)
{
    struct request request = parse_request(
        "{\"name\":\"render\",\"device\":\"opencl:1\",\"memory_limit_bytes\":9007199254740993,"
        "\"compute_request_milli\":305,\"compute_limit_milli\":600,\"mode\":\"shared\",\"priority\":\"high\","
        "\"ephemeral\":true,\"template\":\"1g.10gb\",\"idle_freeze_s\":90,\"reservation\":\"job-7\","
        "\"oversubscribe\":true,\"labels\":{\"job\":\"17\",\"a/b\":\"c = d\"}}",
        REQUEST_ALL);

    assert_int_equal(request.present, REQUEST_ALL);
    assert_string_equal(request.name, "render");
    assert_string_equal(request.device, "opencl:1");
    assert_int_equal(request.limits.memory_bytes, 9007199254740993); /* a double cannot hold this number */
    assert_int_equal(request.limits.compute_request_milli, 305);
    assert_int_equal(request.limits.compute_limit_milli, 600);
    assert_int_equal(request.limits.mode, FACET_MODE_SHARED);
    assert_int_equal(request.limits.priority, FACET_PRIORITY_HIGH);
    assert_true(request.ephemeral);
    assert_string_equal(request.template_id, "1g.10gb");
    assert_int_equal(request.idle_freeze_s, 90);
    assert_string_equal(request.reservation, "job-7");
    assert_true(request.oversubscribe);
    assert_string_equal(request.labels, "job=17\na/b=c = d\n");
}

static void a_change_keeps_members_it_does_not_name(void **state)
{
    struct request request = parse_request("{\"compute_limit_milli\":500,\"priority\":\"low\"}", REQUEST_CHANGE);
    const struct facet_limits before = {77, 300, 1000, FACET_MODE_SOFT, FACET_PRIORITY_HIGH};
    const struct facet_limits expected = {77, 300, 500, FACET_MODE_SOFT, FACET_PRIORITY_LOW};

    struct facet_limits after = request_apply(&request, &before);
    assert_memory_equal(&after, &expected, sizeof expected);
}

static const struct refusal {
    const char *body;
    uint32_t allowed;
    enum facet_status status;
    const char *argument;
} refusals[] = {
    {"", REQUEST_ALL, FACET_INVALID_ARGUMENT, "body"},
    {"not json", REQUEST_ALL, FACET_INVALID_ARGUMENT, "body"},
    {"[]", REQUEST_ALL, FACET_INVALID_ARGUMENT, "body"},
    {"null", REQUEST_ALL, FACET_INVALID_ARGUMENT, "body"},
    {"17", REQUEST_ALL, FACET_INVALID_ARGUMENT, "body"},
    {"{} {}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "body"},
    {"{\"name\":\"a\",\"name\":\"b\"}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "body"},
    {"{\"name\":\"a\\u0000b\"}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "body"},
    {"{\"name\":\"\xff\"}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "body"},
    {"{\"memory_limit_bytes\":18446744073709551616}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "body"},
    {"{\"colour\":\"red\"}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "colour"},
    {"{\"\":1}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "body"},
    {"{\"name\":7}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "name"},
    {"{\"name\":null}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "name"},
    {"{\"name\":\"\"}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "name"},
    {"{\"name\":\"../up\"}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "name"},
    {"{\"device\":0}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "device"},
    {"{\"device\":\"\"}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "device"},
    {"{\"memory_limit_bytes\":\"256M\"}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "memory_limit_bytes"},
    {"{\"memory_limit_bytes\":1.0}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "memory_limit_bytes"},
    {"{\"memory_limit_bytes\":true}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "memory_limit_bytes"},
    {"{\"memory_limit_bytes\":0}", REQUEST_ALL, FACET_OUT_OF_RANGE, "memory_limit_bytes"},
    {"{\"memory_limit_bytes\":-1}", REQUEST_ALL, FACET_OUT_OF_RANGE, "memory_limit_bytes"},
    {"{\"compute_request_milli\":1001}", REQUEST_ALL, FACET_OUT_OF_RANGE, "compute_request_milli"},
    {"{\"compute_request_milli\":4294967297}", REQUEST_ALL, FACET_OUT_OF_RANGE, "compute_request_milli"},
    {"{\"compute_limit_milli\":0}", REQUEST_ALL, FACET_OUT_OF_RANGE, "compute_limit_milli"},
    {"{\"compute_limit_milli\":[]}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "compute_limit_milli"},
    {"{\"mode\":\"firm\"}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "mode"},
    {"{\"mode\":1}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "mode"},
    {"{\"priority\":\"urgent\"}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "priority"},
    {"{\"priority\":{}}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "priority"},
    {"{\"ephemeral\":1}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "ephemeral"},
    {"{\"template\":\"\"}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "template"},
    {"{\"template\":\"a-name-of-thirty-two-characters--\"}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "template"},
    {"{\"oversubscribe\":1}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "oversubscribe"},
    {"{\"oversubscribe\":true}", REQUEST_CHANGE, FACET_INVALID_ARGUMENT, "oversubscribe"},
    {"{\"idle_freeze_s\":-1}", REQUEST_ALL, FACET_OUT_OF_RANGE, "idle_freeze_s"},
    {"{\"labels\":[]}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "labels"},
    {"{\"labels\":{\"a\":1}}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "labels"},
    {"{\"labels\":{\"\":\"b\"}}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "labels"},
    {"{\"labels\":{\"-a\":\"b\"}}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "labels"},
    {"{\"labels\":{\"a/\":\"b\"}}", REQUEST_CHANGE, FACET_INVALID_ARGUMENT, "labels"},
    {"{\"labels\":{\"a=b\":\"c\"}}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "labels"},
    {"{\"labels\":{\"a\":\"\"}}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "labels"},
    {"{\"labels\":{\"a\":\"b\\nc\"}}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "labels"},
    {"{\"labels\":{\"a\":\"\\u00e4\"}}", REQUEST_ALL, FACET_INVALID_ARGUMENT, "labels"},
    {"{\"template\":\"half\"}", REQUEST_CHANGE, FACET_INVALID_ARGUMENT, "template"},
    {"{\"name\":\"new\"}", REQUEST_CHANGE, FACET_INVALID_ARGUMENT, "name"},
    {"{\"mode\":\"soft\"}", REQUEST_CHANGE, FACET_INVALID_ARGUMENT, "mode"},
    {"{\"memory_limit_bytes\":1}", 0, FACET_INVALID_ARGUMENT, "memory_limit_bytes"},
};

static void wrong_members_are_refused_by_name(void **state)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *refusal = &refusals[i];
        struct request request, untouched;
        struct facet_error error = {0};

        memset(&request, 0x5a, sizeof request); /* a refusal must leave these bytes as they are */
        untouched = request;
        enum facet_status status =
            request_parse(refusal->body, strlen(refusal->body), refusal->allowed, &request, &error);
        assert_int_equal(status, refusal->status);
        assert_int_equal(error.status, refusal->status);
        assert_string_equal(error.argument, refusal->argument);
        assert_true(strlen(error.message) > 10);
        assert_memory_equal(&request, &untouched, sizeof request);
    }
}

static void a_refusal_of_an_unknown_member_lists_the_known_ones(void **state)
{
    static const char body[] = "{\"memory\":1}";
    struct request request;
    struct facet_error error = {0};

    assert_int_equal(request_parse(body, strlen(body), REQUEST_CHANGE, &request, &error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "memory_limit_bytes"));
    assert_null(strstr(error.message, "ephemeral"));
}

/* Deeply nested brackets must not overflow the stack. */
static void nesting_depth_is_bounded(void **state)
{
    struct request request;
    struct facet_error error = {0};
    char *body = malloc(REQUEST_BODY_MAX);

    assert_non_null(body);
    memset(body, '[', REQUEST_BODY_MAX);
    assert_int_equal(request_parse(body, REQUEST_BODY_MAX, REQUEST_ALL, &request, &error), FACET_INVALID_ARGUMENT);
    free(body);
}

static void a_body_needs_no_terminating_nul(void **state)
{
    struct request request;
    char *body = malloc(2);

    assert_non_null(body);
    memcpy(body, "{}", 2);
    assert_int_equal(request_parse(body, 2, REQUEST_ALL, &request, NULL), FACET_OK);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_object_asks_for_nothing),
        cmocka_unit_test(every_member_is_read),
        cmocka_unit_test(a_change_keeps_members_it_does_not_name),
        cmocka_unit_test(wrong_members_are_refused_by_name),
        cmocka_unit_test(a_refusal_of_an_unknown_member_lists_the_known_ones),
        cmocka_unit_test(nesting_depth_is_bounded),
        cmocka_unit_test(a_body_needs_no_terminating_nul),
    };

    return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
