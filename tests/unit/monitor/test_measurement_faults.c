/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that a call in which an allocation fails returns an error, changes nothing and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include <facet/measurement.h>

void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static unsigned calls, fail_at; /* the call that fails, counted from 1; 0: none */

static bool call_fails(void)
{
    return ++calls == fail_at;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return call_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return call_fails() ? NULL : __real_realloc(old, size);
}

/* Jansson allocates by functions of its own. */
static void *json_memory(size_t size)
{
    return call_fails() ? NULL : malloc(size);
}

static void arm_failure(unsigned at)
{
    calls = 0;
    fail_at = at;
}

static const struct facet_subject_config config = {
    .size = sizeof config, .kind = FACET_SUBJECT_PROCESS, .points = 4, .id = "7"};

static uint32_t make_measurements(uint64_t time_ns, struct facet_measurement *measurements)
{
    static const char *const keys[] = {"cpu_time", "memory_used", "io_read", "io_write", "threads"};

    for (uint32_t i = 0; i < 5; i++)
        measurements[i] = (struct facet_measurement){
            .size = sizeof *measurements, .meter = facet_meter_find(keys[i]), .value = (int64_t)i, .time_ns = time_ns};
    measurements[1].reason = FACET_UNMEASURED_PERMISSION;
    return 5;
}

static void a_subject_without_memory_is_not_made(void **state)
{
    enum facet_status status = FACET_NO_MEMORY;
    struct facet_error error = {0};
    unsigned tries = 0;

    while (status != FACET_OK) {
        struct facet_subject *subject = NULL;

        arm_failure(++tries);
        status = facet_subject_create(&config, &subject, &error);
        arm_failure(0);
        if (status != FACET_OK) {
            assert_int_equal(status, FACET_NO_MEMORY);
            assert_null(subject);
        }
        facet_subject_destroy(subject);
    }
    assert_true(tries > 1);
}

static void measurements_are_added_all_or_none_without_memory(void **state)
{
    struct facet_measurement measurements[5];
    enum facet_status status = FACET_NO_MEMORY;
    struct facet_subject *subject = NULL;
    struct facet_error error = {0};
    unsigned tries = 0;

    arm_failure(0);
    assert_int_equal(facet_subject_create(&config, &subject, &error), FACET_OK);
    while (status != FACET_OK) {
        uint32_t count = make_measurements(1, measurements);

        arm_failure(++tries);
        status = facet_subject_add(subject, measurements, count, &error);
        arm_failure(0);
        if (status != FACET_OK) {
            assert_int_equal(status, FACET_NO_MEMORY);
            assert_int_equal(facet_subject_meters(subject), 0);
        }
    }
    assert_int_equal(tries, 9); /* eight allocations: five meters, and three that are computed from them */
    assert_int_equal(facet_subject_meters(subject), 8);
    arm_failure(1);
    assert_int_equal(facet_subject_add(subject, measurements, make_measurements(2, measurements), &error),
                     FACET_OK); /* no allocation */
    facet_subject_destroy(subject);
}

typedef enum facet_status (*write_func)(struct facet_subject *const *subjects, size_t count, char **ret_text,
                                        struct facet_error *error);

/* Writes the text again and again, with one allocation more before the one that fails. Returns the number of tries up
 * to that which succeeds. */
static unsigned count_tries_of_writing(write_func write)
{
    struct facet_measurement measurements[5];
    enum facet_status status = FACET_NO_MEMORY;
    struct facet_subject *subjects[2] = {NULL, NULL};
    struct facet_subject_config other = config;
    struct facet_error error = {0};
    unsigned tries = 0;

    arm_failure(0);
    other.id = "8";
    assert_int_equal(facet_subject_create(&config, &subjects[0], &error), FACET_OK);
    assert_int_equal(facet_subject_create(&other, &subjects[1], &error), FACET_OK);
    assert_int_equal(facet_subject_add(subjects[0], measurements, make_measurements(1, measurements), &error),
                     FACET_OK);
    while (status != FACET_OK) {
        char *text = NULL;

        arm_failure(++tries);
        status = write(subjects, 2, &text, &error);
        arm_failure(0);
        if (status != FACET_OK) {
            assert_int_equal(status, FACET_NO_MEMORY);
            assert_null(text);
        }
        free(text);
    }
    facet_subject_destroy(subjects[0]);
    facet_subject_destroy(subjects[1]);
    return tries;
}

static void without_memory_there_is_no_text(void **state)
{
    assert_true(count_tries_of_writing(facet_subjects_json) > 100); /* Jansson allocates each value and key */
    assert_true(count_tries_of_writing(facet_subjects_prometheus) > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_subject_without_memory_is_not_made),
        cmocka_unit_test(measurements_are_added_all_or_none_without_memory),
        cmocka_unit_test(without_memory_there_is_no_text),
    };

    json_set_alloc_funcs(json_memory, free);
    return cmocka_run_group_tests_name("measurement_faults", tests, NULL, NULL);
}
