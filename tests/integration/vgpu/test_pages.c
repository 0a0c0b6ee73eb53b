/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the proof of the pages that a vGPU reports and keeps, where memory swaps and where it does not. Never:
 * asserts how long anything takes. */
#include "world.h"

/* Opens a driver with 16 MiB of memory and `swap_bytes` of swap. */
static void open_small(uint64_t swap_bytes)
{
    struct facet_driver_config config = world_config();

    world.memory.memory_bytes = 16 * MIB;
    world.memory.swap_bytes = swap_bytes;
    world_open(&config);
}

static void make_with_memory(uint32_t id, uint64_t memory_bytes)
{
    struct facet_vgpu_config config = vgpu_config(id);

    config.memory_bytes = memory_bytes;
    OK(facet_vgpu_create(world.driver, &config, NULL, ERROR));
}

static uint32_t flags_of(uint32_t id, uint64_t address)
{
    struct facet_page page = {.size = sizeof page};

    OK(facet_vgpu_get_page(world.driver, id, address, &page, ERROR));
    assert_true(page.address <= address && address < page.address + 64 * KIB);
    return page.flags;
}

static void pages_are_reported(void **state)
{
    struct facet_page page = {.size = sizeof page};
    uint32_t milli = 7;
    uint64_t address = 0;

    vgpu_make(1);
    vgpu_make(2);
    OK(facet_vgpu_allocate(world.driver, 1, MIB, NULL, &address, ERROR));
    assert_int_equal(flags_of(1, address + 5) & (FACET_PAGE_VALID | FACET_PAGE_DIRTY), FACET_PAGE_VALID);
    OK(facet_vgpu_fill(world.driver, 1, address, 1, 1, ERROR));
    assert_true(flags_of(1, address) & FACET_PAGE_DIRTY);
    assert_false(flags_of(1, address + 64 * KIB) & FACET_PAGE_DIRTY);
    REFUSED(FACET_NOT_FOUND, facet_vgpu_get_page(world.driver, 1, 8, &page, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_get_page(world.driver, 2, address, &page, ERROR));
    OK(facet_vgpu_get_unusable(world.driver, 1, 1, &milli, ERROR));
    assert_int_equal(milli, 0); /* nothing is free in its pages */
    OK(facet_vgpu_allocate(world.driver, 1, 256, NULL, &address, ERROR));
    OK(facet_vgpu_get_unusable(world.driver, 1, 256, &milli, ERROR));
    assert_int_equal(milli, 0);
    OK(facet_vgpu_get_unusable(world.driver, 1, MIB, &milli, ERROR));
    assert_int_equal(milli, 1000); /* only the remainder of a pool's page is free */
}

static void pinned_memory_stays_when_others_need_room(void **state)
{
    uint64_t kept, others[12], pin = 0, second = 0;

    open_small(32 * MIB);
    make_with_memory(1, 12 * MIB);
    make_with_memory(2, 12 * MIB);
    kept = vgpu_memory(1, 2 * MIB);
    uint64_t left = vgpu_memory(1, 4 * MIB);
    OK(facet_vgpu_pin(world.driver, 1, &kept, 1, WAIT_NS, &pin, ERROR));
    assert_true(flags_of(1, kept) & FACET_PAGE_PINNED);
    for (int i = 0; i < 12; i++)
        others[i] = vgpu_memory(2, MIB);
    struct facet_kernel *kernel = vgpu_kernel(2, "add", others[0], 3);
    vgpu_launch(2, 0, kernel, 1); /* brings in all memory of vGPU 2 */
    vgpu_finish(2);
    facet_kernel_destroy(kernel);
    assert_true(flags_of(1, kept) & FACET_PAGE_VALID);
    bool swapped = false;
    for (uint64_t at = 0; at < 4 * MIB; at += 64 * KIB)
        swapped = swapped || flags_of(1, left + at) & FACET_PAGE_SWAPPED;
    assert_true(swapped);
    REFUSED(FACET_BUSY, facet_vgpu_free(world.driver, 1, kept, ERROR));
    OK(facet_vgpu_pin(world.driver, 1, &kept, 1, 0, &second, ERROR));
    assert_int_not_equal(second, pin);
    OK(facet_vgpu_unpin(world.driver, 1, pin, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_unpin(world.driver, 1, pin, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_unpin(world.driver, 2, second, ERROR));
    assert_true(flags_of(1, kept) & FACET_PAGE_PINNED);
    OK(facet_vgpu_unpin(world.driver, 1, second, ERROR));
    assert_false(flags_of(1, kept) & FACET_PAGE_PINNED);
    OK(facet_vgpu_free(world.driver, 1, kept, ERROR));
    world_close();
}

/* A vGPU that pins too much makes calls of other vGPUs wait until their timeout, or until that vGPU is destroyed. */
static void pins_end_with_their_vgpu(void **state)
{
    uint64_t pin = 0;

    open_small(32 * MIB);
    make_with_memory(1, 12 * MIB);
    make_with_memory(2, 12 * MIB);
    vgpu_memory(1, 12 * MIB);
    OK(facet_vgpu_pin(world.driver, 1, NULL, 0, WAIT_NS, &pin, ERROR));
    vgpu_memory(2, 2 * MIB);
    OK(facet_vgpu_pin(world.driver, 2, NULL, 0, WAIT_NS, &pin, ERROR)); /* there is room beside the other pins */
    OK(facet_vgpu_unpin(world.driver, 2, pin, ERROR));
    uint64_t more = 0;
    OK(facet_vgpu_allocate(world.driver, 2, 8 * MIB, NULL, &more, ERROR));
    REFUSED(FACET_TIMEOUT, facet_vgpu_pin(world.driver, 2, NULL, 0, 0, &pin, ERROR));
    REFUSED(FACET_TIMEOUT, facet_vgpu_pin(world.driver, 2, &more, 1, 20 * MS, &pin, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_pin(world.driver, 2, (uint64_t[]){8}, 1, 0, &pin, ERROR));
    OK(facet_vgpu_destroy(world.driver, 1, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_unpin(world.driver, 1, 1, ERROR));
    OK(facet_vgpu_pin(world.driver, 2, NULL, 0, WAIT_NS, &pin, ERROR));
    world_close(); /* with a pin that is kept */
}

/* A vGPU may hold and copy more memory than the device has, but must free some before a launch. */
static void a_launch_with_more_memory_than_the_device_is_refused_with_advice(void **state)
{
    const struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {1}, .group = {1}};
    uint64_t first, second, pin = 0;

    open_small(32 * MIB);
    make_with_memory(1, 24 * MIB);
    first = vgpu_memory(1, 12 * MIB);
    second = vgpu_memory(1, 12 * MIB);
    struct facet_kernel *kernel = vgpu_kernel(1, "add", first, 5);
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_execute(world.driver, 1, 0, kernel, &range, NULL, ERROR));
    assert_non_null(strstr(world.error.message, "free some"));
    assert_non_null(strstr(world.error.message, "25165824 bytes are to be on the device at once, which has 16777216"));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_pin(world.driver, 1, (uint64_t[]){first, second}, 2, WAIT_NS, &pin, ERROR));
    assert_non_null(strstr(world.error.message, "fewer allocations"));
    OK(facet_vgpu_pin(world.driver, 1, &second, 1, WAIT_NS, &pin, ERROR));
    OK(facet_vgpu_unpin(world.driver, 1, pin, ERROR));
    OK(facet_vgpu_free(world.driver, 1, second, ERROR));
    vgpu_launch(1, 0, kernel, 1);
    vgpu_finish(1);
    assert_int_equal(vgpu_word(1, first), 5);
    facet_kernel_destroy(kernel);
    world_close();
}

static void pins_are_counted(void **state)
{
    uint64_t address, pin = 0;
    uint32_t count = 0;

    vgpu_make(1);
    address = vgpu_memory(1, 1);
    while (count <= FACET_VGPU_PINS && facet_vgpu_pin(world.driver, 1, &address, 1, 0, &pin, ERROR) == FACET_OK)
        count++;
    assert_int_equal(count, FACET_VGPU_PINS);
    assert_int_equal(world.error.status, FACET_QUOTA);
    OK(facet_vgpu_unpin(world.driver, 1, pin, ERROR));
    OK(facet_vgpu_pin(world.driver, 1, &address, 1, 0, &pin, ERROR));
}

static void pages_need_a_space(void **state)
{
    struct facet_driver_config config = world_config();
    struct facet_page page = {.size = sizeof page};
    uint64_t pin = 0;
    uint32_t milli = 0;

    config.off = FACET_OFF_MEMORY;
    world_open(&config);
    OK(facet_vgpu_create(world.driver, NULL, NULL, ERROR));
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_get_page(world.driver, 1, 0, &page, ERROR));
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_get_unusable(world.driver, 1, 1, &milli, ERROR));
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_pin(world.driver, 1, NULL, 0, 0, &pin, ERROR));
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_unpin(world.driver, 1, 1, ERROR));
    world_close();
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, world_set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(pages_are_reported),
        cmocka_unit_test(pinned_memory_stays_when_others_need_room),
        cmocka_unit_test(pins_end_with_their_vgpu),
        cmocka_unit_test(a_launch_with_more_memory_than_the_device_is_refused_with_advice),
        WITH_WORLD(pins_are_counted),
        cmocka_unit_test(pages_need_a_space),
    };

    return cmocka_run_group_tests(tests, world_load, world_unload);
}
