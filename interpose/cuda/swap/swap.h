/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Oversubscription: memory that moves from the device to the host and back under the same address (ADR 21).
 *
 * Owns: the interface to the interposer's other parts. It answers whether this process swaps, replaces the targets of
 * functions if so, and makes and frees allocations that can be swapped.
 * Never: costs anything in a process that does not swap: there no function is replaced.
 *
 * A process works with all of its swappable memory on the device, or with none, because a kernel may touch any address.
 * So every function that touches memory passes a quiesce gate (quiesce.h), which is closed while any memory is away.
 */
#ifndef FACET_CUDA_SWAP_H
#define FACET_CUDA_SWAP_H

#include "interpose/cuda/memory/charge.h"

/* Whether a vGPU of this process was made with oversubscription. Reads the segments once. */
bool facet_cuda_swaps(void);

/* Called when the process has just attached. Its launches then wait for their turn outside the gate. */
void facet_cuda_swap_attached(void);

/* The address to call for a function of that name: a stub that passes the gate if it touches memory, else `target`. */
void *facet_cuda_swap_target(const char *name, void *target);

/*
 * Whether linear memory of this device, in the current context, can be swapped. If so, facet_cuda_swap_allocate()
 * allocates and charges it.
 */
bool facet_cuda_swap_applies(uint32_t device, uint64_t bytes);
CUresult facet_cuda_swap_allocate(CUdeviceptr *pointer, uint32_t device, uint64_t bytes);

extern _Atomic bool facet_cuda_swap_used; /* the process has allocated memory that can be swapped */
bool facet_cuda_swap_free_slow(CUdeviceptr pointer, CUresult *ret_result);

/* False when the pointer is not a swappable block: the driver frees it. */
static inline bool facet_cuda_swap_free(CUdeviceptr pointer, CUresult *ret_result)
{
    return atomic_load_explicit(&facet_cuda_swap_used, memory_order_relaxed) &&
           facet_cuda_swap_free_slow(pointer, ret_result);
}

/*
 * Called before and after a call that may end a context: between them no memory moves. `held`: the result of
 * `_hold`.
 */
bool facet_cuda_swap_hold(void);
void facet_cuda_swap_release(bool held);

/*
 * Whether the pointer is a swappable block. Like the driver for memory of cuMemAlloc(), the caller then refuses to
 * unmap it or to give its handle.
 */
bool facet_cuda_swap_has(CUdeviceptr pointer);

/* Called between facet_cuda_swap_hold() and _release(): the context has ended, and all its allocations with it. */
void facet_cuda_swap_context_ended(CUcontext context);

void facet_cuda_swap_before_fork(void);
void facet_cuda_swap_after_fork(void);
void facet_cuda_swap_forked(void);

#endif
