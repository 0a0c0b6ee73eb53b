/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that decisions among thousands of entities equal those of a plain loop over all of them, and that
 * the policy can change while entities compete. Never: uses real time, or random numbers that differ from run to run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "compute/pick.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

static uint64_t draw_below(uint64_t *seed, uint64_t below)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed % below;
}

/* ---- the answers of a plain loop over all entities ---- */

/* The loop works on a copy, because asking when a cap opens also fills its bucket. */
static struct facet_pick copied;

static int reference_next(const struct facet_pick *pick, uint64_t now_ns, uint64_t *ret_again_ns)
{
    int best = FACET_PICK_NONE;

    copied = *pick;
    *ret_again_ns = FACET_PICK_NEVER;
    for (int i = 0; i < (int)FACET_PICK_ENTITIES; i++) {
        if (!pick->entities[i].used || pick->entities[i].want != FACET_PICK_READY)
            continue;
        uint64_t opens = facet_pick_opens_ns(&copied, i, now_ns);

        if (opens != now_ns)
            *ret_again_ns = opens < *ret_again_ns ? opens : *ret_again_ns;
        else if (best == FACET_PICK_NONE || facet_pick_goes_before(&copied, i, best))
            best = i;
    }
    return best;
}

static uint64_t reference_floor(const struct facet_pick *pick, uint64_t before)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < (int)FACET_PICK_ENTITIES; i++) {
        const struct facet_pick_entity *entity = &pick->entities[i];

        if (entity->used && entity->want != FACET_PICK_IDLE && !entity->emptied && entity->vtime < least)
            least = entity->vtime;
    }
    return least != UINT64_MAX && least > before ? least : before;
}

/* Best-effort entities share what the guarantees leave: those that want time, and the one that is charged. */
static uint64_t reference_weight(const struct facet_pick *pick, int entity)
{
    uint64_t guaranteed = 0, best_effort = 0;

    for (int i = 0; i < (int)FACET_PICK_ENTITIES; i++) {
        bool counts = i == entity || pick->entities[i].want != FACET_PICK_IDLE;

        guaranteed += pick->entities[i].used ? pick->entities[i].share.request_milli : 0;
        best_effort += pick->entities[i].used && pick->entities[i].share.request_milli == 0 && counts;
    }
    if (pick->entities[entity].share.request_milli > 0)
        return pick->entities[entity].share.request_milli;
    uint64_t part = guaranteed < FACET_MILLI_WHOLE ? (FACET_MILLI_WHOLE - guaranteed) / best_effort : 0;

    return part > 20 ? part : 20;
}

/* ---- random trials ---- */

struct trial {
    struct facet_pick pick;
    uint64_t seed, now_ns;
    uint64_t turns_given; /* turns that entities have got */
    int entity_count;     /* entities have the indices 0 to entity_count - 1 */
};

static struct facet_pick_share any_share(uint64_t *seed)
{
    return (struct facet_pick_share){
        .request_milli = draw_below(seed, 3) ? (uint32_t)draw_below(seed, 400) : 0,
        .limit_milli = draw_below(seed, 3) ? 1000 : 1 + (uint32_t)draw_below(seed, 999),
        .priority = (uint32_t)draw_below(seed, 3),
    };
}

/* Adds an entity, which must get the lowest unused index. Removes it again if `entity_count` entities existed
 * already. */
static void add_entity(struct trial *trial, const struct facet_pick_share *share)
{
    int lowest = 0, entity;

    while (trial->pick.entities[lowest].used)
        lowest++;
    entity = facet_pick_add(&trial->pick, share, trial->now_ns);
    assert_int_equal(entity, lowest);
    if (entity >= trial->entity_count)
        facet_pick_remove(&trial->pick, entity);
}

static void decide_next(struct trial *trial)
{
    bool waits = facet_pick_any_waits(&trial->pick, trial->now_ns);
    uint64_t expected_again, again;
    int expected = reference_next(&trial->pick, trial->now_ns, &expected_again);

    assert_int_equal(waits, expected != FACET_PICK_NONE);
    assert_int_equal(facet_pick_next(&trial->pick, trial->now_ns, &again), expected);
    assert_true(again == expected_again);
    if (expected == FACET_PICK_NONE)
        return;
    uint64_t spent = draw_below(&trial->seed, MS / 2), floor = trial->pick.vtime_floor;
    uint64_t vtime = trial->pick.entities[expected].vtime + spent * 1000 / reference_weight(&trial->pick, expected);

    facet_pick_charge(&trial->pick, expected, spent, trial->now_ns);
    trial->turns_given++;
    assert_true(trial->pick.entities[expected].vtime == vtime);
    assert_true(trial->pick.vtime_floor == reference_floor(&trial->pick, floor));
}

static void random_step(struct trial *trial)
{
    const struct facet_pick_share share = any_share(&trial->seed);
    int entity = (int)draw_below(&trial->seed, (uint64_t)trial->entity_count);
    bool used = trial->pick.entities[entity].used;

    trial->now_ns += draw_below(&trial->seed, 300 * US);
    switch (draw_below(&trial->seed, 8)) {
    case 0:
        add_entity(trial, &share);
        break;
    case 1:
        if (used && draw_below(&trial->seed, 3) == 0)
            facet_pick_remove(&trial->pick, entity);
        break;
    case 2:
        if (used)
            facet_pick_set_share(&trial->pick, entity, &share, trial->now_ns);
        break;
    case 3:
    case 4:
        if (used)
            facet_pick_set_want(&trial->pick, entity, (enum facet_pick_want)draw_below(&trial->seed, 3));
        break;
    default:
        decide_next(trial);
    }
}

static void test_decisions_equal_those_of_a_plain_loop(void **state)
{
    static struct trial trial;

    for (uint64_t run = 1; run <= 24; run++) {
        struct facet_pick_config config = facet_pick_defaults;

        trial = (struct trial){.seed = run * 7919, .now_ns = S, .entity_count = run % 3 == 0 ? 900 : 12};
        config.policy = (enum facet_pick_policy)(run % 4);
        config.parallel = 1 + (uint32_t)(run % 5);
        facet_pick_init(&trial.pick, &config);
        for (int i = 0; i < trial.entity_count; i++) {
            const struct facet_pick_share share = any_share(&trial.seed);

            add_entity(&trial, &share);
        }
        for (int step = 0; step < 600; step++)
            random_step(&trial);
        assert_true(trial.turns_given > 30);
    }
}

/* A best-effort entity's weight follows every change of the guarantees, and of the entities that share the rest. */
static void test_weights_follow_every_change(void **state)
{
    static struct facet_pick pick;
    const struct facet_pick_share guaranteed = {600, 1000, 1}, none = {0, 1000, 1}, less = {200, 1000, 1};

    facet_pick_init(&pick, &facet_pick_defaults);
    int first = facet_pick_add(&pick, &none, 0), big = facet_pick_add(&pick, &guaranteed, 0);
    const uint64_t expected[] = {400, 800, 800, 400, 1000};

    for (size_t i = 0; i < 5; i++) {
        int second = FACET_PICK_NONE;
        uint64_t before = pick.entities[first].vtime;

        if (i == 1)
            facet_pick_set_share(&pick, big, &less, 0);
        if (i == 2 || i == 3)
            second = facet_pick_add(&pick, &none, 0);
        if (i == 3) /* an idle entity takes no part of the weight; this one now does */
            facet_pick_set_want(&pick, second, FACET_PICK_SERVED);
        if (i == 4)
            facet_pick_remove(&pick, big);
        facet_pick_charge(&pick, first, 1000, 0);
        assert_int_equal(pick.entities[first].vtime - before, 1000 * 1000 / expected[i]);
        if (second != FACET_PICK_NONE)
            facet_pick_remove(&pick, second);
    }
}

/* ---- another policy ---- */

/* Serves turns of 100 us on one unit for `for_ns`. Returns how much of that time `entity` had. */
static uint64_t serve_turns(struct facet_pick *pick, uint64_t *now_ns, uint64_t for_ns, int entity)
{
    uint64_t again, before = pick->entities[entity].charged_ns;

    for (uint64_t until = *now_ns + for_ns; *now_ns < until; *now_ns += 100 * US) {
        int next = facet_pick_next(pick, *now_ns, &again);

        assert_int_not_equal(next, FACET_PICK_NONE);
        facet_pick_charge(pick, next, 100 * US, *now_ns + 100 * US);
    }
    return pick->entities[entity].charged_ns - before;
}

static void test_policy_changes_while_entities_compete(void **state)
{
    static struct facet_pick pick;
    const struct facet_pick_share high = {250, 1000, FACET_PRIORITY_HIGH}, low = {750, 1000, FACET_PRIORITY_NORMAL};
    struct facet_pick_config config = facet_pick_defaults;
    uint64_t now = S;

    config.policy = FACET_PICK_PRIORITY;
    facet_pick_init(&pick, &config);
    int first = facet_pick_add(&pick, &high, now), second = facet_pick_add(&pick, &low, now);

    facet_pick_set_want(&pick, first, FACET_PICK_READY);
    facet_pick_set_want(&pick, second, FACET_PICK_READY);
    assert_int_equal(serve_turns(&pick, &now, S, first), S);
    facet_pick_set_policy(&pick, FACET_PICK_FAIR); /* no debt for the time by priority: shares hold at once */
    assert_in_range(serve_turns(&pick, &now, 100 * MS, first), 25 * MS, 35 * MS);
    assert_in_range(serve_turns(&pick, &now, 100 * MS, first), 25 * MS - 200 * US, 25 * MS + 200 * US);
    facet_pick_set_policy(&pick, FACET_PICK_ROUND_ROBIN);
    assert_in_range(serve_turns(&pick, &now, 100 * MS, first), 50 * MS - 100 * US, 50 * MS + 100 * US);
    facet_pick_set_policy(&pick, FACET_PICK_FIFO); /* the order of arrival is still known */
    assert_int_equal(serve_turns(&pick, &now, 100 * MS, first), 100 * MS);
}

/* Setting the present policy again forgets nothing: the entity that is behind is still served first. */
static void test_same_policy_again_forgets_nothing(void **state)
{
    static struct facet_pick pick;
    const struct facet_pick_share half = {500, 1000, FACET_PRIORITY_NORMAL};
    uint64_t again;

    facet_pick_init(&pick, &facet_pick_defaults);
    for (int i = 0; i < 2; i++)
        facet_pick_set_want(&pick, facet_pick_add(&pick, &half, 0), FACET_PICK_READY);
    facet_pick_charge(&pick, 0, MS, 1);
    facet_pick_set_policy(&pick, FACET_PICK_FAIR);
    assert_int_equal(facet_pick_next(&pick, 2, &again), 1);
    facet_pick_set_policy(&pick, FACET_PICK_PRIORITY);
    assert_int_equal(facet_pick_next(&pick, 3, &again), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions_equal_those_of_a_plain_loop),
        cmocka_unit_test(test_weights_follow_every_change),
        cmocka_unit_test(test_policy_changes_while_entities_compete),
        cmocka_unit_test(test_same_policy_again_forgets_nothing),
    };
    return cmocka_run_group_tests_name("pick_many", tests, NULL, NULL);
}
