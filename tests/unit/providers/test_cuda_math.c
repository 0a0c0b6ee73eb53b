/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: mathematics of the built cuda provider over the fake libraries, beyond the conformance suite: their calls,
 * missing functions, leaks. Never: opens a real library.
 */
#include "cuda_world.h"

#include "vendor/cuda/cublaslt.h"
#include "vendor/cuda/cudnn.h"
#include "vendor/cuda/green.h"

enum { SIDE = 3, BYTES = SIDE * SIDE * sizeof(float) };

static uint64_t allocate_area(const struct world *world)
{
    uint64_t address = 0;

    assert_int_equal(provider->memory->alloc(world->instance, world->context, 4096, &address, NULL), FACET_OK);
    assert_int_equal(provider->memory->fill(world->instance, world->context, address, 0, 4096, NULL), FACET_OK);
    return address;
}

static struct facet_math gemm_of(uint64_t at, uint32_t type, uint32_t flags)
{
    struct facet_math math = {.size = sizeof math, .operation = FACET_MATH_GEMM, .type = type, .flags = flags};

    math.of.gemm =
        (struct facet_gemm){.a = at, .b = at + BYTES, .c = at + 2 * BYTES, .m = SIDE, .n = SIDE, .k = SIDE, .alpha = 1};
    return math;
}

static struct facet_math convolution_of(uint64_t at, uint32_t flags)
{
    struct facet_math math = {.size = sizeof math, .operation = FACET_MATH_CONVOLUTION, .flags = flags};

    math.of.convolution = (struct facet_convolution){.input = at,
                                                     .filter = at + 1024,
                                                     .output = at + 2048,
                                                     .batch = 1,
                                                     .in_channels = 1,
                                                     .out_channels = 1,
                                                     .height = 4,
                                                     .width = 4,
                                                     .kernel = {2, 2},
                                                     .stride = {1, 1}};
    return math;
}

static enum facet_status run_math(const struct world *world, const struct facet_math *math, struct facet_error *error)
{
    return provider->math->run(world->instance, world->context, world->stream, math, error);
}

static void run_now(const struct world *world, struct facet_math math)
{
    struct facet_error error = {0};

    if (run_math(world, &math, &error) != FACET_OK)
        fail_msg("%s", error.message);
    wait_for(world);
    assert_int_equal(state_of(world).failed, 0);
}

static void tensor_cores_are_switched_off(void **state)
{
    struct world world = open_world();
    uint64_t at = allocate_area(&world);

    run_now(&world, gemm_of(at, FACET_MATH_BF16, 0));
    assert_int_equal(seen("FACET_CUDA_CUBLASLT", "fake_cublas_compute"), CUBLAS_COMPUTE_32F);
    run_now(&world, gemm_of(at, FACET_MATH_BF16, FACET_MATH_NO_TENSOR));
    assert_int_equal(seen("FACET_CUDA_CUBLASLT", "fake_cublas_compute"), CUBLAS_COMPUTE_32F_PEDANTIC);
    run_now(&world, gemm_of(at, FACET_MATH_F32, FACET_MATH_MIXED));
    assert_int_equal(seen("FACET_CUDA_CUBLASLT", "fake_cublas_compute"), CUBLAS_COMPUTE_32F_FAST_16BF);
    run_now(&world, gemm_of(at, FACET_MATH_F32, FACET_MATH_MIXED | FACET_MATH_NO_TENSOR));
    assert_int_equal(seen("FACET_CUDA_CUBLASLT", "fake_cublas_compute"), CUBLAS_COMPUTE_32F_PEDANTIC);
    run_now(&world, convolution_of(at, 0));
    assert_int_equal(seen("FACET_CUDA_CUDNN", "fake_cudnn_math"), CUDNN_FMA_MATH); /* f32 must not run as TF32 */
    run_now(&world, convolution_of(at, FACET_MATH_MIXED));
    assert_int_equal(seen("FACET_CUDA_CUDNN", "fake_cudnn_math"), CUDNN_DEFAULT_MATH);
    run_now(&world, convolution_of(at, FACET_MATH_MIXED | FACET_MATH_NO_TENSOR));
    assert_int_equal(seen("FACET_CUDA_CUDNN", "fake_cudnn_math"), CUDNN_FMA_MATH);
    provider->device->close(world.instance);
    assert_int_equal(seen("FACET_CUDA_CUBLASLT", "fake_cublas_living"), 0);
    assert_int_equal(seen("FACET_CUDA_CUDNN", "fake_cudnn_living"), 0);
}

static void unsupported_operations_name_the_reason(void **state)
{
    struct world world = open_world();
    struct facet_math math = gemm_of(allocate_area(&world), FACET_MATH_INT8, 0);
    struct facet_error error = {0};

    assert_int_equal(run_math(&world, &math, &error), FACET_UNSUPPORTED);
    assert_non_null(strstr(error.message, "gemm of int8"));
    math =
        (struct facet_math){.size = sizeof math, .operation = FACET_MATH_NORMALIZATION, .flags = FACET_MATH_TRAINING};
    uint64_t at = allocate_area(&world);
    math.of.normalization = (struct facet_normalization){
        .input = at, .output = at, .mean = at, .variance = at, .batch = 1, .channels = 2, .height = 1, .width = 1};
    assert_int_equal(run_math(&world, &math, &error), FACET_UNSUPPORTED);
    assert_non_null(strstr(error.message, "channels of more than one element"));
    provider->device->close(world.instance);
}

/* Opens with the libraries at these paths (NULL: the fake ones), and then restores the variables. */
static struct world open_with(const char *blas, const char *dnn, char before[2][4096])
{
    snprintf(before[0], 4096, "%s", getenv("FACET_CUDA_CUBLASLT"));
    snprintf(before[1], 4096, "%s", getenv("FACET_CUDA_CUDNN"));
    setenv("FACET_CUDA_CUBLASLT", blas ? blas : before[0], 1);
    setenv("FACET_CUDA_CUDNN", dnn ? dnn : before[1], 1);
    struct world world = open_world();
    setenv("FACET_CUDA_CUBLASLT", before[0], 1);
    setenv("FACET_CUDA_CUDNN", before[1], 1);
    return world;
}

static void a_library_that_is_missing_is_named(void **state)
{
    char before[2][4096];
    struct world world = open_with("/nonexistent", NULL, before);
    struct facet_math_support support = {.size = sizeof support};
    struct facet_error error = {0};
    uint64_t at = allocate_area(&world);
    struct facet_math math = gemm_of(at, FACET_MATH_F32, 0);

    assert_int_equal(provider->math->support(world.instance, 0, &support, NULL), FACET_OK);
    assert_int_equal(support.types[FACET_MATH_GEMM] | support.types[FACET_MATH_ATTENTION], 0);
    assert_string_equal(support.library, "cuDNN 9.19.0");
    assert_int_equal(run_math(&world, &math, &error), FACET_UNSUPPORTED);
    assert_non_null(strstr(error.message, "cuBLASLt"));
    run_now(&world, convolution_of(at, 0));
    provider->device->close(world.instance);

    world = open_with(NULL, "libm.so.6", before); /* a library without the functions counts as missing */
    at = allocate_area(&world);
    math = convolution_of(at, 0);
    assert_int_equal(provider->math->support(world.instance, 0, &support, NULL), FACET_OK);
    assert_string_equal(support.library, "cuBLASLt 13.1.0");
    assert_int_equal(run_math(&world, &math, &error), FACET_UNSUPPORTED);
    assert_non_null(strstr(error.message, "cuDNN"));
    run_now(&world, gemm_of(at, FACET_MATH_F32, 0));
    provider->device->close(world.instance);
}

static void without_libraries_there_is_no_mathematics(void **state)
{
    char before[2][4096];
    struct world world = open_with("/nonexistent", "/proc/self/status", before);
    struct facet_math math = gemm_of(allocate_area(&world), FACET_MATH_F32, 0);
    struct facet_device_info infos[16];

    list(world.instance, infos);
    assert_false(infos[0].capabilities & FACET_CAN_MATH);
    assert_int_equal(run_math(&world, &math, NULL), FACET_UNSUPPORTED);
    provider->device->close(world.instance);
}

/* A free waits some seconds for queued work, and is then refused. */
static void memory_of_an_operation_that_waits_stays(void **state)
{
    struct world world = open_world();
    uint64_t at = allocate_area(&world), scratch = allocate_area(&world);
    struct facet_math math = gemm_of(at, FACET_MATH_F32, 0);

    assert_int_equal(provider->execution->pause(world.instance, world.context, 1, NULL), FACET_OK);
    assert_int_equal(run_math(&world, &math, NULL), FACET_OK);
    assert_int_equal(provider->memory->free(world.instance, world.context, at, NULL), FACET_TIMEOUT);
    assert_int_equal(provider->execution->pause(world.instance, world.context, 0, NULL), FACET_OK);
    wait_for(&world);
    assert_int_equal(state_of(&world).failed, 0);
    assert_int_equal(provider->memory->free(world.instance, world.context, at, NULL), FACET_OK);
    assert_int_equal(run_math(&world, &math, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(provider->memory->free(world.instance, world.context, scratch, NULL), FACET_OK);
    provider->device->close(world.instance);
}

/* The units of the stream that a library was given last, as the fake driver has them. */
static uint32_t units_of_stream(const char *variable, const char *function)
{
    CUresult (*get_green)(CUstream, CUgreenCtx *), (*get_resource)(CUgreenCtx, CUdevResource *, CUdevResourceType);
    CUdevResource resource = {0};
    CUgreenCtx green = NULL;
    void *driver = dlopen(getenv("FACET_TEST_CUDA"), RTLD_NOW | RTLD_LOCAL);

    assert_non_null(driver);
    *(void **)&get_green = dlsym(driver, "cuStreamGetGreenCtx");
    *(void **)&get_resource = dlsym(driver, "cuGreenCtxGetDevResource");
    assert_int_equal(get_green(seen_pointer(variable, function), &green), CUDA_SUCCESS);
    assert_int_equal(get_resource(green, &resource, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
    dlclose(driver);
    return resource.sm.smCount;
}

/* In a context with a compute limit, and also when it has bounds, the libraries work on streams with so many units. */
static void operations_run_within_a_limit_and_within_bounds(void **state)
{
    struct facet_provider_instance *instance = open_fake();

    assert_int_equal(provider->limit->set_compute(instance, 0, "w", 250, NULL), FACET_OK);
    struct world world = enter_world(instance, "w");
    uint64_t at = allocate_area(&world);
    run_now(&world, gemm_of(at, FACET_MATH_F32, 0));
    assert_int_equal(units_of_stream("FACET_CUDA_CUBLASLT", "fake_cublas_stream"), 40);
    assert_int_equal(provider->execution->set_bounds(instance, world.context, 8, 1, NULL), FACET_OK);
    run_now(&world, convolution_of(at, 0));
    assert_int_equal(units_of_stream("FACET_CUDA_CUDNN", "fake_cudnn_stream"), 8);
    run_now(&world, gemm_of(at, FACET_MATH_F32, 0));
    assert_int_equal(units_of_stream("FACET_CUDA_CUBLASLT", "fake_cublas_stream"), 8);
    provider->device->close(instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_cores_are_switched_off),
        cmocka_unit_test(unsupported_operations_name_the_reason),
        cmocka_unit_test(a_library_that_is_missing_is_named),
        cmocka_unit_test(without_libraries_there_is_no_mathematics),
        cmocka_unit_test(memory_of_an_operation_that_waits_stays),
        cmocka_unit_test(operations_run_within_a_limit_and_within_bounds),
    };

    load_provider("cuda");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
