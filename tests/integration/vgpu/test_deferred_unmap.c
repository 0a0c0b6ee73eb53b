/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that memory which is freed under a launch stays charged until the launch has ended and is then
 * returned, that no other call waits for this, and that copies wait as long as the launches before them take.
 */
#include "world.h"

#define QUICK_NS (1500 * MS) /* much less than the seconds that a device waits, but enough for a busy machine */

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
}

struct gate {
    struct facet_kernel *kernel;
    uint32_t id;
    uint64_t address;
};

static struct gate close_gate(uint32_t id, uint32_t stream)
{
    struct gate gate = {.id = id, .address = 0};

    OK(facet_vgpu_allocate(world.driver, id, 256, NULL, &gate.address, ERROR));
    OK(facet_vgpu_enqueue_fill(world.driver, id, stream, gate.address, 0, 16, NULL, ERROR));
    gate.kernel = vgpu_kernel(id, "gate", gate.address, 0);
    assert_true(wait_for_status(id, vgpu_launch(id, stream, gate.kernel, 1), FACET_EXECUTION_RUNNING));
    return gate;
}

static void open_gate(struct gate *gate, uint32_t stream)
{
    OK(facet_vgpu_enqueue_fill(world.driver, gate->id, stream, gate->address + 8, 1, 8, NULL, ERROR));
}

static uint64_t awaiting_unmap(uint32_t id)
{
    struct facet_space_usage usage = {.size = sizeof usage};

    OK(facet_vgpu_get_memory(world.driver, id, &usage, ERROR));
    return usage.leaving_bytes;
}

static void make_large(uint32_t id)
{
    struct facet_vgpu_config config = vgpu_config(id);

    config.memory_bytes = 64 * MIB;
    OK(facet_vgpu_create(world.driver, &config, NULL, ERROR));
}

static void memory_freed_under_a_launch_stays_charged(void **state)
{
    const struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {1}, .group = {1}};
    uint64_t address, none = 0;

    (void)state;
    vgpu_make(1);
    address = vgpu_memory(1, 8 * MIB);
    struct facet_kernel *add = vgpu_kernel(1, "add", address, 1);
    struct gate gate = close_gate(1, 0);
    uint64_t start = now_ns();
    OK(facet_vgpu_free(world.driver, 1, address, ERROR));
    assert_true(now_ns() - start < QUICK_NS);
    assert_true(vgpu_info(1).memory_reserved_bytes >= 8 * MIB);
    assert_int_equal(awaiting_unmap(1), 8 * MIB);
    REFUSED(FACET_BUSY, facet_vgpu_allocate(world.driver, 1, 12 * MIB, NULL, &none, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_free(world.driver, 1, address, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_fill(world.driver, 1, address, 0, 8, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_enqueue_fill(world.driver, 1, 1, address, 0, 8, NULL, ERROR));
    REFUSED(FACET_OUT_OF_RANGE,
            facet_vgpu_enqueue_copy(world.driver, 1, 1, gate.address, address, 8, FACET_COPY_ON_DEVICE, NULL, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_execute(world.driver, 1, 1, add, &range, NULL, ERROR));
    open_gate(&gate, 1);
    vgpu_finish(1);
    assert_int_equal(awaiting_unmap(1), 0);
    OK(facet_vgpu_allocate(world.driver, 1, 12 * MIB, NULL, &none, ERROR));
    facet_kernel_destroy(add);
    facet_kernel_destroy(gate.kernel);
}

/* Later launches do not keep freed memory, and it is unmapped without another call. */
static void freed_memory_is_unmapped_after_earlier_launches(void **state)
{
    uint64_t address, waited = 0;

    (void)state;
    vgpu_make(1);
    address = vgpu_memory(1, 8 * MIB);
    uint64_t target = vgpu_memory(1, 8);
    OK(facet_vgpu_pause(world.driver, 1, ERROR));
    OK(facet_vgpu_enqueue_fill(world.driver, 1, 0, address, 7, 8, NULL, ERROR));
    OK(facet_vgpu_enqueue_copy(world.driver, 1, 0, target, address, 8, FACET_COPY_ON_DEVICE, NULL, ERROR));
    OK(facet_vgpu_free(world.driver, 1, address, ERROR));
    assert_int_equal(awaiting_unmap(1), 8 * MIB);
    struct facet_kernel *burn = vgpu_kernel(1, "burn", target, 1000000);
    vgpu_launch(1, 1, burn, 1);
    OK(facet_vgpu_resume(world.driver, 1, ERROR));
    while (awaiting_unmap(1) && waited < WAIT_NS) {
        nap(MS);
        waited += MS;
    }
    assert_int_equal(awaiting_unmap(1), 0);
    vgpu_finish(1);
    facet_kernel_destroy(burn);
}

static void a_limit_holds_however_much_is_freed_under_a_pause(void **state)
{
    uint64_t address = 0, none = 0;

    (void)state;
    vgpu_make(1);
    make_large(2);
    uint64_t word = vgpu_memory(1, 8);
    struct facet_kernel *add = vgpu_kernel(1, "add", word, 1);
    OK(facet_vgpu_pause(world.driver, 1, ERROR));
    vgpu_launch(1, 0, add, 1);
    OK(facet_vgpu_allocate(world.driver, 1, 15 * MIB, NULL, &address, ERROR));
    OK(facet_vgpu_free(world.driver, 1, address, ERROR));
    REFUSED(FACET_BUSY, facet_vgpu_allocate(world.driver, 1, 15 * MIB, NULL, &none, ERROR));
    OK(facet_vgpu_allocate(world.driver, 2, 40 * MIB, NULL, &none, ERROR));
    REFUSED(FACET_NO_SPACE, facet_vgpu_allocate(world.driver, 2, 20 * MIB, NULL, &none, ERROR));
    OK(facet_vgpu_destroy(world.driver, 1, ERROR));
    OK(facet_vgpu_allocate(world.driver, 2, 20 * MIB, NULL, &none, ERROR));
    facet_kernel_destroy(add);
}

static void neighbours_and_monitors_do_not_wait(void **state)
{
    struct facet_vgpu_info infos[3] = {{.size = sizeof infos[0]}, {.size = sizeof infos[0]}, {.size = sizeof infos[0]}};
    struct facet_driver_device device = {.size = sizeof device};
    uint64_t blocks[6], none = 0;
    uint32_t count = 0;

    (void)state;
    vgpu_make(1);
    vgpu_make(2);
    for (uint32_t i = 0; i < 6; i++)
        OK(facet_vgpu_allocate(world.driver, 1, 1000 + UINT64_C(3000) * i, NULL, &blocks[i], ERROR));
    struct gate gate = close_gate(1, 0);
    uint64_t start = now_ns();
    for (uint32_t i = 0; i < 6; i++)
        OK(facet_vgpu_free(world.driver, 1, blocks[i], ERROR));
    OK(facet_vgpu_compact(world.driver, 1, NULL, NULL, ERROR));
    vgpu_make(3);
    OK(facet_vgpu_allocate(world.driver, 3, 8 * MIB, NULL, &none, ERROR));
    OK(facet_vgpu_list(world.driver, infos, 3, &count, ERROR));
    assert_true(facet_driver_get_device(world.driver, 0, &device));
    assert_true(now_ns() - start < QUICK_NS);
    open_gate(&gate, 1);
    vgpu_finish(1);
    facet_kernel_destroy(gate.kernel);
}

/* ---- copies ---- */

/* `data`: the address to copy from, then the status of the copy and the word that it read. */
static void *run_copy(void *data)
{
    uint64_t *arguments = data, word = 0;
    struct facet_error error;

    arguments[1] = (uint64_t) - (int64_t)facet_vgpu_copy(world.driver, 1, (uintptr_t)&word, arguments[0], 8,
                                                         FACET_COPY_TO_HOST, &error);
    arguments[2] = word;
    return NULL;
}

static void a_copy_waits_for_queued_launches_without_a_deadline(void **state)
{
    pthread_t thread;

    (void)state;
    vgpu_make(1);
    uint64_t arguments[3] = {vgpu_memory(1, 8), 1, 0};
    struct facet_kernel *add = vgpu_kernel(1, "add", arguments[0], 5);
    struct gate gate = close_gate(1, 0);
    vgpu_launch(1, 0, add, 1);
    assert_int_equal(pthread_create(&thread, NULL, run_copy, arguments), 0);
    nap(4500 * MS);
    open_gate(&gate, 1);
    pthread_join(thread, NULL);
    assert_int_equal(arguments[1], FACET_OK);
    assert_int_equal(arguments[2], 5);
    facet_kernel_destroy(add);
    facet_kernel_destroy(gate.kernel);
}

static void a_copy_ends_with_its_vgpu(void **state)
{
    pthread_t thread;

    (void)state;
    vgpu_make(1);
    uint64_t arguments[3] = {vgpu_memory(1, 8), 1, 0};
    struct facet_kernel *burn = vgpu_kernel(1, "burn", arguments[0], 1000000);
    vgpu_launch(1, 0, burn, 1000000);
    assert_int_equal(pthread_create(&thread, NULL, run_copy, arguments), 0);
    nap(100 * MS);
    OK(facet_vgpu_pause(world.driver, 1, ERROR));
    OK(facet_vgpu_destroy(world.driver, 1, ERROR));
    pthread_join(thread, NULL);
    facet_kernel_destroy(burn);
}

/* The work-group runs for some seconds after its vGPU was destroyed. */
static void memory_of_a_work_group_that_runs_on_comes_back(void **state)
{
    uint64_t address, waited = 0, none = 0;

    (void)state;
    vgpu_make(1);
    make_large(2);
    address = vgpu_memory(1, 15 * MIB);
    struct facet_kernel *burn = vgpu_kernel(1, "burn", address, UINT64_C(3500000000));
    assert_true(wait_for_status(1, vgpu_launch(1, 0, burn, 1), FACET_EXECUTION_RUNNING));
    OK(facet_vgpu_destroy(world.driver, 1, ERROR));
    enum facet_status status = facet_vgpu_allocate(world.driver, 2, 60 * MIB, NULL, &none, ERROR);
    for (; status == FACET_NO_SPACE && waited < WAIT_NS; waited += 20 * MS) {
        nap(20 * MS);
        status = facet_vgpu_allocate(world.driver, 2, 60 * MIB, NULL, &none, ERROR);
    }
    assert_int_equal(status, FACET_OK);
    facet_kernel_destroy(burn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_freed_under_a_launch_stays_charged, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(freed_memory_is_unmapped_after_earlier_launches, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(a_limit_holds_however_much_is_freed_under_a_pause, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(neighbours_and_monitors_do_not_wait, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(a_copy_waits_for_queued_launches_without_a_deadline, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(a_copy_ends_with_its_vgpu, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(memory_of_a_work_group_that_runs_on_comes_back, world_set_up, world_tear_down),
    };

    return cmocka_run_group_tests_name("deferred_unmap", tests, world_load, world_unload);
}
