/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the bounds that a vGPU's totals must keep from one reading to the next; see belief.h. Never: repairs a total.
 */
#include "limiter/belief.h"

#include "base/integer.h"

/*
 * The most device time that may arrive between two readings (13 days): a process that was stopped reports all of its
 * device time when it continues. Launches and refusals may arrive at a rate of one a nanosecond, and EVENTS_AT_ONCE_MAX
 * more, because a process holds them until it reports them.
 */
#define TIME_AT_ONCE_MAX_NS (UINT64_C(1) << 50)
#define EVENTS_AT_ONCE_MAX  UINT64_C(1000000)

/*
 * A slot has one process at a time, which counts each moment once, so no slot has more device time than the vGPU is
 * old. The bound is wider than that for two reasons. An interposer that measures some launches by the device's clock,
 * others by the machine's clock, and estimates the remaining ones, counts a moment three times; a process that died is
 * charged from the earliest time of its last report. A charge made before the work ran is at most an hour
 * (opencl/track.c).
 */
#define MOMENT_COUNTED_MAX   4u
#define CHARGED_AHEAD_MAX_NS (UINT64_C(3600) * 1000000000)

/* Threads of a vGPU that wait to launch at the same time. */
#define WAITING_THREADS_MAX 32768u

static bool may_grow(uint64_t from, uint64_t to, uint64_t increase_max)
{
    return to >= from && to - from <= increase_max;
}

static uint32_t bit_if_doubted(bool believed, uint32_t bit)
{
    return believed ? 0 : bit;
}

/*
 * The most time that `threads` threads can have waited within `age_ns`; more than TIME_AT_ONCE_MAX_NS counts as that.
 */
static uint64_t waited_max_ns(uint64_t age_ns, uint64_t threads)
{
    return facet_min_u64(facet_min_u64(age_ns, TIME_AT_ONCE_MAX_NS / threads) * threads + CHARGED_AHEAD_MAX_NS,
                         TIME_AT_ONCE_MAX_NS);
}

static uint32_t doubt_totals(const struct facet_belief *belief, const struct facet_usage_totals *totals,
                             uint64_t now_ns)
{
    uint64_t age_ns = now_ns - belief->empty_at_ns, events_max = now_ns - belief->read_at_ns + EVENTS_AT_ONCE_MAX;
    /*
     * The sum over all slots is bounded by its increase, a single slot by its whole value: a vGPU may have thousands of
     * slots.
     */
    uint64_t slot_max_ns =
        facet_min_u64(age_ns, FACET_BELIEVABLE_MAX / MOMENT_COUNTED_MAX) * MOMENT_COUNTED_MAX + CHARGED_AHEAD_MAX_NS;

    return bit_if_doubted(may_grow(belief->busy_ns, totals->busy_ns, TIME_AT_ONCE_MAX_NS) &&
                              (totals->slot_busy_ns <= belief->first_slot_busy_ns ||
                               totals->slot_busy_ns - belief->first_slot_busy_ns <= slot_max_ns),
                          FACET_BELIEVED_BUSY) |
           bit_if_doubted(may_grow(belief->launches, totals->launches, events_max), FACET_BELIEVED_LAUNCHES) |
           bit_if_doubted(
               may_grow(belief->throttled_ns, totals->throttled_ns, waited_max_ns(age_ns, WAITING_THREADS_MAX)),
               FACET_BELIEVED_THROTTLED) |
           bit_if_doubted(may_grow(belief->denied, totals->denied, events_max), FACET_BELIEVED_DENIED) |
           bit_if_doubted(totals->memory_peak_bytes >= belief->peak_bytes, FACET_BELIEVED_PEAK);
}

static uint32_t impossible_totals(const struct facet_usage_totals *totals)
{
    return bit_if_doubted(totals->busy_ns <= FACET_BELIEVABLE_MAX, FACET_BELIEVED_BUSY) |
           bit_if_doubted(totals->launches <= FACET_BELIEVABLE_MAX, FACET_BELIEVED_LAUNCHES) |
           bit_if_doubted(totals->throttled_ns <= FACET_BELIEVABLE_MAX, FACET_BELIEVED_THROTTLED) |
           bit_if_doubted(totals->denied <= FACET_BELIEVABLE_MAX, FACET_BELIEVED_DENIED);
}

/* The values of the first reading are accepted. A slot's process can have begun at the machine's start. */
static void begin_belief(struct facet_belief *belief, const struct facet_usage_totals *totals, uint64_t now_ns)
{
    belief->begun = 1;
    belief->empty_at_ns = totals->slots_used ? 0 : now_ns;
    belief->first_slot_busy_ns = totals->slot_busy_ns;
}

uint32_t facet_belief_check(struct facet_belief *belief, const struct facet_usage_totals *totals,
                            uint64_t memory_max_bytes, uint64_t now_ns)
{
    /* Of two threads, the one that read the clock first may be the second to check. */
    if (now_ns < belief->read_at_ns)
        now_ns = belief->read_at_ns;
    belief->doubted |= impossible_totals(totals);
    if (belief->begun)
        belief->doubted |= doubt_totals(belief, totals, now_ns);
    else
        begin_belief(belief, totals, now_ns);
    if (totals->memory_peak_bytes <= memory_max_bytes)
        belief->peak_bytes = totals->memory_peak_bytes;
    belief->read_at_ns = now_ns;
    belief->busy_ns = totals->busy_ns;
    belief->launches = totals->launches;
    belief->throttled_ns = totals->throttled_ns;
    belief->denied = totals->denied;
    return FACET_BELIEVED_ALL &
           ~(belief->doubted | bit_if_doubted(totals->memory_bytes <= memory_max_bytes, FACET_BELIEVED_MEMORY) |
             bit_if_doubted(
                 totals->memory_peak_bytes <= memory_max_bytes &&
                     (totals->memory_peak_bytes >= totals->memory_bytes || totals->memory_bytes > memory_max_bytes),
                 FACET_BELIEVED_PEAK));
}
