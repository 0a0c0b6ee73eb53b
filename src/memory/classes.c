/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the arithmetic of size classes (classes.h).
 * Never: keeps state.
 */
#include <inttypes.h>

#include "memory/classes.h"
#include "memory/slab.h"

#define BLOCK_MIN_BYTES 256u                /* the least block_bytes, and its default */
#define SLAB_BLOCKS_MIN 8u                  /* blocks of a class's smallest slab, by default */
#define BLOCK_PAGES_MAX 4u                  /* the largest block by default, in pages */
#define SLAB_MAX_BYTES  (UINT64_C(2) << 20) /* to which slabs of growing pools grow */

/* Block sizes, in units of the smallest block: 1 2 3 4 5 6 7 8 10 12 14 16 20 24 .. */
static uint64_t units_of(uint32_t class)
{
    return class < 8 ? class + 1 : (uint64_t)(5 + class % 4) << (class / 4 - 1);
}

static uint32_t class_of(uint64_t units)
{
    if (units <= 8)
        return (uint32_t)units - 1;
    uint32_t top = 63 - (uint32_t)__builtin_clzll(units - 1);
    return 4 * top - 4 + (uint32_t)((units - 1) >> (top - 2)) % 4;
}

static struct facet_class make_class(uint64_t block_bytes, uint64_t page_bytes, uint64_t pool_bytes)
{
    uint64_t wanted_bytes = pool_bytes ? pool_bytes : block_bytes * SLAB_BLOCKS_MIN;
    uint64_t max = block_bytes * FACET_SLAB_BLOCKS;

    wanted_bytes = wanted_bytes < block_bytes ? block_bytes : wanted_bytes > max ? max : wanted_bytes;
    return (struct facet_class){(uint32_t)block_bytes, (uint32_t)((wanted_bytes + page_bytes - 1) / page_bytes)};
}

static enum facet_status check_sizes(uint64_t page_bytes, uint32_t pools, uint64_t block_bytes, uint64_t pool_bytes,
                                     struct facet_error *error)
{
    if (block_bytes < BLOCK_MIN_BYTES || block_bytes > page_bytes || (block_bytes & (block_bytes - 1)))
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "block_bytes",
                                    "block_bytes: %" PRIu64 " is no power of two from %u to a page of %" PRIu64,
                                    block_bytes, BLOCK_MIN_BYTES, page_bytes);
    if (pools > FACET_MEMORY_POOLS)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "pools", "pools: %u is not within 1 to %u", pools,
                                    FACET_MEMORY_POOLS);
    if (pool_bytes >= UINT32_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "pool_bytes",
                                    "pool_bytes: %" PRIu64 " is not below 4 GiB", pool_bytes);
    return FACET_OK;
}

enum facet_status facet_classes_init(struct facet_classes *classes, uint64_t page_bytes, uint32_t pools,
                                     uint64_t block_bytes, uint64_t pool_bytes, struct facet_error *error)
{
    uint64_t smallest = block_bytes ? block_bytes : BLOCK_MIN_BYTES;
    enum facet_status status = check_sizes(page_bytes, pools, smallest, pool_bytes, error);

    if (status != FACET_OK)
        return status;
    *classes = (struct facet_classes){.block_shift = (uint32_t)__builtin_ctzll(smallest), .page_bytes = page_bytes};
    while (classes->count < (pools ? pools : FACET_MEMORY_POOLS)) {
        uint64_t bytes = units_of(classes->count) * smallest;

        /*
         * Sixteen such blocks must be less than 4 GiB. By default the pools end at blocks of BLOCK_PAGES_MAX pages:
         * larger requests get whole pages.
         */
        if (bytes > UINT32_MAX / (2 * SLAB_BLOCKS_MIN) || (!pools && bytes > page_bytes * BLOCK_PAGES_MAX))
            break;
        classes->class[classes->count++] = make_class(bytes, page_bytes, pool_bytes);
    }
    return FACET_OK;
}

uint32_t facet_class_pages(const struct facet_class *class, uint32_t level)
{
    return class->pages << level;
}

uint32_t facet_class_blocks(const struct facet_classes *classes, uint32_t class, uint32_t level)
{
    uint64_t bytes = facet_class_pages(&classes->class[class], level) * classes->page_bytes;
    uint64_t blocks = bytes / classes->class[class].block_bytes;

    return blocks > FACET_SLAB_BLOCKS ? FACET_SLAB_BLOCKS : (uint32_t)blocks;
}

uint32_t facet_classes_level(const struct facet_classes *classes, uint32_t class, uint64_t pages)
{
    const struct facet_class *slab_class = &classes->class[class];
    uint32_t level = 0;

    while (level + 1 < FACET_SLAB_LEVELS) {
        uint64_t next = facet_class_pages(slab_class, level + 1);

        if (next * 8 > pages || next * classes->page_bytes > SLAB_MAX_BYTES ||
            next * classes->page_bytes / slab_class->block_bytes > FACET_SLAB_BLOCKS)
            break;
        level++;
    }
    return level;
}

/* Whether the request is larger than a page and whole pages for it would waste at most an eighth of its bytes. */
static bool fills_pages(const struct facet_classes *classes, uint64_t bytes)
{
    uint64_t over = bytes & (classes->page_bytes - 1);
    uint64_t waste = over ? classes->page_bytes - over : 0;

    return bytes > classes->page_bytes && waste * 8 <= bytes;
}

uint32_t facet_classes_find(const struct facet_classes *classes, uint64_t bytes, uint64_t align)
{
    uint64_t largest = classes->class[classes->count - 1].block_bytes;

    if (bytes > largest || align > classes->page_bytes || fills_pages(classes, bytes))
        return FACET_NO_CLASS;
    uint32_t class = class_of((bytes + (UINT64_C(1) << classes->block_shift) - 1) >> classes->block_shift);
    while (class < classes->count && (classes->class[class].block_bytes & (align - 1)))
        class ++;
    return class < classes->count ? class : FACET_NO_CLASS;
}
