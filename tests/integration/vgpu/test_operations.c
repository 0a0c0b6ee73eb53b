/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the proof that operations of facet/compute.h reach the device, and that the vGPU's switches (tensor cores,
 * mixed precision) apply to them. Never: proves the arithmetic of an operation: the provider's own tests and the
 * conformance suite do. */
#include "world.h"

#include "base/clock.h"

#define SIDE 32u

static struct facet_math_support support;

static int set_up_support(void **state)
{
    world_load(state);
    world_set_up(state);
    vgpu_make(1);
    support = (struct facet_math_support){.size = sizeof support};
    enum facet_status status = facet_vgpu_get_operations(world.driver, 1, &support, ERROR);
    if (status != FACET_OK)
        print_message("# the device has no operations: %s\n", world.error.message);
    world_tear_down(state);
    return 0;
}

static void need_operation(uint32_t operation, uint32_t type)
{
    if (!(support.types[operation] & 1u << type))
        skip();
}

static uint64_t upload_words(const void *data, uint64_t bytes)
{
    uint64_t address = vgpu_memory(1, bytes);

    OK(facet_vgpu_copy(world.driver, 1, address, (uintptr_t)data, bytes, FACET_COPY_TO_DEVICE, ERROR));
    return address;
}

static void download_words(void *data, uint64_t address, uint64_t bytes)
{
    OK(facet_vgpu_copy(world.driver, 1, (uintptr_t)data, address, bytes, FACET_COPY_TO_HOST, ERROR));
}

static struct facet_math gemm_of(uint64_t a, uint64_t b, uint64_t c, uint32_t type)
{
    return (struct facet_math){.size = sizeof(struct facet_math),
                               .operation = FACET_MATH_GEMM,
                               .type = type,
                               .of.gemm = {.a = a, .b = b, .c = c, .m = SIDE, .n = SIDE, .k = SIDE, .alpha = 1}};
}

static struct facet_execution run_operation(const struct facet_math *operation)
{
    uint64_t execution = 0;

    OK(facet_vgpu_operate(world.driver, 1, 1, operation, &execution, ERROR));
    OK(facet_vgpu_synchronize(world.driver, 1, 1, WAIT_NS, ERROR));
    return vgpu_execution(1, execution);
}

/* The first element of the product. From 1 + 2^-12 in f32 it is more than 1; rounding the operands to bf16 makes it 1.
 */
static float run_and_read_first(const struct facet_math *gemm)
{
    float first;

    run_operation(gemm);
    download_words(&first, gemm->of.gemm.c, sizeof first);
    return first;
}

static void a_product_is_right_and_is_one_execution(void **state)
{
    float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];

    need_operation(FACET_MATH_GEMM, FACET_MATH_F32);
    vgpu_make(1);
    for (uint32_t i = 0; i < SIDE * SIDE; i++) {
        a[i] = (float)(i % 7);
        b[i] = (float)(i % 5) - 2;
    }
    const struct facet_math gemm =
        gemm_of(upload_words(a, sizeof a), upload_words(b, sizeof b), vgpu_memory(1, sizeof c), FACET_MATH_F32);
    struct facet_execution what = run_operation(&gemm);
    assert_int_equal(what.status, FACET_EXECUTION_COMPLETED);
    assert_int_equal(what.stream, 1);
    assert_memory_equal(what.kernel, "gemm ", 5);
    assert_int_equal(vgpu_info(1).launched_total, 1);
    download_words(c, gemm.of.gemm.c, sizeof c);
    for (uint32_t row = 0; row < SIDE; row++)
        for (uint32_t column = 0; column < SIDE; column++) {
            float sum = 0;

            for (uint32_t k = 0; k < SIDE; k++)
                sum += a[row * SIDE + k] * b[k * SIDE + column];
            assert_true(c[row * SIDE + column] >= sum &&
                        c[row * SIDE + column] <= sum); /* exact: small whole numbers */
        }
}

static void mixed_precision_is_switched_at_run_time(void **state)
{
    float a[SIDE * SIDE] = {1 + 0x1p-12f}, b[SIDE * SIDE] = {1};

    need_operation(FACET_MATH_GEMM, FACET_MATH_F32);
    vgpu_make(1);
    const struct facet_math gemm =
        gemm_of(upload_words(a, sizeof a), upload_words(b, sizeof b), vgpu_memory(1, sizeof a), FACET_MATH_F32);
    assert_true(run_and_read_first(&gemm) > 1);
    OK(facet_vgpu_set_mixed_precision(world.driver, 1, true, ERROR));
    assert_int_equal(vgpu_info(1).on, FACET_ON_MIXED_PRECISION);
    if (support.mixed)
        assert_false(run_and_read_first(&gemm) > 1);
    OK(facet_vgpu_set_tensor_cores(world.driver, 1, false, ERROR)); /* without tensor cores no operand is rounded */
    assert_true(run_and_read_first(&gemm) > 1);
    OK(facet_vgpu_set_tensor_cores(world.driver, 1, true, ERROR));
    OK(facet_vgpu_set_mixed_precision(world.driver, 1, false, ERROR));
    assert_true(run_and_read_first(&gemm) > 1);
}

#define BF16_2_TO_MINUS_127 0x0040 /* less than any normal number */
#define BF16_2_TO_100       0x7180
#define BF16_2_TO_MINUS_27  0x3200

static uint16_t first_half(uint64_t address)
{
    uint16_t half;

    download_words(&half, address, sizeof half);
    return half;
}

/*
 * While tensor cores are off, the processor's bf16 units are not used. Two things show whether they were: the record
 * names the implementation that ran, and the units of x86 processors treat a subnormal factor as 0 with any settings of
 * the thread (VDPBF16PS, TDPBF16PS: Intel's manual, volume 2), which arithmetic in f32 does not.
 */
static void tensor_cores_are_switched_at_run_time(void **state)
{
    static const uint16_t tiny[SIDE * SIDE] = {BF16_2_TO_MINUS_127}, large[SIDE * SIDE] = {BF16_2_TO_100};
    struct facet_execution with, without;
    bool device_is_cpu = !getenv("FACET_TEST_PROVIDER");

    need_operation(FACET_MATH_GEMM, FACET_MATH_BF16);
    if (!(support.tensor_types & 1u << FACET_MATH_BF16)) {
        print_message("# this device has no units for bf16 that could be switched off\n");
        skip();
    }
    vgpu_make(1);
    const struct facet_math gemm = gemm_of(upload_words(tiny, sizeof tiny), upload_words(large, sizeof large),
                                           vgpu_memory(1, sizeof tiny), FACET_MATH_BF16);
    with = run_operation(&gemm);
    if (device_is_cpu)
        assert_int_equal(first_half(gemm.of.gemm.c), 0);
    OK(facet_vgpu_set_tensor_cores(world.driver, 1, false, ERROR));
    assert_int_equal(vgpu_info(1).off, FACET_OFF_TENSOR_CORES);
    without = run_operation(&gemm);
    assert_string_not_equal(with.kernel, without.kernel);
    assert_null(strstr(without.kernel, "bf16"));
    if (device_is_cpu)
        assert_int_equal(first_half(gemm.of.gemm.c), BF16_2_TO_MINUS_27);
    OK(facet_vgpu_set_tensor_cores(world.driver, 1, true, ERROR));
    without = run_operation(&gemm);
    assert_string_equal(with.kernel, without.kernel);
    if (device_is_cpu)
        assert_int_equal(first_half(gemm.of.gemm.c), 0);
}

static void features_that_the_driver_switches_off_stay_off(void **state)
{
    struct facet_driver_config config = world_config();
    struct facet_vgpu_config mixed = vgpu_config(2);

    config.off = FACET_OFF_TENSOR_CORES | FACET_OFF_MIXED_PRECISION;
    world_open(&config);
    vgpu_make(1);
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_set_tensor_cores(world.driver, 1, true, ERROR));
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_set_mixed_precision(world.driver, 1, true, ERROR));
    OK(facet_vgpu_set_tensor_cores(world.driver, 1, false, ERROR));
    mixed.on = FACET_ON_MIXED_PRECISION;
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_create(world.driver, &mixed, NULL, ERROR));
    assert_int_equal(vgpu_info(1).off, FACET_OFF_TENSOR_CORES);
    world_close();
}

/* A vGPU's compute is a part of the whole GPU's time, not a sum of times of its hundreds of units. */
static void a_vgpus_compute_is_a_share_of_the_whole_device(void **state)
{
    struct facet_vgpu_info info = {0};

    need_operation(FACET_MATH_GEMM, FACET_MATH_F32);
    if (!getenv("FACET_TEST_PROVIDER"))
        return;
    vgpu_make(1);
    uint64_t memory = vgpu_memory(1, MIB);
    const struct facet_math gemm = gemm_of(memory, memory, memory + MIB / 2, FACET_MATH_F32);
    /* Until the monitor has measured an interval that was full of work. */
    for (uint64_t end = facet_clock_now_ns() + WAIT_NS; facet_clock_now_ns() < end && info.compute_milli < 20;) {
        for (int i = 0; i < 100; i++)
            OK(facet_vgpu_operate(world.driver, 1, 1, &gemm, NULL, ERROR));
        OK(facet_vgpu_synchronize(world.driver, 1, 1, WAIT_NS, ERROR));
        info = vgpu_info(1);
    }
    assert_in_range(info.compute_milli, 20, 1000);
}

/* The driver checks operands against their allocations, because the device could check only whole pages, and
 * neighbouring allocations share a page. */
static void operands_keep_to_their_allocations(void **state)
{
    const uint64_t bytes = SIDE * SIDE * sizeof(float);
    float first;

    need_operation(FACET_MATH_GEMM, FACET_MATH_F32);
    vgpu_make(1);
    uint64_t freed = vgpu_memory(1, bytes), blocks[] = {vgpu_memory(1, bytes), vgpu_memory(1, bytes)};
    struct facet_math gemm = gemm_of(blocks[0], blocks[0], blocks[1] + 8, FACET_MATH_F32);
    OK(facet_vgpu_free(world.driver, 1, freed, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_operate(world.driver, 1, 0, &gemm, NULL, ERROR));
    assert_string_equal(world.error.argument, "c");
    gemm.of.gemm.c = blocks[1];
    gemm.of.gemm.b = freed;
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_operate(world.driver, 1, 0, &gemm, NULL, ERROR));
    assert_string_equal(world.error.argument, "b");
    gemm.of.gemm.b = blocks[0];
    gemm.of.gemm.m++;
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_operate(world.driver, 1, 0, &gemm, NULL, ERROR));
    assert_string_equal(world.error.argument, "a");
    assert_int_equal(vgpu_info(1).launched_total, 0);
    gemm.of.gemm.m--;
    run_operation(&gemm);
    download_words(&first, blocks[1], sizeof first);
    assert_false(first > 0);
}

/* Each kind of operation completes once in each type in which the device supports it. */
static void every_operation_runs_in_every_type(void **state)
{
    static const uint32_t bytes_of[] = {4, 2, 2, 1};
    uint32_t ran = 0;

    vgpu_make(1);
    uint64_t memory = vgpu_memory(1, MIB);
    for (uint32_t type = 0; type < FACET_MATH_TYPES; type++) {
        uint64_t part = 65536 * bytes_of[type];
        struct facet_math operations[FACET_MATH_KINDS] = {
            gemm_of(memory, memory + part, memory + 2 * part, type),
            {.of.convolution = {.input = memory,
                                .filter = memory + part,
                                .output = memory + 2 * part,
                                .batch = 1,
                                .in_channels = 3,
                                .out_channels = 4,
                                .height = 8,
                                .width = 8,
                                .kernel = {3, 3},
                                .stride = {1, 1},
                                .padding = {1, 1}}},
            {.of.activation = {.input = memory,
                               .output = memory + part,
                               .batch = 2,
                               .channels = 3,
                               .height = 4,
                               .width = 4,
                               .kind = FACET_ACTIVATION_RELU}},
            {.of.normalization = {.input = memory,
                                  .output = memory + part,
                                  .mean = memory + 2 * part,
                                  .variance = memory + 3 * part,
                                  .batch = 2,
                                  .channels = 3,
                                  .height = 4,
                                  .width = 4}},
            {.of.attention = {.q = memory,
                              .k = memory,
                              .v = memory,
                              .output = memory + part,
                              .batch = 1,
                              .heads = 2,
                              .queries = 8,
                              .keys = 8,
                              .dimension = 16}},
        };

        for (uint32_t kind = 0; kind < FACET_MATH_KINDS; kind++) {
            if (!(support.types[kind] & 1u << type))
                continue;
            operations[kind].size = sizeof operations[kind];
            operations[kind].operation = kind;
            operations[kind].type = type;
            assert_int_equal(run_operation(&operations[kind]).status, FACET_EXECUTION_COMPLETED);
            ran++;
        }
    }
    if (ran == 0)
        skip();
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, world_set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(a_product_is_right_and_is_one_execution),
        WITH_WORLD(mixed_precision_is_switched_at_run_time),
        WITH_WORLD(tensor_cores_are_switched_at_run_time),
        cmocka_unit_test(features_that_the_driver_switches_off_stay_off),
        WITH_WORLD(operands_keep_to_their_allocations),
        WITH_WORLD(a_vgpus_compute_is_a_share_of_the_whole_device),
        WITH_WORLD(every_operation_runs_in_every_type),
    };

    return cmocka_run_group_tests(tests, set_up_support, world_unload);
}
