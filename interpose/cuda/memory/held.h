/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory without an address that something else than a handle or a mapping holds: tiles of a sparse array
 * (cuMemMapArrayAsync), a multicast object that it is bound to. Neither takes memory of its own: the handle was charged
 * as it was made. It stays charged for as long as they hold it.
 *
 * Owns: which array and which binding holds what.
 * Never: follows single tiles: an array holds what was ever mapped into it until it is destroyed. A multicast object
 * holds what is bound until it is unbound; where nobody does that, until the process ends.
 */
#ifndef FACET_CUDA_HELD_H
#define FACET_CUDA_HELD_H

#include <stdbool.h>
#include <stdint.h>

struct facet_cuda_hold;

/* Takes out what an array holds, before the driver destroys it: its handle may be another's right after. */
struct facet_cuda_hold *facet_cuda_held_take(uint64_t array);

/* Behind it: `gone`: it is let go; else put back. NULL is allowed. */
void facet_cuda_held_end(struct facet_cuda_hold *list, bool gone);

/* Both, of an array that went with its context; with what is in transit held off. */
void facet_cuda_held_gone(uint64_t array);

/* In the child of a fork, under the lock of virtual memory. */
void facet_cuda_held_forked(void);

#endif
