/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: 2 MiB of addresses each, out of which a library gives what is smaller. A region is held whole for as long as
 * one block in it is alive, and so is charged whole.
 *
 * Owns: how many living blocks each region of each device has, and whose they are.
 * Never: takes a lock; charges anything itself: it says what is to be.
 *
 * A table of two levels by address, as a processor's: finding a region takes three loads, whatever is alive. What was
 * made of it stays: for each region in which a block ever was a page, and one for each 256 KiB of it that blocks began
 * in.
 *
 * Thread rule: every function from any thread, but for facet_regions_forked(): in the child, before anything else.
 */
#ifndef FACET_MEMORY_REGION_H
#define FACET_MEMORY_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "limiter/segment.h"

#define FACET_REGION_DEVICES 16u

/* Blocks are noted by where they begin, in steps of so many bytes: drivers give none smaller. */
#define FACET_REGION_STEP_BITS 9u

/* What a block may need at most: the regions that it touches, in bytes. */
static inline uint64_t facet_regions_touched(uint64_t address, uint64_t bytes)
{
    uint64_t last = address + (bytes ? bytes - 1 : 0);

    return ((last >> FACET_REGION_BITS) - (address >> FACET_REGION_BITS) + 1) << FACET_REGION_BITS;
}

/* Adds a block that lies in one region, which is charged already. False, and nothing is done, where that is not so. */
bool facet_regions_join(uint32_t device, uint64_t address, uint64_t bytes);

/*
 * Adds a block for which facet_regions_touched() was charged; *ret_left: how much of that is to be given back, as
 * others are charged for it already. False when memory is out.
 */
bool facet_regions_add(uint32_t device, uint64_t address, uint64_t bytes, uint64_t *ret_left);

/* Takes a block out that was joined or added; returns what is to be given back: regions that have none left. */
uint64_t facet_regions_leave(uint32_t device, uint64_t address, uint64_t bytes);

/*
 * Whose blocks they are. A block that was joined or added is noted here, in one store, where that is possible: it lies
 * in one region, and begins at a step. False otherwise: the caller remembers it.
 */
bool facet_regions_note(uint32_t device, uint64_t address, uint64_t bytes, uint64_t owner);

/* Takes the note of the block that begins there; false when there is none. Of two that ask, one has it. The block is
 * still counted. */
bool facet_regions_take_note(uint64_t address, uint32_t *ret_device, uint64_t *ret_owner);

/* Takes all notes of one owner, one call of `gone` each. What is noted meanwhile may stay. */
void facet_regions_drain(uint64_t owner, void (*gone)(uint32_t device, uint64_t address));

/* Forgets all: they are the parent's. */
void facet_regions_forked(void);

#endif
