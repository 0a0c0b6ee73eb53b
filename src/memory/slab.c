/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: taking and giving back the blocks of a slab (slab.h).
 * Never: reads more words than have a bit in `words_with_room`.
 */
#include <stdlib.h>
#include <string.h>

#include "memory/slab.h"

static uint32_t words_of(uint32_t blocks)
{
    return (blocks + 63) / 64;
}

static size_t round_to_cache_lines(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Allocates one piece of memory for the slab and the records of its blocks. */
struct facet_slab *facet_slab_create(uint32_t block_bytes, uint32_t blocks)
{
    size_t head = round_to_cache_lines(sizeof(struct facet_slab) + words_of(blocks) * sizeof(uint64_t));
    size_t whole = head + round_to_cache_lines(blocks * sizeof(struct facet_block_record));
    struct facet_slab *slab = aligned_alloc(_Alignof(struct facet_slab), whole);

    if (!slab)
        return NULL;
    memset(slab, 0, whole);
    slab->block_bytes = block_bytes;
    slab->blocks = blocks;
    slab->records = (void *)((char *)slab + head);
    return slab;
}

void facet_slab_destroy(struct facet_slab *slab)
{
    free(slab);
}

/* The blocks that a word has. */
static uint64_t mask_of(const struct facet_slab *slab, uint32_t word)
{
    uint32_t left = slab->blocks - word * 64;

    return left < 64 ? (UINT64_C(1) << left) - 1 : UINT64_MAX;
}

void facet_slab_reset(struct facet_slab *slab, uint64_t address, uint32_t first_page)
{
    uint32_t words = words_of(slab->blocks);

    atomic_store_explicit(&slab->address, address, memory_order_relaxed);
    slab->first_page = first_page;
    for (uint32_t word = 0; word < words; word++)
        atomic_store_explicit(&slab->used[word], 0, memory_order_relaxed);
    atomic_store_explicit(&slab->used_blocks, 0, memory_order_relaxed);
    atomic_store_explicit(&slab->words_with_room, words == 64 ? UINT64_MAX : (UINT64_C(1) << words) - 1,
                          memory_order_release);
}

/*
 * Returns a free bit of the word. If there is none, clears the word's bit in `words_with_room` and returns 0. A thread
 * that frees a block meanwhile sets that bit, and may do so just before it is cleared here: so the word is read a
 * second time.
 */
static uint64_t free_bit(struct facet_slab *slab, uint32_t word)
{
    uint64_t mask = mask_of(slab, word);
    uint64_t left = ~atomic_load(&slab->used[word]) & mask;

    if (left)
        return left & -left;
    atomic_fetch_and(&slab->words_with_room, ~(UINT64_C(1) << word));
    if (~atomic_load(&slab->used[word]) & mask)
        atomic_fetch_or(&slab->words_with_room, UINT64_C(1) << word);
    return 0;
}

/* Called only by the thread that takes blocks of the slab. */
static void enter_block(struct facet_slab *slab, uint32_t block)
{
    atomic_fetch_or(&slab->used[block / 64], UINT64_C(1) << block % 64);
    atomic_fetch_add(&slab->used_blocks, 1);
}

uint32_t facet_slab_take(struct facet_slab *slab)
{
    uint64_t words_with_room;

    while ((words_with_room = atomic_load(&slab->words_with_room))) {
        uint32_t word = (uint32_t)__builtin_ctzll(words_with_room);
        uint64_t bit = free_bit(slab, word);

        if (!bit)
            continue;
        uint32_t block = word * 64 + (uint32_t)__builtin_ctzll(bit);
        enter_block(slab, block);
        return block;
    }
    return FACET_BLOCK_NONE;
}

bool facet_slab_take_block(struct facet_slab *slab, uint32_t block)
{
    if (block >= slab->blocks || facet_slab_uses_block(slab, block))
        return false;
    enter_block(slab, block);
    return true;
}

void facet_slab_record(struct facet_slab *slab, uint32_t block, uint32_t bytes, uint32_t tag, uint64_t time_ns)
{
    struct facet_block_record *record = &slab->records[block];

    atomic_store_explicit(&record->time_ns, time_ns, memory_order_relaxed);
    atomic_store_explicit(&record->tag, tag, memory_order_relaxed);
    atomic_store_explicit(&record->bytes, bytes, memory_order_relaxed);
}

uint64_t facet_slab_requested_bytes(const struct facet_slab *slab)
{
    uint32_t words = words_of(slab->blocks);
    uint64_t bytes = 0;

    for (uint32_t word = 0; word < words; word++)
        for (uint64_t left = atomic_load_explicit(&slab->used[word], memory_order_relaxed); left; left &= left - 1)
            bytes += atomic_load_explicit(&slab->records[word * 64 + (uint32_t)__builtin_ctzll(left)].bytes,
                                          memory_order_relaxed);
    return bytes;
}

enum facet_slab_free_result facet_slab_give(struct facet_slab *slab, uint32_t block)
{
    uint32_t word = block / 64;
    uint64_t bit = UINT64_C(1) << block % 64;
    uint64_t was = atomic_fetch_and(&slab->used[word], ~bit);

    if (!(was & bit))
        return FACET_BLOCK_WAS_FREE;
    if (was == mask_of(slab, word))
        atomic_fetch_or(&slab->words_with_room, UINT64_C(1) << word);
    uint32_t used_blocks = atomic_fetch_sub(&slab->used_blocks, 1);
    if (used_blocks == 1)
        return FACET_BLOCK_FREED_LAST;
    return used_blocks == slab->blocks ? FACET_BLOCK_FREED_OF_FULL : FACET_BLOCK_FREED;
}

bool facet_slab_uses_block(const struct facet_slab *slab, uint32_t block)
{
    return block < slab->blocks && atomic_load(&slab->used[block / 64]) >> block % 64 & 1;
}
