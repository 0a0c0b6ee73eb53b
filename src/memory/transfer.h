/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: checking a range of a space, for copies and fills here and for the queued ones of src/vgpu; and marking it as
 * used.
 * Never: follows an address.
 */
#ifndef FACET_MEMORY_TRANSFER_H
#define FACET_MEMORY_TRANSFER_H

#include <facet/memory.h>

/* FACET_OUT_OF_RANGE, by the argument's name: it is not wholly inside one allocation. */
enum facet_status facet_space_check_range(struct facet_space *space, const char *argument, uint64_t address,
                                          uint64_t bytes, struct facet_error *error);

/* FACET_PAGE_ACCESSED, FACET_PAGE_DIRTY. */
void facet_space_mark(struct facet_space *space, uint64_t address, uint64_t bytes, uint8_t marks);

#endif
