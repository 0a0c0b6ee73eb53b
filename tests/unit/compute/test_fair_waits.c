/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs, in virtual time, of how long launches wait under the fair policy. Beside other tenants, at most one
 * launch in a hundred waits 5 ms if no kernel is longer than 1 ms. Never: uses real time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gate_model.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

#define WAIT_MOST_NS (5 * MS)

struct mix {
    const char *name;
    uint64_t kernels_ns[GATE_KERNELS];
    uint32_t launches_ahead;
};

static const struct mix mixes[] = {
    {"5 us", {5 * US}, 64},     {"100 us", {100 * US}, 16},
    {"500 us", {500 * US}, 16}, {"700 us", {700 * US}, 16},
    {"1 ms", {1 * MS}, 8},      {"5 us, 100 us, 1 ms in turn", {5 * US, 100 * US, 1 * MS}, 32},
};
#define MIXES   (sizeof mixes / sizeof mixes[0])
#define MIX_1MS (&mixes[4])

static struct gate_model model; /* too large for a stack */

/* Runs a second to settle, and then the part that is measured. */
static void run_model(const uint32_t *requests, bool capped, const struct mix *mix)
{
    gate_model_init(&model, &facet_fair_queue);
    for (uint32_t i = 0; requests[i]; i++) {
        struct facet_limits limits = {.compute_request_milli = requests[i],
                                      .compute_limit_milli = capped ? requests[i] : 1000,
                                      .mode = FACET_MODE_SOFT,
                                      .priority = FACET_PRIORITY_NORMAL};

        gate_model_add(&model, &limits, mix->kernels_ns, mix->launches_ahead);
    }
    gate_model_run(&model, 1 * S);
    gate_model_forget(&model);
    gate_model_run(&model, 4 * S);
}

static void assert_waits_and_shares(const uint32_t *requests, const struct mix *mix)
{
    for (uint32_t i = 0; i < model.count; i++) {
        const struct gate_tenant *tenant = &model.tenants[i];
        uint64_t share = gate_work_ns(tenant) * 1000 / (4 * S), wait_ns = gate_p99_ns(tenant);

        if (wait_ns >= WAIT_MOST_NS)
            fail_msg("%s: one launch of tenant %u in a hundred waits %.2f ms", mix->name, i, (double)wait_ns / 1e6);
        if (share + 10 < requests[i] || share > requests[i] + 10)
            fail_msg("%s: tenant %u got %lu milli, expected %u +- 10", mix->name, i, share, requests[i]);
    }
}

static void assert_waits_and_shares_of_all_mixes(const uint32_t *requests)
{
    for (size_t i = 0; i < MIXES; i++)
        for (int capped = 0; capped < 2; capped++) {
            run_model(requests, capped, &mixes[i]);
            assert_waits_and_shares(requests, &mixes[i]);
        }
}

static void test_four_quarters_get_their_shares(void **state)
{
    static const uint32_t requests[] = {250, 250, 250, 250, 0};

    assert_waits_and_shares_of_all_mixes(requests);
}

static void test_three_tenths_and_seven_get_their_shares(void **state)
{
    static const uint32_t requests[] = {300, 700, 0};

    assert_waits_and_shares_of_all_mixes(requests);
}

/* A launch waits at most once for each of the other tenants' kernels, although each is longer than a turn. */
static void test_long_kernels_are_waited_for_once(void **state)
{
    static const uint32_t requests[] = {250, 250, 250, 250, 0};
    static const struct mix mix = {"20 ms", {20 * MS}, 2};

    run_model(requests, false, &mix);
    for (uint32_t i = 0; i < model.count; i++)
        assert_true(model.tenants[i].longest_wait_ns < 4 * 20 * MS + 1 * MS);
}

/* A client that waits with enough credit of its cap sets no deadline: the step would change nothing. */
static void test_a_client_that_waits_behind_others_costs_no_steps(void **state)
{
    static const uint32_t requests[] = {300, 700, 0};

    run_model(requests, true, MIX_1MS);
    assert_true(model.steps < 5000 * 5 * 2); /* fewer than 10000 steps in each of the 5 s */
}

/* A cap makes each launch wait as long as one kernel's length demands. It never admits two at once because the first is
 * not charged yet: the third would then wait for both. */
static void test_launches_under_a_cap_wait_evenly(void **state)
{
    static const uint32_t caps[][2] = {{100, 0}, {300, 0}, {500, 0}, {800, 0}};
    static const struct mix lengths[] = {{"2 ms", {2 * MS}, 1}, {"6 ms", {6 * MS}, 1}, {"20 ms", {20 * MS}, 1}};

    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++)
        for (size_t j = 0; j < sizeof lengths / sizeof lengths[0]; j++) {
            uint64_t own_ns = lengths[j].kernels_ns[0] * (1000 - caps[i][0]) / caps[i][0];

            run_model(caps[i], true, &lengths[j]);
            if (model.tenants[0].longest_wait_ns > own_ns + 1 * MS)
                fail_msg("%s at a cap of %u milli: a launch waits %.2f ms, expected at most %.2f + 1", lengths[j].name,
                         caps[i][0], (double)model.tenants[0].longest_wait_ns / 1e6, (double)own_ns / 1e6);
            assert_true(gate_work_ns(&model.tenants[0]) * 1000 / (4 * S) + 10 >= caps[i][0]);
        }
}

static void add_limited(uint32_t request, uint32_t limit, const struct mix *mix)
{
    struct facet_limits limits = {.compute_request_milli = request,
                                  .compute_limit_milli = limit,
                                  .mode = FACET_MODE_SOFT,
                                  .priority = FACET_PRIORITY_NORMAL};

    gate_model_add(&model, &limits, mix->kernels_ns, mix->launches_ahead);
}

/* A tenant's cap allows work again when the other tenant's work ends, and the tenant runs right then. A later turn
 * would begin with an idle device, or belong to the other tenant. */
static void test_cap_counts_the_credit_gained_behind_others(void **state)
{
    gate_model_init(&model, &facet_fair_queue);
    add_limited(300, 280, MIX_1MS);
    add_limited(700, 1000, MIX_1MS);
    gate_model_run(&model, 1 * S);
    gate_model_forget(&model);
    gate_model_run(&model, 4 * S);
    assert_true(gate_p99_ns(&model.tenants[0]) < WAIT_MOST_NS);
    assert_true(gate_work_ns(&model.tenants[0]) > 270 * 4 * MS && gate_work_ns(&model.tenants[0]) < 290 * 4 * MS);
    assert_true(gate_work_ns(&model.tenants[1]) > 710 * 4 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_quarters_get_their_shares),
        cmocka_unit_test(test_three_tenths_and_seven_get_their_shares),
        cmocka_unit_test(test_long_kernels_are_waited_for_once),
        cmocka_unit_test(test_a_client_that_waits_behind_others_costs_no_steps),
        cmocka_unit_test(test_launches_under_a_cap_wait_evenly),
        cmocka_unit_test(test_cap_counts_the_credit_gained_behind_others),
    };
    return cmocka_run_group_tests_name("fair_waits", tests, NULL, NULL);
}
