/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: a cap's credit, what of it is spoken for, and when it lets its client in again. Never: decides whose turn it
 * is; see fair.h for the model. */
#include "compute/fair_parts.h"

#define MS UINT64_C(1000000)

/*
 * A cap's credit after which a closed client is let in again, so that it is not let in for a microsecond; and the time
 * that it may take to come by it: what a client is let have at once, it waits for at once.
 */
#define REOPEN_NS      MS
#define REOPEN_WAIT_NS (2 * MS)

/* What a cap is charged with at once, and may owe, at most: a process writes its own counters, and one that goes wild
 * writes anything there. */
#define BUSY_MOST_NS (UINT64_C(86400) * 1000 * MS)

/* What is held of work that should have ended: it may wait for something that its program does later, and would never
 * end if all of it were. */
static uint64_t held_late_ns(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    return facet_fair_sooner(client->demand.inflight_ns, fair->config.burst_ns / 2);
}

/* When the work in flight should have ended, and its end should have been told. */
static uint64_t overdue_ns(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    uint64_t end_ns = facet_fair_drained_ns(fair, client);

    return end_ns == FACET_FAIR_NEVER ? end_ns : end_ns + fair->config.burst_ns;
}

/*
 * What of the credit is spoken for: all that the work in flight is expected to take. Who was let in because it has not
 * been charged yet would pay for two at once.
 */
static int64_t held_ns(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    bool late = fair->last_ns >= overdue_ns(fair, client);

    return (int64_t)(late ? held_late_ns(fair, client) : facet_fair_sooner(client->demand.inflight_ns, BUSY_MOST_NS));
}

/*
 * What may be saved up is a burst, and a launch at least, beside what is spoken for: one that is longer would lose what
 * its cap gains while it runs, or while it waits for another vGPU's.
 */
void facet_fair_cap_charge(const struct facet_fair *fair, struct facet_fair_client *client, uint64_t elapsed_ns)
{
    uint64_t grown = client->demand.busy_ns - client->cap_busy_ns;
    uint64_t busy = client->demand.busy_ns < client->cap_busy_ns ? 0 : facet_fair_sooner(grown, BUSY_MOST_NS);
    int64_t most_ns = (int64_t)facet_fair_later(fair->config.burst_ns, client->launch_ns) + held_ns(fair, client);

    client->cap_busy_ns = client->demand.busy_ns;
    client->cap_credit_ns += (int64_t)(elapsed_ns * client->limit_milli / FACET_MILLI_WHOLE) - (int64_t)busy;
    if (client->cap_credit_ns > most_ns)
        client->cap_credit_ns = most_ns;
    if (client->cap_credit_ns < -(int64_t)BUSY_MOST_NS)
        client->cap_credit_ns = -(int64_t)BUSY_MOST_NS;
}

/* What is left at a moment that is not before now. */
static int64_t left_at_ns(const struct facet_fair *fair, const struct facet_fair_client *client, uint64_t at_ns)
{
    uint64_t ahead_ns = at_ns > fair->last_ns ? at_ns - fair->last_ns : 0;

    return client->cap_credit_ns - held_ns(fair, client) +
           (int64_t)(ahead_ns * client->limit_milli / FACET_MILLI_WHOLE);
}

int64_t facet_fair_cap_left_ns(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    return left_at_ns(fair, client, client->lease_start_ns);
}

static int64_t reopen_ns(const struct facet_fair_client *client)
{
    return (int64_t)facet_fair_sooner(REOPEN_NS, REOPEN_WAIT_NS * client->limit_milli / FACET_MILLI_WHOLE);
}

/* When the device would come to what it launches now. Behind work of its own it has none to look forward to. */
static uint64_t would_begin_ns(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    return client->draining ? fair->last_ns : fair->free_ns;
}

bool facet_fair_cap_lets_in(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    return !facet_fair_capped(client) || left_at_ns(fair, client, would_begin_ns(fair, client)) >= reopen_ns(client);
}

/* When what is left has become what it must be, if nothing else changes. */
static uint64_t comes_by_ns(const struct facet_fair *fair, const struct facet_fair_client *client, int64_t left_ns)
{
    int64_t missing_ns = reopen_ns(client) - left_ns;

    if (missing_ns <= 0)
        return fair->last_ns;
    return fair->last_ns + (uint64_t)missing_ns * FACET_MILLI_WHOLE / client->limit_milli + 1;
}

/* Others are given more to do meanwhile, at most a turn's: from so long before it is looked at now and then. */
static uint64_t look_ns(const struct facet_fair *fair, const struct facet_fair_client *client, uint64_t opens_ns)
{
    uint64_t turn_ns = fair->config.slice_ns;

    if (would_begin_ns(fair, client) <= fair->last_ns || opens_ns <= turn_ns)
        return opens_ns;
    return facet_fair_sooner(opens_ns, facet_fair_later(opens_ns - turn_ns, fair->last_ns + fair->config.handover_ns));
}

uint64_t facet_fair_cap_opens_ns(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    int64_t late_left_ns = client->cap_credit_ns - (int64_t)held_late_ns(fair, client);

    if (facet_fair_cap_lets_in(fair, client))
        return FACET_FAIR_NEVER;
    uint64_t opens_ns =
        facet_fair_sooner(comes_by_ns(fair, client, client->cap_credit_ns - held_ns(fair, client)),
                          facet_fair_later(overdue_ns(fair, client), comes_by_ns(fair, client, late_left_ns)));
    return look_ns(fair, client, opens_ns);
}
