/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of contexts, and the end of memory that belongs to them.
 *
 * Owns: the list of living contexts, and the lock under which they are made and ended.
 * Never: keeps one alive.
 *
 * The cost is the device memory that creating a context takes, measured as measure.h says. Memory that the context
 * takes later for its limits (stacks, heap, printf), and for code that belongs to no known module, is added to it. If
 * the quota has too little left, the context is ended again: CUDA_ERROR_OUT_OF_MEMORY.
 */
#ifndef FACET_CUDA_CONTEXT_H
#define FACET_CUDA_CONTEXT_H

#include <stdbool.h>

#include "vendor/cuda/driver.h"

/*
 * Only a thread that holds the contexts makes, ends or measures a context, or loads code into it. It calls the driver
 * while it holds them.
 */
void facet_cuda_contexts_hold(void);
void facet_cuda_contexts_let_go(void);

/* With the contexts held: any living context of a device, for queries; NULL when this process has none there. */
CUcontext facet_cuda_context_of(uint32_t device);

/*
 * With the contexts held: adds to the current context's charge. CUDA_ERROR_OUT_OF_MEMORY when the quota has too little
 * left.
 */
CUresult facet_cuda_context_charge_more(uint64_t bytes);

/*
 * With the contexts held: retains a device's primary context, and charges it the first time. `_look` checks whether it
 * has ended, and returns it if so.
 */
CUresult facet_cuda_primary_retain(CUcontext *ret_context, CUdevice device);
CUcontext facet_cuda_primary_look(CUdevice device);

/*
 * The number of contexts that have ended. A thread that takes an entry out of the ledger, or adds one, reads it before
 * and after. If it has grown, the owner's entries may have been released without that one, so the thread settles.
 */
uint64_t facet_cuda_contexts_ended(void);

/* Releases the charges that are still recorded for a context that has ended since. Takes the lock; not while its bytes
 * are pending. */
void facet_cuda_context_settle(uint64_t owner, uint64_t ended_before);

/* Waits until every context has finished its work. False when one cannot be waited for. */
bool facet_cuda_contexts_wait(void);

void facet_cuda_contexts_before_fork(void);
void facet_cuda_contexts_after_fork(void);
void facet_cuda_contexts_forked(void);

#endif
