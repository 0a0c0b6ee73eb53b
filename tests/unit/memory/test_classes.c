/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the size classes' arithmetic. Never: allocates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "memory/classes.h"
#include "memory/slab.h"

#define PAGE 65536u

static struct facet_classes default_classes(void)
{
    struct facet_classes classes;
    struct facet_error error;

    assert_int_equal(facet_classes_init(&classes, PAGE, 0, 0, 0, &error), FACET_OK);
    return classes;
}

/* A size gets the smallest block that holds it, or pages. Above 1024 bytes a block is at most a quarter too large. */
static void test_smallest_class_that_holds_is_found(void **state)
{
    const struct facet_classes classes = default_classes();
    uint32_t largest = classes.class[classes.count - 1].block_bytes;

    assert_int_equal(largest, 4 * PAGE);
    for (uint64_t bytes = 1; bytes <= largest; bytes += 13) {
        uint32_t class = facet_classes_find(&classes, bytes, 1);

        if (class == FACET_NO_CLASS)
            continue;
        uint32_t block = classes.class[class].block_bytes;
        assert_true(block >= bytes);
        assert_true(class == 0 || classes.class[class - 1].block_bytes < bytes);
        assert_true(bytes <= 1024 || block <= bytes + bytes / 4);
        assert_int_equal(block % 256, 0);
    }
}

static void test_sizes_that_fill_pages_get_pages(void **state)
{
    const struct facet_classes classes = default_classes();

    assert_int_equal(facet_classes_find(&classes, 4 * PAGE + 1, 1), FACET_NO_CLASS);
    assert_int_equal(facet_classes_find(&classes, 2 * PAGE, 1), FACET_NO_CLASS);
    assert_int_equal(facet_classes_find(&classes, 3 * PAGE - 1, 1), FACET_NO_CLASS);
    assert_int_not_equal(facet_classes_find(&classes, 2 * PAGE + 1, 1), FACET_NO_CLASS);
    assert_int_not_equal(facet_classes_find(&classes, PAGE, 1), FACET_NO_CLASS);
}

static void test_alignment_chooses_blocks_that_are_aligned(void **state)
{
    const struct facet_classes classes = default_classes();

    for (uint64_t align = 1; align <= PAGE; align *= 2) {
        uint32_t class = facet_classes_find(&classes, 300, align);

        assert_int_not_equal(class, FACET_NO_CLASS);
        assert_int_equal(classes.class[class].block_bytes % align, 0);
    }
    assert_int_equal(facet_classes_find(&classes, 300, 2 * PAGE), FACET_NO_CLASS);
}

static void test_configured_sizes_are_used(void **state)
{
    struct facet_classes classes;
    struct facet_error error;

    assert_int_equal(facet_classes_init(&classes, PAGE, 8, 1024, 1 << 20, &error), FACET_OK);
    assert_int_equal(classes.count, 8);
    assert_int_equal(classes.class[0].block_bytes, 1024);
    assert_int_equal(classes.class[7].block_bytes, 8192);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(classes.class[i].pages, (1 << 20) / PAGE);
    assert_int_equal(facet_classes_find(&classes, 8193, 1), FACET_NO_CLASS);
}

/* Above the first level, a slab has at most an eighth of the pool's pages, and at most 2 MiB. */
static void test_slab_level_grows_with_the_pool(void **state)
{
    const struct facet_classes classes = default_classes();

    for (uint32_t class = 0; class < classes.count; class ++) {
        assert_int_equal(facet_classes_level(&classes, class, 0), 0);
        for (uint64_t pages = 1; pages < 1 << 20; pages *= 3) {
            uint32_t level = facet_classes_level(&classes, class, pages);
            uint64_t slab = facet_class_pages(&classes.class[class], level);

            assert_true(level < FACET_SLAB_LEVELS);
            assert_true(level == 0 || slab * 8 <= pages);
            assert_true(level == 0 || slab * PAGE <= 2 << 20);
            assert_true(facet_class_blocks(&classes, class, level) <= FACET_SLAB_BLOCKS);
            assert_true(facet_class_blocks(&classes, class, level) * (uint64_t)classes.class[class].block_bytes <=
                        slab * PAGE);
        }
    }
}

static void test_wrong_sizes_are_refused(void **state)
{
    struct facet_classes classes;
    struct facet_error error;

    assert_int_equal(facet_classes_init(&classes, PAGE, 0, 128, 0, &error), FACET_OUT_OF_RANGE);
    assert_string_equal(error.argument, "block_bytes");
    assert_int_equal(facet_classes_init(&classes, PAGE, 0, 768, 0, &error), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_classes_init(&classes, PAGE, 0, 2 * PAGE, 0, &error), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_classes_init(&classes, PAGE, FACET_MEMORY_POOLS + 1, 0, 0, &error), FACET_OUT_OF_RANGE);
    assert_string_equal(error.argument, "pools");
    assert_int_equal(facet_classes_init(&classes, PAGE, 0, 0, UINT64_MAX, &error), FACET_OUT_OF_RANGE);
    assert_string_equal(error.argument, "pool_bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smallest_class_that_holds_is_found),
        cmocka_unit_test(test_sizes_that_fill_pages_get_pages),
        cmocka_unit_test(test_alignment_chooses_blocks_that_are_aligned),
        cmocka_unit_test(test_configured_sizes_are_used),
        cmocka_unit_test(test_slab_level_grows_with_the_pool),
        cmocka_unit_test(test_wrong_sizes_are_refused),
    };
    return cmocka_run_group_tests_name("classes", tests, NULL, NULL);
}
