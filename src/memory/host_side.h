/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the test whether an address that a caller passes as host memory belongs to a space, and keeping a space's
 * addresses free of mappings of this process.
 * Never: follows such an address.
 */
#ifndef FACET_MEMORY_HOST_SIDE_H
#define FACET_MEMORY_HOST_SIDE_H

#include <stdbool.h>

#include <facet/memory.h>

/* The page of NULL is never mapped: an address in it is a member of a struct at NULL. */
#define FACET_HOST_FIRST UINT64_C(4096)

/* Whether the bytes can be memory of a process: not in the page of NULL, and below the kernel's half. */
static inline bool facet_host_can_have(uint64_t address, uint64_t bytes)
{
    return address >= FACET_HOST_FIRST && bytes <= INT64_MAX && address <= INT64_MAX - bytes;
}

/*
 * Whether no mapping of this process can lie at the addresses of the space, because it has reserved them here: a
 * mapping there replaces the reservation (MAP_FIXED), and facet_space_restore_addresses() undoes it.
 */
bool facet_space_reserved_in_process(const struct facet_space *space);
/* Unmaps addresses of the space: reserves them again, or leaves them free, as they were before. */
void facet_space_restore_addresses(const struct facet_space *space, uint64_t address, uint64_t bytes);

/*
 * Checks an address that a caller names as host memory. FACET_INVALID_ARGUMENT: no process can have it.
 * FACET_OUT_OF_RANGE: it is within a space of this memory. If the device's addresses are not pointers of this process,
 * spaces are compared only with `detect`, where the caller named no side.
 */
enum facet_status facet_memory_check_host(struct facet_memory *memory, const char *argument, uint64_t address,
                                          uint64_t bytes, bool detect, struct facet_error *error);

#endif
