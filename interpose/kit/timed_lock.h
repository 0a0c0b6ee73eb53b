/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock that a thread gives up waiting for. Its holder checks launches in flight: the helper, or a program's thread
 * that has just waited for some and reports them before it goes on.
 *
 * Owns: a lock with a bounded wait.
 * Never: keeps a program waiting for a driver: the holder calls the driver, which may call the program.
 */
#ifndef FACET_INTERPOSE_TIMED_LOCK_H
#define FACET_INTERPOSE_TIMED_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct facet_timed_lock {
    _Atomic uint32_t word;   /* futex word: free, taken, or taken with waiters */
    _Atomic uintptr_t owner; /* the thread that holds it */
};

/* False after `most_ns`, and at once for the thread that holds it already. */
bool facet_timed_lock_take(struct facet_timed_lock *lock, uint64_t most_ns);
void facet_timed_lock_end(struct facet_timed_lock *lock);

/* In the child of fork(): it is free. */
void facet_timed_lock_forked(struct facet_timed_lock *lock);

#endif
