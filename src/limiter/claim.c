/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: claims of device time; see claim.h. Never: adds to a vGPU's claim before the device's word has changed: so a
 * process that is killed in between leaves time unclaimed, and not claimed twice.
 */
#include "limiter/claim.h"

#include "base/integer.h"

static uint64_t believed_until_ns(uint64_t claimed_until_ns, uint64_t now_ns)
{
    return claimed_until_ns <= now_ns ? claimed_until_ns : 0;
}

uint64_t facet_claim_until_ns(const struct facet_bell *bell, uint64_t now_ns)
{
    return believed_until_ns(atomic_load(&bell->claimed_until_ns), now_ns);
}

/* Takes at most `wanted_ns` of the time since `settled_at_ns`; returns the taken time. */
static uint64_t take_time(struct facet_bell *bell, uint64_t settled_at_ns, uint64_t wanted_ns, uint32_t divisor,
                          uint64_t now_ns)
{
    uint64_t claimed_until_ns = atomic_load(&bell->claimed_until_ns), from_ns, taken_ns;

    do {
        from_ns = facet_max_u64(believed_until_ns(claimed_until_ns, now_ns), settled_at_ns);
        taken_ns = from_ns < now_ns ? facet_min_u64(wanted_ns, (now_ns - from_ns) / divisor) : 0;
        if (!taken_ns)
            return 0;
    } while (!atomic_compare_exchange_weak(&bell->claimed_until_ns, &claimed_until_ns, from_ns + taken_ns));
    return taken_ns;
}

static void add_claim(struct facet_usage *usage, uint64_t settled_ns, uint64_t taken_ns)
{
    uint64_t claimed_ns = atomic_load(&usage->claimed_ns);

    while (!atomic_compare_exchange_weak(&usage->claimed_ns, &claimed_ns,
                                         facet_max_u64(claimed_ns, settled_ns) + taken_ns))
        ;
}

void facet_claim(const struct facet_policy *policy, struct facet_usage *usage, struct facet_bell *bell,
                 uint32_t divisor, uint64_t now_ns)
{
    const struct facet_device_time time = facet_policy_device_time(policy, usage);
    uint64_t wanted_ns = time.at_ns ? facet_device_time_unclaimed(&time, facet_usage_busy(usage)) : 0;
    uint64_t taken_ns = wanted_ns ? take_time(bell, time.at_ns, wanted_ns, divisor, now_ns) : 0;

    if (taken_ns)
        add_claim(usage, time.settled_ns, taken_ns);
}
