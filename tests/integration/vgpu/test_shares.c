/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the proof that policies, shares, bounds and scaling decide the use of the device `cpu`, and that changes while
 * kernels run affect those kernels. vGPUs are compared by the device time that each got. Never: asserts how long
 * anything takes, or only the values of settings. */
#include "device_time.h"

static int set_up_with_units(const char *units, void **state)
{
    setenv("FACET_CPU_UNITS", units, 1);
    int failed = world_set_up(state);
    unsetenv("FACET_CPU_UNITS");
    return failed;
}

static int one_unit(void **state)
{
    return set_up_with_units("1", state);
}

static int two_units(void **state)
{
    return set_up_with_units("2", state);
}

/* Endless work of the vGPUs 1, 2, ... Each joins by enter_contest(), which says how many rounds its
 * work-groups take. */
struct contest {
    uint32_t count;
    struct facet_kernel *kernels[MEASURED_VGPUS];
};

static void enter_contest(struct contest *contest, uint64_t rounds)
{
    uint32_t id = ++contest->count;
    struct facet_kernel *burn = vgpu_kernel(id, "burn", vgpu_memory(id, 8), rounds);
    uint64_t execution = vgpu_launch(id, 0, burn, ENDLESS_GROUPS);

    contest->kernels[id - 1] = burn;
    if (id == 1) /* by some policies later vGPUs have to wait */
        assert_true(wait_for_status(id, execution, FACET_EXECUTION_RUNNING));
}

static void end_contest(struct contest *contest)
{
    for (uint32_t i = 0; i < contest->count; i++) {
        OK(facet_vgpu_destroy(world.driver, i + 1, ERROR));
        facet_kernel_destroy(contest->kernels[i]);
    }
}

static void make_with_share(uint32_t id, uint32_t request_milli, uint32_t limit_milli)
{
    struct facet_vgpu_config config = vgpu_config(id);

    config.request_milli = request_milli;
    config.limit_milli = limit_milli;
    OK(facet_vgpu_create(world.driver, &config, NULL, ERROR));
}

/* ---- policies ---- */

/*
 * The first asked for three times as much, the second has the higher priority: fair gives three to one, round_robin one
 * to one, priority all to the second, fifo all to the first. The policy changes while both run.
 */
static void each_policy_divides_in_its_own_way(void **state)
{
    static const struct {
        const char *name;
        uint32_t policy, least_percent, most_percent;
    } cases[] = {
        {"fair", FACET_SCHEDULE_FAIR, 69, 81},       {"round_robin", FACET_SCHEDULE_ROUND_ROBIN, 43, 57},
        {"priority", FACET_SCHEDULE_PRIORITY, 0, 3}, {"fifo", FACET_SCHEDULE_FIFO, 97, 100},
        {"fair again", FACET_SCHEDULE_FAIR, 69, 81},
    };
    struct contest contest = {0};

    make_with_share(1, 750, 0);
    make_with_share(2, 250, 0);
    OK(facet_vgpu_set_priority(world.driver, 2, FACET_PRIORITY_HIGH, ERROR));
    enter_contest(&contest, 2000);
    enter_contest(&contest, 2000);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OK(facet_driver_set_policy(world.driver, 0, cases[i].policy, true, 0, ERROR));
        expect_percent_of_first(2, cases[i].least_percent, cases[i].most_percent, cases[i].name);
    }
    OK(facet_driver_set_policy(world.driver, 0, FACET_SCHEDULE_PRIORITY, true, 0, ERROR));
    OK(facet_vgpu_set_priority(world.driver, 2, FACET_PRIORITY_NORMAL, ERROR));
    expect_percent_of_first(2, 69, 81, "priority, among equals");
    OK(facet_vgpu_set_priority(world.driver, 1, FACET_PRIORITY_HIGH, ERROR));
    expect_percent_of_first(2, 97, 100, "priority of the first");
    end_contest(&contest);
}

/* To round_robin a long and a short work-group are one turn each; fair compares their times. */
static void turns_are_not_time(void **state)
{
    struct contest contest = {0};

    make_with_share(1, 500, 0);
    make_with_share(2, 500, 0);
    enter_contest(&contest, 4000000);
    enter_contest(&contest, 1000);
    expect_percent_of_first(2, 40, 60, "fair");
    OK(facet_driver_set_policy(world.driver, 0, FACET_SCHEDULE_ROUND_ROBIN, true, 0, ERROR));
    expect_percent_of_first(2, 75, 100, "round_robin");
    end_contest(&contest);
}

/* Two vGPUs share one unit, because a second unit could be free for the late vGPU. With preemption the policy decides
 * whether the late vGPU runs; without preemption it waits. */
static void policies_decide_whether_a_late_vgpu_gets_in(void **state)
{
    static const struct {
        uint32_t policy, priority;
        bool preempt, gets_in;
    } cases[] = {
        {FACET_SCHEDULE_FAIR, FACET_PRIORITY_NORMAL, true, true},
        {FACET_SCHEDULE_ROUND_ROBIN, FACET_PRIORITY_NORMAL, true, true},
        {FACET_SCHEDULE_PRIORITY, FACET_PRIORITY_HIGH, true, true},
        {FACET_SCHEDULE_PRIORITY, FACET_PRIORITY_LOW, true, false},
        {FACET_SCHEDULE_FIFO, FACET_PRIORITY_HIGH, true, false},
        {FACET_SCHEDULE_FAIR, FACET_PRIORITY_NORMAL, false, false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vgpu_make(1);
        vgpu_make(2);
        OK(facet_vgpu_set_priority(world.driver, 2, cases[i].priority, ERROR));
        OK(facet_driver_set_policy(world.driver, 0, cases[i].policy, cases[i].preempt, 0, ERROR));
        struct facet_kernel *first = vgpu_kernel(1, "burn", vgpu_memory(1, 8), 20000),
                            *second = vgpu_kernel(2, "burn", vgpu_memory(2, 8), 20000);
        uint64_t long_one = vgpu_launch(1, 0, first, 20000);
        assert_true(wait_for_status(1, long_one, FACET_EXECUTION_RUNNING));
        uint64_t short_one = vgpu_launch(2, 0, second, 500);
        vgpu_finish(2);
        vgpu_finish(1);
        bool got_in = vgpu_execution(2, short_one).end_ns < vgpu_execution(1, long_one).end_ns;
        if (got_in != cases[i].gets_in)
            fail_msg("case %zu: the late vGPU got in: %d, expected %d", i, got_in, cases[i].gets_in);
        facet_kernel_destroy(first);
        facet_kernel_destroy(second);
        OK(facet_vgpu_destroy(world.driver, 1, ERROR));
        OK(facet_vgpu_destroy(world.driver, 2, ERROR));
    }
    REFUSED(FACET_OUT_OF_RANGE, facet_driver_set_policy(world.driver, 0, 4, true, 0, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_driver_set_policy(world.driver, 1, 0, true, 0, ERROR));
}

/* A policy in the driver's settings holds from its opening on. */
static void a_driver_is_opened_with_its_policy(void **state)
{
    static const struct {
        const char *name;
        uint32_t policy, switched_off, least_percent, most_percent;
    } cases[] = {
        {"by default", FACET_SCHEDULE_FAIR, 0, 69, 81},
        {"round_robin", FACET_SCHEDULE_ROUND_ROBIN, 0, 43, 57},
        {"fair, without preemption", FACET_SCHEDULE_FAIR, FACET_OFF_PREEMPTION, 99, 100},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct facet_driver_config config = world_config();
        struct contest contest = {0};

        config.policy = cases[i].policy;
        config.off = cases[i].switched_off;
        setenv("FACET_CPU_UNITS", "1", 1);
        world_open(&config);
        unsetenv("FACET_CPU_UNITS");
        make_with_share(1, 750, 0);
        make_with_share(2, 250, 0);
        enter_contest(&contest, 2000);
        enter_contest(&contest, 2000);
        expect_percent_of_first(2, cases[i].least_percent, cases[i].most_percent, cases[i].name);
        end_contest(&contest);
        world_close();
    }
}

/* ---- shares and limits ---- */

static void shares_hold(void **state)
{
    static const uint32_t request[] = {600, 300, 100};
    struct contest contest = {0};

    for (uint32_t i = 0; i < 3; i++) {
        make_with_share(i + 1, request[i], 0);
        assert_int_equal(vgpu_info(i + 1).request_milli, request[i]);
    }
    for (uint32_t i = 0; i < 3; i++)
        enter_contest(&contest, 2000);
    expect_percent_of(3, 1, 55, 65, "600 of 1000");
    expect_percent_of(3, 2, 26, 34, "300 of 1000");
    expect_percent_of(3, 3, 8, 13, "100 of 1000");
    end_contest(&contest);
}

/* A change takes effect while both kernels run; none ends or begins. */
static void shares_change_at_run_time(void **state)
{
    struct contest contest = {0};

    make_with_share(1, 500, 0);
    make_with_share(2, 500, 0);
    enter_contest(&contest, 2000);
    enter_contest(&contest, 2000);
    expect_percent_of_first(2, 44, 56, "as made");
    OK(facet_vgpu_set_share(world.driver, 1, 800, 1000, ERROR));
    OK(facet_vgpu_set_share(world.driver, 2, 200, 900, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_set_share(world.driver, 2, 500, 400, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_set_share(world.driver, 2, 0, 0, ERROR));
    assert_int_equal(vgpu_info(2).request_milli, 200);
    assert_int_equal(vgpu_info(2).limit_milli, 900);
    expect_percent_of_first(2, 74, 86, "four to one");
    OK(facet_vgpu_set_share(world.driver, 1, 100, 1000, ERROR));
    OK(facet_vgpu_set_share(world.driver, 2, 900, 1000, ERROR));
    expect_percent_of_first(2, 5, 16, "one to nine");
    end_contest(&contest);
}

/* The percentage of wall-clock time in which vGPU 1 has the device's one unit. */
static uint64_t percent_of_time(uint64_t ns)
{
    (void)device_time_over(1, SETTLE_NS);
    struct device_time got = device_time_over(1, ns);
    return got.busy_ns[0] * 100 / got.wall_ns;
}

/* A limit holds also where no other vGPU wants the device; a change takes effect while the kernel runs. */
static void limits_change_at_run_time(void **state)
{
    struct contest contest = {0};
    uint64_t without, with, narrow, again;

    make_with_share(1, 100, 0);
    enter_contest(&contest, 2000);
    without = percent_of_time(WINDOW_NS);
    OK(facet_vgpu_set_share(world.driver, 1, 100, 300, ERROR));
    with = percent_of_time(WINDOW_NS);
    OK(facet_vgpu_set_share(world.driver, 1, 100, 100, ERROR));
    narrow = percent_of_time(WINDOW_NS / 3);
    OK(facet_vgpu_set_share(world.driver, 1, 100, 1000, ERROR));
    again = percent_of_time(WINDOW_NS);
    end_contest(&contest);
    assert_in_range(with, 0, 35); /* at most, on any machine */
    assert_in_range(narrow, 0, 14);
    if (without < 80 || again < 80 || with < 22 || narrow < 6) {
        /*
         * A timer of the machine wakes a unit when its limit lets it go on, and may be late, so the share may be less
         * than the limit. An upper bound always holds; a lower one only if the unit had its processor.
         */
        print_message("# %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", then %" PRIu64 " %% of the time\n", without, with,
                      narrow, again);
        assert_true(without > with && again > with);
    }
}

/* ---- units and launches ---- */

/* How many units are held, in hundredths, whether they run on their processors or wait for them. */
static uint64_t units_at_work(void)
{
    struct facet_driver_device device = {.size = sizeof device};
    uint64_t sum_milli = 0;

    (void)device_time_over(1, SETTLE_NS);
    for (int i = 0; i < 15; i++) {
        (void)sample_after(0, now_ns());
        assert_true(facet_driver_get_device(world.driver, 0, &device));
        assert_true(device.valid & FACET_DRIVER_HAS_UTILIZATION);
        sum_milli += device.utilization_milli;
    }
    return sum_milli / 15 * 2 / 10; /* from thousandths of the device to hundredths of one of its 2 units */
}

static void units_change_at_run_time(void **state)
{
    static const struct {
        uint32_t units, least_percent, most_percent;
    } steps[] = {{1, 80, 115}, {2, 175, 225}, {1, 80, 115}, {0, 175, 225}};
    struct contest contest = {0};

    make_with_share(1, 0, 0);
    enter_contest(&contest, 2000);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        uint64_t at_work = 0;

        OK(facet_vgpu_set_bounds(world.driver, 1, steps[i].units, 0, ERROR));
        assert_int_equal(vgpu_info(1).units, steps[i].units);
        for (int window = 0; window < WINDOWS && (at_work < steps[i].least_percent || at_work > steps[i].most_percent);
             window++)
            at_work = units_at_work();
        if (at_work < steps[i].least_percent || at_work > steps[i].most_percent)
            fail_msg("step %zu: %" PRIu64 " hundredths of a unit at work", i, at_work);
    }
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_set_bounds(world.driver, 1, 100000, 0, ERROR));
    end_contest(&contest);
}

/* While one launch may run at a time, the second waits. When two may, it begins beside the first. The bound is then
 * lowered again. */
static void launches_change_at_run_time(void **state)
{
    enum { PAIRS = 20 };
    uint64_t endless[2], executions[2 * PAIRS];

    vgpu_make(1);
    OK(facet_vgpu_set_bounds(world.driver, 1, 0, 1, ERROR));
    assert_int_equal(vgpu_info(1).launches, 1);
    struct facet_kernel *burn = vgpu_kernel(1, "burn", vgpu_memory(1, 8), 2000);
    endless[0] = vgpu_launch(1, 0, burn, ENDLESS_GROUPS);
    assert_true(wait_for_status(1, endless[0], FACET_EXECUTION_RUNNING));
    endless[1] = vgpu_launch(1, 1, burn, ENDLESS_GROUPS);
    nap(20 * MS);
    assert_int_equal(vgpu_execution(1, endless[1]).status, FACET_EXECUTION_QUEUED);
    OK(facet_vgpu_set_bounds(world.driver, 1, 0, 2, ERROR));
    assert_true(wait_for_status(1, endless[1], FACET_EXECUTION_RUNNING));
    assert_int_equal(vgpu_execution(1, endless[0]).status, FACET_EXECUTION_RUNNING);
    for (uint32_t i = 0; i < 2 * PAIRS; i++)
        executions[i] = vgpu_launch(1, i % 2, burn, 200);
    OK(facet_vgpu_set_bounds(world.driver, 1, 0, 1, ERROR));
    OK(facet_vgpu_cancel(world.driver, 1, endless[0], ERROR));
    OK(facet_vgpu_cancel(world.driver, 1, endless[1], ERROR));
    vgpu_finish(1);
    for (uint32_t i = 0; i < 2 * PAIRS; i++)
        for (uint32_t j = i + 1; j < 2 * PAIRS; j += 2) { /* the launches of the other stream */
            struct facet_execution left = vgpu_execution(1, executions[i]), right = vgpu_execution(1, executions[j]);

            assert_true(left.start_ns >= right.end_ns || right.start_ns >= left.end_ns);
        }
    facet_kernel_destroy(burn);
}

/* No load exceeds a bound of one unit or one launch at a time. */
static void bounds_hold(void **state)
{
    uint64_t executions[2];

    struct facet_vgpu_config config = vgpu_config(1);

    config.units = config.launches = 1;
    OK(facet_vgpu_create(world.driver, &config, NULL, ERROR));
    assert_int_equal(vgpu_info(1).units, 1);
    assert_int_equal(vgpu_info(1).launches, 1);
    struct facet_kernel *burn = vgpu_kernel(1, "burn", vgpu_memory(1, 8), 2000);
    for (uint32_t i = 0; i < 2; i++)
        executions[i] = vgpu_launch(1, i, burn, 2000);
    vgpu_finish(1);
    struct facet_execution first = vgpu_execution(1, executions[0]), second = vgpu_execution(1, executions[1]);
    assert_int_equal(first.units, 1);
    assert_int_equal(second.units, 1);
    assert_true(second.start_ns >= first.end_ns || first.start_ns >= second.end_ns);
    facet_kernel_destroy(burn);
}

/* ---- scaling ---- */

static void open_scaling(uint32_t scaling, const char *units)
{
    struct facet_driver_config config = world_config();

    config.scaling = scaling;
    setenv("FACET_CPU_UNITS", units, 1);
    world_open(&config);
    unsetenv("FACET_CPU_UNITS");
}

/*
 * vGPU 1 requests 300 milli and has more work than that. vGPU 2 is best effort and gets what guarantees leave. Idle
 * best-effort work, which is another vGPU and the driver's own work on the device, takes nothing of that. With scaling,
 * vGPU 1 gets more of it, up to its limit.
 */
static void a_share_scaled_by_demand_is_given(void **state)
{
    for (uint32_t scaling = 0; scaling < 2; scaling++) {
        struct contest contest = {0};

        open_scaling(scaling, "1");
        make_with_share(1, 300, 0);
        make_with_share(2, 0, 0);
        make_with_share(3, 0, 0);
        enter_contest(&contest, 2000);
        enter_contest(&contest, 2000);
        for (uint32_t id = 1; id <= 2; id++)
            vgpu_launch(id, 0, contest.kernels[id - 1], 1); /* waits, which counts as demand */
        if (!scaling) {
            expect_percent_of_first(2, 24, 36, "without scaling");
        } else {
            expect_percent_of_first(2, 80, 100, "beyond what it asked for");
            OK(facet_vgpu_set_share(world.driver, 1, 300, 600, ERROR));
            expect_percent_of_first(2, 45, 66, "within its limit");
            OK(facet_vgpu_set_share(world.driver, 2, 600, 1000, ERROR));
            expect_percent_of_first(2, 27, 40, "beside one that is guaranteed twice as much");
        }
        end_contest(&contest);
        world_close();
    }
}

/* A vGPU has one unit as long as no launch waits, and gets the second unit when one does. */
static void units_follow_demand(void **state)
{
    struct facet_vgpu_config config = vgpu_config(1);
    struct contest contest = {0};
    uint64_t at_work = 0;

    open_scaling(1, "2");
    config.units_least = 1;
    OK(facet_vgpu_create(world.driver, &config, NULL, ERROR));
    enter_contest(&contest, 2000);
    for (int window = 0; window < WINDOWS && (at_work < 80 || at_work > 115); window++)
        at_work = units_at_work();
    assert_in_range(at_work, 80, 115);
    vgpu_launch(1, 0, contest.kernels[0], 1);
    for (int window = 0; window < WINDOWS && at_work < 175; window++)
        at_work = units_at_work();
    assert_in_range(at_work, 175, 225);
    end_contest(&contest);
    world_close();
}

#define WITH_UNITS(test, units) cmocka_unit_test_setup_teardown(test, units, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_UNITS(each_policy_divides_in_its_own_way, one_unit),
        cmocka_unit_test(a_driver_is_opened_with_its_policy),
        WITH_UNITS(turns_are_not_time, one_unit),
        WITH_UNITS(policies_decide_whether_a_late_vgpu_gets_in, one_unit),
        WITH_UNITS(shares_hold, one_unit),
        WITH_UNITS(shares_change_at_run_time, one_unit),
        WITH_UNITS(limits_change_at_run_time, one_unit),
        WITH_UNITS(units_change_at_run_time, two_units),
        WITH_UNITS(launches_change_at_run_time, two_units),
        WITH_UNITS(bounds_hold, two_units),
        cmocka_unit_test(a_share_scaled_by_demand_is_given),
        cmocka_unit_test(units_follow_demand),
    };

    return cmocka_run_group_tests(tests, world_load, world_unload);
}
