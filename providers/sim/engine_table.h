/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sorted array from 64-bit keys to pointers: O(log n) look-ups, also of the nearest key below.
 *
 * Owns: the array. Never: owns the pointers' targets.
 *
 * Numbers are assigned in rising order, so inserting is nearly always appending.
 */
#ifndef FACET_SIM_ENGINE_TABLE_H
#define FACET_SIM_ENGINE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_entry {
    uint64_t key;
    void *value;
};

struct sim_table {
    struct sim_entry *entries; /* in rising order of key */
    size_t count, capacity;
};

/* Makes room for `more` insertions, which then cannot fail. False: no memory. */
bool sim_table_reserve(struct sim_table *table, size_t more);
/* There must be room, and no such key. */
void sim_table_insert(struct sim_table *table, uint64_t key, void *value);
void sim_table_remove(struct sim_table *table, uint64_t key);
/* The value of this key, or NULL. */
void *sim_table_find(const struct sim_table *table, uint64_t key);
/* The index of the first key above `key`: the entry before it has the nearest key at or below. */
size_t sim_table_above(const struct sim_table *table, uint64_t key);
void sim_table_clear(struct sim_table *table);

#endif
