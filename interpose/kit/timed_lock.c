/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the lock. Never: calls anything but the clock and the futex. */
#include "timed_lock.h"

#include <pthread.h>

#include "base/clock.h"
#include "limiter/segment.h"

enum {
    FREE,
    TAKEN,
    WAITED_FOR,
};

/*
 * A waiting thread sets WAITED_FOR before each sleep, and keeps it when it gets the lock: others may sleep behind it.
 */
static bool wait_for(struct facet_timed_lock *lock, uint64_t most_ns)
{
    uint64_t end_ns = facet_clock_now_ns() + most_ns, now_ns;
    bool taken;

    while (!(taken = atomic_exchange(&lock->word, WAITED_FOR) == FREE) && (now_ns = facet_clock_now_ns()) < end_ns)
        facet_futex_wait(&lock->word, WAITED_FOR, end_ns - now_ns);
    return taken;
}

bool facet_timed_lock_take(struct facet_timed_lock *lock, uint64_t most_ns)
{
    uintptr_t self = (uintptr_t)pthread_self();
    uint32_t word = FREE;

    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == self)
        return false;
    if (!atomic_compare_exchange_strong(&lock->word, &word, TAKEN) && !(most_ns && wait_for(lock, most_ns)))
        return false;
    atomic_store_explicit(&lock->owner, self, memory_order_relaxed);
    return true;
}

void facet_timed_lock_release(struct facet_timed_lock *lock)
{
    atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
    if (atomic_exchange(&lock->word, FREE) == WAITED_FOR)
        facet_futex_wake(&lock->word);
}

void facet_timed_lock_forked(struct facet_timed_lock *lock)
{
    atomic_store(&lock->owner, 0);
    atomic_store(&lock->word, FREE);
}
