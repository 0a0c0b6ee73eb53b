/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the model's arithmetic, for the smallest and largest numbers and against exact formulas. */
#include "model.h"

#include "sim_world.h"

static const struct sim_model model = {
    .compute_units = 100,
    .groups_per_unit = 4,
    .clock_mhz = 1000,
    .clock_low_mhz = 250,
    .memory_bytes = UINT64_C(1) << 30,
    .bandwidth_mbps = 1000000,
    .idle_mw = 50000,
    .peak_mw = 450000,
    .limit_mw = 250000,
    .ambient_mc = 30000,
    .limit_mc = 80000,
    .heat_mc_per_w = 100,
    .heat_time_ns = 1000000,
    .page_bytes = 4096,
};
static const struct sim_device_part whole = {.units = 100, .bandwidth_mbps = 1000000};

static void waves_fill_units_with_their_resident_groups(void **state)
{
    const struct sim_kernel kernel = {.cycles_per_group = 3000};
    (void)state;

    assert_int_equal(sim_model_solo_time(&model, &whole, 1000, &kernel, 1).total_ns, 3000);
    assert_int_equal(sim_model_solo_time(&model, &whole, 1000, &kernel, 400).total_ns, 3000);
    assert_int_equal(sim_model_solo_time(&model, &whole, 1000, &kernel, 401).total_ns, 6000);
    assert_int_equal(sim_model_solo_time(&model, &whole, 250, &kernel, 401).total_ns, 24000);
    assert_int_equal(sim_model_solo_time(&model, &whole, 700, &kernel, 1).total_ns, 4286); /* rounded up */
    assert_int_equal(sim_model_solo_time(&model, &whole, 1000, &kernel, 50).units, 50);
}

static void the_longer_side_of_the_roofline_counts(void **state)
{
    const struct sim_kernel kernel = {.cycles_per_group = 1000, .bytes_per_group = 20000};
    (void)state;

    assert_int_equal(sim_model_solo_time(&model, &whole, 1000, &kernel, 40).total_ns, 1000);
    assert_int_equal(sim_model_solo_time(&model, &whole, 1000, &kernel, 60).total_ns, 1200);
    assert_int_equal(sim_model_solo_time(&model, &whole, 1000, &kernel, 60).memory_ns, 1200);
}

static void the_largest_numbers_do_not_overflow(void **state)
{
    const struct sim_kernel kernel = {.cycles_per_group = SIM_COST_MAX, .bytes_per_group = SIM_COST_MAX};
    const struct sim_kernel none = {0};
    const struct sim_device_part one = {.units = 1, .bandwidth_mbps = 1};
    (void)state;
    struct sim_solo_time alone = sim_model_solo_time(&model, &one, 1, &kernel, SIM_GROUPS_MAX);
    struct sim_demand demand = {.slots = UINT64_MAX, .bandwidth = UINT64_MAX};

    assert_int_equal(alone.total_ns, SIM_TIME_MAX);
    assert_int_equal(sim_model_shared_ns(&model, &one, &demand, &alone, UINT32_MAX - 1), SIM_TIME_MAX);
    assert_int_equal(sim_model_solo_time(&model, &one, 1, &none, 1).total_ns, 1);
    assert_int_equal(sim_model_remaining_ns(SIM_WHOLE_WORK, SIM_NEVER), SIM_NEVER);
    assert_int_equal(sim_model_progress(SIM_WHOLE_WORK, UINT64_MAX, SIM_NEVER), SIM_WHOLE_WORK);
    assert_int_equal(sim_model_progress(SIM_WHOLE_WORK, UINT64_MAX, 1), 0);
}

/* However a kernel's time is cut into pieces, it ends at the same time. */
static void pieces_of_a_kernel_take_the_whole_time(void **state)
{
    (void)state;
    for (uint64_t total = 1; total < 2000000; total = total * 3 + 1) {
        uint64_t remaining = SIM_WHOLE_WORK, at = 0;

        assert_int_equal(sim_model_remaining_ns(SIM_WHOLE_WORK, total), total);
        for (uint64_t step = 1; at + step < total && step < 500; step++) {
            remaining = sim_model_progress(remaining, step, total);
            at += step;
            assert_int_equal(sim_model_remaining_ns(remaining, total), total - at);
        }
        assert_int_equal(sim_model_progress(remaining, total - at, total), 0);
    }
}

static void sharing_slows_down_in_proportion(void **state)
{
    const struct sim_solo_time alone = {.total_ns = 900, .slots = 400};
    struct sim_demand demand = {.slots = 400};
    (void)state;

    assert_int_equal(sim_model_shared_ns(&model, &whole, &demand, &alone, 1000), 900);
    demand.slots = 1200;
    assert_int_equal(sim_model_shared_ns(&model, &whole, &demand, &alone, 1000), 2700);
    assert_int_equal(sim_model_shared_ns(&model, &whole, &demand, &alone, 2000), 5400);
    demand.bandwidth = 5 * SIM_FULL_SHARE;
    assert_int_equal(sim_model_shared_ns(&model, &whole, &demand, &alone, 1000), 4500);
    assert_int_equal(sim_model_shared_ns(&model, &whole, &demand, &alone, UINT32_MAX), SIM_NEVER);
}

static void bandwidth_follows_units_or_the_partitions_memory(void **state)
{
    struct sim_share share = {.memory_bytes = UINT64_C(1) << 28, .compute_units = 50};
    (void)state;

    assert_int_equal(sim_model_device_part(&model, &share).bandwidth_mbps, 500000);
    snprintf(share.partition_uuid, sizeof share.partition_uuid, "p");
    assert_int_equal(sim_model_device_part(&model, &share).bandwidth_mbps, 250000);
    assert_int_equal(sim_model_device_part(&model, &share).units, 50);
}

static void power_above_the_limit_lowers_the_clock(void **state)
{
    uint32_t throttle;
    (void)state;

    assert_int_equal(sim_model_clock_mhz(&model, 50, false, &throttle), 1000);
    assert_int_equal(throttle, 0);
    assert_int_equal(sim_model_clock_mhz(&model, 100, false, &throttle), 500);
    assert_int_equal(throttle, FACET_THROTTLE_POWER);
    assert_int_equal(sim_model_power_mw(&model, 100, 500), 250000);
    assert_int_equal(sim_model_clock_mhz(&model, 100, true, &throttle), 250);
    assert_int_equal(throttle, FACET_THROTTLE_POWER | FACET_THROTTLE_THERMAL);
    assert_int_equal(sim_model_power_mw(&model, 0, 1000), 50000);
}

/*
 * After 1 time constant 1/e of the difference is left (0.367879441), and after 10 time constants 0.0000454. Both are
 * checked to a millionth of the difference.
 */
static void heat_follows_one_time_constant(void **state)
{
    const int64_t span = INT64_C(1000000000);
    (void)state;

    assert_int_equal(sim_model_steady_uc(&model, 250000), 30000000 + 20000000);
    assert_int_equal(sim_model_steady_uc(&model, 0), 30000000);
    assert_in_range(sim_model_temperature_uc(&model, span, 0, 1000000), 367879441 - 1000, 367879441 + 1000);
    assert_in_range(sim_model_temperature_uc(&model, 0, span, 1000000), 632120559 - 1000, 632120559 + 1000);
    assert_in_range(sim_model_temperature_uc(&model, span, 0, 10000000), 45400 - 1000, 45400 + 1000);
    assert_int_equal(sim_model_temperature_uc(&model, span, 0, 0), span);
    assert_int_equal(sim_model_temperature_uc(&model, span, 0, UINT64_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waves_fill_units_with_their_resident_groups),
        cmocka_unit_test(the_longer_side_of_the_roofline_counts),
        cmocka_unit_test(the_largest_numbers_do_not_overflow),
        cmocka_unit_test(pieces_of_a_kernel_take_the_whole_time),
        cmocka_unit_test(sharing_slows_down_in_proportion),
        cmocka_unit_test(bandwidth_follows_units_or_the_partitions_memory),
        cmocka_unit_test(power_above_the_limit_lowers_the_clock),
        cmocka_unit_test(heat_follows_one_time_constant),
    };

    return cmocka_run_group_tests_name("sim model", tests, NULL, NULL);
}
