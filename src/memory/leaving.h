/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages that were freed and that the device still has to let go of.
 *
 * Owns: the list of them that each space has, and asking the device.
 * Never: asks with a lock held that anybody but who frees in the same space waits for; gives an address or a frame out
 * again before the device has let go of it.
 */
#ifndef FACET_MEMORY_LEAVING_H
#define FACET_MEMORY_LEAVING_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/memory.h>

/* Asks the device for all that is leaving, and returns how many pages came back. With no lock held. */
uint64_t facet_space_settle(struct facet_space *space);
/* The same, unless another thread is at it. */
void facet_space_look(struct facet_space *space);
bool facet_space_is_leaving(const struct facet_space *space);

/* Frees all that it holds, before it is destroyed. False: the device has not let go of all of it yet. Nobody else may
 * allocate or free in it any more. */
bool facet_space_vacate(struct facet_space *space);

#endif
