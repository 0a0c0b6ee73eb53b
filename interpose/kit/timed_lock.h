/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock with a bounded wait. A thread that checks launches in flight holds it: the helper (track.h), or a thread of
 * the program that has just waited for launches and reports them before it goes on.
 *
 * Owns: the lock.
 * Never: makes a thread wait longer than its limit: the holder calls the driver, which may call the program.
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

/* False after `most_ns`, and at once for the thread that holds the lock already. */
bool facet_timed_lock_take(struct facet_timed_lock *lock, uint64_t most_ns);
void facet_timed_lock_release(struct facet_timed_lock *lock);

/* Frees the lock in the child of fork(). */
void facet_timed_lock_forked(struct facet_timed_lock *lock);

#endif
