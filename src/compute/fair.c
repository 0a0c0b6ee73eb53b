/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the steps of the fair policy. Never: reads a clock or a segment; see fair.h for the model. */
#include "compute/fair.h"

#include <stddef.h>

#include "compute/fair_parts.h"

#define MS UINT64_C(1000000)

const struct facet_fair_config facet_fair_defaults = {
    .slice_ns = 2 * MS,
    .grace_ns = 60 * 1000,
    .overrun_ns = 100 * MS,
    .alone_ns = 20 * MS,
    .burst_ns = 10 * MS,
    .handover_ns = 150 * 1000,
    .bonus_ns = 10 * MS,
    .parallel = 1,
};

const struct facet_fair_config facet_fair_queue = {
    .by_work = true,
    .slice_ns = 2 * MS,
    .round_ns = 3600 * 1000,
    .least_turn_ns = 400 * 1000,
    .grace_ns = 60 * 1000,
    .overrun_ns = 100 * MS,
    .alone_ns = 20 * MS,
    .burst_ns = 10 * MS,
    .handover_ns = 400 * 1000,
    .bonus_ns = 10 * MS,
    .parallel = 1,
};

/* A best-effort client's weight when guarantees leave nothing. */
#define BEST_EFFORT_MIN_MILLI 20u

/* How many times in a turn the work in flight is checked. */
#define TURN_CHECKS 4u

static bool client_wants(const struct facet_fair_client *client)
{
    return client->demand.waiting || client->demand.inflight;
}

/* Whether the client would run if its gate opened: other clients give way only to such a client. */
static bool is_eligible(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    return !client->frozen && client->gate == FACET_FAIR_CLOSED && client->demand.waiting &&
           facet_fair_cap_lets_in(fair, client);
}

/* When the work in flight is expected to end; now when that is unknown or already past. */
static uint64_t ends_ns(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    uint64_t end_ns = facet_fair_drained_ns(fair, client);

    return client->demand.inflight && end_ns != FACET_FAIR_NEVER ? facet_max_u64(end_ns, fair->last_ns) : fair->last_ns;
}

/* When all work on the device is expected to end: the work of a client that is let in now comes after that. */
static uint64_t free_ns(struct facet_fair *fair)
{
    uint64_t free_ns = fair->last_ns;

    EACH_CLIENT (fair, client)
        if (facet_fair_by_work(fair) && facet_fair_on_device(client) && !client->overrun)
            free_ns = facet_max_u64(free_ns, ends_ns(fair, client));
    return free_ns;
}

/*
 * Virtual time as it counts in a comparison: a priority level is a bounded head start, so it does not break guarantees.
 * With exclusive leases the work in flight counts as done: it runs before any other client's.
 */
static int64_t rank_of_client(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    int64_t level = (int64_t)client->priority - FACET_PRIORITY_NORMAL;
    uint64_t coming_ns =
        facet_fair_by_work(fair) && facet_fair_on_device(client) ? ends_ns(fair, client) - fair->last_ns : 0;

    return (int64_t)(client->vtime + coming_ns * FACET_MILLI_WHOLE / client->weight_milli - fair->vtime_floor) -
           level * (int64_t)fair->config.bonus_ns;
}

/*
 * Whether a client is more than a slice ahead of another one that wants the device. With several leases at a time such
 * a client waits even if a lease is free. With exclusive leases the order of service already ensures that.
 */
static bool too_far_ahead(struct facet_fair *fair, const struct facet_fair_client *candidate)
{
    if (fair->config.parallel == 1)
        return false;
    EACH_CLIENT (fair, client)
        if (client != candidate &&
            (is_eligible(fair, client) || (facet_fair_on_device(client) && client_wants(client))) &&
            rank_of_client(fair, candidate) - rank_of_client(fair, client) > (int64_t)fair->config.slice_ns)
            return true;
    return false;
}

/*
 * A client that wanted the device lately still counts: a short gap between two launches does not free its part for
 * others.
 */
static bool wanted_lately(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    return client->active || (client->last_wanted_ns && fair->last_ns - client->last_wanted_ns < fair->config.alone_ns);
}

/* The weight of each best-effort client, counting all of them or only those that want the device. */
static uint32_t best_effort_milli(const struct facet_fair *fair, bool all)
{
    uint32_t guaranteed = 0, sharers = 0;

    for (size_t i = 0; i < fair->clients_end; i++) {
        const struct facet_fair_client *client = &fair->clients[i];

        if (!client->used)
            continue;
        guaranteed += client->request_milli;
        sharers += client->request_milli == 0 && (all || wanted_lately(fair, client));
    }
    uint32_t left = guaranteed < FACET_MILLI_WHOLE ? FACET_MILLI_WHOLE - guaranteed : 0;
    uint32_t part = left / (sharers ? sharers : 1);
    return part > BEST_EFFORT_MIN_MILLI ? part : BEST_EFFORT_MIN_MILLI;
}

/* A guarantee is a weight; the best-effort clients that want the device share the weight that guarantees leave. */
static void set_weights(struct facet_fair *fair)
{
    uint32_t part = best_effort_milli(fair, false);

    EACH_CLIENT (fair, client)
        client->weight_milli = client->request_milli ? client->request_milli : part;
}

void facet_fair_init(struct facet_fair *fair, const struct facet_fair_config *config, uint64_t now_ns)
{
    *fair = (struct facet_fair){.config = *config, .last_ns = now_ns};
}

static void apply_limits(struct facet_fair_client *client, const struct facet_limits *limits)
{
    client->request_milli = limits->compute_request_milli;
    client->limit_milli = limits->compute_limit_milli;
    client->priority = limits->priority;
}

int facet_fair_add(struct facet_fair *fair, const struct facet_limits *limits)
{
    for (size_t i = 0; i < FACET_FAIR_CLIENTS; i++) {
        struct facet_fair_client *client = &fair->clients[i];

        if (client->used)
            continue;
        *client = (struct facet_fair_client){
            .used = true, .vtime = fair->vtime_floor, .cap_credit_ns = (int64_t)fair->config.burst_ns};
        apply_limits(client, limits);
        if (fair->clients_end <= i)
            fair->clients_end = (uint32_t)i + 1;
        set_weights(fair);
        return (int)i;
    }
    return -1;
}

void facet_fair_remove(struct facet_fair *fair, int client)
{
    fair->clients[client] = (struct facet_fair_client){0};
    set_weights(fair);
}

void facet_fair_set_limits(struct facet_fair *fair, int client, const struct facet_limits *limits)
{
    apply_limits(&fair->clients[client], limits);
    set_weights(fair);
}

void facet_fair_set_frozen(struct facet_fair *fair, int client, bool frozen)
{
    fair->clients[client].frozen = frozen;
}

uint64_t facet_fair_others_ended_ns(struct facet_fair *fair, int client)
{
    if (!facet_fair_by_work(fair))
        return 0;
    EACH_CLIENT (fair, other)
        if (other != &fair->clients[client] && facet_fair_on_device(other))
            return 1;
    return fair->handed_over_ns;
}

uint32_t facet_fair_fallback_milli(const struct facet_fair *fair, int client)
{
    uint32_t request = fair->clients[client].request_milli, limit = fair->clients[client].limit_milli;

    if (request == 0)
        request = best_effort_milli(fair, true);
    return request < limit ? request : limit;
}

/* ---- accounting ---- */

/*
 * The device's virtual time follows the lowest virtual time of the clients that wanted it until now, and never goes
 * back.
 */
static void raise_floor(struct facet_fair *fair)
{
    uint64_t least = UINT64_MAX;

    EACH_CLIENT (fair, client)
        if (client->active)
            least = facet_min_u64(least, client->vtime);
    if (least != UINT64_MAX)
        fair->vtime_floor = facet_max_u64(fair->vtime_floor, least);
}

/* Notices clients that began or ceased to want the device. Time without demand earns no credit. */
static void note_demand(struct facet_fair *fair, struct facet_fair_client *client, uint64_t now_ns)
{
    if (client->draining && client->demand.inflight == 0) {
        client->draining = client->overrun = false;
        fair->handed_over_ns =
            facet_max_u64(fair->handed_over_ns, facet_min_u64(client->demand.idle_since_ns, now_ns | 1));
    }
    if (client->demand.inflight && client->demand.inflight_ns)
        client->launch_ns = client->demand.inflight_ns / client->demand.inflight;
    if (client_wants(client)) {
        client->last_wanted_ns = now_ns;
        facet_fair_begin_wanting(fair, client);
    }
    client->active = client_wants(client) || client->gate != FACET_FAIR_CLOSED;
}

static void account_time(struct facet_fair *fair, uint64_t now_ns)
{
    uint64_t elapsed = now_ns - fair->last_ns;

    facet_fair_charge(fair, now_ns);
    raise_floor(fair);
    EACH_CLIENT (fair, client) {
        facet_fair_note_lost(fair, client);
        facet_fair_cap_charge(fair, client, elapsed);
        note_demand(fair, client, now_ns);
    }
    fair->last_ns = now_ns;
    set_weights(fair);
    fair->round_milli = 0;
    EACH_CLIENT (fair, client)
        fair->round_milli += client->active ? client->weight_milli : 0;
}

/* ---- deciding ---- */

/* The length of a client's turn, given the other clients that want the device now. */
static uint64_t turn_ns(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    if (!facet_fair_by_work(fair) || fair->round_milli <= client->weight_milli)
        return fair->config.slice_ns;
    return facet_min_u64(
        fair->config.slice_ns,
        facet_max_u64(fair->config.least_turn_ns, fair->config.round_ns * client->weight_milli / fair->round_milli));
}

/* A turn of the client in virtual time. */
static int64_t turn_rank(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    return (int64_t)(turn_ns(fair, client) * FACET_MILLI_WHOLE / client->weight_milli);
}

static const struct facet_fair_client *least_ranked(struct facet_fair *fair)
{
    const struct facet_fair_client *best = NULL;

    EACH_CLIENT (fair, client)
        if (is_eligible(fair, client) && !too_far_ahead(fair, client) &&
            (!best || rank_of_client(fair, client) < rank_of_client(fair, best)))
            best = client;
    return best;
}

/*
 * Among the clients within half a turn of the least served, picks the client whose last turn is longest ago: otherwise
 * a charge that is a few microseconds off could change the order of a round, and a client would wait for nearly two
 * rounds.
 */
static struct facet_fair_client *next_client(struct facet_fair *fair)
{
    const struct facet_fair_client *least = least_ranked(fair);
    struct facet_fair_client *next = NULL;

    EACH_CLIENT (fair, client)
        if (least && is_eligible(fair, client) && !too_far_ahead(fair, client) &&
            rank_of_client(fair, client) <=
                rank_of_client(fair, least) + (facet_fair_by_work(fair) ? turn_rank(fair, client) / 2 : 0) &&
            (!next || client->lease_start_ns < next->lease_start_ns))
            next = client;
    return next;
}

static void close_gate(struct facet_fair_client *client)
{
    client->gate = FACET_FAIR_CLOSED;
    client->draining = true; /* until a later step finds nothing in flight: the client may have launched just now */
}

/* Since when a client could have launched work and has launched none. */
static uint64_t idle_since_ns(const struct facet_fair_client *client)
{
    return facet_max_u64(client->demand.idle_since_ns, client->lease_start_ns);
}

static bool idle_for_too_long(const struct facet_fair *fair, const struct facet_fair_client *client, uint64_t now_ns)
{
    return !client_wants(client) && now_ns >= idle_since_ns(client) + fair->config.grace_ns;
}

/*
 * Whether another launch like those in flight would exceed the end of the turn. The turn also ends when the client is a
 * turn or more ahead of the waiting client, as it can be after a cap held that client back.
 */
static bool turn_is_over(const struct facet_fair *fair, const struct facet_fair_client *client,
                         const struct facet_fair_client *other, uint64_t now_ns)
{
    const struct facet_fair_demand *demand = &client->demand;
    uint64_t next_ns = demand->inflight ? demand->inflight_ns / demand->inflight : 0;

    if (now_ns >= client->lease_end_ns)
        return true;
    if (!other || !facet_fair_by_work(fair))
        return false;
    return ends_ns(fair, client) + next_ns > client->lease_end_ns ||
           rank_of_client(fair, client) - rank_of_client(fair, other) >= turn_rank(fair, client);
}

/*
 * The new end of a lease that continues: when the client has had as much as the waiting client, but at most a turn
 * later.
 */
static uint64_t extended_ns(const struct facet_fair *fair, const struct facet_fair_client *client,
                            const struct facet_fair_client *other, uint64_t now_ns)
{
    uint64_t most_ns = turn_ns(fair, client);

    if (!other || !facet_fair_by_work(fair))
        return now_ns + most_ns;
    uint64_t behind_ns = (uint64_t)(rank_of_client(fair, other) - rank_of_client(fair, client)) * client->weight_milli /
                         FACET_MILLI_WHOLE;
    return ends_ns(fair, client) + facet_min_u64(facet_max_u64(behind_ns, fair->config.least_turn_ns), most_ns);
}

/*
 * Closes the gate of a leased or open client if it must leave, else continues its lease if needed. `other` is the best
 * waiting client.
 */
static void review_turn(struct facet_fair *fair, struct facet_fair_client *client,
                        const struct facet_fair_client *other, uint64_t now_ns)
{
    if (client->frozen || (facet_fair_capped(client) && facet_fair_cap_left_ns(fair, client) <= 0)) {
        close_gate(client);
        return;
    }
    if (client->gate == FACET_FAIR_OPEN && (other || facet_fair_capped(client) || too_far_ahead(fair, client))) {
        client->gate = FACET_FAIR_LEASED;
        client->lease_end_ns = now_ns + turn_ns(fair, client);
    }
    if (client->gate == FACET_FAIR_OPEN)
        return;
    if (other && idle_for_too_long(fair, client, now_ns)) {
        close_gate(client);
        return;
    }
    if (!turn_is_over(fair, client, other, now_ns))
        return;
    if ((other && rank_of_client(fair, other) < rank_of_client(fair, client)) || too_far_ahead(fair, client))
        close_gate(client);
    else
        client->lease_end_ns = extended_ns(fair, client, other, now_ns);
}

static bool nearly_drained(const struct facet_fair *fair, const struct facet_fair_client *client, uint64_t now_ns)
{
    uint64_t end_ns = facet_fair_drained_ns(fair, client);

    return client->draining && end_ns != FACET_FAIR_NEVER && now_ns + fair->config.handover_ns >= end_ns;
}

/*
 * How many leases are taken. One client that is about to end its drain is not counted, so that the next client's
 * launches can already come. A second one is counted, so that no more than two clients overlap in this way.
 */
static uint32_t leases_held(struct facet_fair *fair, uint64_t now_ns)
{
    uint32_t leases = 0, ending = 0;

    EACH_CLIENT (fair, client) {
        if (client->draining && now_ns >= client->lease_end_ns + fair->config.overrun_ns)
            client->overrun = true;
        leases += facet_fair_on_device(client) && !client->overrun;
        ending += !client->overrun && nearly_drained(fair, client, now_ns);
    }
    return ending && leases == fair->config.parallel ? leases - 1 : leases;
}

/* When the device reaches work that is launched now: after the work that is about to drain. */
static uint64_t next_start_ns(struct facet_fair *fair, uint64_t now_ns)
{
    uint64_t start_ns = now_ns;

    EACH_CLIENT (fair, client)
        if (facet_fair_by_work(fair) && client->draining && !client->overrun)
            start_ns = facet_max_u64(start_ns, ends_ns(fair, client));
    return start_ns;
}

static void grant_turns(struct facet_fair *fair, uint64_t now_ns)
{
    struct facet_fair_client *client;

    for (uint32_t leases = leases_held(fair, now_ns); leases < fair->config.parallel; leases++) {
        client = next_client(fair);
        if (!client)
            return;
        client->lease_start_ns = next_start_ns(fair, now_ns);
        client->lease_end_ns = client->lease_start_ns + turn_ns(fair, client);
        client->gate = FACET_FAIR_LEASED;
        client->draining = client->overrun = false;
    }
}

/* Opens the gate of an uncapped client that has had the device to itself for a while. */
static void open_if_alone(struct facet_fair *fair, uint64_t now_ns)
{
    struct facet_fair_client *only = NULL;

    EACH_CLIENT (fair, client) {
        if (!facet_fair_on_device(client) && now_ns - client->last_wanted_ns >= fair->config.alone_ns)
            continue;
        if (only)
            return;
        only = client;
    }
    if (only && only->gate == FACET_FAIR_LEASED && !facet_fair_capped(only))
        only->gate = FACET_FAIR_OPEN;
}

/*
 * A capped client that is alone has no more in flight than the cap's credit pays for: more would only wait long. A
 * client among others may have a turn's work in flight.
 */
static void set_depths(struct facet_fair *fair)
{
    uint32_t active = 0;

    EACH_CLIENT (fair, client)
        active += client->active;
    EACH_CLIENT (fair, client) {
        uint64_t credit_ns = client->cap_credit_ns > 0 ? (uint64_t)client->cap_credit_ns : 0;

        client->depth_ns = turn_ns(fair, client);
        if (facet_fair_capped(client) && active <= 1)
            client->depth_ns = facet_min_u64(client->depth_ns, credit_ns);
    }
}

/* ---- the time of the next step ---- */

/*
 * While others wait, the work in flight is checked several times a turn: finished launches are followed by new ones,
 * which reach the end of the turn before the turn is over.
 */
static uint64_t turn_deadline(const struct facet_fair *fair, const struct facet_fair_client *client, uint64_t now_ns)
{
    uint64_t deadline = client->lease_end_ns;

    if (facet_fair_by_work(fair)) {
        uint64_t filled_ns = deadline - facet_min_u64(deadline, client->demand.inflight_ns);
        uint64_t check_ns = facet_min_u64(facet_max_u64(filled_ns, now_ns + fair->config.handover_ns),
                                          now_ns + turn_ns(fair, client) / TURN_CHECKS);

        deadline = facet_min_u64(deadline, client->lease_start_ns > now_ns ? client->lease_start_ns : check_ns);
    }
    return client_wants(client) ? deadline : facet_min_u64(deadline, idle_since_ns(client) + fair->config.grace_ns);
}

static uint64_t client_deadline(const struct facet_fair *fair, const struct facet_fair_client *client, bool contended,
                                uint64_t now_ns)
{
    uint64_t deadline = FACET_FAIR_NEVER;

    if (client->draining && !client->overrun && !nearly_drained(fair, client, now_ns)) {
        deadline = client->lease_end_ns + fair->config.overrun_ns;
        if (facet_fair_drained_ns(fair, client) != FACET_FAIR_NEVER)
            deadline = facet_min_u64(deadline, facet_fair_drained_ns(fair, client) - fair->config.handover_ns);
    }
    if (client->gate == FACET_FAIR_LEASED && contended)
        deadline = facet_min_u64(deadline, turn_deadline(fair, client, now_ns));
    if (client->gate == FACET_FAIR_LEASED && !facet_fair_capped(client))
        deadline = facet_min_u64(deadline, now_ns + fair->config.alone_ns);
    if (facet_fair_capped(client) && client->gate == FACET_FAIR_CLOSED && client->demand.waiting && !client->frozen)
        deadline = facet_min_u64(deadline, facet_fair_cap_opens_ns(fair, client));
    if (facet_fair_capped(client) && client->gate == FACET_FAIR_LEASED) {
        int64_t left_ns = facet_fair_cap_left_ns(fair, client);

        deadline = facet_min_u64(deadline, now_ns + (uint64_t)(left_ns > 0 ? left_ns : 0));
    }
    return facet_max_u64(deadline, now_ns + 1);
}

uint64_t facet_fair_step(struct facet_fair *fair, uint64_t now_ns)
{
    uint64_t deadline = FACET_FAIR_NEVER;

    now_ns = facet_max_u64(now_ns, fair->last_ns);
    account_time(fair, now_ns);
    fair->free_ns = free_ns(fair);

    const struct facet_fair_client *other = next_client(fair);
    EACH_CLIENT (fair, client)
        if (client->gate != FACET_FAIR_CLOSED)
            review_turn(fair, client, other, now_ns);
    grant_turns(fair, now_ns);
    open_if_alone(fair, now_ns);
    set_depths(fair);

    bool contended = false;
    EACH_CLIENT (fair, client)
        contended = contended || is_eligible(fair, client) || (fair->config.parallel > 1 && client_wants(client));
    EACH_CLIENT (fair, client)
        deadline = facet_min_u64(deadline, client_deadline(fair, client, contended, now_ns));
    return deadline;
}
