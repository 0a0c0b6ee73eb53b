/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools: charged for the memory they hold, not for allocations from them.
 *
 * Owns: the charge of each pool of this process, and the lock under which it is compared with the library's figure.
 * Never: touches a stream.
 *
 * A pool grows within an allocation, and shrinks at any later synchronisation without notice. So its charge is never
 * less than its memory, and is adjusted before each use of a pool, of the remaining quota, or of a refusal. The lock is
 * held while the library allocates from a pool: with two threads at once, the growth could not be attributed.
 *
 * Another process may open an exported pool and hold its memory beyond the pool's end, for an unknown time. So an
 * exported pool that was destroyed stays charged.
 */
#ifndef FACET_MEMORY_POOL_H
#define FACET_MEMORY_POOL_H

#include <stdatomic.h>

#include "driver.h"

extern _Atomic uint32_t facet_pool_count;

/* Whether this process has used any pool. */
static inline bool facet_pools_any(void)
{
    return __builtin_expect(atomic_load_explicit(&facet_pool_count, memory_order_relaxed) != 0, 0);
}

/* Adjusts the charges of a device's pools to the memory they hold. */
void facet_pools_settle(uint32_t device);

/* facet_pools_settle(), unless another thread holds the lock: that thread may be waiting for the caller. */
void facet_pools_settle_if_free(uint32_t device);

/* Makes the library release unused memory, then settles. */
void facet_pools_trim(uint32_t device);

/* A pointer from a pool was freed, at once or in stream order. */
void facet_pool_freed(const struct facet_ledger_entry *entry);

/* One allocation from a pool: the vendor's call, and a function that undoes it with the pool's growth. */
struct facet_pool_allocation {
    int (*allocate)(struct facet_pool_allocation *allocation); /* returns 0 for success, and sets `pointer` */
    void (*undo)(struct facet_pool_allocation *allocation);
    uint64_t pointer;
    int quota_result, no_vgpu_result; /* results for a refusal */
    struct facet_tenant *refused_by;  /* the tenant whose quota refused, not yet counted as denied; NULL: none */
};

/* `device` is the pool's, if this process did not make the pool and the library cannot tell (driver.h). */
int facet_pool_allocate(void *pool, uint32_t device, uint64_t bytes, struct facet_pool_allocation *allocation);

/* The place of a pool's memory, which decides which vGPUs are charged. */
enum facet_pool_place {
    FACET_POOL_ON_HOST, /* host memory: not charged */
    FACET_POOL_ON_DEVICE,
    FACET_POOL_MANAGED, /* charged on each GPU (managed.h) */
};

/*
 * `_made`: the program made the pool. `_found`: the library returned a pool of its own, perhaps again. False when
 * memory is out: the pool is not recorded.
 */
bool facet_pool_made(void *pool, uint32_t device, enum facet_pool_place place);
bool facet_pool_found(void *pool, uint32_t device, enum facet_pool_place place);

/* Calls the library, where 0 is success, with the lock held: a new pool may get the same handle right after. */
int facet_pool_destroy(void *pool, int (*destroy)(void *pool));
int facet_pool_trim(void *pool, uint64_t keep, int (*trim)(void *pool, uint64_t keep));

/* The pool was exported for other processes. */
void facet_pool_exported(void *pool);

void facet_pools_before_fork(void);
void facet_pools_after_fork(void);
void facet_pools_forked(void);

#endif
