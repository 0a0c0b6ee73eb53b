/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that when any inner call fails, the caller gets a status, nothing is left behind, and other vGPUs are
 * undisturbed. Never: fails a release, because no caller could recover from that.
 *
 * The library's allocations fail through the linker's --wrap. The provider's operations fail through a table that
 * replaces the provider's own.
 */
#include "world.h"

#include "session/operations.h"
#include "vgpu/driver.h"

/* ---- failures ---- */

static _Atomic long allocations_left, operations_left;
static atomic_bool operation_failed; /* an operation of the provider has failed */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return atomic_load(&allocations_left) > 0 && atomic_fetch_sub(&allocations_left, 1) == 1
               ? NULL
               : __real_calloc(count, size);
}

void *__real_realloc(void *pointer, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
void *__wrap_realloc(void *pointer, size_t size)
{
    return atomic_load(&allocations_left) > 0 && atomic_fetch_sub(&allocations_left, 1) == 1
               ? NULL
               : __real_realloc(pointer, size);
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return atomic_load(&allocations_left) > 0 && atomic_fetch_sub(&allocations_left, 1) == 1 ? NULL
                                                                                             : __real_malloc(size);
}

static const struct facet_provider *real_provider;

static bool call_fails(void)
{
    bool now = atomic_load(&operations_left) > 0 && atomic_fetch_sub(&operations_left, 1) == 1;

    if (now)
        atomic_store(&operation_failed, true);
    return now;
}

#define PASS(kind, name, ...)   PASS_##kind(name)
#define PASS_U8(name)           , name
#define PASS_U32(name)          , name
#define PASS_U64(name)          , name
#define PASS_BYTES(name)        , name
#define PASS_TIMEOUT(name)      , name
#define PASS_TEXT(name)         , name
#define PASS_TEXT_OR_NULL(name) , name
#define PASS_FD(name)           , name
#define PASS_PIDS(name)         , name, count
#define PASS_DATA(name)         , name, bytes
#define PASS_LAUNCH(name)       , name, arguments
#define PASS_STRUCT(name)       , name
#define PASS_RET_U32(name)      , name
#define PASS_RET_U64(name)      , name
#define PASS_RET_STRUCT(name)   , name
#define PASS_RET_ITEMS(name)    , name, item_size, capacity, ret_count
#define PASS_RET_TEXT(name)     , name, capacity, ret_size
#define PASS_RET_DATA(name)     , bytes, name

#define FAILING(table, operation, ...)                                                                                 \
    static enum facet_status failing_##table##_##operation FACET_PARAMETERS(__VA_ARGS__)                               \
    {                                                                                                                  \
        if (call_fails())                                                                                              \
            return facet_error_set(error, FACET_BUSY, "made to fail: " #table "." #operation);                         \
        return real_provider->table->operation(instance FACET_EACH(PASS, __VA_ARGS__), error);                         \
    }
FACET_MEMORY_OPERATIONS(FAILING)
FACET_EXECUTION_OPERATIONS(FAILING)
FACET_MATH_OPERATIONS(FAILING)

#define MEMBER(table, name, ...) .name = failing_##table##_##name,
static struct facet_memory_ops memory_ops = {sizeof memory_ops, FACET_MEMORY_OPERATIONS(MEMBER)};
static struct facet_execution_ops execution_ops = {sizeof execution_ops, FACET_EXECUTION_OPERATIONS(MEMBER)};
static const struct facet_math_ops math_ops = {sizeof math_ops, FACET_MATH_OPERATIONS(MEMBER)};

/* Makes the driver's calls go through the tables above. Operations that release something do not fail. */
static void replace_operations(struct facet_driver *driver)
{
    static struct facet_provider provider;

    real_provider = driver->device[0].provider;
    provider = *real_provider;
    memory_ops.destroy_context = real_provider->memory->destroy_context;
    memory_ops.free = real_provider->memory->free;
    execution_ops.destroy_stream = real_provider->execution->destroy_stream;
    execution_ops.cancel = real_provider->execution->cancel;
    provider.memory = &memory_ops;
    provider.execution = &execution_ops;
    provider.math = &math_ops;
    driver->device[0].provider = &provider;
}

/* ---- a vGPU's life ---- */

/* Makes each kind of call of a vGPU until one fails; returns the last status. */
static enum facet_status use_vgpu(uint32_t id)
{
    const struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {8}, .group = {1}};
    struct facet_driver *driver = world.driver;
    struct facet_vgpu_info info = {.size = sizeof info};
    struct facet_execution what = {.size = sizeof what};
    struct facet_kernel *kernel = NULL;
    uint64_t address = 0, execution = 0, value = 3;
    enum facet_status status = facet_vgpu_allocate(driver, id, 4096, NULL, &address, ERROR);

#define THEN(call)                                                                                                     \
    if (status == FACET_OK)                                                                                            \
        status = (call);
    THEN(facet_vgpu_fill(driver, id, address, 0, 4096, ERROR))
    THEN(facet_vgpu_set_share(driver, id, 300, 900, ERROR))
    THEN(facet_vgpu_set_bounds(driver, id, 1, 1, ERROR))
    THEN(facet_vgpu_load_kernel(driver, id, world.image, "add", &kernel, ERROR))
    THEN(facet_kernel_set_memory(kernel, 0, address, ERROR))
    THEN(facet_kernel_set_value(kernel, 1, &value, sizeof value, ERROR))
    THEN(facet_vgpu_set_stream_priority(driver, id, 1, FACET_PRIORITY_HIGH, ERROR))
    THEN(facet_vgpu_execute(driver, id, 0, kernel, &range, &execution, ERROR))
    THEN(facet_vgpu_wait(driver, id, 1, 0, ERROR))
    THEN(facet_vgpu_enqueue_fill(driver, id, 1, address, 1, 8, NULL, ERROR))
    THEN(facet_vgpu_synchronize(driver, id, FACET_STREAM_ALL, WAIT_NS, ERROR))
    THEN(facet_vgpu_get_execution(driver, id, execution, &what, ERROR))
    THEN(facet_vgpu_get_info(driver, id, &info, ERROR))
    THEN(facet_vgpu_pause(driver, id, ERROR))
    THEN(facet_vgpu_resume(driver, id, ERROR))
    THEN(facet_vgpu_compact(driver, id, NULL, NULL, ERROR))
#undef THEN
    facet_kernel_destroy(kernel);
    return status;
}

static enum facet_status vgpu_life(uint32_t id)
{
    struct facet_vgpu_config config = vgpu_config(id);

    config.request_milli = 100;
    config.launches = 2;
    enum facet_status status = facet_vgpu_create(world.driver, &config, NULL, ERROR);
    if (status != FACET_OK)
        return status;
    status = use_vgpu(id);
    atomic_store(&allocations_left, 0); /* destroying must not fail */
    atomic_store(&operations_left, 0);
    OK(facet_vgpu_destroy(world.driver, id, NULL));
    return status;
}

static void check_nothing_is_left(void)
{
    struct facet_driver_device device = {.size = sizeof device};
    uint32_t count = 9;

    REFUSED(FACET_TOO_SMALL, facet_vgpu_list(world.driver, NULL, 0, &count, NULL));
    assert_int_equal(count, 1); /* the neighbour */
    assert_true(facet_driver_get_device(world.driver, 0, &device));
    assert_int_equal(device.vgpus, 1);
    assert_int_equal(device.promised_bytes, 16 * MIB);
    assert_int_equal(world.driver->streams, 2);
}

/* A neighbour exists during all failures. */
static void set_up_neighbour(uint64_t *ret_words)
{
    struct facet_driver_config config = world_config();

    config.monitor_ns = 3600 * 1000 * MS; /* otherwise the monitoring thread's calls would be counted, too */
    world_open(&config);
    vgpu_make(50);
    *ret_words = vgpu_memory(50, 64);
    replace_operations(world.driver);
}

static void neighbour_works(uint64_t words)
{
    struct facet_kernel *kernel = vgpu_kernel(50, "add", words, 1);

    vgpu_launch(50, 0, kernel, 1);
    vgpu_finish(50);
    facet_kernel_destroy(kernel);
}

static void each_operation_fails_in_turn(void **state)
{
    uint64_t words, rounds = 0;
    enum facet_status status = FACET_BUSY;

    set_up_neighbour(&words);
    atomic_store(&operation_failed, true);
    /*
     * A thread of the driver that still serves the neighbour may have made the failed call. Then it has no effect
     * here.
     */
    for (long nth = 1; atomic_load(&operation_failed) && nth < 1000; nth++) {
        world.error = (struct facet_error){0};
        atomic_store(&operation_failed, false);
        atomic_store(&operations_left, nth);
        status = vgpu_life(1);
        atomic_store(&operations_left, 0);
        if (status != FACET_OK) {
            assert_int_equal(status, FACET_BUSY);
            assert_non_null(strstr(world.error.message, "made to fail"));
        }
        check_nothing_is_left();
        neighbour_works(words);
        rounds++;
    }
    assert_int_equal(status, FACET_OK);
    assert_true(rounds > 10);
    assert_int_equal(vgpu_word(50, words), rounds);
    world_close();
}

static void each_allocation_fails_in_turn(void **state)
{
    uint64_t words, rounds = 0;
    enum facet_status status = FACET_NO_MEMORY;

    set_up_neighbour(&words);
    for (long nth = 1; nth < 1000; nth++) {
        atomic_store(&allocations_left, nth);
        status = vgpu_life(1);
        bool all_succeeded = atomic_exchange(&allocations_left, 0) > 0;
        /* A call that can do without the memory succeeds. */
        if (status != FACET_OK && status != FACET_NO_MEMORY)
            fail_msg("allocation %ld: %s: %s", nth, facet_status_name(status), world.error.message);
        check_nothing_is_left();
        neighbour_works(words);
        rounds++;
        if (all_succeeded || (status == FACET_OK && nth > 200))
            break;
    }
    assert_int_equal(status, FACET_OK);
    assert_int_equal(vgpu_word(50, words), rounds);
    world_close();
}

static void opening_fails_in_turn(void **state)
{
    struct facet_driver_config config = world_config();
    enum facet_status status = FACET_NO_MEMORY;

    for (long nth = 1; status != FACET_OK && nth < 2000; nth++) {
        struct facet_driver *driver = NULL;

        atomic_store(&allocations_left, nth);
        status = facet_driver_open(&config, &driver, ERROR);
        atomic_store(&allocations_left, 0);
        assert_int_equal(driver != NULL, status == FACET_OK);
        facet_driver_close(driver);
    }
    assert_int_equal(status, FACET_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operation_fails_in_turn),
        cmocka_unit_test(each_allocation_fails_in_turn),
        cmocka_unit_test(opening_fails_in_turn),
    };

    return cmocka_run_group_tests(tests, world_load, world_unload);
}
