/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the actions of rebalancing, that it converges, and that it is as good as an exhaustive search on
 * small cases. Never: uses real time, or random numbers that differ from run to run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../../effort.h"
#include "compute/balance.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

#define MEMBERS 12u
#define WORKS   60u
#define ACTIONS 32u

static uint64_t draw_below(uint64_t *seed, uint64_t below)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return below > 0 ? *seed % below : 0;
}

struct world {
    struct facet_balance balance;
    struct facet_balance_member members[MEMBERS];
    struct facet_balance_work works[WORKS];
    struct facet_balance_action actions[ACTIONS];
    uint32_t count, work_count, action_count;
    uint64_t now_ns;
};

static void world_init(struct world *world, uint32_t members)
{
    *world = (struct world){.count = members, .now_ns = S};
    facet_balance_init(&world->balance, &facet_balance_defaults);
    for (uint32_t i = 0; i < members; i++)
        world->members[i] = (struct facet_balance_member){
            .device = i,
            .idle_ns = S,
            .units = 1,
            .units_least = 1,
            .units_most = 1,
            .share_milli = 1000,
            .request_milli = 1000,
            .limit_milli = 1000,
        };
}

static struct facet_balance_work *world_work(struct world *world, int member, uint64_t expected_ns)
{
    struct facet_balance_work *work = &world->works[world->work_count];

    *work = (struct facet_balance_work){
        .id = 100 + world->work_count,
        .expected_ns = expected_ns,
        .priority = FACET_PRIORITY_NORMAL,
        .member = member,
        .previous_member = FACET_BALANCE_NONE,
    };
    world->work_count++;
    world->members[member].queued_ns += expected_ns;
    world->members[member].queue_length++;
    world->members[member].idle_ns = 0;
    return work;
}

static uint64_t longest_wait_ns(const struct world *world)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < world->count; i++) {
        uint64_t wait = facet_balance_wait_ns(&world->members[i]);

        most = wait > most ? wait : most;
    }
    return most;
}

static uint64_t world_imbalance(const struct world *world)
{
    return facet_balance_imbalance_milli(world->members, world->count);
}

static uint32_t rebalance_world(struct world *world)
{
    world->now_ns += world->balance.config.interval_ns;
    world->action_count = facet_balance_rebalance(&world->balance, world->now_ns, world->members, world->count,
                                                  world->works, world->work_count, world->actions, ACTIONS);
    return world->action_count;
}

static const struct facet_balance_action *action_of(const struct world *world, enum facet_balance_kind kind, int member)
{
    for (uint32_t i = 0; i < world->action_count; i++)
        if (world->actions[i].kind == kind && world->actions[i].member == member)
            return &world->actions[i];
    return NULL;
}

/* ---- each action ---- */

static void test_no_action_below_the_threshold(void **state)
{
    struct world world;

    world_init(&world, 2);
    for (int i = 0; i < 11; i++)
        world_work(&world, 0, 10 * MS);
    for (int i = 0; i < 9; i++)
        world_work(&world, 1, 10 * MS);
    assert_int_equal(world_imbalance(&world), 100);
    assert_int_equal(rebalance_world(&world), 0);
    world_work(&world, 0, 80 * MS);
    assert_true(world_imbalance(&world) > 200);
    assert_true(rebalance_world(&world) > 0);
    assert_true(world_imbalance(&world) <= 100);
}

static void test_rebalancing_waits_for_its_interval(void **state)
{
    struct world world;

    world_init(&world, 2);
    assert_int_equal(rebalance_world(&world), 0);
    world_work(&world, 0, 50 * MS);
    world_work(&world, 0, 50 * MS);
    world.now_ns -= world.balance.config.interval_ns; /* the next rebalancing is not due */
    assert_int_equal(rebalance_world(&world), 0);
    assert_int_equal(rebalance_world(&world), 1);
    assert_int_equal(world.actions[0].kind, FACET_BALANCE_MIGRATE);
    assert_int_equal(world.actions[0].gain_ns, 50 * MS);
}

static void test_a_move_must_gain_more_than_it_costs(void **state)
{
    struct world world;

    for (uint64_t rate = 1; rate <= 2; rate++) {
        world_init(&world, 2);
        const uint64_t bytes_on[] = {10 * rate * 1000, 0};

        world.balance.config.bytes_per_s = 1000 * 1000; /* 10 ms, or 20 ms */
        for (int i = 0; i < 2; i++)
            world_work(&world, 0, 15 * MS)->bytes_on = bytes_on;
        assert_int_equal(rebalance_world(&world), rate == 1 ? 1 : 0);
    }
    world_init(&world, 2);
    for (int i = 0; i < 2; i++)
        world_work(&world, 0, 15 * MS)->running = true; /* running work cannot be moved */
    assert_int_equal(rebalance_world(&world), 0);
}

/* There are too many members for a search, and no single move helps. Swapping a large work for a small one does. */
static void test_works_are_swapped(void **state)
{
    struct world world;

    world_init(&world, 9);
    for (int i = 0; i < 9; i++) {
        world.members[i].queued_ns = (i == 0 ? 40 : 20) * MS;
        world_work(&world, i, (i == 0 ? 60 : 30) * MS);
    }
    assert_true(world_imbalance(&world) > 200);
    assert_int_equal(rebalance_world(&world), 2);
    assert_int_equal(world.actions[0].work, 100);
    assert_int_equal(world.actions[0].to, world.actions[1].member);
    assert_int_equal(world.actions[1].to, 0);
    assert_int_equal(world.actions[1].gain_ns, 20 * MS);
    assert_int_equal(longest_wait_ns(&world), 80 * MS);
}

static void test_works_leave_a_lost_member(void **state)
{
    struct world world;

    world_init(&world, 3);
    struct facet_balance_work *work = world_work(&world, 1, MS);

    work->moves = 99;
    world.members[0].paused = world.members[1].lost = true;
    assert_int_equal(rebalance_world(&world), 1);
    assert_int_equal(world.actions[0].member, 1);
    assert_int_equal(world.actions[0].to, 2);
    assert_true(world.actions[0].gain_ns == FACET_BALANCE_NEVER);
    assert_int_equal(work->member, 2);
    assert_int_equal(rebalance_world(&world), 0);
}

static void test_idle_share_is_lent_and_given_back(void **state)
{
    struct world world;

    world_init(&world, 3);
    for (uint32_t i = 0; i < 3; i++) {
        world.members[i].device = 0;
        world.members[i].share_milli = world.members[i].request_milli = 300;
    }
    world.members[0].limit_milli = 800;
    world.members[2].idle_ns = 0; /* only just idle: lends nothing yet */
    struct facet_balance_work *work = world_work(&world, 0, 100 * MS);

    work->running = true;
    world.members[0].active_kernels = 1;
    assert_true(rebalance_world(&world) >= 2);
    assert_int_equal(world.members[0].share_milli, 700); /* its 300, 100 that no member has, 300 of an idle member */
    assert_int_equal(world.members[1].share_milli, 0);
    assert_int_equal(world.members[2].share_milli, 300);
    assert_int_equal(world.actions[world.action_count - 1].member, 0); /* the donor first */
    assert_int_equal(rebalance_world(&world), 0);
    world.members[2].idle_ns = S;
    assert_true(rebalance_world(&world) > 0);
    assert_int_equal(world.members[0].share_milli, 800); /* its limit */

    world_work(&world, 1, MS)->running = true;
    world_work(&world, 2, MS)->running = true;
    assert_true(rebalance_world(&world) > 0);
    assert_int_equal(world.members[0].share_milli, 400);
    assert_int_equal(world.members[1].share_milli, 300);
    assert_int_equal(world.members[2].share_milli, 300);
    assert_true(action_of(&world, FACET_BALANCE_ADJUST_SHARE, 1)->gain_ns == FACET_BALANCE_NEVER);
    assert_int_equal(rebalance_world(&world), 0);
}

static void test_units_follow_demand(void **state)
{
    struct world world;

    world_init(&world, 2);
    world.members[0].units_least = 2;
    world.members[0].units = 2;
    world.members[0].units_most = 8;
    world_work(&world, 0, 160 * MS)->running = true;
    world_work(&world, 1, 30 * MS)->running = true;
    assert_int_equal(rebalance_world(&world), 1); /* 80 ms of queued work against 30 ms */
    assert_int_equal(action_of(&world, FACET_BALANCE_SCALE_UNITS, 0)->units, world.members[0].units);
    assert_in_range(world.members[0].units, 3, 8);
    world.members[0].queued_ns = 0;
    assert_int_equal(rebalance_world(&world), 0); /* not yet idle for long */
    world.members[0].idle_ns = S;
    assert_int_equal(rebalance_world(&world), 1);
    assert_int_equal(world.members[0].units, 2);
    assert_int_equal(rebalance_world(&world), 0);
}

static void test_preemption_lets_higher_priority_in(void **state)
{
    struct world world;

    world_init(&world, 1);
    struct facet_balance_work *running = world_work(&world, 0, 50 * MS), *waiting = world_work(&world, 0, MS);

    running->running = true;
    world.members[0].active_kernels = 1;
    waiting->priority = FACET_PRIORITY_HIGH;
    assert_int_equal(rebalance_world(&world), 0); /* preemption is off */
    world.balance.config.preemption = true;
    world.members[0].units = 2;
    assert_int_equal(rebalance_world(&world), 0); /* a unit is free */
    world.members[0].units = 1;
    assert_int_equal(rebalance_world(&world), 1);
    assert_int_equal(world.actions[0].kind, FACET_BALANCE_PREEMPT);
    assert_int_equal(world.actions[0].work, running->id);
    assert_int_equal(world.actions[0].waiting, waiting->id);
    assert_int_equal(rebalance_world(&world), 0); /* the work of higher priority runs already */
    running->running = true;
    waiting->running = false;
    waiting->priority = FACET_PRIORITY_NORMAL;
    assert_int_equal(rebalance_world(&world), 0); /* among equals no work is preempted */
}

/* ---- convergence ---- */

/* The shares of the members on a device never sum up to more than the whole device. */
static void assert_shares(const struct world *world)
{
    for (uint32_t device = 0; device < world->count; device++) {
        uint32_t sum = 0;

        for (uint32_t i = 0; i < world->count; i++)
            sum += world->members[i].device == device ? world->members[i].share_milli : 0;
        assert_true(sum <= 1000);
    }
}

static void random_world(struct world *world, uint64_t *seed)
{
    world_init(world, 2 + (uint32_t)draw_below(seed, MEMBERS - 1));
    for (uint32_t i = 0; i < world->count; i++) {
        struct facet_balance_member *member = &world->members[i];

        member->device = i / 2;
        member->share_milli = member->request_milli = 100 + (uint32_t)draw_below(seed, 400);
        member->limit_milli = member->request_milli + (uint32_t)draw_below(seed, 500);
        member->units = 1 + (uint32_t)draw_below(seed, 4);
        member->units_most = member->units + (uint32_t)draw_below(seed, 4);
    }
    for (uint64_t works = draw_below(seed, WORKS); works > 0; works--) {
        int member = (int)draw_below(seed, draw_below(seed, 2) ? world->count : 2);

        world_work(world, member, draw_below(seed, 50 * MS))->running = draw_below(seed, 8) == 0;
    }
}

/* Notes which members each work has been on, and asserts that it returns to none. The works' ids begin at 100. */
static void follow_works(const struct world *world, bool visited[WORKS][MEMBERS])
{
    for (uint32_t i = 0; i < world->action_count; i++) {
        const struct facet_balance_action *action = &world->actions[i];

        assert_true(action->gain_ns > action->cost_ns || action->kind == FACET_BALANCE_SCALE_UNITS);
        if (action->kind != FACET_BALANCE_MIGRATE)
            continue;
        assert_false(visited[action->work - 100][action->to]);
        visited[action->work - 100][action->member] = true;
        visited[action->work - 100][action->to] = true;
    }
}

static void test_actions_under_random_loads_come_to_an_end(void **state)
{
    static bool visited[WORKS][MEMBERS];
    static struct world world;
    uint64_t seed = effort_seed(4711);
    unsigned moved = 0;

    for (int run = 0; run < (int)effort(1000, 200); run++) {
        memset(visited, 0, sizeof visited);
        random_world(&world, &seed);
        int rounds = 0;

        for (uint64_t before = longest_wait_ns(&world); rebalance_world(&world) > 0; before = longest_wait_ns(&world)) {
            follow_works(&world, visited);
            assert_shares(&world);
            assert_true(longest_wait_ns(&world) <= before);
            assert_true(++rounds < 40);
            moved += world.action_count;
        }
        for (uint32_t i = 0; i < world.work_count; i++)
            assert_true(world.works[i].moves <= world.balance.config.moves_max);
    }
    assert_true(moved > effort(1000, 200));
}

/* While loads change all the time, works do not move back and forth with them. */
static void test_changing_loads_do_not_move_works_back_and_forth(void **state)
{
    static struct world world;
    uint64_t seed = effort_seed(815);

    for (int run = 0; run < 100; run++) {
        random_world(&world, &seed);
        for (int round = 0; round < 50; round++) {
            static bool visited[WORKS][MEMBERS];

            rebalance_world(&world);
            memset(visited, 0, sizeof visited);
            follow_works(&world, visited);
            for (uint32_t i = 0; i < world.count; i++)
                world.members[i].queued_ns += draw_below(&seed, 20 * MS);
        }
        for (uint32_t i = 0; i < world.work_count; i++)
            assert_true(world.works[i].moves <= world.balance.config.moves_max);
    }
}

/* ---- against an exhaustive search ---- */

struct best {
    uint64_t imbalance_milli; /* the least imbalance of all distributions */
    uint64_t longest_wait_ns; /* of the distributions below the threshold, the least longest wait */
};

static void try_all_places(struct world *world, uint32_t index, struct best *best)
{
    if (index == world->work_count) {
        uint64_t milli = world_imbalance(world);

        best->imbalance_milli = milli < best->imbalance_milli ? milli : best->imbalance_milli;
        if (milli <= world->balance.config.threshold_milli && longest_wait_ns(world) < best->longest_wait_ns)
            best->longest_wait_ns = longest_wait_ns(world);
        return;
    }
    for (uint32_t to = 0; to < world->count; to++) {
        world->members[to].queued_ns += world->works[index].expected_ns;
        try_all_places(world, index + 1, best);
        world->members[to].queued_ns -= world->works[index].expected_ns;
    }
}

static struct best best_of(const struct world *world)
{
    static struct world copy;
    struct best best = {UINT64_MAX, UINT64_MAX};

    copy = *world;
    for (uint32_t i = 0; i < copy.work_count; i++)
        copy.members[copy.works[i].member].queued_ns -= copy.works[i].expected_ns;
    try_all_places(&copy, 0, &best);
    return best;
}

static void small_world(struct world *world, uint64_t *seed, bool equal)
{
    world_init(world, 2 + (uint32_t)draw_below(seed, 3));
    world->balance.config.move_ns = 0;
    for (uint32_t i = 0; i < world->count && !equal; i++)
        world->members[i].share_milli = 250 * (1 + (uint32_t)draw_below(seed, 4));
    for (uint32_t i = 0; i < world->count; i++)
        world->members[i].queued_ns = draw_below(seed, 20 * MS); /* cannot be moved */
    for (uint64_t works = 2 + draw_below(seed, 5); works > 0; works--)
        world_work(world, (int)draw_below(seed, world->count), 1 + draw_below(seed, 40 * MS));
    for (uint32_t i = 0; i < world->count; i++)
        world->members[i].request_milli = world->members[i].limit_milli = world->members[i].share_milli;
}

/* Among members of equal speed, imbalance falls below the threshold wherever this is possible. */
static void test_equal_members_are_balanced_whenever_possible(void **state)
{
    static struct world world;
    uint64_t seed = 99;
    unsigned possible = 0;

    for (int run = 0; run < 500; run++) {
        small_world(&world, &seed, true);
        struct best best = best_of(&world);
        uint64_t before = world_imbalance(&world);

        while (rebalance_world(&world) > 0)
            ;
        assert_true(world_imbalance(&world) <= before);
        if (best.imbalance_milli > world.balance.config.threshold_milli)
            continue;
        possible += before > world.balance.config.threshold_milli;
        assert_true(world_imbalance(&world) <= world.balance.config.threshold_milli);
    }
    assert_true(possible > 100);
}

/*
 * Among members of different speed, imbalance can be low because all wait long: the mean wait falls when work goes to
 * faster members. Either imbalance is below the threshold, or no member waits longer than in the best distribution.
 */
static void test_unequal_members_are_balanced_or_wait_less(void **state)
{
    static struct world world;
    uint64_t seed = 31;
    unsigned possible = 0;

    for (int run = 0; run < 500; run++) {
        small_world(&world, &seed, false);
        struct best best = best_of(&world);

        possible += world_imbalance(&world) > world.balance.config.threshold_milli &&
                    best.longest_wait_ns < longest_wait_ns(&world);
        while (rebalance_world(&world) > 0)
            ;
        assert_true(world_imbalance(&world) <= world.balance.config.threshold_milli ||
                    longest_wait_ns(&world) <= best.longest_wait_ns);
    }
    assert_true(possible > 100);
}

/* A thousand members, all work on ten of them, and a list of at most 64 actions at a time. */
static void test_thousand_members_are_balanced(void **state)
{
    static struct facet_balance_member members[1000];
    static struct facet_balance_work works[3000];
    struct facet_balance_action actions[64];
    struct facet_balance balance;
    uint64_t now = S;

    facet_balance_init(&balance, &facet_balance_defaults);
    for (uint32_t i = 0; i < 1000; i++)
        members[i] = (struct facet_balance_member){.device = i, .units = 1, .share_milli = 1000, .limit_milli = 1000};
    for (uint32_t i = 0; i < 3000; i++)
        works[i] =
            (struct facet_balance_work){.id = i, .expected_ns = MS, .member = (int)(i % 10), .previous_member = -1};
    for (uint32_t i = 0; i < 10; i++)
        members[i].queued_ns = 300 * MS;
    while (facet_balance_rebalance(&balance, now, members, 1000, works, 3000, actions, 64) > 0)
        now += balance.config.interval_ns;
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(members[i].queued_ns, 3 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_action_below_the_threshold),
        cmocka_unit_test(test_rebalancing_waits_for_its_interval),
        cmocka_unit_test(test_a_move_must_gain_more_than_it_costs),
        cmocka_unit_test(test_works_are_swapped),
        cmocka_unit_test(test_works_leave_a_lost_member),
        cmocka_unit_test(test_idle_share_is_lent_and_given_back),
        cmocka_unit_test(test_units_follow_demand),
        cmocka_unit_test(test_preemption_lets_higher_priority_in),
        cmocka_unit_test(test_actions_under_random_loads_come_to_an_end),
        cmocka_unit_test(test_changing_loads_do_not_move_works_back_and_forth),
        cmocka_unit_test(test_equal_members_are_balanced_whenever_possible),
        cmocka_unit_test(test_unequal_members_are_balanced_or_wait_less),
        cmocka_unit_test(test_thousand_members_are_balanced),
    };
    return cmocka_run_group_tests_name("rebalance", tests, NULL, NULL);
}
