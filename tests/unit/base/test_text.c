/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of replacing bytes that control terminals, deceive people, or are no text. Never: prints such
 * bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/text.h"

#include <cmocka.h>

static void expect_shown(const char *text, const char *expected)
{
    char shown[FACET_TEXT_SHOWN_SIZE], all[256] = "";
    size_t length;

    for (; (length = facet_text_show(text, shown)); text += length)
        strncat(all, shown, sizeof all - strlen(all) - 1);
    assert_string_equal(all, expected);
}

static void unprintable_characters_are_shown_by_number(void **state)
{
    (void)state;
    expect_shown("saxpy \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xd8\xb9",
                 "saxpy \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xd8\xb9");
    expect_shown("\x1b[31m\x7f\xc2\x9b", "<U+001B>[31m<U+007F><U+009B>");
    expect_shown("a\xe2\x80\xaetxt.exe\xe2\x80\x8b", "a<U+202E>txt.exe<U+200B>");
    expect_shown("\xc2\xad\xe2\x81\xa6\xef\xbb\xbf\xe2\x80\xa8", "<U+00AD><U+2066><U+FEFF><U+2028>");
    expect_shown("\xf3\xa0\x81\x81", "<U+E0041>");
    expect_shown("\x9b\xc2x\xed\xa0\x80", "<9B><C2>x<ED><A0><80>");
}

static void a_line_stays_as_long_as_it_was(void **state)
{
    char line[] = "a\n\xe2\x80\xae\xff\xc3\xa9";

    (void)state;
    facet_text_make_line(line);
    assert_string_equal(line, "a?????\xc3\xa9");
}

static void characters_have_their_numbers(void **state)
{
    (void)state;
    assert_int_equal(facet_text_code("A", 1), 'A');
    assert_int_equal(facet_text_code("\xc2\xad", 2), 0xad);
    assert_int_equal(facet_text_code("\xe2\x82\xac", 3), 0x20ac);
    assert_int_equal(facet_text_code("\xf4\x8f\xbf\xbf", 4), 0x10ffff);
    assert_int_equal(facet_text_code("", 0), 0);
    assert_false(facet_text_is_unseen("\x9b"));
    assert_false(facet_text_is_unseen(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unprintable_characters_are_shown_by_number),
        cmocka_unit_test(a_line_stays_as_long_as_it_was),
        cmocka_unit_test(characters_have_their_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
