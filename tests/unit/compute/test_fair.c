/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the fair policy over a modelled device. Never: uses real time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device_model.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

static struct facet_limits limits_of(uint32_t request, uint32_t limit)
{
    struct facet_limits result = {.compute_request_milli = request,
                                  .compute_limit_milli = limit,
                                  .mode = FACET_MODE_SOFT,
                                  .priority = FACET_PRIORITY_NORMAL};
    return result;
}

static struct model_tenant *add_tenant(struct model *model, uint32_t request, uint64_t kernel_ns)
{
    struct facet_limits wanted = limits_of(request, 1000);
    return model_add(model, &wanted, kernel_ns);
}

static void assert_share(const struct model *model, uint32_t tenant, uint32_t expected, uint32_t tolerance)
{
    uint32_t share = model_share(model, &model->tenants[tenant]);

    if (share + tolerance < expected || share > expected + tolerance)
        fail_msg("tenant %u got %u milli, expected %u +- %u", tenant, share, expected, tolerance);
}

static void test_equal_kernels_get_the_requested_shares(void **state)
{
    static const uint64_t lengths[] = {100 * US, 1 * MS, 10 * MS, 50 * MS};

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct model model;

        model_init(&model, &facet_fair_defaults);
        add_tenant(&model, 500, lengths[i]);
        add_tenant(&model, 300, lengths[i]);
        add_tenant(&model, 200, lengths[i]);
        model_run(&model, 10 * S);
        assert_share(&model, 0, 500, 10);
        assert_share(&model, 1, 300, 10);
        assert_share(&model, 2, 200, 10);
        assert_true(model.busy_ns > 9 * S);
    }
}

static void test_long_kernels_get_no_larger_share(void **state)
{
    struct model model;

    model_init(&model, &facet_fair_defaults);
    add_tenant(&model, 500, 40 * MS);
    add_tenant(&model, 500, 100 * US);
    model_run(&model, 10 * S);
    assert_share(&model, 0, 500, 15);
}

static void test_second_long_kernel_does_not_stop_others(void **state)
{
    struct model model;

    model_init(&model, &facet_fair_defaults);
    model.sharing = true;
    add_tenant(&model, 500, 1 * S);
    add_tenant(&model, 500, 1 * MS);
    model_run(&model, 20 * S);
    assert_true(model.tenants[1].longest_wait_ns < 200 * MS);
    assert_share(&model, 0, 500, 60);
}

static void test_eight_equal_tenants_share_equally(void **state)
{
    struct model model;

    model_init(&model, &facet_fair_defaults);
    for (int i = 0; i < 8; i++)
        add_tenant(&model, 125, 500 * US);
    model_run(&model, 4 * S);
    for (uint32_t i = 0; i < 8; i++)
        assert_share(&model, i, 125, 5);
}

static void test_idle_share_goes_to_the_others(void **state)
{
    struct model model;

    model_init(&model, &facet_fair_defaults);
    add_tenant(&model, 500, 1 * MS)->active_to_ns = 1;
    add_tenant(&model, 300, 1 * MS);
    add_tenant(&model, 200, 1 * MS);
    model_run(&model, 5 * S);
    assert_share(&model, 1, 600, 10);
    assert_share(&model, 2, 400, 10);
    assert_true(model.busy_ns > 5 * S * 95 / 100);
}

static void test_idle_time_is_not_saved_up(void **state)
{
    struct model model;

    model_init(&model, &facet_fair_defaults);
    add_tenant(&model, 500, 1 * MS);
    add_tenant(&model, 500, 1 * MS)->active_from_ns = 5 * S;
    model_run(&model, 5 * S);
    uint64_t before = model.tenants[0].work_ns;
    model_run(&model, 1 * S);
    uint64_t during = model.tenants[0].work_ns - before;
    assert_true(during > 450 * MS && during < 550 * MS);
}

static void test_cap_holds_for_a_tenant_alone(void **state)
{
    struct model model;
    struct facet_limits capped = limits_of(300, 300);

    model_init(&model, &facet_fair_defaults);
    model_add(&model, &capped, 1 * MS);
    model_run(&model, 5 * S);
    assert_true(model.tenants[0].work_ns > 5 * S * 29 / 100);
    assert_true(model.tenants[0].work_ns < 5 * S * 31 / 100);
}

/* A kernel waits until its predecessor has ended, and until the cap has gained the predecessor's time. Any further wait
 * is short. */
static void test_cap_alone_makes_no_long_waits(void **state)
{
    static const uint64_t kernels_ns[] = {100 * US, 1 * MS, 20 * MS};
    static const uint32_t caps_milli[] = {100, 300, 500, 800};

    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 4; j++) {
            uint64_t own_ns = kernels_ns[i] * 1000 / caps_milli[j];
            struct facet_limits capped = limits_of(caps_milli[j], caps_milli[j]);
            struct model model;

            model_init(&model, &facet_fair_defaults);
            model_add(&model, &capped, kernels_ns[i]);
            model_run(&model, 1 * S); /* credit saved before is used up */
            model.tenants[0].longest_wait_ns = 0;
            model_run(&model, 4 * S);
            assert_true(model.tenants[0].longest_wait_ns < own_ns + 4 * MS);
            assert_true(model.tenants[0].work_ns > 5 * (uint64_t)caps_milli[j] * MS * 99 / 100);
            assert_true(model.tenants[0].work_ns < 5 * (uint64_t)caps_milli[j] * MS * 101 / 100 + 30 * MS);
        }
}

/* Work in flight may end only after the program's next launch. So the cap may not count all of that work forever. */
static void test_cap_admits_beside_work_that_does_not_end(void **state)
{
    struct facet_limits capped = limits_of(300, 300);
    struct facet_fair fair;

    facet_fair_init(&fair, &facet_fair_queue, 1 * S);
    int client = facet_fair_add(&fair, &capped);
    fair.clients[client].demand = (struct facet_fair_demand){.waiting = 1};
    facet_fair_step(&fair, 1 * S);
    assert_int_equal(fair.clients[client].gate, FACET_FAIR_LEASED);
    fair.clients[client].demand = (struct facet_fair_demand){.waiting = 1, .inflight = 1, .inflight_ns = 20 * MS};
    uint64_t again_ns = facet_fair_step(&fair, 1 * S + 1 * MS);
    for (int i = 0; i < 10 && fair.clients[client].gate == FACET_FAIR_CLOSED; i++)
        again_ns = facet_fair_step(&fair, again_ns);
    assert_int_equal(fair.clients[client].gate, FACET_FAIR_LEASED);
    assert_true(fair.last_ns > 1 * S + 20 * MS && fair.last_ns < 1 * S + 35 * MS);
}

static void test_cap_holds_against_an_idle_neighbour(void **state)
{
    struct model model;
    struct facet_limits capped = limits_of(200, 400);

    model_init(&model, &facet_fair_defaults);
    model_add(&model, &capped, 1 * MS);
    add_tenant(&model, 800, 1 * MS)->active_to_ns = 1;
    model_run(&model, 5 * S);
    assert_true(model.tenants[0].work_ns > 5 * S * 38 / 100);
    assert_true(model.tenants[0].work_ns < 5 * S * 41 / 100);
}

static void test_best_effort_shares_the_rest_of_the_guarantees(void **state)
{
    struct model model;

    model_init(&model, &facet_fair_defaults);
    add_tenant(&model, 600, 1 * MS);
    add_tenant(&model, 0, 1 * MS);
    add_tenant(&model, 0, 1 * MS);
    model_run(&model, 5 * S);
    assert_share(&model, 0, 600, 10);
    assert_share(&model, 1, 200, 10);
    assert_share(&model, 2, 200, 10);
}

/* A client that is idle, and one that stopped wanting time, take nothing from a client that wants some. */
static void test_idle_best_effort_takes_no_part(void **state)
{
    static const struct facet_fair_config *const configs[] = {&facet_fair_defaults, &facet_fair_queue};

    for (size_t i = 0; i < 2; i++) {
        struct model model;

        model_init(&model, configs[i]);
        add_tenant(&model, 300, 1 * MS);
        add_tenant(&model, 0, 1 * MS);
        add_tenant(&model, 0, 1 * MS)->active_to_ns = 1;
        add_tenant(&model, 0, 1 * MS)->active_to_ns = 200 * MS;
        model_run(&model, 10 * S);
        assert_share(&model, 0, 300, 15);
        assert_share(&model, 1, 695, 15);
    }
}

static void test_requests_above_the_whole_are_weights(void **state)
{
    struct model model;

    model_init(&model, &facet_fair_defaults);
    add_tenant(&model, 1000, 1 * MS);
    add_tenant(&model, 500, 1 * MS);
    model_run(&model, 5 * S);
    assert_share(&model, 0, 667, 10);
}

/* Kernels of 0.5 ms with gaps of 1 ms: the first tenant wants more than its guarantee. */
static struct model_tenant *run_first_beside_two(struct model *model, uint32_t priority)
{
    struct facet_limits wanted = limits_of(200, 1000);

    wanted.priority = priority;
    model_init(model, &facet_fair_defaults);
    struct model_tenant *first = model_add(model, &wanted, 500 * US);
    first->gap_ns = 1 * MS;
    add_tenant(model, 400, 2 * MS);
    add_tenant(model, 400, 2 * MS);
    model_run(model, 10 * S);
    return first;
}

static void test_a_high_priority_waits_less_and_takes_no_more(void **state)
{
    struct model model, plain;
    struct model_tenant *high = run_first_beside_two(&model, FACET_PRIORITY_HIGH);
    struct model_tenant *normal = run_first_beside_two(&plain, FACET_PRIORITY_NORMAL);

    assert_true(high->waited_ns / (high->kernels + 1) <= normal->waited_ns / (normal->kernels + 1));
    assert_true(high->longest_wait_ns <= normal->longest_wait_ns);
    assert_true(model_share(&model, &model.tenants[1]) >= 395);
}

static void test_a_tenant_alone_gets_the_whole_device(void **state)
{
    struct model model;

    model_init(&model, &facet_fair_defaults);
    add_tenant(&model, 300, 1 * MS);
    model_run(&model, 100 * MS);
    assert_int_equal(model.fair.clients[0].gate, FACET_FAIR_OPEN);
    add_tenant(&model, 300, 1 * MS);
    model_run(&model, 100 * MS);
    assert_int_not_equal(model.fair.clients[0].gate, FACET_FAIR_OPEN);
    assert_true(model.tenants[1].kernels > 20);
}

static void test_a_frozen_tenant_stops_and_resumes(void **state)
{
    struct model model;

    model_init(&model, &facet_fair_defaults);
    add_tenant(&model, 500, 1 * MS);
    model_run(&model, 100 * MS);
    facet_fair_set_frozen(&model.fair, 0, true);
    model.needs_step = true;
    model_run(&model, 100 * MS);
    uint64_t frozen_at = model.tenants[0].work_ns;
    model_run(&model, 100 * MS);
    assert_int_equal(model.tenants[0].work_ns, frozen_at);
    facet_fair_set_frozen(&model.fair, 0, false);
    model.needs_step = true;
    model_run(&model, 100 * MS);
    assert_true(model.tenants[0].work_ns > frozen_at + 90 * MS);
}

static void test_new_limits_change_shares(void **state)
{
    struct model model;

    model_init(&model, &facet_fair_defaults);
    add_tenant(&model, 500, 1 * MS);
    add_tenant(&model, 500, 1 * MS);
    model_run(&model, 1 * S);
    struct facet_limits more = limits_of(900, 1000), less = limits_of(100, 1000);
    facet_fair_set_limits(&model.fair, 0, &more);
    facet_fair_set_limits(&model.fair, 1, &less);
    uint64_t before = model.tenants[0].work_ns;
    model_run(&model, 2 * S);
    uint64_t got = model.tenants[0].work_ns - before;
    assert_true(got > 2 * S * 88 / 100 && got < 2 * S * 92 / 100);
}

static void test_parallel_leases_keep_shares(void **state)
{
    struct facet_fair_config config = facet_fair_defaults;
    struct model model;

    config.parallel = 8;
    model_init(&model, &config);
    model.sharing = true;
    add_tenant(&model, 500, 1 * MS);
    add_tenant(&model, 300, 1 * MS);
    add_tenant(&model, 200, 1 * MS);
    model_run(&model, 10 * S);
    assert_share(&model, 0, 500, 20);
    assert_share(&model, 1, 300, 20);
    assert_share(&model, 2, 200, 20);
}

static void test_sync_tenant_with_gaps_keeps_up(void **state)
{
    struct model model;

    model_init(&model, &facet_fair_defaults);
    add_tenant(&model, 500, 1 * MS)->gap_ns = 30 * US;
    add_tenant(&model, 500, 1 * MS);
    model_run(&model, 5 * S);
    assert_share(&model, 0, 490, 25);
}

static void test_waits_of_three_tenants_are_bounded(void **state)
{
    struct model model;

    model_init(&model, &facet_fair_defaults);
    add_tenant(&model, 500, 500 * US);
    add_tenant(&model, 300, 500 * US);
    add_tenant(&model, 200, 500 * US);
    model_run(&model, 5 * S);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(model.tenants[i].longest_wait_ns < 25 * MS);
}

/* Under a policy that admits early (`queue`), an admitted client learns when the other client's work ended. */
static void check_end_of_others_is_learned(const struct facet_fair_config *config, uint64_t ended_ns, bool queue)
{
    const struct facet_limits half = limits_of(500, 1000);
    struct facet_fair fair;

    facet_fair_init(&fair, config, 1 * S);
    int first = facet_fair_add(&fair, &half), second = facet_fair_add(&fair, &half);
    fair.clients[first].demand.waiting = 1;
    facet_fair_step(&fair, 1 * S);
    assert_int_not_equal(fair.clients[first].gate, FACET_FAIR_CLOSED);
    assert_int_equal(facet_fair_others_ended_ns(&fair, first), 0); /* no other client existed before */
    fair.clients[first].demand = (struct facet_fair_demand){.inflight = 1, .inflight_ns = 2 * MS};
    fair.clients[second].demand.waiting = 1;
    for (uint64_t now_ns = 1 * S; now_ns < 1 * S + 1900 * US; now_ns += 100 * US)
        facet_fair_step(&fair, now_ns);
    if (queue)
        assert_int_equal(fair.clients[second].gate, FACET_FAIR_LEASED);
    assert_int_equal(facet_fair_others_ended_ns(&fair, second), queue ? 1 : 0); /* 1: still on the device */
    fair.clients[first].demand = (struct facet_fair_demand){.idle_since_ns = ended_ns, .waiting = 1};
    fair.clients[second].demand = (struct facet_fair_demand){.inflight = 1, .inflight_ns = 1 * MS};
    facet_fair_step(&fair, 1 * S + 2100 * US);
    if (queue)
        assert_int_equal(facet_fair_others_ended_ns(&fair, second), ended_ns);
}

static void test_a_client_admitted_early_learns_when_the_device_is_idle(void **state)
{
    check_end_of_others_is_learned(&facet_fair_queue, 1 * S + 2000 * US, true);
    check_end_of_others_is_learned(&facet_fair_queue, 1 * S + 2000 * US + 1, true);
    check_end_of_others_is_learned(&facet_fair_defaults, 1 * S + 2000 * US, false);
}

/* The time of a hand-over is hidden behind the end of the drain, and shares stay as they were. */
static void test_early_handover_keeps_the_device_busy(void **state)
{
    static const uint32_t requests[] = {500, 300, 200};
    struct facet_fair_config config = facet_fair_defaults;
    uint64_t busy[2];

    for (int early = 0; early < 2; early++) {
        struct model model;

        config.handover_ns = early ? 500 * US : 0;
        model_init(&model, &config);
        for (int i = 0; i < 3; i++)
            add_tenant(&model, requests[i], 1 * MS)->reaction_ns = 500 * US;
        model_run(&model, 5 * S);
        busy[early] = model.busy_ns;
        for (uint32_t i = 0; i < 3; i++)
            assert_share(&model, i, requests[i], 15);
    }
    assert_true(busy[0] < 5 * S * 90 / 100);
    assert_true(busy[1] > 5 * S * 97 / 100);
}

static void test_clients_are_bounded_and_reused(void **state)
{
    struct facet_fair fair;
    struct facet_limits wanted = limits_of(1, 1000);

    facet_fair_init(&fair, &facet_fair_defaults, 0);
    for (uint32_t i = 0; i < FACET_FAIR_CLIENTS; i++)
        assert_int_equal(facet_fair_add(&fair, &wanted), (int)i);
    assert_int_equal(facet_fair_add(&fair, &wanted), -1);
    facet_fair_remove(&fair, 7);
    assert_int_equal(facet_fair_add(&fair, &wanted), 7);
}

static void test_fallback_is_the_guarantee_or_a_part_of_the_rest(void **state)
{
    struct facet_fair fair;
    struct facet_limits guaranteed = limits_of(300, 1000), best_effort = limits_of(0, 1000), small = limits_of(0, 50);

    facet_fair_init(&fair, &facet_fair_defaults, 0);
    int first = facet_fair_add(&fair, &guaranteed);
    int second = facet_fair_add(&fair, &best_effort);
    int third = facet_fair_add(&fair, &small);
    assert_int_equal(facet_fair_fallback_milli(&fair, first), 300);
    assert_int_equal(facet_fair_fallback_milli(&fair, second), 350);
    assert_int_equal(facet_fair_fallback_milli(&fair, third), 50);
}

static void test_clock_going_back_is_harmless(void **state)
{
    struct model model;

    model_init(&model, &facet_fair_defaults);
    add_tenant(&model, 500, 1 * MS);
    model_run(&model, 10 * MS);
    uint64_t held = model.fair.clients[0].charged_ns;
    facet_fair_step(&model.fair, 5);
    assert_int_equal(model.fair.clients[0].charged_ns, held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_kernels_get_the_requested_shares),
        cmocka_unit_test(test_long_kernels_get_no_larger_share),
        cmocka_unit_test(test_second_long_kernel_does_not_stop_others),
        cmocka_unit_test(test_eight_equal_tenants_share_equally),
        cmocka_unit_test(test_idle_share_goes_to_the_others),
        cmocka_unit_test(test_idle_time_is_not_saved_up),
        cmocka_unit_test(test_cap_holds_for_a_tenant_alone),
        cmocka_unit_test(test_cap_alone_makes_no_long_waits),
        cmocka_unit_test(test_cap_admits_beside_work_that_does_not_end),
        cmocka_unit_test(test_cap_holds_against_an_idle_neighbour),
        cmocka_unit_test(test_best_effort_shares_the_rest_of_the_guarantees),
        cmocka_unit_test(test_idle_best_effort_takes_no_part),
        cmocka_unit_test(test_requests_above_the_whole_are_weights),
        cmocka_unit_test(test_a_high_priority_waits_less_and_takes_no_more),
        cmocka_unit_test(test_a_tenant_alone_gets_the_whole_device),
        cmocka_unit_test(test_a_frozen_tenant_stops_and_resumes),
        cmocka_unit_test(test_new_limits_change_shares),
        cmocka_unit_test(test_parallel_leases_keep_shares),
        cmocka_unit_test(test_sync_tenant_with_gaps_keeps_up),
        cmocka_unit_test(test_waits_of_three_tenants_are_bounded),
        cmocka_unit_test(test_a_client_admitted_early_learns_when_the_device_is_idle),
        cmocka_unit_test(test_early_handover_keeps_the_device_busy),
        cmocka_unit_test(test_clients_are_bounded_and_reused),
        cmocka_unit_test(test_fallback_is_the_guarantee_or_a_part_of_the_rest),
        cmocka_unit_test(test_clock_going_back_is_harmless),
    };
    return cmocka_run_group_tests_name("fair", tests, NULL, NULL);
}
