/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the check that a range of a space lies in one allocation, and marking the range's pages as used. Both serve the
 * copies and fills of this room, and the queued copies and fills of src/vgpu.
 * Never: dereferences an address.
 */
#ifndef FACET_MEMORY_TRANSFER_H
#define FACET_MEMORY_TRANSFER_H

#include <facet/memory.h>

/* FACET_OUT_OF_RANGE: the range is not wholly inside one allocation. The error names `argument`. */
enum facet_status facet_space_check_range(struct facet_space *space, const char *argument, uint64_t address,
                                          uint64_t bytes, struct facet_error *error);

/* Sets `marks` (FACET_PAGE_ACCESSED, FACET_PAGE_DIRTY) on the range's pages, and the time of their last access. */
void facet_space_mark(struct facet_space *space, uint64_t address, uint64_t bytes, uint8_t marks);

#endif
