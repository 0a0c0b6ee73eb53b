/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of the blocks of a range in the order of their addresses, which is scanned from its start, for first fit or
 * best fit. For comparison.
 *
 * Owns: the free pieces of the range.
 * Never: locks, or is optimized.
 */
#ifndef BENCH_MEMORY_SCAN_H
#define BENCH_MEMORY_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#define SCAN_NONE UINT64_MAX

struct scan_block {
    uint64_t at, bytes;
    bool is_used;
};

struct scan {
    struct scan_block *blocks;
    uint32_t count, capacity;
};

struct scan *scan_create(uint64_t bytes);
void scan_destroy(struct scan *scan);
/* Takes the first free piece that is large enough or, with `best`, the smallest such piece. SCAN_NONE: there is
 * none. */
uint64_t scan_take(struct scan *scan, uint64_t bytes, bool best);
void scan_give(struct scan *scan, uint64_t at);
/* The end of the last taken block, up to which nothing can be given back. */
uint64_t scan_end(const struct scan *scan);

#endif
