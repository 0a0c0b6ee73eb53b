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
    uint8_t *state; /* of a block's first unit: the block's order, and whether the block is free */
};

/* `bytes` is a multiple of `least_bytes`, which is a power of two: 2 to 2^31 units. */
struct buddy *buddy_create(uint64_t bytes, uint64_t least_bytes);
void buddy_destroy(struct buddy *buddy);
uint64_t buddy_take(struct buddy *buddy, uint64_t bytes); /* BUDDY_NONE: no block is large enough */
/* The order of a taken block. */
uint32_t buddy_order(const struct buddy *buddy, uint64_t at);
/* Frees a block, and returns its size in bytes. */
uint64_t buddy_give(struct buddy *buddy, uint64_t at);

#endif
