/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of struct facet_error and of the functions that fill it. */
#include <errno.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <facet/error.h>

static char long_text[2 * sizeof((struct facet_error *)0)->message];

static void set_fills_status_and_message(void **state)
{
    struct facet_error error = {.argument = "stale"};

    assert_int_equal(facet_error_set(&error, FACET_BUSY, "%d of %s", 3, "them"), FACET_BUSY);
    assert_int_equal(error.status, FACET_BUSY);
    assert_string_equal(error.argument, "");
    assert_string_equal(error.message, "3 of them");
}

static void an_error_names_its_argument(void **state)
{
    struct facet_error error;

    assert_int_equal(facet_error_argument(&error, FACET_OUT_OF_RANGE, "memory", "too much"), FACET_OUT_OF_RANGE);
    assert_string_equal(error.argument, "memory");
    assert_int_equal(facet_error_argument(&error, FACET_OUT_OF_RANGE, NULL, "too much"), FACET_OUT_OF_RANGE);
    assert_string_equal(error.argument, "");
}

static void control_bytes_are_shown_as_question_marks(void **state)
{
    struct facet_error error;

    facet_error_argument(&error, FACET_INVALID_ARGUMENT, "na\nme", "'%s'", "1\n2\033[31mX\x7f\t\xc3\xa4");
    assert_string_equal(error.argument, "na?me");
    assert_string_equal(error.message, "'1?2?[31mX??\xc3\xa4'");
    facet_error_prefix(&error, "a\rb");
    assert_string_equal(error.message, "a?b: '1?2?[31mX??\xc3\xa4'");
}

/* Every message can be put into JSON, whatever text it quotes and wherever it is cut. */
static void messages_are_utf8(void **state)
{
    struct facet_error error;

    facet_error_set(&error, FACET_IO, "%s",
                    "\xff \xc3\xa4 \xc3 \xe2\x82\xac \xed\xa0\x80 \xf0\x9f\x98\x80 \xc0\x80 \xc2\x9b");
    assert_string_equal(error.message, "? \xc3\xa4 ? \xe2\x82\xac ??? \xf0\x9f\x98\x80 ?? ??");
    facet_error_set(&error, FACET_IO, "'%.3s'", "\xc3\xa4\xc3\xa4");
    assert_string_equal(error.message, "'\xc3\xa4?'");
    /* Characters of two bytes, from an even and from an odd position on: in one of the cases the cut falls into a
     * character. */
    for (size_t start = 0; start < 2; start++) {
        memset(long_text, 'a', sizeof long_text - 1);
        for (size_t i = start; i + 2 < sizeof long_text; i += 2)
            memcpy(long_text + i, "\xc3\xa4", 2);
        facet_error_set(&error, FACET_IO, "%s", long_text);
        size_t length = strlen(error.message);
        assert_int_equal(length, sizeof error.message - 1);
        assert_string_equal(error.message + length - 3, "...");
        unsigned char last = (unsigned char)error.message[length - 4];
        assert_true(last == '?' || last == 0xa4);
    }
}

static void null_error_is_allowed(void **state)
{
    assert_int_equal(facet_error_set(NULL, FACET_BUSY, "x"), FACET_BUSY);
    assert_int_equal(facet_error_argument(NULL, FACET_BUSY, "a", "x"), FACET_BUSY);
    assert_int_equal(facet_error_errno(NULL, ENOENT, "x"), FACET_NOT_FOUND);
    assert_int_equal(facet_error_prefix(NULL, "x"), FACET_INTERNAL);
}

static void assert_ends_in_dots(const struct facet_error *error)
{
    assert_int_equal(strlen(error->message), sizeof error->message - 1);
    assert_string_equal(error->message + sizeof error->message - 4, "...");
}

static void a_message_that_is_cut_ends_in_dots(void **state)
{
    struct facet_error error;

    memset(long_text, 'x', sizeof long_text - 1);
    facet_error_set(&error, FACET_IO, "%s", long_text);
    assert_ends_in_dots(&error);
}

static void errno_chooses_the_status(void **state)
{
    static const struct {
        int errnum;
        enum facet_status status;
    } map[] = {
        {ENOENT, FACET_NOT_FOUND}, {ESRCH, FACET_NOT_FOUND},  {EACCES, FACET_PERMISSION},
        {EPERM, FACET_PERMISSION}, {EROFS, FACET_PERMISSION}, {EEXIST, FACET_ALREADY_EXISTS},
        {ENOSPC, FACET_NO_SPACE},  {EDQUOT, FACET_NO_SPACE},  {ENOMEM, FACET_NO_MEMORY},
        {EAGAIN, FACET_BUSY},      {EBUSY, FACET_BUSY},       {ETIMEDOUT, FACET_TIMEOUT},
        {EINVAL, FACET_IO},        {EIO, FACET_IO},
    };

    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        struct facet_error error;

        assert_int_equal(facet_error_errno(&error, map[i].errnum, "cannot open %s", "it"), map[i].status);
        assert_int_equal(error.status, map[i].status);
        assert_ptr_equal(strstr(error.message, "cannot open it: "), error.message);
        assert_string_equal(error.message + strlen("cannot open it: "), strerror(map[i].errnum));
    }
}

static void prefix_is_put_before_the_message(void **state)
{
    struct facet_error error;

    facet_error_argument(&error, FACET_QUOTA, "memory", "none left");
    assert_int_equal(facet_error_prefix(&error, "vGPU %s", "a"), FACET_QUOTA);
    assert_string_equal(error.message, "vGPU a: none left");
    assert_string_equal(error.argument, "memory");
}

static void prefix_of_a_full_message_stays_in_bounds(void **state)
{
    struct facet_error error;

    memset(long_text, 'x', sizeof long_text - 1);
    facet_error_set(&error, FACET_IO, "%s", long_text);
    facet_error_prefix(&error, "doing");
    assert_memory_equal(error.message, "doing: xxx", 10);
    assert_int_equal(strnlen(error.message, sizeof error.message), sizeof error.message - 1);
    assert_ends_in_dots(&error);
}

static void errno_after_a_full_message_is_cut_visibly(void **state)
{
    struct facet_error error;

    memset(long_text, 'x', sizeof error.message - 5);
    long_text[sizeof error.message - 5] = '\0';
    facet_error_errno(&error, ENOENT, "%s", long_text);
    assert_ends_in_dots(&error);
}

/* A message goes into JSON, which holds only UTF-8. With one invalid byte the whole answer could not be written. */
static void invalid_utf8_is_shown_as_question_marks(void **state)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xff\xfe", "??"},
        {"a\xc3", "a?"},              /* cut off */
        {"\xe2\x82.", "??."},         /* cut in two */
        {"\xc0\xaf", "??"},           /* an overlong encoding */
        {"\xed\xa0\x80", "???"},      /* half of a surrogate pair */
        {"\xf4\x90\x80\x80", "????"}, /* beyond U+10FFFF */
        {"\xc2\x9b[2J", "??[2J"},     /* begins an escape sequence */
    };
    struct facet_error error;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        facet_error_set(&error, FACET_IO, "%s", cases[i].text);
        assert_string_equal(error.message, cases[i].expected);
    }
    facet_error_set(&error, FACET_IO, "'%.4s'", "abc\xc3\xa9");
    assert_string_equal(error.message, "'abc?'");
    for (size_t size = sizeof error.message - 8; size < sizeof error.message + 4; size++) {
        memset(long_text, 'x', size);
        snprintf(long_text + size, sizeof long_text - size, "\xc3\xa9\xc3\xa9\xc3\xa9");
        facet_error_errno(&error, ENOENT, "%s", long_text);
        assert_true(mbstowcs(NULL, error.message, 0) != (size_t)-1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_fills_status_and_message),
        cmocka_unit_test(an_error_names_its_argument),
        cmocka_unit_test(control_bytes_are_shown_as_question_marks),
        cmocka_unit_test(messages_are_utf8),
        cmocka_unit_test(null_error_is_allowed),
        cmocka_unit_test(a_message_that_is_cut_ends_in_dots),
        cmocka_unit_test(errno_chooses_the_status),
        cmocka_unit_test(prefix_is_put_before_the_message),
        cmocka_unit_test(prefix_of_a_full_message_stays_in_bounds),
        cmocka_unit_test(errno_after_a_full_message_is_cut_visibly),
        cmocka_unit_test(invalid_utf8_is_shown_as_question_marks),
    };

    (void)setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
