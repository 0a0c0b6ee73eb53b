/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buddy allocator over a range of numbers, for comparison.
 *
 * Owns: the free blocks of powers of two; its records lie outside the range, as for a device's memory.
 * Never: locks.
 */
#ifndef BENCH_MEMORY_BUDDY_H
#define BENCH_MEMORY_BUDDY_H

#include <stdint.h>

#define BUDDY_NONE   UINT64_MAX
#define BUDDY_ORDERS 32u

struct buddy {
    uint64_t least_bytes, units; /* units: rounded up to a power of two */
    uint32_t orders;
    uint32_t first[BUDDY_ORDERS]; /* the first free block of each order, in units of the least; UINT32_MAX: none */
    uint32_t *next, *prev;
    uint8_t *state; /* of the first unit of a block: its order, and whether it is free */
};

/* `bytes` is a multiple of `least_bytes`, a power of two; two units at least, 2^31 at most. */
struct buddy *buddy_create(uint64_t bytes, uint64_t least_bytes);
void buddy_destroy(struct buddy *buddy);
uint64_t buddy_take(struct buddy *buddy, uint64_t bytes); /* BUDDY_NONE: no block is large enough */
/* Of a taken block. */
uint32_t buddy_order(const struct buddy *buddy, uint64_t at);
/* Returns the bytes of the block. */
uint64_t buddy_give(struct buddy *buddy, uint64_t at);

#endif
