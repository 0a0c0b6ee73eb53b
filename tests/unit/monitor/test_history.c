/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about the ring of samples, in one thread, and with several readers while one thread writes. Never:
 * asserts how long anything takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "monitor/history.h"

#define NO_END UINT64_MAX

static struct facet_history *history_of(uint32_t capacity)
{
    struct facet_history *history = NULL;
    struct facet_error error;

    assert_int_equal(facet_history_create(capacity, &history, &error), FACET_OK);
    return history;
}

/* All words of a sample are computed from its number, so that a mixture of two samples is noticed. */
static struct facet_sample sample_of(uint64_t number)
{
    struct facet_sample sample = {.time_ns = 10 * number + 10};

    for (unsigned i = 0; i < FACET_SAMPLE_FIELDS; i++)
        facet_sample_set(&sample, (enum facet_sample_field)i, number * (i + 1));
    return sample;
}

static bool is_unmixed(const struct facet_sample *sample)
{
    const struct facet_sample expected = sample_of(sample->time_ns / 10 - 1);

    for (unsigned i = 0; i < FACET_SAMPLE_FIELDS; i++)
        if (sample->values[i] != expected.values[i])
            return false;
    return sample->time_ns == expected.time_ns && sample->valid == expected.valid;
}

static void add_samples(struct facet_history *history, uint64_t from, uint64_t until)
{
    for (uint64_t number = from; number < until; number++) {
        const struct facet_sample sample = sample_of(number);

        assert_true(facet_history_add(history, &sample));
    }
}

static void test_latest_returns_newest_first(void **state)
{
    struct facet_history *history = history_of(4);
    struct facet_sample samples[8];

    assert_int_equal(facet_history_latest(history, samples, 8), 0);
    for (uint64_t number = 0; number < 11; number++) {
        add_samples(history, number, number + 1);
        size_t count = facet_history_latest(history, samples, 8);

        assert_int_equal(count, number < 4 ? number + 1 : 4);
        for (size_t i = 0; i < count; i++) {
            assert_true(is_unmixed(&samples[i]));
            assert_int_equal(samples[i].time_ns, 10 * (number - i) + 10);
        }
    }
    assert_int_equal(facet_history_latest(history, samples, 2), 2);
    assert_int_equal(samples[1].time_ns, 100);
    assert_int_equal(facet_history_latest(history, samples, 0), 0);
    facet_history_destroy(history);
}

static void test_samples_after_a_time_are_returned_oldest_first(void **state)
{
    struct facet_history *history = history_of(5);
    struct facet_sample samples[8];

    assert_int_equal(facet_history_since(history, 0, samples, 8), 0);
    add_samples(history, 0, 12); /* 80 to 120 are kept */
    for (uint64_t after = 0; after < 140; after++) {
        size_t count = facet_history_since(history, after, samples, 8);
        uint64_t next = after < 80 ? 80 : after / 10 * 10 + 10;

        assert_int_equal(count, next > 120 ? 0 : (130 - next) / 10);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(samples[i].time_ns, next + 10 * i);
    }
    assert_int_equal(facet_history_since(history, 85, samples, 2), 2); /* the third is left for the next call */
    assert_int_equal(samples[1].time_ns, 100);
    facet_history_destroy(history);
}

static void test_a_sample_that_is_not_newer_is_refused(void **state)
{
    struct facet_history *history = history_of(3);
    struct facet_sample sample = {.time_ns = 0}, read[3];

    assert_true(facet_history_add(history, &sample));
    assert_false(facet_history_add(history, &sample));
    sample.time_ns = 5;
    assert_true(facet_history_add(history, &sample));
    sample.time_ns = 4;
    assert_false(facet_history_add(history, &sample));
    assert_int_equal(facet_history_latest(history, read, 3), 2);
    assert_int_equal(read[0].valid, 0); /* the absent value stays absent */
    facet_history_destroy(history);
}

static void test_a_capacity_of_zero_or_above_the_maximum_is_refused(void **state)
{
    struct facet_history *history = NULL;
    struct facet_error error;

    assert_int_equal(facet_history_create(0, &history, &error), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_history_create(FACET_HISTORY_MAX + 1, &history, &error), FACET_OUT_OF_RANGE);
    assert_non_null(strstr(error.message, "1048577"));
    assert_null(history);
    facet_history_destroy(NULL);
}

/* ---- one writer, several readers ---- */

#define WRITES  60000u
#define READERS 3u

struct shared {
    struct facet_history *history;
    atomic_bool done;
    atomic_uint wrong_samples, read_samples;
};

static void judge_samples(struct shared *shared, const struct facet_sample *samples, size_t count, int64_t step)
{
    for (size_t i = 0; i < count; i++)
        if (!is_unmixed(&samples[i]) || (i > 0 && (int64_t)(samples[i].time_ns - samples[i - 1].time_ns) * step <= 0))
            atomic_fetch_add(&shared->wrong_samples, 1);
    atomic_fetch_add(&shared->read_samples, (unsigned)count);
}

static void *read_until_done(void *owner)
{
    struct shared *shared = owner;
    struct facet_sample samples[16];
    uint64_t after = 0;

    while (!atomic_load(&shared->done)) {
        judge_samples(shared, samples, facet_history_latest(shared->history, samples, 16), -1);
        size_t count = facet_history_since(shared->history, after, samples, 16);

        judge_samples(shared, samples, count, 1);
        if (count > 0 && samples[0].time_ns <= after)
            atomic_fetch_add(&shared->wrong_samples, 1);
        after = count > 0 ? samples[count - 1].time_ns : after;
    }
    return NULL;
}

static void test_readers_get_whole_samples(void **state)
{
    struct shared shared = {.history = history_of(8)};
    pthread_t readers[READERS];

    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_until_done, &shared), 0);
    uint64_t number = 0;

    while (number < WRITES || atomic_load(&shared.read_samples) == 0) {
        add_samples(shared.history, number, number + 1);
        number++;
    }
    atomic_store(&shared.done, true);
    for (size_t i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    assert_int_equal(shared.wrong_samples, 0);
    facet_history_destroy(shared.history);
}

/* ---- windows ---- */

static int by_value(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

static void test_summary_is_that_of_sorted_values(void **state)
{
    static struct facet_sample samples[200];
    static uint64_t sorted[200];
    uint64_t seed = 9;

    for (size_t count = 1; count <= 200; count += 7) {
        uint64_t sum = 0;

        for (size_t i = 0; i < count; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            sorted[i] = count % 2 ? seed >> 40 : seed >> 61; /* values far apart, or many equal ones */
            sum += sorted[i];
            samples[i] = (struct facet_sample){.time_ns = i};
            facet_sample_set(&samples[i], FACET_SAMPLE_QUEUED, sorted[i]);
        }
        qsort(sorted, count, sizeof sorted[0], by_value);
        for (uint32_t milli = 0; milli <= 1000; milli += 125) {
            struct facet_summary summary =
                facet_samples_summarize(samples, count, FACET_SAMPLE_QUEUED, 0, NO_END, milli);
            size_t rank = (count * milli + 999) / 1000;

            assert_int_equal(summary.count, count);
            assert_int_equal(summary.min, sorted[0]);
            assert_int_equal(summary.max, sorted[count - 1]);
            assert_int_equal(summary.mean, sum / count);
            assert_int_equal(summary.percentile, sorted[rank > 0 ? rank - 1 : 0]);
        }
    }
}

static void test_a_summary_has_the_measured_samples_of_its_window(void **state)
{
    struct facet_sample samples[6] = {0};

    for (size_t i = 0; i < 6; i++) {
        samples[i].time_ns = 10 * i;
        if (i != 2)
            facet_sample_set(&samples[i], FACET_SAMPLE_MEMORY_BYTES, 100 * i);
    }
    struct facet_summary summary = facet_samples_summarize(samples, 6, FACET_SAMPLE_MEMORY_BYTES, 10, 50, 500);

    assert_int_equal(summary.count, 3); /* 100, 300, 400: 200 is not measured, and 500 is at the window's end */
    assert_int_equal(summary.min, 100);
    assert_int_equal(summary.max, 400);
    assert_int_equal(summary.mean, 266);
    assert_int_equal(summary.percentile, 300);
    summary = facet_samples_summarize(samples, 6, FACET_SAMPLE_QUEUED, 0, NO_END, 500);
    assert_int_equal(summary.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_latest_returns_newest_first),
        cmocka_unit_test(test_samples_after_a_time_are_returned_oldest_first),
        cmocka_unit_test(test_a_sample_that_is_not_newer_is_refused),
        cmocka_unit_test(test_a_capacity_of_zero_or_above_the_maximum_is_refused),
        cmocka_unit_test(test_readers_get_whole_samples),
        cmocka_unit_test(test_summary_is_that_of_sorted_values),
        cmocka_unit_test(test_a_summary_has_the_measured_samples_of_its_window),
    };
    return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
