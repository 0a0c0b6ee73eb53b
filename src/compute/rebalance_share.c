/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: shares that pass between the members of one device: lent while their owner is idle, given back when it has
 * work. Never: lets the shares of a device sum up to more than before, or than the device; see balance.h.
 */
#include <stddef.h>

#include "compute/balance_parts.h"

static bool has_work(const struct facet_balance_member *member)
{
    return member->queued_ns > 0 || member->active_kernels > 0;
}

/* The part of the device that no member holds. */
static uint32_t unassigned_milli(const struct facet_balance_plan *plan, uint32_t device)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->members[i].device == device && !plan->members[i].lost)
            sum += plan->members[i].share_milli;
    return sum < FACET_MILLI_WHOLE ? (uint32_t)(FACET_MILLI_WHOLE - sum) : 0;
}

static uint32_t milli_above(uint32_t value, uint32_t floor)
{
    return value > floor ? value - floor : 0;
}

/*
 * The part that a member can give up: after a long idle time all of its share that it does not use, otherwise the part
 * beyond its guarantee.
 */
static uint32_t releasable_milli(const struct facet_balance_plan *plan, const struct facet_balance_member *member)
{
    if (has_work(member) || member->idle_ns < plan->balance->config.idle_ns)
        return milli_above(member->share_milli, member->request_milli);
    return milli_above(member->share_milli, member->utilization_milli);
}

/* The part that may be lent again: members with work keep borrowed shares until a guarantee is called back. */
static uint32_t unused_milli(const struct facet_balance_plan *plan, const struct facet_balance_member *member)
{
    return has_work(member) ? 0 : releasable_milli(plan, member);
}

typedef uint32_t (*milli_func)(const struct facet_balance_plan *plan, const struct facet_balance_member *member);

static int find_richest(const struct facet_balance_plan *plan, int receiver, milli_func milli_of)
{
    int best = FACET_BALANCE_NONE;
    uint32_t max = 0;

    for (int i = 0; i < (int)plan->count; i++) {
        const struct facet_balance_member *member = &plan->members[i];

        if (i == receiver || member->lost || member->device != plan->members[receiver].device ||
            milli_of(plan, member) <= max)
            continue;
        best = i;
        max = milli_of(plan, member);
    }
    return best;
}

static void set_share(struct facet_balance_plan *plan, int index, uint32_t share_milli, uint64_t gain_ns)
{
    plan->members[index].share_milli = share_milli;
    plan->actions[plan->action_count++] = (struct facet_balance_action){
        .kind = FACET_BALANCE_ADJUST_SHARE,
        .member = index,
        .share_milli = share_milli,
        .gain_ns = gain_ns,
        .cost_ns = plan->balance->config.adjust_ns,
    };
}

/*
 * Raises the receiver's share by the unassigned part and by spare parts of other members, at most to `wanted`. The
 * donors' actions come first, so that the sum never exceeds the device.
 */
static void raise_share(struct facet_balance_plan *plan, int receiver, uint32_t wanted, milli_func milli_of,
                        uint64_t gain_ns)
{
    struct facet_balance_member *member = &plan->members[receiver];
    uint32_t missing = milli_above(wanted, member->share_milli), got = unassigned_milli(plan, member->device);

    got = got < missing ? got : missing;
    while (got < missing && plan->action_count + 1 < plan->actions_max) {
        int donor = find_richest(plan, receiver, milli_of);

        if (donor == FACET_BALANCE_NONE)
            break;
        uint32_t part = milli_of(plan, &plan->members[donor]);

        part = part < missing - got ? part : missing - got;
        set_share(plan, donor, plan->members[donor].share_milli - part, gain_ns);
        got += part;
    }
    if (got > 0 && plan->action_count < plan->actions_max)
        set_share(plan, receiver, member->share_milli + got, gain_ns);
}

void facet_balance_give_back(struct facet_balance_plan *plan)
{
    for (int i = 0; i < (int)plan->count && plan->action_count < plan->actions_max; i++) {
        const struct facet_balance_member *member = &plan->members[i];

        if (has_work(member) && !member->lost && !member->paused && member->share_milli < member->request_milli)
            raise_share(plan, i, member->request_milli, releasable_milli, FACET_BALANCE_NEVER);
    }
}

static uint32_t lendable_milli(const struct facet_balance_plan *plan, int receiver)
{
    uint64_t sum = unassigned_milli(plan, plan->members[receiver].device);

    for (int i = 0; i < (int)plan->count; i++)
        if (i != receiver && !plan->members[i].lost && plan->members[i].device == plan->members[receiver].device)
            sum += unused_milli(plan, &plan->members[i]);
    return sum < FACET_MILLI_WHOLE ? (uint32_t)sum : FACET_MILLI_WHOLE;
}

/* Lends only as much as brings the member's wait down to that of the others. */
bool facet_balance_lend(struct facet_balance_plan *plan, const struct facet_balance_waits *waits)
{
    struct facet_balance_member *member = &plan->members[waits->longest_waiting];
    uint64_t others = facet_balance_others_ns(waits);
    uint64_t wanted = facet_balance_scale(waits->longest_ns, member->share_milli ? member->share_milli : 1, others);
    uint32_t share = member->share_milli, more = lendable_milli(plan, waits->longest_waiting),
             used = plan->action_count;

    wanted = wanted < member->limit_milli ? wanted + 1 : member->limit_milli;
    if (wanted > share + more)
        wanted = share + more;
    if (wanted <= share)
        return false;
    member->share_milli = (uint32_t)wanted;
    uint64_t after = facet_balance_wait_ns(member);

    member->share_milli = share;
    if (facet_balance_sum(after, plan->balance->config.adjust_ns) >= waits->longest_ns)
        return false;
    raise_share(plan, waits->longest_waiting, (uint32_t)wanted, unused_milli, waits->longest_ns - after);
    return plan->action_count > used;
}
