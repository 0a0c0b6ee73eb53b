/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a cap's credit, the part of it reserved for work in flight, and the time at which its client may launch again.
 * Never: decides which client goes next; see fair.h for the model.
 */
#include "compute/fair_parts.h"

#define MS UINT64_C(1000000)

/*
 * REOPEN_NS: the credit at which a closed client is let in again, so that it is not let in for a microsecond.
 * REOPEN_WAIT_NS: the longest time that a small cap may take to earn this credit, because the client waits all of that
 * time.
 */
#define REOPEN_NS      MS
#define REOPEN_WAIT_NS (2 * MS)

/*
 * The most that a cap is charged at once, and may owe: a process writes its own counters, and a faulty one writes any
 * value.
 */
#define BUSY_MAX_NS (UINT64_C(86400) * 1000 * MS)

/*
 * The credit reserved for work that should have ended. Such work may wait for a later call of its program; if all its
 * time stayed reserved, that program might never be let in to make the call.
 */
static uint64_t reserved_late_ns(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    return facet_min_u64(client->demand.inflight_ns, fair->config.burst_ns / 2);
}

/* When the work in flight should have ended, and its end should have been reported. */
static uint64_t overdue_ns(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    uint64_t end_ns = facet_fair_drained_ns(fair, client);

    return end_ns == FACET_FAIR_NEVER ? end_ns : end_ns + fair->config.burst_ns;
}

/*
 * The reserved credit: all that the work in flight is expected to take. Without this reserve a client would be let in
 * for a second launch before the first is charged, and would use the same credit twice.
 */
static int64_t reserved_credit_ns(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    bool late = fair->last_ns >= overdue_ns(fair, client);

    return (int64_t)(late ? reserved_late_ns(fair, client) : facet_min_u64(client->demand.inflight_ns, BUSY_MAX_NS));
}

/*
 * The credit is bounded by a burst or one launch, whichever is more, plus the reserved part. Without the reserved part
 * a long launch would lose the credit that accrues while it runs, or while it waits for another vGPU's launch.
 */
void facet_fair_cap_charge(const struct facet_fair *fair, struct facet_fair_client *client, uint64_t elapsed_ns)
{
    uint64_t grown = client->demand.busy_ns - client->cap_busy_ns;
    uint64_t busy = client->demand.busy_ns < client->cap_busy_ns ? 0 : facet_min_u64(grown, BUSY_MAX_NS);
    int64_t most_ns =
        (int64_t)facet_max_u64(fair->config.burst_ns, client->launch_ns) + reserved_credit_ns(fair, client);

    client->cap_busy_ns = client->demand.busy_ns;
    client->cap_credit_ns += (int64_t)(elapsed_ns * client->limit_milli / FACET_MILLI_WHOLE) - (int64_t)busy;
    if (client->cap_credit_ns > most_ns)
        client->cap_credit_ns = most_ns;
    if (client->cap_credit_ns < -(int64_t)BUSY_MAX_NS)
        client->cap_credit_ns = -(int64_t)BUSY_MAX_NS;
}

/* The credit that is left at `at_ns`, or now if that is past. */
static int64_t left_at_ns(const struct facet_fair *fair, const struct facet_fair_client *client, uint64_t at_ns)
{
    uint64_t ahead_ns = at_ns > fair->last_ns ? at_ns - fair->last_ns : 0;

    return client->cap_credit_ns - reserved_credit_ns(fair, client) +
           (int64_t)(ahead_ns * client->limit_milli / FACET_MILLI_WHOLE);
}

int64_t facet_fair_cap_left_ns(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    return left_at_ns(fair, client, client->lease_start_ns);
}

static int64_t reopen_ns(const struct facet_fair_client *client)
{
    return (int64_t)facet_min_u64(REOPEN_NS, REOPEN_WAIT_NS * client->limit_milli / FACET_MILLI_WHOLE);
}

/*
 * When the device would reach the client's next launch: now for a draining client, because only its own work comes
 * first.
 */
static uint64_t would_begin_ns(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    return client->draining ? fair->last_ns : fair->free_ns;
}

bool facet_fair_cap_lets_in(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    return !facet_fair_capped(client) || left_at_ns(fair, client, would_begin_ns(fair, client)) >= reopen_ns(client);
}

/* When the missing credit will have accrued, if nothing else changes. */
static uint64_t accrued_at_ns(const struct facet_fair *fair, const struct facet_fair_client *client, int64_t left_ns)
{
    int64_t missing_ns = reopen_ns(client) - left_ns;

    if (missing_ns <= 0)
        return fair->last_ns;
    return fair->last_ns + (uint64_t)missing_ns * FACET_MILLI_WHOLE / client->limit_milli + 1;
}

/*
 * When to check the cap first. Other clients may be given more work meanwhile, at most a turn's, so the cap is checked
 * repeatedly, from one turn before `opens_ns` on.
 */
static uint64_t check_from_ns(const struct facet_fair *fair, const struct facet_fair_client *client, uint64_t opens_ns)
{
    uint64_t turn_ns = fair->config.slice_ns;

    if (would_begin_ns(fair, client) <= fair->last_ns || opens_ns <= turn_ns)
        return opens_ns;
    return facet_min_u64(opens_ns, facet_max_u64(opens_ns - turn_ns, fair->last_ns + fair->config.handover_ns));
}

uint64_t facet_fair_cap_opens_ns(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    int64_t late_left_ns = client->cap_credit_ns - (int64_t)reserved_late_ns(fair, client);

    if (facet_fair_cap_lets_in(fair, client))
        return FACET_FAIR_NEVER;
    uint64_t opens_ns =
        facet_min_u64(accrued_at_ns(fair, client, client->cap_credit_ns - reserved_credit_ns(fair, client)),
                      facet_max_u64(overdue_ns(fair, client), accrued_at_ns(fair, client, late_left_ns)));
    return check_from_ns(fair, client, opens_ns);
}
