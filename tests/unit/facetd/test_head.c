/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the accepted forms of a request's head. Never: opens a socket (daemon/test_refusals.py does). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../effort.h"
#include "head.h"

static const char *const good[] = {
    "GET / HTTP/1.1\r\nhost:\r\n\r\n",
    "GET / HTTP/1.0\r\n\r\n",
    "GET /v1/vgpus HTTP/1.0\r\nHost: x\r\n\r\n",
    "\r\n\r\nDELETE /v1/vgpus/a%20b?force=1 HTTP/1.1\r\nHost: x\r\nUser-Agent: a (b; c)\t\r\nX:\r\n\r\n",
    "POST /v1/vgpus HTTP/1.1\r\nHost: x\r\nContent-Length:  65536\r\nExpect: 100-Continue\r\n\r\n",
    "GET /v1/health HTTP/1.1\nHost: x\n\n",
    "GET /v1/events?after=%2f%2F HTTP/1.0\r\n\r\n",
    "GET /a%252F HTTP/1.0\r\n\r\n",
};

/* Judges a copy that ends where its allocation ends, so that a sanitizer sees a read past the end. */
static enum head_verdict judge_copy(const char *data, size_t size, struct head_refusal *ret_refusal)
{
    char *copy = malloc(size ? size : 1);

    assert_non_null(copy);
    memcpy(copy, data, size);
    enum head_verdict verdict = head_judge(copy, size, ret_refusal);
    free(copy);
    return verdict;
}

static void test_no_part_of_a_good_head_is_refused(void **state)
{
    struct head_refusal refusal;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        size_t length = strlen(good[i]);

        for (size_t size = 0; size < length; size++)
            assert_int_equal(judge_copy(good[i], size, &refusal), HEAD_INCOMPLETE);
        assert_int_equal(judge_copy(good[i], length, &refusal), HEAD_GOOD);
    }
}

static void test_bytes_behind_the_head_are_not_checked(void **state)
{
    static const char both[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n\0\1\2";
    struct head_refusal refusal;

    assert_int_equal(judge_copy(both, sizeof both, &refusal), HEAD_GOOD);
}

static void test_refusals_say_what_is_wrong(void **state)
{
    static const struct {
        const char *text, *argument;
        unsigned http;
    } cases[] = {
        {"GET\r\n", "request", 400},
        {" GET / HTTP/1.1\r\n", "request", 400},
        {"GET  / HTTP/1.1\r\n", "path", 400},
        {"GET / HTTP/1.1 \r\n", "request", 400},
        {"GET / HTTP/1\r\n", "request", 400},
        {"GET / http/1.1\r\n", "request", 400},
        {"GET / HTTP/3.0\r\n", "request", 505},
        {"GET /% HTTP/1.1\r\n", "path", 400},
        {"GET /%4 HTTP/1.1\r\n", "path", 400},
        {"GET /?a=%00 HTTP/1.1\r\n", "path", 400},
        {"POST /v1/vgpus/a%2Ffreeze HTTP/1.1\r\n", "path", 400},
        {"GET /v1%2fhealth HTTP/1.1\r\n", "path", 400},
        {"\rGET / HTTP/1.1\r\n", "request", 400},
        {"GET / HTTP/1.1\r\nContent-Length: 65537\r\n", "body", 413},
        {"GET / HTTP/1.1\r\nContent-Length: 1 1\r\n", "body", 400},
        {"GET / HTTP/1.1\r\nContent-Length: 1 \r\n", "body", 400},
        {"GET / HTTP/1.1\r\nContent-Length: 1\t\n", "body", 400},
        {"GET / HTTP/1.1\r\nContent-Length: 1\r\ncontent-length: 1\r\n", "body", 400},
        {"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n", "body", 411},
        {"GET / HTTP/1.1\r\n: x\r\n", "headers", 400},
        {"GET / HTTP/1.1\r\n\r\n", "headers", 400},
        {"GET / HTTP/1.2\r\nHosts: x\r\n\r\n", "headers", 400},
        {"GET / HTTP/1.1\r\nA: \x7f\r\n", "headers", 400},
        {"GET / HTTP/1.1\r\nA: b\rc\r\n", "headers", 400},
    };
    struct head_refusal refusal;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(judge_copy(cases[i].text, strlen(cases[i].text), &refusal), HEAD_BAD);
        assert_int_equal(refusal.http, cases[i].http);
        assert_string_equal(refusal.error.argument, cases[i].argument);
        assert_true(refusal.error.message[0]);
    }
    assert_int_equal(judge_copy("HEAD x HTTP/1.1\r\n", 17, &refusal), HEAD_BAD);
    assert_true(refusal.no_body);
}

static void test_the_length_of_a_head_is_bounded(void **state)
{
    char *endless = malloc(HEAD_MAX + 1);
    struct head_refusal refusal;

    assert_non_null(endless);
    memset(endless, 'a', HEAD_MAX + 1);
    assert_int_equal(judge_copy(endless, HEAD_LINE_MAX, &refusal), HEAD_INCOMPLETE);
    assert_int_equal(judge_copy(endless, HEAD_LINE_MAX + 1, &refusal), HEAD_BAD);
    assert_int_equal(refusal.http, 414);
    memcpy(endless, "GET / HTTP/1.1\r\nA: ", 19);
    assert_int_equal(judge_copy(endless, HEAD_MAX, &refusal), HEAD_INCOMPLETE);
    assert_int_equal(judge_copy(endless, HEAD_MAX + 1, &refusal), HEAD_BAD);
    assert_int_equal(refusal.http, 431);
    for (size_t i = 0; i < HEAD_MAX + 1; i++) /* skipped lines count towards the length, too */
        endless[i] = i % 2 ? '\n' : '\r';
    assert_int_equal(judge_copy(endless, HEAD_MAX, &refusal), HEAD_INCOMPLETE);
    assert_int_equal(judge_copy(endless, HEAD_MAX + 1, &refusal), HEAD_BAD);
    assert_int_equal(refusal.http, 431);
    memset(endless, '\n', HEAD_MAX - 4);
    memcpy(endless + HEAD_MAX - 4, "GET /", 5);
    assert_int_equal(judge_copy(endless, HEAD_MAX + 1, &refusal), HEAD_BAD);
    assert_int_equal(refusal.http, 431);
    free(endless);
}

/* A mutated head that is accepted has no encoded NUL in its path, and an empty line at its end. */
static void test_mutated_heads_are_parsed_safely(void **state)
{
    static const char odd[] = "\0\r\n :%?/0-+9\x7f\xff\tC";
    char text[256];
    uint32_t random = 1;

    for (int round = 0; round < (int)effort(300000, 20000); round++) {
        const char *from = good[(size_t)round % (sizeof good / sizeof good[0])];
        size_t size = strlen(from);
        struct head_refusal refusal;

        memcpy(text, from, size);
        for (int changes = round % 4; changes >= 0; changes--) {
            random = random * 1664525u + 1013904223u;
            text[(random >> 8) % size] = odd[(random >> 24) % (sizeof odd - 1)];
        }
        if (judge_copy(text, size, &refusal) != HEAD_GOOD)
            continue;
        const char *end = memmem(text, size, "\r\n\r\n", 4), *other = memmem(text, size, "\n\n", 2);
        assert_true(end || other || memmem(text, size, "\n\r\n", 3));
        const char *path = memmem(text, size, " /", 2), *version = memmem(text, size, " HTTP/1", 7);
        assert_true(path && version && path < version);
        assert_null(memmem(path, (size_t)(version - path), "%00", 3));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_part_of_a_good_head_is_refused),
        cmocka_unit_test(test_bytes_behind_the_head_are_not_checked),
        cmocka_unit_test(test_refusals_say_what_is_wrong),
        cmocka_unit_test(test_the_length_of_a_head_is_bounded),
        cmocka_unit_test(test_mutated_heads_are_parsed_safely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
