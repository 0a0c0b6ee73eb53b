/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: checked images on the cpu provider: reports of accesses out of bounds and races. Never: tests other images. */
#include "test_cpu_world.h"

#define EXECUTION (world.provider->execution)
#define INSTANCE  world.instance
#define ATOMIC    (FACET_CHECK_WRITE | FACET_CHECK_ATOMIC)

static struct world world;

struct arguments {
    uint64_t words;
    uint32_t count, stride;
};

static int set_up(void **state)
{
    (void)state;
    world_begin(&world);
    world_load(&world, "test-cpu-checked.so");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_end(&world);
    return 0;
}

static enum facet_status run_kernel(const char *kernel, uint32_t grid, uint32_t group, uint32_t stride, uint64_t words)
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

static void a_correct_kernel_is_not_reported(void **state)
{
    uint64_t words = world_alloc(&world, world.context, 4096);
    uint32_t got[1024];
    (void)state;

    OK(&world, run_kernel("store", 16, 64, 1, words)); /* 1024 words: the whole block */
    OK(&world, world.provider->memory->read(INSTANCE, world.context, words, sizeof got, got, &world.error));
    for (uint32_t i = 0; i < 1024; i++)
        assert_int_equal(got[i], i);
    OK(&world, run_kernel("neighbour", 1, 16, 1, words));
    expect_failed(FACET_OK);
}

static void an_access_out_of_bounds_is_reported_and_not_made(void **state)
{
    uint64_t words = world_alloc(&world, world.context, 4096);
    (void)state;

    assert_int_equal(run_kernel("store", 1, 64, 100, words),
                     FACET_OUT_OF_RANGE); /* item 11 is the first beyond 1024 words */
    assert_non_null(strstr(world.error.message, "store.cl:7:3: kernel store, work-item (11, 0, 0): write of 4 bytes"));
    expect_failed(FACET_OUT_OF_RANGE);
    OK(&world, world_wait(&world)); /* the failure is reported once */
}

static void bounds_are_the_requested_sizes(void **state)
{
    uint64_t words = world_alloc(&world, world.context, 64 * sizeof(uint32_t));
    (void)state;

    OK(&world, run_kernel("store", 1, 64, 1, words));
    assert_int_equal(run_kernel("store", 1, 65, 1, words), FACET_OUT_OF_RANGE);
    assert_non_null(strstr(world.error.message, "work-item (64, 0, 0): write of 4 bytes"));
}

/* Blocks of whole pages lie side by side in memory, also after a block was freed and its pages are used again. */
static void a_neighbour_hides_no_overrun(void **state)
{
    const uint64_t bytes[] = {4096, 8192, UINT64_C(2) << 20};
    uint64_t blocks[3];
    (void)state;

    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < 3; i++) {
            for (size_t k = 0; k < 3; k++)
                blocks[k] = world_alloc(&world, world.context, bytes[i]);
            OK(&world, world.provider->memory->free(INSTANCE, world.context, blocks[1], &world.error));
            blocks[1] = world_alloc(&world, world.context, bytes[(i + 1) % 3]);
            for (size_t k = 0; k < 3; k++) {
                uint64_t end = blocks[k] + bytes[k == 1 ? (i + 1) % 3 : i];

                OK(&world, run_kernel("store", 1, 1, 1, end - sizeof(uint32_t)));
                assert_int_equal(run_kernel("store", 1, 2, 1, end - sizeof(uint32_t)), FACET_OUT_OF_RANGE);
                assert_int_equal(run_kernel("store", 1, 2, 16000, end - sizeof(uint32_t)), FACET_OUT_OF_RANGE);
            }
        }
}

static void pages_in_a_row_are_one_range(void **state)
{
    const uint64_t page = 65536;
    uint64_t at = 0, pages[2];
    (void)state;

    OK(&world, world.provider->memory->reserve(INSTANCE, world.context, 3 * page, page, &at, &world.error));
    for (uint64_t i = 0; i < 2; i++) {
        OK(&world, world.provider->memory->create_pages(INSTANCE, world.context, page, &pages[i], &world.error));
        OK(&world,
           world.provider->memory->map(INSTANCE, world.context, at + i * page, pages[i], 0, page, &world.error));
    }
    OK(&world, run_kernel("store", 1, 2, 8192, at + page)); /* the second page's first word, and its middle */
    OK(&world, run_kernel("store", 32, 1024, 1, at));       /* both pages */
    assert_int_equal(run_kernel("store", 33, 1024, 1, at), FACET_OUT_OF_RANGE);
}

/* A plain read does not race with an atomic operation: OpenCL C 1.2 has no atomic load, so programs read plainly. */
static void atomics_race_with_plain_writes_only(void **state)
{
    const struct {
        uint32_t first, second;
        bool races;
    } pairs[] = {{0, 0, false},
                 {ATOMIC, ATOMIC, false},
                 {ATOMIC, 0, false},
                 {0, ATOMIC, false},
                 {ATOMIC, FACET_CHECK_WRITE, true},
                 {FACET_CHECK_WRITE, ATOMIC, true},
                 {0, FACET_CHECK_WRITE, true},
                 {FACET_CHECK_WRITE, 0, true},
                 {FACET_CHECK_WRITE, FACET_CHECK_WRITE, true}};
    uint64_t words = world_alloc(&world, world.context, 4);
    (void)state;

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const struct arguments arguments = {words, pairs[i].first, pairs[i].second};
        const struct facet_launch launch = world_launch(&world, "share", sizeof arguments, 1, 2);

        OK(&world, world_run(&world, &launch, &arguments));
        assert_int_equal(world_wait(&world), pairs[i].races ? FACET_INVALID_ARGUMENT : FACET_OK);
    }
}

static void local_memory_has_bounds_too(void **state)
{
    uint64_t words = world_alloc(&world, world.context, 4096);
    (void)state;

    assert_int_equal(run_kernel("neighbour", 1, 17, 1, words), FACET_OUT_OF_RANGE); /* 64 bytes are 16 words */
    assert_non_null(strstr(world.error.message, "neighbour.cl:4:5: kernel neighbour, work-item (16, 0, 0)"));
    assert_non_null(strstr(world.error.message, "local memory"));
}

/* The image finds these accesses itself, also if the address is valid memory, and reports them by these flags. */
static void accesses_outside_of_a_variable_are_reported(void **state)
{
    static const struct {
        uint32_t flags;
        const char *expected;
    } ways[] = {
        {FACET_CHECK_PRIVATE, "expected private memory of one variable"},
        {FACET_CHECK_OUTSIDE, "expected constant memory of one variable"},
        {FACET_CHECK_OUTSIDE | FACET_CHECK_LOCAL, "expected local memory of one variable or argument"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const struct arguments arguments = {world_alloc(&world, world.context, 4), 0, ways[i].flags};
        const struct facet_launch launch = world_launch(&world, "share", sizeof arguments, 1, 2);

        OK(&world, world_run(&world, &launch, &arguments));
        assert_int_equal(world_wait(&world), FACET_OUT_OF_RANGE);
        assert_non_null(
            strstr(world.error.message, "neighbour.cl:6:9: kernel share, work-item (1, 0, 0): read of 4 bytes"));
        assert_non_null(strstr(world.error.message, ways[i].expected));
    }
}

static void a_local_argument_lies_in_the_launch_with_all_its_bytes(void **state)
{
    static const struct {
        uint32_t at, bytes;
        bool fits;
    } accesses[] = {{0, 256, true},    {128, 128, true}, {256, 0, true},          {0, 257, false},
                    {128, 129, false}, {64, 4, false},   {128, UINT32_MAX, false}};
    struct facet_launch launch = world_launch(&world, "local", 8, 1, 2);
    (void)state;

    launch.local_bytes = 256;
    for (size_t i = 0; i < sizeof accesses / sizeof accesses[0]; i++) {
        const uint32_t arguments[2] = {accesses[i].at, accesses[i].bytes};

        assert_int_equal(world_run(&world, &launch, arguments), accesses[i].fits ? FACET_OK : FACET_OUT_OF_RANGE);
        OK(&world, world_wait(&world));
    }
}

static void a_missing_barrier_is_a_race(void **state)
{
    uint64_t words = world_alloc(&world, world.context, 4096);
    (void)state;

    assert_int_equal(run_kernel("neighbour", 1, 16, 0, words), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(world.error.message, "neighbour.cl:6:9: kernel neighbour, work-item (0, 0, 0): read"));
    assert_non_null(strstr(world.error.message, "barrier"));
    expect_failed(FACET_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_correct_kernel_is_not_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_access_out_of_bounds_is_reported_and_not_made, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bounds_are_the_requested_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_neighbour_hides_no_overrun, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pages_in_a_row_are_one_range, set_up, tear_down),
        cmocka_unit_test_setup_teardown(atomics_race_with_plain_writes_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(local_memory_has_bounds_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(accesses_outside_of_a_variable_are_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_local_argument_lies_in_the_launch_with_all_its_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_missing_barrier_is_a_race, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
