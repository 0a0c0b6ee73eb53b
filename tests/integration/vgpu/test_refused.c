/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that a call which is refused for its arguments holds nothing: each function that takes a driver is
 * called with each pointer NULL in turn and each `size` 0 in turn, and then the vGPU is destroyed and the driver
 * closed. Never: asserts what a call does that is right.
 *
 * A function that is not in the table fails the last test, which reads the headers.
 */
#include "world.h"

#include <facet/monitor.h>

#define BYTES 4096u

/* What every call is given, where it is not what is wrong. */
static struct {
    uint64_t address;
    void *managed;
    struct facet_kernel *kernel;
    uint64_t execution;
} have;

/* In a call of the table, `wrong` says which argument is: a pointer that is NULL, or a struct whose size is 0. */
#define AT(number, pointer)  (wrong == (number) ? NULL : (pointer))
#define SIZE(number, object) (wrong == (number) ? 0 : (uint32_t)sizeof(object))
#define DRIVER               AT(0, world.driver)

static void told(void *owner, const struct facet_watch_event *event)
{
    (void)owner;
    (void)event;
}

/* ---- the driver and its vGPUs ---- */

static enum facet_status driver_open(int wrong)
{
    struct facet_driver_config config = world_config();
    struct facet_driver *driver = NULL;

    config.size = SIZE(1, config);
    enum facet_status status = facet_driver_open(&config, AT(0, &driver), ERROR);
    facet_driver_close(driver);
    return status;
}

/* Those that are no errors' answer nothing, or false. */
static enum facet_status driver_close(int wrong)
{
    if (wrong == 0)
        facet_driver_close(NULL);
    return FACET_OK;
}

static enum facet_status driver_get_config(int wrong)
{
    struct facet_driver_config config = {.size = SIZE(2, config)};

    facet_driver_get_config(DRIVER, AT(1, &config));
    return FACET_OK;
}

static enum facet_status driver_get_device(int wrong)
{
    struct facet_driver_device device = {.size = SIZE(2, device)};

    return facet_driver_get_device(DRIVER, 0, AT(1, &device)) ? FACET_OK : FACET_INVALID_ARGUMENT;
}

static enum facet_status vgpu_create(int wrong)
{
    const struct facet_vgpu_config config = {.size = SIZE(1, config), .memory_bytes = MIB};
    uint32_t id;

    return facet_vgpu_create(DRIVER, AT(2, &config), AT(3, &id), ERROR);
}

static enum facet_status vgpu_destroy(int wrong)
{
    return facet_vgpu_destroy(DRIVER, 1, ERROR);
}

static enum facet_status vgpu_get_status(int wrong)
{
    uint32_t status;

    return facet_vgpu_get_status(DRIVER, 1, AT(1, &status), ERROR);
}

static enum facet_status vgpu_pause(int wrong)
{
    return facet_vgpu_pause(DRIVER, 1, ERROR);
}

static enum facet_status vgpu_resume(int wrong)
{
    return facet_vgpu_resume(DRIVER, 1, ERROR);
}

static enum facet_status vgpu_get_info(int wrong)
{
    struct facet_vgpu_info info = {.size = SIZE(2, info)};

    return facet_vgpu_get_info(DRIVER, 1, AT(1, &info), ERROR);
}

static enum facet_status vgpu_list(int wrong)
{
    struct facet_vgpu_info info = {.size = SIZE(2, info)};
    uint32_t count;

    return facet_vgpu_list(DRIVER, AT(3, &info), 1, AT(1, &count), ERROR);
}

/* ---- memory ---- */

static enum facet_status vgpu_allocate(int wrong)
{
    const struct facet_allocation_options options = {.size = SIZE(3, options)};
    uint64_t address;

    return facet_vgpu_allocate(DRIVER, 1, BYTES, AT(2, &options), AT(1, &address), ERROR);
}

static enum facet_status vgpu_free(int wrong)
{
    return facet_vgpu_free(DRIVER, 1, have.address, ERROR);
}

static enum facet_status vgpu_reallocate(int wrong)
{
    uint64_t address;

    return facet_vgpu_reallocate(DRIVER, 1, have.address, 2 * BYTES, AT(1, &address), ERROR);
}

static enum facet_status vgpu_find(int wrong)
{
    struct facet_allocation allocation = {.size = SIZE(2, allocation)};

    return facet_vgpu_find(DRIVER, 1, have.address, AT(1, &allocation), ERROR);
}

static enum facet_status vgpu_copy(int wrong)
{
    char bytes[64] = {0};

    return facet_vgpu_copy(DRIVER, 1, have.address, (uintptr_t)AT(1, &bytes), sizeof bytes, FACET_COPY_TO_DEVICE,
                           ERROR);
}

static enum facet_status vgpu_fill(int wrong)
{
    return facet_vgpu_fill(DRIVER, 1, have.address, 0, BYTES, ERROR);
}

static enum facet_status vgpu_set_memory(int wrong)
{
    return facet_vgpu_set_memory(DRIVER, 1, 8 * MIB, ERROR);
}

static enum facet_status vgpu_get_memory(int wrong)
{
    struct facet_space_usage usage = {.size = SIZE(2, usage)};

    return facet_vgpu_get_memory(DRIVER, 1, AT(1, &usage), ERROR);
}

static enum facet_status vgpu_defragment(int wrong)
{
    const struct facet_defragment_options options = {.size = SIZE(1, options)};
    struct facet_defragment_report report;

    return facet_vgpu_defragment(DRIVER, 1, AT(2, &options), AT(3, &report), ERROR);
}

static enum facet_status vgpu_compact(int wrong)
{
    const struct facet_defragment_options options = {.size = SIZE(1, options)};
    struct facet_defragment_report report;

    return facet_vgpu_compact(DRIVER, 1, AT(2, &options), AT(3, &report), ERROR);
}

static enum facet_status vgpu_allocate_managed(int wrong)
{
    const struct facet_allocation_options options = {.size = SIZE(3, options)};
    void *pointer;

    return facet_vgpu_allocate_managed(DRIVER, 1, BYTES, AT(2, &options), AT(1, &pointer), ERROR);
}

static enum facet_status vgpu_get_managed(int wrong)
{
    struct facet_managed_usage usage = {.size = SIZE(2, usage)};

    return facet_vgpu_get_managed(DRIVER, 1, AT(3, have.managed), AT(1, &usage), ERROR);
}

static enum facet_status vgpu_prefetch(int wrong)
{
    return facet_vgpu_prefetch(DRIVER, 1, AT(1, have.managed), BYTES, true, ERROR);
}

/* ---- computing ---- */

static enum facet_status vgpu_load_kernel(int wrong)
{
    struct facet_kernel *kernel = NULL;
    enum facet_status status =
        facet_vgpu_load_kernel(DRIVER, 1, AT(1, world.image), AT(2, "add"), AT(3, &kernel), ERROR);

    facet_kernel_destroy(kernel);
    return status;
}

static enum facet_status vgpu_target(int wrong)
{
    const char *target;

    return facet_vgpu_target(DRIVER, 1, AT(1, &target), ERROR);
}

static enum facet_status vgpu_execute(int wrong)
{
    const struct facet_range range = {.size = SIZE(3, range), .dimensions = 1, .global = {1}, .group = {1}};
    uint64_t execution;

    return facet_vgpu_execute(DRIVER, 1, 0, AT(1, have.kernel), AT(2, &range), AT(4, &execution), ERROR);
}

static enum facet_status vgpu_operate(int wrong)
{
    const struct facet_math operation = {
        .size = SIZE(2, operation),
        .operation = FACET_MATH_GEMM,
        .type = FACET_MATH_F32,
        .of.gemm = {
            .a = have.address, .b = have.address + 1024, .c = have.address + 2048, .m = 8, .n = 8, .k = 8, .alpha = 1}};
    uint64_t execution;

    return facet_vgpu_operate(DRIVER, 1, 0, AT(1, &operation), AT(3, &execution), ERROR);
}

static enum facet_status vgpu_get_operations(int wrong)
{
    struct facet_math_support support = {.size = SIZE(2, support)};

    return facet_vgpu_get_operations(DRIVER, 1, AT(1, &support), ERROR);
}

static enum facet_status vgpu_enqueue_copy(int wrong)
{
    char bytes[64] = {0};
    uint64_t execution;

    return facet_vgpu_enqueue_copy(DRIVER, 1, 0, have.address, (uintptr_t)AT(1, &bytes), sizeof bytes,
                                   FACET_COPY_TO_DEVICE, AT(2, &execution), ERROR);
}

static enum facet_status vgpu_enqueue_fill(int wrong)
{
    uint64_t execution;

    return facet_vgpu_enqueue_fill(DRIVER, 1, 0, have.address, 0, BYTES, AT(1, &execution), ERROR);
}

static enum facet_status vgpu_get_execution(int wrong)
{
    struct facet_execution execution = {.size = SIZE(2, execution)};

    return facet_vgpu_get_execution(DRIVER, 1, have.execution, AT(1, &execution), ERROR);
}

static enum facet_status vgpu_cancel(int wrong)
{
    return facet_vgpu_cancel(DRIVER, 1, have.execution, ERROR);
}

static enum facet_status vgpu_synchronize(int wrong)
{
    return facet_vgpu_synchronize(DRIVER, 1, FACET_STREAM_ALL, WAIT_NS, ERROR);
}

static enum facet_status vgpu_query(int wrong)
{
    struct facet_stream_info info = {.size = SIZE(2, info)};

    return facet_vgpu_query(DRIVER, 1, 0, AT(1, &info), ERROR);
}

static enum facet_status vgpu_wait(int wrong)
{
    return facet_vgpu_wait(DRIVER, 1, 0, 1, ERROR);
}

static enum facet_status vgpu_set_stream_priority(int wrong)
{
    return facet_vgpu_set_stream_priority(DRIVER, 1, 0, FACET_PRIORITY_HIGH, ERROR);
}

static enum facet_status vgpu_set_share(int wrong)
{
    return facet_vgpu_set_share(DRIVER, 1, 100, 1000, ERROR);
}

static enum facet_status vgpu_set_priority(int wrong)
{
    return facet_vgpu_set_priority(DRIVER, 1, FACET_PRIORITY_HIGH, ERROR);
}

static enum facet_status vgpu_set_bounds(int wrong)
{
    return facet_vgpu_set_bounds(DRIVER, 1, 1, 1, ERROR);
}

static enum facet_status driver_set_policy(int wrong)
{
    return facet_driver_set_policy(DRIVER, 0, FACET_SCHEDULE_FAIR, true, 0, ERROR);
}

static enum facet_status vgpu_set_tensor_cores(int wrong)
{
    return facet_vgpu_set_tensor_cores(DRIVER, 1, false, ERROR);
}

static enum facet_status vgpu_set_mixed_precision(int wrong)
{
    return facet_vgpu_set_mixed_precision(DRIVER, 1, true, ERROR);
}

/* ---- monitoring ---- */

static enum facet_status vgpu_get_history(int wrong)
{
    struct facet_sample sample;
    uint32_t count = 1;

    return facet_vgpu_get_history(DRIVER, 1, 0, AT(2, &sample), AT(1, &count), ERROR);
}

static enum facet_status driver_get_history(int wrong)
{
    struct facet_sample sample;
    uint32_t count = 1;

    return facet_driver_get_history(DRIVER, 0, 0, AT(2, &sample), AT(1, &count), ERROR);
}

static enum facet_status driver_watch(int wrong)
{
    const struct facet_watch asked = {.size = SIZE(2, asked), .vgpu = 1, .told = wrong == 3 ? NULL : told};
    uint64_t watch;

    return facet_driver_watch(DRIVER, AT(1, &asked), AT(4, &watch), ERROR);
}

static enum facet_status driver_unwatch(int wrong)
{
    return facet_driver_unwatch(DRIVER, 7, ERROR);
}

/* ---- the table ---- */

/* Wrong arguments are numbered: the first `refused` are FACET_INVALID_ARGUMENT; the rest, up to `wrongs`, need not be
 * errors at all, since such a pointer may be NULL. */
struct function {
    const char *name;
    enum facet_status (*call)(int wrong);
    int refused, wrongs;
};

#define FUNCTION(name, refused, wrongs)                                                                                \
    {                                                                                                                  \
        "facet_" #name, name, refused, wrongs                                                                          \
    }

static const struct function functions[] = {
    FUNCTION(driver_open, 2, 2),
    FUNCTION(driver_close, 0, 1),
    FUNCTION(driver_get_config, 0, 3),
    FUNCTION(driver_get_device, 3, 3),
    FUNCTION(vgpu_create, 2, 4),
    FUNCTION(vgpu_destroy, 1, 1),
    FUNCTION(vgpu_get_status, 2, 2),
    FUNCTION(vgpu_pause, 1, 1),
    FUNCTION(vgpu_resume, 1, 1),
    FUNCTION(vgpu_get_info, 3, 3),
    FUNCTION(vgpu_list, 3, 4),
    FUNCTION(vgpu_allocate, 2, 4),
    FUNCTION(vgpu_free, 1, 1),
    FUNCTION(vgpu_reallocate, 2, 2),
    FUNCTION(vgpu_find, 3, 3),
    FUNCTION(vgpu_copy, 2, 2),
    FUNCTION(vgpu_fill, 1, 1),
    FUNCTION(vgpu_set_memory, 1, 1),
    FUNCTION(vgpu_get_memory, 3, 3),
    FUNCTION(vgpu_defragment, 2, 4),
    FUNCTION(vgpu_compact, 2, 4),
    FUNCTION(vgpu_allocate_managed, 2, 4),
    FUNCTION(vgpu_get_managed, 3, 4),
    FUNCTION(vgpu_prefetch, 1, 2),
    FUNCTION(vgpu_load_kernel, 4, 4),
    FUNCTION(vgpu_target, 2, 2),
    FUNCTION(vgpu_execute, 4, 5),
    FUNCTION(vgpu_operate, 3, 4),
    FUNCTION(vgpu_get_operations, 3, 3),
    FUNCTION(vgpu_enqueue_copy, 2, 3),
    FUNCTION(vgpu_enqueue_fill, 1, 2),
    FUNCTION(vgpu_get_execution, 3, 3),
    FUNCTION(vgpu_cancel, 1, 1),
    FUNCTION(vgpu_synchronize, 1, 1),
    FUNCTION(vgpu_query, 3, 3),
    FUNCTION(vgpu_wait, 1, 1),
    FUNCTION(vgpu_set_stream_priority, 1, 1),
    FUNCTION(vgpu_set_share, 1, 1),
    FUNCTION(vgpu_set_priority, 1, 1),
    FUNCTION(vgpu_set_bounds, 1, 1),
    FUNCTION(driver_set_policy, 1, 1),
    FUNCTION(vgpu_set_tensor_cores, 1, 1),
    FUNCTION(vgpu_set_mixed_precision, 1, 1),
    FUNCTION(vgpu_get_history, 2, 3),
    FUNCTION(driver_get_history, 2, 3),
    FUNCTION(driver_watch, 4, 5),
    FUNCTION(driver_unwatch, 1, 1),
};
#define FUNCTIONS (sizeof functions / sizeof *functions)

/* ---- each of them ---- */

static void *end_all(void *unused)
{
    (void)unused;
    (void)facet_vgpu_destroy(world.driver, 1, NULL); /* one test has destroyed it */
    facet_driver_close(world.driver);
    return NULL;
}

/* What waits for ever cannot be ended: so the program is. */
static void end_in_time(const char *name)
{
    struct timespec until;
    pthread_t thread;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(WAIT_NS / (1000 * MS));
    assert_int_equal(pthread_create(&thread, NULL, end_all, NULL), 0);
    if (pthread_timedjoin_np(thread, NULL, &until) != 0) {
        print_error("after calls of %s() that were refused its vGPU could not be destroyed\n", name);
        _exit(1);
    }
    world.driver = NULL;
}

static void prepare(void)
{
    world_set_up(NULL);
    vgpu_make(1);
    have.address = vgpu_memory(1, BYTES);
    have.kernel = vgpu_kernel(1, "add", have.address, 1);
    have.execution = vgpu_launch(1, 0, have.kernel, 1);
    have.managed = NULL;
    if (facet_vgpu_allocate_managed(world.driver, 1, BYTES, NULL, &have.managed, ERROR) != FACET_OK)
        assert_null(have.managed); /* no userfaultfd here */
    vgpu_finish(1);
}

static void what_is_refused_holds_nothing(void **state)
{
    const struct function *function = *state;

    prepare();
    for (int wrong = 0; wrong < function->wrongs; wrong++) {
        enum facet_status status = function->call(wrong);

        if (wrong < function->refused && status != FACET_INVALID_ARGUMENT)
            fail_msg("%s(), wrong argument %d: %s", function->name, wrong, facet_status_name(status));
    }
    if (function->call(-1) == FACET_INVALID_ARGUMENT)
        fail_msg("%s(), nothing wrong: %s", function->name, world.error.message);
    facet_kernel_destroy(have.kernel);
    end_in_time(function->name);
}

/* ---- all of them ---- */

static bool is_tested(const char *name, size_t length)
{
    for (size_t i = 0; i < FUNCTIONS; i++)
        if (strlen(functions[i].name) == length && strncmp(functions[i].name, name, length) == 0)
            return true;
    return false;
}

/* A declaration's name is what stands before its parenthesis. */
static size_t check_declarations(const char *text)
{
    size_t found = 0;

    for (const char *at = strstr(text, "\nFACET_API"); at; at = strstr(at + 1, "\nFACET_API")) {
        const char *open = strchr(at, '('), *end = strchr(at, ';'), *driver = strstr(at, "struct facet_driver *");
        const char *name = open;

        assert_non_null(open);
        if (!driver || driver > end)
            continue;
        while (name[-1] == '_' || (name[-1] >= 'a' && name[-1] <= 'z'))
            name--;
        found++;
        if (!is_tested(name, (size_t)(open - name)))
            fail_msg("%.*s() is not in this test's table", (int)(open - name), name);
    }
    return found;
}

static void no_function_is_forgotten(void **state)
{
    static const char *const headers[] = {"compute.h", "monitor.h", "vgpu.h"};
    static char text[1 << 17];
    size_t found = 0;

    (void)state;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        char path[4096];

        snprintf(path, sizeof path, "%s/%s", getenv("FACET_TEST_HEADERS"), headers[i]);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        size_t size = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[size] = '\0';
        found += check_declarations(text);
    }
    assert_int_equal(found, FUNCTIONS);
}

int main(void)
{
    struct CMUnitTest tests[FUNCTIONS + 1];

    for (size_t i = 0; i < FUNCTIONS; i++)
        tests[i] = (struct CMUnitTest){.name = functions[i].name,
                                       .test_func = what_is_refused_holds_nothing,
                                       .initial_state = (void *)&functions[i]};
    tests[FUNCTIONS] = (struct CMUnitTest)cmocka_unit_test(no_function_is_forgotten);
    return cmocka_run_group_tests_name("vgpu/refused", tests, world_load, world_unload);
}
