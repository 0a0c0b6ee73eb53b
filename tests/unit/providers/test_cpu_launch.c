/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of launches and transfers on the cpu provider: refusals, results, order, and how they end. */
#include "../../effort.h"
#include "test_cpu_world.h"

#define MEMORY    (world.provider->memory)
#define EXECUTION (world.provider->execution)
#define INSTANCE  world.instance

enum { COUNT = 1000, WORDS = 12 };

static struct world world;

struct saxpy {
    float a;
    uint32_t count;
    uint64_t x, y;
};

struct report {
    uint64_t where;
    uint32_t local, value;
};

static int set_up(void **state)
{
    (void)state;
    world_begin(&world);
    world_load(&world, "test-cpu-kernels.so");
    return 0;
}

static int begin_with_much_memory(void **state)
{
    (void)state;
    world_open(&world);
    world.provider->device->close(world.instance);
    setenv("FACET_CPU_MEMORY", "536870912", 1);
    OK(&world, world.provider->device->open(&world.instance, &world.error));
    world.context = world_context(&world, "w");
    world.stream = world_stream(&world, world.context);
    world_load(&world, "test-cpu-kernels.so");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_end(&world);
    return 0;
}

static void a_kernel_computes(void **state)
{
    float x[COUNT], y[COUNT];
    const struct saxpy arguments = {2.0f, COUNT, world_alloc(&world, world.context, sizeof x),
                                    world_alloc(&world, world.context, sizeof y)};
    const struct facet_launch launch = world_launch(&world, "saxpy", sizeof arguments, 8, 128);
    struct facet_stream_state stream = {.size = sizeof stream};
    (void)state;

    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)i;
        y[i] = 1.0f;
    }
    OK(&world, EXECUTION->write(INSTANCE, world.context, world.stream, arguments.x, x, sizeof x, &world.error));
    OK(&world, EXECUTION->write(INSTANCE, world.context, world.stream, arguments.y, y, sizeof y, &world.error));
    memset(x, 0, sizeof x); /* the queued transfer has a copy of its own */
    OK(&world, world_run(&world, &launch, &arguments));
    OK(&world, EXECUTION->copy(INSTANCE, world.context, world.stream, arguments.x, arguments.y, 400, &world.error));
    OK(&world, EXECUTION->fill(INSTANCE, world.context, world.stream, arguments.y, 0, 8, &world.error));
    OK(&world, world_wait(&world));
    OK(&world, MEMORY->read(INSTANCE, world.context, arguments.y, sizeof y, y, &world.error));
    OK(&world, MEMORY->read(INSTANCE, world.context, arguments.x, sizeof x, x, &world.error));
    for (int i = 0; i < COUNT; i++)
        assert_true(y[i] == (i < 2 ? 0.0f : 1.0f + 2.0f * (float)i));
    assert_true(x[0] == 1.0f && x[99] == 199.0f && x[100] == 100.0f);
    OK(&world, EXECUTION->query(INSTANCE, world.context, world.stream, &stream, &world.error));
    assert_int_equal(stream.failed, 0);
    assert_int_equal(stream.completed, stream.launched);
}

static void a_work_group_knows_its_index(void **state)
{
    const struct report arguments = {world_alloc(&world, world.context, WORDS * 4), 256, 99};
    struct facet_launch launch = world_launch(&world, "report", sizeof arguments, 0, 0);
    const uint32_t expected[WORDS] = {5, 3, 2, 4, 2, 8, 100, 0, 7, 3, 99, 0};
    uint32_t got[WORDS];
    (void)state;

    launch.dimensions = 3;
    launch.local_bytes = 512;
    memcpy(launch.grid, expected, sizeof launch.grid);
    memcpy(launch.group, expected + 3, sizeof launch.group);
    memcpy(launch.offset, expected + 6, sizeof launch.offset);
    OK(&world, world_run(&world, &launch, &arguments));
    OK(&world, world_wait(&world));
    OK(&world, MEMORY->read(INSTANCE, world.context, arguments.where, sizeof got, got, &world.error));
    assert_memory_equal(got, expected, sizeof got);
}

static void expect_refused(const struct facet_launch *launch, const void *arguments, enum facet_status expected,
                           const char *text)
{
    assert_int_equal(world_run(&world, launch, arguments), expected);
    if (!strstr(world.error.message, text))
        fail_msg("'%s' does not say '%s'", world.error.message, text);
}

static void wrong_grids_are_refused(void **state)
{
    const struct report arguments = {world_alloc(&world, world.context, WORDS * 4), 0, 0};
    struct facet_launch launch = world_launch(&world, "report", sizeof arguments, 1, 1), wrong = launch;
    (void)state;

    wrong.grid[2] = 0;
    expect_refused(&wrong, &arguments, FACET_OUT_OF_RANGE, "grid[2] 0");
    wrong = launch;
    wrong.group[0] = 4097;
    expect_refused(&wrong, &arguments, FACET_OUT_OF_RANGE, "4096");
    wrong.group[0] = wrong.group[1] = 65536;
    wrong.dimensions = 2;
    expect_refused(&wrong, &arguments, FACET_OUT_OF_RANGE, "4096");
    wrong = launch;
    wrong.grid[0] = 0x80000000;
    expect_refused(&wrong, &arguments, FACET_OUT_OF_RANGE, "global ids");
    wrong.grid[0] = 0x7fffffff;
    wrong.offset[0] = 1;
    expect_refused(&wrong, &arguments, FACET_OUT_OF_RANGE, "global ids");
    wrong = launch;
    wrong.grid[1] = 2;
    expect_refused(&wrong, &arguments, FACET_OUT_OF_RANGE, "1 dimensions");
    wrong.dimensions = 4;
    expect_refused(&wrong, &arguments, FACET_OUT_OF_RANGE, "dimensions 4");
    wrong = launch;
    wrong.local_bytes = 1 << 20;
    expect_refused(&wrong, &arguments, FACET_OUT_OF_RANGE, "local_bytes");
    wrong = world_launch(&world, "spin", 8, 1, 2);
    expect_refused(&wrong, &arguments, FACET_OUT_OF_RANGE, "1x1x1");
}

static void wrong_arguments_are_refused(void **state)
{
    uint64_t other = world_context(&world, "other"), theirs = world_alloc(&world, other, 4096);
    struct report arguments = {world_alloc(&world, world.context, 4096), 0, 0};
    struct facet_launch launch = world_launch(&world, "report", sizeof arguments, 1, 1), wrong = launch;
    uint64_t ours = arguments.where;
    (void)state;

    wrong.argument_bytes = 8;
    expect_refused(&wrong, &arguments, FACET_OUT_OF_RANGE, "expected 16");
    expect_refused(&launch, NULL, FACET_INVALID_ARGUMENT, "arguments");
    arguments.where = theirs;
    expect_refused(&launch, &arguments, FACET_OUT_OF_RANGE, "argument 0 (where)");
    arguments.where = (uint64_t)&arguments;
    expect_refused(&launch, &arguments, FACET_OUT_OF_RANGE, "memory of this context");
    arguments.where = ours;
    arguments.local = 64;
    expect_refused(&launch, &arguments, FACET_OUT_OF_RANGE, "argument 1 (local)");
    arguments.local = 128; /* aligned, but beyond the launch's local memory */
    expect_refused(&launch, &arguments, FACET_OUT_OF_RANGE, "local memory");
    OK(&world, MEMORY->free(INSTANCE, world.context, ours, &world.error));
    arguments.local = 0;
    expect_refused(&launch, &arguments, FACET_OUT_OF_RANGE, "argument 0");
}

/* Loads the image after changing the scratch memory that its kernel `spin` needs. Its other numbers identify it. */
static void load_with_scratch(uint32_t fixed_bytes, uint32_t item_bytes)
{
    const uint32_t spin[10] = {[0] = 1, [1] = 8, [5] = 1, [6] = 1, [7] = 1}; /* members argument_count to reserved */
    size_t size = 0;
    unsigned char *image = world_file("test-cpu-kernels.so", &size), *place = memmem(image, size, spin, sizeof spin);

    assert_non_null(place);
    memcpy(place + 3 * sizeof(uint32_t), &fixed_bytes, sizeof fixed_bytes);
    memcpy(place + 4 * sizeof(uint32_t), &item_bytes, sizeof item_bytes);
    OK(&world, EXECUTION->load(INSTANCE, world.context, image, size, &world.module, &world.error));
    free(image);
}

static void a_kernel_that_needs_too_much_scratch_is_refused(void **state)
{
    const struct report arguments = {world_alloc(&world, world.context, WORDS * 4), 0, 0};
    struct facet_launch launch;
    (void)state;

    load_with_scratch(64, UINT32_C(1) << 26); /* items are rounded up to 64, so this is 4 GiB */
    launch = world_launch(&world, "spin", 8, 1, 1);
    expect_refused(&launch, &arguments, FACET_OUT_OF_RANGE, "kernel spin needs 4294967360 bytes of scratch memory");
    expect_refused(&launch, &arguments, FACET_OUT_OF_RANGE, "group of 1 work-items: expected at most 4294967296");
    launch = world_launch(&world, "report", sizeof arguments, 2, 1);
    OK(&world, world_run(&world, &launch, &arguments));
    OK(&world, world_wait(&world));
}

/* A transfer is checked again when it runs. Its memory was freed by then. */
static void a_transfer_to_freed_memory_fails_the_stream(void **state)
{
    uint64_t gate = world_alloc(&world, world.context, 4096), target = world_alloc(&world, world.context, 4096);
    struct facet_stream_state stream = {.size = sizeof stream};
    (void)state;

    world_spin(&world, gate);
    OK(&world, EXECUTION->fill(INSTANCE, world.context, world.stream, target, 1, 4096, &world.error));
    OK(&world, MEMORY->free(INSTANCE, world.context, target, &world.error));
    assert_int_equal(EXECUTION->fill(INSTANCE, world.context, world.stream, target, 1, 1, NULL), FACET_OUT_OF_RANGE);
    world_let_go(gate);
    OK(&world, world_wait(&world));
    OK(&world, EXECUTION->query(INSTANCE, world.context, world.stream, &stream, &world.error));
    assert_int_equal((int32_t)stream.failed, -(int32_t)FACET_OUT_OF_RANGE);
}

static uint64_t groups_of_last(void)
{
    struct facet_stream_state stream = {.size = sizeof stream};
    struct facet_launch_record record;
    uint32_t count = 0;

    OK(&world, world_wait(&world));
    OK(&world, EXECUTION->query(INSTANCE, world.context, world.stream, &stream, &world.error));
    OK(&world, EXECUTION->records(INSTANCE, world.context, world.stream, stream.launched - 1, &record, sizeof record, 1,
                                  &count, &world.error));
    assert_int_equal(count, 1);
    assert_int_equal(record.status, FACET_OK);
    return record.groups;
}

static void expect_bytes(uint64_t at, uint64_t bytes, uint64_t first)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (((const unsigned char *)at)[i] != (unsigned char)((first + i) * 31 >> 3))
            fail_msg("byte %llu of %llu", (unsigned long long)i, (unsigned long long)bytes);
}

/* A transfer has a group for each MiB, so that other work need not wait for all of it, or one if its ranges overlap. */
static void a_large_transfer_runs_as_many_groups(void **state)
{
    enum { MIB = 1 << 20, LARGE = 8 * MIB + 123 };
    uint64_t here = world_alloc(&world, world.context, 2 * LARGE), there = world_alloc(&world, world.context, LARGE);
    unsigned char *data = malloc(LARGE);
    (void)state;

    assert_non_null(data);
    for (uint64_t i = 0; i < LARGE; i++)
        data[i] = (unsigned char)(i * 31 >> 3);
    OK(&world, EXECUTION->write(INSTANCE, world.context, world.stream, here, data, LARGE, &world.error));
    free(data);
    assert_int_equal(groups_of_last(), 9);
    OK(&world, EXECUTION->copy(INSTANCE, world.context, world.stream, there, here, LARGE, &world.error));
    assert_int_equal(groups_of_last(), 9);
    expect_bytes(there, LARGE, 0);
    OK(&world, EXECUTION->copy(INSTANCE, world.context, world.stream, here + 7, here, LARGE, &world.error));
    assert_int_equal(groups_of_last(), 1);
    expect_bytes(here + 7, LARGE, 0);
    OK(&world, EXECUTION->copy(INSTANCE, world.context, world.stream, here, here + MIB, LARGE, &world.error));
    assert_int_equal(groups_of_last(), 1);
    expect_bytes(here, LARGE - MIB, MIB - 7);
    OK(&world, EXECUTION->fill(INSTANCE, world.context, world.stream, there, 5, LARGE, &world.error));
    assert_int_equal(groups_of_last(), 9);
    for (uint64_t i = 0; i < LARGE; i++)
        assert_int_equal(((const unsigned char *)there)[i], 5);
}

/* A single write may exceed the bound of 256 MiB. Further writes are refused until it is done. */
static void bytes_that_wait_to_be_written_are_bounded(void **state)
{
    enum { LARGE = 300 << 20 };
    uint64_t gate = world_alloc(&world, world.context, 4096), target = world_alloc(&world, world.context, LARGE);
    unsigned char *data = calloc(1, LARGE);
    (void)state;

    assert_non_null(data);
    world_spin(&world, gate);
    OK(&world, EXECUTION->write(INSTANCE, world.context, world.stream, target, data, LARGE, &world.error));
    assert_int_equal(EXECUTION->write(INSTANCE, world.context, world.stream, target, data, 1, &world.error),
                     FACET_BUSY);
    assert_non_null(strstr(world.error.message, "314572800 wait to be written already"));
    OK(&world, EXECUTION->fill(INSTANCE, world.context, world.stream, target, 1, 1, &world.error));
    world_let_go(gate);
    OK(&world, world_wait(&world));
    for (int i = 0; i < 3; i++)
        OK(&world, EXECUTION->write(INSTANCE, world.context, world.stream, target, data, 1 << 20, &world.error));
    OK(&world, MEMORY->destroy_context(INSTANCE, world.context, &world.error)); /* the writes may still be queued */
    free(data);
}

static void a_module_in_use_is_busy(void **state)
{
    uint64_t gate = world_alloc(&world, world.context, 4096);
    (void)state;

    world_spin(&world, gate);
    assert_int_equal(EXECUTION->unload(INSTANCE, world.context, world.module, &world.error), FACET_BUSY);
    assert_int_equal(EXECUTION->synchronize(INSTANCE, world.context, world.stream, 1000000, NULL), FACET_TIMEOUT);
    world_let_go(gate);
    OK(&world, world_wait(&world));
    OK(&world, EXECUTION->unload(INSTANCE, world.context, world.module, &world.error));
}

/* The context's number is invalid at once. Its memory is freed when the endless work-group is ended. */
static void a_context_at_work_ends_with_its_group(void **state)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    uint64_t gate = world_alloc(&world, world.context, 4096), watcher = world_context(&world, "watcher");
    (void)state;

    world_spin(&world, gate);
    OK(&world, MEMORY->destroy_context(INSTANCE, world.context, &world.error));
    assert_int_equal(MEMORY->destroy_context(INSTANCE, world.context, NULL), FACET_NOT_FOUND);
#ifdef __SANITIZE_THREAD__ /* no thread is ended under this sanitizer */
    world_let_go(gate);
#endif
    for (int i = 0; i < 10000 && world_used(&world, watcher) > 0; i++)
        nanosleep(&pause, NULL);
    assert_int_equal(world_used(&world, watcher), 0);
}

static void a_stream_at_work_ends_with_its_context(void **state)
{
    uint64_t gate = world_alloc(&world, world.context, 4096);
    (void)state;

    world_spin(&world, gate);
    OK(&world, EXECUTION->destroy_stream(INSTANCE, world.context, world.stream, &world.error));
    assert_int_equal(EXECUTION->cancel(INSTANCE, world.context, world.stream, NULL), FACET_NOT_FOUND);
    world_let_go(gate);
    OK(&world, MEMORY->destroy_context(INSTANCE, world.context, &world.error));
}

static void records_describe_the_launches_that_ran(void **state)
{
    const struct saxpy arguments = {1.0f, 0, 0, 0};
    const struct facet_launch launch = world_launch(&world, "saxpy", sizeof arguments, 100, 64);
    struct facet_launch_record records[4];
    uint32_t count = 0;
    (void)state;

    for (int i = 0; i < 3; i++)
        OK(&world, world_run(&world, &launch, &arguments));
    OK(&world, world_wait(&world));
    OK(&world,
       EXECUTION->records(INSTANCE, world.context, world.stream, 1, records, sizeof *records, 4, &count, &world.error));
    assert_int_equal(count, 2);
    assert_int_equal(records[0].sequence, 2);
    assert_string_equal(records[1].kernel, "saxpy");
    assert_int_equal(records[1].groups, 100);
    assert_true(records[1].queued_ns <= records[1].start_ns && records[1].start_ns <= records[1].end_ns);
}

static void shares_and_priorities_have_ranges(void **state)
{
    (void)state;
    OK(&world, EXECUTION->set_share(INSTANCE, world.context, 700, 1000, FACET_PRIORITY_HIGH, &world.error));
    assert_int_equal(EXECUTION->set_share(INSTANCE, world.context, 1001, 1000, 1, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(EXECUTION->set_share(INSTANCE, world.context, 0, 0, 1, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(EXECUTION->set_share(INSTANCE, world.context, 0, 1000, 3, NULL), FACET_OUT_OF_RANGE);
    OK(&world, EXECUTION->set_priority(INSTANCE, world.context, world.stream, FACET_PRIORITY_LOW, &world.error));
    assert_int_equal(EXECUTION->set_priority(INSTANCE, world.context, world.stream, 3, NULL), FACET_OUT_OF_RANGE);
}

/* Makes a context, launches some kernels, and ends the context while they are queued or run. */
static void run_round(unsigned *seed, const void *image, size_t size)
{
    char worker[] = {'r', (char)('0' + rand_r(seed) % 4), '\0'};
    uint64_t context = world_context(&world, worker), stream = world_stream(&world, context), module = 0;
    const struct saxpy arguments = {1.0f, COUNT, world_alloc(&world, context, 4 * COUNT),
                                    world_alloc(&world, context, 4 * COUNT)};
    struct facet_launch launch = world_launch(&world, "saxpy", sizeof arguments, 1, 64);

    OK(&world, EXECUTION->load(INSTANCE, context, image, size, &module, &world.error));
    launch.module = module;
    for (int i = rand_r(seed) % 8; i >= 0; i--) {
        launch.grid[0] = 1 + (uint32_t)rand_r(seed) % 5000;
        OK(&world, EXECUTION->launch(INSTANCE, context, stream, &launch, &arguments, &world.error));
    }
    switch (rand_r(seed) % 4) {
    case 0:
        OK(&world, EXECUTION->cancel(INSTANCE, context, stream, &world.error));
        break;
    case 1:
        OK(&world, EXECUTION->destroy_stream(INSTANCE, context, stream, &world.error));
        break;
    case 2:
        OK(&world, MEMORY->free(INSTANCE, context, arguments.x, &world.error));
        break;
    default:
        break;
    }
    OK(&world, MEMORY->destroy_context(INSTANCE, context, &world.error));
}

static void a_context_that_ends_at_any_moment_leaves_nothing(void **state)
{
    struct facet_process_metrics processes[8];
    unsigned seed = effort_seed(4711);
    uint32_t count = 0;
    size_t size = 0;
    void *image = world_file("test-cpu-kernels.so", &size);
    (void)state;

    print_message("# seed %u\n", seed);
    for (int i = 0; i < (int)effort(300, 50); i++)
        run_round(&seed, image, size);
    free(image);
    assert_int_equal(world_used(&world, world.context), 0);
    OK(&world, world.provider->metrics->processes(INSTANCE, 0, processes, sizeof *processes, 8, &count, &world.error));
    assert_int_equal(count, 1); /* the context of this test */
    assert_int_equal(processes[0].units_active, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_kernel_computes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_work_group_knows_its_index, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_grids_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_arguments_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_kernel_that_needs_too_much_scratch_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_transfer_to_freed_memory_fails_the_stream, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_large_transfer_runs_as_many_groups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_that_wait_to_be_written_are_bounded, begin_with_much_memory, tear_down),
        cmocka_unit_test_setup_teardown(a_module_in_use_is_busy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_context_at_work_ends_with_its_group, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stream_at_work_ends_with_its_context, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_context_that_ends_at_any_moment_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(records_describe_the_launches_that_ran, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shares_and_priorities_have_ranges, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
