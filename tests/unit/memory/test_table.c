/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that runs of pages never overlap, are joined when freed, and are found as long as one is free. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "../../effort.h"
#include "memory/table.h"

#define PAGES 5000u
#define RUNS  400u

struct run {
    uint32_t first, count;
};

static void fill_pages(struct facet_table *table, uint32_t first, uint32_t count)
{
    for (uint32_t page = first; page < first + count; page++) {
        assert_int_equal(table->entries[page].state, FACET_PAGE_FREE);
        table->entries[page].state = page == first ? FACET_PAGE_HEAD : FACET_PAGE_BODY;
    }
}

static void test_random_runs_never_overlap(void **state)
{
    struct facet_table table;
    struct run runs[RUNS] = {0};

    assert_true(facet_table_init(&table, PAGES));
    srand(7);
    for (uint32_t i = 0; i < effort(200000, 20000); i++) {
        struct run *run = &runs[(uint32_t)rand() % RUNS];

        if (run->count) {
            facet_table_give(&table, run->first, run->count);
            run->count = 0;
            continue;
        }
        uint32_t count = 1 + (uint32_t)rand() % (rand() % 8 ? 12 : 200), align = 1u << rand() % 5;
        uint32_t first = facet_table_take(&table, count, align);
        if (first == FACET_PAGE_NONE)
            continue;
        assert_true(first + count <= PAGES);
        assert_int_equal(first % align, 0);
        fill_pages(&table, first, count);
        *run = (struct run){first, count};
    }
    for (uint32_t i = 0; i < RUNS; i++)
        if (runs[i].count)
            facet_table_give(&table, runs[i].first, runs[i].count);
    /* All free runs have joined into one. */
    assert_int_equal(facet_table_take(&table, PAGES, 1), 0);
    assert_int_equal(facet_table_take(&table, 1, 1), FACET_PAGE_NONE);
    facet_table_clear(&table);
}

/* A run of all pages can be allocated, whatever their number. */
static void test_all_pages_can_be_allocated(void **state)
{
    for (uint32_t count = 1; count < 100; count++) {
        struct facet_table table;

        assert_true(facet_table_init(&table, count));
        assert_int_equal(facet_table_take(&table, count, 1), 0);
        facet_table_clear(&table);
    }
}

static void test_impossible_requests_get_no_page(void **state)
{
    struct facet_table table;

    assert_true(facet_table_init(&table, 100));
    assert_int_equal(facet_table_take(&table, 0, 1), FACET_PAGE_NONE);
    assert_int_equal(facet_table_take(&table, 101, 1), FACET_PAGE_NONE);
    assert_int_equal(facet_table_take(&table, UINT32_MAX, 1), FACET_PAGE_NONE);
    assert_int_equal(facet_table_take(&table, 1, 128), FACET_PAGE_NONE);
    assert_int_equal(facet_table_take(&table, 100, 1), 0);
    facet_table_clear(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_runs_never_overlap),
        cmocka_unit_test(test_all_pages_can_be_allocated),
        cmocka_unit_test(test_impossible_requests_get_no_page),
    };
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
