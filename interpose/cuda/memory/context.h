/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What contexts cost, and what goes with them.
 *
 * Owns: the list of living contexts, and the lock under which they are made and ended.
 * Never: keeps one alive.
 *
 * The cost is what making a context took of the device, measured as measure.h says. What the context takes later for
 * its limits (stacks, heap, printf) and for code that was loaded under no name we know is added to it. A quota that has
 * not so much left refuses the context, which is ended again: CUDA_ERROR_OUT_OF_MEMORY.
 */
#ifndef FACET_CUDA_CONTEXT_H
#define FACET_CUDA_CONTEXT_H

#include <stdbool.h>

#include "vendor/cuda/driver.h"

/* Nobody makes, ends or measures a context or what is loaded into it, but who holds them. The driver is called so. */
void facet_cuda_contexts_hold(void);
void facet_cuda_contexts_let_go(void);

/* Held: any living context of a device, in which it can be asked; NULL when this process has none there. */
CUcontext facet_cuda_context_of(uint32_t device);

/* Held: adds to what the current context is charged. CUDA_ERROR_OUT_OF_MEMORY when the quota has not so much left. */
CUresult facet_cuda_context_charge_more(uint64_t bytes);

/* Held: retains a device's primary context, charged when it is its first time; `_look` sees whether it has ended, and
 * then returns which it was. */
CUresult facet_cuda_primary_retain(CUcontext *ret_context, CUdevice device);
CUcontext facet_cuda_primary_look(CUdevice device);

/*
 * How many have come to their end. Who takes something out of what is known, or is about to add to it, asks first, and
 * settles afterwards, when that is more: what the owner had is given back with it, and he may come too late for that.
 */
uint64_t facet_cuda_contexts_ended(void);

/* Gives back what is still known as a context's that has ended since. Takes the lock: not in transit. */
void facet_cuda_context_settle(uint64_t owner, uint64_t ended_before);

/* Waits until every context has done what it was given. False when one cannot be waited for. */
bool facet_cuda_contexts_wait(void);

void facet_cuda_contexts_before_fork(void);
void facet_cuda_contexts_after_fork(void);
void facet_cuda_contexts_forked(void);

#endif
