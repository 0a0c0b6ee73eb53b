/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that allocations follow the configuration of pools. Never: checks anything except results of
 * facet/memory.h; test_classes.c tests the arithmetic of the classes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <facet/memory.h>

#define KIB  (UINT64_C(1) << 10)
#define MIB  (UINT64_C(1) << 20)
#define PAGE (16 * KIB)

static struct facet_memory *memory;
static struct facet_space *space;

static void open_with(uint32_t pools, uint64_t block_bytes, uint64_t pool_bytes)
{
    const struct facet_memory_config config = {.size = sizeof config,
                                               .memory_bytes = 64 * MIB,
                                               .page_bytes = PAGE,
                                               .chunk_bytes = MIB,
                                               .pools = pools,
                                               .block_bytes = block_bytes,
                                               .pool_bytes = pool_bytes};
    const struct facet_space_config of_space = {.size = sizeof of_space, .id = 1, .limit_bytes = 32 * MIB};

    assert_int_equal(facet_memory_open_host(&config, &memory, NULL), FACET_OK);
    assert_int_equal(facet_space_create(memory, &of_space, &space, NULL), FACET_OK);
}

static void close_all(void)
{
    assert_int_equal(facet_space_destroy(space, NULL), FACET_OK);
    facet_memory_close(memory);
}

static uint64_t take_block(uint64_t bytes)
{
    uint64_t address = 0;

    assert_int_equal(facet_space_allocate(space, bytes, NULL, &address, NULL), FACET_OK);
    return address;
}

/* The usable size of the block for a request of `bytes` bytes. */
static uint64_t usable_bytes_of(uint64_t bytes)
{
    struct facet_allocation found = {.size = sizeof found};

    assert_int_equal(facet_space_find(space, take_block(bytes), &found, NULL), FACET_OK);
    assert_int_equal(found.bytes, bytes);
    return found.usable_bytes;
}

static struct facet_space_usage usage_now(void)
{
    struct facet_space_usage now = {.size = sizeof now};

    assert_int_equal(facet_space_get_usage(space, &now, NULL), FACET_OK);
    return now;
}

/* The smallest request is given the smallest block. */
static void test_smallest_block_is_configurable(void **state)
{
    static const uint64_t blocks[] = {0, 256, 1024, 4096};

    (void)state;
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        open_with(0, blocks[i], 0);
        assert_int_equal(usable_bytes_of(1), blocks[i] ? blocks[i] : 256);
        assert_int_equal(usable_bytes_of(4096), 4096);
        close_all();
    }
}

/* A request above the largest class gets whole pages, so that sizes of blocks tell the number of classes. */
static void test_count_of_pools_is_configurable(void **state)
{
    static const struct {
        uint32_t pools;
        uint64_t bytes, largest_block; /* `byte_more` is the usable size of a request one byte larger */
        uint64_t byte_more;
    } cases[] = {{1, 1024, 1024, PAGE}, {4, 4096, 4096, PAGE}, {8, 8192, 8192, PAGE}, {0, 8193, 10240, 12288}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        open_with(cases[i].pools, 1024, 0);
        assert_int_equal(usable_bytes_of(cases[i].bytes), cases[i].largest_block);
        assert_int_equal(usable_bytes_of(cases[i].largest_block + 1), cases[i].byte_more);
        close_all();
    }
}

/* The first block of a class takes the configured size; further blocks take nothing until that is used up. */
static void test_pools_grow_by_their_configured_size(void **state)
{
    static const uint64_t sizes[] = {PAGE, 4 * PAGE, MIB};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        open_with(0, 1024, sizes[i]);
        assert_int_equal(usage_now().pools, 0);
        take_block(1024);
        assert_int_equal(usage_now().reserved_bytes, sizes[i]);
        assert_int_equal(usage_now().pages_valid, sizes[i] / PAGE);
        assert_int_equal(usage_now().pools, 1);
        for (uint64_t block = 1; block < sizes[i] / 1024; block++)
            take_block(1024);
        assert_int_equal(usage_now().reserved_bytes, sizes[i]);
        assert_int_equal(usage_now().free_bytes, 0);
        take_block(1024);
        assert_int_equal(usage_now().reserved_bytes, 2 * sizes[i]);
        assert_int_equal(usage_now().pools, 1);
        take_block(2048);
        assert_int_equal(usage_now().reserved_bytes, 3 * sizes[i]);
        assert_int_equal(usage_now().pools, 2);
        close_all();
    }
}

/* Each request gets a block of the smallest class that holds it. */
static void test_best_fitting_pool_is_used(void **state)
{
    uint64_t blocks[64], count = 0;

    (void)state;
    open_with(0, 256, 0);
    for (uint64_t bytes = 1; bytes <= PAGE; bytes += 255) { /* finds the sizes of the classes */
        uint64_t block = usable_bytes_of(bytes);

        if (count == 0 || block != blocks[count - 1])
            blocks[count++] = block;
        assert_true(count < 64 && block >= bytes);
        assert_true(count < 2 || blocks[count - 2] < bytes); /* the next smaller class does not hold the request */
        assert_true(bytes <= 1024 || block <= bytes + bytes / 4 + 256);
    }
    assert_true(count > 8);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smallest_block_is_configurable),
        cmocka_unit_test(test_count_of_pools_is_configurable),
        cmocka_unit_test(test_pools_grow_by_their_configured_size),
        cmocka_unit_test(test_best_fitting_pool_is_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
