/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the lock. Never: calls anything but the clock and the futex. */
#include "turn.h"

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
static bool wait_for(struct facet_turn *turn, uint64_t most_ns)
{
    uint64_t end_ns = facet_clock_now_ns() + most_ns, now_ns;
    bool taken;

    while (!(taken = atomic_exchange(&turn->word, WAITED_FOR) == FREE) && (now_ns = facet_clock_now_ns()) < end_ns)
        facet_futex_wait(&turn->word, WAITED_FOR, end_ns - now_ns);
    return taken;
}

bool facet_turn_take(struct facet_turn *turn, uint64_t most_ns)
{
    uintptr_t self = (uintptr_t)pthread_self();
    uint32_t word = FREE;

    if (atomic_load_explicit(&turn->owner, memory_order_relaxed) == self)
        return false;
    if (!atomic_compare_exchange_strong(&turn->word, &word, TAKEN) && !(most_ns && wait_for(turn, most_ns)))
        return false;
    atomic_store_explicit(&turn->owner, self, memory_order_relaxed);
    return true;
}

void facet_turn_end(struct facet_turn *turn)
{
    atomic_store_explicit(&turn->owner, 0, memory_order_relaxed);
    if (atomic_exchange(&turn->word, FREE) == WAITED_FOR)
        facet_futex_wake(&turn->word);
}

void facet_turn_forked(struct facet_turn *turn)
{
    atomic_store(&turn->owner, 0);
    atomic_store(&turn->word, FREE);
}
