/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing memory that no queued work uses, without waiting for the queue.
 *
 * Owns: access to an allocation that bypasses its space's context, so that a tenant with a full queue does not delay a
 * caller that knows the allocation to be idle.
 * Never: makes the tenant's own copies, which come after its queued work: facet_space_copy() makes them.
 */
#ifndef FACET_MEMORY_IDLE_H
#define FACET_MEMORY_IDLE_H

#include <facet/memory.h>

/*
 * Reads what finished launches have written. The errors are those of facet_space_copy(), which this function calls if
 * the backend's copies never wait.
 */
enum facet_status facet_space_read_idle(struct facet_space *space, uint64_t address, void *ret_data, uint64_t bytes,
                                        struct facet_error *error);

/* Launches that begin afterwards read what was written. `data` NULL: zeros. */
enum facet_status facet_space_write_idle(struct facet_space *space, uint64_t address, const void *data, uint64_t bytes,
                                         struct facet_error *error);

#endif
