/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the steps of residence.h. Never: asks a client for more than is missing, or ends a turn early. */
#include "compute/residence.h"

#include <stddef.h>

#include "base/integer.h"

#define MS UINT64_C(1000000)

const struct facet_residence_config facet_residence_defaults = {
    .least_turn_ns = 100 * MS,
    .turn_factor = 20,
    .idle_ns = 200 * MS,
    .settle_ns = 20 * MS,
    .leave_ns = 5000 * MS,
    .patience_ns = 30000 * MS,
};

/* The weight of a best-effort client. */
#define BEST_EFFORT_MILLI 20u

#define EACH_CLIENT(residence, client)                                                                                 \
    for (struct facet_residence_client *client = (residence)->clients;                                                 \
         client < (residence)->clients + (residence)->clients_end; client++)                                           \
        if (client->used)

void facet_residence_init(struct facet_residence *residence, const struct facet_residence_config *config,
                          uint64_t now_ns)
{
    *residence = (struct facet_residence){.config = *config, .incoming = -1, .last_ns = now_ns};
}

void facet_residence_set_weight(struct facet_residence *residence, int client, uint32_t weight_milli)
{
    residence->clients[client].weight_milli = weight_milli ? weight_milli : BEST_EFFORT_MILLI;
}

int facet_residence_add(struct facet_residence *residence, uint32_t weight_milli)
{
    for (uint32_t i = 0; i < FACET_RESIDENCE_CLIENTS; i++) {
        if (residence->clients[i].used)
            continue;
        residence->clients[i] = (struct facet_residence_client){.used = true, .most_bytes = FACET_RESIDENCE_ALL};
        facet_residence_set_weight(residence, (int)i, weight_milli);
        if (i >= residence->clients_end)
            residence->clients_end = i + 1;
        return (int)i;
    }
    return -1;
}

void facet_residence_remove(struct facet_residence *residence, int client)
{
    if (residence->clients[client].demand.resident_bytes)
        residence->memory_gone_ns = residence->last_ns;
    residence->clients[client] = (struct facet_residence_client){0};
    if (residence->incoming == client)
        residence->incoming = -1;
}

/* ---- the state of a client ---- */

static bool has_whole_set(const struct facet_residence_client *client)
{
    return !client->demand.waiting_resident && client->demand.resident_bytes >= client->demand.set_bytes;
}

static bool client_waits(const struct facet_residence_client *client)
{
    return client->demand.waiting_resident && !client->demand.frozen;
}

/* Whether the client was brought in and its turn is not over. */
static bool in_turn(const struct facet_residence_client *client, uint64_t now_ns)
{
    return now_ns < client->turn_end_ns;
}

static uint64_t idle_from_ns(const struct facet_residence *residence, const struct facet_residence_client *client)
{
    return client->demand.used_ns + facet_max_u64(residence->config.idle_ns, client->cost_ns);
}

static bool is_idle(const struct facet_residence *residence, const struct facet_residence_client *client,
                    uint64_t now_ns)
{
    return client->demand.frozen || (!client->demand.busy && now_ns >= idle_from_ns(residence, client));
}

/* The client's bytes on the device, less those that it was asked to give. */
static uint64_t kept_bytes(const struct facet_residence_client *client)
{
    return facet_min_u64(client->demand.resident_bytes, client->most_bytes);
}

static bool client_owes(const struct facet_residence_client *client)
{
    return client->demand.resident_bytes > kept_bytes(client);
}

/* ---- waiting for clients that give way ---- */

/*
 * A client's time of patience_ns begins anew whenever it gives memory. The time spent waiting for a stuck client does
 * not count as moving.
 */
static void watch_residents(struct facet_residence *residence, uint64_t now_ns)
{
    uint64_t patience_ns = residence->config.patience_ns;

    EACH_CLIENT (residence, client) {
        bool gives = client->demand.resident_bytes < client->last_resident_bytes, was_stuck = client->stuck;

        client->last_resident_bytes = client->demand.resident_bytes;
        if (gives && client - residence->clients != residence->incoming)
            residence->memory_gone_ns = now_ns;
        if (!client_owes(client))
            client->owes_since_ns = 0;
        else if (gives || !client->owes_since_ns)
            client->owes_since_ns = now_ns;
        client->stuck = client_owes(client) && patience_ns && now_ns - client->owes_since_ns >= patience_ns;
        if (client->stuck && !was_stuck)
            residence->moving_ns -= facet_min_u64(residence->moving_ns, now_ns - client->owes_since_ns);
    }
}

/* The earliest time at which a client that owes memory becomes stuck. */
static uint64_t patience_ends_ns(struct facet_residence *residence)
{
    uint64_t soonest = FACET_RESIDENCE_NEVER;

    if (!residence->config.patience_ns)
        return soonest;
    EACH_CLIENT (residence, client)
        if (client_owes(client) && !client->stuck)
            soonest = facet_min_u64(soonest, facet_max_u64(client->owes_since_ns, residence->last_ns) +
                                                 residence->config.patience_ns);
    return soonest;
}

/* ---- charging ---- */

static uint64_t least_active_vtime(struct facet_residence *residence)
{
    uint64_t least = UINT64_MAX;

    EACH_CLIENT (residence, client)
        if (client->active)
            least = facet_min_u64(least, client->vtime);
    return least == UINT64_MAX ? 0 : least;
}

/*
 * Charges each client that has its set on the device and uses it. A client that did not want to be on the device earns
 * no credit for its absence.
 */
static void account_time(struct facet_residence *residence, uint64_t now_ns)
{
    uint64_t floor = least_active_vtime(residence), elapsed = now_ns - residence->last_ns;

    EACH_CLIENT (residence, client) {
        bool uses = has_whole_set(client) && client->demand.set_bytes && !is_idle(residence, client, now_ns);

        if (uses)
            client->vtime += elapsed * 1000 / client->weight_milli;
        if ((uses || client_waits(client)) && !client->active)
            client->vtime = facet_max_u64(client->vtime, floor);
        client->active = uses || client_waits(client);
    }
    if (residence->incoming >= 0 && !residence->waiting)
        residence->moving_ns += elapsed;
    residence->last_ns = now_ns;
}

/* ---- which client is brought in ---- */

static uint32_t least_weight(struct facet_residence *residence)
{
    uint32_t least = UINT32_MAX;

    EACH_CLIENT (residence, client)
        if (client->active)
            least = client->weight_milli < least ? client->weight_milli : least;
    return least;
}

static void begin_turn(struct facet_residence *residence, struct facet_residence_client *client, uint64_t now_ns)
{
    client->cost_ns = residence->moving_ns;
    uint64_t turn_ns = facet_max_u64(residence->config.least_turn_ns, residence->config.turn_factor * client->cost_ns);
    uint32_t least = least_weight(residence);

    if (residence->config.turn_factor == 0)
        turn_ns = 0;
    else if (least < client->weight_milli)
        turn_ns = turn_ns / least * client->weight_milli;
    client->turn_end_ns = now_ns + turn_ns;
}

/*
 * Whether the incoming client's turn has not begun, and another client needs more memory within its own turn. That
 * other client is brought in first.
 */
static bool must_replace_incoming(struct facet_residence *residence, uint64_t now_ns)
{
    if (in_turn(&residence->clients[residence->incoming], now_ns))
        return false;
    EACH_CLIENT (residence, client)
        if (client_waits(client) && in_turn(client, now_ns))
            return true;
    return false;
}

static void release_incoming(struct facet_residence *residence, uint64_t now_ns)
{
    struct facet_residence_client *client = &residence->clients[residence->incoming];

    if (client_waits(client))
        return;
    if (has_whole_set(client) && client->demand.set_bytes && !in_turn(client, now_ns))
        begin_turn(residence, client, now_ns);
    residence->incoming = -1;
}

/* A client that waits within its own turn has asked for more memory: it goes before those that wait for a turn. */
static bool is_before(const struct facet_residence_client *client, const struct facet_residence_client *other,
                      uint64_t now_ns)
{
    if (in_turn(client, now_ns) != in_turn(other, now_ns))
        return in_turn(client, now_ns);
    return client->vtime < other->vtime;
}

static void choose_incoming(struct facet_residence *residence, uint64_t now_ns)
{
    struct facet_residence_client *best = NULL;

    EACH_CLIENT (residence, client)
        if (client_waits(client) && (!best || is_before(client, best, now_ns)))
            best = client;
    if (!best || best - residence->clients == residence->incoming)
        return;
    residence->incoming = (int)(best - residence->clients);
    residence->moving_ns = 0;
    residence->waiting = false;
    best->most_bytes = FACET_RESIDENCE_ALL;
}

/*
 * A waiting client other than the incoming one must not take the memory that others free for the incoming client. A
 * client that cannot swap is no longer asked.
 */
static void hold_other_waiters(struct facet_residence *residence)
{
    EACH_CLIENT (residence, client) {
        if (client == &residence->clients[residence->incoming])
            continue;
        if (client->demand.cannot_swap)
            client->most_bytes = FACET_RESIDENCE_ALL;
        if (client->demand.waiting_resident)
            client->most_bytes = kept_bytes(client);
    }
}

/* ---- which clients give way ---- */

enum readiness { READY_NOT_WHOLE, READY_IDLE, READY_TURN_OVER, NOT_READY };

static enum readiness readiness_of(const struct facet_residence *residence, const struct facet_residence_client *client,
                                   uint64_t now_ns)
{
    if (client->demand.waiting_resident || client->demand.resident_bytes < client->demand.set_bytes)
        return READY_NOT_WHOLE;
    if (is_idle(residence, client, now_ns))
        return READY_IDLE;
    return now_ns >= client->turn_end_ns ? READY_TURN_OVER : NOT_READY;
}

static bool may_be_asked(const struct facet_residence *residence, const struct facet_residence_client *client)
{
    return client != &residence->clients[residence->incoming] && kept_bytes(client) && !client->demand.cannot_swap &&
           !client->stuck;
}

static struct facet_residence_client *next_to_send_out(struct facet_residence *residence, uint64_t now_ns)
{
    struct facet_residence_client *best = NULL;
    enum readiness best_readiness = NOT_READY;

    EACH_CLIENT (residence, client) {
        enum readiness readiness = readiness_of(residence, client, now_ns);

        if (!may_be_asked(residence, client) || readiness == NOT_READY)
            continue;
        if (!best || readiness < best_readiness || (readiness == best_readiness && client->vtime > best->vtime)) {
            best = client;
            best_readiness = readiness;
        }
    }
    return best;
}

/* The bytes that clients were asked for and have not given yet, except those of stuck clients. */
static uint64_t requested_bytes(struct facet_residence *residence)
{
    uint64_t bytes = 0;

    EACH_CLIENT (residence, client)
        if (client != &residence->clients[residence->incoming] && !client->stuck)
            bytes += client->demand.resident_bytes - kept_bytes(client);
    return bytes;
}

/* The earliest time at which another client may be asked to give way. */
static uint64_t next_readiness_ns(struct facet_residence *residence, uint64_t now_ns)
{
    uint64_t soonest = FACET_RESIDENCE_NEVER;

    EACH_CLIENT (residence, client) {
        if (!may_be_asked(residence, client))
            continue;
        soonest = facet_min_u64(soonest, client->turn_end_ns);
        if (!client->demand.busy)
            soonest = facet_min_u64(soonest, idle_from_ns(residence, client));
    }
    return soonest == FACET_RESIDENCE_NEVER ? soonest : facet_max_u64(soonest, now_ns + 1);
}

static bool any_may_be_asked(struct facet_residence *residence)
{
    EACH_CLIENT (residence, client)
        if (may_be_asked(residence, client))
            return true;
    return false;
}

/*
 * Asks other clients to give way. The incoming client may not have taken yet the memory that just became free, so it
 * gets settle_ns before more is asked for.
 */
static uint64_t make_room(struct facet_residence *residence, uint64_t now_ns)
{
    struct facet_residence_client *incoming = &residence->clients[residence->incoming], *client;
    uint64_t coming = requested_bytes(residence), wanted = incoming->demand.refused_bytes;

    residence->waiting = false;
    incoming->most_bytes = FACET_RESIDENCE_ALL;
    if (coming)
        residence->settled_until_ns = now_ns + residence->config.settle_ns;
    if (coming || !wanted)
        return patience_ends_ns(residence);
    if (now_ns < residence->settled_until_ns)
        return residence->settled_until_ns;
    while (wanted && (client = next_to_send_out(residence, now_ns))) {
        uint64_t gives = facet_min_u64(wanted, kept_bytes(client));

        client->most_bytes = kept_bytes(client) - gives;
        wanted -= gives;
    }
    if (!wanted)
        return patience_ends_ns(residence);
    residence->waiting = true;
    if (any_may_be_asked(residence))
        return next_readiness_ns(residence, now_ns);
    if (now_ns < residence->memory_gone_ns + residence->config.leave_ns)
        return facet_min_u64(patience_ends_ns(residence), residence->memory_gone_ns + residence->config.leave_ns);
    incoming->most_bytes = FACET_RESIDENCE_LAST;
    return FACET_RESIDENCE_NEVER;
}

uint64_t facet_residence_step(struct facet_residence *residence, uint64_t now_ns)
{
    now_ns = facet_max_u64(now_ns, residence->last_ns);
    account_time(residence, now_ns);
    watch_residents(residence, now_ns);
    if (residence->incoming >= 0)
        release_incoming(residence, now_ns);
    if (residence->incoming < 0 || must_replace_incoming(residence, now_ns))
        choose_incoming(residence, now_ns);
    if (residence->incoming < 0)
        return FACET_RESIDENCE_NEVER;
    hold_other_waiters(residence);
    return make_room(residence, now_ns);
}
