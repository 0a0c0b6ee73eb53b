/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what fair.c and fair_*.c share. Never: included from elsewhere; fair.h is the manual. */
#ifndef FACET_COMPUTE_FAIR_PARTS_H
#define FACET_COMPUTE_FAIR_PARTS_H

#include "compute/fair.h"

#define EACH_CLIENT(fair, client)                                                                                      \
    for (struct facet_fair_client *client = (fair)->clients; client < (fair)->clients + (fair)->top; client++)         \
        if (client->used)

static inline uint64_t facet_fair_later(uint64_t left, uint64_t right)
{
    return left > right ? left : right;
}

static inline uint64_t facet_fair_sooner(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

/* Turns are counted in work, and lengths are parts of a round. */
static inline bool facet_fair_by_work(const struct facet_fair *fair)
{
    return fair->config.by_work && fair->config.parallel == 1;
}

/* Has work of its own on the device, or keeps others off it. */
static inline bool facet_fair_on_device(const struct facet_fair_client *client)
{
    return client->gate != FACET_FAIR_CLOSED || client->draining;
}

static inline bool facet_fair_capped(const struct facet_fair_client *client)
{
    return client->limit_milli < FACET_MILLI_WHOLE;
}

/* When the work in flight is expected to end, if anybody can tell; it began when what was before it on the device
 * ended. */
static inline uint64_t facet_fair_drained_ns(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    uint64_t began_ns =
        facet_fair_later(facet_fair_later(client->demand.idle_since_ns, client->lease_start_ns), fair->handed_over_ns);

    return client->demand.inflight_ns ? began_ns + client->demand.inflight_ns : FACET_FAIR_NEVER;
}

/* Charges what the clients had of the device since the last step. */
void facet_fair_charge(struct facet_fair *fair, uint64_t now_ns);

/* A client begins to want the device: the time in which it did not is not saved up. Nothing for one that did. */
void facet_fair_comes_back(const struct facet_fair *fair, struct facet_fair_client *client);

/*
 * Notices that launches which were lost are followed again: they are on the device, turn or not, and what turns out to
 * have run meanwhile is charged. To be called before the cap is charged for it.
 */
void facet_fair_find_lost(const struct facet_fair *fair, struct facet_fair_client *client);

/* ---- caps (fair_cap.c); "now" is the step's, fair->last_ns ---- */

/* A cap is held against the device time that was measured, whoever else runs. */
void facet_fair_cap_charge(const struct facet_fair *fair, struct facet_fair_client *client, uint64_t elapsed_ns);

/* Its credit, less what is in flight; while its turn is yet to begin, as of then. */
int64_t facet_fair_cap_left_ns(const struct facet_fair *fair, const struct facet_fair_client *client);

/*
 * Whether it lets a client in that is closed now: with what it has come by when the device comes to it, behind the work
 * of others. And when to look whether it does; FACET_FAIR_NEVER where it does already: who has enough waits for others,
 * and they have deadlines of their own.
 */
bool facet_fair_cap_lets_in(const struct facet_fair *fair, const struct facet_fair_client *client);
uint64_t facet_fair_cap_opens_ns(const struct facet_fair *fair, const struct facet_fair_client *client);

#endif
