/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that a budget of device time keeps its bound, and delays no caller longer than needed. Never: sleeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include <facet/limits.h>

#include "../../effort.h"
#include "base/clock.h"
#include "limiter/pace.h"

#define MS UINT64_C(1000000)

static const uint32_t shares[] = {1, 3, 100, 250, 333, 500, 900, 999, 1000};
#define SHARE_COUNT (sizeof shares / sizeof shares[0])

/* Costs from nothing to 67 ms, which is almost seven bursts; most are small. */
static uint64_t random_cost(unsigned *seed)
{
    uint64_t scale = UINT64_C(1) << (rand_r(seed) % 27);

    return (uint64_t)rand_r(seed) % scale % (100 * MS);
}

/* The most device time that may have been taken in `elapsed_ns`: the share, what was saved up, and one cost. */
static uint64_t bound_ns(uint32_t milli, uint64_t elapsed_ns, uint64_t largest_ns)
{
    return elapsed_ns * milli / FACET_MILLI_WHOLE + 1 + FACET_PACE_BURST_NS + largest_ns;
}

static void test_a_budget_never_gives_more_than_its_share(void **state)
{
    for (size_t s = 0; s < SHARE_COUNT; s++) {
        _Atomic uint64_t word = 0;
        unsigned seed = (unsigned)s + 1;
        uint64_t began_ns = 12345 * MS, now_ns = began_ns, taken_ns = 0, largest_ns = 0;

        for (int i = 0; i < (int)effort(100000, 10000); i++) {
            uint64_t cost_ns = random_cost(&seed);

            if (facet_pace_take(&word, shares[s], cost_ns, now_ns) == 0) {
                taken_ns += cost_ns;
                largest_ns = cost_ns > largest_ns ? cost_ns : largest_ns;
            }
            assert_true(taken_ns <= bound_ns(shares[s], now_ns - began_ns, largest_ns));
            now_ns += (uint64_t)rand_r(&seed) % (rand_r(&seed) % 50 ? 10000 : 50 * MS);
        }
    }
}

/* A caller is admitted after the returned wait, and not a nanosecond before. */
static void test_the_returned_wait_is_exact(void **state)
{
    unsigned waits = 0;

    for (size_t s = 0; s < SHARE_COUNT; s++) {
        _Atomic uint64_t word = 0;
        unsigned seed = (unsigned)s + 99;
        uint64_t now_ns = 777 * MS;

        for (int i = 0; i < 20000; i++) {
            uint64_t cost_ns = random_cost(&seed), wait_ns = facet_pace_take(&word, shares[s], cost_ns, now_ns);

            if (!wait_ns)
                continue;
            waits++;
            assert_int_equal(facet_pace_take(&word, shares[s], cost_ns, now_ns + wait_ns - 1), 1);
            now_ns += wait_ns;
            assert_int_equal(facet_pace_take(&word, shares[s], cost_ns, now_ns), 0);
        }
    }
    assert_true(waits > 10000);
}

/* A worker that always wants more gets all of its share, because it pays each debt once. */
static void test_the_whole_share_is_given(void **state)
{
    for (size_t s = 0; s < SHARE_COUNT; s++) {
        _Atomic uint64_t word = 0;
        unsigned seed = 5;
        uint64_t began_ns = 50000 * MS, now_ns = began_ns, taken_ns = 0;

        for (int i = 0; i < 20000; i++) {
            uint64_t cost_ns = random_cost(&seed), wait_ns = facet_pace_take(&word, shares[s], cost_ns, now_ns);

            now_ns += wait_ns;
            if (wait_ns)
                assert_int_equal(facet_pace_take(&word, shares[s], cost_ns, now_ns), 0);
            taken_ns += cost_ns;
        }
        uint64_t share_ns = (now_ns - began_ns) / FACET_MILLI_WHOLE * shares[s];
        assert_true(taken_ns + FACET_PACE_BURST_NS >= share_ns);
    }
}

static void test_remaining_credit_can_be_taken(void **state)
{
    for (size_t s = 0; s < SHARE_COUNT; s++) {
        _Atomic uint64_t word = 0;
        unsigned seed = 11;
        uint64_t now_ns = 1000000 * MS;

        assert_int_equal(facet_pace_left_ns(&word, shares[s], now_ns), FACET_PACE_BURST_NS);
        for (int i = 0; i < 10000; i++) {
            uint64_t left_ns = facet_pace_left_ns(&word, shares[s], now_ns);

            assert_true(left_ns <= FACET_PACE_BURST_NS);
            assert_int_equal(facet_pace_take(&word, shares[s], left_ns ? (uint64_t)rand_r(&seed) % left_ns : 0, now_ns),
                             0);
            assert_int_equal(facet_pace_take(&word, shares[s], facet_pace_left_ns(&word, shares[s], now_ns), now_ns),
                             0);
            now_ns += (uint64_t)rand_r(&seed) % (20 * MS);
        }
    }
}

/* A cost above what can be saved up is admitted by a full budget, and its debt is paid before anything else. */
static void test_large_costs_are_repaid(void **state)
{
    _Atomic uint64_t word = 0;
    const uint64_t now_ns = 1000 * MS;

    assert_int_equal(facet_pace_take(&word, 500, 50 * MS, now_ns), 0);
    assert_int_equal(facet_pace_left_ns(&word, 500, now_ns), 0);
    assert_int_equal(facet_pace_owed_ns(&word, now_ns), 80 * MS); /* 40 ms, at 500 milli */
    assert_int_equal(facet_pace_take(&word, 500, 0, now_ns), 80 * MS);
    assert_int_equal(facet_pace_take(&word, 500, 1 * MS, now_ns), 82 * MS);
    assert_int_equal(facet_pace_take(&word, 500, 50 * MS, now_ns), 100 * MS);
}

static void test_a_charge_after_the_work_is_owed(void **state)
{
    _Atomic uint64_t word = 0;
    const uint64_t now_ns = 1000 * MS;

    facet_pace_charge(&word, 250, 8 * MS, now_ns);
    assert_int_equal(facet_pace_owed_ns(&word, now_ns), 0);
    assert_int_equal(facet_pace_left_ns(&word, 250, now_ns), 2 * MS);
    facet_pace_charge(&word, 250, 8 * MS, now_ns);
    assert_int_equal(facet_pace_owed_ns(&word, now_ns), 24 * MS); /* 6 ms, at 250 milli */
}

static void test_another_share_keeps_debt_and_credit(void **state)
{
    _Atomic uint64_t word = 0;
    const uint64_t now_ns = 100000 * MS;

    facet_pace_charge(&word, 100, 30 * MS, now_ns); /* 10 ms were saved up, so 20 ms are owed */
    assert_int_equal(facet_pace_owed_ns(&word, now_ns), 200 * MS);
    facet_pace_rescale(&word, 100, 1000, now_ns);
    assert_int_equal(facet_pace_owed_ns(&word, now_ns), 20 * MS);
    facet_pace_rescale(&word, 1000, 10, now_ns);
    assert_int_equal(facet_pace_owed_ns(&word, now_ns), 2000 * MS);
    atomic_store(&word, now_ns - 40 * MS);
    facet_pace_rescale(&word, 100, 500, now_ns);
    assert_int_equal(facet_pace_left_ns(&word, 500, now_ns), 4 * MS);
}

/* The word lies in a page that tenants write, and costs come from callers. */
static void test_absurd_values_do_no_harm(void **state)
{
    _Atomic uint64_t word = UINT64_MAX;

    assert_true(facet_pace_take(&word, 500, 1, 5) > UINT64_MAX / 2);
    assert_int_equal(facet_pace_left_ns(&word, 500, 5), 0);
    facet_pace_charge(&word, 500, UINT64_MAX, 5);
    facet_pace_rescale(&word, 1, 1000, 5);
    facet_pace_rescale(&word, 1000, 0, 5);
    word = 0;
    assert_int_equal(facet_pace_take(&word, 0, UINT64_MAX, 100000 * MS), 0);
    assert_int_equal(atomic_load(&word), UINT64_MAX);
    word = 0;
    assert_int_equal(facet_pace_take(&word, 1000, 1, 0), 1); /* the clock's first nanosecond */
}

/* ---- threads on one word, in real time ---- */

struct taker {
    _Atomic uint64_t *word;
    unsigned seed;
    uint64_t until_ns, taken_ns, largest_ns;
};

static void *take_main(void *argument)
{
    struct taker *taker = argument;

    /* The thread takes at least once, however late a busy machine lets it begin. */
    for (uint64_t now_ns = 0; now_ns < taker->until_ns;) {
        uint64_t cost_ns = random_cost(&taker->seed);

        now_ns = facet_clock_now_ns();
        if (facet_pace_take(taker->word, 200, cost_ns, now_ns) == 0) {
            taker->taken_ns += cost_ns;
            taker->largest_ns = cost_ns > taker->largest_ns ? cost_ns : taker->largest_ns;
        }
    }
    return NULL;
}

static void test_threads_share_one_budget(void **state)
{
    _Atomic uint64_t word = 0;
    struct taker takers[8];
    pthread_t threads[8];
    uint64_t began_ns = facet_clock_now_ns(), taken_ns = 0, largest_ns = 0;

    for (unsigned i = 0; i < 8; i++) {
        takers[i] = (struct taker){.word = &word, .seed = i + 1, .until_ns = began_ns + 300 * MS};
        assert_int_equal(pthread_create(&threads[i], NULL, take_main, &takers[i]), 0);
    }
    for (unsigned i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        taken_ns += takers[i].taken_ns;
        largest_ns = takers[i].largest_ns > largest_ns ? takers[i].largest_ns : largest_ns;
    }
    assert_true(taken_ns <= bound_ns(200, facet_clock_now_ns() - began_ns, largest_ns));
    assert_true(taken_ns > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_budget_never_gives_more_than_its_share),
        cmocka_unit_test(test_the_returned_wait_is_exact),
        cmocka_unit_test(test_the_whole_share_is_given),
        cmocka_unit_test(test_remaining_credit_can_be_taken),
        cmocka_unit_test(test_large_costs_are_repaid),
        cmocka_unit_test(test_a_charge_after_the_work_is_owed),
        cmocka_unit_test(test_another_share_keeps_debt_and_credit),
        cmocka_unit_test(test_absurd_values_do_no_harm),
        cmocka_unit_test(test_threads_share_one_budget),
    };
    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
