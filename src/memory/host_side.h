/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: whether an address that a caller means as his own is memory of a space, and what a space keeps free of this
 * process's addresses.
 * Never: follows it.
 */
#ifndef FACET_MEMORY_HOST_SIDE_H
#define FACET_MEMORY_HOST_SIDE_H

#include <stdbool.h>

#include <facet/memory.h>

/* Whether nothing of this process can lie at the addresses of the space, as it has them for that: what is mapped there
 * is mapped over nothing (MAP_FIXED), and goes by restoring them. */
bool facet_space_is_apart(const struct facet_space *space);
/* Unmaps what was mapped at addresses of the space; with nothing there, or let go of, as they were before. */
void facet_space_restore_addresses(const struct facet_space *space, uint64_t address, uint64_t bytes);

/*
 * FACET_OUT_OF_RANGE: it is within a space of this memory. Where the device's addresses are no pointers of this process
 * they are not compared with one, unless `detect`: an address whose side nobody named is not taken for a pointer then.
 */
enum facet_status facet_memory_check_host(struct facet_memory *memory, const char *argument, uint64_t address,
                                          uint64_t bytes, bool detect, struct facet_error *error);

#endif
