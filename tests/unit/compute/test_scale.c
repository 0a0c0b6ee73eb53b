/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the promises of scaling, checked against random demands. Never: uses real time, or random numbers that differ
 * from run to run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "compute/scale.h"

#define MS UINT64_C(1000000)

#define MEMBERS 9u

static uint64_t draw_below(uint64_t *seed, uint64_t below)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed % below;
}

static struct facet_scale_member member_of(uint32_t request, uint32_t limit)
{
    return (struct facet_scale_member){.request_milli = request,
                                       .limit_milli = limit,
                                       .units_least = 1,
                                       .units_most = 8,
                                       .share_milli = request,
                                       .units = 1};
}

static void load_member(struct facet_scale_member *member)
{
    member->queued = 5;
    member->busy_milli = member->share_milli;
}

static void unload_member(struct facet_scale_member *member, uint32_t busy_milli)
{
    member->queued = 0;
    member->delay_ns = 0;
    member->busy_milli = busy_milli;
}

static void run_windows(struct facet_scale_member *members, uint32_t count, int windows)
{
    while (windows-- > 0)
        facet_scale_step(&facet_scale_defaults, members, count);
}

static void test_an_unused_share_is_lent_and_comes_back_at_once(void **state)
{
    struct facet_scale_member members[] = {member_of(400, 900), member_of(600, 1000)};

    load_member(&members[0]);
    unload_member(&members[1], 100);
    run_windows(members, 2, 2);
    assert_int_equal(members[0].share_milli, 400); /* not calm for long enough */
    assert_int_equal(members[1].share_milli, 600);
    run_windows(members, 2, 1);
    assert_int_equal(members[1].share_milli, 500); /* a step at a time */
    assert_int_equal(members[0].share_milli, 500);
    run_windows(members, 2, 20);
    assert_int_equal(members[1].share_milli, 120); /* its use, and headroom */
    assert_int_equal(members[0].share_milli, 880);
    unload_member(&members[1], 0);
    run_windows(members, 2, 20);
    assert_int_equal(members[1].share_milli, 0);
    assert_int_equal(members[0].share_milli, 900); /* its limit */
    members[1].queued = 1;
    run_windows(members, 2, 1);
    assert_int_equal(members[1].share_milli, 600);
    assert_int_equal(members[0].share_milli, 400);
}

static void test_loans_go_by_weight(void **state)
{
    struct facet_scale_member members[] = {member_of(300, 1000), member_of(100, 1000), member_of(0, 1000),
                                           member_of(400, 1000)};

    for (int window = 0; window < 30; window++) {
        load_member(&members[0]);
        load_member(&members[1]);
        load_member(&members[2]);
        unload_member(&members[3], 0);
        run_windows(members, 4, 1);
    }
    /* 600 milli are left, and are lent by weights of 300, 100, and 20, the least weight. */
    assert_in_range(members[0].share_milli, 300 + 600 * 300 / 420 - 2, 300 + 600 * 300 / 420 + 2);
    assert_in_range(members[1].share_milli, 100 + 600 * 100 / 420 - 1, 100 + 600 * 100 / 420 + 1);
    assert_in_range(members[2].share_milli, 600 * 20 / 420 - 1, 600 * 20 / 420 + 1);
    assert_int_equal(members[0].share_milli + members[1].share_milli + members[2].share_milli, 1000);
}

static void test_a_waiting_member_is_pressed_with_hysteresis(void **state)
{
    struct facet_scale_member member = member_of(100, 1000);

    member.busy_milli = 100;
    member.delay_ns = MS;
    run_windows(&member, 1, 1);
    assert_false(member.pressed);
    member.delay_ns = MS + 1;
    run_windows(&member, 1, 1);
    assert_true(member.pressed);
    member.delay_ns = MS / 5 + 1;
    run_windows(&member, 1, 1);
    assert_true(member.pressed);
    member.delay_ns = MS / 5;
    run_windows(&member, 1, 1);
    assert_false(member.pressed);
}

static void test_units_follow_the_load(void **state)
{
    struct facet_scale_config config = facet_scale_defaults;
    struct facet_scale_member members[] = {member_of(500, 1000), member_of(500, 1000)};

    config.device_units = 6;
    load_member(&members[0]);
    facet_scale_step(&config, members, 2);
    assert_int_equal(members[0].units, 3); /* as many as its half of the device can use */
    for (int i = 0; i < 10; i++)
        facet_scale_step(&config, members, 2);
    assert_int_equal(members[0].units, 5); /* all units except the least of the other member */
    load_member(&members[1]);
    for (int i = 0; i < 10; i++)
        facet_scale_step(&config, members, 2);
    assert_int_equal(members[0].units, 3);
    assert_int_equal(members[1].units, 3);
    unload_member(&members[0], 10);
    for (int i = 0; i < 10; i++)
        facet_scale_step(&config, members, 2);
    assert_int_equal(members[0].units, 1);
    assert_int_equal(members[1].units, 5);
    members[0].units_least = members[1].units_least = 4; /* more than the device has: units are time-shared */
    facet_scale_step(&config, members, 2);
    assert_int_equal(members[0].units, 4);
    assert_int_equal(members[1].units, 4);
}

/* Where the provider counts no busy units, a member keeps its units while it uses any. */
static void test_units_without_counters_are_kept_while_used(void **state)
{
    struct facet_scale_member member = member_of(500, 1000);

    load_member(&member);
    run_windows(&member, 1, 20);
    assert_int_equal(member.units, 8);
    unload_member(&member, 10);
    run_windows(&member, 1, 20);
    assert_int_equal(member.units, 8);
    unload_member(&member, 0);
    run_windows(&member, 1, 20);
    assert_int_equal(member.units, 1);
}

/* ---- properties ---- */

static void random_members(struct facet_scale_member *members, uint64_t *seed, bool fits)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        uint32_t request = draw_below(seed, 4) ? (uint32_t)draw_below(seed, fits ? 1000 / MEMBERS : 600) : 0;

        members[i] = member_of(request, request + 1 + (uint32_t)draw_below(seed, 1000 - request));
    }
}

static void random_demand(struct facet_scale_member *member, uint64_t *seed)
{
    unload_member(member, 0);
    switch (draw_below(seed, 4)) {
    case 0:
        load_member(member);
        break;
    case 1:
        member->busy_milli = (uint32_t)draw_below(seed, member->share_milli + 1);
        break;
    case 2:
        member->busy_milli = (uint32_t)draw_below(seed, member->share_milli + 1);
        member->delay_ns = draw_below(seed, 3 * MS);
        break;
    default:
        break;
    }
}

static void assert_promises(const struct facet_scale_config *config, const struct facet_scale_member *before,
                            const struct facet_scale_member *members, bool fits)
{
    uint32_t sum = 0, units = 0;

    for (uint32_t i = 0; i < MEMBERS; i++) {
        const struct facet_scale_member *member = &members[i];
        uint32_t used = before[i].busy_milli < member->request_milli ? before[i].busy_milli : member->request_milli;

        sum += member->share_milli;
        units += member->units;
        assert_true(member->share_milli <= member->limit_milli);
        assert_in_range(member->units, member->units_least, member->units_most);
        if (before[i].share_milli >= member->request_milli) /* it grows by steps */
            assert_true(member->share_milli <= before[i].share_milli + config->step_milli ||
                        member->share_milli <= before[i].busy_milli + config->headroom_milli);
        if (!fits)
            continue;
        if (member->pressed)
            assert_true(member->share_milli >= member->request_milli);
        assert_true(member->share_milli >= used);
        if (!member->pressed && before[i].share_milli <= member->request_milli) /* it falls by steps */
            assert_true(member->share_milli + config->step_milli >= before[i].share_milli);
    }
    assert_true(sum <= 1000);
    assert_true(units <= config->device_units);
}

static void test_promises_under_random_demand(void **state)
{
    struct facet_scale_config config = facet_scale_defaults;
    struct facet_scale_member members[MEMBERS], before[MEMBERS];
    uint64_t seed = 5;

    config.device_units = 16;
    for (int run = 0; run < 400; run++) {
        bool fits = run % 2 == 0;

        random_members(members, &seed, fits);
        for (int window = 0; window < 100; window++) {
            for (uint32_t i = 0; i < MEMBERS; i++)
                if (draw_below(&seed, 3) == 0)
                    random_demand(&members[i], &seed);
            memcpy(before, members, sizeof before);
            facet_scale_step(&config, members, MEMBERS);
            assert_promises(&config, before, members, fits);
        }
    }
}

/* Under a constant demand the shares come to rest, and no share is left that a member could use. */
static void test_shares_under_constant_demand_come_to_rest(void **state)
{
    struct facet_scale_member members[MEMBERS], before[MEMBERS];
    uint64_t seed = 6;

    for (int run = 0; run < 400; run++) {
        uint32_t sum = 0;
        bool short_of = false;

        random_members(members, &seed, run % 2 == 0);
        for (uint32_t i = 0; i < MEMBERS; i++)
            random_demand(&members[i], &seed);
        run_windows(members, MEMBERS, 60);
        memcpy(before, members, sizeof before);
        run_windows(members, MEMBERS, 1);
        for (uint32_t i = 0; i < MEMBERS; i++) {
            assert_int_equal(members[i].share_milli, before[i].share_milli);
            assert_int_equal(members[i].units, before[i].units);
            sum += members[i].share_milli;
            short_of = short_of || (members[i].pressed && members[i].share_milli < members[i].limit_milli);
        }
        if (short_of)
            assert_true(sum + MEMBERS >= 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_unused_share_is_lent_and_comes_back_at_once),
        cmocka_unit_test(test_loans_go_by_weight),
        cmocka_unit_test(test_a_waiting_member_is_pressed_with_hysteresis),
        cmocka_unit_test(test_units_follow_the_load),
        cmocka_unit_test(test_units_without_counters_are_kept_while_used),
        cmocka_unit_test(test_promises_under_random_demand),
        cmocka_unit_test(test_shares_under_constant_demand_come_to_rest),
    };
    return cmocka_run_group_tests_name("scale", tests, NULL, NULL);
}
