/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: checked images on the cpu provider: accesses out of bounds and races are told by kernel, work-item and place.
 */
#include "test_cpu_world.h"

#define EXECUTION (world.provider->execution)
#define INSTANCE  world.instance

static struct world world;

struct arguments {
    uint64_t words;
    uint32_t count, stride;
};

static int begin(void **state)
{
    (void)state;
    world_begin(&world);
    world_load(&world, "test-cpu-checked.so");
    return 0;
}

static int end(void **state)
{
    (void)state;
    world_end(&world);
    return 0;
}

static enum facet_status run(const char *kernel, uint32_t grid, uint32_t group, uint32_t stride, uint64_t words)
{
    const struct arguments arguments = {words, 0, stride};
    const struct facet_launch launch = world_launch(&world, kernel, sizeof arguments, grid, group);

    OK(&world, world_run(&world, &launch, &arguments));
    return world_wait(&world);
}

static void expect_failed(enum facet_status expected)
{
    struct facet_stream_state state = {.size = sizeof state};

    OK(&world, EXECUTION->query(INSTANCE, world.context, world.stream, &state, &world.error));
    assert_int_equal((int32_t)state.failed, -(int32_t)expected);
}

static void a_right_kernel_is_left_alone(void **state)
{
    uint64_t words = world_alloc(&world, world.context, 4096);
    uint32_t got[1024];
    (void)state;

    OK(&world, run("store", 16, 64, 1, words)); /* 1024 words: all there are */
    OK(&world, world.provider->memory->read(INSTANCE, world.context, words, sizeof got, got, &world.error));
    for (uint32_t i = 0; i < 1024; i++)
        assert_int_equal(got[i], i);
    OK(&world, run("neighbour", 1, 16, 1, words));
    expect_failed(FACET_OK);
}

static void an_access_out_of_bounds_is_told_and_not_made(void **state)
{
    uint64_t words = world_alloc(&world, world.context, 4096);
    (void)state;

    assert_int_equal(run("store", 1, 64, 100, words), FACET_OUT_OF_RANGE); /* item 11 is the first beyond 1024 words */
    assert_non_null(strstr(world.error.message, "store.cl:7:3: kernel store, work-item (11, 0, 0): write of 4 bytes"));
    expect_failed(FACET_OUT_OF_RANGE);
    OK(&world, world_wait(&world)); /* it is told once */
}

static void local_memory_has_bounds_too(void **state)
{
    uint64_t words = world_alloc(&world, world.context, 4096);
    (void)state;

    assert_int_equal(run("neighbour", 1, 17, 1, words), FACET_OUT_OF_RANGE); /* 64 bytes are 16 words */
    assert_non_null(strstr(world.error.message, "neighbour.cl:4:5: kernel neighbour, work-item (16, 0, 0)"));
    assert_non_null(strstr(world.error.message, "local memory"));
}

static void a_missing_barrier_is_a_race(void **state)
{
    uint64_t words = world_alloc(&world, world.context, 4096);
    (void)state;

    assert_int_equal(run("neighbour", 1, 16, 0, words), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(world.error.message, "neighbour.cl:6:9: kernel neighbour, work-item (0, 0, 0): read"));
    assert_non_null(strstr(world.error.message, "barrier"));
    expect_failed(FACET_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_right_kernel_is_left_alone, begin, end),
        cmocka_unit_test_setup_teardown(an_access_out_of_bounds_is_told_and_not_made, begin, end),
        cmocka_unit_test_setup_teardown(local_memory_has_bounds_too, begin, end),
        cmocka_unit_test_setup_teardown(a_missing_barrier_is_a_race, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
