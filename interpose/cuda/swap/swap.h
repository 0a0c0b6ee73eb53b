/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Oversubscription: memory that leaves the device for the host's and comes back under the same address (ADR 21).
 *
 * Owns: what the rest of the interposer calls: whether this process swaps, where a function leads in one that does,
 * allocations that can be swapped, and what ends them.
 * Never: costs anything in a process that does not swap, where no function leads to it.
 *
 * A process works with all of its swappable memory on the device, or with none of it: a kernel may touch any address.
 * So every function that touches memory goes through a door (door.h), which is closed while any of it is away.
 */
#ifndef FACET_CUDA_SWAP_H
#define FACET_CUDA_SWAP_H

#include "interpose/cuda/memory/charge.h"

/* Whether a vGPU of this process was made with oversubscription. Looks at the segments once. */
bool facet_cuda_swaps(void);

/* The process has just attached: its launches wait outside the door. */
void facet_cuda_swap_attached(void);

/* Where a function of that name leads which would lead to `target`: through the door, if it touches memory. */
void *facet_cuda_swap_target(const char *name, void *target);

/* Whether linear memory of this device, in the current context, is to be had here; then by facet_cuda_swap_allocate(),
 * which charges it, too. */
bool facet_cuda_swap_takes(uint32_t device, uint64_t bytes);
CUresult facet_cuda_swap_allocate(CUdeviceptr *pointer, uint32_t device, uint64_t bytes);

extern _Atomic bool facet_cuda_swap_used; /* there was such memory */
bool facet_cuda_swap_free_slow(CUdeviceptr pointer, CUresult *ret_result);

/* False when the pointer is none of ours, and the driver is to free it. */
static inline bool facet_cuda_swap_free(CUdeviceptr pointer, CUresult *ret_result)
{
    return atomic_load_explicit(&facet_cuda_swap_used, memory_order_relaxed) &&
           facet_cuda_swap_free_slow(pointer, ret_result);
}

/* Around what may end a context: nothing is moved between the two, the second of which is given what the first
 * returned. */
bool facet_cuda_swap_hold(void);
void facet_cuda_swap_release(bool held);

/* What the driver refuses for memory of cuMemAlloc(), as if this were its: the handle behind it, unmapping it. */
bool facet_cuda_swap_has(CUdeviceptr pointer);

/* Between them: the context is no more, nor is what was allocated in it. */
void facet_cuda_swap_context_ended(CUcontext context);

void facet_cuda_swap_before_fork(void);
void facet_cuda_swap_after_fork(void);
void facet_cuda_swap_forked(void);

#endif
