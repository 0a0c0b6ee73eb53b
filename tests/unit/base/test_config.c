/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of the table of settings and of the logger that reads its level from it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/config.h"
#include "base/log.h"

static int clear_environment(void **state)
{
    for (uint32_t id = 0; facet_config_setting(id); id++)
        unsetenv(facet_config_setting(id)->variable);
    return 0;
}

static void every_setting_is_complete(void **state)
{
    uint32_t count = 0;

    for (; facet_config_setting(count); count++) {
        const struct facet_setting *setting = facet_config_setting(count);

        assert_non_null(setting->name);
        assert_non_null(setting->help);
        assert_ptr_equal(strstr(setting->variable, "FACET_"), setting->variable);
        assert_ptr_equal(facet_config_text(count), setting->fallback);
    }
    assert_int_equal(count, FACET_SETTING_COUNT);
    assert_int_equal(facet_config_check(NULL), FACET_OK);
}

static void the_environment_wins_and_empty_means_unset(void **state)
{
    uint64_t seconds = 0;

    assert_int_equal(facet_config_u64(FACET_SETTING_IDLE_EXIT_S, &seconds, NULL), FACET_OK);
    assert_int_equal(seconds, 30);
    setenv("FACET_IDLE_EXIT_S", "5", 1);
    assert_int_equal(facet_config_u64(FACET_SETTING_IDLE_EXIT_S, &seconds, NULL), FACET_OK);
    assert_int_equal(seconds, 5);
    assert_string_equal(facet_config_text(FACET_SETTING_IDLE_EXIT_S), "5");
    setenv("FACET_IDLE_EXIT_S", "", 1);
    assert_int_equal(facet_config_u64(FACET_SETTING_IDLE_EXIT_S, &seconds, NULL), FACET_OK);
    assert_int_equal(seconds, 30);
}

static void malformed_values_are_refused(void **state)
{
    static const struct {
        enum facet_setting_id id;
        const char *text;
        enum facet_status status;
    } bad[] = {
        {FACET_SETTING_IDLE_EXIT_S, "five", FACET_INVALID_ARGUMENT},
        {FACET_SETTING_IDLE_EXIT_S, "-1", FACET_INVALID_ARGUMENT},
        {FACET_SETTING_IDLE_EXIT_S, " 5", FACET_INVALID_ARGUMENT},
        {FACET_SETTING_IDLE_EXIT_S, "5s", FACET_INVALID_ARGUMENT},
        {FACET_SETTING_IDLE_EXIT_S, "86401", FACET_OUT_OF_RANGE},
        {FACET_SETTING_SLICE_US, "18446744073709551616", FACET_OUT_OF_RANGE},
        {FACET_SETTING_PARALLEL, "129", FACET_OUT_OF_RANGE},
        {FACET_SETTING_LOG, "loud", FACET_INVALID_ARGUMENT},
        {FACET_SETTING_RUNTIME_DIR, "run/facet", FACET_INVALID_ARGUMENT},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *variable = facet_config_setting(bad[i].id)->variable;
        struct facet_error error = {0};
        uint64_t value = 4711;

        setenv(variable, bad[i].text, 1);
        assert_int_equal(facet_config_u64(bad[i].id, &value, &error), bad[i].status);
        assert_int_equal(value, 4711);
        assert_string_equal(error.argument, variable);
        assert_non_null(strstr(error.message, bad[i].text));
        assert_int_equal(facet_config_check(&error), bad[i].status);
        unsetenv(variable);
    }
}

/* The grammar of sizes refuses 0 and what exceeds 64 bits, and the setting refuses other sizes. Both messages state the
 * same range. */
static void a_size_has_one_range(void **state)
{
    static const char *const wrong[] = {"0", "1", "65535", "1025T", "99999999999T"};

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const struct facet_setting *setting = facet_config_setting(FACET_SETTING_CACHE_SIZE);
        struct facet_error error = {0};
        uint64_t value;

        assert_int_equal(setting->parse(setting, wrong[i], &value, &error), FACET_OUT_OF_RANGE);
        assert_non_null(strstr(error.message, "expected 64K to 1024T"));
    }
}

/* False for the words of a message that describe a value instead of being one. */
static bool is_value(const char *word)
{
    static const char *const descriptive[] = {"a",    "an",   "absolute", "and", "as",    "from",  "or",
                                              "path", "size", "such",     "to",  "whole", "number"};

    for (size_t i = 0; i < sizeof descriptive / sizeof descriptive[0]; i++)
        if (strcmp(word, descriptive[i]) == 0)
            return false;
    return word[0];
}

/* A user who types a value that the message names is not refused again. */
static void values_named_by_a_refusal_are_accepted(void **state)
{
    static const char *const wrong[] = {"?", "0", "1", "50%", "-", "99999999999999999999", "1.5"};
    uint32_t named = 0;

    for (uint32_t id = 0; id < FACET_SETTING_COUNT; id++) {
        const struct facet_setting *setting = facet_config_setting(id);
        struct facet_error error = {0}, again = {0};
        uint64_t value;

        for (size_t i = 0; setting->parse && i < sizeof wrong / sizeof wrong[0]; i++) {
            if (setting->parse(setting, wrong[i], &value, &error) == FACET_OK)
                continue;
            char *rest = strstr(error.message, "expected "), *word;
            assert_non_null(rest);
            rest += strlen("expected ");
            if (strncmp(rest, "at ", 3) == 0 || strncmp(rest, "less ", 5) == 0)
                continue; /* the message states a bound and no value */
            while ((word = strtok_r(NULL, " ,:;", &rest)))
                if (is_value(word)) {
                    named++;
                    if (setting->parse(setting, word, &value, &again) != FACET_OK)
                        fail_msg("%s: '%s' is named and refused: %s", setting->variable, word, again.message);
                }
        }
        if (setting->fallback && setting->parse)
            assert_int_equal(setting->parse(setting, setting->fallback, &value, NULL), FACET_OK);
    }
    assert_true(named > 20);
}

static void a_setting_that_is_text_is_not_read_as_a_number(void **state)
{
    uint64_t value = 4711;

    setenv("FACET_PROVIDER_PATH", "17", 1);
    assert_int_equal(facet_config_u64(FACET_SETTING_PROVIDER_PATH, &value, NULL), FACET_INTERNAL);
    assert_int_equal(value, 4711);
}

/* The text that facet_log() writes to stderr. */
static const char *logged_text(enum facet_log_level level, const char *text)
{
    static char line[2048];
    int ends[2], saved = dup(STDERR_FILENO);

    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    dup2(ends[1], STDERR_FILENO);
    errno = 4711;
    facet_log(level, "%s", text);
    assert_int_equal(errno, 4711);
    dup2(saved, STDERR_FILENO);
    ssize_t length = read(ends[0], line, sizeof line - 1);
    line[length > 0 ? length : 0] = '\0';
    close(ends[0]);
    close(ends[1]);
    close(saved);
    return line;
}

static void the_level_decides_which_messages_are_logged(void **state)
{
    assert_true(facet_log_enabled(FACET_LOG_INFO));
    assert_false(facet_log_enabled(FACET_LOG_DEBUG));
    assert_string_equal(logged_text(FACET_LOG_DEBUG, "hidden"), "");
    setenv("FACET_LOG", "error", 1);
    assert_string_equal(logged_text(FACET_LOG_WARNING, "hidden"), "");
    assert_string_equal(logged_text(FACET_LOG_ERROR, "shown"), "test_base_config: error: shown\n");
    setenv("FACET_LOG", "nonsense", 1); /* with an invalid level, all messages are logged */
    assert_string_equal(logged_text(FACET_LOG_DEBUG, "shown"), "test_base_config: debug: shown\n");
}

static void a_message_stays_one_line(void **state)
{
    char text[4000];

    assert_string_equal(logged_text(FACET_LOG_ERROR, "a\nfacetd: error: b\x1b[2J"),
                        "test_base_config: error: a?facetd: error: b?[2J\n");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    const char *line = logged_text(FACET_LOG_ERROR, text);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_setting_is_complete, clear_environment),
        cmocka_unit_test_setup(the_environment_wins_and_empty_means_unset, clear_environment),
        cmocka_unit_test_setup(malformed_values_are_refused, clear_environment),
        cmocka_unit_test_setup(a_size_has_one_range, clear_environment),
        cmocka_unit_test_setup(values_named_by_a_refusal_are_accepted, clear_environment),
        cmocka_unit_test_setup(a_setting_that_is_text_is_not_read_as_a_number, clear_environment),
        cmocka_unit_test_setup(the_level_decides_which_messages_are_logged, clear_environment),
        cmocka_unit_test_setup(a_message_stays_one_line, clear_environment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
