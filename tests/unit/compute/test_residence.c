/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of turns of memory, over a model of a device with a bounded memory and a bounded speed of moving it.
 * Never: uses real time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "compute/residence.h"

#define MS           UINT64_C(1000000)
#define S            (1000 * MS)
#define DEVICE_UNITS 1000u /* the device's memory in units; the device moves 10 units in a millisecond */
#define UNITS_PER_MS 10u
#define TENANTS      4u

struct tenant {
    int client;
    uint64_t working_set, resident;
    bool idle, dead;
    uint64_t worked_ms;
};

struct model {
    struct facet_residence residence;
    uint64_t now_ns;
    uint32_t count;                /* of tenants */
    uint32_t steps_asked_to_leave; /* how often a tenant was asked, in a step, to leave the device */
    struct tenant tenants[TENANTS];
};

static void model_init(struct model *model, uint32_t factor)
{
    struct facet_residence_config config = facet_residence_defaults;

    config.turn_factor = factor;
    *model = (struct model){.now_ns = S};
    facet_residence_init(&model->residence, &config, model->now_ns);
}

static struct tenant *add_tenant(struct model *model, uint64_t working_set, uint32_t weight)
{
    struct tenant *tenant = &model->tenants[model->count++];

    *tenant = (struct tenant){.client = facet_residence_add(&model->residence, weight), .working_set = working_set};
    return tenant;
}

static struct facet_residence_client *client_of(struct model *model, const struct tenant *tenant)
{
    return &model->residence.clients[tenant->client];
}

static uint64_t free_on_device(const struct model *model)
{
    uint64_t used = 0;

    for (uint32_t i = 0; i < model->count; i++)
        used += model->tenants[i].resident;
    assert_true(used <= DEVICE_UNITS);
    return DEVICE_UNITS - used;
}

static uint64_t smaller_of(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

/* One millisecond of a tenant: it leaves the device when asked, comes back when it may, or works. */
static void step_tenant_one_ms(struct model *model, struct tenant *tenant)
{
    struct facet_residence_client *client = client_of(model, tenant);
    uint64_t missing = tenant->working_set - tenant->resident, room = free_on_device(model);
    struct facet_residence_demand *demand = &client->demand;

    if (tenant->resident > client->most_bytes) {
        tenant->resident -= smaller_of(UNITS_PER_MS, tenant->resident - client->most_bytes);
    } else if (!missing && !tenant->idle && !demand->frozen) {
        tenant->worked_ms++;
        demand->used_ns = model->now_ns;
    } else if (client->most_bytes >= FACET_RESIDENCE_LAST && demand->waiting_resident) {
        tenant->resident += smaller_of(smaller_of(UNITS_PER_MS, missing), room);
    }
    missing = tenant->working_set - tenant->resident;
    demand->set_bytes = tenant->working_set;
    demand->resident_bytes = tenant->resident;
    demand->waiting_resident = missing && !tenant->idle;
    demand->busy = !tenant->idle && !missing && !demand->frozen;
    demand->refused_bytes =
        demand->waiting_resident && client->most_bytes >= FACET_RESIDENCE_LAST && !free_on_device(model) ? missing : 0;
}

static void run_ms(struct model *model, uint64_t milliseconds)
{
    for (uint64_t i = 0; i < milliseconds; i++) {
        for (uint32_t j = 0; j < model->count; j++)
            if (!model->tenants[j].dead)
                step_tenant_one_ms(model, &model->tenants[j]);
        facet_residence_step(&model->residence, model->now_ns);
        for (uint32_t j = 0; j < model->count; j++)
            if (!model->tenants[j].dead)
                model->steps_asked_to_leave +=
                    client_of(model, &model->tenants[j])->most_bytes < model->tenants[j].resident;
        model->now_ns += MS;
    }
}

static void test_no_client_gives_way_while_all_fit(void **state)
{
    struct model model;

    model_init(&model, 20);
    add_tenant(&model, 400, 500);
    add_tenant(&model, 600, 100);
    run_ms(&model, 10000);
    assert_int_equal(model.steps_asked_to_leave, 0);
    assert_true(model.tenants[0].worked_ms > 9800 && model.tenants[1].worked_ms > 9800);
}

static void test_sets_that_do_not_fit_take_turns_and_moving_takes_little(void **state)
{
    struct model model;

    model_init(&model, 20);
    struct tenant *one = add_tenant(&model, 750, 500), *other = add_tenant(&model, 750, 500);
    run_ms(&model, 60000);
    assert_true(one->worked_ms + other->worked_ms > 55000);
    assert_true(one->worked_ms > 25000 && other->worked_ms > 25000);
}

static void test_without_turns_moving_takes_most(void **state)
{
    struct model model;

    model_init(&model, 0);
    struct tenant *one = add_tenant(&model, 750, 500), *other = add_tenant(&model, 750, 500);
    run_ms(&model, 60000);
    assert_true(one->worked_ms + other->worked_ms < 20000);
    assert_true(one->worked_ms && other->worked_ms);
}

static void test_turns_are_longer_by_weight(void **state)
{
    struct model model;

    model_init(&model, 20);
    struct tenant *one = add_tenant(&model, 750, 300), *other = add_tenant(&model, 750, 100);
    run_ms(&model, 120000);
    assert_true(one->worked_ms > 2 * other->worked_ms && one->worked_ms < 4 * other->worked_ms);
}

static void test_three_tenants_all_go_on(void **state)
{
    struct model model;

    model_init(&model, 20);
    for (int i = 0; i < 3; i++)
        add_tenant(&model, 600, 0);
    run_ms(&model, 120000);
    for (int i = 0; i < 3; i++)
        assert_true(model.tenants[i].worked_ms > 30000);
}

static void test_an_idle_client_gives_way_at_once(void **state)
{
    struct model model;

    model_init(&model, 10000); /* turns that never end */
    struct tenant *one = add_tenant(&model, 750, 500);
    run_ms(&model, 2000);
    struct tenant *other = add_tenant(&model, 750, 500);
    client_of(&model, one)->turn_end_ns = UINT64_MAX - 1;
    run_ms(&model, 2000);
    assert_int_equal(other->worked_ms, 0);
    one->idle = true;
    run_ms(&model, 2000);
    assert_true(other->worked_ms > 1000);
    assert_int_equal(one->resident, 250); /* the missing amount, and no more */
}

static void test_a_frozen_client_gives_way_and_stays_out(void **state)
{
    struct model model;

    model_init(&model, 20);
    struct tenant *one = add_tenant(&model, 750, 500), *other = add_tenant(&model, 750, 500);
    run_ms(&model, 1000);
    client_of(&model, one)->demand.frozen = true;
    run_ms(&model, 20000);
    uint64_t before = one->worked_ms;
    assert_true(other->worked_ms > 17000);
    run_ms(&model, 2000);
    assert_int_equal(one->worked_ms, before);
    client_of(&model, one)->demand.frozen = false;
    run_ms(&model, 20000);
    assert_true(one->worked_ms > before + 5000);
}

static void test_a_client_that_dies_while_brought_in_blocks_no_other(void **state)
{
    struct model model;

    model_init(&model, 20);
    struct tenant *one = add_tenant(&model, 750, 500), *other = add_tenant(&model, 750, 500);
    while (model.residence.incoming != other->client)
        run_ms(&model, 1);
    facet_residence_remove(&model.residence, other->client);
    other->dead = true;
    other->resident = 0;
    uint64_t before = one->worked_ms;
    run_ms(&model, 2000);
    assert_true(one->worked_ms > before + 1500);
}

/* Adds a tenant that brings its whole working set to the device and then stops for good. */
static struct tenant *add_tenant_that_stops(struct model *model, uint64_t working_set)
{
    struct tenant *one = add_tenant(model, working_set, 500);

    run_ms(model, 2000);
    assert_int_equal(one->resident, working_set);
    one->dead = true;
    return one;
}

/* The tenant goes idle, like a program whose allocation was refused because no vGPU can make room. */
static void refuse_tenant(struct model *model, struct tenant *tenant)
{
    tenant->idle = true;
    client_of(model, tenant)->demand.waiting_resident = 0;
    client_of(model, tenant)->demand.refused_bytes = 0;
}

static void test_the_wait_for_a_client_that_gives_nothing_is_bounded(void **state)
{
    struct model model;

    model_init(&model, 20);
    struct tenant *one = add_tenant_that_stops(&model, 750), *other = add_tenant(&model, 750, 500);
    run_ms(&model, 20000);
    assert_false(client_of(&model, one)->stuck);
    assert_true(client_of(&model, other)->most_bytes == FACET_RESIDENCE_ALL);
    run_ms(&model, 20000);
    assert_true(client_of(&model, one)->stuck);
    assert_true(client_of(&model, other)->most_bytes == FACET_RESIDENCE_LAST);

    /* A tenant later in the queue, whose memory fits, gets its turn. */
    struct tenant *third = add_tenant(&model, 200, 500);
    refuse_tenant(&model, other);
    run_ms(&model, 2000);
    assert_true(third->worked_ms > 1500);
}

/*
 * A driver frees the memory of an ended program with a delay. Until then no tenant is told that no memory is left.
 */
static void test_memory_of_an_ended_process_is_waited_for(void **state)
{
    struct model model;

    model_init(&model, 20);
    struct tenant *one = add_tenant_that_stops(&model, 750), *other = add_tenant(&model, 750, 500);
    run_ms(&model, 500);
    client_of(&model, one)->demand =
        (struct facet_residence_demand){0}; /* the charges are gone, the memory is not free yet */
    run_ms(&model, 4900);
    assert_true(client_of(&model, other)->most_bytes == FACET_RESIDENCE_ALL);
    run_ms(&model, 200);
    assert_true(client_of(&model, other)->most_bytes == FACET_RESIDENCE_LAST);
}

static void test_a_client_that_gave_nothing_gives_as_soon_as_it_can(void **state)
{
    struct model model;

    model_init(&model, 20);
    struct tenant *one = add_tenant_that_stops(&model, 750), *other = add_tenant(&model, 750, 500);
    run_ms(&model, 40000);
    assert_true(client_of(&model, one)->stuck);
    one->dead = false;
    run_ms(&model, 10);
    assert_false(client_of(&model, one)->stuck);
    assert_true(client_of(&model, other)->most_bytes == FACET_RESIDENCE_ALL);
    run_ms(&model, 60000);
    assert_true(one->worked_ms > 20000 && other->worked_ms > 20000); /* turns are as long as before */
}

static void test_others_are_asked_instead_of_a_client_that_gives_nothing(void **state)
{
    struct model model;

    model_init(&model, 20);
    struct tenant *one = add_tenant_that_stops(&model, 400);
    struct tenant *two = add_tenant(&model, 400, 500), *three = add_tenant(&model, 500, 500);
    run_ms(&model, 90000);
    assert_true(client_of(&model, one)->stuck);
    assert_true(two->worked_ms > 20000 && three->worked_ms > 20000);
}

static void test_without_a_bound_the_wait_for_a_client_that_gives_nothing_goes_on(void **state)
{
    struct model model;

    model_init(&model, 20);
    model.residence.config.patience_ns = 0;
    struct tenant *one = add_tenant_that_stops(&model, 750), *other = add_tenant(&model, 750, 500);
    run_ms(&model, 200000);
    assert_false(client_of(&model, one)->stuck);
    assert_true(client_of(&model, other)->most_bytes == FACET_RESIDENCE_ALL);
}

static void test_the_step_asks_to_be_called_when_patience_ends(void **state)
{
    struct model model;

    model_init(&model, 20);
    add_tenant_that_stops(&model, 750);
    add_tenant(&model, 750, 500);
    run_ms(&model, 5000);
    uint64_t next_ns = facet_residence_step(&model.residence, model.now_ns);
    assert_true(next_ns > model.now_ns && next_ns <= model.now_ns + model.residence.config.patience_ns);
}

/* A program that allocates step by step, as most do, does not lose its turn at each step. */
static void test_a_client_that_grows_in_its_turn_gets_memory_at_once(void **state)
{
    struct model model;

    model_init(&model, 20);
    struct tenant *one = add_tenant(&model, 750, 500);
    run_ms(&model, 2000);
    struct tenant *other = add_tenant(&model, 300, 500);
    while (model.now_ns < 120 * S && other->worked_ms == 0)
        run_ms(&model, 1);
    uint64_t began_ns = model.now_ns;
    for (; other->working_set < 750; other->working_set += 50)
        run_ms(&model, 20);
    run_ms(&model, 20);
    assert_int_equal(other->resident, 750);
    assert_true(model.now_ns - began_ns < S);
    run_ms(&model, 120000);
    assert_true(one->worked_ms > 40000 && other->worked_ms > 40000);
}

static void test_places_are_bounded_and_used_again(void **state)
{
    struct facet_residence residence;

    facet_residence_init(&residence, &facet_residence_defaults, 0);
    for (uint32_t i = 0; i < FACET_RESIDENCE_CLIENTS; i++)
        assert_int_equal(facet_residence_add(&residence, 1), (int)i);
    assert_int_equal(facet_residence_add(&residence, 1), -1);
    facet_residence_remove(&residence, 7);
    assert_int_equal(facet_residence_add(&residence, 1), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_client_gives_way_while_all_fit),
        cmocka_unit_test(test_sets_that_do_not_fit_take_turns_and_moving_takes_little),
        cmocka_unit_test(test_without_turns_moving_takes_most),
        cmocka_unit_test(test_turns_are_longer_by_weight),
        cmocka_unit_test(test_three_tenants_all_go_on),
        cmocka_unit_test(test_an_idle_client_gives_way_at_once),
        cmocka_unit_test(test_a_frozen_client_gives_way_and_stays_out),
        cmocka_unit_test(test_a_client_that_dies_while_brought_in_blocks_no_other),
        cmocka_unit_test(test_the_wait_for_a_client_that_gives_nothing_is_bounded),
        cmocka_unit_test(test_memory_of_an_ended_process_is_waited_for),
        cmocka_unit_test(test_a_client_that_gave_nothing_gives_as_soon_as_it_can),
        cmocka_unit_test(test_others_are_asked_instead_of_a_client_that_gives_nothing),
        cmocka_unit_test(test_without_a_bound_the_wait_for_a_client_that_gives_nothing_goes_on),
        cmocka_unit_test(test_the_step_asks_to_be_called_when_patience_ends),
        cmocka_unit_test(test_a_client_that_grows_in_its_turn_gets_memory_at_once),
        cmocka_unit_test(test_places_are_bounded_and_used_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
