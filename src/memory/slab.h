/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slab: pages cut into blocks of one size, with a bit for each block.
 *
 * Owns: which blocks are in use, and the record of each. Both lie outside the blocks, whose memory may be a device's.
 * Never: takes a lock. Blocks are taken by one thread at a time (the arena's lock), and given back by any thread.
 *
 * A word of `used` holds 64 blocks, and a bit of `words_with_room` says that its word may have a free block, so that a
 * block is found in two steps. A free clears the bit of its block: a second free finds the bit clear and is refused. A
 * slab's own memory is not freed before its space ends, so that a late free with a stale address still reads a valid
 * slab.
 *
 * With a million blocks the time of a call depends on its cache misses. So the fields that each call uses lie in one
 * cache line. The record of a block is written after the arena's lock is released, and a free does not read it.
 */
#ifndef FACET_MEMORY_SLAB_H
#define FACET_MEMORY_SLAB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define FACET_SLAB_BLOCKS 4096u /* 64 words of 64 bits, at most */
#define FACET_SLAB_LEVELS 8u    /* a slab of level n has 2^n times the pages of level 0 */
#define FACET_BLOCK_NONE  UINT32_MAX

struct facet_pool_arena;

/* The record of a live block. A thread may read it while another thread frees the block. */
struct facet_block_record {
    _Atomic uint64_t time_ns;
    _Atomic uint32_t tag;
    _Atomic uint32_t bytes; /* the requested size */
};

enum facet_slab_place {
    FACET_SLAB_DEAD = 0,    /* without pages; on the space's list of dead slabs */
    FACET_SLAB_CURRENT = 1, /* the slab that its arena takes blocks from */
    FACET_SLAB_LISTED = 2,  /* has, or may have, free blocks */
    FACET_SLAB_FULL = 3,
};

struct facet_slab {
    LIST_ENTRY(facet_slab) in_pool; /* under its arena's lock */
    uint32_t level;
    uint32_t first_page, pages;

    _Alignas(64) _Atomic uint64_t address;
    uint32_t block_bytes, blocks; /* these two, `records` and `class` never change */
    struct facet_block_record *records;
    _Atomic(struct facet_pool_arena *) arena;
    _Atomic uint64_t words_with_room;
    _Atomic uint32_t used_blocks; /* blocks in use; lowered after a bit is cleared, so never less than the bits */
    uint32_t class;
    _Atomic uint32_t place; /* enum facet_slab_place; written under its arena's lock */
    uint32_t reserved;
    _Atomic uint64_t used[]; /* a bit for each block */
};
LIST_HEAD(facet_slab_list, facet_slab);

/* Makes a dead slab. NULL: no memory. */
struct facet_slab *facet_slab_create(uint32_t block_bytes, uint32_t blocks);
void facet_slab_destroy(struct facet_slab *slab);
/* Makes a dead slab ready for use with new pages; all its blocks are free. */
void facet_slab_reset(struct facet_slab *slab, uint64_t address, uint32_t first_page);

/* Takes a block; FACET_BLOCK_NONE: none is free. */
uint32_t facet_slab_take(struct facet_slab *slab);
/* Takes block `block`. False: it is in use, or there is no such block. */
bool facet_slab_take_block(struct facet_slab *slab, uint32_t block);
/* Writes the record of a block that the caller took and has not handed out yet. */
void facet_slab_record(struct facet_slab *slab, uint32_t block, uint32_t bytes, uint32_t tag, uint64_t time_ns);

/* The sum of the requested bytes of all used blocks; takes a step for each block. */
uint64_t facet_slab_requested_bytes(const struct facet_slab *slab);

enum facet_slab_free_result {
    FACET_BLOCK_FREED = 0,
    FACET_BLOCK_FREED_OF_FULL = 1, /* the slab was full, so it may be on no list of its arena */
    FACET_BLOCK_FREED_LAST = 2,    /* no block of the slab is in use any more */
    FACET_BLOCK_WAS_FREE = 3,      /* the block was free already */
};
enum facet_slab_free_result facet_slab_give(struct facet_slab *slab, uint32_t block);

bool facet_slab_uses_block(const struct facet_slab *slab, uint32_t block);

#endif
