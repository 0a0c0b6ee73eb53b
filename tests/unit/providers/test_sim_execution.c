/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of simulated streams: order, modelled time, effects, isolation of hard limits and partitions, faults. */
#include "sim_world.h"

static struct world world;

#define EXECUTION (world.provider->execution)
#define MEMORY    (world.provider->memory)
#define INSTANCE  world.instance

static int set_up(void **state)
{
    (void)state;
    world_begin(&world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_end(&world);
    return 0;
}

/* A worker with a context, a module and a stream. */
struct worker {
    uint64_t context, module, stream;
};

static struct worker make_worker(uint32_t device, const char *partition, const char *name)
{
    struct worker worker = {.context = world_context(&world, device, partition, name)};

    worker.module = world_module(&world, worker.context);
    worker.stream = world_stream(&world, worker.context);
    return worker;
}

static void launch_worker(const struct worker *worker, const char *kernel, uint32_t groups)
{
    world_launch(&world, worker->context, worker->module, worker->stream, kernel, groups);
}

static uint64_t busy_ns_of(const struct worker *worker)
{
    world_synchronize(&world, worker->context, worker->stream);
    return world_state(&world, worker->context, worker->stream).busy_ns;
}

/* The time that a worker takes for 200 groups. Of 1000 cycles each, they take two waves on all 100 units: 2000 ns. */
static uint64_t time_of(const struct worker *worker, const char *kernel)
{
    uint64_t before = world_state(&world, worker->context, worker->stream).busy_ns;

    launch_worker(worker, kernel, 200);
    return busy_ns_of(worker) - before;
}

static void effects_change_memory_in_order(void **state)
{
    (void)state;
    uint64_t address = world_alloc(&world, world.context, 80);

    world_effect(&world, "fill", address, 5, 7);
    world_effect(&world, "add", address + 8, 3, 10);
    world_effect(&world, "copy", address + 40, address, 5);
    world_effect(&world, "add", address, 10, UINT64_MAX); /* minus one */
    world_synchronize(&world, world.context, world.stream);
    const uint64_t expected[10] = {6, 16, 16, 16, 6, 6, 16, 16, 16, 6};
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(world_word(&world, world.context, address + 8 * i), expected[i]);
    struct facet_stream_state stream = world_state(&world, world.context, world.stream);
    assert_int_equal(stream.launched, 4);
    assert_int_equal(stream.completed, 4);
    assert_int_equal(stream.failed, 0);
    assert_int_equal(stream.busy_ns, 4000);
}

/* Stepped time stands still until a call waits, so that no launch runs before that call. */
static void a_copy_waits_for_queued_launches(void **state)
{
    (void)state;
    uint64_t address = world_alloc(&world, world.context, 8);

    world_effect(&world, "fill", address, 1, 99);
    assert_int_equal(world_state(&world, world.context, world.stream).completed, 0);
    assert_int_equal(world_word(&world, world.context, address), 99);
    assert_int_equal(world_state(&world, world.context, world.stream).completed, 1);
}

static void an_effect_outside_of_memory_fails_its_launch(void **state)
{
    (void)state;
    uint64_t address = world_alloc(&world, world.context, 16);

    world_effect(&world, "fill", address, 3, 1);
    world_effect(&world, "fill", address, UINT64_MAX / 8, 1);
    world_effect(&world, "fill", address, 1, 5);
    world_synchronize(&world, world.context, world.stream);
    struct facet_stream_state stream = world_state(&world, world.context, world.stream);
    assert_int_equal(stream.failed, -FACET_OUT_OF_RANGE);
    assert_int_equal(stream.completed, 3);
    assert_int_equal(world_word(&world, world.context, address), 5);
    assert_int_equal(world_word(&world, world.context, address + 8), 0);
}

static void time_follows_the_roofline(void **state)
{
    (void)state;
    struct worker worker = {world.context, world.module, world.stream};

    assert_int_equal(time_of(&worker, "compute"), 2000);  /* 2 waves x 1000 cycles at 1 GHz */
    assert_int_equal(time_of(&worker, "stream"), 200000); /* 200 x 1000 bytes at 1 GB/s */
    assert_int_equal(time_of(&worker, "recorded"), 12345);
    launch_worker(&worker, "compute", 1);
    launch_worker(&worker, "compute", 101);
    assert_int_equal(busy_ns_of(&worker), 2000 + 200000 + 12345 + 1000 + 2000);
}

static void a_quarter_of_the_units_takes_four_times_as_long(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        OK(&world, world.provider->limit->set_compute(INSTANCE, 1, i ? "b" : "a", i ? 750 : 250, &world.error));
    struct worker quarter = make_worker(1, NULL, "a"), rest = make_worker(1, NULL, "b");

    assert_int_equal(time_of(&quarter, "compute"), 8000);
    assert_int_equal(time_of(&quarter, "stream"), 800000);
    /* The neighbour uses its 75 units all the time. The worker takes as long as before. */
    for (int i = 0; i < 50; i++)
        launch_worker(&rest, "compute", 10000);
    assert_int_equal(time_of(&quarter, "compute"), 8000);
    assert_int_equal(time_of(&quarter, "stream"), 800000);
    assert_int_equal(world_state(&world, rest.context, rest.stream).completed, 6);
}

static void partitions_do_not_disturb_each_other(void **state)
{
    struct facet_partition_info parts[2] = {{.size = sizeof *parts}, {.size = sizeof *parts}};
    struct worker workers[2];
    (void)state;

    for (uint32_t i = 0; i < 2; i++) {
        OK(&world, world.provider->partition->create(INSTANCE, 1, "3s", 3 * i, &parts[i], &world.error));
        workers[i] = make_worker(1, parts[i].uuid, "same");
    }
    /* 200 groups on 42 units: 5 waves. A quarter of the memory brings a quarter of the bandwidth. */
    assert_int_equal(time_of(&workers[0], "compute"), 5000);
    assert_int_equal(time_of(&workers[0], "stream"), 800000);
    for (int i = 0; i < 100; i++)
        launch_worker(&workers[1], "stream", 1000);
    assert_int_equal(time_of(&workers[0], "compute"), 5000);
    assert_int_equal(time_of(&workers[0], "stream"), 800000);
}

static void contexts_without_limits_share_the_units(void **state)
{
    (void)state;
    struct worker a = make_worker(1, NULL, "a"), b = make_worker(1, NULL, "b");

    /* Both want all units. Each takes twice as long while the other runs, and has its usual time after that. */
    launch_worker(&a, "compute", 1000);
    launch_worker(&b, "compute", 200);
    assert_int_equal(busy_ns_of(&b), 4000);
    assert_int_equal(busy_ns_of(&a), 4000 + 8000);

    /* Both fit on the units together, and neither is slower. */
    launch_worker(&a, "compute", 60);
    launch_worker(&b, "compute", 40);
    assert_int_equal(busy_ns_of(&a), 12000 + 1000);
    assert_int_equal(busy_ns_of(&b), 4000 + 1000);

    /* There are units for both, but not enough bandwidth. */
    launch_worker(&a, "stream", 50);
    launch_worker(&b, "stream", 50);
    assert_int_equal(busy_ns_of(&a), 13000 + 100000);
    assert_int_equal(busy_ns_of(&b), 5000 + 100000);
}

static void cancel_drops_waiting_launches_and_ends_running_ones(void **state)
{
    (void)state;
    uint64_t address = world_alloc(&world, world.context, 8);

    for (int i = 0; i < 5; i++)
        world_effect(&world, "add", address, 1, 1);
    assert_int_equal(EXECUTION->unload(INSTANCE, world.context, world.module, NULL), FACET_BUSY);
    OK(&world, EXECUTION->cancel(INSTANCE, world.context, world.stream, &world.error));
    struct facet_stream_state stream = world_state(&world, world.context, world.stream);
    assert_int_equal(stream.launched, 5);
    assert_int_equal(stream.completed, 5);
    assert_int_equal(stream.failed, 0);
    assert_int_equal(world_word(&world, world.context, address), 0);
    world_effect(&world, "add", address, 1, 1);
    OK(&world, EXECUTION->destroy_stream(INSTANCE, world.context, world.stream, &world.error));
    assert_int_equal(EXECUTION->destroy_stream(INSTANCE, world.context, world.stream, NULL), FACET_NOT_FOUND);
    assert_int_equal(world_word(&world, world.context, address), 0);
    OK(&world, EXECUTION->unload(INSTANCE, world.context, world.module, &world.error));
    assert_int_equal(EXECUTION->unload(INSTANCE, world.context, world.module, NULL), FACET_NOT_FOUND);
}

static void wrong_launches_are_refused(void **state)
{
    const uint64_t arguments[3] = {0};
    struct facet_launch good = world_request(world.module, "fill", 1);
    (void)state;
    good.argument_bytes = sizeof arguments;

#define REFUSED(member, value, expected)                                                                               \
    do {                                                                                                               \
        struct facet_launch bad = good;                                                                                \
        bad.member = (value);                                                                                          \
        assert_int_equal(EXECUTION->launch(INSTANCE, world.context, world.stream, &bad, arguments, NULL), expected);   \
    } while (0)
    REFUSED(module, 0, FACET_NOT_FOUND);
    REFUSED(module, world.stream, FACET_NOT_FOUND);
    REFUSED(kernel[0], 'x', FACET_NOT_FOUND);
    REFUSED(grid[0], 0, FACET_OUT_OF_RANGE);
    REFUSED(grid[1], UINT32_MAX, FACET_OUT_OF_RANGE);
    REFUSED(group[2], 0, FACET_OUT_OF_RANGE);
    REFUSED(group[2], 1025, FACET_OUT_OF_RANGE);
    REFUSED(argument_bytes, 16, FACET_OUT_OF_RANGE);
    REFUSED(argument_bytes, 0, FACET_OUT_OF_RANGE);
    REFUSED(local_bytes, UINT32_MAX, FACET_OUT_OF_RANGE);
    REFUSED(size, 8, FACET_INVALID_ARGUMENT);
#undef REFUSED
    assert_int_equal(EXECUTION->launch(INSTANCE, world.context, 9999, &good, arguments, NULL), FACET_NOT_FOUND);
    assert_int_equal(EXECUTION->launch(INSTANCE, world.context, world.stream, &good, NULL, NULL),
                     FACET_INVALID_ARGUMENT);
    assert_int_equal(EXECUTION->launch(INSTANCE, world.context, world.stream, NULL, NULL, NULL),
                     FACET_INVALID_ARGUMENT);
    assert_int_equal(world_state(&world, world.context, world.stream).launched, 0);
}

static void refusals_of_texts_that_are_no_image_name_the_expectation(void **state)
{
    static const struct {
        const char *text, *names;
    } images[] = {
        {"", "no kernel"},
        {"# only a comment\n\n", "no kernel"},
        {"kernel\n", "line 1: '': expected a name"},
        {"kernel a/b cycles_per_group=1", "'a/b'"},
        {"colonel a cycles_per_group=1", "'colonel'"},
        {"\nkernel a", "line 2: 'a': expected cycles_per_group"},
        {"kernel a cycles_per_group", "'cycles_per_group': expected key=value"},
        {"kernel a cycles_per_group=", "'cycles_per_group'"},
        {"kernel a cycles_per_group=-1", "'cycles_per_group'"},
        {"kernel a cycles_per_group=1099511627776", "below 2^40"},
        {"kernel a cycles_per_group=1 cycles_per_group=2", "expected it once"},
        {"kernel a cycles_per_group=1 tensor_milli=1001", "up to 1000"},
        {"kernel a cycles_per_group=1 effect=explode", "none, fill, add or copy"},
        {"kernel a cycles_per_group=1 colour=red", "'colour'"},
        {"kernel a duration_ns=0", "at least 1"},
        {"kernel a duration_ns=1 bytes_per_group=1", "'duration_ns'"},
        {"kernel a duration_ns=1\nkernel b duration_ns=1\nkernel a duration_ns=1", "line 3: 'a': expected another"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
        uint64_t module = 7;

        assert_int_equal(
            EXECUTION->load(INSTANCE, world.context, images[i].text, strlen(images[i].text), &module, &world.error),
            FACET_CORRUPT);
        if (!strstr(world.error.message, images[i].names))
            fail_msg("'%s' does not say '%s'", world.error.message, images[i].names);
        assert_int_equal(module, 7);
    }
}

static void expect_timeouts(void)
{
    for (int i = 0; i < 3; i++)
        assert_int_equal(EXECUTION->synchronize(INSTANCE, world.context, world.stream, 1000000, &world.error),
                         FACET_TIMEOUT);
}

/* The device is slow at first, and then hangs. */
static void faults_slow_down_and_hang(void **state)
{
    (void)state;
    world_end(&world);
    world_start(&world, (struct world_setup){
                            .faults = "{\"faults\": ["
                                      "{\"at_ns\": 0, \"device\": 0, \"kind\": \"slow\", \"factor_milli\": 3000},"
                                      "{\"at_ns\": 4500, \"device\": 0, \"kind\": \"hang\"}]}"});
    world.context = world_context(&world, 0, NULL, "a");
    world.module = world_module(&world, world.context);
    world.stream = world_stream(&world, world.context);
    struct worker worker = {world.context, world.module, world.stream};
    launch_worker(&worker, "compute", 1);
    assert_int_equal(busy_ns_of(&worker), 3000);
    assert_int_equal(world_metrics(&world, 0).throttle, FACET_THROTTLE_FAULT);
    launch_worker(&worker, "compute", 1);
    expect_timeouts();
    assert_int_equal(world_state(&world, world.context, world.stream).completed, 1);
    OK(&world, EXECUTION->cancel(INSTANCE, world.context, world.stream, &world.error));
    world_synchronize(&world, world.context, world.stream);
    OK(&world, MEMORY->destroy_context(INSTANCE, world.context, &world.error));
}

static void a_lost_device_loses_its_contexts(void **state)
{
    struct facet_stream_state stream = {.size = sizeof stream};
    (void)state;
    world_end(&world);
    world_start(&world, (struct world_setup){.faults = "{\"faults\": ["
                                                       "{\"at_ns\": 500, \"device\": 0, \"kind\": \"lost\"}]}"});
    world.context = world_context(&world, 0, NULL, "a");
    world.module = world_module(&world, world.context);
    world.stream = world_stream(&world, world.context);
    struct worker worker = {world.context, world.module, world.stream}, other = make_worker(1, NULL, "a");
    launch_worker(&worker, "compute", 1);
    assert_int_equal(EXECUTION->synchronize(INSTANCE, world.context, world.stream, UINT64_MAX, NULL),
                     FACET_DEVICE_LOST);
    assert_int_equal(EXECUTION->query(INSTANCE, world.context, world.stream, &stream, NULL), FACET_DEVICE_LOST);
    OK(&world, MEMORY->destroy_context(INSTANCE, world.context, &world.error));
    assert_int_equal(MEMORY->destroy_context(INSTANCE, world.context, NULL), FACET_NOT_FOUND);
    assert_int_equal(time_of(&other, "compute"), 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(effects_change_memory_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_copy_waits_for_queued_launches, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_effect_outside_of_memory_fails_its_launch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(time_follows_the_roofline, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_quarter_of_the_units_takes_four_times_as_long, set_up, tear_down),
        cmocka_unit_test_setup_teardown(partitions_do_not_disturb_each_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(contexts_without_limits_share_the_units, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cancel_drops_waiting_launches_and_ends_running_ones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_launches_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refusals_of_texts_that_are_no_image_name_the_expectation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(faults_slow_down_and_hang, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lost_device_loses_its_contexts, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("sim execution", tests, NULL, NULL);
}
