/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what belief.h says. Never: more. */
#include "limiter/belief.h"

/* More than any counter can be: 36 years of nanoseconds. */
#define MOST (UINT64_C(1) << 60)

/*
 * What may come at once of time: a process that was stopped reports all of it when it goes on, 13 days at the most. And
 * of launches and refusals, beside one a nanosecond: what was kept until it was reported.
 */
#define MOST_TIME_AT_ONCE_NS (UINT64_C(1) << 50)
#define MOST_AT_ONCE         UINT64_C(1000000)

static bool may_grow(uint64_t from, uint64_t to, uint64_t most)
{
    return to >= from && to - from <= most;
}

static uint32_t look_at(bool believed, uint32_t bit)
{
    return believed ? 0 : bit;
}

static uint32_t doubt(const struct facet_belief *belief, const struct facet_usage_totals *totals, uint64_t now_ns)
{
    const struct facet_usage_totals *last = &belief->last;
    uint64_t passed_ns = now_ns > belief->at_ns ? now_ns - belief->at_ns : 0, many = passed_ns + MOST_AT_ONCE;

    return look_at(may_grow(last->busy_ns, totals->busy_ns, MOST_TIME_AT_ONCE_NS), FACET_BELIEVED_BUSY) |
           look_at(may_grow(last->launches, totals->launches, many), FACET_BELIEVED_LAUNCHES) |
           look_at(may_grow(last->throttled_ns, totals->throttled_ns, MOST_TIME_AT_ONCE_NS), FACET_BELIEVED_THROTTLED) |
           look_at(may_grow(last->denied, totals->denied, many), FACET_BELIEVED_DENIED);
}

static uint32_t absurd(const struct facet_usage_totals *totals)
{
    return look_at(totals->busy_ns <= MOST, FACET_BELIEVED_BUSY) |
           look_at(totals->launches <= MOST, FACET_BELIEVED_LAUNCHES) |
           look_at(totals->throttled_ns <= MOST, FACET_BELIEVED_THROTTLED) |
           look_at(totals->denied <= MOST, FACET_BELIEVED_DENIED);
}

uint32_t facet_belief_look(struct facet_belief *belief, const struct facet_usage_totals *totals, uint64_t memory_most,
                           uint64_t now_ns)
{
    belief->doubted |= absurd(totals) | (belief->begun ? doubt(belief, totals, now_ns) : 0);
    belief->begun = true;
    belief->at_ns = now_ns;
    belief->last = *totals;
    return FACET_BELIEVED_ALL &
           ~(belief->doubted | look_at(totals->memory_bytes <= memory_most, FACET_BELIEVED_MEMORY) |
             look_at(totals->memory_peak_bytes <= memory_most, FACET_BELIEVED_PEAK));
}
