/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools: charged for what they hold of the device, not for what is allocated from them.
 *
 * Owns: what each pool of this process is charged, and the lock under which that is compared with the library.
 * Never: touches a stream.
 *
 * A pool grows within an allocation and shrinks at any later synchronisation, unseen. So what it is charged is never
 * less than it holds, and is brought up to date whenever a pool, the memory that is left, or a refusal is looked at.
 * The lock is held while the library gives memory out of a pool, which nobody else may grow meanwhile: two threads
 * could not tell whose the growth was.
 *
 * What others can open of a pool, they hold beyond its end, and nobody learns until when: a pool that was exported, and
 * was destroyed, stays charged for what it held.
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

/* Compares what the pools of a device are charged with what they hold. */
void facet_pools_settle(uint32_t device);

/* The same, but where somebody has the lock, who may wait for something. */
void facet_pools_settle_if_free(uint32_t device);

/* The same, after the library was told to let go of what nobody uses. */
void facet_pools_let_go(uint32_t device);

/* A pointer out of a pool was freed, by either call. */
void facet_pool_freed(const struct facet_ledger_entry *entry);

/* One allocation from a pool: what the vendor's call is, and how it is undone, what the pool grew by for it included.
 */
struct facet_pool_taking {
    int (*allocate)(struct facet_pool_taking *taking); /* 0 for success, and then sets `pointer` */
    void (*undo)(struct facet_pool_taking *taking);
    uint64_t pointer;
    int out, no_vgpu;                /* what is answered when it is refused */
    struct facet_tenant *refused_by; /* set: whose quota it was, and has not counted it yet; NULL: nobody's */
};

/* `device` is the pool's where this process did not see it made, and the library does not know (driver.h). */
int facet_pool_allocate(void *pool, uint32_t device, uint64_t bytes, struct facet_pool_taking *taking);

/* Where a pool's memory is, and so who is charged for it. */
enum facet_pool_place {
    FACET_POOL_ELSEWHERE, /* nobody: it is the host's */
    FACET_POOL_ON_DEVICE,
    FACET_POOL_MANAGED, /* each GPU (managed.h) */
};

/* A pool was made, or one that the library had of itself was given out. False when memory is out: it is not known. */
bool facet_pool_made(void *pool, uint32_t device, enum facet_pool_place place);
bool facet_pool_met(void *pool, uint32_t device, enum facet_pool_place place);

/* Under the lock over the library's call, which answers 0 for success: a new pool may get the same handle after it. */
int facet_pool_destroy(void *pool, int (*destroy)(void *pool));
int facet_pool_trim(void *pool, uint64_t keep, int (*trim)(void *pool, uint64_t keep));

/* A form of it was made that others can open. */
void facet_pool_exported(void *pool);

void facet_pools_before_fork(void);
void facet_pools_after_fork(void);
void facet_pools_forked(void);

#endif
