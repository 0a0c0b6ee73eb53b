/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: charging the time since the last step to the clients that used it. Never: decides anything; see fair.h for the
 * model.
 *
 * Charging follows the device's timeline: clients that are on the device at once share the charge, so no moment is
 * charged twice. A client that was let in before the previous work was expected to end pays only from that end on, so
 * an early wake-up does not change the charges, which the order of a round follows. A late report of an end does not
 * change them either: a step before the report assumes that the work goes on, and the charge is corrected once the end
 * is known.
 */
#include "compute/fair_parts.h"

/* Until when in (last, now] this client had the device: a drained client had it until its last work ended. */
static uint64_t had_device_until(const struct facet_fair *fair, const struct facet_fair_client *client, uint64_t now_ns)
{
    if (client->demand.inflight || !client->draining)
        return now_ns;
    return facet_max_u64(fair->last_ns, facet_min_u64(now_ns, client->demand.idle_since_ns));
}

/* Whether the client had the device right after a moment. */
static bool had_device_at(const struct facet_fair *fair, const struct facet_fair_client *client, uint64_t at_ns,
                          uint64_t now_ns)
{
    return facet_fair_on_device(client) && client->lease_start_ns <= at_ns &&
           had_device_until(fair, client, now_ns) > at_ns;
}

/* The first moment after `from_ns` at which a client came to the device, or left it; at the latest now. */
static uint64_t next_change(struct facet_fair *fair, uint64_t from_ns, uint64_t now_ns, uint64_t *ret_sharers)
{
    uint64_t change = now_ns, sharers = 0;

    EACH_CLIENT (fair, client) {
        uint64_t until_ns = had_device_until(fair, client, now_ns);

        if (!facet_fair_on_device(client))
            continue;
        sharers += had_device_at(fair, client, from_ns, now_ns);
        if (until_ns > from_ns)
            change = facet_min_u64(change, until_ns);
        if (client->lease_start_ns > from_ns)
            change = facet_min_u64(change, client->lease_start_ns);
    }
    *ret_sharers = sharers;
    return change;
}

/* Whether a client shared the device with client `ended` at a moment before the last step. */
static bool shared_device_with(const struct facet_fair_client *client, const struct facet_fair_client *ended,
                               uint64_t at_ns)
{
    bool ended_too = client->draining && !client->demand.inflight;

    return client != ended && facet_fair_on_device(client) && !ended_too && client->lease_start_ns <= at_ns;
}

/*
 * The end of the stretch from `from_ns` during which no other client came to the device; at the latest the last step.
 */
static uint64_t unshared_until(struct facet_fair *fair, const struct facet_fair_client *ended, uint64_t from_ns,
                               uint64_t *ret_others)
{
    uint64_t until_ns = fair->last_ns;

    *ret_others = 0;
    EACH_CLIENT (fair, client) {
        *ret_others += shared_device_with(client, ended, from_ns);
        if (client->lease_start_ns > from_ns && shared_device_with(client, ended, client->lease_start_ns))
            until_ns = facet_min_u64(until_ns, client->lease_start_ns);
    }
    return until_ns;
}

/* Adds to a client's charge; `device_ns` may be negative. */
static void correct_charge(struct facet_fair_client *client, int64_t device_ns)
{
    client->charged_ns += (uint64_t)device_ns;
    client->timeline_ns += (uint64_t)device_ns;
    client->vtime += (uint64_t)(device_ns * (int64_t)FACET_MILLI_WHOLE / (int64_t)client->weight_milli);
}

/* A client's charge for the time after its end moves to the clients that had the device then. */
static void move_charge_after_end(struct facet_fair *fair, struct facet_fair_client *ended, uint64_t end_ns)
{
    uint64_t to_ns, others;

    for (uint64_t from_ns = end_ns; from_ns < fair->last_ns; from_ns = to_ns) {
        to_ns = unshared_until(fair, ended, from_ns, &others);
        int64_t part_ns = (int64_t)((to_ns - from_ns) / (others + 1));
        int64_t each_ns = others ? part_ns / (int64_t)others : 0;

        correct_charge(ended, -part_ns);
        EACH_CLIENT (fair, client)
            if (shared_device_with(client, ended, from_ns))
                correct_charge(client, each_ns);
    }
}

/*
 * Corrects for ends that were reported after the last step, at most by `handover_ns`: the time comes from the client's
 * own process and may be wrong.
 */
static void correct_late_ends(struct facet_fair *fair)
{
    uint64_t earliest_ns = fair->last_ns - facet_min_u64(fair->last_ns, fair->config.handover_ns);

    EACH_CLIENT (fair, client) {
        uint64_t end_ns = facet_max_u64(client->demand.idle_since_ns, client->lease_start_ns);

        if (client->draining && !client->demand.inflight && !client->overrun && end_ns < fair->last_ns)
            move_charge_after_end(fair, client, facet_max_u64(end_ns, earliest_ns));
    }
}

void facet_fair_charge(struct facet_fair *fair, uint64_t now_ns)
{
    uint64_t to_ns, sharers;

    correct_late_ends(fair);
    for (uint64_t from_ns = fair->last_ns; from_ns < now_ns; from_ns = to_ns) {
        to_ns = next_change(fair, from_ns, now_ns, &sharers);
        EACH_CLIENT (fair, client) {
            if (!had_device_at(fair, client, from_ns, now_ns))
                continue;
            client->charged_ns += (to_ns - from_ns) / sharers;
            client->timeline_ns += (to_ns - from_ns) / sharers;
            client->vtime += (to_ns - from_ns) * FACET_MILLI_WHOLE / client->weight_milli / sharers;
        }
    }
}
