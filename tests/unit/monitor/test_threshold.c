/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about when a rule is raised and cleared, and about the events that report this. Never: needs real
 * time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "monitor/threshold.h"

#define MS UINT64_C(1000000)

struct event_log {
    struct facet_threshold_event last;
    unsigned raised, cleared;
    const struct facet_threshold *threshold;
    bool state_was_old; /* when the callback ran, `threshold` did not yet have the state that the event reports */
};

static void note_event(void *owner, const struct facet_threshold_event *event)
{
    struct event_log *event_log = owner;

    event_log->last = *event;
    event_log->raised += event->edge == FACET_THRESHOLD_RAISED;
    event_log->cleared += event->edge == FACET_THRESHOLD_CLEARED;
    event_log->state_was_old =
        event_log->threshold && event_log->threshold->raised != (event->edge == FACET_THRESHOLD_RAISED);
}

static struct facet_threshold threshold_of(struct facet_threshold_rule rule, struct event_log *event_log)
{
    struct facet_threshold threshold;
    struct facet_error error;

    assert_int_equal(facet_threshold_init(&threshold, &rule, note_event, event_log, &error), FACET_OK);
    return threshold;
}

/* Passes a sample of which only the number of queued launches is measured. */
static void feed_queued(struct facet_threshold *threshold, uint64_t time_ns, uint64_t queued)
{
    struct facet_sample sample = {.time_ns = time_ns};

    facet_sample_set(&sample, FACET_SAMPLE_QUEUED, queued);
    facet_threshold_feed(threshold, &sample);
}

static void test_rules_are_raised_and_cleared_with_duration_and_hysteresis(void **state)
{
    struct event_log event_log = {0};
    struct facet_threshold threshold =
        threshold_of((struct facet_threshold_rule){FACET_MEASURE_QUEUED, false, 10, 5, 30 * MS, 0}, &event_log);

    event_log.threshold = &threshold;
    feed_queued(&threshold, 100 * MS, 11);
    feed_queued(&threshold, 120 * MS, 12);
    assert_int_equal(event_log.raised, 0);
    feed_queued(&threshold, 125 * MS, 10); /* not above the level: the duration begins anew */
    feed_queued(&threshold, 130 * MS, 11);
    feed_queued(&threshold, 159 * MS, 11);
    assert_int_equal(event_log.raised, 0);
    feed_queued(&threshold, 160 * MS, 40);
    assert_int_equal(event_log.raised, 1);
    assert_int_equal(event_log.last.value, 40);
    assert_int_equal(event_log.last.time_ns, 160 * MS);
    assert_int_equal(event_log.last.since_ns, 130 * MS);
    assert_false(event_log.state_was_old);
    for (uint64_t time = 170; time < 400; time += 10) /* jumps above and below the level, and stays above clear_level */
        feed_queued(&threshold, time * MS, time % 20 ? 6 : 100);
    assert_int_equal(event_log.raised + event_log.cleared, 1);
    feed_queued(&threshold, 400 * MS, 5);
    feed_queued(&threshold, 429 * MS, 0);
    assert_int_equal(event_log.cleared, 0);
    feed_queued(&threshold, 430 * MS, 5);
    assert_int_equal(event_log.cleared, 1);
    assert_int_equal(event_log.last.since_ns, 400 * MS);
    feed_queued(&threshold, 500 * MS, 0);
    assert_int_equal(event_log.raised + event_log.cleared, 2);
}

static void test_a_rule_for_low_values_is_raised_and_cleared(void **state)
{
    struct event_log event_log = {0};
    struct facet_threshold threshold =
        threshold_of((struct facet_threshold_rule){FACET_MEASURE_QUEUED, true, 3, 6, 0, 0}, &event_log);

    feed_queued(&threshold, 1, 3);
    assert_int_equal(event_log.raised, 0);
    feed_queued(&threshold, 2, 2); /* raised at once */
    assert_int_equal(event_log.raised, 1);
    feed_queued(&threshold, 3, 5);
    assert_int_equal(event_log.cleared, 0);
    feed_queued(&threshold, 4, 6);
    assert_int_equal(event_log.cleared, 1);
}

/* A rate holds for the time between two samples, so that two samples may be enough to raise a rule. */
static void test_a_rate_holds_between_samples(void **state)
{
    struct event_log event_log = {0};
    struct facet_threshold threshold = threshold_of(
        (struct facet_threshold_rule){FACET_MEASURE_UTILIZATION_MILLI, false, 900, 500, 100 * MS, 0}, &event_log);
    struct facet_sample sample = {.time_ns = 100 * MS};

    facet_sample_set(&sample, FACET_SAMPLE_BUSY_NS, 0);
    facet_threshold_feed(&threshold, &sample);
    sample.time_ns += 100 * MS;
    sample.values[FACET_SAMPLE_BUSY_NS] += 95 * MS;
    facet_threshold_feed(&threshold, &sample);
    assert_int_equal(event_log.raised, 1);
    assert_int_equal(event_log.last.value, 950);
    assert_int_equal(event_log.last.since_ns, 100 * MS);
    assert_int_equal(event_log.last.rule->level, 900);
}

static void test_memory_is_compared_in_milli_of_the_quota(void **state)
{
    struct event_log event_log = {0};
    struct facet_threshold threshold = threshold_of(
        (struct facet_threshold_rule){FACET_MEASURE_MEMORY_MILLI, false, 800, 700, 0, 1000000}, &event_log);
    struct facet_sample sample = {.time_ns = 1};

    facet_sample_set(&sample, FACET_SAMPLE_MEMORY_BYTES, 800999);
    facet_threshold_feed(&threshold, &sample);
    assert_int_equal(event_log.raised, 0);
    sample.time_ns = 2;
    facet_sample_set(&sample, FACET_SAMPLE_MEMORY_BYTES, 801000);
    facet_threshold_feed(&threshold, &sample);
    assert_int_equal(event_log.raised, 1);
}

static void test_a_sample_without_the_value_clears_nothing(void **state)
{
    struct event_log event_log = {0};
    struct facet_threshold threshold =
        threshold_of((struct facet_threshold_rule){FACET_MEASURE_QUEUED, false, 10, 10, 20, 0}, &event_log);
    const struct facet_sample without_value = {.time_ns = 110}, later = {.time_ns = 200};

    feed_queued(&threshold, 100, 11);
    facet_threshold_feed(&threshold, &without_value);
    feed_queued(&threshold, 125, 11);
    assert_int_equal(event_log.raised, 0); /* the duration began anew */
    feed_queued(&threshold, 145, 11);
    assert_int_equal(event_log.raised, 1);
    facet_threshold_feed(&threshold, &later);
    assert_int_equal(event_log.cleared, 0);
    assert_true(threshold.raised);
    feed_queued(&threshold, 190, 0); /* an earlier sample is ignored */
    assert_false(threshold.change_pending);
}

static void test_contradictory_rules_are_refused(void **state)
{
    static const struct {
        struct facet_threshold_rule rule;
        const char *fragment;
    } rows[] = {
        {{FACET_MEASURE_QUEUED, false, 10, 11, 0, 0}, "clear_level 11: expected at most the level, 10"},
        {{FACET_MEASURE_QUEUED, true, 10, 9, 0, 0}, "clear_level 9: expected at least the level, 10"},
        {{(enum facet_measure)8, false, 1, 1, 0, 0}, "measure 8"},
        {{FACET_MEASURE_MEMORY_MILLI, false, 1, 1, 0, 0}, "memory_bytes 0"},
    };
    const struct facet_threshold_rule good = {FACET_MEASURE_QUEUED, false, 1, 1, 0, 0};
    struct facet_threshold threshold;
    struct facet_error error;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(facet_threshold_init(&threshold, &rows[i].rule, note_event, NULL, &error),
                         FACET_INVALID_ARGUMENT);
        assert_non_null(strstr(error.message, rows[i].fragment));
    }
    assert_int_equal(facet_threshold_init(&threshold, &good, NULL, NULL, &error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "callback"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_are_raised_and_cleared_with_duration_and_hysteresis),
        cmocka_unit_test(test_a_rule_for_low_values_is_raised_and_cleared),
        cmocka_unit_test(test_a_rate_holds_between_samples),
        cmocka_unit_test(test_memory_is_compared_in_milli_of_the_quota),
        cmocka_unit_test(test_a_sample_without_the_value_clears_nothing),
        cmocka_unit_test(test_contradictory_rules_are_refused),
    };
    return cmocka_run_group_tests_name("threshold", tests, NULL, NULL);
}
