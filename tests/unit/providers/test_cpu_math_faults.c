/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that an operation of the table `math` may fail at each call that allocates: the operation then ends with
 * FACET_NO_MEMORY, and its stream runs the next one. The operations are linked into the test, so that their calls can
 * be made to fail.
 * Never: checks results, except one product after each failure, or looks for leaks: the sanitizer does.
 */
#include "cpu_math_world.h"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdatomic.h>

#include "math_library.h"

#define CALLS_MOST 400 /* no operation makes as many allocating calls */

const struct cpu_math_library *facet_cpu_math_entry(void);

/* ---- allocating calls, of which one fails ---- */

static _Atomic int calls_left = -1; /* how many calls succeed before one fails; -1: none fails */

static bool call_fails(void)
{
    return atomic_load(&calls_left) >= 0 && atomic_fetch_sub(&calls_left, 1) == 0;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return call_fails() ? NULL : __real_calloc(count, size);
}

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return call_fails() ? NULL : __real_aligned_alloc(alignment, size);
}

dnnl_status_t __real_dnnl_memory_create(dnnl_memory_t *memory, const dnnl_memory_desc_t *description,
                                        dnnl_engine_t engine, void *data);
dnnl_status_t __wrap_dnnl_memory_create(dnnl_memory_t *memory, const dnnl_memory_desc_t *description,
                                        dnnl_engine_t engine, void *data);
dnnl_status_t __wrap_dnnl_memory_create(dnnl_memory_t *memory, const dnnl_memory_desc_t *description,
                                        dnnl_engine_t engine, void *data)
{
    return call_fails() ? dnnl_out_of_memory : __real_dnnl_memory_create(memory, description, engine, data);
}

dnnl_status_t __real_dnnl_primitive_create(dnnl_primitive_t *primitive, const_dnnl_primitive_desc_t description);
dnnl_status_t __wrap_dnnl_primitive_create(dnnl_primitive_t *primitive, const_dnnl_primitive_desc_t description);
dnnl_status_t __wrap_dnnl_primitive_create(dnnl_primitive_t *primitive, const_dnnl_primitive_desc_t description)
{
    return call_fails() ? dnnl_out_of_memory : __real_dnnl_primitive_create(primitive, description);
}

dnnl_status_t __real_dnnl_stream_create(dnnl_stream_t *stream, dnnl_engine_t engine, unsigned flags);
dnnl_status_t __wrap_dnnl_stream_create(dnnl_stream_t *stream, dnnl_engine_t engine, unsigned flags);
dnnl_status_t __wrap_dnnl_stream_create(dnnl_stream_t *stream, dnnl_engine_t engine, unsigned flags)
{
    return call_fails() ? dnnl_out_of_memory : __real_dnnl_stream_create(stream, engine, flags);
}

static void *entry_symbol(void)
{
    const struct cpu_math_library *(*entry)(void) = facet_cpu_math_entry;
    void *symbol = NULL;

    memcpy(&symbol, &entry, sizeof symbol);
    return symbol;
}

/*
 * The provider looks up the entry of an object beside it, and gets the entry that is linked into this test. A sanitizer
 * looks up the C library's functions before any can be called: so those calls are passed on first, and this function
 * has no variable that a sanitizer would watch.
 */
void *__real_dlsym(void *object, const char *name);
void *__wrap_dlsym(void *object, const char *name);
void *__wrap_dlsym(void *object, const char *name)
{
    if (object == RTLD_NEXT || object == RTLD_DEFAULT)
        return __real_dlsym(object, name);
    assert_string_equal(name, CPU_MATH_ENTRY);
    return entry_symbol();
}

/* ---- operations ---- */

static struct facet_math gemm_operation(void)
{
    struct facet_math operation = operation_of(FACET_MATH_GEMM, FACET_MATH_F32, 0);

    operation.of.gemm = (struct facet_gemm){.m = 4, .n = 8, .k = 16, .alpha = 1};
    operation.of.gemm.a = random_numbers(FACET_MATH_F32, 64);
    operation.of.gemm.b = random_numbers(FACET_MATH_F32, 128);
    operation.of.gemm.c = random_numbers(FACET_MATH_F32, 32);
    return operation;
}

/* Its operands are packed and have edges, so that this gemm needs several primitives and memory of its own. */
static struct facet_math packed_gemm_operation(void)
{
    struct facet_math operation = operation_of(FACET_MATH_GEMM, FACET_MATH_F16, FACET_MATH_TRANSPOSE_A);

    operation.of.gemm = (struct facet_gemm){.m = 70, .n = 300, .k = 40, .alpha = 2};
    operation.of.gemm.a = random_numbers(FACET_MATH_F16, 2800);
    operation.of.gemm.b = random_numbers(FACET_MATH_F16, 12000);
    operation.of.gemm.c = random_numbers(FACET_MATH_F16, 21000);
    return operation;
}

static struct facet_math convolution_operation(uint64_t out)
{
    struct facet_math operation = operation_of(FACET_MATH_CONVOLUTION, FACET_MATH_F32, 0);

    operation.of.convolution = (struct facet_convolution){.batch = 2,
                                                          .in_channels = 6,
                                                          .out_channels = out,
                                                          .height = 9,
                                                          .width = 9,
                                                          .kernel = {3, 3},
                                                          .stride = {1, 1},
                                                          .padding = {1, 1}};
    operation.of.convolution.input = random_numbers(FACET_MATH_F32, UINT64_C(2) * 6 * 81);
    operation.of.convolution.filter = random_numbers(FACET_MATH_F32, out * 54);
    operation.of.convolution.output = random_numbers(FACET_MATH_F32, 2 * out * 81);
    return operation;
}

static struct facet_math strips_operation(void)
{
    return convolution_operation(20);
}

static struct facet_math windows_operation(void)
{
    return convolution_operation(5);
}

static struct facet_math softmax_operation(void)
{
    struct facet_math operation = operation_of(FACET_MATH_ACTIVATION, FACET_MATH_F32, 0);

    operation.of.activation =
        (struct facet_activation){.batch = 2, .channels = 9, .height = 4, .width = 5, .kind = FACET_ACTIVATION_SOFTMAX};
    operation.of.activation.input = operation.of.activation.output = random_numbers(FACET_MATH_F32, 360);
    return operation;
}

static struct facet_math training_operation(void)
{
    struct facet_math operation = operation_of(FACET_MATH_NORMALIZATION, FACET_MATH_F32, FACET_MATH_TRAINING);
    struct facet_normalization *it = &operation.of.normalization;

    *it = (struct facet_normalization){.batch = 4, .channels = 3, .height = 4000, .width = 3};
    it->input = it->output = random_numbers(FACET_MATH_F32, 144000);
    it->mean = random_numbers(FACET_MATH_F32, 3);
    it->variance = random_numbers(FACET_MATH_F32, 3);
    return operation;
}

static struct facet_math attention_operation(void)
{
    struct facet_math operation = operation_of(FACET_MATH_ATTENTION, FACET_MATH_F16, 0);
    struct facet_attention *it = &operation.of.attention;

    *it = (struct facet_attention){.batch = 1, .heads = 2, .queries = 20, .keys = 300, .dimension = 16};
    it->q = random_numbers(FACET_MATH_F16, 640);
    it->k = random_numbers(FACET_MATH_F16, 9600);
    it->v = random_numbers(FACET_MATH_F16, 9600);
    it->output = random_numbers(FACET_MATH_F16, 640);
    return operation;
}

/* ---- the loop ---- */

static void is_usable(const struct facet_math *small)
{
    const struct facet_gemm *it = &small->of.gemm;
    double sum = 0;

    run_math(small);
    for (uint64_t i = 0; i < it->k; i++)
        sum += get(it->a, FACET_MATH_F32, i) * get(it->b, FACET_MATH_F32, i * it->n);
    assert_near(get(it->c, FACET_MATH_F32, 0), sum, FACET_MATH_F32, (double)it->k, (double)it->k);
}

/* Runs the operation. Its allocating call number `call` fails; returns false if it makes fewer calls. */
static bool try_with_failure(struct facet_math (*make)(void), int call)
{
    struct facet_stream_state stream = {.size = sizeof stream};

    world_begin(&world);
    const struct facet_math operation = make(), small = gemm_operation();
    atomic_store(&calls_left, call);
    enum facet_status status = try_math(&operation), waited = status == FACET_OK ? world_wait(&world) : FACET_OK;
    bool failed = atomic_exchange(&calls_left, -1) < 0;
    OK(&world, world.provider->execution->query(world.instance, world.context, world.stream, &stream, &world.error));
    assert_int_equal(stream.launched, status == FACET_OK);
    if (status == FACET_OK)
        status = (enum facet_status)last_record().status;
    assert_int_equal(status, failed ? FACET_NO_MEMORY : FACET_OK);
    assert_true(waited == FACET_OK || (failed && waited == FACET_NO_MEMORY));
    is_usable(&small);
    world_end(&world);
    return failed;
}

/* `least`: the fewest allocating calls that the operation makes. */
static void expect_survival(struct facet_math (*make)(void), int least)
{
    int call = 0;

    while (try_with_failure(make, call))
        assert_in_range(++call, 1, CALLS_MOST);
    assert_in_range(call, (uintmax_t)least, CALLS_MOST);
}

static void products_survive_each_failure(void **state)
{
    (void)state;
    expect_survival(gemm_operation, 6);
    expect_survival(packed_gemm_operation, 10);
}

static void convolutions_survive_each_failure(void **state)
{
    (void)state;
    expect_survival(strips_operation, 10);
    expect_survival(windows_operation, 10);
}

static void other_operations_survive_each_failure(void **state)
{
    (void)state;
    expect_survival(softmax_operation, 3);
    expect_survival(training_operation, 4);
    expect_survival(attention_operation, 10);
}

/* ---- cached operations ---- */

/* A gemm with the members that the provider's check fills in. */
static struct facet_math checked_gemm(void)
{
    struct facet_math operation = gemm_operation();
    struct facet_gemm *it = &operation.of.gemm;

    it->batch = 1;
    it->lead_a = it->k;
    it->lead_b = it->lead_c = it->n;
    it->stride_a = it->m * it->k;
    it->stride_b = it->k * it->n;
    it->stride_c = it->m * it->n;
    return operation;
}

/* A second operation of the same kind that is queued meanwhile gets a preparation of its own. */
static void a_released_preparation_is_used_again(void **state)
{
    const struct cpu_math_library *library = facet_cpu_math_entry();
    struct cpu_math_work *first = NULL, *second = NULL, *again = NULL, *other = NULL;
    struct cpu_math_engine *engine = NULL;
    struct facet_error error;
    (void)state;

    world_begin(&world);
    struct facet_math operation = checked_gemm();
    assert_int_equal(library->open("", 2, &engine, &error), FACET_OK);
    assert_int_equal(library->prepare(engine, &operation, &first, &error), FACET_OK);
    assert_int_equal(library->prepare(engine, &operation, &second, &error), FACET_OK);
    assert_ptr_not_equal(first, second);
    library->release(first);
    operation.of.gemm.alpha = 2;
    assert_int_equal(library->prepare(engine, &operation, &other, &error), FACET_OK);
    assert_ptr_not_equal(other, first);
    operation.of.gemm.alpha = 1;
    assert_int_equal(library->prepare(engine, &operation, &again, &error), FACET_OK);
    assert_ptr_equal(again, first);
    library->release(second);
    library->release(other);
    library->release(again);
    library->close(engine);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_released_preparation_is_used_again),
        cmocka_unit_test(products_survive_each_failure),
        cmocka_unit_test(convolutions_survive_each_failure),
        cmocka_unit_test(other_operations_survive_each_failure),
    };

    return cmocka_run_group_tests_name("cpu math faults", tests, NULL, NULL);
}
