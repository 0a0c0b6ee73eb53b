/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the helpers that fair.c and fair_*.c share. Never: is included elsewhere; fair.h describes the model. */
#ifndef FACET_COMPUTE_FAIR_PARTS_H
#define FACET_COMPUTE_FAIR_PARTS_H

#include "base/integer.h"
#include "compute/fair.h"

#define EACH_CLIENT(fair, client)                                                                                      \
    for (struct facet_fair_client *client = (fair)->clients; client < (fair)->clients + (fair)->clients_end; client++) \
        if (client->used)

/* Whether turns are counted in work, and a turn's length is a part of a round. */
static inline bool facet_fair_by_work(const struct facet_fair *fair)
{
    return fair->config.by_work && fair->config.parallel == 1;
}

/* Whether the client has work on the device, or keeps others off it. */
static inline bool facet_fair_on_device(const struct facet_fair_client *client)
{
    return client->gate != FACET_FAIR_CLOSED || client->draining;
}

static inline bool facet_fair_capped(const struct facet_fair_client *client)
{
    return client->limit_milli < FACET_MILLI_WHOLE;
}

/*
 * When the work in flight is expected to end; FACET_FAIR_NEVER when unknown. It began when earlier work on the device
 * ended.
 */
static inline uint64_t facet_fair_drained_ns(const struct facet_fair *fair, const struct facet_fair_client *client)
{
    uint64_t began_ns =
        facet_max_u64(facet_max_u64(client->demand.idle_since_ns, client->lease_start_ns), fair->handed_over_ns);

    return client->demand.inflight_ns ? began_ns + client->demand.inflight_ns : FACET_FAIR_NEVER;
}

/* Charges the clients for their device time since the last step. */
void facet_fair_charge(struct facet_fair *fair, uint64_t now_ns);

/*
 * A client begins to want the device: time without demand earns no credit. No effect on a client that wanted it
 * already.
 */
void facet_fair_begin_wanting(const struct facet_fair *fair, struct facet_fair_client *client);

/*
 * Notices that lost launches are followed again: they are on the device, in a turn or not, and the time for which they
 * ran while not followed is charged. To be called before the cap is charged for this time.
 */
void facet_fair_note_lost(const struct facet_fair *fair, struct facet_fair_client *client);

/* ---- caps (fair_cap.c); "now" is the time of the step, fair->last_ns ---- */

/* A cap is charged the client's own measured device time, however many clients share the device. */
void facet_fair_cap_charge(const struct facet_fair *fair, struct facet_fair_client *client, uint64_t elapsed_ns);

/* The cap's credit, less the work in flight; before the client's turn begins, the value at that beginning. */
int64_t facet_fair_cap_left_ns(const struct facet_fair *fair, const struct facet_fair_client *client);

/*
 * facet_fair_cap_lets_in(): whether the cap lets in a client whose gate is closed, with the credit that it will have
 * when the device reaches its launches. facet_fair_cap_opens_ns(): when to check again; FACET_FAIR_NEVER if the cap
 * lets the client in already, because it then waits only for others, whose own deadlines apply.
 */
bool facet_fair_cap_lets_in(const struct facet_fair *fair, const struct facet_fair_client *client);
uint64_t facet_fair_cap_opens_ns(const struct facet_fair *fair, const struct facet_fair_client *client);

#endif
