/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the promises of facet/memory.h about allocations: exact limits, addresses, refusals, numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "watched_backend.h"

#define PAGE UINT64_C(4096)
#define MIB  (UINT64_C(1) << 20)

struct fixture {
    struct watched watched;
    struct facet_memory *memory;
    struct facet_space *space;
    struct facet_error error;
};

static int set_up(void **state)
{
    static struct fixture fixture;

    fixture.memory = watched_open(&fixture.watched, 16 * MIB, (struct facet_memory_config){0});
    fixture.space = watched_space(fixture.memory, 1, 8 * MIB);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    watched_end(&fixture->watched, fixture->memory);
    return 0;
}

static uint64_t take_block(struct fixture *fixture, uint64_t bytes)
{
    uint64_t address = 0;

    assert_int_equal(facet_space_allocate(fixture->space, bytes, NULL, &address, &fixture->error), FACET_OK);
    return address;
}

static struct facet_space_usage usage_of(struct facet_space *space)
{
    struct facet_space_usage usage = {.size = sizeof usage};

    assert_int_equal(facet_space_get_usage(space, &usage, NULL), FACET_OK);
    return usage;
}

static void test_sizes_and_records_of_allocations(void **state)
{
    struct fixture *fixture = *state;
    static const uint64_t sizes[] = {1, 255, 256, 257, 4095, 4096, 4097, 5 * PAGE, 5 * PAGE - 300, MIB};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const struct facet_allocation_options options = {.size = sizeof options, .tag = 100 + (uint32_t)i};
        struct facet_allocation found = {.size = sizeof found};
        uint64_t address;

        assert_int_equal(facet_space_allocate(fixture->space, sizes[i], &options, &address, &fixture->error), FACET_OK);
        assert_int_equal(address % 256, 0);
        memset((void *)address, 0x5a, sizes[i]);
        assert_int_equal(facet_space_find(fixture->space, address + sizes[i] - 1, &found, &fixture->error), FACET_OK);
        assert_int_equal(found.address, address);
        assert_int_equal(found.bytes, sizes[i]);
        assert_true(found.usable_bytes >= sizes[i]);
        assert_int_equal(found.tag, 100 + i);
        assert_true(found.time_ns > 0);
        assert_int_equal(usage_of(fixture->space).allocated_bytes, sizes[i]);
        assert_int_equal(facet_space_free(fixture->space, address, &fixture->error), FACET_OK);
        assert_int_equal(facet_space_find(fixture->space, address, &found, &fixture->error), FACET_NOT_FOUND);
    }
    assert_int_equal(usage_of(fixture->space).allocations, 0);
}

static void test_blocks_are_aligned(void **state)
{
    struct fixture *fixture = *state;

    for (uint64_t align = 1; align <= 1 << 30; align *= 2) {
        const struct facet_allocation_options options = {.size = sizeof options, .align = align};
        uint64_t address;
        enum facet_status status = facet_space_allocate(fixture->space, 100, &options, &address, &fixture->error);

        /* This space has 36 MiB of addresses, of which only one or two have the largest alignments. */
        if (align <= 8 * MIB || status == FACET_OK) {
            assert_int_equal(status, FACET_OK);
            assert_int_equal(address % align, 0);
            assert_int_equal(facet_space_free(fixture->space, address, &fixture->error), FACET_OK);
        } else {
            assert_int_equal(status, FACET_NO_SPACE);
        }
    }
}

static void test_wrong_allocations_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const uint64_t aligns[] = {3, 768, UINT64_C(1) << 31, UINT64_MAX};
    uint64_t address = 77;

    assert_int_equal(facet_space_allocate(fixture->space, 0, NULL, &address, &fixture->error), FACET_OUT_OF_RANGE);
    assert_string_equal(fixture->error.argument, "bytes");
    assert_int_equal(facet_space_allocate(fixture->space, UINT64_MAX, NULL, &address, &fixture->error),
                     FACET_OUT_OF_RANGE);
    assert_int_equal(facet_space_allocate(fixture->space, UINT64_MAX - PAGE + 2, NULL, &address, &fixture->error),
                     FACET_OUT_OF_RANGE);
    for (size_t i = 0; i < sizeof aligns / sizeof aligns[0]; i++) {
        const struct facet_allocation_options options = {.size = sizeof options, .align = aligns[i]};

        assert_int_equal(facet_space_allocate(fixture->space, 1, &options, &address, &fixture->error),
                         FACET_OUT_OF_RANGE);
        assert_string_equal(fixture->error.argument, "align");
    }
    assert_int_equal(address, 77);
}

static void test_the_limit_holds_to_the_page(void **state)
{
    struct fixture *fixture = *state;
    uint64_t address = take_block(fixture, 8 * MIB), other = 0;

    assert_int_equal(usage_of(fixture->space).reserved_bytes, 8 * MIB);
    assert_int_equal(facet_space_allocate(fixture->space, 1, NULL, &other, &fixture->error), FACET_QUOTA);
    assert_int_equal(usage_of(fixture->space).refused_total, 1);
    assert_int_equal(facet_space_free(fixture->space, address, &fixture->error), FACET_OK);
    assert_int_equal(facet_space_allocate(fixture->space, 8 * MIB + 1, NULL, &other, &fixture->error), FACET_QUOTA);
    /* Blocks are charged by their pages. The limit holds exactly as many as fit. */
    uint32_t blocks = 0;
    while (facet_space_allocate(fixture->space, 1024, NULL, &other, &fixture->error) == FACET_OK)
        blocks++;
    assert_int_equal(blocks, 8 * MIB / 1024);
    assert_true(usage_of(fixture->space).reserved_bytes <= 8 * MIB);
}

/* Unused pages of pools do not prevent the allocation of a run. */
static void test_empty_pools_make_room(void **state)
{
    struct fixture *fixture = *state;
    uint64_t blocks[64];

    for (uint32_t i = 0; i < 64; i++)
        blocks[i] = take_block(fixture, 300 + i * 40);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(facet_space_free(fixture->space, blocks[i], &fixture->error), FACET_OK);
    assert_true(usage_of(fixture->space).reserved_bytes > 0);
    take_block(fixture, 8 * MIB);
}

static void test_new_limit_holds_at_once(void **state)
{
    struct fixture *fixture = *state;
    uint64_t address = take_block(fixture, 4 * MIB), other;

    assert_int_equal(facet_space_set_limit(fixture->space, 4 * MIB - 1, &fixture->error), FACET_QUOTA);
    assert_int_equal(facet_space_set_limit(fixture->space, 4 * MIB, &fixture->error), FACET_OK);
    assert_int_equal(facet_space_allocate(fixture->space, 1, NULL, &other, &fixture->error), FACET_QUOTA);
    assert_int_equal(facet_space_set_limit(fixture->space, 17 * MIB, &fixture->error), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_space_set_limit(fixture->space, PAGE - 1, &fixture->error), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_space_set_limit(fixture->space, 6 * MIB, &fixture->error), FACET_OK);
    take_block(fixture, 2 * MIB);
    assert_int_equal(facet_space_free(fixture->space, address, &fixture->error), FACET_OK);
}

static void test_wrong_addresses_are_not_freed(void **state)
{
    struct fixture *fixture = *state;
    uint64_t block = take_block(fixture, 1000), run = take_block(fixture, 10 * PAGE);
    uint64_t bad[] = {block + 1, block + 8, run + 1, run + PAGE, 1, UINT64_MAX, (uint64_t)(uintptr_t)&block};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(facet_space_free(fixture->space, bad[i], &fixture->error), FACET_NOT_FOUND);
        assert_string_equal(fixture->error.argument, "address");
    }
    assert_int_equal(facet_space_free(fixture->space, 0, &fixture->error), FACET_OK);
    assert_int_equal(usage_of(fixture->space).allocations, 2);
    assert_int_equal(facet_space_free(fixture->space, block, &fixture->error), FACET_OK);
    assert_int_equal(facet_space_free(fixture->space, run, &fixture->error), FACET_OK);
    assert_int_equal(facet_space_free(fixture->space, block, &fixture->error), FACET_NOT_FOUND);
    assert_int_equal(facet_space_free(fixture->space, run, &fixture->error), FACET_NOT_FOUND);
    assert_int_equal(usage_of(fixture->space).allocations, 0);
}

/* Resizes blocks and runs up and down. An allocation behind some of them forces a move. */
static void test_resize_keeps_the_bytes(void **state)
{
    struct fixture *fixture = *state;
    static const uint64_t sizes[] = {100,       200,        5000,     20 * PAGE, 21 * PAGE, 40 * PAGE,
                                     39 * PAGE, 100 * PAGE, 5 * PAGE, 1000,      1};
    uint64_t address = take_block(fixture, 1), kept = 1;
    struct facet_allocation found = {.size = sizeof found};

    *(unsigned char *)(uintptr_t)address = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (i % 3 == 2)
            take_block(fixture, 10 * PAGE);
        assert_int_equal(facet_space_resize(fixture->space, address, sizes[i], &address, &fixture->error), FACET_OK);
        unsigned char *bytes = (void *)(uintptr_t)address;
        for (uint64_t at = 0; at < (kept < sizes[i] ? kept : sizes[i]); at++)
            assert_int_equal(bytes[at], (unsigned char)(at * 7));
        for (uint64_t at = 0; at < sizes[i]; at++)
            bytes[at] = (unsigned char)(at * 7);
        kept = sizes[i];
        assert_int_equal(facet_space_find(fixture->space, address, &found, &fixture->error), FACET_OK);
        assert_int_equal(found.bytes, sizes[i]);
    }
    uint64_t run = take_block(fixture, 20 * PAGE), same = 0;
    assert_int_equal(facet_space_resize(fixture->space, run, 25 * PAGE, &same, &fixture->error), FACET_OK);
    assert_int_equal(same, run);
    assert_int_equal(facet_space_resize(fixture->space, run, 2000 * PAGE + MIB, &same, &fixture->error), FACET_QUOTA);
    assert_int_equal(facet_space_resize(fixture->space, run + 1, PAGE, &same, &fixture->error), FACET_NOT_FOUND);
    assert_int_equal(facet_space_resize(fixture->space, run, 0, &same, &fixture->error), FACET_OUT_OF_RANGE);
    assert_int_equal(same, run);
    assert_int_equal(facet_space_resize(fixture->space, address, 256, &same, &fixture->error), FACET_OK);
    assert_int_equal(same, address);
    assert_int_equal(usage_of(fixture->space).allocated_bytes, 3 * 10 * PAGE + 25 * PAGE + 256);
    assert_int_equal(facet_space_free(fixture->space, run, &fixture->error), FACET_OK);
    assert_int_equal(facet_space_free(fixture->space, address, &fixture->error), FACET_OK);
    assert_int_equal(usage_of(fixture->space).allocated_bytes, 3 * 10 * PAGE);
}

static void test_addresses_of_another_space_are_unknown(void **state)
{
    struct fixture *fixture = *state;
    struct facet_space *other = watched_space(fixture->memory, 2, 4 * MIB);
    uint64_t address = take_block(fixture, 1000);
    struct facet_allocation found = {.size = sizeof found};

    assert_int_equal(facet_space_free(other, address, &fixture->error), FACET_NOT_FOUND);
    assert_int_equal(facet_space_find(other, address, &found, &fixture->error), FACET_NOT_FOUND);
    assert_int_equal(usage_of(fixture->space).allocations, 1);
}

/* Nothing that one vGPU wrote can be read by the next one. */
static void test_memory_is_cleared_between_spaces(void **state)
{
    struct fixture *fixture = *state;
    struct facet_space *first = watched_space(fixture->memory, 2, 16 * MIB), *second;
    uint64_t address, bytes = 16 * MIB;

    assert_int_equal(facet_space_allocate(first, bytes, NULL, &address, &fixture->error), FACET_OK);
    memset((void *)address, 0xa5, bytes);
    /* The chunks of pages that stay in use are not returned, but other spaces may get their free pages. */
    assert_int_equal(facet_space_destroy(first, NULL), FACET_OK);
    first = watched_space(fixture->memory, 3, 16 * MIB);
    uint64_t pages[64];
    for (uint32_t i = 0; i < 64; i++) {
        assert_int_equal(facet_space_allocate(first, 5 * PAGE, NULL, &pages[i], &fixture->error), FACET_OK);
        memset((void *)pages[i], 0xa5, 5 * PAGE);
    }
    for (uint32_t i = 0; i < 64; i += 2)
        assert_int_equal(facet_space_free(first, pages[i], &fixture->error), FACET_OK);
    second = watched_space(fixture->memory, 4, 8 * MIB);
    assert_int_equal(facet_space_allocate(second, 8 * MIB, NULL, &address, &fixture->error), FACET_OK);
    const unsigned char *bytes_of = (void *)address;
    for (uint64_t i = 0; i < 8 * MIB; i++)
        assert_int_equal(bytes_of[i], 0);
    assert_true(fixture->watched.filled_bytes > 0);
}

static void test_limits_may_sum_above_the_device_but_not_memory(void **state)
{
    struct fixture *fixture = *state;
    struct facet_space *other = watched_space(fixture->memory, 2, 16 * MIB);
    struct facet_memory_usage usage = {.size = sizeof usage};
    uint64_t address;

    facet_memory_get_usage(fixture->memory, &usage, NULL);
    assert_int_equal(usage.limits_bytes, 24 * MIB);
    take_block(fixture, 8 * MIB);
    assert_int_equal(facet_space_allocate(other, 8 * MIB, NULL, &address, &fixture->error), FACET_OK);
    assert_int_equal(facet_space_allocate(other, PAGE, NULL, &address, &fixture->error), FACET_NO_SPACE);
    facet_memory_get_usage(fixture->memory, &usage, NULL);
    assert_int_equal(usage.free_bytes, 0);
    assert_int_equal(usage.largest_free_bytes, 0);
}

static void test_usage_of_pools_and_pages_is_reported(void **state)
{
    struct fixture *fixture = *state;
    uint64_t blocks[16];
    struct facet_page page = {.size = sizeof page};
    uint32_t unusable;

    for (uint32_t i = 0; i < 16; i++)
        blocks[i] = take_block(fixture, 256);
    struct facet_space_usage usage = usage_of(fixture->space);
    assert_int_equal(usage.reserved_bytes, PAGE);
    assert_int_equal(facet_space_reserved_bytes(fixture->space), PAGE);
    assert_int_equal(usage.free_bytes, 0);
    assert_int_equal(usage.pages_valid, 1);
    assert_int_equal(usage.pools, 1);
    assert_int_equal(usage.fragmentation_milli, 0);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(facet_space_free(fixture->space, blocks[2 * i], &fixture->error), FACET_OK);
    usage = usage_of(fixture->space);
    assert_int_equal(usage.free_bytes, 2048);
    assert_int_equal(usage.largest_free_bytes, 256);
    assert_int_equal(usage.fragmentation_milli, 875); /* 2048 bytes are free, in pieces of 256 */
    assert_int_equal(usage.allocated_bytes, 2048);
    assert_int_equal(usage.allocated_total, 16);
    assert_int_equal(facet_space_unusable(fixture->space, 257, &unusable, &fixture->error), FACET_OK);
    assert_int_equal(unusable, 1000);
    assert_int_equal(facet_space_unusable(fixture->space, 256, &unusable, &fixture->error), FACET_OK);
    assert_int_equal(unusable, 0);

    assert_int_equal(facet_space_page(fixture->space, blocks[1], &page, &fixture->error), FACET_OK);
    assert_int_equal(page.flags, FACET_PAGE_VALID | FACET_PAGE_BLOCKS);
    assert_int_equal(facet_space_fill(fixture->space, blocks[1], 1, 256, &fixture->error), FACET_OK);
    assert_int_equal(facet_space_page(fixture->space, blocks[1], &page, &fixture->error), FACET_OK);
    assert_int_equal(page.flags, FACET_PAGE_VALID | FACET_PAGE_BLOCKS | FACET_PAGE_DIRTY | FACET_PAGE_ACCESSED);
    assert_true(page.access_ns > 0);
}

static void test_wrong_space_configs_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct facet_space *space = NULL;
    struct facet_space_config config = {.size = sizeof config, .id = 9};
    static const uint64_t limits[] = {0, PAGE - 1, 16 * MIB + 1, UINT64_MAX};

    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        config.limit_bytes = limits[i];
        assert_int_equal(facet_space_create(fixture->memory, &config, &space, &fixture->error), FACET_OUT_OF_RANGE);
        assert_string_equal(fixture->error.argument, "limit_bytes");
    }
    config.size = 3;
    assert_int_equal(facet_space_create(fixture->memory, &config, &space, &fixture->error), FACET_INVALID_ARGUMENT);
    assert_null(space);
    assert_int_equal(facet_space_destroy(NULL, NULL), FACET_OK);
}

static void test_wrong_memory_configs_are_refused(void **state)
{
    static const struct facet_memory_config bad[] = {
        {.size = 4, .memory_bytes = MIB},
        {.size = sizeof bad[0]},
        {.size = sizeof bad[0], .memory_bytes = UINT64_MAX},
        {.size = sizeof bad[0], .memory_bytes = 100},
        {.size = sizeof bad[0], .memory_bytes = MIB, .page_bytes = 2048},
        {.size = sizeof bad[0], .memory_bytes = MIB, .page_bytes = 5000},
        {.size = sizeof bad[0], .memory_bytes = MIB, .page_bytes = UINT64_C(1) << 40},
        {.size = sizeof bad[0], .memory_bytes = MIB, .chunk_bytes = 1000},
        {.size = sizeof bad[0], .memory_bytes = MIB, .page_bytes = 4096, .chunk_bytes = 64 * MIB},
        {.size = sizeof bad[0], .memory_bytes = MIB, .defragment_milli = 1001},
        {.size = sizeof bad[0], .memory_bytes = MIB, .block_bytes = 100},
        {.size = sizeof bad[0], .memory_bytes = MIB, .pools = 1000},
        {.size = sizeof bad[0], .memory_bytes = MIB, .commit = 2},
    };
    struct facet_memory *memory = NULL;
    struct facet_error error;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        enum facet_status status = facet_memory_open_host(&bad[i], &memory, &error);

        assert_true(status == FACET_OUT_OF_RANGE || status == FACET_INVALID_ARGUMENT);
        assert_true(error.argument[0] != '\0');
    }
    assert_null(memory);
    facet_memory_close(NULL);
}

#define BLOCKS 40u

/* The blocks freed last are given out first, except where their pages belong to another pool by then. */
static void test_freed_blocks_whose_pages_were_returned_are_not_reused(void **state)
{
    struct fixture *fixture = *state;
    uint64_t blocks[BLOCKS];

    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < BLOCKS; i++)
            blocks[i] = take_block(fixture, 300);
        for (uint32_t i = 0; i < BLOCKS; i++)
            assert_int_equal(facet_space_free(fixture->space, blocks[i], &fixture->error), FACET_OK);
        assert_int_equal(facet_space_compact(fixture->space, NULL, NULL, &fixture->error), FACET_OK);
        assert_int_equal(usage_of(fixture->space).reserved_bytes, 0);
        uint64_t run = take_block(fixture, 30 * PAGE);
        for (uint32_t i = 0; i < BLOCKS; i++) {
            /* Blocks of two sizes now lie where blocks of one size were. */
            blocks[i] = take_block(fixture, i % 2 ? 300 : 700);
            assert_true(blocks[i] + 700 <= run || blocks[i] >= run + 30 * PAGE);
            for (uint32_t other = 0; other < i; other++)
                assert_true(blocks[other] + 300 <= blocks[i] || blocks[other] >= blocks[i] + 300);
        }
        for (uint32_t i = 0; i < BLOCKS; i++)
            assert_int_equal(facet_space_free(fixture->space, blocks[i], &fixture->error), FACET_OK);
        assert_int_equal(facet_space_free(fixture->space, run, &fixture->error), FACET_OK);
    }
}

int main(void)
{
#define WITH_SETUP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_SETUP(test_sizes_and_records_of_allocations),
        WITH_SETUP(test_blocks_are_aligned),
        WITH_SETUP(test_wrong_allocations_are_refused),
        WITH_SETUP(test_the_limit_holds_to_the_page),
        WITH_SETUP(test_empty_pools_make_room),
        WITH_SETUP(test_new_limit_holds_at_once),
        WITH_SETUP(test_wrong_addresses_are_not_freed),
        WITH_SETUP(test_resize_keeps_the_bytes),
        WITH_SETUP(test_addresses_of_another_space_are_unknown),
        WITH_SETUP(test_memory_is_cleared_between_spaces),
        WITH_SETUP(test_limits_may_sum_above_the_device_but_not_memory),
        WITH_SETUP(test_usage_of_pools_and_pages_is_reported),
        WITH_SETUP(test_wrong_space_configs_are_refused),
        WITH_SETUP(test_freed_blocks_whose_pages_were_returned_are_not_reused),
        cmocka_unit_test(test_wrong_memory_configs_are_refused),
    };
    return cmocka_run_group_tests_name("space", tests, NULL, NULL);
}
