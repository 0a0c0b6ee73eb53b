/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the turn-taking policies over a modelled device of several units. Never: uses real time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "compute/pick.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

#define UNITS_MOST 16u

/* A device whose units take turns; entity i's turns take turn_ns[i]. */
struct model {
    struct facet_pick pick;
    uint64_t now_ns;
    uint64_t turn_ns[FACET_PICK_ENTITIES];
    uint64_t turns[FACET_PICK_ENTITIES];
    int on_unit[UNITS_MOST];
    uint64_t began_ns[UNITS_MOST], ends_ns[UNITS_MOST], idle_ns;
};

static struct facet_pick_share share_of(uint32_t request, uint32_t limit, uint32_t priority)
{
    return (struct facet_pick_share){request, limit, priority};
}

static void model_init(struct model *model, enum facet_pick_policy policy, uint32_t units)
{
    struct facet_pick_config config = facet_pick_defaults;

    *model = (struct model){.now_ns = S};
    config.policy = policy;
    config.parallel = units;
    facet_pick_init(&model->pick, &config);
    for (uint32_t i = 0; i < UNITS_MOST; i++)
        model->on_unit[i] = FACET_PICK_NONE;
}

static int model_add(struct model *model, uint32_t request, uint32_t limit, uint32_t priority, uint64_t turn_ns)
{
    const struct facet_pick_share wanted = share_of(request, limit, priority);
    int entity = facet_pick_add(&model->pick, &wanted, model->now_ns);

    assert_int_not_equal(entity, FACET_PICK_NONE);
    model->turn_ns[entity] = turn_ns;
    facet_pick_set_want(&model->pick, entity, FACET_PICK_READY);
    return entity;
}

/* Ends the unit's turn if it is over, and begins one if an entity may have it. Returns the time of its next check. */
static uint64_t model_unit(struct model *model, uint32_t unit)
{
    uint64_t again;

    if (model->on_unit[unit] != FACET_PICK_NONE && model->ends_ns[unit] > model->now_ns)
        return model->ends_ns[unit];
    if (model->on_unit[unit] != FACET_PICK_NONE)
        facet_pick_charge(&model->pick, model->on_unit[unit], model->now_ns - model->began_ns[unit], model->now_ns);
    int entity = facet_pick_next(&model->pick, model->now_ns, &again);

    model->on_unit[unit] = entity;
    if (entity == FACET_PICK_NONE)
        return again;
    model->turns[entity]++;
    model->began_ns[unit] = model->now_ns;
    model->ends_ns[unit] = model->now_ns + model->turn_ns[entity];
    return model->ends_ns[unit];
}

static void model_run(struct model *model, uint64_t for_ns)
{
    uint64_t until = model->now_ns + for_ns;

    while (model->now_ns < until) {
        uint64_t next = until;

        for (uint32_t i = 0; i < model->pick.config.parallel; i++) {
            uint64_t check_ns = model_unit(model, i);

            assert_true(check_ns > model->now_ns); /* otherwise the model, and any executor, would spin */
            next = check_ns < next ? check_ns : next;
        }
        for (uint32_t i = 0; i < model->pick.config.parallel; i++)
            model->idle_ns += model->on_unit[i] == FACET_PICK_NONE ? next - model->now_ns : 0;
        model->now_ns = next;
    }
}

static uint64_t entity_charged_ns(const struct model *model, int entity)
{
    return model->pick.entities[entity].charged_ns;
}

/* The entity's part, in milli, of the charges of the first `among` entities since `before`. */
static void assert_part(const struct model *model, const uint64_t *before, int entity, int among, uint64_t expected,
                        uint64_t tolerance)
{
    uint64_t sum = 0, part = entity_charged_ns(model, entity) - before[entity];

    for (int i = 0; i < among; i++)
        sum += entity_charged_ns(model, i) - before[i];
    part = part * 1000 / sum;
    if (part + tolerance < expected || part > expected + tolerance)
        fail_msg("entity %d was charged %u milli, expected %u +- %u", entity, (unsigned)part, (unsigned)expected,
                 (unsigned)tolerance);
}

static void snapshot_model(const struct model *model, uint64_t *ret_charged_ns)
{
    for (size_t i = 0; i < FACET_PICK_ENTITIES; i++)
        ret_charged_ns[i] = model->pick.entities[i].charged_ns;
}

static void test_shares_hold_over_short_windows(void **state)
{
    static const uint64_t turns[][2] = {{50 * US, 50 * US}, {200 * US, 20 * US}, {20 * US, 200 * US}};
    static struct model model;
    uint64_t before[FACET_PICK_ENTITIES];

    for (uint32_t units = 1; units <= 4; units *= 2) {
        for (size_t i = 0; i < 3; i++) {
            model_init(&model, FACET_PICK_FAIR, units);
            model_add(&model, 700, 1000, FACET_PRIORITY_NORMAL, turns[i][0]);
            model_add(&model, 300, 1000, FACET_PRIORITY_NORMAL, turns[i][1]);
            for (int window = 0; window < 20; window++) {
                snapshot_model(&model, before);
                model_run(&model, 100 * MS);
                assert_part(&model, before, 0, 2, 700, 10);
            }
            assert_int_equal(model.idle_ns, 0);
        }
    }
}

static void test_best_effort_shares_the_rest_of_the_weights(void **state)
{
    static const uint64_t nothing[FACET_PICK_ENTITIES];
    static struct model model;

    model_init(&model, FACET_PICK_FAIR, 2);
    model_add(&model, 600, 1000, FACET_PRIORITY_NORMAL, 50 * US);
    model_add(&model, 0, 1000, FACET_PRIORITY_NORMAL, 50 * US);
    model_add(&model, 0, 1000, FACET_PRIORITY_NORMAL, 50 * US);
    model_run(&model, S);
    assert_part(&model, nothing, 0, 3, 600, 10);
    assert_part(&model, nothing, 1, 3, 200, 10);
    assert_part(&model, nothing, 2, 3, 200, 10);
}

/* A thousand idle entities, and an entity that wants time now and then, take nothing from an entity that always wants
 * time. */
static void test_idle_best_effort_takes_no_part(void **state)
{
    uint64_t before[FACET_PICK_ENTITIES];
    static struct model model;

    model_init(&model, FACET_PICK_FAIR, 2);
    model_add(&model, 300, 1000, FACET_PRIORITY_NORMAL, 50 * US);
    model_add(&model, 0, 1000, FACET_PRIORITY_NORMAL, 50 * US);
    int sometimes = model_add(&model, 0, 1000, FACET_PRIORITY_NORMAL, 50 * US);
    for (int i = 0; i < 1000; i++)
        facet_pick_set_want(&model.pick, model_add(&model, 0, 1000, FACET_PRIORITY_NORMAL, 50 * US), FACET_PICK_IDLE);
    for (int round = 0; round < 4; round++) {
        facet_pick_set_want(&model.pick, sometimes, round % 2 ? FACET_PICK_READY : FACET_PICK_IDLE);
        snapshot_model(&model, before);
        model_run(&model, 200 * MS);
        assert_part(&model, before, 0, 3, 300, 10);
        assert_part(&model, before, 1, 3, round % 2 ? 350 : 700, 10);
    }
}

static void test_a_client_alone_gets_the_whole_device(void **state)
{
    static struct model model;

    model_init(&model, FACET_PICK_FAIR, 2);
    model_add(&model, 100, 1000, FACET_PRIORITY_NORMAL, 50 * US);
    int idle = model_add(&model, 900, 1000, FACET_PRIORITY_NORMAL, 50 * US);

    facet_pick_set_want(&model.pick, idle, FACET_PICK_IDLE);
    model_run(&model, 100 * MS);
    assert_int_equal(model.idle_ns, 0);
    assert_int_equal(entity_charged_ns(&model, idle), 0);
}

/* An entity that has work again is served at once, but being idle earns it no further turns. */
static void test_idle_time_is_not_saved_up(void **state)
{
    uint64_t before[FACET_PICK_ENTITIES];
    static struct model model;

    model_init(&model, FACET_PICK_FAIR, 1);
    model_add(&model, 500, 1000, FACET_PRIORITY_NORMAL, 50 * US);
    int other = model_add(&model, 500, 1000, FACET_PRIORITY_NORMAL, 50 * US);

    facet_pick_set_want(&model.pick, other, FACET_PICK_IDLE);
    model_run(&model, 5 * S);
    facet_pick_set_want(&model.pick, other, FACET_PICK_READY);
    assert_true(facet_pick_goes_before(&model.pick, other, 0));
    snapshot_model(&model, before);
    model_run(&model, 100 * MS);
    assert_part(&model, before, other, 2, 505, 10);
}

/* A client that is served but could take no further turn does not lose its place. */
static void test_an_entity_that_is_being_served_is_not_idle(void **state)
{
    static struct model model;

    model_init(&model, FACET_PICK_FAIR, 1);
    int served = model_add(&model, 500, 1000, FACET_PRIORITY_NORMAL, 50 * US);

    model_add(&model, 500, 1000, FACET_PRIORITY_NORMAL, 50 * US);
    facet_pick_set_want(&model.pick, served, FACET_PICK_SERVED);
    model_run(&model, 50 * MS);
    assert_int_equal(entity_charged_ns(&model, served), 0);
    facet_pick_set_want(&model.pick, served, FACET_PICK_READY);
    model_run(&model, 50 * MS);
    assert_true(entity_charged_ns(&model, served) >= 49 * MS); /* the time that it missed */
}

static void test_caps_of_entities_hold(void **state)
{
    static struct model model;
    uint64_t before;

    for (uint32_t units = 1; units <= 4; units *= 4) {
        model_init(&model, FACET_PICK_FAIR, units);
        int capped = model_add(&model, 500, 200, FACET_PRIORITY_HIGH, 50 * US);

        for (int window = 0; window < 20; window++) {
            before = entity_charged_ns(&model, capped);
            model_run(&model, 100 * MS);
            assert_in_range(entity_charged_ns(&model, capped) - before, 19 * MS * units, 21 * MS * units);
        }
        /* The other entities get all that the cap leaves. */
        int other = model_add(&model, 500, 1000, FACET_PRIORITY_NORMAL, 50 * US);
        uint64_t idle = model.idle_ns;

        model_run(&model, 50 * MS);
        model_run(&model, 100 * MS);
        assert_in_range(entity_charged_ns(&model, other), 115 * MS * units, 125 * MS * units);
        assert_true(model.idle_ns - idle < MS);
    }
}

/* A turn that was far longer than the cap allows is paid back. */
static void test_debts_are_paid(void **state)
{
    static struct model model;
    uint64_t again;

    model_init(&model, FACET_PICK_FAIR, 1);
    int capped = model_add(&model, 0, 100, FACET_PRIORITY_NORMAL, 50 * US);

    facet_pick_charge(&model.pick, capped, 50 * MS, model.now_ns);
    assert_int_equal(facet_pick_budget_ns(&model.pick, capped, model.now_ns), 0);
    assert_int_equal(facet_pick_next(&model.pick, model.now_ns, &again), FACET_PICK_NONE);
    assert_in_range(again - model.now_ns, 450 * MS, 510 * MS);
    assert_int_equal(facet_pick_next(&model.pick, again - 2, &(uint64_t){0}), FACET_PICK_NONE);
    assert_int_equal(facet_pick_next(&model.pick, again, &(uint64_t){0}), capped);
}

/* However often the bucket of a cap is filled, no part of its gain is lost. */
static void test_a_cap_fills_in_small_steps_as_in_large_ones(void **state)
{
    static struct model model;

    model_init(&model, FACET_PICK_FAIR, 1);
    int capped = model_add(&model, 0, 1, FACET_PRIORITY_NORMAL, 50 * US);

    facet_pick_charge(&model.pick, capped, 3 * US, model.now_ns);
    assert_false(facet_pick_is_open(&model.pick, capped, model.now_ns));
    for (uint64_t i = 0; i < 200 * 1000; i++)
        facet_pick_is_open(&model.pick, capped, model.now_ns + i * 10);
    assert_int_equal(facet_pick_budget_ns(&model.pick, capped, model.now_ns + 2 * MS), 1 * US);
}

static void test_lifting_a_cap_is_felt_at_once_and_saves_nothing(void **state)
{
    const struct facet_pick_share free_share = share_of(500, 1000, FACET_PRIORITY_NORMAL);
    uint64_t before[FACET_PICK_ENTITIES];
    static struct model model;

    model_init(&model, FACET_PICK_FAIR, 1);
    int capped = model_add(&model, 500, 100, FACET_PRIORITY_NORMAL, 50 * US);

    model_add(&model, 500, 1000, FACET_PRIORITY_NORMAL, 50 * US);
    model_run(&model, S);
    facet_pick_set_share(&model.pick, capped, &free_share, model.now_ns);
    snapshot_model(&model, before);
    model_run(&model, 100 * MS);
    assert_part(&model, before, capped, 2, 505, 10);
}

/* A high priority goes first while it takes little, and in the long run takes no more than its share. */
static void test_fair_priority_is_a_head_start(void **state)
{
    static const uint64_t nothing[FACET_PICK_ENTITIES];
    static struct model model;

    model_init(&model, FACET_PICK_FAIR, 1);
    model_add(&model, 700, 1000, FACET_PRIORITY_LOW, 50 * US);
    int high = model_add(&model, 300, 1000, FACET_PRIORITY_HIGH, 50 * US);

    model_run(&model, 5 * MS);
    assert_in_range(entity_charged_ns(&model, high), 4900 * US, 5 * MS);
    model_run(&model, 10 * S);
    assert_part(&model, nothing, high, 2, 300, 10);
}

static void test_priority_is_strict(void **state)
{
    static const uint64_t nothing[FACET_PICK_ENTITIES];
    static struct model model;

    model_init(&model, FACET_PICK_PRIORITY, 1);
    int low = model_add(&model, 900, 1000, FACET_PRIORITY_NORMAL, 50 * US);

    model_add(&model, 300, 1000, FACET_PRIORITY_HIGH, 50 * US);
    model_add(&model, 100, 1000, FACET_PRIORITY_HIGH, 50 * US);
    model_run(&model, S);
    assert_int_equal(entity_charged_ns(&model, low), 0);
    assert_part(&model, nothing, 1, 3, 750, 10);
    facet_pick_set_want(&model.pick, 1, FACET_PICK_IDLE);
    facet_pick_set_want(&model.pick, 2, FACET_PICK_IDLE);
    model_run(&model, MS);
    assert_true(entity_charged_ns(&model, low) > 900 * US);
}

static void test_round_robin_gives_each_client_as_many_turns(void **state)
{
    static struct model model;

    model_init(&model, FACET_PICK_ROUND_ROBIN, 1);
    model_add(&model, 900, 1000, FACET_PRIORITY_NORMAL, 10 * US);
    model_add(&model, 50, 1000, FACET_PRIORITY_HIGH, 200 * US);
    model_add(&model, 0, 1000, FACET_PRIORITY_LOW, 50 * US);
    model_run(&model, S);
    assert_true(model.turns[0] > 3000);
    assert_in_range(model.turns[1], model.turns[0] - 1, model.turns[0]);
    assert_in_range(model.turns[2], model.turns[0] - 1, model.turns[0]);
}

static void test_fifo_serves_the_first_client_to_its_end(void **state)
{
    static struct model model;

    model_init(&model, FACET_PICK_FIFO, 2);
    int first = model_add(&model, 100, 1000, FACET_PRIORITY_LOW, 50 * US);
    int second = model_add(&model, 900, 1000, FACET_PRIORITY_HIGH, 50 * US);

    model_run(&model, 100 * MS);
    assert_int_equal(entity_charged_ns(&model, second), 0);
    facet_pick_set_want(&model.pick, first, FACET_PICK_IDLE);
    facet_pick_set_want(&model.pick, first, FACET_PICK_READY); /* it arrives again, behind the other client */
    uint64_t before = entity_charged_ns(&model, first);

    model_run(&model, 100 * MS);
    assert_in_range(entity_charged_ns(&model, first) - before, 0, 200 * US); /* the turns that were under way */
}

static void test_without_work_there_is_no_next_entity(void **state)
{
    static struct model model;
    uint64_t again = 0;

    model_init(&model, FACET_PICK_FAIR, 1);
    assert_int_equal(facet_pick_next(&model.pick, model.now_ns, &again), FACET_PICK_NONE);
    assert_true(again == FACET_PICK_NEVER);
    int entity = model_add(&model, 0, 1000, FACET_PRIORITY_NORMAL, US);

    assert_true(facet_pick_any_waits(&model.pick, model.now_ns));
    assert_true(facet_pick_budget_ns(&model.pick, entity, model.now_ns) == FACET_PICK_NEVER);
    facet_pick_set_want(&model.pick, entity, FACET_PICK_SERVED);
    assert_false(facet_pick_any_waits(&model.pick, model.now_ns));
    assert_int_equal(facet_pick_next(&model.pick, model.now_ns, &again), FACET_PICK_NONE);
}

static void test_entities_are_bounded_and_reused(void **state)
{
    const struct facet_pick_share any = share_of(0, 1000, FACET_PRIORITY_NORMAL);
    static struct model model;
    uint64_t again;

    model_init(&model, FACET_PICK_FAIR, 1);
    for (int i = 0; i < (int)FACET_PICK_ENTITIES; i++)
        assert_int_equal(facet_pick_add(&model.pick, &any, 0), i);
    assert_int_equal(facet_pick_add(&model.pick, &any, 0), FACET_PICK_NONE);
    facet_pick_set_want(&model.pick, 77, FACET_PICK_READY);
    facet_pick_remove(&model.pick, 77);
    assert_int_equal(facet_pick_next(&model.pick, 1, &again), FACET_PICK_NONE);
    assert_int_equal(facet_pick_add(&model.pick, &any, 0), 77);
    assert_int_equal(facet_pick_next(&model.pick, 1, &again), FACET_PICK_NONE);
    for (int i = 0; i < (int)FACET_PICK_ENTITIES; i++)
        facet_pick_remove(&model.pick, i);
    assert_int_equal(facet_pick_add(&model.pick, &any, 0), 0);
}

/* A clock that stands still or goes back neither gains nor loses. */
static void test_clock_going_back_is_harmless(void **state)
{
    static struct model model;

    model_init(&model, FACET_PICK_FAIR, 1);
    int capped = model_add(&model, 0, 500, FACET_PRIORITY_NORMAL, US);

    facet_pick_charge(&model.pick, capped, 2 * MS, model.now_ns);
    uint64_t before = model.pick.entities[capped].filled_until_ns;

    assert_false(facet_pick_is_open(&model.pick, capped, model.now_ns - S));
    assert_int_equal(model.pick.entities[capped].filled_until_ns, before);
    assert_int_equal(model.pick.entities[capped].credit_ns, -(int64_t)MS);
}

static void test_policies_are_found_by_name(void **state)
{
    static const char *const names[] = {"fair", "round_robin", "priority", "fifo"};
    enum facet_pick_policy policy = FACET_PICK_FIFO;

    for (size_t i = 0; i < 4; i++) {
        assert_true(facet_pick_policy_find(names[i], &policy));
        assert_int_equal(policy, i);
        assert_string_equal(facet_pick_policy_name(policy), names[i]);
    }
    assert_false(facet_pick_policy_find("lottery", &policy));
    assert_int_equal(policy, FACET_PICK_FIFO);
    assert_null(facet_pick_policy_name((enum facet_pick_policy)4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_hold_over_short_windows),
        cmocka_unit_test(test_best_effort_shares_the_rest_of_the_weights),
        cmocka_unit_test(test_idle_best_effort_takes_no_part),
        cmocka_unit_test(test_a_client_alone_gets_the_whole_device),
        cmocka_unit_test(test_idle_time_is_not_saved_up),
        cmocka_unit_test(test_an_entity_that_is_being_served_is_not_idle),
        cmocka_unit_test(test_caps_of_entities_hold),
        cmocka_unit_test(test_debts_are_paid),
        cmocka_unit_test(test_a_cap_fills_in_small_steps_as_in_large_ones),
        cmocka_unit_test(test_lifting_a_cap_is_felt_at_once_and_saves_nothing),
        cmocka_unit_test(test_fair_priority_is_a_head_start),
        cmocka_unit_test(test_priority_is_strict),
        cmocka_unit_test(test_round_robin_gives_each_client_as_many_turns),
        cmocka_unit_test(test_fifo_serves_the_first_client_to_its_end),
        cmocka_unit_test(test_without_work_there_is_no_next_entity),
        cmocka_unit_test(test_entities_are_bounded_and_reused),
        cmocka_unit_test(test_clock_going_back_is_harmless),
        cmocka_unit_test(test_policies_are_found_by_name),
    };
    return cmocka_run_group_tests_name("pick", tests, NULL, NULL);
}
