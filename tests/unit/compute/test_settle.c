/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs, in virtual time, that the published device time never exceeds the time that passed, and that no time of
 * work that overlaps no other work is lost. Never: uses real time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../../effort.h"
#include "compute/settle.h"
#include "device_model.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

/* ---- vGPUs that take turns on a modelled device ---- */

/* A tenant's measurement: from the start of its work to the end, including others' work on the device meanwhile. */
struct meter {
    uint64_t measured_ns, begun_ns, covered_ns, kernels;
};

static struct model model; /* too large for a stack */
static struct facet_settle settle;
static struct meter meters[MODEL_TENANTS];
static uint64_t measured_sum_ns;

static void begin_model(bool sharing)
{
    model_init(&model, &facet_fair_defaults);
    model.sharing = sharing;
    memset(meters, 0, sizeof meters);
    facet_settle_init(&settle, model.now_ns);
}

static struct model_tenant *add_tenant(uint32_t request_milli, uint64_t kernel_ns)
{
    const struct facet_limits limits = {.compute_request_milli = request_milli,
                                        .compute_limit_milli = 1000,
                                        .mode = FACET_MODE_SOFT,
                                        .priority = FACET_PRIORITY_NORMAL};
    struct model_tenant *tenant = model_add(&model, &limits, kernel_ns);

    facet_settle_add(&settle, model.count - 1, true, FACET_MILLI_WHOLE, &(struct facet_settled){0},
                     &(struct facet_settle_demand){0}, model.now_ns);
    return tenant;
}

/* Reports a kernel that ended at once, with the time since the last end or, if it is later, since work is in flight. */
static void measure_tenant(struct meter *meter, const struct model_tenant *tenant)
{
    if (tenant->kernels != meter->kernels) {
        meter->measured_ns += model.now_ns - meter->covered_ns;
        meter->covered_ns = model.now_ns;
        meter->kernels = tenant->kernels;
    }
    if (!tenant->inflight)
        meter->begun_ns = 0;
    else if (!meter->begun_ns)
        meter->begun_ns = meter->covered_ns = model.now_ns;
}

static uint64_t published_sum_ns(void)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < settle.clients_end; i++)
        sum += settle.clients[i].total.published_ns;
    return sum;
}

/* Steps right after the policy, as the scheduler does. No step may publish more time than passed since the last one. */
static void run_model(uint64_t duration_ns)
{
    for (uint64_t end_ns = model.now_ns + duration_ns; model.now_ns < end_ns;) {
        uint64_t stepped_ns = model.fair.last_ns, before_ns = published_sum_ns(), last_ns = settle.published_at_ns;

        model_run(&model, MODEL_STEP_NS);
        for (uint32_t i = 0; i < model.count; i++)
            measure_tenant(&meters[i], &model.tenants[i]);
        if (model.fair.last_ns == stepped_ns)
            continue;
        for (uint32_t i = 0; i < model.count; i++)
            settle.clients[i].demand =
                (struct facet_settle_demand){.measured_ns = meters[i].measured_ns,
                                             .begun_ns = meters[i].begun_ns,
                                             .charged_ns = model.fair.clients[model.tenants[i].client].timeline_ns};
        facet_settle_step(&settle, model.fair.last_ns);
        assert_true(published_sum_ns() - before_ns <= model.fair.last_ns - last_ns);
    }
    measured_sum_ns = 0;
    for (uint32_t i = 0; i < model.count; i++)
        measured_sum_ns += meters[i].measured_ns;
}

static void check_three_tenants(uint64_t kernel_ns, bool must_overlap)
{
    static const uint32_t requests[] = {500, 300, 200};

    begin_model(true);
    for (int i = 0; i < 3; i++)
        add_tenant(requests[i], kernel_ns);
    run_model(1 * S);
    uint64_t before_ns = published_sum_ns(), busy_ns = model.busy_ns, each_ns[3];
    uint64_t measured_before_ns = measured_sum_ns, begun_ns = model.now_ns;
    for (int i = 0; i < 3; i++)
        each_ns[i] = settle.clients[i].total.published_ns;
    run_model(10 * S);
    uint64_t got_ns = published_sum_ns() - before_ns, passed_ns = model.now_ns - begun_ns;
    if (must_overlap)
        assert_true(measured_sum_ns - measured_before_ns > passed_ns);
    assert_true(got_ns <= passed_ns + 100 * MS); /* up to 100 ms are of steps that began before */
    assert_true(got_ns >= (model.busy_ns - busy_ns) * 93 / 100);
    for (int i = 0; i < 3; i++) {
        uint64_t milli = (settle.clients[i].total.published_ns - each_ns[i]) * 1000 / got_ns;

        if (milli + 25 < requests[i] || milli > requests[i] + 25)
            fail_msg("kernels of %lu ns: %lu milli are published for a tenant whose request is %u", kernel_ns, milli,
                     requests[i]);
    }
}

static void test_published_sum_never_exceeds_the_time_that_passed(void **state)
{
    check_three_tenants(200 * US, true);
    check_three_tenants(1 * MS, true);
    check_three_tenants(10 * MS, false);
    check_three_tenants(50 * MS, false);
}

static void test_no_time_of_a_client_alone_is_lost(void **state)
{
    static const uint64_t gaps_ns[] = {0, 300 * US, 7 * MS};

    for (int i = 0; i < 3; i++) {
        begin_model(false);
        add_tenant(500, 1 * MS)->gap_ns = gaps_ns[i];
        run_model(3 * S);
        model.tenants[0].active_to_ns = 1; /* the tenant launches nothing more */
        run_model(200 * MS);
        assert_int_equal(meters[0].begun_ns, 0);
        assert_int_equal(settle.clients[0].total.settled_ns, meters[0].measured_ns);
        assert_int_equal(settle.clients[0].total.published_ns, meters[0].measured_ns);
    }
}

/* ---- clients whose demands the tests set, without a model ---- */

static struct facet_settle_client *client_at(uint32_t index)
{
    return &settle.clients[index];
}

static void add_client_without_model(uint32_t index, bool timed, uint32_t part_milli)
{
    facet_settle_add(&settle, index, timed, part_milli, &(struct facet_settled){0}, &(struct facet_settle_demand){0},
                     1 * S);
}

static void test_long_launch_is_published_as_time_passes(void **state)
{
    facet_settle_init(&settle, 1 * S);
    add_client_without_model(0, false, FACET_MILLI_WHOLE);
    client_at(0)->demand.begun_ns = 1 * S;
    for (uint64_t now_ns = 1 * S; now_ns <= 6 * S; now_ns += 25 * MS)
        facet_settle_step(&settle, now_ns);
    assert_int_equal(client_at(0)->total.published_ns, 0);
    client_at(0)->demand = (struct facet_settle_demand){.measured_ns = 5 * S};
    facet_settle_step(&settle, 6 * S + 1 * MS);
    assert_int_equal(client_at(0)->total.settled_ns, 5 * S);
    assert_int_equal(client_at(0)->total.published_ns, 1 * MS);
    for (uint64_t now_ns = 6 * S + 2 * MS; now_ns <= 12 * S; now_ns += 25 * MS)
        facet_settle_step(&settle, now_ns);
    assert_int_equal(client_at(0)->total.published_ns, 5 * S);
}

/* The measured time of small launches beside a long one is published at once. */
static void test_a_long_launch_delays_no_other_client(void **state)
{
    facet_settle_init(&settle, 1 * S);
    add_client_without_model(0, false, FACET_MILLI_WHOLE);
    add_client_without_model(1, false, FACET_MILLI_WHOLE);
    client_at(0)->demand.begun_ns = 1 * S;
    facet_settle_step(&settle, 3 * S);
    client_at(0)->demand = (struct facet_settle_demand){.measured_ns = 2 * S};
    for (uint64_t i = 1; i <= 100; i++) {
        client_at(1)->demand.measured_ns = i * 2 * MS;
        facet_settle_step(&settle, 3 * S + i * 10 * MS);
        assert_int_equal(client_at(1)->total.published_ns, i * 2 * MS);
        assert_int_equal(client_at(0)->total.published_ns, i * 8 * MS);
    }
}

static void test_clients_without_turns_share_by_measured_time(void **state)
{
    facet_settle_init(&settle, 1 * S);
    add_client_without_model(0, false, FACET_MILLI_WHOLE);
    add_client_without_model(1, false, FACET_MILLI_WHOLE);
    for (uint64_t i = 1; i <= 100; i++) {
        client_at(0)->demand.measured_ns = i * 10 * MS;
        client_at(1)->demand.measured_ns = i * 6 * MS;
        facet_settle_step(&settle, 1 * S + i * 10 * MS);
    }
    assert_in_range(client_at(0)->total.published_ns, 620 * MS, 630 * MS);
    assert_in_range(client_at(1)->total.published_ns, 370 * MS, 380 * MS);
}

static void test_part_of_a_device_counts_as_that_part(void **state)
{
    facet_settle_init(&settle, 1 * S);
    add_client_without_model(0, false, 500);
    add_client_without_model(1, false, 250);
    for (uint64_t i = 1; i <= 100; i++) {
        client_at(0)->demand.measured_ns = client_at(1)->demand.measured_ns = i * 10 * MS;
        facet_settle_step(&settle, 1 * S + i * 10 * MS);
    }
    assert_int_equal(client_at(0)->total.published_ns, 500 * MS);
    assert_int_equal(client_at(1)->total.published_ns, 250 * MS);
}

/* An idle lease is charged to its holder, but is no device time; nor can it be used up later. */
static void test_idle_lease_is_not_published(void **state)
{
    facet_settle_init(&settle, 1 * S);
    add_client_without_model(0, true, FACET_MILLI_WHOLE);
    client_at(0)->demand.charged_ns = 2 * S;
    facet_settle_step(&settle, 3 * S);
    assert_int_equal(client_at(0)->total.published_ns, 0);
    client_at(0)->demand.measured_ns = 500 * MS;
    client_at(0)->demand.charged_ns += 10 * MS;
    facet_settle_step(&settle, 3 * S + 10 * MS);
    assert_int_equal(client_at(0)->total.settled_ns, 10 * MS);
}

static void test_charge_that_is_taken_back_is_given_out_once(void **state)
{
    facet_settle_init(&settle, 1 * S);
    add_client_without_model(0, true, FACET_MILLI_WHOLE);
    client_at(0)->demand = (struct facet_settle_demand){.measured_ns = 4 * MS, .charged_ns = 4 * MS};
    facet_settle_step(&settle, 1 * S + 4 * MS);
    client_at(0)->demand = (struct facet_settle_demand){.measured_ns = 8 * MS, .charged_ns = 3 * MS};
    facet_settle_step(&settle, 1 * S + 8 * MS);
    client_at(0)->demand = (struct facet_settle_demand){.measured_ns = 12 * MS, .charged_ns = 6 * MS};
    facet_settle_step(&settle, 1 * S + 12 * MS);
    assert_int_equal(client_at(0)->total.settled_ns, 6 * MS);
}

static void test_new_scheduler_goes_on_where_the_last_one_was(void **state)
{
    const struct facet_settled before = {
        .at_ns = 2 * S, .measured_ns = 900 * MS, .settled_ns = 800 * MS, .published_ns = 790 * MS};
    /* For a second there was no scheduler. Each client measured most of it, and readers counted their parts. */
    const struct facet_settle_demand demands[] = {{.measured_ns = 1600 * MS, .claim_milli = 600},
                                                  {.measured_ns = 1600 * MS, .claim_milli = 400}};

    facet_settle_init(&settle, 3 * S);
    for (uint32_t i = 0; i < 2; i++)
        facet_settle_add(&settle, i, true, FACET_MILLI_WHOLE, &before, &demands[i], 3 * S);
    assert_int_equal(client_at(0)->total.settled_ns, 1400 * MS);
    assert_int_equal(client_at(1)->total.settled_ns, 1200 * MS);
    assert_int_equal(client_at(0)->total.published_ns, 1400 * MS);
    assert_int_equal(client_at(1)->total.published_ns, 1180 * MS); /* a second in all */
    for (uint64_t i = 1; i <= 30; i++) {
        uint64_t before_ns = published_sum_ns();

        facet_settle_step(&settle, 3 * S + i * MS);
        assert_true(published_sum_ns() - before_ns <= MS);
    }
    assert_int_equal(client_at(0)->total.published_ns, 1400 * MS);
    assert_int_equal(client_at(1)->total.published_ns, 1200 * MS);
}

/* What one client leaves of its part is for the others. */
static void test_parts_that_are_left_go_to_later_clients(void **state)
{
    const struct facet_settled before = {.at_ns = 2 * S};

    facet_settle_init(&settle, 3 * S);
    facet_settle_add(&settle, 0, false, FACET_MILLI_WHOLE, &before,
                     &(struct facet_settle_demand){.measured_ns = 100 * MS, .claim_milli = 500}, 3 * S);
    facet_settle_add(&settle, 1, false, FACET_MILLI_WHOLE, &before,
                     &(struct facet_settle_demand){.measured_ns = 1000 * MS, .claim_milli = 500}, 3 * S);
    assert_int_equal(client_at(0)->total.settled_ns, 100 * MS);
    assert_int_equal(client_at(1)->total.settled_ns, 900 * MS);
}

/* A scheduler of an earlier release gave no parts: the first clients have what they measured. */
static void test_without_parts_the_first_clients_have_the_time(void **state)
{
    const struct facet_settled before = {.at_ns = 2 * S};
    const struct facet_settle_demand demand = {.measured_ns = 700 * MS};

    facet_settle_init(&settle, 3 * S);
    for (uint32_t i = 0; i < 2; i++)
        facet_settle_add(&settle, i, false, FACET_MILLI_WHOLE, &before, &demand, 3 * S);
    assert_int_equal(client_at(0)->total.settled_ns, 700 * MS);
    assert_int_equal(client_at(1)->total.settled_ns, 300 * MS);
}

/*
 * A launch that was in flight without a scheduler is settled when it ends, together with the time measured beside it.
 */
static void test_launch_outlives_a_scheduler(void **state)
{
    const struct facet_settled before = {.at_ns = 2 * S, .measured_ns = 0, .settled_ns = 0};

    facet_settle_init(&settle, 4 * S);
    facet_settle_add(&settle, 0, false, FACET_MILLI_WHOLE, &before, &(struct facet_settle_demand){.begun_ns = 1 * S},
                     4 * S);
    facet_settle_add(&settle, 1, false, FACET_MILLI_WHOLE, &before,
                     &(struct facet_settle_demand){.measured_ns = 400 * MS}, 4 * S);
    assert_int_equal(client_at(1)->total.settled_ns, 400 * MS);
    client_at(0)->demand = (struct facet_settle_demand){.measured_ns = 1500 * MS};
    facet_settle_step(&settle, 4 * S + 100 * MS);
    assert_int_equal(client_at(0)->total.settled_ns, 1500 * MS);
    client_at(0)->demand.measured_ns = 3000 * MS;
    facet_settle_step(&settle, 4 * S + 200 * MS);
    assert_int_equal(client_at(0)->total.settled_ns, 1600 * MS);
}

/* The scheduler was stopped for a second. Readers counted each client's part meanwhile, and no number falls. */
static void test_a_late_step_settles_at_least_the_parts(void **state)
{
    facet_settle_init(&settle, 1 * S);
    for (uint32_t i = 0; i < 2; i++)
        add_client_without_model(i, true, FACET_MILLI_WHOLE);
    client_at(0)->demand = (struct facet_settle_demand){.measured_ns = 900 * MS, .claim_milli = 700};
    client_at(1)->demand =
        (struct facet_settle_demand){.measured_ns = 900 * MS, .charged_ns = 1 * S, .claim_milli = 300};
    facet_settle_step(&settle, 2 * S);
    assert_int_equal(client_at(0)->total.settled_ns, 700 * MS);
    assert_int_equal(client_at(1)->total.settled_ns, 300 * MS);
    for (uint32_t i = 0; i < 2; i++)
        client_at(i)->demand.measured_ns += 100 * MS;
    client_at(1)->demand.charged_ns += 100 * MS;
    facet_settle_step(&settle, 2 * S + 100 * MS); /* in time: the charges count, not the parts */
    assert_int_equal(client_at(0)->total.settled_ns, 700 * MS);
    assert_int_equal(client_at(1)->total.settled_ns, 400 * MS);
}

/* The new scheduler began before its first vGPU came. No time is published twice, as time without a scheduler and again
 * as the scheduler's own. */
static void test_time_before_the_first_client_is_given_out_once(void **state)
{
    const struct facet_settled before = {.at_ns = 1 * S};

    facet_settle_init(&settle, 2 * S);
    for (uint32_t i = 0; i < 2; i++)
        facet_settle_add(&settle, i, false, FACET_MILLI_WHOLE, &before,
                         &(struct facet_settle_demand){.measured_ns = 1 * S}, 3 * S);
    client_at(0)->demand.measured_ns = client_at(1)->demand.measured_ns = 3 * S;
    facet_settle_step(&settle, 3 * S + 100 * MS);
    assert_int_equal(client_at(0)->total.settled_ns + client_at(1)->total.settled_ns, 2 * S + 100 * MS);
    assert_true(published_sum_ns() <= 2 * S + 100 * MS);
}

/* Tenants may write any number. What is published for them never falls, and never exceeds the time that passed. */
static void test_absurd_numbers_are_bounded(void **state)
{
    static const uint64_t odd[] = {0, 1, MS, 1 * S, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX, 1 * S + 5};
    uint32_t random = 7;
    uint64_t before_ns = 0, each_ns[4] = {0}, now_ns = 1 * S;

    facet_settle_init(&settle, now_ns);
    for (uint32_t i = 0; i < 4; i++)
        add_client_without_model(i, i < 2, i == 3 ? 300 : FACET_MILLI_WHOLE);
    for (int step = 0; step < (int)effort(200000, 10000); step++) {
        random = random * 1664525u + 1013904223u;
        uint64_t passed_ns = (random >> 8) + 1;
        now_ns += passed_ns;
        for (uint32_t i = 0; i < 4; i++) {
            random = random * 1664525u + 1013904223u;
            client_at(i)->demand = (struct facet_settle_demand){.measured_ns = odd[random >> 29],
                                                                .begun_ns = odd[(random >> 26) & 7],
                                                                .charged_ns = odd[(random >> 23) & 7],
                                                                .claim_milli = (uint32_t)odd[(random >> 20) & 7]};
        }
        facet_settle_step(&settle, now_ns);
        assert_true(published_sum_ns() - before_ns <= passed_ns);
        before_ns = published_sum_ns();
        for (uint32_t i = 0; i < 4; i++) {
            assert_true(client_at(i)->total.published_ns >= each_ns[i]);
            assert_true(client_at(i)->total.published_ns <= client_at(i)->total.settled_ns);
            each_ns[i] = client_at(i)->total.published_ns;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_sum_never_exceeds_the_time_that_passed),
        cmocka_unit_test(test_no_time_of_a_client_alone_is_lost),
        cmocka_unit_test(test_long_launch_is_published_as_time_passes),
        cmocka_unit_test(test_a_long_launch_delays_no_other_client),
        cmocka_unit_test(test_clients_without_turns_share_by_measured_time),
        cmocka_unit_test(test_part_of_a_device_counts_as_that_part),
        cmocka_unit_test(test_idle_lease_is_not_published),
        cmocka_unit_test(test_charge_that_is_taken_back_is_given_out_once),
        cmocka_unit_test(test_new_scheduler_goes_on_where_the_last_one_was),
        cmocka_unit_test(test_launch_outlives_a_scheduler),
        cmocka_unit_test(test_parts_that_are_left_go_to_later_clients),
        cmocka_unit_test(test_without_parts_the_first_clients_have_the_time),
        cmocka_unit_test(test_a_late_step_settles_at_least_the_parts),
        cmocka_unit_test(test_time_before_the_first_client_is_given_out_once),
        cmocka_unit_test(test_absurd_numbers_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
