/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests of the built rocm provider's mathematics over fake libraries, beyond the conformance suite: the calls of
 * the libraries, libraries that are missing or too old, refusals, leaks. Never: opens a real library.
 */
#include "tests/provider.h"
#include "vendor/hip/execution.h"
#include "vendor/hip/hipblaslt.h"

#define SECOND UINT64_C(1000000000)

enum { SIDE = 3, BYTES = SIDE * SIDE * sizeof(float) };

struct world {
    struct facet_provider_instance *instance;
    uint64_t context, stream, at; /* `at`: memory of zeros */
};

static struct facet_provider_instance *open_provider(void)
{
    struct facet_provider_instance *instance = NULL;
    struct facet_error error = {0};

    if (provider->device->open(&instance, &error) != FACET_OK)
        fail_msg("open: %s", error.message);
    return instance;
}

static struct world open_world(struct facet_provider_instance *instance)
{
    struct world world = {.instance = instance};
    struct facet_error error = {0};

    if (provider->memory->create_context(instance, 0, NULL, "w", &world.context, &error) != FACET_OK)
        fail_msg("create_context: %s", error.message);
    assert_int_equal(provider->execution->create_stream(instance, world.context, &world.stream, NULL), FACET_OK);
    assert_int_equal(provider->memory->alloc(instance, world.context, 4096, &world.at, NULL), FACET_OK);
    assert_int_equal(provider->memory->fill(instance, world.context, world.at, 0, 4096, NULL), FACET_OK);
    return world;
}

/* Makes the provider open these libraries; NULL: the fake ones. */
static void use_libraries(const char *blas, const char *dnn)
{
    setenv("FACET_ROCM_HIPBLASLT", blas ? blas : getenv("FACET_TEST_HIPBLASLT"), 1);
    setenv("FACET_ROCM_MIOPEN", dnn ? dnn : getenv("FACET_TEST_MIOPEN"), 1);
}

static struct world open_with(const char *blas, const char *dnn)
{
    use_libraries(blas, dnn);
    return open_world(open_provider());
}

static struct facet_math gemm_of(const struct world *world, uint32_t type, uint32_t flags)
{
    struct facet_math math = {.size = sizeof math, .operation = FACET_MATH_GEMM, .type = type, .flags = flags};

    math.of.gemm = (struct facet_gemm){.a = world->at,
                                       .b = world->at + BYTES,
                                       .c = world->at + 2 * BYTES,
                                       .m = SIDE,
                                       .n = SIDE,
                                       .k = SIDE,
                                       .alpha = 1};
    return math;
}

static struct facet_math convolution_of(const struct world *world, uint32_t type)
{
    struct facet_math math = {.size = sizeof math, .operation = FACET_MATH_CONVOLUTION, .type = type};

    math.of.convolution = (struct facet_convolution){.input = world->at,
                                                     .filter = world->at + 1024,
                                                     .output = world->at + 2048,
                                                     .batch = 1,
                                                     .in_channels = 1,
                                                     .out_channels = 1,
                                                     .height = 4,
                                                     .width = 4,
                                                     .kernel = {2, 2},
                                                     .stride = {1, 1}};
    return math;
}

static struct facet_math attention_of(const struct world *world)
{
    struct facet_math math = {.size = sizeof math, .operation = FACET_MATH_ATTENTION, .flags = FACET_MATH_CAUSAL};

    math.of.attention = (struct facet_attention){.q = world->at,
                                                 .k = world->at + 1024,
                                                 .v = world->at + 2048,
                                                 .output = world->at + 3072,
                                                 .batch = 1,
                                                 .heads = 2,
                                                 .queries = 4,
                                                 .keys = 4,
                                                 .dimension = 4};
    return math;
}

/* An activation in place: its output replaces its input. */
static struct facet_math activation_of(const struct world *world, uint32_t kind)
{
    struct facet_math math = {.size = sizeof math, .operation = FACET_MATH_ACTIVATION};

    math.of.activation = (struct facet_activation){.input = world->at,
                                                   .output = world->at,
                                                   .batch = 1,
                                                   .channels = 4,
                                                   .height = 4,
                                                   .width = 4,
                                                   .kind = kind,
                                                   .alpha = 1};
    return math;
}

/* A normalization in place, with training, of channels of `side` x `side` elements. */
static struct facet_math training_of(const struct world *world, uint64_t side)
{
    struct facet_math math = {.size = sizeof math, .operation = FACET_MATH_NORMALIZATION, .flags = FACET_MATH_TRAINING};

    math.of.normalization = (struct facet_normalization){.input = world->at,
                                                         .output = world->at,
                                                         .mean = world->at + 2048,
                                                         .variance = world->at + 2056,
                                                         .batch = 1,
                                                         .channels = 2,
                                                         .height = side,
                                                         .width = side};
    return math;
}

static enum facet_status run_math(const struct world *world, struct facet_math math, struct facet_error *error)
{
    return provider->math->run(world->instance, world->context, world->stream, &math, error);
}

/* Runs `math`, waits for it, and returns the failure of the stream's first failed launch; 0 if none failed. */
static uint32_t first_failure_after(const struct world *world, struct facet_math math)
{
    struct facet_stream_state now = {.size = sizeof now};
    struct facet_error error = {0};

    if (run_math(world, math, &error) != FACET_OK)
        fail_msg("%s", error.message);
    provider->execution->synchronize(world->instance, world->context, world->stream, 60 * SECOND, NULL);
    assert_int_equal(provider->execution->query(world->instance, world->context, world->stream, &now, NULL), FACET_OK);
    return now.failed;
}

static void run_and_succeed(const struct world *world, struct facet_math math)
{
    assert_int_equal(first_failure_after(world, math), 0);
}

static void expect_refusal(const struct world *world, struct facet_math math, const char *why)
{
    struct facet_error error = {0};

    assert_int_equal(run_math(world, math, &error), FACET_UNSUPPORTED);
    if (!strstr(error.message, why))
        fail_msg("%s: expected it to name %s", error.message, why);
}

/* --- tests --- */

static void f32_is_multiplied_in_f32_and_int8_in_int32(void **state)
{
    static const uint32_t flags[] = {0, FACET_MATH_MIXED, FACET_MATH_NO_TENSOR};
    struct world world = open_with(NULL, NULL);

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        for (uint32_t type = FACET_MATH_F32; type <= FACET_MATH_INT8; type++) {
            run_and_succeed(&world, gemm_of(&world, type, flags[i]));
            assert_int_equal(seen("FACET_TEST_HIPBLASLT", "fake_hipblas_compute"),
                             type == FACET_MATH_INT8 ? HIPBLAS_COMPUTE_32I : HIPBLAS_COMPUTE_32F);
        }
    provider->device->close(world.instance);
}

static void nothing_is_left_behind(void **state)
{
    struct world world = open_with(NULL, NULL);
    struct facet_memory_info before = {.size = sizeof before}, after = before;

    for (int i = 0; i < 2; i++) { /* the second time takes no more memory than the first, which filled the pools */
        assert_int_equal(provider->memory->info(world.instance, world.context, &before, NULL), FACET_OK);
        run_and_succeed(&world, gemm_of(&world, FACET_MATH_F32, 0));
        run_and_succeed(&world, convolution_of(&world, FACET_MATH_F32));
        run_and_succeed(&world, attention_of(&world));
        for (uint32_t kind = FACET_ACTIVATION_RELU; kind <= FACET_ACTIVATION_SOFTMAX; kind++)
            run_and_succeed(&world, activation_of(&world, kind));
        run_and_succeed(&world, training_of(&world, 4));
    }
    assert_int_equal(provider->memory->info(world.instance, world.context, &after, NULL), FACET_OK);
    assert_true(before.used_bytes == after.used_bytes);
    assert_true(seen("FACET_TEST_HIPBLASLT", "fake_hipblas_living") == 1); /* the handle */
    assert_true(seen("FACET_TEST_MIOPEN", "fake_miopen_living") == 1);
    provider->device->close(world.instance);
    assert_int_equal(seen("FACET_TEST_HIPBLASLT", "fake_hipblas_living"), 0);
    assert_int_equal(seen("FACET_TEST_MIOPEN", "fake_miopen_living"), 0);
}

/* A single element needs no reduction: its mean is the element, and its variance is 0. */
static void one_element_is_its_own_mean(void **state)
{
    static const float given[2] = {3, -5};
    struct world world = open_with(NULL, NULL);
    float found[4];

    assert_int_equal(provider->memory->write(world.instance, world.context, world.at, given, sizeof given, NULL),
                     FACET_OK);
    run_and_succeed(&world, training_of(&world, 1));
    assert_int_equal(provider->memory->read(world.instance, world.context, world.at + 2048, sizeof found, found, NULL),
                     FACET_OK);
    assert_memory_equal(found, ((const float[]){3, -5, 0, 0}), sizeof found);
    provider->device->close(world.instance);
}

static void unsupported_operations_name_the_reason(void **state)
{
    struct world world = open_with(NULL, NULL);
    struct facet_math wide = convolution_of(&world, FACET_MATH_F32), large = wide;

    expect_refusal(&world, convolution_of(&world, FACET_MATH_BF16),
                   "convolution of bf16: not offered here by hipBLASLt and MIOpen");
    /* Values that do not fit MIOpen's ints: a stride that is never used, and the size of an operand. */
    wide.of.convolution.stride[1] = (UINT64_C(1) << 32) + 1;
    expect_refusal(&world, wide, "stride[1]");
    large.of.convolution.batch = UINT64_C(1) << 30;
    expect_refusal(&world, large, "MIOpen expects at most 2^32");
    provider->device->close(world.instance);
}

static void a_library_that_is_missing_is_named(void **state)
{
    struct facet_math_support support = {.size = sizeof support};
    struct world world = open_with("/nonexistent", NULL);

    assert_int_equal(provider->math->support(world.instance, 0, &support, NULL), FACET_OK);
    assert_int_equal(support.types[FACET_MATH_GEMM] | support.types[FACET_MATH_ATTENTION], 0);
    assert_string_equal(support.library, "MIOpen 3.5.0");
    expect_refusal(&world, gemm_of(&world, FACET_MATH_F32, 0), "hipBLASLt");
    expect_refusal(&world, attention_of(&world), "hipBLASLt");
    run_and_succeed(&world, convolution_of(&world, FACET_MATH_F32));
    provider->device->close(world.instance);

    world = open_with(NULL, "libm.so.6"); /* a library without the functions counts as missing */
    assert_int_equal(provider->math->support(world.instance, 0, &support, NULL), FACET_OK);
    assert_string_equal(support.library, "hipBLASLt");
    assert_int_equal(support.types[FACET_MATH_GEMM], 15);
    expect_refusal(&world, convolution_of(&world, FACET_MATH_F32), "MIOpen");
    expect_refusal(&world, attention_of(&world), "MIOpen");
    run_and_succeed(&world, gemm_of(&world, FACET_MATH_F32, 0));
    provider->device->close(world.instance);
}

static void without_libraries_there_is_no_mathematics(void **state)
{
    struct world world = open_with("/nonexistent", "/nonexistent");
    struct facet_math_support support = {.size = sizeof support};
    struct facet_device_info infos[16];
    struct facet_error error = {0};
    uint32_t count;

    assert_int_equal(provider->device->list(world.instance, infos, sizeof infos[0], 16, &count, NULL), FACET_OK);
    assert_false(infos[0].capabilities & FACET_CAN_MATH);
    assert_int_equal(provider->math->support(world.instance, 0, &support, &error), FACET_UNSUPPORTED);
    assert_non_null(strstr(error.message, "libhipblaslt.so"));
    expect_refusal(&world, gemm_of(&world, FACET_MATH_F32, 0), "libhipblaslt.so");
    provider->device->close(world.instance);
}

/* An old release has other numbers for types. Only a handle tells the release, so launches fail and not the opening. */
static void an_old_library_multiplies_nothing(void **state)
{
    setenv("FAKE_HIP_HIPBLASLT", "600", 1);
    struct world world = open_with(NULL, NULL);
    assert_int_equal(first_failure_after(&world, gemm_of(&world, FACET_MATH_F32, 0)), (uint32_t)-FACET_UNSUPPORTED);
    assert_int_equal(seen("FACET_TEST_HIPBLASLT", "fake_hipblas_living"), 0);
    unsetenv("FAKE_HIP_HIPBLASLT");
    provider->device->close(world.instance);
}

/* The units of the stream that a library was given last, as the fake runtime has them. */
static uint32_t units_of_stream(const char *variable, const char *function)
{
    hipError_t (*get_mask)(hipStream_t, uint32_t, uint32_t *);
    uint32_t mask[32] = {0}, units = 0;
    void *runtime = dlopen(getenv("FACET_ROCM_HIP"), RTLD_NOW | RTLD_LOCAL);

    assert_non_null(runtime);
    *(void **)&get_mask = dlsym(runtime, "hipExtStreamGetCUMask");
    assert_int_equal(get_mask(seen_pointer(variable, function), 32, mask), hipSuccess);
    dlclose(runtime);
    for (int i = 0; i < 32; i++)
        units += (uint32_t)__builtin_popcount(mask[i]);
    return units;
}

/* In a context with a compute limit, and also when it has bounds, the libraries work on streams with so many units. */
static void operations_run_within_a_limit_and_within_bounds(void **state)
{
    use_libraries(NULL, NULL);
    struct facet_provider_instance *instance = open_provider();
    assert_int_equal(provider->limit->set_compute(instance, 0, "w", 250, NULL), FACET_OK);
    struct world world = open_world(instance);
    run_and_succeed(&world, gemm_of(&world, FACET_MATH_F32, 0));
    assert_int_equal(units_of_stream("FACET_TEST_HIPBLASLT", "fake_hipblas_stream"), 76); /* a quarter of 304 */
    assert_int_equal(provider->execution->set_bounds(instance, world.context, 8, 1, NULL), FACET_OK);
    run_and_succeed(&world, attention_of(&world));
    assert_int_equal(units_of_stream("FACET_TEST_HIPBLASLT", "fake_hipblas_stream"), 8);
    assert_int_equal(units_of_stream("FACET_TEST_MIOPEN", "fake_miopen_stream"), 8);
    provider->device->close(instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_is_multiplied_in_f32_and_int8_in_int32),
        cmocka_unit_test(nothing_is_left_behind),
        cmocka_unit_test(one_element_is_its_own_mean),
        cmocka_unit_test(unsupported_operations_name_the_reason),
        cmocka_unit_test(a_library_that_is_missing_is_named),
        cmocka_unit_test(without_libraries_there_is_no_mathematics),
        cmocka_unit_test(an_old_library_multiplies_nothing),
        cmocka_unit_test(operations_run_within_a_limit_and_within_bounds),
    };

    load_provider("rocm");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
