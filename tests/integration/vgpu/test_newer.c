/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that structs of a newer program, which have zeros behind the known members, work like the known ones.
 * Never: proves that a tail which is not zero is refused; tests/unit/base/test_sized.c does.
 */
#include "world.h"

#include <facet/balance.h>
#include <facet/monitor.h>

/* The library once read the tail behind its own shorter copy of a struct. The longer the tail, the more
 * surely such a test fails. */
static const uint32_t tails[] = {8, 300, 4096};
#define TAILS (sizeof tails / sizeof *tails)

/* A copy of a struct with `tail` zero bytes behind it, to be freed by free_longer(). */
static const void *make_longer(const void *known, uint32_t tail)
{
    uint32_t size;

    memcpy(&size, known, sizeof size);
    unsigned char *longer = test_calloc(1, size + tail);
    memcpy(longer, known, size);
    size += tail;
    memcpy(longer, &size, sizeof size);
    return longer;
}

#define LONGER(type, known, tail) ((const struct type *)(make_longer)((known), (tail)))

static void free_longer(const void *longer)
{
    test_free((void *)(uintptr_t)longer);
}

static void settings_of_a_newer_program_open_a_driver(void **state)
{
    for (size_t i = 0; i < TAILS; i++) {
        struct facet_driver_config config = world_config();
        const struct facet_memory_config *memory = LONGER(facet_memory_config, config.memory, tails[i]);

        config.memory = memory;
        const struct facet_driver_config *longer = LONGER(facet_driver_config, &config, tails[i]);
        world_open(longer);
        const struct facet_vgpu_config one = vgpu_config(1);
        const struct facet_vgpu_config *vgpu = LONGER(facet_vgpu_config, &one, tails[i]);
        OK(facet_vgpu_create(world.driver, vgpu, NULL, ERROR));
        (void)vgpu_memory(1, 4096); /* the device's memory is opened with the driver's copy */
        free_longer(vgpu);
        free_longer(longer);
        free_longer(memory);
        world_close();
    }
}

static void options_of_a_newer_program_allocate(void **state)
{
    const struct facet_allocation_options known = {.size = sizeof known};

    vgpu_make(1);
    for (size_t i = 0; i < TAILS; i++) {
        const struct facet_allocation_options *options = LONGER(facet_allocation_options, &known, tails[i]);
        uint64_t address = 0;
        void *pointer = NULL;

        OK(facet_vgpu_allocate(world.driver, 1, 4096, options, &address, ERROR));
        enum facet_status status = facet_vgpu_allocate_managed(world.driver, 1, 4096, options, &pointer, ERROR);
        if (status != FACET_OK && strstr(world.error.message, "this library knows"))
            fail_msg("a tail of %u: %s", tails[i], world.error.message); /* other refusals: there is no userfaultfd */
        free_longer(options);
    }
}

/* A library must refuse options that it does not know, in each call that takes them. */
static void unknown_options_are_refused_for_managed_memory(void **state)
{
    struct {
        struct facet_allocation_options known;
        uint64_t new;
    } options = {.known = {.size = sizeof options}, .new = 1};
    struct facet_allocation_options cut = {.size = sizeof cut - 1};
    void *pointer = NULL;

    vgpu_make(1);
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_allocate_managed(world.driver, 1, 4096, &options.known, &pointer, ERROR));
    REFUSED(FACET_INVALID_ARGUMENT, facet_vgpu_allocate_managed(world.driver, 1, 4096, &cut, &pointer, ERROR));
}

static void an_operation_of_a_newer_program_runs(void **state)
{
    struct facet_math_support support = {.size = sizeof support};

    vgpu_make(1);
    if (facet_vgpu_get_operations(world.driver, 1, &support, ERROR) != FACET_OK ||
        !(support.types[FACET_MATH_GEMM] & 1u << FACET_MATH_F32))
        skip();
    uint64_t at = vgpu_memory(1, 3 * 256);
    const struct facet_math known = {
        .size = sizeof known,
        .operation = FACET_MATH_GEMM,
        .type = FACET_MATH_F32,
        .of.gemm = {.a = at, .b = at + 256, .c = at + 512, .m = 8, .n = 8, .k = 8, .alpha = 1}};

    for (size_t i = 0; i < TAILS; i++) {
        const struct facet_math *operation = LONGER(facet_math, &known, tails[i]);
        uint64_t execution = 0;

        OK(facet_vgpu_operate(world.driver, 1, 0, operation, &execution, ERROR));
        vgpu_finish(1);
        assert_int_equal(vgpu_execution(1, execution).status, FACET_EXECUTION_COMPLETED);
        free_longer(operation);
    }
}

static void a_range_of_a_newer_program_is_launched(void **state)
{
    const struct facet_range known = {.size = sizeof known, .dimensions = 1, .global = {4}, .group = {1}};

    vgpu_make(1);
    uint64_t at = vgpu_memory(1, 4096);
    struct facet_kernel *kernel = vgpu_kernel(1, "add", at, 1);
    for (size_t i = 0; i < TAILS; i++) {
        const struct facet_range *range = LONGER(facet_range, &known, tails[i]);

        OK(facet_vgpu_execute(world.driver, 1, 0, kernel, range, NULL, ERROR));
        vgpu_finish(1);
        free_longer(range);
    }
    facet_kernel_destroy(kernel);
}

/* The balancer keeps a copy of a task's range until a member is free. */
static void work_of_a_newer_program_is_balanced(void **state)
{
    static const uint32_t members[] = {1};
    const struct facet_balancer_config asked = {.size = sizeof asked, .count = 1, .ids = members};
    const struct facet_range known = {.size = sizeof known, .dimensions = 1, .global = {4}, .group = {1}};
    const uint64_t value = 1;
    uint64_t buffer = 0;

    vgpu_make(1);
    for (size_t i = 0; i < TAILS; i++) {
        const struct facet_balancer_config *config = LONGER(facet_balancer_config, &asked, tails[i]);
        const struct facet_range *range = LONGER(facet_range, &known, tails[i]);
        struct facet_balancer_task task = {.size = sizeof task};
        struct facet_balancer *balancer = NULL;
        uint64_t number = 0;

        OK(facet_balancer_open(world.driver, config, &balancer, ERROR));
        OK(facet_balancer_allocate(balancer, 4096, &buffer, ERROR));
        const struct facet_balancer_argument arguments[] = {{.buffer = buffer},
                                                            {.value = &value, .bytes = sizeof value}};
        const struct facet_balancer_work work = {.size = sizeof work,
                                                 .image = world.image,
                                                 .kernel = "add",
                                                 .range = range,
                                                 .arguments = arguments,
                                                 .count = 2};
        const struct facet_balancer_work *longer = LONGER(facet_balancer_work, &work, tails[i]);
        OK(facet_balancer_submit(balancer, longer, &number, ERROR));
        OK(facet_balancer_wait(balancer, number, WAIT_NS, ERROR));
        OK(facet_balancer_get_task(balancer, number, &task, ERROR));
        assert_int_equal(task.status, FACET_EXECUTION_COMPLETED);
        facet_balancer_close(balancer);
        free_longer(longer);
        free_longer(range);
        free_longer(config);
    }
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, world_set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_of_a_newer_program_open_a_driver), WITH_WORLD(options_of_a_newer_program_allocate),
        WITH_WORLD(unknown_options_are_refused_for_managed_memory),  WITH_WORLD(an_operation_of_a_newer_program_runs),
        WITH_WORLD(a_range_of_a_newer_program_is_launched),          WITH_WORLD(work_of_a_newer_program_is_balanced),
    };

    return cmocka_run_group_tests(tests, world_load, world_unload);
}
