/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freed pages that the device has yet to unmap.
 *
 * Owns: each space's list of these pages, and asking the device to unmap them.
 * Never: makes a thread wait for the device that does not free in the same space; gives out an address or a frame
 * again before the device has unmapped it.
 */
#ifndef FACET_MEMORY_UNMAP_QUEUE_H
#define FACET_MEMORY_UNMAP_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/memory.h>

/* Asks the device to unmap all queued extents, and returns how many pages came back. The caller holds no lock. */
uint64_t facet_space_unmap_freed(struct facet_space *space);
/* Like facet_space_unmap_freed(), but returns at once if another thread is in that call. */
void facet_space_try_unmap_freed(struct facet_space *space);
bool facet_space_awaits_unmap(const struct facet_space *space);

/*
 * In memory.c. Frees all of the space's allocations, before it is destroyed. False: the device has not unmapped all
 * pages yet. No other thread may allocate or free in the space any more.
 */
bool facet_space_vacate(struct facet_space *space);

#endif
