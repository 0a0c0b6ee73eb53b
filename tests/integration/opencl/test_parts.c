/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tests of the functions of the layer that need no driver: unions of intervals, stops, estimates, and maps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "interpose/kit/busy.h"
#include "interpose/kit/estimate.h"
#include "interpose/kit/stops.h"
#include "objects.h"
#include "process.h"

/* The layer defines the maps' lock in process.c, which needs a driver and is not linked here. */
pthread_mutex_t facet_cl_map_lock = PTHREAD_MUTEX_INITIALIZER;

static void test_overlaps_count_once(void **state)
{
    struct facet_busy busy = {0};

    assert_int_equal(facet_busy_add(&busy, 100, 200), 100);
    assert_int_equal(facet_busy_add(&busy, 100, 200), 0);
    assert_int_equal(facet_busy_add(&busy, 150, 250), 50);
    assert_int_equal(facet_busy_add(&busy, 250, 260), 10);
    assert_int_equal(facet_busy_add(&busy, 300, 300), 0);
    assert_int_equal(facet_busy_add(&busy, 300, 290), 0);
    assert_int_equal(busy.count, 1);
}

static void test_a_long_interval_covers_short_ones(void **state)
{
    struct facet_busy busy = {0};

    assert_int_equal(facet_busy_add(&busy, 50, 51), 1);
    assert_int_equal(facet_busy_add(&busy, 70, 72), 2);
    assert_int_equal(facet_busy_add(&busy, 0, 100), 97);
    assert_int_equal(busy.count, 1);
    assert_int_equal(facet_busy_add(&busy, 0, 100), 0);
}

/* Compares with a bitmap, which is slow and obviously right. After 12 intervals both begin anew, because facet_busy
 * forgets old gaps. */
static void test_busy_time_agrees_with_a_bitmap(void **state)
{
    enum { SPAN = 400 };
    unsigned char covered[SPAN] = {0};
    struct facet_busy busy = {0};

    srand(7);
    for (int round = 0; round < 2000; round++) {
        uint64_t start = (uint64_t)rand() % SPAN, end = start + (uint64_t)rand() % 40, fresh = 0;

        if (end > SPAN)
            end = SPAN;
        for (uint64_t at = start; at < end; at++) {
            fresh += !covered[at];
            covered[at] = 1;
        }
        assert_int_equal(facet_busy_covered(&busy, start, end), end - start - fresh);
        assert_int_equal(facet_busy_add(&busy, start, end), fresh);
        if (round % 12 == 11) {
            memset(covered, 0, sizeof covered);
            busy = (struct facet_busy){0};
        }
    }
}

static void test_old_gaps_are_forgotten(void **state)
{
    struct facet_busy busy = {0};

    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(facet_busy_add(&busy, i * 10, i * 10 + 5), 5);
    assert_true(busy.count <= FACET_BUSY_INTERVALS);
    assert_int_equal(facet_busy_add(&busy, 15, 20), 0);     /* an old gap counts as busy */
    assert_int_equal(facet_busy_add(&busy, 9985, 9990), 5); /* a recent gap does not */
}

static void test_estimates_follow_measurements(void **state)
{
    const int kernel = 0, other = 0;
    uint64_t key = facet_estimate_key(&kernel, 64);

    assert_int_equal(facet_estimate_get(key), 0);
    facet_estimate_learn(key, 1000);
    assert_int_equal(facet_estimate_get(key), 1000);
    facet_estimate_learn(key, 2000);
    assert_int_equal(facet_estimate_get(key), 1250); /* a quarter of the way to the new measurement */
    assert_int_equal(facet_estimate_get(facet_estimate_key(&kernel, 128)), 0);
    assert_int_equal(facet_estimate_get(facet_estimate_key(&other, 64)), 0);
    assert_int_equal(facet_estimate_transfer_key(1 << 20), facet_estimate_transfer_key((1 << 21) - 1));
    assert_int_not_equal(facet_estimate_transfer_key(1 << 20), facet_estimate_transfer_key(1 << 21));
}

static const void *pointer_number(uintptr_t i)
{
    return (const void *)(i * 4096);
}

static void test_maps_return_what_was_put(void **state)
{
    uint64_t value = 0, old = 99; /* 99: no value of the map */

    assert_true(facet_cl_map_empty(FACET_CL_POINTERS));
    assert_false(facet_cl_map_take(FACET_CL_POINTERS, pointer_number(1), &value));
    for (uintptr_t i = 1; i <= 5000; i++)
        assert_true(facet_cl_map_put(FACET_CL_POINTERS, pointer_number(i), i, NULL));
    for (uintptr_t i = 1; i <= 5000; i += 2)
        assert_true(facet_cl_map_take(FACET_CL_POINTERS, pointer_number(i), &value) && value == i);
    for (uintptr_t i = 1; i <= 5000; i++)
        assert_int_equal(facet_cl_map_get(FACET_CL_POINTERS, pointer_number(i), &value), i % 2 == 0);
    assert_true(facet_cl_map_put(FACET_CL_POINTERS, pointer_number(2), 77, &old));
    assert_int_equal(old, 2);
    assert_false(facet_cl_map_get(FACET_CL_PROGRAMS, pointer_number(2), &value)); /* each map has entries of its own */
    for (uintptr_t i = 2; i <= 5000; i += 2)
        assert_true(facet_cl_map_take(FACET_CL_POINTERS, pointer_number(i), &value));
    assert_true(facet_cl_map_empty(FACET_CL_POINTERS));
}

#define MS UINT64_C(1000000)

/* Ticks every 10 ms from `from_ms` to `to_ms`, while a processor is in use all the time. */
static void tick_until(struct facet_stops *stops, uint64_t from_ms, uint64_t to_ms, uint64_t *cpu_ns)
{
    for (uint64_t at = from_ms; at < to_ms; at += 10) {
        facet_stops_tick(stops, at * MS, *cpu_ns);
        *cpu_ns += 10 * MS;
    }
}

/* What is left of an interval without the stops; `pieces` is the expected number of its parts. */
static uint64_t remaining_ms(const struct facet_stops *stops, uint64_t from_ms, uint64_t to_ms, uint32_t pieces)
{
    struct facet_interval left[FACET_STOPS_MOST + 1];
    uint64_t sum = 0;
    uint32_t count = facet_stops_cut(stops, stops->ahead_ns, (struct facet_interval){from_ms * MS, to_ms * MS}, left);

    assert_int_equal(count, pieces);
    for (uint32_t i = 0; i < count; i++)
        sum += left[i].end_ns - left[i].start_ns;
    return sum / MS;
}

static void test_a_stop_is_cut_out(void **state)
{
    struct facet_stops stops = {0};
    uint64_t cpu_ns = 0;

    tick_until(&stops, 1000, 1100, &cpu_ns);
    tick_until(&stops, 6090, 6200, &cpu_ns); /* no tick since 1090, and no processor time */
    assert_int_equal(stops.count, 1);
    assert_int_equal(remaining_ms(&stops, 1050, 6150, 2), 110);
    assert_int_equal(remaining_ms(&stops, 2000, 3000, 0), 0);
    assert_int_equal(remaining_ms(&stops, 6100, 6150, 1), 50);
    assert_int_equal(remaining_ms(&stops, 500, 1100, 1), 600);
}

static void test_a_process_that_worked_was_not_stopped(void **state)
{
    struct facet_stops stops = {0};
    uint64_t cpu_ns = 0;

    tick_until(&stops, 1000, 1100, &cpu_ns);
    cpu_ns += 4000 * MS; /* the process worked; only the ticks were late */
    tick_until(&stops, 6090, 6200, &cpu_ns);
    tick_until(&stops, 6290, 6300, &cpu_ns); /* a tick is 100 ms late, as on a busy machine */
    facet_stops_rest(&stops);
    tick_until(&stops, 9000, 9100, &cpu_ns); /* nothing was in flight, so no tick was expected */
    assert_int_equal(stops.count, 0);
    assert_int_equal(remaining_ms(&stops, 1050, 6150, 1), 5100);
}

/* The device's clock has another origin. It may be read late, so the smallest difference is the exact one. */
static void test_stops_are_cut_out_of_device_times(void **state)
{
    struct facet_stops stops = {0};
    uint64_t cpu_ns = 0;

    tick_until(&stops, 1000, 1100, &cpu_ns);
    tick_until(&stops, 6090, 6200, &cpu_ns);
    facet_stops_learn_clock(&stops, 91000 * MS, 6107 * MS);
    facet_stops_learn_clock(&stops, 91010 * MS, 6110 * MS);
    facet_stops_learn_clock(&stops, 91015 * MS, 6190 * MS);
    assert_int_equal(stops.ahead_ns, -84900 * (int64_t)MS);
    assert_int_equal(remaining_ms(&stops, 85950, 91050, 2), 110);
}

static void test_the_newest_stops_are_kept(void **state)
{
    struct facet_stops stops = {0};
    uint64_t cpu_ns = 0;

    for (uint64_t i = 1; i <= FACET_STOPS_MOST + 3; i++)
        tick_until(&stops, i * 1000, i * 1000 + 500, &cpu_ns);
    assert_int_equal(stops.count, FACET_STOPS_MOST);
    assert_int_equal(stops.intervals[FACET_STOPS_MOST - 1].end_ns, (FACET_STOPS_MOST + 3) * 1000 * MS);
    assert_int_equal(remaining_ms(&stops, 1000, (FACET_STOPS_MOST + 4) * 1000, FACET_STOPS_MOST + 1),
                     (FACET_STOPS_MOST + 3) * 1000 - FACET_STOPS_MOST * 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stop_is_cut_out),
        cmocka_unit_test(test_a_process_that_worked_was_not_stopped),
        cmocka_unit_test(test_stops_are_cut_out_of_device_times),
        cmocka_unit_test(test_the_newest_stops_are_kept),
        cmocka_unit_test(test_overlaps_count_once),
        cmocka_unit_test(test_a_long_interval_covers_short_ones),
        cmocka_unit_test(test_busy_time_agrees_with_a_bitmap),
        cmocka_unit_test(test_old_gaps_are_forgotten),
        cmocka_unit_test(test_estimates_follow_measurements),
        cmocka_unit_test(test_maps_return_what_was_put),
    };

    return cmocka_run_group_tests_name("parts", tests, NULL, NULL);
}
