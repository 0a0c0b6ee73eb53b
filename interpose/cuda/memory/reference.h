/* SPDX-License-Identifier: Apache-2.0 */
/*
 * References to memory other than handles and mappings: tiles of a sparse array (cuMemMapArrayAsync), and bindings to a
 * multicast object. Neither takes memory of its own. The memory was charged when its handle was made, and stays charged
 * while it is referenced.
 *
 * Owns: the memory that each array and each binding refers to.
 * Never: tracks single tiles. An array refers to all memory that was ever mapped into it, until it is destroyed. A
 * multicast object refers to bound memory until it is unbound, or else until the process ends.
 */
#ifndef FACET_CUDA_REFERENCE_H
#define FACET_CUDA_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

struct facet_cuda_reference;

/* Removes an array's references before the driver destroys it, because its handle may be reused right after. */
struct facet_cuda_reference *facet_cuda_references_detach(uint64_t array);

/* Called after the driver. If the array was destroyed, its references are dropped; else they are put back. */
void facet_cuda_references_finish(struct facet_cuda_reference *list, bool array_destroyed);

/* Drops the references of an array that its context's end destroyed. The caller has shut the gate of pending.h. */
void facet_cuda_references_drop(uint64_t array);

/* In the child of a fork, under the lock of virtual memory. */
void facet_cuda_references_forked(void);

#endif
