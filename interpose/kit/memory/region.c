/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: what region.h says. Never: lets two be charged for one region, or nobody: who takes a count from 0 to 1 is
 * charged, who takes it from 1 to 0 gives back, and in between nobody is.
 */
#include "region.h"

#include <stdatomic.h>
#include <stdlib.h>

#define LEVEL_BITS 18u /* twice that and a region's: 57, all that processors have for addresses */
#define PLACES     (UINT64_C(1) << LEVEL_BITS)

struct leaf {
    _Atomic uint32_t blocks[PLACES];
};

struct root {
    struct leaf *_Atomic leaves[PLACES];
};

static struct root *_Atomic roots[FACET_REGION_DEVICES];

static struct root *root_of(uint32_t device, bool make)
{
    struct root *root = atomic_load_explicit(&roots[device], memory_order_acquire), *fresh;

    if (root || !make || !(fresh = calloc(1, sizeof *fresh)))
        return root;
    if (atomic_compare_exchange_strong(&roots[device], &root, fresh))
        return fresh;
    free(fresh);
    return root;
}

static struct leaf *leaf_of(struct root *root, uint64_t place, bool make)
{
    struct leaf *leaf = atomic_load_explicit(&root->leaves[place], memory_order_acquire), *fresh;

    if (leaf || !make || !(fresh = calloc(1, sizeof *fresh)))
        return leaf;
    if (atomic_compare_exchange_strong(&root->leaves[place], &leaf, fresh))
        return fresh;
    free(fresh);
    return leaf;
}

/* NULL where nothing was made, or memory is out, or there are no such addresses. */
static _Atomic uint32_t *find(uint32_t device, uint64_t address, bool make)
{
    uint64_t region = address >> FACET_REGION_BITS;

    if (device >= FACET_REGION_DEVICES || region >> (2 * LEVEL_BITS))
        return NULL;
    struct root *root = root_of(device, make);
    struct leaf *leaf = root ? leaf_of(root, region >> LEVEL_BITS, make) : NULL;
    return leaf ? &leaf->blocks[region & (PLACES - 1)] : NULL;
}

bool facet_regions_join(uint32_t device, uint64_t address, uint64_t bytes)
{
    _Atomic uint32_t *blocks = find(device, address, false);

    if (!blocks || facet_regions_touched(address, bytes) != FACET_REGION_BYTES)
        return false;
    uint32_t count = atomic_load_explicit(blocks, memory_order_relaxed);
    while (count)
        if (atomic_compare_exchange_weak_explicit(blocks, &count, count + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

bool facet_regions_add(uint32_t device, uint64_t address, uint64_t bytes, uint64_t *ret_left)
{
    uint64_t touched = facet_regions_touched(address, bytes), left = 0;

    for (uint64_t at = 0; at < touched; at += FACET_REGION_BYTES)
        if (!find(device, address + at, true))
            return false;
    for (uint64_t at = 0; at < touched; at += FACET_REGION_BYTES)
        if (atomic_fetch_add(find(device, address + at, false), 1))
            left += FACET_REGION_BYTES;
    *ret_left = left;
    return true;
}

uint64_t facet_regions_leave(uint32_t device, uint64_t address, uint64_t bytes)
{
    uint64_t touched = facet_regions_touched(address, bytes), empty = 0;

    for (uint64_t at = 0; at < touched; at += FACET_REGION_BYTES)
        if (atomic_fetch_sub(find(device, address + at, false), 1) == 1)
            empty += FACET_REGION_BYTES;
    return empty;
}

void facet_regions_forked(void)
{
    for (uint32_t device = 0; device < FACET_REGION_DEVICES; device++) {
        struct root *root = atomic_exchange(&roots[device], NULL);

        for (uint64_t i = 0; root && i < PLACES; i++)
            free(atomic_load_explicit(&root->leaves[i], memory_order_relaxed));
        free(root);
    }
}
