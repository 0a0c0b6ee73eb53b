/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of where new work goes, by strategy. Never: uses real time, or random numbers that differ from run to
 * run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "compute/balance.h"

#define MS  UINT64_C(1000000)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

#define MEMBERS 6u

static uint64_t draw_below(uint64_t *seed, uint64_t below)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed % below;
}

static struct facet_balance balance_of(enum facet_balance_strategy strategy)
{
    struct facet_balance_config config = facet_balance_defaults;
    struct facet_balance balance;

    config.strategy = strategy;
    facet_balance_init(&balance, &config);
    return balance;
}

static struct facet_balance_member member_of(uint64_t queued_ns)
{
    return (struct facet_balance_member){
        .queued_ns = queued_ns, .weight = 1, .units = 1, .share_milli = 1000, .limit_milli = 1000};
}

static const struct facet_balance_work plain_work = {.expected_ns = MS};

static void test_least_loaded_counts_the_units_behind_a_queue(void **state)
{
    struct facet_balance balance = balance_of(FACET_BALANCE_LEAST_LOADED);
    struct facet_balance_member members[] = {member_of(3 * MS), member_of(8 * MS), member_of(2 * MS)};

    assert_int_equal(facet_balance_choose(&balance, members, 3, &plain_work), 2);
    members[1].units = 8; /* 1 ms */
    assert_int_equal(facet_balance_wait_ns(&members[1]), MS);
    assert_int_equal(facet_balance_choose(&balance, members, 3, &plain_work), 1);
    members[1].share_milli = 250; /* 4 ms */
    assert_int_equal(facet_balance_wait_ns(&members[1]), 4 * MS);
    assert_int_equal(facet_balance_choose(&balance, members, 3, &plain_work), 2);
    members[0].queued_ns = 2 * MS;
    members[0].active_kernels = members[2].active_kernels = 3;
    members[2].memory_milli = 10;
    assert_int_equal(facet_balance_choose(&balance, members, 3, &plain_work), 0); /* less memory */
    members[0].active_kernels = 4;
    assert_int_equal(facet_balance_choose(&balance, members, 3, &plain_work), 2); /* fewer kernels */
}

static void test_a_member_that_cannot_run_the_work_is_not_chosen(void **state)
{
    for (unsigned strategy = 0; strategy < 4; strategy++) {
        struct facet_balance balance = balance_of((enum facet_balance_strategy)strategy);
        struct facet_balance_member members[MEMBERS];

        for (size_t i = 0; i < MEMBERS; i++)
            members[i] = member_of(0);
        members[4].queued_ns = 100 * MS;
        members[0].paused = members[1].lost = true;
        members[2].units = 0;
        members[3].queue_length = members[3].queue_max = 7;
        members[5] = members[3];
        for (int again = 0; again < 3; again++)
            assert_int_equal(facet_balance_choose(&balance, members, MEMBERS, &plain_work), 4);
        members[4].paused = true;
        assert_int_equal(facet_balance_choose(&balance, members, MEMBERS, &plain_work), FACET_BALANCE_NONE);
        assert_int_equal(facet_balance_choose(&balance, members, 0, &plain_work), FACET_BALANCE_NONE);
    }
}

static void test_round_robin_goes_around(void **state)
{
    struct facet_balance balance = balance_of(FACET_BALANCE_ROUND_ROBIN);
    struct facet_balance_member members[] = {member_of(9 * MS), member_of(0), member_of(MS), member_of(0)};
    static const int expected[] = {0, 1, 3, 0, 1, 2, 3, 0};

    members[2].paused = true;
    for (size_t i = 0; i < 8; i++) {
        members[2].paused = i < 4;
        assert_int_equal(facet_balance_choose(&balance, members, 4, &plain_work), expected[i]);
    }
}

/* After every choice each member has had less than one work more or less than its weight says. */
static void test_weighted_is_exact_over_any_window(void **state)
{
    uint64_t seed = 77;

    for (int run = 0; run < 300; run++) {
        struct facet_balance balance = balance_of(FACET_BALANCE_WEIGHTED);
        struct facet_balance_member members[MEMBERS];
        int64_t chosen_count[MEMBERS] = {0}, weights = 0;

        for (size_t i = 0; i < MEMBERS; i++) {
            members[i] = member_of(0);
            members[i].weight = (uint32_t)draw_below(&seed, run % 2 ? 8 : 1000) + (i == 0);
            weights += members[i].weight;
        }
        for (int64_t turn = 1; turn <= 400; turn++) {
            chosen_count[facet_balance_choose(&balance, members, MEMBERS, &plain_work)]++;
            for (size_t i = 0; i < MEMBERS; i++) {
                int64_t ahead = chosen_count[i] * weights - turn * members[i].weight;

                assert_true(ahead > -weights && ahead < weights);
            }
        }
    }
}

/* A member that is paused saves up no turns and loses none, and hardly changes how the other members share. */
static void test_weighted_with_members_that_come_and_go(void **state)
{
    struct facet_balance balance = balance_of(FACET_BALANCE_WEIGHTED);
    struct facet_balance_member members[] = {member_of(0), member_of(0), member_of(0)};
    int chosen_count[3] = {0};

    members[0].weight = 300;
    members[1].weight = 100;
    members[2].weight = 100;
    for (int turn = 0; turn < 4000; turn++) {
        members[2].paused = turn % 3 != 0;
        chosen_count[facet_balance_choose(&balance, members, 3, &plain_work)]++;
    }
    assert_in_range(chosen_count[0], 3 * chosen_count[1] - chosen_count[1] / 4,
                    3 * chosen_count[1] + chosen_count[1] / 4);
    assert_in_range(chosen_count[2], 4000 / 3 / 5 - 2,
                    4000 / 3 / 5 + 2); /* a fifth of the turns at which it was not paused */
    members[2].paused = false;
    chosen_count[2] = 0;
    for (int turn = 0; turn < 5; turn++)
        chosen_count[2] += facet_balance_choose(&balance, members, 3, &plain_work) == 2;
    assert_in_range(chosen_count[2], 0, 2);
}

/* A credit that the caller left in a member that was replaced harms no other member. */
static void test_weighted_ignores_credit_of_a_replaced_member(void **state)
{
    struct facet_balance balance = balance_of(FACET_BALANCE_WEIGHTED);
    struct facet_balance_member members[] = {member_of(0), member_of(0)};
    int chosen_count[2] = {0};

    members[0].credit = -1000000;
    members[1].credit = -999999;
    for (int turn = 0; turn < 100; turn++)
        chosen_count[facet_balance_choose(&balance, members, 2, &plain_work)]++;
    assert_in_range(chosen_count[0], 49, 51);
}

static void test_locality_weighs_copy_time_against_waiting_time(void **state)
{
    struct facet_balance balance = balance_of(FACET_BALANCE_LOCALITY);
    struct facet_balance_member members[] = {member_of(0), member_of(40 * MS), member_of(0)};
    const uint64_t bytes_on[] = {16 * MIB, 512 * MIB, 0};
    const struct facet_balance_work work = {.expected_ns = MS, .bytes_on = bytes_on};

    /* While the time of a copy is unknown, the member that holds most bytes is chosen. */
    assert_int_equal(facet_balance_choose(&balance, members, 3, &work), 1);
    balance.config.bytes_per_s = 10 * GIB; /* 512 MiB: 50 ms; 16 MiB: 1.6 ms */
    assert_int_equal(facet_balance_transfer_ns(&balance, &work, 3, 0), 50 * MS);
    assert_int_equal(facet_balance_choose(&balance, members, 3, &work), 1);
    members[1].queued_ns = 60 * MS;
    assert_int_equal(facet_balance_choose(&balance, members, 3, &work), 0);

    const uint64_t pairs[] = {0, 0, 0, 10 * GIB, 0, 100 * GIB, 0, 0, 0}; /* the link from 1 to 2 is fast */

    balance.config.pair_bytes_per_s = pairs;
    assert_int_equal(facet_balance_choose(&balance, members, 3, &work), 2);
    assert_int_equal(facet_balance_choose(&balance, members, 3, &plain_work), 0); /* no arguments: least wait */
}

static void test_times_that_overflow_count_as_forever(void **state)
{
    struct facet_balance balance = balance_of(FACET_BALANCE_LOCALITY);
    struct facet_balance_member members[] = {member_of(UINT64_MAX), member_of(UINT64_MAX)};
    const uint64_t bytes_on[] = {UINT64_MAX, 1};
    const struct facet_balance_work work = {.bytes_on = bytes_on};

    balance.config.bytes_per_s = 1;
    members[0].share_milli = members[0].request_milli = 0;
    assert_true(facet_balance_wait_ns(&members[0]) == FACET_BALANCE_NEVER);
    assert_true(facet_balance_transfer_ns(&balance, &work, 2, 1) == FACET_BALANCE_NEVER);
    assert_int_equal(facet_balance_choose(&balance, members, 2, &work), 0);
}

static void test_strategies_are_found_by_name(void **state)
{
    static const char *const names[] = {"least_loaded", "round_robin", "weighted", "locality"};
    enum facet_balance_strategy strategy = FACET_BALANCE_LOCALITY;

    for (size_t i = 0; i < 4; i++) {
        assert_true(facet_balance_strategy_find(names[i], &strategy));
        assert_int_equal(strategy, i);
        assert_string_equal(facet_balance_strategy_name(strategy), names[i]);
    }
    assert_false(facet_balance_strategy_find("lottery", &strategy));
    assert_int_equal(strategy, FACET_BALANCE_LOCALITY);
    assert_null(facet_balance_strategy_name((enum facet_balance_strategy)4));
    assert_string_equal(facet_balance_kind_name(FACET_BALANCE_PREEMPT), "preempt");
    assert_null(facet_balance_kind_name((enum facet_balance_kind)4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least_loaded_counts_the_units_behind_a_queue),
        cmocka_unit_test(test_a_member_that_cannot_run_the_work_is_not_chosen),
        cmocka_unit_test(test_round_robin_goes_around),
        cmocka_unit_test(test_weighted_is_exact_over_any_window),
        cmocka_unit_test(test_weighted_with_members_that_come_and_go),
        cmocka_unit_test(test_weighted_ignores_credit_of_a_replaced_member),
        cmocka_unit_test(test_locality_weighs_copy_time_against_waiting_time),
        cmocka_unit_test(test_times_that_overflow_count_as_forever),
        cmocka_unit_test(test_strategies_are_found_by_name),
    };
    return cmocka_run_group_tests_name("balance", tests, NULL, NULL);
}
