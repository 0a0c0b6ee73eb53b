/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of the refusals of the table `math`, of its flags, and that its operations are scheduled like launches:
 * counted once, shared, preempted, cancelled. Never: asserts a time.
 */
#include "cpu_math_world.h"

#include <dirent.h>
#include <pthread.h>

#define EXECUTION (world.provider->execution)
#define INSTANCE  world.instance

/* ---- refusals ---- */

static void expect_refused(struct facet_math operation, enum facet_status expected, const char *text)
{
    struct facet_stream_state stream = {.size = sizeof stream};

    assert_int_equal(try_math(&operation), expected);
    if (!strstr(world.error.message, text))
        fail_msg("'%s' does not say '%s'", world.error.message, text);
    OK(&world, EXECUTION->query(INSTANCE, world.context, world.stream, &stream, &world.error));
    assert_int_equal(stream.launched, 0);
}

#define REFUSE(base, field, value, status, text)                                                                       \
    do {                                                                                                               \
        struct facet_math wrong = (base);                                                                              \
        wrong.field = (value);                                                                                         \
        expect_refused(wrong, (status), (text));                                                                       \
    } while (0)

static struct facet_math small_gemm(uint32_t type)
{
    struct facet_math operation = operation_of(FACET_MATH_GEMM, type, 0);

    operation.of.gemm = (struct facet_gemm){.m = 4, .n = 8, .k = 16, .alpha = 1};
    operation.of.gemm.a = random_numbers(FACET_MATH_F32, 64);
    operation.of.gemm.b = random_numbers(FACET_MATH_F32, 128);
    operation.of.gemm.c = random_numbers(FACET_MATH_F32, 32);
    return operation;
}

static void wrong_gemms_are_refused(void **state)
{
    const struct facet_math right = small_gemm(FACET_MATH_F32), bytes = small_gemm(FACET_MATH_INT8);
    uint64_t theirs = world_alloc(&world, world_context(&world, "other"), 4096);
    (void)state;

    REFUSE(right, size, 8, FACET_INVALID_ARGUMENT, "size 8");
    REFUSE(right, operation, 5, FACET_INVALID_ARGUMENT, "operation 5");
    REFUSE(right, type, 4, FACET_INVALID_ARGUMENT, "type 4");
    REFUSE(right, flags, FACET_MATH_CAUSAL, FACET_INVALID_ARGUMENT, "none of gemm");
    REFUSE(right, of.gemm.m, 0, FACET_OUT_OF_RANGE, "m 0");
    REFUSE(right, of.gemm.k, UINT64_C(1) << 63, FACET_OUT_OF_RANGE, "k 9223372036854775808");
    REFUSE(right, of.gemm.n, UINT64_C(1) << 48, FACET_OUT_OF_RANGE, "b: its shape");
    REFUSE(right, of.gemm.lead_a, 15, FACET_OUT_OF_RANGE, "lead_a 15");
    REFUSE(right, of.gemm.lead_b, UINT64_MAX, FACET_OUT_OF_RANGE, "b: its shape");
    REFUSE(right, of.gemm.batch, UINT64_C(1) << 47, FACET_OUT_OF_RANGE, "a: its shape");
    REFUSE(right, of.gemm.alpha, NAN, FACET_INVALID_ARGUMENT, "alpha nan");
    REFUSE(right, of.gemm.beta, INFINITY, FACET_INVALID_ARGUMENT, "beta inf");
    REFUSE(bytes, of.gemm.alpha, 2, FACET_INVALID_ARGUMENT, "alpha 2");
    REFUSE(bytes, of.gemm.beta, 0.5f, FACET_INVALID_ARGUMENT, "beta 0.5");
    REFUSE(right, of.gemm.a, 0, FACET_OUT_OF_RANGE, "a: 256 bytes at 0");
    REFUSE(right, of.gemm.b, theirs, FACET_OUT_OF_RANGE, "b: 512 bytes");
    REFUSE(right, of.gemm.c, right.of.gemm.c + 4096 - 124, FACET_OUT_OF_RANGE, "c: 128 bytes");
    struct facet_math overlap = right;
    overlap.of.gemm.batch = 2;
    overlap.of.gemm.stride_c = 31;
    expect_refused(overlap, FACET_OUT_OF_RANGE, "stride_c 31");
    assert_int_equal(world.provider->math->run(INSTANCE, world.context, 12345, &right, &world.error), FACET_NOT_FOUND);
    assert_int_equal(try_math(NULL), FACET_INVALID_ARGUMENT);
    run_math(&right);
}

static void other_wrong_shapes_are_refused(void **state)
{
    uint64_t memory = world_alloc(&world, world.context, 65536);
    struct facet_math convolution = operation_of(FACET_MATH_CONVOLUTION, FACET_MATH_F32, 0);
    struct facet_math activation = operation_of(FACET_MATH_ACTIVATION, FACET_MATH_F32, 0);
    struct facet_math normalization = operation_of(FACET_MATH_NORMALIZATION, FACET_MATH_F32, 0);
    struct facet_math attention = operation_of(FACET_MATH_ATTENTION, FACET_MATH_F32, 0);
    (void)state;

    convolution.of.convolution =
        (struct facet_convolution){memory, memory, memory, 0, 1, 4, 4, 5, 5, {3, 3}, {1, 1}, {0, 0}, {0, 0}, 0};
    activation.of.activation = (struct facet_activation){memory, memory, 1, 2, 3, 4, 0, 0};
    normalization.of.normalization =
        (struct facet_normalization){memory, memory, 0, 0, memory, memory, 1, 2, 3, 4, 0, 0};
    attention.of.attention = (struct facet_attention){memory, memory, memory, memory, 1, 1, 4, 6, 8, 0, 0};
    REFUSE(convolution, of.convolution.kernel[0], 6, FACET_OUT_OF_RANGE, "kernel[0] 6");
    REFUSE(convolution, of.convolution.dilation[1], UINT64_MAX, FACET_OUT_OF_RANGE, "dilation[1]");
    REFUSE(convolution, of.convolution.stride[1], 0, FACET_OUT_OF_RANGE, "stride[1] 0");
    REFUSE(convolution, of.convolution.padding[0], UINT64_MAX, FACET_OUT_OF_RANGE, "padding[0]");
    REFUSE(convolution, of.convolution.groups, 3, FACET_OUT_OF_RANGE, "groups 3");
    REFUSE(convolution, of.convolution.bias, 1, FACET_OUT_OF_RANGE, "bias: 16 bytes");
    REFUSE(convolution, of.convolution.padding[0], UINT64_C(1) << 40, FACET_OUT_OF_RANGE, "output");
    REFUSE(activation, of.activation.kind, 9, FACET_INVALID_ARGUMENT, "kind 9");
    activation.of.activation.kind = FACET_ACTIVATION_TANH;
    REFUSE(activation, type, FACET_MATH_INT8, FACET_UNSUPPORTED, "int8");
    REFUSE(activation, of.activation.height, 0, FACET_OUT_OF_RANGE, "height 0");
    REFUSE(activation, of.activation.input, 4096, FACET_OUT_OF_RANGE, "input");
    REFUSE(normalization, type, FACET_MATH_INT8, FACET_UNSUPPORTED, "normalization has no int8");
    REFUSE(normalization, of.normalization.mean, 0, FACET_OUT_OF_RANGE, "mean: 8 bytes at 0");
    REFUSE(normalization, of.normalization.epsilon, -1, FACET_INVALID_ARGUMENT, "epsilon -1");
    REFUSE(normalization, flags, FACET_MATH_TRANSPOSE_A, FACET_INVALID_ARGUMENT, "normalization");
    REFUSE(attention, type, FACET_MATH_INT8, FACET_UNSUPPORTED, "attention has no int8");
    REFUSE(attention, flags, FACET_MATH_CAUSAL, FACET_OUT_OF_RANGE, "queries 4");
    REFUSE(attention, of.attention.dimension, UINT64_C(1) << 40, FACET_OUT_OF_RANGE, "q: ");
    REFUSE(attention, of.attention.scale, NAN, FACET_INVALID_ARGUMENT, "scale");
}

/* ---- flags ---- */

static float product_of(float a, float b, uint32_t type, uint32_t flags, struct facet_launch_record *ret_record)
{
    struct facet_math operation = small_gemm(type);

    operation.flags = flags;
    for (uint64_t i = 0; i < 64; i++)
        put(operation.of.gemm.a, type, i, i % 16 == 0 ? (double)a : 0);
    for (uint64_t i = 0; i < 128; i++)
        put(operation.of.gemm.b, type, i, (double)b);
    *ret_record = run_math(&operation);
    return (float)get_product(operation.of.gemm.c, type, 31);
}

/* The processor's unit for bf16 reads values below 2^-126 as 0, whatever the thread's setting; f32 does not. */
static void without_tensor_units_nothing_is_multiplied_by_them(void **state)
{
    struct facet_math_support support = {.size = sizeof support};
    struct facet_launch_record record;
    (void)state;

    OK(&world, world.provider->math->support(INSTANCE, 0, &support, &world.error));
    bool bf16 = support.tensor_types & 1u << FACET_MATH_BF16, int8 = support.tensor_types & 1u << FACET_MATH_INT8;
    assert_true(product_of(0x1p-130f, 0x1p100f, FACET_MATH_BF16, FACET_MATH_NO_TENSOR, &record) == 0x1p-30f);
    assert_non_null(strstr(record.kernel, " f32"));
    assert_true(product_of(0x1p-130f, 0x1p100f, FACET_MATH_BF16, 0, &record) == (bf16 ? 0.0f : 0x1p-30f));
    assert_non_null(strstr(record.kernel, bf16 ? " bf16" : " f32"));
    assert_true(product_of(-128, -128, FACET_MATH_INT8, FACET_MATH_NO_TENSOR, &record) == 16384.0f);
    assert_non_null(strstr(record.kernel, " f32"));
    product_of(1, 1, FACET_MATH_INT8, 0, &record);
    assert_non_null(strstr(record.kernel, int8 ? " int8" : " f32"));
}

static void only_mixed_operations_round_their_inputs(void **state)
{
    struct facet_math_support support = {.size = sizeof support};
    struct facet_launch_record record;
    float fine = 1.0f + 0x1p-12f;
    (void)state;

    OK(&world, world.provider->math->support(INSTANCE, 0, &support, &world.error));
    assert_true(product_of(fine, 1, FACET_MATH_F32, 0, &record) == fine);
    assert_true(product_of(fine, 1, FACET_MATH_F32, FACET_MATH_MIXED, &record) == (support.mixed ? 1.0f : fine));
    assert_true(product_of(fine, 1, FACET_MATH_F32, FACET_MATH_MIXED | FACET_MATH_NO_TENSOR, &record) == fine);
}

static void support_describes_what_is_present(void **state)
{
    struct facet_math_support support = {.size = sizeof support};
    (void)state;

    OK(&world, world.provider->math->support(INSTANCE, 0, &support, &world.error));
    assert_int_equal(support.types[FACET_MATH_GEMM], 15);     /* all four types */
    assert_int_equal(support.types[FACET_MATH_ATTENTION], 7); /* all but int8 */
    assert_memory_equal(support.library, "oneDNN ", 7);
    assert_int_equal(world.provider->math->support(INSTANCE, 1, &support, NULL), FACET_NOT_FOUND);
}

/* Opens the provider again, because an object that was opened stays open. */
static void without_the_library_the_message_names_what_to_install(void **state)
{
    struct facet_math_support support = {.size = sizeof support};
    struct facet_device_info device = {.size = sizeof device};
    uint32_t count = 0;
    char *before = strdup(getenv("FACET_LIB_DIR"));
    (void)state;

    setenv("FACET_LIB_DIR", "/nowhere", 1);
    world_begin(&world);
    OK(&world, world.provider->device->list(INSTANCE, &device, sizeof device, 1, &count, &world.error));
    assert_int_equal(device.capabilities & FACET_CAN_MATH, 0);
    assert_int_equal(world.provider->math->support(INSTANCE, 0, &support, &world.error), FACET_UNSUPPORTED);
    assert_non_null(strstr(world.error.message, "libdnnl"));
    assert_int_equal(try_math(&(struct facet_math){.size = sizeof(struct facet_math)}), FACET_UNSUPPORTED);
    world_end(&world);
    setenv("FACET_LIB_DIR", before, 1);
    free(before);
}

/* ---- scheduling ---- */

static struct facet_math large_gemm(uint64_t context, uint64_t size)
{
    struct facet_math operation = operation_of(FACET_MATH_GEMM, FACET_MATH_F32, FACET_MATH_TRANSPOSE_A);
    struct facet_gemm *it = &operation.of.gemm;

    *it = (struct facet_gemm){.m = size, .n = size, .k = size, .alpha = 1};
    it->a = world_alloc(&world, context, size * size * 4);
    it->b = world_alloc(&world, context, size * size * 4);
    it->c = world_alloc(&world, context, size * size * 4);
    return operation;
}

/* Takes long and needs little memory: a batch of deep products, whose operands overlap except for one element. */
static struct facet_math long_gemm(uint64_t context)
{
    enum { SIDE = 300, DEPTH = 20000, BATCH = 40 };
    struct facet_math operation = operation_of(FACET_MATH_GEMM, FACET_MATH_F32, 0);
    struct facet_gemm *it = &operation.of.gemm;

    *it =
        (struct facet_gemm){.m = SIDE, .n = SIDE, .k = DEPTH, .batch = BATCH, .stride_a = 1, .stride_b = 1, .alpha = 1};
    it->a = world_alloc(&world, context, (SIDE * DEPTH + BATCH) * 4);
    it->b = world_alloc(&world, context, (SIDE * DEPTH + BATCH) * 4);
    it->c = world_alloc(&world, context, SIDE * SIDE * BATCH * 4);
    return operation;
}

static uint32_t threads_before;

static uint32_t count_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    uint32_t count = 0;

    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static void *do_nothing(void *argument)
{
    return argument;
}

/* A sanitizer starts a thread of its own with a program's first thread. So a thread is started before the count. */
static uint32_t count_threads_of_an_idle_program(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, do_nothing, NULL) == 0)
        pthread_join(thread, NULL);
    return count_threads();
}

/* Packing and multiplying are one launch, in any number of parts. Units are the only threads: OpenMP starts none. */
static void one_operation_is_one_launch(void **state)
{
    struct facet_math operation = large_gemm(world.context, 700);
    struct facet_stream_state stream = {.size = sizeof stream};
    (void)state;

    struct facet_launch_record record = run_math(&operation);
    OK(&world, EXECUTION->query(INSTANCE, world.context, world.stream, &stream, &world.error));
    assert_int_equal(stream.launched, 1);
    assert_int_equal(stream.completed, 1);
    assert_int_equal(record.sequence, 1);
    assert_true(record.groups > 8 && record.busy_ns > 0 && record.units >= 1);
    assert_memory_equal(record.kernel, "gemm ", 5);
    assert_in_range(count_threads() - threads_before, 1, WORLD_UNITS + 1); /* units, watchdog */
}

/* The operands are freed while the operation is queued, and stay until it is complete. */
static void freed_operands_stay_until_the_operation_is_complete(void **state)
{
    struct facet_math first = large_gemm(world.context, 600), operation = large_gemm(world.context, 100);
    struct facet_gemm *it = &operation.of.gemm;
    (void)state;

    for (uint64_t i = 0; i < 10000; i++)
        put(it->a, FACET_MATH_F32, i, 1), put(it->b, FACET_MATH_F32, i, 1);
    OK(&world, try_math(&first));
    OK(&world, try_math(&operation));
    give_back(it->a);
    give_back(it->b);
    OK(&world, world_wait(&world));
    assert_int_equal(last_record().status, FACET_OK);
    for (uint64_t i = 0; i < 10000; i++)
        assert_true(get(it->c, FACET_MATH_F32, i) == 100.0);
}

static void wait_until_it_runs(void)
{
    const struct timespec pause = {.tv_nsec = 100000};
    struct facet_stream_state state = {.size = sizeof state};

    for (int i = 0; i < 100000 && state.begun == 0; i++) {
        nanosleep(&pause, NULL);
        OK(&world, EXECUTION->query(INSTANCE, world.context, world.stream, &state, &world.error));
    }
    assert_int_equal(state.begun, 1);
    assert_int_equal(state.completed, 0);
}

static struct facet_launch_record record_of(uint64_t context, uint64_t stream)
{
    struct facet_launch_record records[64];
    uint32_t count = 0;

    OK(&world, EXECUTION->synchronize(INSTANCE, context, stream, WORLD_WAIT_NS, &world.error));
    OK(&world, EXECUTION->records(INSTANCE, context, stream, 0, records, sizeof records[0], 64, &count, &world.error));
    assert_in_range(count, 1, 64);
    return records[0];
}

/* A launch of high priority does not wait for the end of a product that takes thousands of times as long. */
static void a_launch_of_higher_priority_runs_between_tiles(void **state)
{
    uint64_t other = world_context(&world, "urgent"), stream = world_stream(&world, other);
    struct facet_math slow = long_gemm(world.context), quick = large_gemm(other, 256);
    (void)state;

    OK(&world, EXECUTION->set_share(INSTANCE, other, 0, 1000, FACET_PRIORITY_HIGH, &world.error));
    OK(&world, try_math(&slow));
    wait_until_it_runs();
    OK(&world, world.provider->math->run(INSTANCE, other, stream, &quick, &world.error));
    struct facet_launch_record urgent = record_of(other, stream);
    OK(&world, EXECUTION->cancel(INSTANCE, world.context, world.stream, &world.error));
    struct facet_launch_record long_one = record_of(world.context, world.stream);
    assert_int_equal(urgent.status, FACET_OK);
    assert_int_equal(long_one.status, FACET_BAD_STATE); /* it was still running */
    assert_true(long_one.start_ns < urgent.start_ns);
    assert_true(urgent.end_ns < long_one.end_ns);
}

static void a_running_operation_is_cancelled(void **state)
{
    struct facet_math operation = long_gemm(world.context), next = large_gemm(world.context, 64);
    (void)state;

    OK(&world, try_math(&operation));
    wait_until_it_runs();
    OK(&world, EXECUTION->cancel(INSTANCE, world.context, world.stream, &world.error));
    struct facet_launch_record record = record_of(world.context, world.stream);
    assert_int_equal(record.status, FACET_BAD_STATE);
    run_math(&next);
}

static uint64_t busy_of(uint64_t context, uint64_t stream)
{
    struct facet_stream_state state = {.size = sizeof state};
    (void)context;

    OK(&world, EXECUTION->query(INSTANCE, context, stream, &state, &world.error));
    return state.busy_ns;
}

/* With two units, the context with the smaller share would get time that the other cannot use between its phases. */
static int begin_with_one_unit(void **state)
{
    (void)state;
    world_open(&world);
    world.provider->device->close(world.instance);
    setenv("FACET_CPU_UNITS", "1", 1);
    OK(&world, world.provider->device->open(&world.instance, &world.error));
    world.context = world_context(&world, "w");
    world.stream = world_stream(&world, world.context);
    return 0;
}

/* Shares of three to one are compared with the charges when the first context has completed 54 of 60 operations. */
static void shares_hold_between_operations(void **state)
{
    uint64_t contexts[2] = {world.context, world_context(&world, "other")}, streams[2] = {world.stream, 0};
    const struct timespec pause = {.tv_nsec = 500000};
    struct facet_math operations[2];
    struct facet_stream_state first = {.size = sizeof first};
    (void)state;

    streams[1] = world_stream(&world, contexts[1]);
    OK(&world, EXECUTION->set_share(INSTANCE, contexts[0], 750, 1000, FACET_PRIORITY_NORMAL, &world.error));
    OK(&world, EXECUTION->set_share(INSTANCE, contexts[1], 250, 1000, FACET_PRIORITY_NORMAL, &world.error));
    for (int i = 0; i < 2; i++)
        operations[i] = large_gemm(contexts[i], 500);
    for (int n = 0; n < 60; n++)
        for (int i = 0; i < 2; i++)
            OK(&world, world.provider->math->run(INSTANCE, contexts[i], streams[i], &operations[i], &world.error));
    while (first.completed < 54) {
        nanosleep(&pause, NULL);
        OK(&world, EXECUTION->query(INSTANCE, contexts[0], streams[0], &first, &world.error));
    }
    double ratio = (double)busy_of(contexts[0], streams[0]) / (double)busy_of(contexts[1], streams[1]);
    if (!(ratio > 2.5 && ratio < 3.5))
        fail_msg("shares of 750 and 250 were charged %.2f to 1", ratio);
}

/* Twenty operations are queued when the context ends, and all its memory is freed. */
static void a_context_ends_with_operations_queued(void **state)
{
    uint64_t watcher = world_context(&world, "watcher");
    struct facet_math operation = large_gemm(world.context, 500);
    (void)state;

    for (int i = 0; i < 20; i++)
        OK(&world, try_math(&operation));
    OK(&world, world.provider->memory->destroy_context(INSTANCE, world.context, &world.error));
    assert_int_equal(world_used(&world, watcher), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wrong_gemms_are_refused, math_begin, math_end),
        cmocka_unit_test_setup_teardown(other_wrong_shapes_are_refused, math_begin, math_end),
        cmocka_unit_test_setup_teardown(without_tensor_units_nothing_is_multiplied_by_them, math_begin, math_end),
        cmocka_unit_test_setup_teardown(only_mixed_operations_round_their_inputs, math_begin, math_end),
        cmocka_unit_test_setup_teardown(support_describes_what_is_present, math_begin, math_end),
        cmocka_unit_test(without_the_library_the_message_names_what_to_install),
        cmocka_unit_test_setup_teardown(one_operation_is_one_launch, math_begin, math_end),
        cmocka_unit_test_setup_teardown(freed_operands_stay_until_the_operation_is_complete, math_begin, math_end),
        cmocka_unit_test_setup_teardown(a_launch_of_higher_priority_runs_between_tiles, math_begin, math_end),
        cmocka_unit_test_setup_teardown(a_running_operation_is_cancelled, math_begin, math_end),
        cmocka_unit_test_setup_teardown(shares_hold_between_operations, begin_with_one_unit, math_end),
        cmocka_unit_test_setup_teardown(a_context_ends_with_operations_queued, math_begin, math_end),
    };

    threads_before = count_threads_of_an_idle_program();
    return cmocka_run_group_tests_name("cpu math rules", tests, NULL, NULL);
}
