/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the sorted array. Never: frees a value. */
#include "engine_table.h"

#include <stdlib.h>
#include <string.h>

bool sim_table_reserve(struct sim_table *table, size_t more)
{
    size_t needed = table->count + more;

    if (needed <= table->capacity)
        return true;
    size_t capacity = needed < table->capacity * 2 ? table->capacity * 2 : needed;
    struct sim_entry *entries = reallocarray(table->entries, capacity, sizeof *entries);
    if (!entries)
        return false;
    table->entries = entries;
    table->capacity = capacity;
    return true;
}

size_t sim_table_above(const struct sim_table *table, uint64_t key)
{
    size_t low = 0, high = table->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (table->entries[middle].key <= key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void sim_table_insert(struct sim_table *table, uint64_t key, void *value)
{
    size_t at = sim_table_above(table, key);

    memmove(&table->entries[at + 1], &table->entries[at], (table->count - at) * sizeof *table->entries);
    table->entries[at] = (struct sim_entry){key, value};
    table->count++;
}

void sim_table_remove(struct sim_table *table, uint64_t key)
{
    size_t above = sim_table_above(table, key);

    if (above == 0 || table->entries[above - 1].key != key)
        return;
    memmove(&table->entries[above - 1], &table->entries[above], (table->count - above) * sizeof *table->entries);
    table->count--;
}

void *sim_table_find(const struct sim_table *table, uint64_t key)
{
    size_t above = sim_table_above(table, key);

    return above > 0 && table->entries[above - 1].key == key ? table->entries[above - 1].value : NULL;
}

void sim_table_clear(struct sim_table *table)
{
    free(table->entries);
    *table = (struct sim_table){0};
}
