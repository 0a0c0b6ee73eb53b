/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about the registry of meters, statistics, subjects over several samples, and the output as Prometheus
 * text and JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include <facet/measurement.h>
#include <facet/provider/metrics.h>

#define SECOND UINT64_C(1000000000)

static struct facet_error error;

static struct facet_subject *make_subject(uint32_t kind, const char *id, uint32_t points)
{
    struct facet_subject *subject = NULL;

    assert_int_equal(facet_subject_create(
                         &(struct facet_subject_config){
                             .size = sizeof(struct facet_subject_config), .kind = kind, .points = points, .id = id},
                         &subject, &error),
                     FACET_OK);
    return subject;
}

static struct facet_measurement measured_value(const char *key, uint64_t time_ns, int64_t value)
{
    return (struct facet_measurement){
        .size = sizeof(struct facet_measurement), .meter = facet_meter_find(key), .value = value, .time_ns = time_ns};
}

static struct facet_measurement unmeasured_value(const char *key, uint64_t time_ns, uint32_t reason)
{
    struct facet_measurement measurement = measured_value(key, time_ns, 0);

    measurement.reason = reason;
    return measurement;
}

static void add_measurement(struct facet_subject *subject, struct facet_measurement measurement)
{
    enum facet_status status = facet_subject_add(subject, &measurement, 1, &error);

    if (status != FACET_OK)
        fail_msg("%s", error.message);
}

static void expect_refused(struct facet_subject *subject, struct facet_measurement measurement, const char *argument)
{
    assert_int_equal(facet_subject_add(subject, &measurement, 1, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, argument);
}

static struct facet_measurement last_of(const struct facet_subject *subject, const char *key)
{
    struct facet_measurement measurement;

    assert_int_equal(facet_subject_find(subject, key, &measurement, NULL, &error), FACET_OK);
    return measurement;
}

static struct facet_statistics statistics_of(const struct facet_subject *subject, const char *key)
{
    struct facet_measurement measurement;
    struct facet_statistics statistics;

    assert_int_equal(facet_subject_find(subject, key, &measurement, &statistics, &error), FACET_OK);
    return statistics;
}

/* ---- the registry ---- */

static void every_meter_of_the_registry_is_valid(void **state)
{
    for (uint32_t i = 0; i < facet_meter_count(); i++) {
        const struct facet_meter *meter = facet_meter_at(i);

        assert_int_equal(facet_meter_check(meter, &error), FACET_OK);
        assert_ptr_equal(facet_meter_find(meter->key), meter);
        assert_non_null(facet_unit_name(meter->unit));
        assert_non_null(facet_meter_type_name(meter->type));
    }
    assert_null(facet_meter_at(facet_meter_count()));
    assert_null(facet_meter_find("nothing"));
}

static void every_unit_name_is_found_and_unknown_names_are_not(void **state)
{
    uint32_t unit = 99;

    for (uint32_t i = 0; i < FACET_UNITS; i++) {
        assert_int_equal(facet_unit_find(facet_unit_name(i), &unit, &error), FACET_OK);
        assert_int_equal(unit, i);
    }
    assert_int_equal(facet_unit_find("Watts", &unit, &error), FACET_OK);
    assert_int_equal(unit, FACET_UNIT_WATTS);
    assert_int_equal(facet_unit_find("Celsius", &unit, &error), FACET_OK);
    assert_int_equal(unit, FACET_UNIT_CELSIUS);
    assert_int_equal(facet_unit_find("msec", &unit, &error), FACET_OK);
    assert_int_equal(unit, FACET_UNIT_MILLISECONDS);
    assert_int_equal(facet_unit_find("bps", &unit, &error), FACET_OK);
    assert_int_equal(unit, FACET_UNIT_BITS_PER_SECOND);
    assert_int_equal(facet_unit_find("furlongs", &unit, &error), FACET_NOT_FOUND);
    assert_non_null(strstr(error.message, "hertz"));
    assert_int_equal(unit, FACET_UNIT_BITS_PER_SECOND);
    assert_null(facet_unit_name(FACET_UNITS));
    assert_null(facet_meter_type_name(4));
    assert_null(facet_subject_kind_name(4));
    assert_null(facet_unmeasured_name(FACET_UNMEASURED_REASONS));
    assert_string_equal(facet_statistic_name(FACET_STATISTIC_AVERAGE), "average");
    assert_null(facet_statistic_name(3));
}

static void meters_of_a_caller_are_checked(void **state)
{
    const struct facet_meter good = {.size = sizeof good,
                                     .type = FACET_METER_GAUGE,
                                     .unit = FACET_UNIT_COUNT,
                                     .statistics = FACET_STATISTIC_SUM,
                                     .subjects = 1u << FACET_SUBJECT_NODE,
                                     .key = "acme_fans",
                                     .name = "Fans"};
    struct facet_meter bad;

    assert_int_equal(facet_meter_check(&good, &error), FACET_OK);
#define BAD(member, value, status)                                                                                     \
    bad = good;                                                                                                        \
    bad.member = value;                                                                                                \
    assert_int_equal(facet_meter_check(&bad, &error), status)
    BAD(size, 4, FACET_INVALID_ARGUMENT);
    BAD(type, 4, FACET_INVALID_ARGUMENT);
    BAD(type, FACET_METER_ACCUMULATION, FACET_INVALID_ARGUMENT); /* an accumulation has no sum */
    BAD(unit, FACET_UNITS, FACET_INVALID_ARGUMENT);
    BAD(decimals, 10, FACET_INVALID_ARGUMENT);
    BAD(statistics, 64, FACET_INVALID_ARGUMENT);
    BAD(subjects, 0, FACET_INVALID_ARGUMENT);
    BAD(subjects, 16, FACET_INVALID_ARGUMENT);
    BAD(key, NULL, FACET_INVALID_ARGUMENT);
    BAD(key, "", FACET_INVALID_ARGUMENT);
    BAD(key, "Fans", FACET_INVALID_ARGUMENT);
    BAD(key, "1fan", FACET_INVALID_ARGUMENT);
    BAD(key, "a.b", FACET_INVALID_ARGUMENT);
    BAD(key, "fans_total", FACET_INVALID_ARGUMENT);
    BAD(key, "a23456789012345678901234567890123456789012345678", FACET_INVALID_ARGUMENT);
    BAD(key, "cpu_time", FACET_ALREADY_EXISTS);
    BAD(name, NULL, FACET_INVALID_ARGUMENT);
    BAD(name, "two\nlines", FACET_INVALID_ARGUMENT);
#undef BAD
}

/* ---- statistics ---- */

static struct facet_point point_at(uint64_t seconds, int64_t value)
{
    return (struct facet_point){.time_ns = seconds * SECOND, .value = value};
}

static struct facet_point unmeasured_point(uint64_t seconds)
{
    return (struct facet_point){.time_ns = seconds * SECOND, .reason = FACET_UNMEASURED_IO};
}

static const struct facet_meter everything = {.size = sizeof everything,
                                              .statistics = (1u << FACET_STATISTICS) - 1,
                                              .subjects = 15,
                                              .key = "everything",
                                              .name = "Everything"};

static void a_gauge_has_all_statistics(void **state)
{
    const struct facet_point points[] = {point_at(1, 10), unmeasured_point(2), point_at(3, -5), point_at(5, 6)};
    struct facet_statistics got = facet_points_summarize(&everything, points, 4);

    assert_int_equal(got.valid, everything.statistics);
    assert_int_equal(got.points, 4);
    assert_int_equal(got.measured, 3);
    assert_int_equal(got.min, -5);
    assert_int_equal(got.max, 10);
    assert_int_equal(got.sum, 11);
    assert_int_equal(got.average_milli, 3667);
    assert_int_equal(got.diff, -4);
    assert_int_equal(got.rate_milli, -1000); /* -4 in four seconds */
}

static void missing_values_have_no_statistics(void **state)
{
    const struct facet_point all_unmeasured[] = {unmeasured_point(1), unmeasured_point(2)},
                             last_unmeasured[] = {point_at(1, 1), point_at(2, 2), unmeasured_point(3)};
    const struct facet_point one_measured[] = {unmeasured_point(1), point_at(2, 7)};

    assert_int_equal(facet_points_summarize(&everything, all_unmeasured, 2).valid, 0);
    assert_int_equal(facet_points_summarize(&everything, all_unmeasured, 0).valid, 0);
    assert_int_equal(facet_points_summarize(&everything, last_unmeasured, 3).valid &
                         (FACET_STATISTIC_DIFF | FACET_STATISTIC_RATE),
                     0);
    assert_int_equal(facet_points_summarize(&everything, last_unmeasured, 3).max, 2);
    assert_int_equal(facet_points_summarize(&everything, one_measured, 2).valid & FACET_STATISTIC_DIFF, 0);
    assert_int_equal(facet_points_summarize(&everything, one_measured, 2).average_milli, 7000);
}

static void a_reset_counter_has_no_statistics(void **state)
{
    const struct facet_point points[] = {point_at(1, 100), point_at(2, 200), point_at(3, 5), point_at(4, 300)};
    const struct facet_meter *counter = facet_meter_find("io_read");

    assert_int_equal(facet_points_summarize(counter, points, 4).valid, 0);
    assert_int_equal(facet_points_summarize(counter, points, 2).diff, 100);
    assert_int_equal(facet_points_summarize(counter, points, 2).rate_milli, 100000);
    assert_int_equal(facet_points_summarize(counter, points + 2, 2).diff, 295);
    assert_int_equal(facet_points_summarize(counter, points, 2).valid, FACET_STATISTIC_DIFF | FACET_STATISTIC_RATE);
}

static void sums_that_do_not_fit_are_unknown(void **state)
{
    const struct facet_point points[] = {point_at(1, INT64_MIN), point_at(2, INT64_MIN), point_at(3, INT64_MAX)};
    struct facet_statistics got = facet_points_summarize(&everything, points, 3);

    assert_int_equal(got.valid, FACET_STATISTIC_MIN | FACET_STATISTIC_MAX);
    assert_true(got.min == INT64_MIN && got.max == INT64_MAX);
    got = facet_points_summarize(&everything, points, 2);
    assert_int_equal(got.valid & FACET_STATISTIC_SUM, 0);
    assert_int_equal(got.diff, 0);
}

static void percent_needs_a_capacity(void **state)
{
    struct facet_measurement memory = measured_value("memory_used", 1, 1);
    int64_t percent = 4;

    assert_false(facet_measurement_percent(&memory, &percent));
    memory.has_capacity = 1;
    assert_false(facet_measurement_percent(&memory, &percent));
    assert_int_equal(percent, 4);
    memory.capacity = 3;
    assert_true(facet_measurement_percent(&memory, &percent));
    assert_int_equal(percent, 33333);
    memory.value = INT64_MAX;
    memory.capacity = 1; /* the percentage is larger than an int64_t */
    assert_false(facet_measurement_percent(&memory, &percent));
    memory.reason = FACET_UNMEASURED_IO;
    assert_false(facet_measurement_percent(&memory, &percent));
}

/* ---- subjects ---- */

static void a_utilization_needs_two_samples(void **state)
{
    struct facet_subject *subject = make_subject(FACET_SUBJECT_CONTAINER, "c", 4);
    struct facet_measurement sample[] = {measured_value("cpu_time", SECOND, 0),
                                         measured_value("cpu_limit", SECOND, 150000)};

    assert_int_equal(facet_subject_add(subject, sample, 2, &error), FACET_OK);
    assert_int_equal(last_of(subject, "cpu_utilization").reason, FACET_UNMEASURED_FIRST);
    sample[0] = measured_value("cpu_time", 3 * SECOND, (int64_t)SECOND);
    sample[1] = measured_value("cpu_limit", 3 * SECOND, 150000);
    assert_int_equal(facet_subject_add(subject, sample, 2, &error), FACET_OK);
    struct facet_measurement used = last_of(subject, "cpu_utilization");
    int64_t percent = 0;

    assert_int_equal(used.reason, FACET_MEASURED);
    assert_int_equal(used.value, 50000);
    assert_int_equal(used.capacity, 150000);
    assert_true(facet_measurement_percent(&used, &percent));
    assert_int_equal(percent, 33333);
    assert_int_equal(facet_subject_meters(subject), 3);
    add_measurement(subject,
                    measured_value("cpu_time", 4 * SECOND, (int64_t)SECOND)); /* without a limit in the same sample */
    used = last_of(subject, "cpu_utilization");
    assert_int_equal(used.reason, FACET_MEASURED);
    assert_int_equal(used.value, 0);
    assert_false(used.has_capacity);
    facet_subject_destroy(subject);
}

static void a_network_is_in_bits_and_storage_in_bytes(void **state)
{
    struct facet_subject *node = make_subject(FACET_SUBJECT_NODE, "n", 2),
                         *process = make_subject(FACET_SUBJECT_PROCESS, "1", 2);

    add_measurement(node, measured_value("net_rx", SECOND, 1000));
    add_measurement(node, measured_value("net_rx", 2 * SECOND, 2001));
    assert_int_equal(last_of(node, "net_rx_rate").value, 8008000); /* 1001 bytes in a second, in millibits */
    add_measurement(process, measured_value("io_read", SECOND, 1000));
    add_measurement(process, measured_value("io_read", 3 * SECOND, 1001));
    assert_int_equal(last_of(process, "io_read_rate").value, 500); /* one byte in two seconds, in thousandths */
    facet_subject_destroy(node);
    facet_subject_destroy(process);
}

static void a_failure_affects_one_meter_and_one_sample(void **state)
{
    struct facet_subject *subject = make_subject(FACET_SUBJECT_PROCESS, "7", 8);

    add_measurement(subject, measured_value("io_read", SECOND, 1000));
    add_measurement(subject, measured_value("cpu_time", SECOND, 1));
    add_measurement(subject, unmeasured_value("io_read", 2 * SECOND, FACET_UNMEASURED_PERMISSION));
    add_measurement(subject, measured_value("cpu_time", 2 * SECOND, 2));
    assert_int_equal(last_of(subject, "io_read").reason, FACET_UNMEASURED_PERMISSION);
    assert_int_equal(last_of(subject, "io_read_rate").reason, FACET_UNMEASURED_PERMISSION);
    assert_int_equal(statistics_of(subject, "io_read").valid, 0);
    assert_int_equal(last_of(subject, "cpu_utilization").reason, FACET_MEASURED);
    add_measurement(subject, measured_value("io_read", 3 * SECOND, 3000)); /* the rate is that over both seconds */
    assert_int_equal(last_of(subject, "io_read_rate").value, 1000000);
    assert_int_equal(statistics_of(subject, "io_read").diff, 2000);
    facet_subject_destroy(subject);
}

static void a_reset_counter_has_no_rate(void **state)
{
    struct facet_subject *subject = make_subject(FACET_SUBJECT_PROCESS, "7", 3);

    add_measurement(subject, measured_value("io_read", SECOND, 1000));
    add_measurement(subject, measured_value("io_read", 2 * SECOND, 10));
    assert_int_equal(last_of(subject, "io_read_rate").reason, FACET_UNMEASURED_RESET);
    assert_int_equal(statistics_of(subject, "io_read").valid, 0);
    add_measurement(subject, measured_value("io_read", 3 * SECOND, 20));
    assert_int_equal(last_of(subject, "io_read_rate").value, 10000);
    assert_int_equal(statistics_of(subject, "io_read").valid, 0); /* the reset is still in the window */
    add_measurement(subject, measured_value("io_read", 4 * SECOND, 40));
    assert_int_equal(statistics_of(subject, "io_read").diff, 30);
    facet_subject_destroy(subject);
}

static void a_reused_pid_begins_a_new_history(void **state)
{
    struct facet_subject *subject = make_subject(FACET_SUBJECT_PROCESS, "7", 8);
    struct facet_measurement sample = measured_value("cpu_time", SECOND, 100);

    sample.identity = 555;
    add_measurement(subject, sample);
    /* identity 0: which process had this PID is unknown */
    sample = unmeasured_value("cpu_time", 2 * SECOND, FACET_UNMEASURED_IO);
    add_measurement(subject, sample);
    sample = measured_value("cpu_time", 3 * SECOND, 200);
    sample.identity = 555;
    add_measurement(subject, sample);
    assert_int_equal(last_of(subject, "cpu_utilization").reason, FACET_MEASURED);
    sample = measured_value("cpu_time", 4 * SECOND, 900);
    sample.identity = 777;
    add_measurement(subject, sample);
    assert_int_equal(last_of(subject, "cpu_utilization").reason, FACET_UNMEASURED_FIRST);
    assert_int_equal(statistics_of(subject, "cpu_time").points, 1);
    assert_int_equal(statistics_of(subject, "cpu_utilization").points, 1);
    facet_subject_destroy(subject);
}

static void new_points_replace_the_oldest(void **state)
{
    struct facet_subject *subject = make_subject(FACET_SUBJECT_NODE, "n", 3);

    for (uint64_t i = 1; i <= 10; i++)
        add_measurement(subject, measured_value("memory_used", i, (int64_t)i));
    assert_int_equal(statistics_of(subject, "memory_used").points, 3);
    assert_int_equal(statistics_of(subject, "memory_used").min, 8);
    facet_subject_destroy(subject);
}

static void measurements_are_added_all_or_none(void **state)
{
    struct facet_subject *subject = make_subject(FACET_SUBJECT_PROCESS, "7", 2);
    struct facet_measurement twice[] = {measured_value("threads", 5, 1), measured_value("threads", 6, 1)};
    struct facet_meter copy_of_threads = *facet_meter_find("threads"), custom = everything, same_key = everything;
    struct facet_measurement measurement = measured_value("threads", 9, 1);

    assert_int_equal(facet_subject_add(subject, twice, 2, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_subject_meters(subject), 0);
    add_measurement(subject, measured_value("threads", 5, 1));
    expect_refused(subject, measured_value("threads", 5, 1), "time_ns");
    expect_refused(subject, measured_value("threads", UINT64_MAX, 1), "time_ns");
    expect_refused(subject, measured_value("power", 9, 1), "meter");
    expect_refused(subject, measured_value("cpu_utilization", 9, 1), "meter");
    expect_refused(subject, unmeasured_value("threads", 9, FACET_UNMEASURED_REASONS), "reason");
    measurement.meter = &copy_of_threads;
    expect_refused(subject, measurement, "meter");
    measurement.meter = NULL;
    expect_refused(subject, measurement, "meter");
    measurement = measured_value("threads", 9, 1);
    measurement.size = 1;
    expect_refused(subject, measurement, "measurements");
    measurement = measured_value("threads", 9, 1);
    measurement.meter = &custom;
    add_measurement(subject, measurement);
    measurement.meter = &same_key;
    measurement.time_ns = 10;
    expect_refused(subject, measurement, "meter");
    assert_int_equal(facet_subject_meters(subject), 2);
    assert_int_equal(last_of(subject, "threads").time_ns, 5);
    facet_subject_destroy(subject);
}

static void the_number_of_meters_is_bounded(void **state)
{
    static struct facet_meter meters[FACET_SUBJECT_METERS + 1];
    static char keys[FACET_SUBJECT_METERS + 1][16];
    struct facet_subject *subject = make_subject(FACET_SUBJECT_NODE, "n", 2);
    struct facet_measurement sample[FACET_SUBJECT_METERS + 1];

    for (uint32_t i = 0; i <= FACET_SUBJECT_METERS; i++) {
        snprintf(keys[i], sizeof keys[i], "own_%u", i);
        meters[i] = everything;
        meters[i].key = keys[i];
        sample[i] = measured_value("threads", 1, 1);
        sample[i].meter = &meters[i];
    }
    assert_int_equal(facet_subject_add(subject, sample, FACET_SUBJECT_METERS + 1, &error), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_subject_meters(subject), 0);
    assert_int_equal(facet_subject_add(subject, sample, FACET_SUBJECT_METERS, &error), FACET_OK);
    assert_int_equal(facet_subject_add(subject, sample + FACET_SUBJECT_METERS, 1, &error), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_subject_meters(subject), FACET_SUBJECT_METERS);
    facet_subject_destroy(subject);
}

static void subjects_are_checked(void **state)
{
    struct facet_subject_config config = {.size = sizeof config, .kind = FACET_SUBJECT_NODE, .points = 2, .id = "n"};
    struct facet_subject *subject = NULL;
    struct facet_measurement ignored;
    char longest[FACET_SUBJECT_ID_SIZE + 1];

    memset(longest, 'x', sizeof longest);
    longest[FACET_SUBJECT_ID_SIZE] = '\0';
#define BAD(member, good, value, status)                                                                               \
    config.member = value;                                                                                             \
    assert_int_equal(facet_subject_create(&config, &subject, &error), status);                                         \
    assert_null(subject);                                                                                              \
    config.member = good
    BAD(size, sizeof config, 3, FACET_INVALID_ARGUMENT);
    BAD(kind, 0, 4, FACET_INVALID_ARGUMENT);
    BAD(points, 2, 1, FACET_OUT_OF_RANGE);
    BAD(points, 2, FACET_SUBJECT_POINTS + 1, FACET_OUT_OF_RANGE);
    BAD(id, "n", NULL, FACET_INVALID_ARGUMENT);
    BAD(id, "n", "", FACET_INVALID_ARGUMENT);
    BAD(id, "n", "a\nb", FACET_INVALID_ARGUMENT);
    BAD(id, "n", "\xff\xfe", FACET_INVALID_ARGUMENT);
    BAD(id, "n", "\xc0\x80", FACET_INVALID_ARGUMENT);
    BAD(id, "n", "\xed\xa0\x80", FACET_INVALID_ARGUMENT);
    BAD(id, "n", "\xf4\x90\x80\x80", FACET_INVALID_ARGUMENT);
    BAD(id, "n", "\xe2\x82", FACET_INVALID_ARGUMENT);
    BAD(id, "n", longest, FACET_OUT_OF_RANGE);
#undef BAD
    longest[FACET_SUBJECT_ID_SIZE - 1] = '\0';
    subject = make_subject(FACET_SUBJECT_NODE, longest, 2);
    assert_int_equal(facet_subject_get(subject, 0, &ignored, NULL, &error), FACET_NOT_FOUND);
    assert_int_equal(facet_subject_find(subject, "threads", &ignored, NULL, &error), FACET_NOT_FOUND);
    facet_subject_destroy(subject);
    facet_subject_destroy(NULL);
    assert_int_equal(facet_subject_meters(NULL), 0);
}

/* ---- output ---- */

static void prometheus_refuses_a_subject_listed_twice(void **state)
{
    struct facet_subject *all[] = {
        make_subject(FACET_SUBJECT_CONTAINER, "b", 2), make_subject(FACET_SUBJECT_PROCESS, "a", 2),
        make_subject(FACET_SUBJECT_CONTAINER, "a", 2), make_subject(FACET_SUBJECT_CONTAINER, "b", 2)};
    char *text = NULL;

    assert_int_equal(facet_subjects_prometheus(all, 4, &text, &error), FACET_INVALID_ARGUMENT);
    assert_null(text);
    assert_non_null(strstr(error.message, "container 'b'"));
    assert_int_equal(facet_subjects_prometheus(all, 3, &text, &error), FACET_OK);
    free(text);
    for (size_t i = 0; i < 4; i++)
        facet_subject_destroy(all[i]);
}

static void prometheus_has_base_units_and_no_sample_for_an_unmeasured_value(void **state)
{
    struct facet_subject *both[] = {make_subject(FACET_SUBJECT_CONTAINER, "a\"b", 4),
                                    make_subject(FACET_SUBJECT_DEVICE, "sim:0", 4)};
    struct facet_measurement memory = measured_value("memory_used", 1, 4096);
    char *text = NULL;

    memory.has_capacity = 1;
    memory.capacity = 8192;
    add_measurement(both[0], memory);
    add_measurement(both[0], measured_value("cpu_time", SECOND, 1500000001));
    add_measurement(both[1], measured_value("temperature", 1, -500));
    add_measurement(both[1], unmeasured_value("power", 1, FACET_UNMEASURED_ABSENT));
    assert_int_equal(facet_subjects_prometheus(both, 2, &text, &error), FACET_OK);
    assert_string_equal(text, "# HELP facet_container_memory_used_bytes Memory used.\n"
                              "# TYPE facet_container_memory_used_bytes gauge\n"
                              "facet_container_memory_used_bytes{id=\"a\\\"b\"} 4096\n"
                              "# HELP facet_container_memory_used_capacity_bytes Memory used: capacity.\n"
                              "# TYPE facet_container_memory_used_capacity_bytes gauge\n"
                              "facet_container_memory_used_capacity_bytes{id=\"a\\\"b\"} 8192\n"
                              "# HELP facet_container_cpu_time_seconds_total CPU time.\n"
                              "# TYPE facet_container_cpu_time_seconds_total counter\n"
                              "facet_container_cpu_time_seconds_total{id=\"a\\\"b\"} 1.500000001\n"
                              "# HELP facet_device_temperature_celsius Temperature.\n"
                              "# TYPE facet_device_temperature_celsius gauge\n"
                              "facet_device_temperature_celsius{id=\"sim:0\"} -0.500\n"
                              "# HELP facet_unmeasurable 1 for each meter whose last measurement has no value.\n"
                              "# TYPE facet_unmeasurable gauge\n"
                              "facet_unmeasurable{kind=\"container\",id=\"a\\\"b\",meter=\"cpu_utilization\","
                              "reason=\"first\"} 1\n"
                              "facet_unmeasurable{kind=\"device\",id=\"sim:0\",meter=\"power\",reason=\"absent\"} 1\n");
    free(text);
    facet_subject_destroy(both[0]);
    facet_subject_destroy(both[1]);
}

static void prometheus_has_one_metric_family_for_all_subjects(void **state)
{
    struct facet_subject *both[] = {make_subject(FACET_SUBJECT_PROCESS, "1", 2),
                                    make_subject(FACET_SUBJECT_PROCESS, "2", 2)};
    struct facet_meter in_counts = everything, in_watts = everything; /* of one key */
    struct facet_measurement measurement = measured_value("threads", 2, 3);
    char *text = NULL;

    add_measurement(both[0], measured_value("threads", 1, 1));
    add_measurement(both[1], measured_value("threads", 1, 2));
    assert_int_equal(facet_subjects_prometheus(both, 2, &text, &error), FACET_OK);
    assert_string_equal(text, "# HELP facet_process_threads Threads.\n# TYPE facet_process_threads gauge\n"
                              "facet_process_threads{id=\"1\"} 1\nfacet_process_threads{id=\"2\"} 2\n");
    free(text);
    in_watts.unit = FACET_UNIT_WATTS;
    measurement.meter = &in_counts;
    add_measurement(both[0], measurement);
    measurement.meter = &in_watts;
    add_measurement(both[1], measurement);
    text = NULL;
    assert_int_equal(facet_subjects_prometheus(both, 2, &text, &error), FACET_INVALID_ARGUMENT);
    assert_null(text);
    facet_subject_destroy(both[0]);
    facet_subject_destroy(both[1]);
}

static void json_values_are_exact_and_unmeasured_ones_are_null(void **state)
{
    struct facet_subject *subject = make_subject(FACET_SUBJECT_PROCESS, "\xe2\x82\xac \xf0\x9f\x98\x80", 4);
    char *text = NULL;

    add_measurement(subject, measured_value("io_read", 1, INT64_MAX));
    add_measurement(subject, unmeasured_value("memory_used", 1, FACET_UNMEASURED_PERMISSION));
    assert_int_equal(facet_subjects_json(&subject, 1, &text, &error), FACET_OK);
    json_t *root = json_loads(text, 0, NULL), *list, *first, *second;

    assert_non_null(root);
    list = json_object_get(json_array_get(json_object_get(root, "subjects"), 0), "measurements");
    assert_int_equal(json_array_size(list), 3);
    first = json_array_get(list, 0);
    assert_string_equal(json_string_value(json_object_get(first, "key")), "io_read");
    assert_true(json_integer_value(json_object_get(first, "value")) == INT64_MAX);
    assert_true(json_is_null(json_object_get(first, "unmeasured")));
    assert_true(json_is_null(json_object_get(json_object_get(first, "statistics"), "diff")));
    assert_null(json_object_get(json_object_get(first, "statistics"), "sum"));
    second = json_array_get(list, 2);
    assert_string_equal(json_string_value(json_object_get(second, "key")), "memory_used");
    assert_true(json_is_null(json_object_get(second, "value")));
    assert_true(json_is_null(json_object_get(second, "capacity")));
    assert_string_equal(json_string_value(json_object_get(second, "unmeasured")), "permission");
    json_decref(root);
    free(text);
    assert_int_equal(facet_subjects_json(NULL, 0, &text, &error), FACET_OK);
    assert_string_equal(text, "{\n  \"subjects\": []\n}");
    free(text);
    assert_int_equal(facet_subjects_json(NULL, 1, &text, &error), FACET_INVALID_ARGUMENT);
    facet_subject_destroy(subject);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_meter_of_the_registry_is_valid),
        cmocka_unit_test(every_unit_name_is_found_and_unknown_names_are_not),
        cmocka_unit_test(meters_of_a_caller_are_checked),
        cmocka_unit_test(a_gauge_has_all_statistics),
        cmocka_unit_test(missing_values_have_no_statistics),
        cmocka_unit_test(a_reset_counter_has_no_statistics),
        cmocka_unit_test(sums_that_do_not_fit_are_unknown),
        cmocka_unit_test(percent_needs_a_capacity),
        cmocka_unit_test(a_utilization_needs_two_samples),
        cmocka_unit_test(a_network_is_in_bits_and_storage_in_bytes),
        cmocka_unit_test(a_failure_affects_one_meter_and_one_sample),
        cmocka_unit_test(a_reset_counter_has_no_rate),
        cmocka_unit_test(a_reused_pid_begins_a_new_history),
        cmocka_unit_test(new_points_replace_the_oldest),
        cmocka_unit_test(measurements_are_added_all_or_none),
        cmocka_unit_test(the_number_of_meters_is_bounded),
        cmocka_unit_test(subjects_are_checked),
        cmocka_unit_test(prometheus_has_base_units_and_no_sample_for_an_unmeasured_value),
        cmocka_unit_test(prometheus_refuses_a_subject_listed_twice),
        cmocka_unit_test(prometheus_has_one_metric_family_for_all_subjects),
        cmocka_unit_test(json_values_are_exact_and_unmeasured_ones_are_null),
    };

    return cmocka_run_group_tests_name("measurement", tests, NULL, NULL);
}
