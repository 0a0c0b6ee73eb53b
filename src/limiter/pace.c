/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the arithmetic of pace.h. Never: overflows: a result out of range is capped. */
#include "limiter/pace.h"

#include <facet/limits.h>

static uint64_t add_capped(uint64_t left, uint64_t right)
{
    uint64_t sum;
    return __builtin_add_overflow(left, right, &sum) ? UINT64_MAX : sum;
}

static uint64_t subtract_floored(uint64_t left, uint64_t right)
{
    return left > right ? left - right : 0;
}

/* Rounds up: a charge is never less than the use is worth. */
static uint64_t scale_capped(uint64_t value, uint32_t numerator, uint32_t denominator)
{
    uint32_t divisor = denominator ? denominator : 1;
    uint64_t product;

    if (__builtin_mul_overflow(value, numerator, &product))
        return UINT64_MAX;
    return product / divisor + (product % divisor != 0);
}

/* The real time in which a share of `milli` is worth `busy_ns` of device time. */
static uint64_t real_time_ns(uint64_t busy_ns, uint32_t milli)
{
    return scale_capped(busy_ns, FACET_MILLI_WHOLE, milli);
}

/* Credit above a burst is dropped. */
static uint64_t credit_from_ns(uint64_t paid_ns, uint64_t burst_ns, uint64_t now_ns)
{
    uint64_t full_ns = subtract_floored(now_ns, burst_ns);

    return paid_ns > full_ns ? paid_ns : full_ns;
}

uint64_t facet_pace_take(_Atomic uint64_t *word, uint32_t milli, uint64_t busy_ns, uint64_t now_ns)
{
    uint64_t cost_ns = real_time_ns(busy_ns, milli), burst_ns = real_time_ns(FACET_PACE_BURST_NS, milli);
    uint64_t needed_ns = cost_ns < burst_ns ? cost_ns : burst_ns;
    uint64_t paid_ns = atomic_load_explicit(word, memory_order_relaxed), from_ns;

    do {
        from_ns = credit_from_ns(paid_ns, burst_ns, now_ns);
        if (add_capped(from_ns, needed_ns) > now_ns)
            return add_capped(from_ns, needed_ns) - now_ns;
    } while (!atomic_compare_exchange_weak(word, &paid_ns, add_capped(from_ns, cost_ns)));
    return 0;
}

uint64_t facet_pace_owed_ns(const _Atomic uint64_t *word, uint64_t now_ns)
{
    return subtract_floored(atomic_load_explicit(word, memory_order_relaxed), now_ns);
}

void facet_pace_charge(_Atomic uint64_t *word, uint32_t milli, uint64_t busy_ns, uint64_t now_ns)
{
    uint64_t cost_ns = real_time_ns(busy_ns, milli), burst_ns = real_time_ns(FACET_PACE_BURST_NS, milli);
    uint64_t paid_ns = atomic_load_explicit(word, memory_order_relaxed);

    while (
        !atomic_compare_exchange_weak(word, &paid_ns, add_capped(credit_from_ns(paid_ns, burst_ns, now_ns), cost_ns)))
        ;
}

/* Rounds down: the time reported as left can be taken. */
uint64_t facet_pace_left_ns(const _Atomic uint64_t *word, uint32_t milli, uint64_t now_ns)
{
    uint64_t burst_ns = real_time_ns(FACET_PACE_BURST_NS, milli);
    uint64_t from_ns = credit_from_ns(atomic_load_explicit(word, memory_order_relaxed), burst_ns, now_ns);
    uint64_t left_ns = subtract_floored(now_ns, from_ns) * milli / FACET_MILLI_WHOLE;

    return left_ns < FACET_PACE_BURST_NS ? left_ns : FACET_PACE_BURST_NS;
}

void facet_pace_rescale(_Atomic uint64_t *word, uint32_t old_milli, uint32_t new_milli, uint64_t now_ns)
{
    uint64_t paid_ns = atomic_load_explicit(word, memory_order_relaxed), new_paid_ns;

    do {
        uint64_t from_ns = credit_from_ns(paid_ns, real_time_ns(FACET_PACE_BURST_NS, old_milli), now_ns);

        new_paid_ns = from_ns > now_ns
                          ? add_capped(now_ns, scale_capped(from_ns - now_ns, old_milli, new_milli))
                          : subtract_floored(now_ns, (now_ns - from_ns) * old_milli / (new_milli ? new_milli : 1));
    } while (!atomic_compare_exchange_weak(word, &paid_ns, new_paid_ns));
}
