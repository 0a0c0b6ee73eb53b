/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the lists of free runs by length (table.h).
 * Never: walks over a run's pages, except to mark them free.
 */
#include <stddef.h>
#include <sys/mman.h>

#include "memory/table.h"

/* The row for runs of `length` pages. Rows 0 to 7 hold runs of 0 to 7 pages; then each doubling has eight rows. */
static uint32_t row_containing(uint32_t length)
{
    if (length < 8)
        return length;
    uint32_t highest_bit = 31 - (uint32_t)__builtin_clz(length);
    return (highest_bit - 2) * 8 + (length >> (highest_bit - 3)) % 8;
}

/* The first row in which every run has at least `length` pages. */
static uint32_t first_row_at_least(uint32_t length)
{
    if (length < 8)
        return length;
    uint32_t highest_bit = 31 - (uint32_t)__builtin_clz(length);
    return row_containing(length + (UINT32_C(1) << (highest_bit - 3)) - 1);
}

static void insert_free_run(struct facet_table *table, uint32_t first, uint32_t length)
{
    uint32_t row = row_containing(length), next = table->rows[row];
    struct facet_entry *entry = &table->entries[first];

    entry->length = length;
    table->entries[first + length - 1].length = length;
    entry->next = next;
    entry->prev = FACET_PAGE_NONE;
    if (next != FACET_PAGE_NONE)
        table->entries[next].prev = first;
    table->rows[row] = first;
    table->doublings_used |= UINT32_C(1) << row / 8;
    table->rows_used[row / 8] |= (uint8_t)(1u << row % 8);
}

static void withdraw_free_run(struct facet_table *table, uint32_t first)
{
    struct facet_entry *entry = &table->entries[first];
    uint32_t row = row_containing(entry->length);

    if (entry->next != FACET_PAGE_NONE)
        table->entries[entry->next].prev = entry->prev;
    if (entry->prev != FACET_PAGE_NONE) {
        table->entries[entry->prev].next = entry->next;
        return;
    }
    table->rows[row] = entry->next;
    if (entry->next != FACET_PAGE_NONE)
        return;
    table->rows_used[row / 8] &= (uint8_t) ~(1u << row % 8);
    if (!table->rows_used[row / 8])
        table->doublings_used &= ~(UINT32_C(1) << row / 8);
}

/* Returns a run from the first row that is not empty, starting at `row`. */
static uint32_t first_run_from(const struct facet_table *table, uint32_t row)
{
    if (row >= FACET_RUN_ROWS)
        return FACET_PAGE_NONE;
    uint32_t doubling = row / 8, rows_used = table->rows_used[doubling] & (0xffu << row % 8);

    if (!rows_used) {
        uint32_t higher_doublings = doubling < 31 ? table->doublings_used & (UINT32_MAX << (doubling + 1)) : 0;

        if (!higher_doublings)
            return FACET_PAGE_NONE;
        doubling = (uint32_t)__builtin_ctz(higher_doublings);
        rows_used = table->rows_used[doubling];
    }
    return table->rows[doubling * 8 + (uint32_t)__builtin_ctz(rows_used)];
}

/* The row below first_row_at_least() may hold a run that is long enough too. Its list is searched only if all else
 * fails. */
static uint32_t search_row(const struct facet_table *table, uint32_t row, uint32_t length)
{
    uint32_t first = table->rows[row];

    while (first != FACET_PAGE_NONE && table->entries[first].length < length)
        first = table->entries[first].next;
    return first;
}

uint32_t facet_table_take(struct facet_table *table, uint32_t count, uint32_t align)
{
    if (count == 0 || count > table->count || align > table->count || count > UINT32_MAX - align)
        return FACET_PAGE_NONE;
    uint32_t wanted = count + align - 1;
    uint32_t first = first_run_from(table, first_row_at_least(wanted));

    if (first == FACET_PAGE_NONE)
        first = search_row(table, row_containing(wanted), wanted);
    if (first == FACET_PAGE_NONE)
        return FACET_PAGE_NONE;
    uint32_t length = table->entries[first].length;
    uint32_t start = (first + align - 1) & ~(align - 1);
    withdraw_free_run(table, first);
    if (start > first)
        insert_free_run(table, first, start - first);
    if (start + count < first + length)
        insert_free_run(table, start + count, first + length - start - count);
    return start;
}

static bool is_free(const struct facet_table *table, uint32_t page)
{
    return atomic_load_explicit(&table->entries[page].state, memory_order_relaxed) == FACET_PAGE_FREE;
}

bool facet_table_take_at(struct facet_table *table, uint32_t first, uint32_t count)
{
    if (count > table->count - first || !is_free(table, first) || table->entries[first].length < count)
        return false;
    uint32_t length = table->entries[first].length;
    withdraw_free_run(table, first);
    if (length > count)
        insert_free_run(table, first + count, length - count);
    return true;
}

void facet_table_give(struct facet_table *table, uint32_t first, uint32_t count)
{
    uint32_t start = first, length = count;

    for (uint32_t page = first; page < first + count; page++)
        atomic_store_explicit(&table->entries[page].state, FACET_PAGE_FREE, memory_order_relaxed);
    if (first > 0 && is_free(table, first - 1)) {
        start = first - table->entries[first - 1].length;
        length += first - start;
        withdraw_free_run(table, start);
    }
    if (first + count < table->count && is_free(table, first + count)) {
        length += table->entries[first + count].length;
        withdraw_free_run(table, first + count);
    }
    insert_free_run(table, start, length);
}

/* Maps the memory instead of allocating it: most entries are never touched, and an untouched entry costs no memory. */
static void *map_lazily(size_t bytes)
{
    void *got = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return got == MAP_FAILED ? NULL : got;
}

bool facet_table_init(struct facet_table *table, uint32_t count)
{
    *table = (struct facet_table){
        .entries = map_lazily(count * sizeof(struct facet_entry)),
        .slabs = map_lazily(count * sizeof *table->slabs),
        .count = count,
    };
    if (!table->entries || !table->slabs) {
        facet_table_clear(table);
        return false;
    }
    for (uint32_t row = 0; row < FACET_RUN_ROWS; row++)
        table->rows[row] = FACET_PAGE_NONE;
    insert_free_run(table, 0, count);
    return true;
}

void facet_table_clear(struct facet_table *table)
{
    if (table->entries)
        munmap(table->entries, table->count * sizeof(struct facet_entry));
    if (table->slabs)
        munmap(table->slabs, table->count * sizeof *table->slabs);
    table->entries = NULL;
    table->slabs = NULL;
}
