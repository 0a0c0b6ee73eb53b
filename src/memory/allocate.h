/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: looking up the allocation that an address of a space belongs to.
 * Never: is included outside this room.
 */
#ifndef FACET_MEMORY_ALLOCATE_H
#define FACET_MEMORY_ALLOCATE_H

#include <stdbool.h>

#include "memory/space.h"

/* The allocation that the address lies in. False: it lies in no allocation of this space. */
bool facet_space_lookup(struct facet_space *space, uint64_t address, struct facet_allocation *ret_allocation);

/* Checks that `bytes` could ever be allocated. */
enum facet_status facet_space_check_bytes(const struct facet_space *space, uint64_t bytes, struct facet_error *error);

#endif
