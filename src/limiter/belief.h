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

/* The totals whose true value is lost once they were damaged. */
#define FACET_BELIEVED_LASTING (FACET_BELIEVED_ALL & ~FACET_BELIEVED_MEMORY)

/* No counter and no amount of memory can be larger: as nanoseconds, these are 36 years. */
#define FACET_BELIEVABLE_MAX (UINT64_C(1) << 60)

/*
 * The belief about one segment; all members are 0 before the first reading. With `begun` and `read_at_ns` 0 the belief
 * begins anew with the present totals, and keeps its doubts. An owner keeps the belief in a file (owner_belief.c).
 */
struct facet_belief {
    uint32_t begun;
    uint32_t doubted;            /* bits of FACET_BELIEVED_LASTING, once set, stay set */
    uint64_t memory_max_bytes;   /* the vGPU's largest quota so far, if the caller stores it here */
    uint64_t empty_at_ns;        /* a CLOCK_MONOTONIC time before any process entered the vGPU; 0: unknown */
    uint64_t first_slot_busy_ns; /* the most device time of one slot at the first reading */
    uint64_t read_at_ns;         /* time of the last reading; its totals follow */
    uint64_t busy_ns, launches, throttled_ns, denied;
    uint64_t peak_bytes; /* the highest peak that was believed; files of earlier releases end before this member */
};

/*
 * Which of `totals` can be believed (FACET_BELIEVED_*), given that no process can hold more than `memory_max_bytes`.
 * While a process has just been given memory and has not raised the peak yet, this call does not believe the peak
 * either.
 */
uint32_t facet_belief_check(struct facet_belief *belief, const struct facet_usage_totals *totals,
                            uint64_t memory_max_bytes, uint64_t now_ns);

#endif
