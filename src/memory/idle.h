/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing memory that nothing which is queued uses, without waiting for what is queued.
 *
 * Owns: a way to an allocation that does not lead through its space's context, so that a tenant who always has
 * something queued holds nobody up who knows that this allocation is not in use.
 * Never: is for the tenant's own copies, which come after what he has queued: facet_space_copy() is.
 */
#ifndef FACET_MEMORY_IDLE_H
#define FACET_MEMORY_IDLE_H

#include <facet/memory.h>

/* What launches that are over have written is there. Errors as of copy. A memory whose copies wait for nothing anyway
 * copies. */
enum facet_status facet_space_read_idle(struct facet_space *space, uint64_t address, void *ret_data, uint64_t bytes,
                                        struct facet_error *error);

/* Launches that begin afterwards find it. `data` NULL: zeros. */
enum facet_status facet_space_write_idle(struct facet_space *space, uint64_t address, const void *data, uint64_t bytes,
                                         struct facet_error *error);

#endif
