/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: 2 MiB of addresses each, from which a library allocates small blocks. A region is held whole while one block
 * in it lives, so it is charged whole.
 *
 * Owns: the number of live blocks in each region of each device, and their owners.
 * Never: takes a lock; charges anything itself: it returns the amounts.
 *
 * The regions are in a table of two levels by address, like a page table: finding a region takes three loads. The
 * table's memory is kept: one page for each region that ever had a block, and one for each 256 KiB of it in which
 * blocks began.
 *
 * Thread rule: every function from any thread, except facet_regions_forked(): in the child, before anything else.
 */
#ifndef FACET_MEMORY_REGION_H
#define FACET_MEMORY_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "limiter/segment.h"

#define FACET_REGION_DEVICES 16u

/* Notes are indexed by the beginning of a block, in steps of this many bytes: drivers allocate no smaller blocks. */
#define FACET_REGION_STEP_BITS 9u

/* The most that a block may be charged: the regions that it touches, in bytes. */
static inline uint64_t facet_regions_touched(uint64_t address, uint64_t bytes)
{
    uint64_t last = address + (bytes ? bytes - 1 : 0);

    return ((last >> FACET_REGION_BITS) - (address >> FACET_REGION_BITS) + 1) << FACET_REGION_BITS;
}

/* Adds a block that lies in one region, if that region is charged already. Else false, with no effect. */
bool facet_regions_join(uint32_t device, uint64_t address, uint64_t bytes);

/*
 * Adds a block for which facet_regions_touched() was charged. *ret_surplus is the part to release: the bytes of its
 * regions that were charged already. False when memory is out.
 */
bool facet_regions_add(uint32_t device, uint64_t address, uint64_t bytes, uint64_t *ret_surplus);

/* Removes a block that was joined or added; returns the bytes to release: its regions without other blocks. */
uint64_t facet_regions_leave(uint32_t device, uint64_t address, uint64_t bytes);

/*
 * Records the owner of a block that was joined or added, in one store. That is possible if the block lies in one region
 * and begins at a step. False otherwise: the caller records it.
 */
bool facet_regions_note(uint32_t device, uint64_t address, uint64_t bytes, uint64_t owner);

/*
 * Takes the note of the block that begins at `address`; false when there is none. If two threads call, one gets it. The
 * block stays counted.
 */
bool facet_regions_take_note(uint64_t address, uint32_t *ret_device, uint64_t *ret_owner);

/* Takes all notes of one owner, with one call of `on_taken` each. Notes made meanwhile may stay. */
void facet_regions_drain(uint64_t owner, void (*on_taken)(uint32_t device, uint64_t address));

/* Drops all regions: they are the parent's. */
void facet_regions_forked(void);

#endif
