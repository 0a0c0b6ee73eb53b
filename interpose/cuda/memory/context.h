/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What contexts cost, and what goes with them.
 *
 * Owns: the list of living contexts, and the lock under which they are made and ended.
 * Never: keeps one alive.
 *
 * The cost is what making a context took of the device, by cuMemGetInfo before and after. That can be asked in a
 * context only: of a device's first one, what is in use afterwards and was charged to nobody in the vGPU is taken for
 * it. Both see the neighbours, too, so that no context is charged more than FACET_CUDA_CONTEXT_MOST.
 */
#ifndef FACET_CUDA_CONTEXT_H
#define FACET_CUDA_CONTEXT_H

#define FACET_CUDA_CONTEXT_MOST (UINT64_C(512) << 20)

void facet_cuda_contexts_before_fork(void);
void facet_cuda_contexts_after_fork(void);
void facet_cuda_contexts_forked(void);

#endif
