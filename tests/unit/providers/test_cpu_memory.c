/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the cpu provider's memory, mappings, limits and settings. Never: moves pages (test_cpu_move.c). */
#include "test_cpu_world.h"

#define MEMORY   (world.provider->memory)
#define LIMIT    (world.provider->limit)
#define INSTANCE world.instance

static struct world world;

static int set_up(void **state)
{
    (void)state;
    world_begin(&world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_end(&world);
    return 0;
}

static void freed_memory_is_zero_for_the_next_allocation(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        uint64_t address = world_alloc(&world, world.context, 10000), word = 1;

        assert_int_equal(address % 256, 0);
        OK(&world, MEMORY->read(INSTANCE, world.context, address, sizeof word, &word, &world.error));
        assert_int_equal(word, 0);
        OK(&world, MEMORY->fill(INSTANCE, world.context, address, 0xff, 10000, &world.error));
        OK(&world, MEMORY->free(INSTANCE, world.context, address, &world.error));
        assert_int_equal(world_used(&world, world.context), 0);
    }
}

static void allocations_are_bounded_by_the_device(void **state)
{
    uint64_t other = world_context(&world, "other"), address = 1;
    (void)state;

    assert_int_equal(MEMORY->alloc(INSTANCE, world.context, UINT64_MAX, &address, NULL), FACET_NO_SPACE);
    assert_int_equal(MEMORY->alloc(INSTANCE, world.context, WORLD_MEMORY + 1, &address, NULL), FACET_NO_SPACE);
    assert_int_equal(address, 1);
    world_alloc(&world, world.context, WORLD_MEMORY - 4096);
    world_alloc(&world, other, 4096);
    assert_int_equal(world_used(&world, other), WORLD_MEMORY);
    assert_int_equal(MEMORY->alloc(INSTANCE, world.context, 1, &address, NULL), FACET_NO_SPACE);
    OK(&world, MEMORY->destroy_context(INSTANCE, world.context, &world.error));
    assert_int_equal(world_used(&world, other), 4096);
}

static void promised_memory_is_refused_to_others(void **state)
{
    uint64_t address = 1;
    (void)state;

    OK(&world, LIMIT->set_memory(INSTANCE, 0, "limited", WORLD_MEMORY / 2, &world.error));
    assert_int_equal(MEMORY->alloc(INSTANCE, world.context, WORLD_MEMORY / 2 + 1, &address, NULL), FACET_NO_SPACE);
    world_alloc(&world, world.context, WORLD_MEMORY / 2);
    assert_int_equal(LIMIT->set_memory(INSTANCE, 0, "third", 1, NULL), FACET_NO_SPACE);
    uint64_t one = world_context(&world, "limited"), two = world_context(&world, "limited");
    world_alloc(&world, one, WORLD_MEMORY / 4);
    world_alloc(&world, two, WORLD_MEMORY / 4);
    assert_int_equal(MEMORY->alloc(INSTANCE, one, 1, &address, NULL), FACET_QUOTA);
    assert_int_equal(LIMIT->clear(INSTANCE, 0, "limited", NULL), FACET_BUSY);
    assert_int_equal(address, 1);
}

/* 2 pages are mapped in a reservation of 4. The second page is mapped at two addresses, and later at another one. */
static void pages_move_under_an_address_that_stays(void **state)
{
    struct facet_memory_info info = {.size = sizeof info};
    uint64_t at = 0, pages = 0, word = 0x1122334455667788, got = 0;
    (void)state;

    OK(&world, MEMORY->info(INSTANCE, world.context, &info, &world.error));
    const uint64_t page = info.page_bytes;
    OK(&world, MEMORY->reserve(INSTANCE, world.context, 4 * page, 16 * page, &at, &world.error));
    assert_int_equal(at % (16 * page), 0);
    OK(&world, MEMORY->create_pages(INSTANCE, world.context, 2 * page, &pages, &world.error));
    OK(&world, MEMORY->map(INSTANCE, world.context, at, pages, 0, 2 * page, &world.error));
    OK(&world, MEMORY->map(INSTANCE, world.context, at + 2 * page, pages, page, page, &world.error));
    assert_int_equal(MEMORY->map(INSTANCE, world.context, at, pages, 0, page, NULL), FACET_BUSY);
    OK(&world, MEMORY->write(INSTANCE, world.context, at + page + 8, &word, sizeof word, &world.error));
    OK(&world, MEMORY->read(INSTANCE, world.context, at + 2 * page + 8, sizeof got, &got, &world.error));
    assert_int_equal(got, word);
    /* The middle of a mapping is unmapped, and its page mapped elsewhere. */
    OK(&world, MEMORY->unmap(INSTANCE, world.context, at + page, page, &world.error));
    assert_int_equal(MEMORY->read(INSTANCE, world.context, at + page + 8, 8, &got, NULL), FACET_OUT_OF_RANGE);
    OK(&world, MEMORY->map(INSTANCE, world.context, at + 3 * page, pages, page, page, &world.error));
    got = 0;
    OK(&world, MEMORY->read(INSTANCE, world.context, at + 3 * page + 8, sizeof got, &got, &world.error));
    assert_int_equal(got, word);
    assert_int_equal(MEMORY->release(INSTANCE, world.context, at, NULL), FACET_BUSY);
}

static void a_mapping_can_be_cut_anywhere(void **state)
{
    uint64_t at = 0, pages = 0, word = 0;
    const uint64_t page = 65536;
    (void)state;

    OK(&world, MEMORY->reserve(INSTANCE, world.context, 8 * page, 0, &at, &world.error));
    OK(&world, MEMORY->create_pages(INSTANCE, world.context, 8 * page, &pages, &world.error));
    OK(&world, MEMORY->map(INSTANCE, world.context, at, pages, 0, 8 * page, &world.error));
    for (word = 0; word < 8; word++)
        OK(&world, MEMORY->write(INSTANCE, world.context, at + word * page, &word, sizeof word, &world.error));
    OK(&world, MEMORY->unmap(INSTANCE, world.context, at + 2 * page, page, &world.error));
    OK(&world, MEMORY->unmap(INSTANCE, world.context, at + 5 * page, page, &world.error));
    OK(&world, MEMORY->destroy_pages(INSTANCE, world.context, pages, &world.error));
    for (uint64_t i = 0; i < 8; i++) {
        enum facet_status status = MEMORY->read(INSTANCE, world.context, at + i * page, sizeof word, &word, NULL);

        assert_int_equal(status, i == 2 || i == 5 ? FACET_OUT_OF_RANGE : FACET_OK);
        if (status == FACET_OK)
            assert_int_equal(word, i);
    }
    assert_int_equal(MEMORY->unmap(INSTANCE, world.context, at, 3 * page, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(world_used(&world, world.context), 8 * page);
    OK(&world, MEMORY->unmap(INSTANCE, world.context, at, 2 * page, &world.error));
    OK(&world, MEMORY->unmap(INSTANCE, world.context, at + 3 * page, 2 * page, &world.error));
    assert_int_equal(world_used(&world, world.context), 8 * page);
    OK(&world, MEMORY->unmap(INSTANCE, world.context, at + 6 * page, 2 * page, &world.error));
    assert_int_equal(world_used(&world, world.context), 0);
    OK(&world, MEMORY->release(INSTANCE, world.context, at, &world.error));
}

/* A running kernel uses raw addresses, so that memory freed meanwhile stays until the kernel has ended. */
static void memory_freed_under_a_kernel_stays_until_it_ends(void **state)
{
    uint64_t gate = world_alloc(&world, world.context, 4096);
    (void)state;

    world_load(&world, "test-cpu-kernels.so");
    world_spin(&world, gate);
    OK(&world, MEMORY->free(INSTANCE, world.context, gate, &world.error));
    assert_int_equal(MEMORY->free(INSTANCE, world.context, gate, NULL), FACET_NOT_FOUND);
    assert_int_equal(world_used(&world, world.context), 4096);
    world_let_go(gate);
    OK(&world, world_wait(&world));
    assert_int_equal(world_used(&world, world.context), 0);
}

static void units_are_granted_whole_and_once(void **state)
{
    struct facet_worker_limit limit = {.size = sizeof limit};
    (void)state;

    OK(&world, LIMIT->set_compute(INSTANCE, 0, "a", 300, &world.error));
    OK(&world, LIMIT->get(INSTANCE, 0, "a", &limit, &world.error));
    assert_int_equal(limit.compute_units, 1);
    assert_int_equal(limit.compute_milli, 500);
    assert_int_equal(LIMIT->set_compute(INSTANCE, 0, "b", 501, NULL), FACET_NO_SPACE);
    assert_int_equal(LIMIT->get(INSTANCE, 0, "b", &limit, NULL), FACET_NOT_FOUND);
    assert_int_equal(LIMIT->set_compute(INSTANCE, 0, "w", 500, NULL), FACET_BUSY);
    OK(&world, LIMIT->set_compute(INSTANCE, 0, "b", 500, &world.error));
    OK(&world, LIMIT->clear(INSTANCE, 0, "a", &world.error));
    OK(&world, LIMIT->clear(INSTANCE, 0, "b", &world.error));
}

static void settings_are_read_and_checked(void **state)
{
    struct facet_provider_instance *instance = NULL;
    struct facet_device_info info = {.size = sizeof info};
    uint32_t count = 0;
    (void)state;

    OK(&world, world.provider->device->list(INSTANCE, &info, sizeof info, 1, &count, &world.error));
    assert_int_equal(info.compute_units, WORLD_UNITS);
    assert_int_equal(info.memory_bytes, WORLD_MEMORY);
    assert_int_equal(info.modes, 0);
    for (int i = 0; i < 3; i++) {
        static const char *const wrong[] = {"257", "two", "0"};

        setenv("FACET_CPU_UNITS", wrong[i], 1);
        assert_int_equal(world.provider->device->open(&instance, &world.error), FACET_INVALID_ARGUMENT);
        assert_non_null(strstr(world.error.message, "FACET_CPU_UNITS"));
    }
    assert_null(instance);
}

/* The switch is 0, 1 or empty, like all switches. */
static void a_switch_takes_0_and_1(void **state)
{
    static const char *const right[] = {"0", "1", ""}, *const wrong[] = {"2", "00", "on", "-1"};
    const char *before = getenv("FACET_CPU_COMMIT");
    struct facet_provider_instance *instance = NULL;
    (void)state;

    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        setenv("FACET_CPU_COMMIT", right[i], 1);
        OK(&world, world.provider->device->open(&instance, &world.error));
        world.provider->device->close(instance);
    }
    instance = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv("FACET_CPU_COMMIT", wrong[i], 1);
        assert_int_equal(world.provider->device->open(&instance, &world.error), FACET_INVALID_ARGUMENT);
        assert_non_null(strstr(world.error.message, "expected 0 or 1"));
    }
    assert_null(instance);
    if (before)
        setenv("FACET_CPU_COMMIT", before, 1);
    else
        unsetenv("FACET_CPU_COMMIT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(freed_memory_is_zero_for_the_next_allocation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(allocations_are_bounded_by_the_device, set_up, tear_down),
        cmocka_unit_test_setup_teardown(promised_memory_is_refused_to_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pages_move_under_an_address_that_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_mapping_can_be_cut_anywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_freed_under_a_kernel_stays_until_it_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(settings_are_read_and_checked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_switch_takes_0_and_1, set_up, tear_down),
        cmocka_unit_test_setup_teardown(units_are_granted_whole_and_once, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
