/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the table of regions, their counts and notes. Never: lets a region be charged twice, or not at all. The thread
 * that raises a count from 0 to 1 keeps the charge, the thread that lowers it from 1 to 0 releases it, and other
 * threads change no charge.
 */
#include "region.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LEVEL_BITS 18u /* twice that and a region's bits are 57, the width of a processor's addresses */
#define ENTRIES    (UINT64_C(1) << LEVEL_BITS)

#define STEPS (FACET_REGION_BYTES >> FACET_REGION_STEP_BITS)

/* A note is twice the owner plus one; 0: none. */
#define SEVERAL_OWNERS UINT64_MAX

struct region {
    _Alignas(64) _Atomic uint32_t blocks;
    _Atomic uint64_t only_note;                  /* the only note ever made here, or SEVERAL_OWNERS */
    _Alignas(64) _Atomic uint64_t owners[STEPS]; /* indexed by the beginning of a block */
};

struct leaf {
    struct region *_Atomic regions[ENTRIES];
};

struct root {
    struct leaf *_Atomic leaves[ENTRIES];
};

static struct root *_Atomic roots[FACET_REGION_DEVICES];

static struct root *root_of(uint32_t device, bool create)
{
    struct root *root = atomic_load_explicit(&roots[device], memory_order_acquire), *created;

    if (root || !create || !(created = calloc(1, sizeof *created)))
        return root;
    if (atomic_compare_exchange_strong(&roots[device], &root, created))
        return created;
    free(created);
    return root;
}

static struct leaf *leaf_of(struct root *root, uint64_t index, bool create)
{
    struct leaf *leaf = atomic_load_explicit(&root->leaves[index], memory_order_acquire), *created;

    if (leaf || !create || !(created = calloc(1, sizeof *created)))
        return leaf;
    if (atomic_compare_exchange_strong(&root->leaves[index], &leaf, created))
        return created;
    free(created);
    return leaf;
}

/* Mapped directly, so that only pages of notes that are used take memory. */
static struct region *map_region(void)
{
    void *created = mmap(NULL, sizeof(struct region), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (created == MAP_FAILED)
        return NULL;
    madvise(created, sizeof(struct region), MADV_NOHUGEPAGE);
    return created;
}

static struct region *region_of(struct leaf *leaf, uint64_t index, bool create)
{
    struct region *region = atomic_load_explicit(&leaf->regions[index], memory_order_acquire), *created;

    if (region || !create || !(created = map_region()))
        return region;
    if (atomic_compare_exchange_strong(&leaf->regions[index], &region, created))
        return created;
    munmap(created, sizeof *created);
    return region;
}

/* NULL if the entry was not made, memory is out, or the address is invalid. */
static struct region *find_region(uint32_t device, uint64_t address, bool create)
{
    uint64_t region = address >> FACET_REGION_BITS;

    if (device >= FACET_REGION_DEVICES || region >> (2 * LEVEL_BITS))
        return NULL;
    struct root *root = root_of(device, create);
    struct leaf *leaf = root ? leaf_of(root, region >> LEVEL_BITS, create) : NULL;
    return leaf ? region_of(leaf, region & (ENTRIES - 1), create) : NULL;
}

bool facet_regions_join(uint32_t device, uint64_t address, uint64_t bytes)
{
    struct region *region = find_region(device, address, false);

    if (!region || facet_regions_touched(address, bytes) != FACET_REGION_BYTES)
        return false;
    uint32_t count = atomic_load_explicit(&region->blocks, memory_order_relaxed);
    while (count)
        if (atomic_compare_exchange_weak_explicit(&region->blocks, &count, count + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

bool facet_regions_add(uint32_t device, uint64_t address, uint64_t bytes, uint64_t *ret_surplus)
{
    uint64_t touched = facet_regions_touched(address, bytes), surplus = 0;

    for (uint64_t at = 0; at < touched; at += FACET_REGION_BYTES)
        if (!find_region(device, address + at, true))
            return false;
    for (uint64_t at = 0; at < touched; at += FACET_REGION_BYTES)
        if (atomic_fetch_add(&find_region(device, address + at, false)->blocks, 1))
            surplus += FACET_REGION_BYTES;
    *ret_surplus = surplus;
    return true;
}

uint64_t facet_regions_leave(uint32_t device, uint64_t address, uint64_t bytes)
{
    uint64_t touched = facet_regions_touched(address, bytes), empty = 0;

    for (uint64_t at = 0; at < touched; at += FACET_REGION_BYTES)
        if (atomic_fetch_sub(&find_region(device, address + at, false)->blocks, 1) == 1)
            empty += FACET_REGION_BYTES;
    return empty;
}

/* ---- notes ---- */

static _Atomic uint64_t *note_of(struct region *region, uint64_t address)
{
    return &region->owners[(address & (FACET_REGION_BYTES - 1)) >> FACET_REGION_STEP_BITS];
}

static bool is_at_step(uint64_t address)
{
    return !(address & ((UINT64_C(1) << FACET_REGION_STEP_BITS) - 1));
}

/* Called before the note is made, so that a search for an owner's notes can skip regions that have only another's. */
static void set_only_note(struct region *region, uint64_t note)
{
    uint64_t no_note = 0;

    if (atomic_load_explicit(&region->only_note, memory_order_relaxed) == note)
        return;
    if (!atomic_compare_exchange_strong(&region->only_note, &no_note, note) && no_note != note)
        atomic_store(&region->only_note, SEVERAL_OWNERS);
}

static bool may_have_note(struct region *region, uint64_t note)
{
    uint64_t only_note = atomic_load(&region->only_note);

    return atomic_load(&region->blocks) && (only_note == note || only_note == SEVERAL_OWNERS);
}

bool facet_regions_note(uint32_t device, uint64_t address, uint64_t bytes, uint64_t owner)
{
    struct region *region = find_region(device, address, false);

    if (!region || !is_at_step(address) || facet_regions_touched(address, bytes) != FACET_REGION_BYTES || owner >> 63)
        return false;
    set_only_note(region, owner << 1 | 1);
    atomic_store_explicit(note_of(region, address), owner << 1 | 1, memory_order_release);
    return true;
}

/* An address belongs to one device only. */
bool facet_regions_take_note(uint64_t address, uint32_t *ret_device, uint64_t *ret_owner)
{
    for (uint32_t device = 0; device < FACET_REGION_DEVICES && is_at_step(address); device++) {
        struct region *region = find_region(device, address, false);
        _Atomic uint64_t *note = region ? note_of(region, address) : NULL;
        uint64_t owner = note && atomic_load_explicit(note, memory_order_relaxed)
                             ? atomic_exchange_explicit(note, 0, memory_order_acq_rel)
                             : 0;

        if (owner) {
            *ret_device = device;
            *ret_owner = owner >> 1;
            return true;
        }
    }
    return false;
}

static void drain_region(uint32_t device, struct region *region, uint64_t address, uint64_t owner,
                         void (*on_taken)(uint32_t device, uint64_t address))
{
    for (uint64_t step = 0; step < STEPS; step++) {
        uint64_t note = owner << 1 | 1;

        if (atomic_load_explicit(&region->owners[step], memory_order_relaxed) == note &&
            atomic_compare_exchange_strong(&region->owners[step], &note, 0))
            on_taken(device, address + (step << FACET_REGION_STEP_BITS));
    }
}

void facet_regions_drain(uint64_t owner, void (*on_taken)(uint32_t device, uint64_t address))
{
    for (uint32_t device = 0; device < FACET_REGION_DEVICES; device++) {
        struct root *root = root_of(device, false);

        for (uint64_t i = 0; root && i < ENTRIES; i++) {
            struct leaf *leaf = leaf_of(root, i, false);

            for (uint64_t j = 0; leaf && j < ENTRIES; j++) {
                struct region *region = region_of(leaf, j, false);

                if (region && may_have_note(region, owner << 1 | 1))
                    drain_region(device, region, (i << LEVEL_BITS | j) << FACET_REGION_BITS, owner, on_taken);
            }
        }
    }
}

static void forget_leaf(struct leaf *leaf)
{
    for (uint64_t i = 0; leaf && i < ENTRIES; i++)
        if (leaf->regions[i])
            munmap(leaf->regions[i], sizeof(struct region));
    free(leaf);
}

void facet_regions_forked(void)
{
    for (uint32_t device = 0; device < FACET_REGION_DEVICES; device++) {
        struct root *root = atomic_exchange(&roots[device], NULL);

        for (uint64_t i = 0; root && i < ENTRIES; i++)
            forget_leaf(atomic_load_explicit(&root->leaves[i], memory_order_relaxed));
        free(root);
    }
}
