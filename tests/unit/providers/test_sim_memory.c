/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the simulated memory: addresses, pages, mapping, exact quotas, failed copies without an effect. */
#include "sim_world.h"

static struct world world;

#define MEMORY   (world.provider->memory)
#define INSTANCE world.instance

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

static void plain_memory_is_zero_and_keeps_written_bytes(void **state)
{
    unsigned char text[5000], back[5000];
    (void)state;
    uint64_t address = world_alloc(&world, world.context, sizeof text);

    assert_int_equal(address % 256, 0);
    OK(&world, MEMORY->read(INSTANCE, world.context, address, sizeof back, back, &world.error));
    for (size_t i = 0; i < sizeof back; i++)
        assert_int_equal(back[i], 0);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)(i * 7);
    OK(&world, MEMORY->write(INSTANCE, world.context, address, text, sizeof text, &world.error));
    OK(&world, MEMORY->read(INSTANCE, world.context, address, sizeof back, back, &world.error));
    assert_memory_equal(text, back, sizeof text);
    OK(&world, MEMORY->free(INSTANCE, world.context, address, &world.error));
    assert_int_equal(MEMORY->free(INSTANCE, world.context, address, NULL), FACET_NOT_FOUND);
    assert_int_equal(MEMORY->read(INSTANCE, world.context, address, 1, back, NULL), FACET_OUT_OF_RANGE);
}

static void freed_memory_is_zero_for_the_next_allocation(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        uint64_t address = world_alloc(&world, world.context, 8192);

        assert_int_equal(world_word(&world, world.context, address), 0);
        OK(&world, MEMORY->fill(INSTANCE, world.context, address, 0xff, 8192, &world.error));
        OK(&world, MEMORY->free(INSTANCE, world.context, address, &world.error));
    }
}

static void the_device_is_full_to_the_byte(void **state)
{
    uint64_t address = 1, other;
    (void)state;

    assert_int_equal(MEMORY->alloc(INSTANCE, world.context, WORLD_MEMORY + 1, &address, NULL), FACET_NO_SPACE);
    assert_int_equal(MEMORY->alloc(INSTANCE, world.context, UINT64_MAX, &address, NULL), FACET_NO_SPACE);
    assert_int_equal(MEMORY->alloc(INSTANCE, world.context, 0, &address, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(address, 1);
    address = world_alloc(&world, world.context, WORLD_MEMORY - 1);
    other = world_alloc(&world, world_context(&world, 0, NULL, "b"), 1);
    assert_int_equal(world_used(&world, world.context), WORLD_MEMORY);
    assert_int_equal(MEMORY->alloc(INSTANCE, world.context, 1, &other, NULL), FACET_NO_SPACE);
    OK(&world, MEMORY->free(INSTANCE, world.context, address, &world.error));
    assert_int_equal(world_used(&world, world.context), 1);
}

static void the_limit_of_a_worker_is_shared_by_its_contexts(void **state)
{
    uint64_t address = 1;
    (void)state;

    OK(&world, world.provider->limit->set_memory(INSTANCE, 1, "w", 100000, &world.error));
    uint64_t first = world_context(&world, 1, NULL, "w"), second = world_context(&world, 1, NULL, "w");
    world_alloc(&world, first, 60000);
    uint64_t freed = world_alloc(&world, second, 40000);
    assert_int_equal(MEMORY->alloc(INSTANCE, first, 1, &address, NULL), FACET_QUOTA);
    assert_int_equal(address, 1);
    OK(&world, MEMORY->free(INSTANCE, second, freed, &world.error));
    world_alloc(&world, first, 40000);
    OK(&world, MEMORY->destroy_context(INSTANCE, first, &world.error));
    assert_int_equal(world_used(&world, second), 0);
    assert_int_equal(MEMORY->alloc(INSTANCE, second, 100001, &address, NULL), FACET_QUOTA);
    world_alloc(&world, second, 100000);
}

static void a_partition_has_its_own_memory(void **state)
{
    struct facet_partition_info partition = {.size = sizeof partition};
    uint64_t address;
    (void)state;

    OK(&world, world.provider->partition->create(INSTANCE, 1, "3s", 3, &partition, &world.error));
    uint64_t context = world_context(&world, 1, partition.uuid, "w");
    world_alloc(&world, context, partition.memory_bytes);
    assert_int_equal(MEMORY->alloc(INSTANCE, context, 1, &address, NULL), FACET_NO_SPACE);
}

/* Two page objects are mapped side by side, and one of them a second time. */
static void mappings_join_split_and_alias(void **state)
{
    uint64_t base, alias, a, b, word = 0x1122334455667788;
    (void)state;

    OK(&world, MEMORY->reserve(INSTANCE, world.context, 3 * WORLD_PAGE, 0, &base, &world.error));
    OK(&world, MEMORY->reserve(INSTANCE, world.context, WORLD_PAGE, 4 * WORLD_PAGE, &alias, &world.error));
    assert_int_equal(base % WORLD_PAGE, 0);
    assert_int_equal(alias % (4 * WORLD_PAGE), 0);
    OK(&world, MEMORY->create_pages(INSTANCE, world.context, 2 * WORLD_PAGE, &a, &world.error));
    OK(&world, MEMORY->create_pages(INSTANCE, world.context, WORLD_PAGE, &b, &world.error));
    OK(&world, MEMORY->map(INSTANCE, world.context, base, a, 0, 2 * WORLD_PAGE, &world.error));
    OK(&world, MEMORY->map(INSTANCE, world.context, base + 2 * WORLD_PAGE, b, 0, WORLD_PAGE, &world.error));
    OK(&world, MEMORY->map(INSTANCE, world.context, alias, b, 0, WORLD_PAGE, &world.error));

    /* A word lies across the border of the two objects. Its upper half is seen through the second mapping. */
    OK(&world, MEMORY->write(INSTANCE, world.context, base + 2 * WORLD_PAGE - 4, &word, 8, &world.error));
    assert_int_equal(world_word(&world, world.context, base + 2 * WORLD_PAGE - 4), word);
    assert_int_equal((uint32_t)world_word(&world, world.context, alias), 0x11223344);

    assert_int_equal(MEMORY->release(INSTANCE, world.context, base, NULL), FACET_BUSY);
    OK(&world, MEMORY->unmap(INSTANCE, world.context, base + WORLD_PAGE, WORLD_PAGE, &world.error));
    assert_int_equal(MEMORY->unmap(INSTANCE, world.context, base, 3 * WORLD_PAGE, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(MEMORY->read(INSTANCE, world.context, base + WORLD_PAGE, 1, &word, NULL), FACET_OUT_OF_RANGE);
    OK(&world, MEMORY->unmap(INSTANCE, world.context, base, WORLD_PAGE, &world.error));
    OK(&world, MEMORY->unmap(INSTANCE, world.context, base + 2 * WORLD_PAGE, WORLD_PAGE, &world.error));
    OK(&world, MEMORY->release(INSTANCE, world.context, base, &world.error));
    assert_int_equal(MEMORY->release(INSTANCE, world.context, base, NULL), FACET_NOT_FOUND);
    assert_int_equal((uint32_t)world_word(&world, world.context, alias), 0x11223344);
}

static void pages_move_under_an_address_that_stays(void **state)
{
    uint64_t base, a, b;
    (void)state;

    OK(&world, MEMORY->reserve(INSTANCE, world.context, WORLD_PAGE, 0, &base, &world.error));
    OK(&world, MEMORY->create_pages(INSTANCE, world.context, WORLD_PAGE, &a, &world.error));
    OK(&world, MEMORY->create_pages(INSTANCE, world.context, WORLD_PAGE, &b, &world.error));
    OK(&world, MEMORY->map(INSTANCE, world.context, base, a, 0, WORLD_PAGE, &world.error));
    OK(&world, MEMORY->fill(INSTANCE, world.context, base, 1, WORLD_PAGE, &world.error));
    OK(&world, MEMORY->unmap(INSTANCE, world.context, base, WORLD_PAGE, &world.error));
    OK(&world, MEMORY->map(INSTANCE, world.context, base, b, 0, WORLD_PAGE, &world.error));
    assert_int_equal(world_word(&world, world.context, base), 0);
    OK(&world, MEMORY->unmap(INSTANCE, world.context, base, WORLD_PAGE, &world.error));
    OK(&world, MEMORY->map(INSTANCE, world.context, base, a, 0, WORLD_PAGE, &world.error));
    assert_int_equal(world_word(&world, world.context, base), 0x0101010101010101);
}

static void destroyed_pages_are_freed_with_their_last_mapping(void **state)
{
    uint64_t base, pages;
    (void)state;

    OK(&world, MEMORY->reserve(INSTANCE, world.context, 2 * WORLD_PAGE, 0, &base, &world.error));
    OK(&world, MEMORY->create_pages(INSTANCE, world.context, 2 * WORLD_PAGE, &pages, &world.error));
    OK(&world, MEMORY->map(INSTANCE, world.context, base, pages, 0, 2 * WORLD_PAGE, &world.error));
    OK(&world, MEMORY->destroy_pages(INSTANCE, world.context, pages, &world.error));
    assert_int_equal(MEMORY->destroy_pages(INSTANCE, world.context, pages, NULL), FACET_NOT_FOUND);
    assert_int_equal(MEMORY->map(INSTANCE, world.context, base, pages, 0, WORLD_PAGE, NULL), FACET_NOT_FOUND);
    OK(&world, MEMORY->unmap(INSTANCE, world.context, base, WORLD_PAGE, &world.error));
    assert_int_equal(world_used(&world, world.context), 2 * WORLD_PAGE);
    assert_int_equal(world_word(&world, world.context, base + WORLD_PAGE), 0);
    OK(&world, MEMORY->unmap(INSTANCE, world.context, base + WORLD_PAGE, WORLD_PAGE, &world.error));
    assert_int_equal(world_used(&world, world.context), 0);
}

static void wrong_ranges_are_refused(void **state)
{
    uint64_t base, pages, out = 1;
    (void)state;

    OK(&world, MEMORY->reserve(INSTANCE, world.context, 2 * WORLD_PAGE, 0, &base, &world.error));
    OK(&world, MEMORY->create_pages(INSTANCE, world.context, WORLD_PAGE, &pages, &world.error));
    const struct {
        uint64_t address, offset, bytes;
        enum facet_status expected;
    } cases[] = {
        {base + 1, 0, WORLD_PAGE, FACET_OUT_OF_RANGE},
        {base, 1, WORLD_PAGE, FACET_OUT_OF_RANGE},
        {base, 0, 0, FACET_OUT_OF_RANGE},
        {base, 0, WORLD_PAGE - 1, FACET_OUT_OF_RANGE},
        {base, 0, 2 * WORLD_PAGE, FACET_OUT_OF_RANGE},
        {base, WORLD_PAGE, WORLD_PAGE, FACET_OUT_OF_RANGE},
        {base, UINT64_MAX - WORLD_PAGE + 1, WORLD_PAGE, FACET_OUT_OF_RANGE},
        {base + 2 * WORLD_PAGE, 0, WORLD_PAGE, FACET_OUT_OF_RANGE},
        {base - WORLD_PAGE, 0, WORLD_PAGE, FACET_OUT_OF_RANGE},
        {UINT64_MAX - WORLD_PAGE + 1, 0, WORLD_PAGE, FACET_OUT_OF_RANGE},
        {0, 0, UINT64_MAX - WORLD_PAGE + 1, FACET_OUT_OF_RANGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(
            MEMORY->map(INSTANCE, world.context, cases[i].address, pages, cases[i].offset, cases[i].bytes, NULL),
            cases[i].expected);
    OK(&world, MEMORY->map(INSTANCE, world.context, base, pages, 0, WORLD_PAGE, &world.error));
    assert_int_equal(MEMORY->map(INSTANCE, world.context, base, pages, 0, WORLD_PAGE, NULL), FACET_BUSY);
    assert_int_equal(MEMORY->reserve(INSTANCE, world.context, 1, 0, &out, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(MEMORY->reserve(INSTANCE, world.context, 0, 0, &out, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(MEMORY->reserve(INSTANCE, world.context, WORLD_PAGE, 3, &out, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(MEMORY->reserve(INSTANCE, world.context, UINT64_MAX - WORLD_PAGE + 1, 0, &out, NULL),
                     FACET_OUT_OF_RANGE);
    assert_int_equal(MEMORY->create_pages(INSTANCE, world.context, 1, &out, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(
        MEMORY->unmap(INSTANCE, world.context, world_alloc(&world, world.context, 2 * WORLD_PAGE), WORLD_PAGE, NULL),
        FACET_OUT_OF_RANGE);
    assert_int_equal(out, 1);
}

static void a_failed_copy_touches_nothing(void **state)
{
    unsigned char text[512], back[256];
    (void)state;
    uint64_t address = world_alloc(&world, world.context, 256);

    memset(text, 0xab, sizeof text);
    assert_int_equal(MEMORY->write(INSTANCE, world.context, address, text, 257, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(MEMORY->fill(INSTANCE, world.context, address + 1, 0xab, 256, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(MEMORY->copy(INSTANCE, world.context, address, address + 1, 256, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(MEMORY->fill(INSTANCE, world.context, address, 0xab, UINT64_MAX, NULL), FACET_OUT_OF_RANGE);
    OK(&world, MEMORY->read(INSTANCE, world.context, address, 256, back, &world.error));
    for (size_t i = 0; i < sizeof back; i++)
        assert_int_equal(back[i], 0);
    memset(back, 0x5a, sizeof back);
    assert_int_equal(MEMORY->read(INSTANCE, world.context, address + 255, 2, back, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(back[0], 0x5a);
}

/* Source and target overlap, in both directions, and are longer than the steps in which the provider copies. */
static void copies_that_overlap_are_right(void **state)
{
    enum { LENGTH = 300000, SHIFT = 1000 };
    unsigned char *expected = malloc(LENGTH + SHIFT), *back = malloc(LENGTH + SHIFT);
    (void)state;
    uint64_t address = world_alloc(&world, world.context, LENGTH + SHIFT);

    for (int forward = 0; forward < 2; forward++) {
        size_t to = forward ? 0 : SHIFT, from = forward ? SHIFT : 0;

        for (size_t i = 0; i < LENGTH + SHIFT; i++)
            expected[i] = (unsigned char)(i * 31 / 7);
        OK(&world, MEMORY->write(INSTANCE, world.context, address, expected, LENGTH + SHIFT, &world.error));
        OK(&world, MEMORY->copy(INSTANCE, world.context, address + to, address + from, LENGTH, &world.error));
        memmove(expected + to, expected + from, LENGTH);
        OK(&world, MEMORY->read(INSTANCE, world.context, address, LENGTH + SHIFT, back, &world.error));
        assert_memory_equal(expected, back, LENGTH + SHIFT);
    }
    free(expected);
    free(back);
}

static void contexts_cannot_reach_each_others_memory(void **state)
{
    uint64_t word = 1, pages, base;
    (void)state;
    uint64_t other = world_context(&world, 0, NULL, "b");
    uint64_t address = world_alloc(&world, world.context, 64);

    assert_int_equal(MEMORY->read(INSTANCE, other, address, 8, &word, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(MEMORY->free(INSTANCE, other, address, NULL), FACET_NOT_FOUND);
    OK(&world, MEMORY->create_pages(INSTANCE, world.context, WORLD_PAGE, &pages, &world.error));
    OK(&world, MEMORY->reserve(INSTANCE, other, WORLD_PAGE, 0, &base, &world.error));
    assert_int_equal(MEMORY->map(INSTANCE, other, base, pages, 0, WORLD_PAGE, NULL), FACET_NOT_FOUND);
    OK(&world, MEMORY->destroy_context(INSTANCE, other, &world.error));
    assert_int_equal(MEMORY->destroy_context(INSTANCE, other, NULL), FACET_NOT_FOUND);
    assert_int_equal(MEMORY->read(INSTANCE, other, address, 8, &word, NULL), FACET_NOT_FOUND);
}

static void missing_arguments_are_refused(void **state)
{
    uint64_t out;
    struct facet_memory_info tiny = {.size = 8};
    (void)state;

    assert_int_equal(MEMORY->create_context(INSTANCE, 0, NULL, NULL, &out, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(MEMORY->create_context(INSTANCE, 0, NULL, "", &out, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(MEMORY->create_context(INSTANCE, 0, NULL, "a", NULL, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(MEMORY->create_context(INSTANCE, 9, NULL, "a", &out, NULL), FACET_NOT_FOUND);
    assert_int_equal(MEMORY->create_context(INSTANCE, 0, "no-such", "a", &out, NULL), FACET_NOT_FOUND);
    assert_int_equal(MEMORY->alloc(INSTANCE, world.context, 1, NULL, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(MEMORY->read(INSTANCE, world.context, 0, 1, NULL, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(MEMORY->info(INSTANCE, world.context, NULL, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(MEMORY->info(INSTANCE, world.stream, &tiny, NULL), FACET_NOT_FOUND);
    OK(&world, MEMORY->info(INSTANCE, world.context, &tiny, &world.error));
    assert_int_equal(tiny.size, 8);
    assert_int_equal(tiny.page_bytes, WORLD_PAGE);
    assert_int_equal(tiny.total_bytes, 0);
}

/* 75 GiB, more than a test machine has, take no memory of it until they are written. */
static void large_memory_is_free_until_written(void **state)
{
    (void)state;
    world_end(&world);
    setenv("FACET_SIM_PROFILE", "h100", 1);
    OK(&world, world.provider->device->open(&world.instance, &world.error));
    uint64_t context = world_context(&world, 0, NULL, "a"), bytes = UINT64_C(75) << 30;
    uint64_t address = world_alloc(&world, context, bytes), word = 42;
    OK(&world, MEMORY->write(INSTANCE, context, address + bytes - 8, &word, 8, &world.error));
    assert_int_equal(world_word(&world, context, address + bytes - 8), 42);
    assert_int_equal(world_word(&world, context, address + bytes / 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plain_memory_is_zero_and_keeps_written_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(freed_memory_is_zero_for_the_next_allocation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_device_is_full_to_the_byte, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_limit_of_a_worker_is_shared_by_its_contexts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_partition_has_its_own_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mappings_join_split_and_alias, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pages_move_under_an_address_that_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(destroyed_pages_are_freed_with_their_last_mapping, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_ranges_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_copy_touches_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(copies_that_overlap_are_right, set_up, tear_down),
        cmocka_unit_test_setup_teardown(contexts_cannot_reach_each_others_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(missing_arguments_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(large_memory_is_free_until_written, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("sim memory", tests, NULL, NULL);
}
