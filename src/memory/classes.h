/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: size classes: the pools' block sizes, how much each pool grows by, and the class of a request.
 * Never: allocates.
 *
 * The sizes are the multiples of the smallest block up to eight of it, then four sizes to each doubling. So for a
 * request of four smallest blocks or more, a block is at most a quarter larger than the request. Finding the class
 * takes a few shifts.
 */
#ifndef FACET_MEMORY_CLASSES_H
#define FACET_MEMORY_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/memory.h>

#define FACET_NO_CLASS UINT32_MAX

struct facet_class {
    uint32_t block_bytes;
    uint32_t pages; /* pages of the class's smallest slab */
};

struct facet_classes {
    uint32_t count, block_shift;
    uint64_t page_bytes;
    struct facet_class class[FACET_MEMORY_POOLS];
};

/* `pools`, `block_bytes`, `pool_bytes` as in struct facet_memory_config, 0 meaning the default. */
enum facet_status facet_classes_init(struct facet_classes *classes, uint64_t page_bytes, uint32_t pools,
                                     uint64_t block_bytes, uint64_t pool_bytes, struct facet_error *error);

/*
 * How many pages and blocks a slab of a class has at a level. Each level has twice the pages of the level before, as
 * far as FACET_SLAB_BLOCKS allows.
 */
uint32_t facet_class_pages(const struct facet_class *class, uint32_t level);
uint32_t facet_class_blocks(const struct facet_classes *classes, uint32_t class, uint32_t level);

/* The level of the next slab for a pool that has `pages`: about an eighth of these, 2 MiB at most. */
uint32_t facet_classes_level(const struct facet_classes *classes, uint32_t class, uint64_t pages);

/*
 * The class of the smallest block that holds `bytes` and is aligned to `align`; FACET_NO_CLASS: the request gets whole
 * pages, because it is too large for a block, or nearly fills the pages.
 */
uint32_t facet_classes_find(const struct facet_classes *classes, uint64_t bytes, uint64_t align);

#endif
