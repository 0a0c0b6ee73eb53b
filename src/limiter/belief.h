/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of a vGPU's totals can be believed.
 *
 * Owns: bounds on a segment's sums, from one reading to the next. Never: repairs anything, or reads a clock.
 *
 * Tenants can write the page, and a program with a stray pointer writes anywhere. Counters only grow, and no faster
 * than time passes; memory never exceeds the largest quota that the vGPU had, and its peak neither falls nor is less
 * than what is held. A counter or peak that broke the rule once is never believed again, because its true value is
 * lost. Small damage looks like work, and is not found.
 *
 * Values are believed as long as they can be true: memory up to the largest quota; device time of one slot, at once, up
 * to four times the vGPU's age (a process that was stopped reports everything when it continues) and an hour more
 * (belief.c says why); waiting time of very many threads; a launch and a refusal for each nanosecond.
 */
#ifndef FACET_LIMITER_BELIEF_H
#define FACET_LIMITER_BELIEF_H

#include "limiter/segment.h"

#define FACET_BELIEVED_MEMORY    (UINT32_C(1) << 0)
#define FACET_BELIEVED_PEAK      (UINT32_C(1) << 1)
#define FACET_BELIEVED_BUSY      (UINT32_C(1) << 2)
#define FACET_BELIEVED_LAUNCHES  (UINT32_C(1) << 3)
#define FACET_BELIEVED_THROTTLED (UINT32_C(1) << 4)
#define FACET_BELIEVED_DENIED    (UINT32_C(1) << 5)
#define FACET_BELIEVED_ALL       ((UINT32_C(1) << 6) - 1)

/* Those whose true value is lost once they were damaged. */
#define FACET_BELIEVED_LASTING (FACET_BELIEVED_ALL & ~FACET_BELIEVED_MEMORY)

/* More than any counter or any amount of memory can be: 36 years of nanoseconds. */
#define FACET_BELIEVABLE_MAX (UINT64_C(1) << 60)

/*
 * One per segment that is checked; all 0 before the first reading. With `begun` and `read_at_ns` 0 it begins anew with
 * the present totals, and keeps its doubts. An owner keeps it in a file (owner_belief.c).
 */
struct facet_belief {
    uint32_t begun;
    uint32_t doubted;          /* FACET_BELIEVED_LASTING alone: forever */
    uint64_t memory_max_bytes; /* the vGPU's largest quota so far; for a caller that stores it here */
    uint64_t empty_at_ns;      /* CLOCK_MONOTONIC of when no process had entered it yet; 0: before the first reading */
    uint64_t first_slot_busy_ns; /* the most device time of one slot at that reading */
    uint64_t read_at_ns;         /* of the last reading, and its totals */
    uint64_t busy_ns, launches, throttled_ns, denied;
    uint64_t peak_bytes; /* the highest that was believed; files of earlier releases end before it */
};

/*
 * Which of `totals` can be believed (FACET_BELIEVED_*), given that no process can hold more than `memory_max_bytes`.
 * The peak is not believed, this time, either while a process has just been given memory and not raised it yet.
 */
uint32_t facet_belief_check(struct facet_belief *belief, const struct facet_usage_totals *totals,
                            uint64_t memory_max_bytes, uint64_t now_ns);

#endif
