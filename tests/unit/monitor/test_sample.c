/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about the measures computed from two samples, and about samples from which a measure cannot be computed.
 * Never: uses real time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "monitor/sample.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

static struct facet_sample full_sample(uint64_t time_ns)
{
    struct facet_sample sample = {.time_ns = time_ns};

    for (unsigned i = 0; i < FACET_SAMPLE_FIELDS; i++)
        facet_sample_set(&sample, (enum facet_sample_field)i, 0);
    return sample;
}

static uint64_t measure_between(const struct facet_sample *previous, const struct facet_sample *sample,
                                enum facet_measure measure)
{
    uint64_t value = 0;

    assert_true(facet_sample_measure(previous, sample, measure, 4096, &value)); /* a memory quota of 4096 bytes */
    return value;
}

static void test_measures_are_computed_from_two_samples(void **state)
{
    struct facet_sample first = full_sample(S), second = full_sample(S + 500 * MS);

    first.values[FACET_SAMPLE_BUSY_NS] = 7;
    second.values[FACET_SAMPLE_BUSY_NS] = 7 + 200 * MS;
    second.values[FACET_SAMPLE_MEMORY_BYTES] = 1024;
    second.values[FACET_SAMPLE_LAUNCHES] = 30;
    second.values[FACET_SAMPLE_COMPLETED] = 20;
    second.values[FACET_SAMPLE_QUEUED] = 6;
    second.values[FACET_SAMPLE_RUNNING] = 4;
    second.values[FACET_SAMPLE_QUEUE_NS] = 24 * MS;
    assert_int_equal(measure_between(&first, &second, FACET_MEASURE_UTILIZATION_MILLI), 400);
    assert_int_equal(measure_between(&first, &second, FACET_MEASURE_MEMORY_MILLI), 250);
    assert_int_equal(measure_between(&first, &second, FACET_MEASURE_QUEUE_DELAY_NS),
                     24 * MS / 20); /* the mean of the 20 that completed */
    assert_int_equal(measure_between(&first, &second, FACET_MEASURE_LAUNCHES_MILLI), 60000);
    assert_int_equal(measure_between(&first, &second, FACET_MEASURE_COMPLETED_MILLI), 40000);
    assert_int_equal(measure_between(NULL, &second, FACET_MEASURE_MEMORY_BYTES), 1024);
    assert_int_equal(measure_between(NULL, &second, FACET_MEASURE_QUEUED), 6);
    assert_int_equal(measure_between(NULL, &second, FACET_MEASURE_RUNNING), 4);
}

/* A measure is absent when one of the fields that it needs is absent. */
static void test_a_measure_with_an_absent_field_is_absent(void **state)
{
    static const struct {
        enum facet_measure measure;
        uint32_t needs; /* fields, as bits */
    } rows[] = {
        {FACET_MEASURE_UTILIZATION_MILLI, 1u << FACET_SAMPLE_BUSY_NS},
        {FACET_MEASURE_MEMORY_MILLI, 1u << FACET_SAMPLE_MEMORY_BYTES},
        {FACET_MEASURE_QUEUE_DELAY_NS, 1u << FACET_SAMPLE_QUEUE_NS | 1u << FACET_SAMPLE_COMPLETED},
        {FACET_MEASURE_LAUNCHES_MILLI, 1u << FACET_SAMPLE_LAUNCHES},
        {FACET_MEASURE_COMPLETED_MILLI, 1u << FACET_SAMPLE_COMPLETED},
        {FACET_MEASURE_MEMORY_BYTES, 1u << FACET_SAMPLE_MEMORY_BYTES},
        {FACET_MEASURE_QUEUED, 1u << FACET_SAMPLE_QUEUED},
        {FACET_MEASURE_RUNNING, 1u << FACET_SAMPLE_RUNNING},
    };

    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        for (unsigned field = 0; field < FACET_SAMPLE_FIELDS; field++) {
            struct facet_sample first = full_sample(S), second = full_sample(2 * S);
            uint64_t value = 77;

            second.values[FACET_SAMPLE_COMPLETED] = 1;
            second.valid &= ~(1u << field);
            bool measured = facet_sample_measure(&first, &second, rows[row].measure, 1, &value);

            assert_int_equal(measured, !(rows[row].needs & 1u << field));
            assert_int_equal(value == 77, !measured);
        }
    }
}

static void test_measures_of_impossible_samples_are_absent(void **state)
{
    struct facet_sample first = full_sample(S), second = full_sample(2 * S);
    uint64_t value = 77;

    assert_false(facet_sample_measure(NULL, &second, FACET_MEASURE_UTILIZATION_MILLI, 1, &value));
    assert_false(facet_sample_measure(&second, &first, FACET_MEASURE_UTILIZATION_MILLI, 1, &value));
    assert_false(facet_sample_measure(&first, &second, FACET_MEASURE_MEMORY_MILLI, 0, &value));
    assert_false(facet_sample_measure(&first, &second, FACET_MEASURE_QUEUE_DELAY_NS, 1, &value)); /* none completed */
    first.values[FACET_SAMPLE_BUSY_NS] = 1;                                                       /* busy_ns fell */
    assert_false(facet_sample_measure(&first, &second, FACET_MEASURE_UTILIZATION_MILLI, 1, &value));
    assert_int_equal(value, 77);
    first.values[FACET_SAMPLE_BUSY_NS] = 0;
    second.values[FACET_SAMPLE_BUSY_NS] = UINT64_MAX;
    assert_true(facet_sample_measure(&first, &second, FACET_MEASURE_UTILIZATION_MILLI, 1, &value));
    assert_true(value == UINT64_MAX / (S / 1000));
}

static void test_fields_and_measures_are_found_by_name(void **state)
{
    enum facet_sample_field field;
    enum facet_measure measured;

    for (unsigned i = 0; i < FACET_SAMPLE_FIELDS; i++) {
        assert_true(facet_sample_field_find(facet_sample_field_name((enum facet_sample_field)i), &field));
        assert_int_equal(field, i);
    }
    for (unsigned i = 0; i < 8; i++) { /* all measures */
        assert_true(facet_measure_find(facet_measure_name((enum facet_measure)i), &measured));
        assert_int_equal(measured, i);
    }
    assert_null(facet_sample_field_name((enum facet_sample_field)FACET_SAMPLE_FIELDS));
    assert_null(facet_measure_name((enum facet_measure)8));
    assert_false(facet_measure_find("charm", &measured));
    assert_false(facet_sample_field_find("charm", &field));
    assert_true(facet_sample_field_is_counter(FACET_SAMPLE_QUEUE_NS) &&
                !facet_sample_field_is_counter(FACET_SAMPLE_QUEUED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measures_are_computed_from_two_samples),
        cmocka_unit_test(test_a_measure_with_an_absent_field_is_absent),
        cmocka_unit_test(test_measures_of_impossible_samples_are_absent),
        cmocka_unit_test(test_fields_and_measures_are_found_by_name),
    };
    return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
