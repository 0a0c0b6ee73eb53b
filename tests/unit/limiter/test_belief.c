/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of which totals of a segment are believed. Never: opens a segment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "limiter/belief.h"

#define MIB UINT64_C(1048576)
#define MS  UINT64_C(1000000)
#define S   UINT64_C(1000000000)

static struct facet_belief belief;
static uint64_t now_ns;

static uint32_t believe_totals(const struct facet_usage_totals *totals)
{
    now_ns += 100 * MS;
    return facet_belief_check(&belief, totals, 64 * MIB, now_ns);
}

static int setup(void **state)
{
    belief = (struct facet_belief){0};
    now_ns = 1000 * S;
    return 0;
}

static void test_totals_of_real_work_are_believed(void **state)
{
    struct facet_usage_totals totals = {.memory_peak_bytes = 64 * MIB};

    for (int i = 0; i < 1000; i++) {
        assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL);
        totals.memory_bytes = (uint64_t)(i % 65) * MIB;
        totals.launches += 1000000;
        totals.busy_ns += 400 * MS; /* of four processes, 100 ms each */
        totals.throttled_ns += 1000 * 100 * MS;
        totals.denied += 50000;
    }
    totals.busy_ns += 3600 * S; /* a process was stopped for an hour, and so were a thousand threads */
    totals.throttled_ns += 1000 * 3600 * S / 4;
    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL);
}

static void test_an_adopted_segment_is_believed(void **state)
{
    const struct facet_usage_totals totals = {
        .busy_ns = 86400 * S, .launches = 86400 * UINT64_C(100000), .throttled_ns = 864000 * S, .denied = 12345};

    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL);
}

static void test_memory_beyond_the_bound_is_not_believed(void **state)
{
    struct facet_usage_totals totals = {.memory_bytes = 64 * MIB + 1};

    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL & ~FACET_BELIEVED_MEMORY);
    totals.memory_bytes = UINT64_MAX;
    totals.memory_peak_bytes = UINT64_MAX;
    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL & ~(FACET_BELIEVED_MEMORY | FACET_BELIEVED_PEAK));
    totals.memory_bytes = totals.memory_peak_bytes = 1;
    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL);
}

static void test_a_peak_that_fell_or_is_less_than_what_is_held_is_not_believed(void **state)
{
    struct facet_usage_totals totals = {.memory_bytes = 8 * MIB, .memory_peak_bytes = 8 * MIB - 1};

    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL & ~FACET_BELIEVED_PEAK);
    totals.memory_peak_bytes = 9 * MIB;
    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL);
    totals.memory_peak_bytes = 9 * MIB - 1;
    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL & ~FACET_BELIEVED_PEAK);
    totals.memory_peak_bytes = 10 * MIB; /* its true value is lost */
    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL & ~FACET_BELIEVED_PEAK);
    (void)state;
}

static uint64_t *counter_of(struct facet_usage_totals *totals, int index)
{
    uint64_t *const counters[] = {&totals->busy_ns, &totals->launches, &totals->throttled_ns, &totals->denied};

    return counters[index];
}

static void test_counters_that_fall_or_leap_are_not_believed(void **state)
{
    static const uint32_t bits[] = {FACET_BELIEVED_BUSY, FACET_BELIEVED_LAUNCHES, FACET_BELIEVED_THROTTLED,
                                    FACET_BELIEVED_DENIED};
    /* Values that fall below the 100 of the first reading, and values that leap beyond what is possible. */
    static const uint64_t wrong[] = {0, 99, UINT64_MAX, UINT64_MAX / 2 + 1, UINT64_C(1) << 61, UINT64_C(1) << 52};

    for (int i = 0; i < 4; i++)
        for (size_t j = 0; j < sizeof wrong / sizeof wrong[0]; j++) {
            struct facet_usage_totals totals = {.busy_ns = 100, .launches = 100, .throttled_ns = 100, .denied = 100};

            setup(state);
            assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL);
            *counter_of(&totals, i) = wrong[j];
            assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL & ~bits[i]);
            *counter_of(&totals, i) = 100; /* its true value is lost */
            assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL & ~bits[i]);
        }
}

static void test_absurd_totals_of_the_first_reading_are_not_believed(void **state)
{
    const struct facet_usage_totals totals = {.busy_ns = UINT64_MAX, .launches = UINT64_C(1) << 63};

    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL & ~(FACET_BELIEVED_BUSY | FACET_BELIEVED_LAUNCHES));
}

/* A process that was stopped since the vGPU was made reports at most that whole time. */
static void test_no_slot_has_more_than_the_vgpu_is_old(void **state)
{
    struct facet_usage_totals totals = {0};

    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL);
    now_ns += 3600 * S;
    totals.busy_ns = totals.slot_busy_ns = 3600 * S;
    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL);
    totals.busy_ns = 64 * 3600 * S; /* of 64 processes */
    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL);
    totals.busy_ns = totals.slot_busy_ns = 64 * 3600 * S;
    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL & ~FACET_BELIEVED_BUSY);
}

static void test_threads_wait_no_longer_than_the_vgpu_is_old(void **state)
{
    struct facet_usage_totals totals = {0};

    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL);
    totals.throttled_ns = 1000 * 100 * MS;
    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL);
    totals.throttled_ns += UINT64_C(1) << 49;
    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL & ~FACET_BELIEVED_THROTTLED);
}

/* Two threads read the clock in one order and the totals in the opposite order. Damage is still found. */
static void test_damage_is_found_by_readers_that_overtake_each_other(void **state)
{
    struct facet_usage_totals totals = {.launches = 5};

    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL);
    totals.launches = 4;
    now_ns -= 150 * MS;
    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL & ~FACET_BELIEVED_LAUNCHES);
    setup(state);
    totals.throttled_ns = 0;
    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL);
    totals.throttled_ns = UINT64_C(1) << 50;
    now_ns -= 150 * MS;
    assert_int_equal(believe_totals(&totals), FACET_BELIEVED_ALL & ~FACET_BELIEVED_THROTTLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_totals_of_real_work_are_believed, setup),
        cmocka_unit_test_setup(test_an_adopted_segment_is_believed, setup),
        cmocka_unit_test_setup(test_memory_beyond_the_bound_is_not_believed, setup),
        cmocka_unit_test_setup(test_a_peak_that_fell_or_is_less_than_what_is_held_is_not_believed, setup),
        cmocka_unit_test_setup(test_counters_that_fall_or_leap_are_not_believed, setup),
        cmocka_unit_test_setup(test_absurd_totals_of_the_first_reading_are_not_believed, setup),
        cmocka_unit_test_setup(test_no_slot_has_more_than_the_vgpu_is_old, setup),
        cmocka_unit_test_setup(test_threads_wait_no_longer_than_the_vgpu_is_old, setup),
        cmocka_unit_test_setup(test_damage_is_found_by_readers_that_overtake_each_other, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
