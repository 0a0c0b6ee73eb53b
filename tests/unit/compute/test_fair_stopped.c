/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs, in virtual time, that a stopped process takes nothing from its neighbours, and that it gets exactly its
 * share again after it continues. Never: uses real time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gate_model.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

static const uint64_t kernels_ns[GATE_KERNELS] = {1 * MS};

static struct gate_model model; /* too large for a stack */

static struct gate_tenant *add_tenant(uint32_t request_milli, uint32_t ahead)
{
    struct facet_limits limits = {.compute_request_milli = request_milli,
                                  .compute_limit_milli = 1000,
                                  .mode = FACET_MODE_SOFT,
                                  .priority = FACET_PRIORITY_NORMAL};

    return gate_model_add(&model, &limits, kernels_ns, ahead);
}

/* The first tenant is never stopped. It has a guarantee of 200 milli, and the other tenants share 800. */
static void begin_model(const struct facet_fair_config *config, uint32_t others)
{
    gate_model_init(&model, config);
    add_tenant(200, 4);
    for (uint32_t i = 0; i < others; i++)
        add_tenant(800 / others, 4);
    gate_model_run(&model, 1 * S);
}

static uint32_t inflight_of(const struct gate_tenant *tenant)
{
    return (uint32_t)(tenant->launched - tenant->reported);
}

/* Stops the tenant while it has work in flight, or while it waits at the gate with nothing in flight. */
static void stop_tenant(struct gate_tenant *tenant, bool in_flight)
{
    for (int i = 0; i < 100000 && (in_flight ? !inflight_of(tenant) : inflight_of(tenant) || !tenant->waiting_since_ns);
         i++)
        gate_model_run(&model, 10 * US);
    gate_stop(&model, tenant);
}

static uint64_t share_milli(const struct gate_tenant *tenant, uint64_t duration_ns)
{
    gate_model_forget(&model);
    gate_model_run(&model, duration_ns);
    return gate_work_ns(tenant) * 1000 / duration_ns;
}

static void check_stop_and_continue(const struct facet_fair_config *config, uint32_t others, bool in_flight)
{
    begin_model(config, others);
    for (uint32_t i = 1; i <= others; i++)
        stop_tenant(&model.tenants[i], in_flight);
    gate_model_run(&model, 200 * MS);
    /* In the first second the share is lower: turns are short while a stopped client still counts in the round. */
    assert_true(share_milli(&model.tenants[0], 1 * S) > 800);
    uint64_t alone_milli = share_milli(&model.tenants[0], 2 * S);
    if (alone_milli < 970)
        fail_msg("%u tenants stopped %s: their neighbour has %lu milli, expected 970 or more", others,
                 in_flight ? "with work in flight" : "at the gate", alone_milli);
    for (uint32_t i = 1; i <= others; i++)
        gate_continue(&model, &model.tenants[i]);
    gate_model_run(&model, 20 * MS); /* the head start that any idle tenant gets is not measured */
    uint64_t milli = share_milli(&model.tenants[0], 1 * S);
    if (milli < 180 || milli > 220)
        fail_msg("%u tenants continued that were stopped %s: their neighbour has %lu milli, expected 200", others,
                 in_flight ? "with work in flight" : "at the gate", milli);
}

static void test_a_stopped_client_takes_nothing(void **state)
{
    static const uint32_t others[] = {1, 2, 7};

    for (size_t i = 0; i < 3; i++)
        for (int in_flight = 0; in_flight < 2; in_flight++) {
            check_stop_and_continue(&facet_fair_queue, others[i], in_flight);
            check_stop_and_continue(&facet_fair_defaults, others[i], in_flight);
        }
}

static void test_parallel_leases_are_not_held_back(void **state)
{
    struct facet_fair_config config = facet_fair_defaults;

    config.parallel = 4;
    for (int in_flight = 0; in_flight < 2; in_flight++) {
        begin_model(&config, 2);
        for (uint32_t i = 1; i <= 2; i++)
            stop_tenant(&model.tenants[i], in_flight);
        gate_model_run(&model, 1500 * MS);
        assert_true(share_milli(&model.tenants[0], 2 * S) > 970);
    }
}

/* The client launches at once, and the time that it missed while stopped is not made up for. */
static void test_a_client_that_continues_gets_one_turn_at_once(void **state)
{
    for (int in_flight = 0; in_flight < 2; in_flight++) {
        begin_model(&facet_fair_queue, 1);
        stop_tenant(&model.tenants[1], in_flight);
        gate_model_run(&model, 10 * S);
        uint64_t before = model.tenants[1].launched;
        gate_continue(&model, &model.tenants[1]);
        gate_model_run(&model, 5 * MS);
        assert_true(model.tenants[1].launched > before);
        uint64_t milli = share_milli(&model.tenants[0], 200 * MS);
        assert_true(milli > 140 && milli < 240);
    }
}

/* A thread that misses up to ten turns on a busy machine keeps its place. */
static void test_a_late_client_is_not_stopped(void **state)
{
    begin_model(&facet_fair_queue, 1);
    stop_tenant(&model.tenants[1], false);
    for (int i = 0; i < 9; i++) {
        gate_model_run(&model, 10 * MS);
        assert_true(model.fair.clients[1].demand.waiting);
        assert_true(model.fair.clients[1].active);
    }
    gate_continue(&model, &model.tenants[1]);
    uint64_t milli = share_milli(&model.tenants[0], 500 * MS);
    assert_true(milli > 150 && milli < 250);
}

static struct facet_fair_demand demand_of(const struct facet_fair_process *process, uint64_t silent_ns)
{
    struct facet_fair_demand demand = {0};

    facet_fair_demand_add(&demand, process, process->alive_ns + silent_ns);
    return demand;
}

/* A client with a kernel in flight may be silent for the kernel's length, where that is known, and longer. */
static void test_a_silent_client_with_a_long_kernel_keeps_its_launches(void **state)
{
    struct facet_fair_process process = {
        .waiting = 1, .inflight = 2, .inflight_ns = 5 * S, .alive_ns = 7 * S, .idle_since_ns = 6 * S};

    assert_int_equal(demand_of(&process, 100 * MS).waiting, 1);
    assert_int_equal(demand_of(&process, 110 * MS).waiting, 0);
    assert_int_equal(demand_of(&process, 110 * MS).inflight, 2);
    assert_int_equal(demand_of(&process, 20 * S).inflight, 2);
    assert_int_equal(demand_of(&process, 20 * S).inflight_ns, 5 * S);
    assert_int_equal(demand_of(&process, 21 * S).inflight, 0);
    assert_int_equal(demand_of(&process, 21 * S).inflight_ns, 0);
    assert_int_equal(demand_of(&process, 21 * S).lost_launches, 2);
    assert_int_equal(demand_of(&process, 21 * S).idle_since_ns, 6 * S);
    process.inflight_ns = 0;
    assert_int_equal(demand_of(&process, 1 * S).inflight, 2);
    assert_int_equal(demand_of(&process, 1 * S + MS).lost_launches, 2);
    process.alive_ns = 0; /* the process reports no sign of life: its numbers count as they are */
    assert_int_equal(demand_of(&process, 100 * S).waiting, 1);
    assert_int_equal(demand_of(&process, 100 * S).inflight, 2);
}

/* One process of a vGPU is stopped, the other is not. */
static void test_running_processes_of_a_client_count_beside_a_stopped_one(void **state)
{
    struct facet_fair_demand demand = {0};

    facet_fair_demand_add(&demand, &(struct facet_fair_process){.waiting = 1, .alive_ns = 1 * S}, 5 * S);
    facet_fair_demand_add(&demand, &(struct facet_fair_process){.waiting = 3, .alive_ns = 5 * S}, 5 * S);
    facet_fair_demand_add(&demand, &(struct facet_fair_process){.inflight = 1, .alive_ns = 6 * S}, 5 * S);
    assert_int_equal(demand.waiting, 3);
    assert_int_equal(demand.inflight, 1);
    assert_int_equal(demand.lost_launches, 0);
}

/* A kernel of unknown length took three seconds while its program was stopped. Its tenant is charged for it later. */
static void test_device_time_of_an_unknown_launch_is_charged(void **state)
{
    static const uint64_t long_ns[GATE_KERNELS] = {3 * S, 1 * MS, 1 * MS, 1 * MS};
    struct facet_limits limits = {.compute_request_milli = 500,
                                  .compute_limit_milli = 1000,
                                  .mode = FACET_MODE_SOFT,
                                  .priority = FACET_PRIORITY_NORMAL};

    gate_model_init(&model, &facet_fair_queue);
    add_tenant(500, 4);
    struct gate_tenant *tenant = gate_model_add(&model, &limits, long_ns, 1);
    tenant->lengths_unknown = true;
    while (!inflight_of(tenant))
        gate_model_run(&model, 10 * US);
    gate_stop(&model, tenant);
    gate_model_run(&model, 4 * S);
    assert_int_equal(model.fair.clients[1].lost_launches, 1);
    uint64_t charged_ns = model.fair.clients[1].charged_ns;
    assert_true(charged_ns < 2 * S);
    gate_continue(&model, tenant);
    gate_model_run(&model, 20 * MS);
    assert_int_equal(model.fair.clients[1].lost_launches, 0);
    assert_true(model.fair.clients[1].charged_ns > 2900 * MS && model.fair.clients[1].charged_ns < 3200 * MS);
    assert_true(share_milli(&model.tenants[0], 1 * S) > 850);
}

/* A process that was stopped right before it launched sends the launch to the device without a turn. */
static void test_a_launch_without_a_turn_counts_as_in_flight(void **state)
{
    begin_model(&facet_fair_queue, 1);
    stop_tenant(&model.tenants[1], true);
    gate_model_run(&model, 3 * S);
    assert_int_equal(model.fair.clients[1].gate, FACET_FAIR_CLOSED);
    assert_false(model.fair.clients[1].draining);
    model.tenants[1].stopped_ns = 0; /* the process shows a sign of life, and reports nothing yet */
    model.tenants[1].report_ns = model.now_ns + 10 * MS;
    gate_step(&model);
    assert_true(model.fair.clients[1].draining || model.fair.clients[1].gate != FACET_FAIR_CLOSED);
    gate_model_run(&model, 30 * MS);
    assert_false(model.fair.clients[1].lost_returned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stopped_client_takes_nothing),
        cmocka_unit_test(test_parallel_leases_are_not_held_back),
        cmocka_unit_test(test_a_client_that_continues_gets_one_turn_at_once),
        cmocka_unit_test(test_a_late_client_is_not_stopped),
        cmocka_unit_test(test_a_silent_client_with_a_long_kernel_keeps_its_launches),
        cmocka_unit_test(test_running_processes_of_a_client_count_beside_a_stopped_one),
        cmocka_unit_test(test_device_time_of_an_unknown_launch_is_charged),
        cmocka_unit_test(test_a_launch_without_a_turn_counts_as_in_flight),
    };
    return cmocka_run_group_tests_name("fair_stopped", tests, NULL, NULL);
}
