/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of reading, checking and writing limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <facet/limits.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static void sizes_are_read(void **state)
{
    static const struct {
        const char *text;
        uint64_t whole_bytes, bytes; /* whole_bytes: what 100% stands for */
    } good[] = {
        {"1", 0, 1},
        {"268435456", 0, 256 * MIB},
        {"17B", 0, 17},
        {"64k", 0, 64 * KIB},
        {"64K", 0, 64 * KIB},
        {"256M", 0, 256 * MIB},
        {"512MiB", 0, 512 * MIB},
        {"512mib", 0, 512 * MIB},
        {"2G", 0, 2 * GIB},
        {"1.5G", 0, 3 * GIB / 2},
        {"0.5k", 0, 512},
        {"1.000000000000000000001k", 0, KIB},
        {"1T", 0, 1024 * GIB},
        {"3P", 0, 3 * 1024 * 1024 * GIB},
        {"15E", 0, 15 * (UINT64_C(1) << 60)},
        {"15.999999999E", 0, UINT64_C(18446744072556630111)},
        {"18446744073709551615", 0, UINT64_MAX},
        {"50%", 8 * GIB, 4 * GIB},
        {"33.3%", 1000, 333},
        {"100%", UINT64_MAX, UINT64_MAX},
        {"100.0%", 7, 7},
        {"0.1%", 1000, 1},
    };

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t bytes = 0;
        struct facet_error error = {0};

        assert_int_equal(facet_parse_size(good[i].text, "memory", good[i].whole_bytes, &bytes, &error), FACET_OK);
        assert_int_equal(bytes, good[i].bytes);
    }
}

static void bad_sizes_are_refused(void **state)
{
    static const struct {
        const char *text;
        uint64_t whole_bytes;
        enum facet_status status;
    } bad[] = {
        {NULL, GIB, FACET_INVALID_ARGUMENT},
        {"", GIB, FACET_INVALID_ARGUMENT},
        {" 1", GIB, FACET_INVALID_ARGUMENT},
        {"1 ", GIB, FACET_INVALID_ARGUMENT},
        {"+1", GIB, FACET_INVALID_ARGUMENT},
        {"-1", GIB, FACET_INVALID_ARGUMENT},
        {"M", GIB, FACET_INVALID_ARGUMENT},
        {".5G", GIB, FACET_INVALID_ARGUMENT},
        {"5.G", GIB, FACET_INVALID_ARGUMENT},
        {"1.5", GIB, FACET_INVALID_ARGUMENT},
        {"1.5B", GIB, FACET_INVALID_ARGUMENT},
        {"1X", GIB, FACET_INVALID_ARGUMENT},
        {"1MB", GIB, FACET_INVALID_ARGUMENT},
        {"1Mi", GIB, FACET_INVALID_ARGUMENT},
        {"1MiBs", GIB, FACET_INVALID_ARGUMENT},
        {"0x10", GIB, FACET_INVALID_ARGUMENT},
        {"1e9", GIB, FACET_INVALID_ARGUMENT},
        {"1.2.3G", GIB, FACET_INVALID_ARGUMENT},
        {"50%%", GIB, FACET_INVALID_ARGUMENT},
        {"50%", 0, FACET_INVALID_ARGUMENT},
        {"0", GIB, FACET_OUT_OF_RANGE},
        {"0M", GIB, FACET_OUT_OF_RANGE},
        {"0%", GIB, FACET_OUT_OF_RANGE},
        {"0.0001k", GIB, FACET_OUT_OF_RANGE},
        {"16E", GIB, FACET_OUT_OF_RANGE},
        {"18446744073709551616", GIB, FACET_OUT_OF_RANGE},
        {"101%", GIB, FACET_OUT_OF_RANGE},
        {"100.001%", GIB, FACET_OUT_OF_RANGE},
        {"99999999999999999999999999%", GIB, FACET_OUT_OF_RANGE},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = 4711;
        struct facet_error error = {0};

        assert_int_equal(facet_parse_size(bad[i].text, "memory", bad[i].whole_bytes, &bytes, &error), bad[i].status);
        assert_int_equal(bytes, 4711);
        assert_int_equal(error.status, bad[i].status);
        assert_string_equal(error.argument, "memory");
        assert_non_null(strstr(error.message, bad[i].text ? bad[i].text : "memory"));
        assert_non_null(strstr(error.message, "expected"));
    }
}

static void compute_is_read(void **state)
{
    static const struct {
        const char *text;
        uint32_t request, limit;
    } good[] = {
        {"30", 300, 1000},   {"30%", 300, 1000},    {"0.3", 300, 1000},   {"1", 10, 1000},
        {"1.0", 1000, 1000}, {"1.5", 15, 1000},     {"100", 1000, 1000},  {"100.0", 1000, 1000},
        {"0.1%", 1, 1000},   {"0.001", 1, 1000},    {"33.39", 333, 1000}, {"0.29", 290, 1000},
        {"30:50", 300, 500}, {"0.3:50%", 300, 500}, {"20:20", 200, 200},  {"50%:1.0", 500, 1000},
    };

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint32_t request = 0, limit = 0;

        assert_int_equal(facet_parse_compute(good[i].text, "compute", &request, &limit, NULL), FACET_OK);
        assert_int_equal(request, good[i].request);
        assert_int_equal(limit, good[i].limit);
    }
}

static void bad_compute_is_refused(void **state)
{
    static const struct {
        const char *text;
        enum facet_status status;
    } bad[] = {
        {NULL, FACET_INVALID_ARGUMENT},
        {"", FACET_INVALID_ARGUMENT},
        {":", FACET_INVALID_ARGUMENT},
        {"30:", FACET_INVALID_ARGUMENT},
        {":30", FACET_INVALID_ARGUMENT},
        {"-30", FACET_INVALID_ARGUMENT},
        {"+30", FACET_INVALID_ARGUMENT},
        {"30 ", FACET_INVALID_ARGUMENT},
        {"30%%", FACET_INVALID_ARGUMENT},
        {"30:40:50", FACET_INVALID_ARGUMENT},
        {"half", FACET_INVALID_ARGUMENT},
        {".3", FACET_INVALID_ARGUMENT},
        {"3.", FACET_INVALID_ARGUMENT},
        {"30%x", FACET_INVALID_ARGUMENT},
        {"0", FACET_OUT_OF_RANGE},
        {"0%", FACET_OUT_OF_RANGE},
        {"0.0", FACET_OUT_OF_RANGE},
        {"0.0009", FACET_OUT_OF_RANGE},
        {"0.09%", FACET_OUT_OF_RANGE},
        {"130", FACET_OUT_OF_RANGE},
        {"100.05", FACET_OUT_OF_RANGE},
        {"50:20", FACET_OUT_OF_RANGE},
        {"50:0", FACET_OUT_OF_RANGE},
        {"50:101%", FACET_OUT_OF_RANGE},
        {"99999999999999999999999", FACET_OUT_OF_RANGE},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint32_t request = 4711, limit = 4712;
        struct facet_error error = {0};

        assert_int_equal(facet_parse_compute(bad[i].text, "compute", &request, &limit, &error), bad[i].status);
        assert_int_equal(request, 4711);
        assert_int_equal(limit, 4712);
        assert_string_equal(error.argument, "compute");
        assert_non_null(strstr(error.message, bad[i].text ? bad[i].text : "compute"));
        assert_non_null(strstr(error.message, "expected"));
    }
}

static void modes_and_priorities_round_trip(void **state)
{
    struct facet_error error;
    uint32_t value = 99;

    for (uint32_t mode = FACET_MODE_SHARED; mode <= FACET_MODE_PARTITIONED; mode++) {
        assert_int_equal(facet_parse_mode(facet_mode_name(mode), "mode", &value, NULL), FACET_OK);
        assert_int_equal(value, mode);
    }
    for (uint32_t priority = FACET_PRIORITY_LOW; priority <= FACET_PRIORITY_HIGH; priority++) {
        assert_int_equal(facet_parse_priority(facet_priority_name(priority), "priority", &value, NULL), FACET_OK);
        assert_int_equal(value, priority);
    }
    assert_null(facet_mode_name((enum facet_mode)4));
    assert_null(facet_priority_name((enum facet_priority)3));
    value = 99;
    assert_int_equal(facet_parse_mode("Soft", "mode", &value, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.message, "mode 'Soft': expected shared, soft, hard or partitioned");
    assert_int_equal(facet_parse_priority(NULL, "priority", &value, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(value, 99);
}

static void names_are_checked(void **state)
{
    static const char longest[] = "a23456789012345678901234567890123456789012345678901234567890123";
    static const char *const good[] = {"a", "7", "vgpu-1", "A.b_c-d", longest};
    static const char *const bad[] = {
        "",    ".a",       "-a",
        "_a",  "a b",      "a/b",
        "a\n", "\xc3\xa4", "a23456789012345678901234567890123456789012345678901234567890123x"};

    assert_int_equal(strlen(longest), FACET_NAME_SIZE - 1);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(facet_check_name(good[i], "name", NULL), FACET_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(facet_check_name(bad[i], "name", NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_check_name(NULL, "name", NULL), FACET_INVALID_ARGUMENT);
}

static void expect_refusal(struct facet_limits limits, const char *argument, enum facet_status status)
{
    struct facet_error error = {0};

    assert_int_equal(facet_limits_check(&limits, GIB, &error), status);
    assert_string_equal(error.argument, argument);
}

static void limits_are_checked_against_the_device(void **state)
{
    struct facet_limits base, limits;

    facet_limits_init(&base);
    assert_int_equal(facet_limits_check(&base, GIB, NULL), FACET_OK);
    limits = base;
    limits.memory_bytes = GIB;
    limits.compute_request_milli = 1000;
    assert_int_equal(facet_limits_check(&limits, GIB, NULL), FACET_OK);
    limits.memory_bytes = GIB + 1;
    expect_refusal(limits, "memory", FACET_OUT_OF_RANGE);
    limits = base;
    limits.compute_limit_milli = 0;
    expect_refusal(limits, "compute", FACET_OUT_OF_RANGE);
    limits.compute_limit_milli = 1001;
    expect_refusal(limits, "compute", FACET_OUT_OF_RANGE);
    limits.compute_limit_milli = 200;
    limits.compute_request_milli = 201;
    expect_refusal(limits, "compute", FACET_OUT_OF_RANGE);
    limits = base;
    limits.mode = FACET_MODE_PARTITIONED + 1;
    expect_refusal(limits, "mode", FACET_INVALID_ARGUMENT);
    limits = base;
    limits.priority = FACET_PRIORITY_HIGH + 1;
    expect_refusal(limits, "priority", FACET_INVALID_ARGUMENT);
}

static void sizes_are_written_for_people(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {
        {0, "0 B"},
        {17, "17 B"},
        {1023, "1023 B"},
        {KIB, "1 KiB"},
        {256 * MIB, "256 MiB"},
        {3 * GIB / 2, "1.5 GiB"},
        {1023 * MIB + 972 * KIB, "1023.9 MiB"},
        {1023 * MIB + 973 * KIB, "1 GiB"},
        {UINT64_MAX, "16 EiB"},
    };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char buffer[16];

        assert_ptr_equal(facet_format_size(sizes[i].bytes, buffer, sizeof buffer), buffer);
        assert_string_equal(buffer, sizes[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(bad_sizes_are_refused),
        cmocka_unit_test(compute_is_read),
        cmocka_unit_test(bad_compute_is_refused),
        cmocka_unit_test(modes_and_priorities_round_trip),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(limits_are_checked_against_the_device),
        cmocka_unit_test(sizes_are_written_for_people),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
