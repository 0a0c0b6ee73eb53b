/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the arithmetic of settling and publishing. Never: credits the same moment of a device twice.
 *
 * A step gives out the time since the last one as credit: to each client at most what it can need, to a client that the
 * policy charges at most this charge, and to all clients together no more than has passed. Measured time is settled
 * from credit. Credit is kept only for work in flight, so an unused lease earns none.
 */
#include "compute/settle.h"

#include <facet/limits.h>

#include "base/integer.h"

__extension__ typedef unsigned __int128 settle_wide;

#define EACH_CLIENT(settle, client)                                                                                    \
    for (struct facet_settle_client *client = (settle)->clients; client < (settle)->clients + (settle)->clients_end;   \
         client++)                                                                                                     \
        if (client->used)

static uint64_t subtract_floored(uint64_t left, uint64_t right)
{
    return left > right ? left - right : 0;
}

static uint64_t add_saturating(uint64_t left, uint64_t right)
{
    uint64_t sum;
    return __builtin_add_overflow(left, right, &sum) ? UINT64_MAX : sum;
}

/* `value` x `part` / `whole`, which is not 0. */
static uint64_t scaled_ns(uint64_t value, uint64_t part, uint64_t whole)
{
    settle_wide product = (settle_wide)value * part / whole;
    return product > UINT64_MAX ? UINT64_MAX : (uint64_t)product;
}

/* Converts time of the client's part into time of the whole device. */
static uint64_t device_time_ns(const struct facet_settle_client *client, uint64_t own_ns)
{
    return client->part_milli == FACET_MILLI_WHOLE ? own_ns : scaled_ns(own_ns, client->part_milli, FACET_MILLI_WHOLE);
}

/*
 * The time that was measured and is not settled. Tenants can write the page: after a count that falls, counting starts
 * anew.
 */
static uint64_t unsettled_ns(const struct facet_settle_client *client)
{
    return device_time_ns(client, subtract_floored(client->demand.measured_ns, client->total.measured_ns));
}

/* The most that the work in flight can add to the measured time if it ended now. */
static uint64_t unmeasured_max_ns(const struct facet_settle_client *client, uint64_t now_ns)
{
    return client->demand.begun_ns ? device_time_ns(client, subtract_floored(now_ns, client->demand.begun_ns)) : 0;
}

/*
 * The policy's charge since the last credit. The policy may take some of it back; later charges make up for that first.
 */
static uint64_t charged_ns(const struct facet_settle_client *client)
{
    return subtract_floored(client->demand.charged_ns, client->credited_charge_ns);
}

static uint64_t wanted_ns(const struct facet_settle_client *client, uint64_t elapsed_ns, uint64_t now_ns)
{
    uint64_t most_ns = client->charged_by_policy ? charged_ns(client) : device_time_ns(client, elapsed_ns);
    uint64_t use_ns = add_saturating(unsettled_ns(client), unmeasured_max_ns(client, now_ns));

    return facet_min_u64(facet_min_u64(most_ns, elapsed_ns), subtract_floored(use_ns, client->credit_ns));
}

/* Gives out the time that has passed; when clients want more, in proportion to their wants. */
static void give_credit(struct facet_settle *settle, uint64_t elapsed_ns, uint64_t now_ns)
{
    settle_wide sum = 0;

    EACH_CLIENT (settle, client) {
        client->wanted_ns = wanted_ns(client, elapsed_ns, now_ns);
        sum += client->wanted_ns;
        if (client->demand.charged_ns > client->credited_charge_ns)
            client->credited_charge_ns = client->demand.charged_ns;
    }
    EACH_CLIENT (settle, client)
        client->credit_ns +=
            sum > elapsed_ns ? (uint64_t)((settle_wide)client->wanted_ns * elapsed_ns / sum) : client->wanted_ns;
}

/* The client's part of `passed_ns`. */
static uint64_t own_part_ns(const struct facet_settle_client *client, uint64_t passed_ns)
{
    return scaled_ns(passed_ns, facet_min_u64(client->demand.claim_milli, FACET_MILLI_WHOLE), FACET_MILLI_WHOLE);
}

/* Settles what the client measured, up to its part of a time in which nothing was settled. Returns the settled time. */
static uint64_t settle_own_part(struct facet_settle_client *client, uint64_t part_ns)
{
    uint64_t settled_ns = facet_min_u64(unsettled_ns(client), part_ns);

    client->total.settled_ns += settled_ns;
    client->total.measured_ns += scaled_ns(settled_ns, FACET_MILLI_WHOLE, client->part_milli);
    return settled_ns;
}

/* Settles all clients' parts of a time that was too long for a step; returns the rest of the time. */
static uint64_t settle_own_parts(struct facet_settle *settle, uint64_t elapsed_ns)
{
    uint64_t left_ns = elapsed_ns;

    if (elapsed_ns > FACET_SETTLE_STEP_MOST_NS)
        EACH_CLIENT (settle, client)
            left_ns -= settle_own_part(client, facet_min_u64(own_part_ns(client, elapsed_ns), left_ns));
    return left_ns;
}

/* Gives the time without a scheduler to the first clients that report work that ran in it. */
static void settle_missed_time(struct facet_settle *settle, struct facet_settle_client *client)
{
    uint64_t missing_ns = subtract_floored(unsettled_ns(client), client->credit_ns);
    uint64_t granted_ns = client->covers_missed_time ? facet_min_u64(settle->missed_ns, missing_ns) : 0;

    client->credit_ns += granted_ns;
    settle->missed_ns -= granted_ns;
    client->covers_missed_time = client->covers_missed_time && client->demand.begun_ns && !unsettled_ns(client);
}

static void settle_client(struct facet_settle *settle, struct facet_settle_client *client, uint64_t now_ns)
{
    settle_missed_time(settle, client);
    uint64_t settled_ns = facet_min_u64(unsettled_ns(client), client->credit_ns);

    client->total.settled_ns += settled_ns;
    client->total.measured_ns = client->demand.measured_ns;
    client->total.at_ns = now_ns;
    client->credit_ns = facet_min_u64(client->credit_ns - settled_ns, unmeasured_max_ns(client, now_ns));
}

static uint64_t lag_ns(const struct facet_settle_client *client)
{
    return client->total.settled_ns - client->total.published_ns;
}

static uint32_t count_behind(struct facet_settle *settle)
{
    uint32_t count = 0;

    EACH_CLIENT (settle, client)
        count += lag_ns(client) > 0;
    return count;
}

/* One round: a client whose lag is at most an equal part of `left_ns` is published in full. Returns what is left. */
static uint64_t publish_small_lags(struct facet_settle *settle, uint64_t left_ns, uint64_t part_ns)
{
    EACH_CLIENT (settle, client) {
        uint64_t lag = lag_ns(client);

        if (lag > part_ns)
            continue;
        client->total.published_ns += lag;
        left_ns -= lag;
    }
    return left_ns;
}

/* Small lags go first, so that one long launch does not delay the other clients' numbers. */
void facet_settle_publish(struct facet_settle *settle, uint64_t now_ns)
{
    uint64_t left_ns = subtract_floored(now_ns, settle->published_at_ns);
    uint32_t count, before = 0;

    settle->published_at_ns += left_ns;
    while ((count = count_behind(settle)) != 0 && count != before) {
        before = count;
        left_ns = publish_small_lags(settle, left_ns, left_ns / count);
    }
    EACH_CLIENT (settle, client)
        client->total.published_ns += facet_min_u64(lag_ns(client), count ? left_ns / count : 0);
}

void facet_settle_init(struct facet_settle *settle, uint64_t now_ns)
{
    *settle = (struct facet_settle){.last_step_ns = now_ns, .published_at_ns = now_ns};
}

static bool has_other_clients(struct facet_settle *settle, const struct facet_settle_client *except)
{
    EACH_CLIENT (settle, client)
        if (client != except)
            return true;
    return false;
}

/*
 * The time before the first client was added had no scheduler; steps give out only the time after that. Schedulers
 * before segment version 8 gave no parts: then all of it goes to the first clients that report work.
 */
static void begin_after_gap(struct facet_settle *settle, const struct facet_settle_client *client, uint64_t now_ns)
{
    if (!has_other_clients(settle, client))
        settle->last_step_ns = settle->published_at_ns = facet_max_u64(settle->last_step_ns, now_ns);
    settle->gap_ns = settle->unpublished_ns = subtract_floored(settle->last_step_ns, client->total.at_ns);
    settle->missed_ns = client->demand.claim_milli ? 0 : settle->gap_ns;
    settle->parts_left_ns = settle->gap_ns - settle->missed_ns;
    settle->gap_found = true;
}

static void settle_missed(struct facet_settle *settle, struct facet_settle_client *client, uint64_t now_ns)
{
    if (!settle->gap_found)
        begin_after_gap(settle, client, now_ns);

    uint64_t passed_ns = facet_min_u64(settle->gap_ns, subtract_floored(settle->last_step_ns, client->total.at_ns));
    uint64_t part_ns = facet_min_u64(own_part_ns(client, passed_ns), settle->parts_left_ns);
    client->covers_missed_time = true;
    settle->parts_left_ns -= part_ns;
    settle->missed_ns += part_ns - settle_own_part(client, part_ns);
    settle_client(settle, client, now_ns);
    client->covers_missed_time = client->demand.begun_ns != 0;

    uint64_t published_ns = facet_min_u64(lag_ns(client), settle->unpublished_ns);
    client->total.published_ns += published_ns;
    settle->unpublished_ns -= published_ns;
}

void facet_settle_add(struct facet_settle *settle, uint32_t index, bool charged_by_policy, uint32_t part_milli,
                      const struct facet_settled *before, const struct facet_settle_demand *demand, uint64_t now_ns)
{
    struct facet_settle_client *client = &settle->clients[index];

    *client = (struct facet_settle_client){.used = true,
                                           .charged_by_policy = charged_by_policy,
                                           .part_milli = part_milli,
                                           .total = *before,
                                           .demand = *demand};
    client->credited_charge_ns = demand->charged_ns;
    client->total.published_ns = facet_min_u64(before->published_ns, before->settled_ns);
    if (settle->clients_end <= index)
        settle->clients_end = index + 1;
    if (before->at_ns)
        settle_missed(settle, client, now_ns);
    else
        client->total.measured_ns = client->total.settled_ns = client->total.published_ns = demand->measured_ns;
}

void facet_settle_remove(struct facet_settle *settle, uint32_t index)
{
    settle->clients[index] = (struct facet_settle_client){0};
}

void facet_settle_step(struct facet_settle *settle, uint64_t now_ns)
{
    uint64_t elapsed_ns = settle_own_parts(settle, subtract_floored(now_ns, settle->last_step_ns));

    settle->last_step_ns = facet_max_u64(settle->last_step_ns, now_ns);
    give_credit(settle, elapsed_ns, settle->last_step_ns);
    EACH_CLIENT (settle, client)
        settle_client(settle, client, settle->last_step_ns);
    facet_settle_publish(settle, settle->last_step_ns);
}
