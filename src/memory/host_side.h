/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: whether an address that a caller means as his own is memory of a space.
 * Never: follows it.
 */
#ifndef FACET_MEMORY_HOST_SIDE_H
#define FACET_MEMORY_HOST_SIDE_H

#include <stdbool.h>

#include <facet/memory.h>

/*
 * FACET_OUT_OF_RANGE: it is within a space of this memory. Where the device's addresses are no pointers of this process
 * they are not compared with one, unless `detect`: an address whose side nobody named is not taken for a pointer then.
 */
enum facet_status facet_memory_check_host(struct facet_memory *memory, const char *argument, uint64_t address,
                                          uint64_t bytes, bool detect, struct facet_error *error);

#endif
