/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: open-addressing tables that grow by doubling. Never: shrinks, because a program that fills a table
 * refills it.
 */
#include "objects.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "process.h"

struct entry {
    uintptr_t key; /* 0 = free */
    uint64_t value;
};

struct table {
    struct entry *entries;
    size_t capacity; /* a power of two, or 0 */
    _Atomic size_t used;
};

static struct table tables[FACET_CL_MAPS];

static size_t home_of(const struct table *table, uintptr_t key)
{
    return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (table->capacity - 1);
}

/* The entry of `key`, or the free entry where it would be added. At least one entry is free. */
static struct entry *find_entry(const struct table *table, uintptr_t key)
{
    size_t i = home_of(table, key);

    while (table->entries[i].key && table->entries[i].key != key)
        i = (i + 1) & (table->capacity - 1);
    return &table->entries[i];
}

static bool grow_table(struct table *table)
{
    struct table bigger = {.capacity = table->capacity ? table->capacity * 2 : 64};

    bigger.entries = calloc(bigger.capacity, sizeof *bigger.entries);
    if (!bigger.entries)
        return false;
    for (size_t i = 0; i < table->capacity; i++)
        if (table->entries[i].key)
            *find_entry(&bigger, table->entries[i].key) = table->entries[i];
    free(table->entries);
    table->entries = bigger.entries;
    table->capacity = bigger.capacity;
    return true;
}

static bool put_entry(struct table *table, uintptr_t key, uint64_t value, uint64_t *ret_old)
{
    if (table->used * 2 >= table->capacity && !grow_table(table))
        return false;

    struct entry *entry = find_entry(table, key);
    if (!entry->key)
        table->used++;
    if (ret_old)
        *ret_old = entry->value;
    *entry = (struct entry){.key = key, .value = value};
    return true;
}

/* Closes the gap, so that no later entry of the cluster becomes unreachable. */
static void erase_entry(struct table *table, struct entry *entry)
{
    size_t mask = table->capacity - 1, gap = (size_t)(entry - table->entries);

    for (size_t i = (gap + 1) & mask; table->entries[i].key; i = (i + 1) & mask) {
        size_t distance = (i - home_of(table, table->entries[i].key)) & mask;
        if (distance >= ((i - gap) & mask)) {
            table->entries[gap] = table->entries[i];
            gap = i;
        }
    }
    table->entries[gap] = (struct entry){0};
    table->used--;
}

bool facet_cl_map_put(enum facet_cl_map map, const void *key, uint64_t value, uint64_t *ret_old)
{
    pthread_mutex_lock(&facet_cl_map_lock);
    bool stored = put_entry(&tables[map], (uintptr_t)key, value, ret_old);
    pthread_mutex_unlock(&facet_cl_map_lock);
    return stored;
}

static bool look_up(enum facet_cl_map map, const void *key, bool remove, uint64_t *ret_value)
{
    struct table *table = &tables[map];

    if (!key || facet_cl_map_empty(map))
        return false;
    pthread_mutex_lock(&facet_cl_map_lock);
    struct entry *entry = find_entry(table, (uintptr_t)key);
    bool found = entry->key != 0;
    if (found) {
        *ret_value = entry->value;
        if (remove)
            erase_entry(table, entry);
    }
    pthread_mutex_unlock(&facet_cl_map_lock);
    return found;
}

bool facet_cl_map_get(enum facet_cl_map map, const void *key, uint64_t *ret_value)
{
    return look_up(map, key, false, ret_value);
}

bool facet_cl_map_take(enum facet_cl_map map, const void *key, uint64_t *ret_value)
{
    return look_up(map, key, true, ret_value);
}

bool facet_cl_map_empty(enum facet_cl_map map)
{
    return atomic_load_explicit(&tables[map].used, memory_order_acquire) == 0;
}
