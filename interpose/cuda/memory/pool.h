/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools: charged for what they hold of the device, not for what is allocated from them.
 *
 * Owns: what each pool of this process is charged, and the lock under which that is compared with the driver.
 * Never: touches a stream that is being captured: the graph that comes of it pays when it holds memory.
 *
 * A pool grows within cuMemAllocAsync and shrinks at any later synchronisation, unseen. So what it is charged is never
 * less than it holds, and is brought up to date whenever a pool, the memory that is left, or a refusal is looked at.
 * The lock is held while the driver gives memory out of a pool, which nobody else may grow meanwhile: two threads could
 * not tell whose the growth was.
 */
#ifndef FACET_CUDA_POOL_H
#define FACET_CUDA_POOL_H

#include "charge.h"

extern _Atomic uint32_t facet_cuda_pool_count;

/* Whether this process has used any pool. */
static inline bool facet_cuda_pools_any(void)
{
    return __builtin_expect(atomic_load_explicit(&facet_cuda_pool_count, memory_order_relaxed) != 0, 0);
}

/* Compares what the pools of a device are charged with what they hold. */
void facet_cuda_pools_settle(uint32_t device);

/* The same, but where somebody has the lock, who may wait for something. */
void facet_cuda_pools_settle_if_free(uint32_t device);

/* The same, after the driver was told to let go of what nobody uses. */
void facet_cuda_pools_let_go(uint32_t device);

/* A pointer out of a pool was freed, by either call. */
void facet_cuda_pool_freed(const struct facet_ledger_entry *entry);

/* Whether a stream is being captured, or cannot be used because another is. `per_thread`: what NULL means. */
bool facet_cuda_is_capturing(CUstream stream, bool per_thread);

void facet_cuda_pools_before_fork(void);
void facet_cuda_pools_after_fork(void);
void facet_cuda_pools_forked(void);

#endif
