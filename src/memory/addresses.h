/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the addresses of a space; if they belong to a device in another process, the reservation of the same addresses
 * here, so that no mapping of this process gets one of them.
 * Never: is included outside this room: other rooms include host_side.h.
 */
#ifndef FACET_MEMORY_ADDRESSES_H
#define FACET_MEMORY_ADDRESSES_H

#include "memory/space.h"

/* Reserves `bytes` of addresses: sets the space's `base`, `address_bytes` and `reserved_in_process`. */
enum facet_status facet_addresses_take(struct facet_space *space, uint64_t bytes, struct facet_error *error);

/* Gives the space's addresses back. False: the device still has pages mapped there. */
bool facet_addresses_give(struct facet_space *space);

/* Whether the addresses of this process are limited (RLIMIT_AS). */
bool facet_addresses_are_limited(void);

/* Whether an address of the space may be a pointer of this process as well. */
bool facet_addresses_are_doubtful(const struct facet_space *space, uint64_t address);

#endif
