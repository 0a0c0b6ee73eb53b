/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory cost of contexts, and the release of charges when a context is destroyed.
 *
 * Owns: the list of live contexts, and the lock under which contexts are created and destroyed.
 * Never: keeps a context alive.
 *
 * The cost is the device memory that creating a context takes, measured as measure.h says. Memory that the context
 * takes later for its limits (stacks, heap, printf), and for code that belongs to no known module, is added to it. If
 * the quota has too little left, the new context is destroyed: CUDA_ERROR_OUT_OF_MEMORY.
 */
#ifndef FACET_CUDA_CONTEXT_H
#define FACET_CUDA_CONTEXT_H

#include <stdbool.h>

#include "vendor/cuda/driver.h"

/*
 * Take and release the lock of contexts. A thread holds it to create, destroy or measure a context or load code into
 * one, and calls the driver under it.
 */
void facet_cuda_contexts_lock(void);
void facet_cuda_contexts_unlock(void);

/* With the lock held: any live context of a device, for queries; NULL when this process has none there. */
CUcontext facet_cuda_context_of(uint32_t device);

/*
 * With the lock held: adds to the current context's charge. CUDA_ERROR_OUT_OF_MEMORY when the quota has too little
 * left.
 */
CUresult facet_cuda_context_charge_more(uint64_t bytes);

/*
 * With the lock held: retains a device's primary context, and charges it the first time. `_check_ended` releases the
 * charges of that context if it was destroyed, and returns its old handle, else NULL.
 */
CUresult facet_cuda_primary_retain(CUcontext *ret_context, CUdevice device);
CUcontext facet_cuda_primary_check_ended(CUdevice device);

/*
 * The number of contexts destroyed so far. A thread reads it before and after it adds or removes a ledger entry. If the
 * number grew, the release of the owner's entries may have missed this entry, so the thread calls
 * facet_cuda_context_release_ended().
 */
uint64_t facet_cuda_contexts_ended(void);

/*
 * Releases the charges that are still recorded for `owner`, if that context has ended since `ended_before` was read.
 * Takes the lock. The caller's own bytes must not be pending.
 */
void facet_cuda_context_release_ended(uint64_t owner, uint64_t ended_before);

/* Waits until every context has finished its work. False when one of the waits fails. */
bool facet_cuda_contexts_wait(void);

void facet_cuda_contexts_before_fork(void);
void facet_cuda_contexts_after_fork(void);
void facet_cuda_contexts_forked(void);

#endif
