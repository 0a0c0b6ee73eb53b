/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: who pays for the time since the last step. Never: decides anything; see fair.h for the model.
 *
 * Walks the device's timeline: clients on it at once share the charge, so nobody pays for the same moment twice. Who
 * was let in before the last one's work was to end pays from that end on: the order of a round is by what was charged,
 * and how early somebody was woken is nothing to him.
 */
#include "compute/fair_parts.h"

/* Until when in (last, now] this client had the device: a drained one had it until its last work ended. */
static uint64_t had_until(const struct facet_fair *fair, const struct facet_fair_client *client, uint64_t now_ns)
{
    if (client->demand.inflight || !client->draining)
        return now_ns;
    return facet_fair_later(fair->last_ns, facet_fair_sooner(now_ns, client->demand.idle_since_ns));
}

/* Whether it had the device right after a moment. */
static bool had_at(const struct facet_fair *fair, const struct facet_fair_client *client, uint64_t at_ns,
                   uint64_t now_ns)
{
    return facet_fair_on_device(client) && client->lease_start_ns <= at_ns && had_until(fair, client, now_ns) > at_ns;
}

/* The first moment after `from_ns` at which somebody came to the device, or left it; at the latest now. */
static uint64_t next_change(struct facet_fair *fair, uint64_t from_ns, uint64_t now_ns, uint64_t *ret_sharers)
{
    uint64_t change = now_ns, sharers = 0;

    EACH_CLIENT(fair, client)
    {
        uint64_t until_ns = had_until(fair, client, now_ns);

        if (!facet_fair_on_device(client))
            continue;
        sharers += had_at(fair, client, from_ns, now_ns);
        if (until_ns > from_ns)
            change = facet_fair_sooner(change, until_ns);
        if (client->lease_start_ns > from_ns)
            change = facet_fair_sooner(change, client->lease_start_ns);
    }
    *ret_sharers = sharers;
    return change;
}

void facet_fair_charge(struct facet_fair *fair, uint64_t now_ns)
{
    uint64_t to_ns, sharers;

    for (uint64_t from_ns = fair->last_ns; from_ns < now_ns; from_ns = to_ns) {
        to_ns = next_change(fair, from_ns, now_ns, &sharers);
        EACH_CLIENT(fair, client)
        {
            if (!had_at(fair, client, from_ns, now_ns))
                continue;
            client->held_ns += (to_ns - from_ns) / sharers;
            client->vtime += (to_ns - from_ns) * FACET_MILLI_WHOLE / client->weight_milli / sharers;
        }
    }
}
